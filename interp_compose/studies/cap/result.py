"""The result of a CAP study: one accuracy per layer and pooling protocol, and what it rests on.

Three tidy tables: ``clean`` (one row per example, the model untouched), ``outcomes`` (one row per
example, layer and protocol) and ``frame`` (one row per layer and protocol, computed from them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from interp_compose._public import public
from interp_compose.checks import labelled
from interp_compose.errors import InputError, LayerError, OptionError
from interp_compose.plots.chart import answers_note
from interp_compose.runs.result import environment_versions
from interp_compose.stats.intervals import share_interval, wilson_interval
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import typed

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure


POOLINGS: Final = ("mean", "max", "sum")
CONTROLS: Final = ("last", "shuffled")

OUTCOME_COLUMNS: Final = {
    "example": "int64",
    "layer": "int64",
    "pooling": "str",
    "prediction": "int64",
    "correct": "bool",
    "target_logprob": "float64",
    "target_rank": "int64",
}
CLEAN_COLUMNS: Final = {
    "example": "int64",
    "prompt": "str",
    "answer": "str",
    "prediction": "int64",
    "prediction_text": "str",
    "correct": "bool",
    "target_logprob": "float64",
    "target_rank": "int64",
    "affected": "bool",
    "n_tokens": "int64",
    "n_groups": "int64",
}


def checked_clean(clean: pd.DataFrame) -> pd.DataFrame:
    """``clean`` with its columns typed and ordered, one row per example, sorted by example.

    Raises:
        InputError: see :meth:`CapCurve.from_outcomes`.
    """
    table = _ranked("clean", clean, CLEAN_COLUMNS)
    if table.empty:
        raise InputError("clean has no rows; a curve needs at least one example")
    doubled = table["example"][table["example"].duplicated()]
    if len(doubled):
        raise InputError(
            f"clean has example {doubled.iloc[0]} more than once; expected one row each"
        )
    return table.sort_values("example", ignore_index=True)


def checked_outcomes(outcomes: pd.DataFrame, clean: pd.DataFrame, *, n_layers: int) -> pd.DataFrame:
    """``outcomes`` typed, complete and sorted by example, layer and pooling.

    Raises:
        InputError, LayerError, OptionError: see :meth:`CapCurve.from_outcomes`.
    """
    table = _ranked("outcomes", outcomes, OUTCOME_COLUMNS)
    if table.empty:
        raise InputError("outcomes has no rows; a curve needs at least one layer and protocol")
    for name in table["pooling"].unique():
        if name not in POOLINGS + CONTROLS:
            raise OptionError(
                f"outcomes has the pooling {name!r}; expected {', '.join(POOLINGS + CONTROLS)}"
            )
    outside = table["layer"][(table["layer"] < 0) | (table["layer"] >= n_layers)]
    if len(outside):
        raise LayerError(
            f"outcomes has layer {outside.iloc[0]}, but the model has layers 0 … {n_layers - 1}"
        )
    _check_complete(table, clean)
    _check_unaffected(table, clean)
    order = table["pooling"].map({name: i for i, name in enumerate(POOLINGS + CONTROLS)})
    return table.iloc[np.lexsort((order, table["layer"], table["example"]))].reset_index(drop=True)


def _check_complete(table: pd.DataFrame, clean: pd.DataFrame) -> None:
    """Every example once at every (layer, pooling) that occurs."""
    key = ["example", "layer", "pooling"]
    doubled = table[table.duplicated(key)]
    if len(doubled):
        example, layer, pooling = doubled.iloc[0][key]
        raise InputError(
            f"outcomes has example {example} at layer {layer}, {pooling}, more than once; "
            "expected one row each"
        )
    unknown = sorted(set(table["example"]) - set(clean["example"]))
    if unknown:
        raise InputError(f"outcomes has example {unknown[0]}, which clean has not")
    for (layer, pooling), rows in table.groupby(["layer", "pooling"], sort=True):
        if len(rows) < len(clean):
            missing = sorted(set(clean["example"]) - set(rows["example"]))
            raise InputError(
                f"outcomes lacks example {missing[0]} at layer {layer}, {pooling} "
                f"({len(missing)} in all); every example needs a row, unaffected ones carry "
                "their clean outcome"
            )


def _check_unaffected(table: pd.DataFrame, clean: pd.DataFrame) -> None:
    """Where there is nothing to pool, the outcome is the clean one."""
    what = ["prediction", "correct", "target_rank", "target_logprob"]
    untouched = clean.loc[~clean["affected"], ["example", *what]]
    pairs = table.merge(untouched, on="example", suffixes=("", "_clean"))
    for column in what:
        off = pairs[pairs[column] != pairs[f"{column}_clean"]]
        if len(off):
            row = off.iloc[0]
            raise InputError(
                f"example {row['example']} has no unit of several tokens, yet its {column} at "
                f"layer {row['layer']}, {row['pooling']}, is {row[column]} and not the clean "
                f"{row[f'{column}_clean']}; copy the clean outcome"
            )


def _ranked(name: str, frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """The columns in their types, ranks from 1 on."""
    table = typed(name, frame, columns)
    low = table["target_rank"][table["target_rank"] < 1]
    if len(low):
        raise InputError(
            f"{name}.target_rank is {low.iloc[0]} in row {low.index[0]}; expected "
            "a rank, 1 for the most likely token"
        )
    return table


__all__ = ["CONTROLS", "POOLINGS", "CapCurve", "compare_curves"]

AVERAGE: Final = "average"


@public
@dataclass(frozen=True, eq=False, repr=False)
class CapCurve(StudyResult):
    """What constituent-aware pooling does to a model, layer by layer (CARMA, section 3).

    Make one with :meth:`from_outcomes`; keep it with :meth:`~Result.save`; read it back with
    :meth:`~Result.load`.
    """

    TABLES = ("curve", "outcomes", "clean")
    FIGURES = ("cap_curve",)

    @classmethod
    def from_outcomes(
        cls,
        outcomes: pd.DataFrame,
        clean: pd.DataFrame,
        config: Mapping[str, Any],
        *,
        n_layers: int,
    ) -> CapCurve:
        """Summarise per-example outcomes.

        Args:
            outcomes: one row per example, layer and pooling, *all* examples included (one that
                pooling cannot change carries its clean outcome). Columns: example, layer,
                pooling, prediction (token id), correct, target_logprob (nats), target_rank.
            clean: one row per example. Columns: example, prompt, answer, prediction,
                prediction_text, correct, target_logprob, target_rank, affected (has a
                multi-token unit), n_tokens, n_groups.
            config: what was run, in JSON's types.
            n_layers: of the model; depth is layer / (n_layers - 1), so that 0 is the embeddings
                and 1 the entry of the last block (0 for a model of one block).

        Raises:
            InputError: a column is missing, foreign or of the wrong type; a number is not finite;
                rows are missing or doubled; an unaffected example's outcome is not its clean one.
            LayerError: a layer outside 0 … n_layers - 1.
            OptionError: a pooling that is none of POOLINGS and CONTROLS.
        """
        clean = checked_clean(clean)
        outcomes = checked_outcomes(outcomes, clean, n_layers=n_layers)
        frames = {
            "curve": _summarise(outcomes, clean, n_layers),
            "outcomes": outcomes,
            "clean": clean,
        }
        return cls(config=config, frames=frames, versions=environment_versions())

    @property
    def frame(self) -> pd.DataFrame:
        """One row per layer and pooling.

        Columns: layer; depth (0 … 1); pooling; accuracy over all n examples, with its Wilson 95 %
        interval ci_low, ci_high; accuracy_kept, the share still correct of the n_clean_correct
        examples that the clean model got right (NaN when there are none); target_logprob (mean,
        nats); target_rank (median; 1 is the most likely token); n; n_affected; n_clean_correct;
        clean_accuracy; clean_target_logprob (mean).
        """
        return self.frames["curve"]

    @property
    def outcomes(self) -> pd.DataFrame:
        """One row per example, layer and protocol: see :meth:`from_outcomes`."""
        return self.frames["outcomes"]

    @property
    def clean(self) -> pd.DataFrame:
        """One row per example, the model untouched: see :meth:`from_outcomes`."""
        return self.frames["clean"]

    def average(self) -> pd.DataFrame:
        """The mean accuracy over the protocols in POOLINGS, as in CARMA's figures 2 and 8.

        One row per layer: layer, depth, pooling ("average"), accuracy, ci_low, ci_high, n. The
        protocols see the same examples, so they are not independent trials: the 95 % interval is
        a percentile bootstrap over whole examples (1000 draws, seed 0) of each example's mean
        correctness over the protocols; where all examples agree, Wilson's, counting examples.

        Raises:
            InputError: only controls were run.
        """
        rows = self.outcomes[self.outcomes["pooling"].isin(POOLINGS)]
        if rows.empty:
            raise InputError(
                f"nothing to average: only {sorted(self.outcomes['pooling'].unique())} were run; "
                f"run at least one of {', '.join(POOLINGS)}"
            )
        shares = rows.pivot_table(
            index="example", columns="layer", values="correct", aggfunc="mean"
        )
        values = shares.to_numpy(float)
        low, high = share_interval(values)
        depth = self.frame.drop_duplicates("layer").set_index("layer")["depth"]
        return pd.DataFrame(
            {
                "layer": shares.columns.to_numpy(np.int64),
                "depth": depth[shares.columns].to_numpy(float),
                "pooling": AVERAGE,
                "accuracy": values.mean(axis=0),
                "ci_low": low,
                "ci_high": high,
                "n": len(values),
            }
        )

    def plot(self, *, normalised_depth: bool = False, average: bool = False) -> ChartFigure:
        """Accuracy against the layer at which tokens are pooled, one curve per protocol.

        Bands are 95 % intervals, the horizontal line is the clean accuracy, controls are dashed.

        Args:
            normalised_depth: the x axis is depth in per cent instead of the layer's number.
            average: one curve for the mean over POOLINGS instead of one each.
        """
        from interp_compose.studies.cap.figures import curve_figure

        frame = self.frame
        if average:
            controls = frame[frame["pooling"].isin(CONTROLS)]
            frame = pd.concat([self.average(), controls], ignore_index=True)
        return curve_figure(
            frame,
            clean_accuracy=float(self.clean["correct"].mean()),
            n_affected=int(self.clean["affected"].sum()),
            config=self.config,
            normalised_depth=normalised_depth,
        )

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure of the study, by the name its files get."""
        return {"cap_curve": self.plot()}

    def summary(self) -> str:
        """The curve as aligned text: a row per layer, a column per protocol, then what it means."""
        n, affected = len(self.clean), int(self.clean["affected"].sum())
        right = int(self.clean["correct"].sum())
        low, high = wilson_interval(right, n)
        table = self.frame.pivot(index="layer", columns="pooling", values="accuracy")
        names = [name for name in (*POOLINGS, *CONTROLS) if name in table.columns]
        depth = dict(zip(self.frame["layer"], self.frame["depth"], strict=True))
        what = [
            f"{key} {self.config[key]}" for key in ("model", "task", "unit") if self.config.get(key)
        ]
        lines = [
            " · ".join(
                [
                    *what,
                    *answers_note(self.config),
                    f"{n} examples, {affected} with a unit of several tokens",
                ]
            ),
            f"clean accuracy {right / n:.3f} [{low:.3f}, {high:.3f}]",
            "layer  depth" + "".join(f"{name:>10}" for name in names),
        ]
        for layer, row in zip(table.index.tolist(), table[names].to_numpy(float), strict=True):
            cells = "".join(f"{accuracy:>10.3f}" for accuracy in row)
            lines.append(f"{layer!s:>5}  {depth[layer]:>5.2f}{cells}")
        return "\n".join(lines)


