"""The result of a similarity study: how well cosines follow people, per layer and pooling.

Five tidy tables: ``clean`` (one row per pair, the clean model), ``outcomes`` (one cosine per
pair, layer and pooling), ``layer_cosines`` (one cosine per pair and layer, no intervention), and
what is computed from them: ``frame`` and ``by_layer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from jaxtyping import Int

from interp_compose._public import public
from interp_compose._versions import environment_versions
from interp_compose.checks import labelled
from interp_compose.errors import InputError, OptionError
from interp_compose.stats.agreement import METRICS, MIN_PAIRS, agreement, rounding, told_apart
from interp_compose.stats.intervals import bootstrap_interval
from interp_compose.studies.core.examples import Examples, examples_of
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import YOURS, Table, check_same
from interp_compose.studies.core.text import (
    FEW,
    INTERVALS,
    Summary,
    about,
    counted,
    crossed_table,
    decimal,
    interval,
    unlike,
    with_controls_named,
)

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure


POOLINGS: Final = ("mean", "max", "sum")
CONTROLS: Final = ("last", "first", "shuffled")
NONE: Final = "none"
ALL, MIRROR = "all", "mirror"
FEWEST: Final = 3  # pairs that a correlation needs

COSINES: Final = Table(
    "cosines",
    "pair int, layer int, pooling str, cosine float",
    key=("pair", "layer", "pooling"),
    known={"pooling": (*POOLINGS, YOURS, *CONTROLS, NONE)},
    rules=("-1 <= cosine <= 1",),
)
OUTCOMES: Final = replace(
    COSINES,
    name="outcomes",
    known={"pooling": (*POOLINGS, YOURS, *CONTROLS)},
    complete=(("pair",), ("layer", "pooling")),
)
LAYER_COSINES: Final = Table(
    "layer_cosines",
    "pair int, layer int, cosine float",
    key=("pair", "layer"),
    complete=(("pair",), ("layer",)),
)
PAIRS: Final = Table(
    "pairs",
    "pair int, text1 str, text2 str, target float, subset str, mirror bool, affected bool, "
    "n_tokens1 int, n_tokens2 int, n_groups1 int, n_groups2 int",
    key=("pair",),
    rules=(f"subset not in {[ALL, MIRROR]}",),  # which are formed here
)
CLEAN: Final = replace(PAIRS, name="clean", definition=f"{PAIRS.definition}, cosine float")


def by_subset(
    outcomes: pd.DataFrame,
    clean: pd.DataFrame,
    metrics: Sequence[str],
    n_depths: int,
    *,
    step: float,
    against_clean: bool,
) -> pd.DataFrame:
    """A row per layer, pooling (where there is one) and subset of pairs.

    Depth is the layer's number over ``n_depths``; cosines are ranked in steps of ``step``.
    """
    axes = ["pooling", "layer"] if "pooling" in outcomes else ["layer"]
    wide = outcomes.pivot(index="pair", columns=axes, values="cosine")
    cells = wide.columns.to_frame(index=False).sort_values(axes, key=OUTCOMES.place)
    cosines = wide.iloc[:, cells.index].to_numpy(float)
    cells = cells.assign(depth=cells["layer"] / n_depths)[["layer", "depth", *axes[:-1]]]
    target, reference = clean["target"].to_numpy(float), clean["cosine"].to_numpy(float)
    affected = clean["affected"].to_numpy(bool)
    tables = []
    for subset, rows in subsets_of(clean).items():
        columns: dict[Any, Any] = {**cells.to_dict("list"), "subset": subset}
        for metric in metrics:
            rounded = told_apart(cosines[rows], step, metric)
            rounded_clean = told_apart(reference[rows, None], step, metric)
            agreements = agreement(rounded, target[rows], metric, reference=rounded_clean[:, 0])
            columns[metric], columns[f"{metric}_low"] = agreements.value, agreements.low
            columns[f"{metric}_high"] = agreements.high
            if against_clean:
                columns[f"{metric}_diff"] = agreements.difference
                columns[f"{metric}_diff_low"] = agreements.difference_low
                columns[f"{metric}_diff_high"] = agreements.difference_high
                clean_agreement = agreement(rounded_clean, target[rows], metric)
                columns[f"clean_{metric}"] = clean_agreement.value[0]
                columns[f"clean_{metric}_low"] = clean_agreement.low[0]
                columns[f"clean_{metric}_high"] = clean_agreement.high[0]
        columns["cosine"] = cosines[rows].mean(axis=0)
        columns["cosine_low"], columns["cosine_high"] = bootstrap_interval(cosines[rows])
        columns["n"] = len(rows)
        if against_clean:
            columns["n_affected"] = int(affected[rows].sum())
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def controls_of(unit: str) -> tuple[str, ...]:
    """The controls that mean something: a whole text has no other places for its boundaries."""
    return CONTROLS[:2] if unit == "text" else CONTROLS


def subsets_of(pairs: pd.DataFrame) -> dict[str, Int[np.ndarray, "_"]]:
    """Rows of ``pairs`` by subset: all of them, the named ones, and the mirror pairs.

    Mirror pairs form a subset where there are three or more and people do not judge them all
    alike; fewer have no correlation.
    """
    rows = np.arange(len(pairs))
    subsets: dict[str, Any] = {ALL: rows}
    for name in pairs["subset"].unique():
        if name:
            subsets[str(name)] = rows[(pairs["subset"] == name).to_numpy()]
    mirrors = pairs["mirror"].to_numpy(bool)
    if mirrors.sum() >= FEWEST and pairs.loc[mirrors, "target"].nunique() > 1:
        subsets[MIRROR] = rows[mirrors]
    return subsets


@public
@dataclass(frozen=True, eq=False, repr=False)
class SimilarityCurve(StudyResult):
    """What constituent-aware pooling does to a model's agreement with people, layer by layer.

    Make one with :meth:`from_outcomes`; keep it with :meth:`~Result.save`; read it back with
    :meth:`~Result.load`.
    """

    SCHEMA = (OUTCOMES, LAYER_COSINES, CLEAN)
    TABLES = ("curve", "by_layer", "outcomes", "layer_cosines", "clean")
    FIGURES = ("similarity_curve", "similarity_by_layer", "order_sensitivity")

    @classmethod
    def from_outcomes(
        cls,
        cosines: pd.DataFrame,
        pairs: pd.DataFrame,
        config: Mapping[str, Any],
        *,
        n_layers: int,
    ) -> SimilarityCurve:
        """Summarise cosines, pair by pair.

        Args:
            cosines: columns pair, layer, pooling, cosine. Rows with the pooling "none" are the
                clean model's, at layers 0 … n_layers (n_layers is what leaves the last block,
                and the clean cosine); the others are cells of the sweep, *all* pairs in each.
            pairs: one row per pair; columns pair, text1, text2, target (score, or label 0 or 1),
                subset ("" for none), mirror, affected, n_tokens1, n_tokens2, n_groups1, n_groups2.
            config: what was run, in JSON's types; ``kind`` is "score" or "label".
            n_layers: of the model; depth is layer / (n_layers - 1) where something is pooled (above
                1 after the last block), and layer / n_layers where nothing is.

        Raises:
            InputError: a column is missing, foreign or of the wrong type; a number is not finite;
                rows are missing or doubled.
            LayerError: a layer outside the model.
            OptionError: an unknown pooling or kind.
        """
        kind = config.get("kind")
        if kind not in METRICS:
            raise OptionError(f"config['kind'] is {kind!r}: expected one of {', '.join(METRICS)}")
        pairs = PAIRS.ordered(pairs)
        every = {"pair": pairs["pair"].tolist()}
        cosines = COSINES.ordered(cosines, every, **COSINES.named_in(config))
        is_clean = cosines["pooling"] == NONE
        layer_cosines = LAYER_COSINES.check(
            cosines[is_clean].drop(columns="pooling"), {**every, "layer": range(n_layers + 1)}
        )
        known = OUTCOMES.named_in(config)
        outcomes = OUTCOMES.check(cosines[~is_clean], every, layer=range(n_layers + 1), **known)
        last = layer_cosines[layer_cosines["layer"] == n_layers]
        clean = pairs.merge(last.drop(columns="layer"), on="pair")
        unaffected = clean.loc[~clean["affected"], ["pair", "cosine"]]
        check_same("outcomes", outcomes, unaffected, "pair", "no unit has several tokens")
        step = rounding(str(config.get("dtype", "float32")))
        summarised = partial(by_subset, clean=clean, metrics=METRICS[kind], step=step)
        frames = {
            "curve": summarised(outcomes, n_depths=max(n_layers - 1, 1), against_clean=True),
            "by_layer": summarised(layer_cosines, n_depths=n_layers, against_clean=False),
            "outcomes": outcomes,
            "layer_cosines": layer_cosines,
            "clean": clean,
        }
        return cls(config=config, frames=frames, versions=environment_versions())

    @property
    def metrics(self) -> tuple[str, ...]:
        """Pearson and Spearman for scores, AUC for labels."""
        return METRICS[self.config["kind"]]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per layer, pooling and subset.

        Columns: layer; depth (0 … 1, above 1 after the last block); pooling; subset ("all", the
        user's own, "mirror"); for each of :attr:`metrics` m (pearson and spearman, or auc): m with
        its 95 % interval m_low, m_high; clean_m, clean_m_low, clean_m_high of the clean model;
        m_diff (m - clean_m) with m_diff_low, m_diff_high, from the same bootstrap samples as both;
        cosine (mean over pairs) with cosine_low, cosine_high; n pairs; n_affected by pooling.
        Intervals are bootstraps over pairs, 1000 samples, seed 0. Cosines are ranked in
        steps of 1e-6 (float32; coarser in half precision), so that rounding breaks no ties; where
        all of a subset are one number, as of mirror pairs whose order nothing tells, a correlation
        is NaN.
        """
        return self.frames["curve"]

    @property
    def by_layer(self) -> pd.DataFrame:
        """The clean model, one row per layer (0 … n_layers) and subset: where is the meaning
        readable?

        The embedding is read from the residual that enters block ``layer``; at ``n_layers`` from
        the last hidden state. Columns: layer; depth; subset; for each of :attr:`metrics` m, m_low,
        m_high; cosine, cosine_low, cosine_high (on "mirror": order sensitivity, 1 where the order
        of words leaves no trace); n.
        """
        return self.frames["by_layer"]

    @property
    def outcomes(self) -> pd.DataFrame:
        """One cosine per pair, layer and pooling."""
        return self.frames["outcomes"]

    @property
    def layer_cosines(self) -> pd.DataFrame:
        """One cosine per pair and layer, the clean model."""
        return self.frames["layer_cosines"]

    @property
    def clean(self) -> pd.DataFrame:
        """One row per pair with its clean cosine: see :meth:`from_outcomes`."""
        return self.frames["clean"]

    def plot(self, metric: str | None = None, *, normalised_depth: bool = False) -> ChartFigure:
        """Agreement against the layer at which units are pooled, a panel per subset.

        Args:
            metric: one of :attr:`metrics`; the first by default.
            normalised_depth: the x axis is depth in per cent instead of the layer's number.

        Raises:
            OptionError: a metric that was not measured.
        """
        from interp_compose.studies.similarity.figures import similarity_figure

        return similarity_figure(
            self.frame,
            metric=self._metric(metric),
            config=self.config,
            normalised_depth=normalised_depth,
        )

    def plot_layers(self, metric: str | None = None) -> ChartFigure:
        """Agreement at every layer of the clean model, a line per subset."""
        from interp_compose.studies.similarity.figures import layers_figure

        return layers_figure(self.by_layer, metric=self._metric(metric), config=self.config)

    def plot_order(self) -> ChartFigure:
        """Order sensitivity: the mean cosine of mirror pairs at every layer, nothing pooled.

        Raises:
            InputError: there are no mirror pairs.
        """
        from interp_compose.studies.similarity.figures import order_figure

        return order_figure(self.by_layer, config=self.config)

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure of the study that has something to show, by the name its files get."""
        figures, metric = {}, self.metrics[0]
        if self.frame[metric].notna().any():  # mirror pairs alone may have no correlation at all
            figures["similarity_curve"] = self.plot()
        if self.by_layer[metric].notna().any():
            figures["similarity_by_layer"] = self.plot_layers()
        if MIRROR in set(self.frame["subset"]):
            figures["order_sensitivity"] = self.plot_order()
        return figures

    def _head(self) -> tuple[str, str]:
        first, metric = self.frame.iloc[0], self.metrics[0]
        embedding = f"embedding: {self.config.get('reading', 'not on record')}"
        return (
            about(self.config, ("model", "task", "unit"), embedding),
            f"{first['subset']}: {first['n']} pairs, {metric} of the clean model "
            f"{first[f'clean_{metric}']:.3f}",
        )

    def _summary(self) -> Summary:
        """The curve as aligned text: a table per subset, a row per layer, a column per pooling."""
        from interp_compose.studies.similarity.reading import answers

        metric = self.metrics[0]
        lines: Summary = [self._head()[0], *answers(self)]
        names = list(dict.fromkeys(self.frame["pooling"]))
        pooled = with_controls_named("with units pooled", names, CONTROLS)
        for subset, rows in self.frame.groupby("subset", sort=False):
            first = rows.iloc[0]
            value, low, high = (first[f"clean_{metric}{end}"] for end in ("", "_low", "_high"))
            lines += [
                "",
                f"{subset}: {counted(int(first['n']), 'pairs')}, {first['n_affected']} affected; "
                f"{metric} of the clean model {value:.3f} [{low:.3f}, {high:.3f}]; {pooled}",
                crossed_table(rows, "pooling", metric, ">10.3f"),
            ]
        n_mirrors = int(self.clean["mirror"].sum())
        if n_mirrors and MIRROR not in set(self.frame["subset"]):
            few_pairs = counted(n_mirrors, "mirror pairs")
            lines += ["", f"{few_pairs}: too few, or judged alike, for a subset."]
        return self._told(lines)

    def sentences(self) -> list[str]:
        """Where pooling changes the agreement with people, that of the clean model, and what
        changes it most."""
        from interp_compose.studies.similarity.reading import answers

        subset, metric, ends = self.frame["subset"].iloc[0], self.metrics[0], ("", "_low", "_high")
        rows = self.frame[self.frame["subset"] == subset]
        first = rows.iloc[0].to_dict()
        clean = interval(*(first[f"clean_{metric}{end}"] for end in ends))
        sentences = [*answers(self)]
        sentences += [
            f"Over {first['n']} pairs ({subset}), {metric} of the clean model is {clean}."
        ]
        if rows[f"{metric}_diff"].notna().any():
            most = rows.loc[rows[f"{metric}_diff"].abs().idxmax()].to_dict()
            change = interval(*(most[f"{metric}_diff{end}"] for end in ends), sign=True)
            sentences.append(
                f"Of all poolings {most['pooling']} changes it most, at layer {most['layer']}: "
                f"{change}; {INTERVALS}."
            )
        return sentences

    def _examples(self) -> Examples:
        outcomes = self.outcomes.sort_values(["pair", "pooling", "layer"], key=OUTCOMES.place)
        return examples_of(
            outcomes,
            key="pair",
            line=outcomes["pooling"],
            value="cosine",
            clean=self.clean,
            parts=lambda row: [f"{row['text1']} ↔ {row['text2']}"],
            facts=lambda row: (
                f"{self.config['kind']} of people {row['target']:g}, cosine of the clean model "
                f"{decimal(row['cosine'], 3)}"
            ),
            measured="cosine of the two texts",
            marks="",
        )

    @property
    def notes(self) -> list[str]:
        """What filters left, few pairs, and sums after the last block, which change nothing."""
        n = len(self.clean)
        advice = "see how wide the intervals are"
        if n < MIN_PAIRS:
            advice = f"no intervals, for which {MIN_PAIRS} are needed"
        few = [f"{counted(n, 'pairs')}, fewer than {FEW}: {advice}"]
        cells = self.outcomes[["layer", "pooling"]]
        after = [self.config.get("n_layers"), "sum"]
        no_change = [
            f"sum at layer {after[0]}, after the last block, changes no cosine: the mean of the "
            "units' sums has the direction of the mean of all tokens"
        ]
        summed = bool((cells == after).all(axis=1).any())
        return super().notes + few * (n < FEW) + no_change * summed

    def _metric(self, metric: str | None) -> str:
        if metric is None:
            return self.metrics[0]
        if metric not in self.metrics:
            raise OptionError(
                f"metric {metric!r} was not measured on pairs with a {self.config['kind']}; "
                f"choose one of {', '.join(self.metrics)}"
            )
        return metric


@public
def compare_similarities(
    curves: Mapping[str, SimilarityCurve] | Sequence[SimilarityCurve],
    *,
    pooling: str = "mean",
    metric: str | None = None,
    normalised_depth: bool = True,
) -> ChartFigure:
    """Several models, encoders and decoders, in one figure.

    Args:
        curves: with a label for each, or a list, labelled by the models' names.
        pooling: the one to compare.
        metric: the first that was measured, by default.
        normalised_depth: depth in per cent, so that models of different sizes share an axis.

    Raises:
        InputError: no curves, one that lacks the pooling, or curves of different pairs.
        OptionError: a metric that was not measured.
    """
    from interp_compose.studies.similarity.figures import similarity_comparison

    curves = labelled(curves)
    first_label, first = next(iter(curves.items()))
    frames = {}
    for label, curve in curves.items():
        columns = ["text1", "text2", "target"]
        if not curve.clean[columns].equals(first.clean[columns]):
            raise InputError(
                f"the curves {first_label!r} and {label!r} were measured on different pairs; "
                "measure them on the same ones to compare them"
            )
        frames[label] = curve.frame[curve.frame["pooling"] == pooling]
        if frames[label].empty:
            raise InputError(
                f"the curve {label!r} has no pooling {pooling!r}; it has "
                f"{', '.join(np.unique(curve.frame['pooling']))}"
            )
    return similarity_comparison(
        frames,
        metric=first._metric(metric),
        note=unlike(curves, ["pooling"]),
        normalised_depth=normalised_depth,
    )