@public
def compare_curves(
    curves: Mapping[str, CapCurve] | Sequence[CapCurve],
    *,
    pooling: str = AVERAGE,
    normalised_depth: bool = True,
) -> ChartFigure:
    """Several models in one figure, as in CARMA's figures 2 and 8.

    Args:
        curves: with a label for each, or a list, labelled by the models' names.
        pooling: the protocol to compare, or "average" for the mean over POOLINGS.
        normalised_depth: depth in per cent, so that models of different sizes share an axis.

    Raises:
        InputError: no curves, or one that lacks the protocol.
    """
    from interp_compose.studies.cap.figures import comparison_figure

    if not curves:
        raise InputError("there is nothing to compare; pass at least one curve, {label: CapCurve}")
    frames, clean = {}, {}
    for label, curve in labelled(curves).items():
        frame = curve.average() if pooling == AVERAGE else curve.frame
        frames[label] = frame[frame["pooling"] == pooling]
        if frames[label].empty:
            raise InputError(
                f"the curve {label!r} has no protocol {pooling!r}; it has "
                f"{', '.join([AVERAGE, *curve.frame['pooling'].unique()])}"
            )
        clean[label] = float(curve.clean["correct"].mean())
    return comparison_figure(frames, clean, pooling=pooling, normalised_depth=normalised_depth)


def _summarise(outcomes: pd.DataFrame, clean: pd.DataFrame, n_layers: int) -> pd.DataFrame:
    """The tidy curve: one row per layer and pooling, in the order of POOLINGS and CONTROLS."""
    n = len(clean)
    clean_right = clean.set_index("example")["correct"]
    kept = outcomes["correct"].where(outcomes["example"].map(clean_right))
    groups = outcomes.assign(kept=kept.astype(float)).groupby(["pooling", "layer"], sort=False)
    table = groups.agg(
        right=("correct", "sum"),
        accuracy_kept=("kept", "mean"),
        target_logprob=("target_logprob", "mean"),
        target_rank=("target_rank", "median"),
    ).reset_index()
    low, high = wilson_interval(table["right"].to_numpy(), n)
    frame = pd.DataFrame(
        {
            "layer": table["layer"],
            "depth": table["layer"] / max(n_layers - 1, 1),
            "pooling": table["pooling"],
            "accuracy": table["right"] / n,
            "ci_low": low,
            "ci_high": high,
            "accuracy_kept": table["accuracy_kept"],
            "target_logprob": table["target_logprob"],
            "target_rank": table["target_rank"],
            "n": n,
            "n_affected": int(clean["affected"].sum()),
            "n_clean_correct": int(clean_right.sum()),
            "clean_accuracy": float(clean_right.mean()),
            "clean_target_logprob": float(clean["target_logprob"].mean()),
        }
    )
    order = frame["pooling"].map({name: i for i, name in enumerate((*POOLINGS, *CONTROLS))})
    return frame.iloc[np.lexsort((frame["layer"], order))].reset_index(drop=True)
