"""The result of an ablation study: what is left of the answers, layer by layer, and cell by cell.

Four tidy tables: ``clean`` (one row per example, the clean model), ``cells`` (what a unit is),
``outcomes`` (one row per example, layer and unit) and ``frame`` (one row per layer and group,
computed from them); and the texts of ``predictions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from interp_compose._public import public
from interp_compose._versions import environment_versions
from interp_compose.errors import InputError
from interp_compose.stats.intervals import share_interval, wilson_interval
from interp_compose.stats.seeds import mean_interval
from interp_compose.studies.core.examples import (
    PREDICTIONS,
    Examples,
    answered,
    examples_of,
    given,
    marked,
    the_answer,
)
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table, with_foil
from interp_compose.studies.core.text import (
    INTERVALS,
    Summary,
    about,
    cautions,
    counted,
    decimal,
    floor_of,
    interval,
    text_table,
)

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

ALL_WORDS: Final = "any word"

RANK: Final = "target_rank >= 1"  # 1 is the most likely token
OUTCOMES: Final = Table(
    "outcomes",
    "example int, layer int, unit int, prediction int, correct bool, target_logprob float, "
    "target_rank int",
    key=("example", "layer", "unit"),
    complete=(("example", "unit"), ("layer",)),
    rules=(RANK,),
)
CLEAN: Final = Table(
    "clean",
    "example int, prompt str, answer str, n_tokens int, prediction int, prediction_text str, "
    "correct bool, target_logprob float, target_rank int",
    key=("example",),
    rules=(RANK,),
)
CELLS: Final = Table("cells", "example int, unit int, text str, group str", key=("example", "unit"))


@public
@dataclass(frozen=True, eq=False, repr=False)
class AblationCurve(StudyResult):
    """What knocking out words, heads or blocks does to a model's answers, layer by layer.

    Make one with :meth:`from_outcomes`; keep it with :meth:`~Result.save`; read it back with
    :meth:`~Result.load`.
    """

    SCHEMA = (OUTCOMES, CLEAN, CELLS, PREDICTIONS)
    TABLES = ("curve", "outcomes", "clean", "cells", "predictions")
    FIGURES = ("ablation_curve", "ablation_words", "ablation_heads")

    @classmethod
    def _tables(cls, config: Mapping[str, Any]) -> tuple[Table, ...]:
        first, clean, *others = cls.SCHEMA
        return (first, with_foil(clean, config), *others)

    @classmethod
    def from_outcomes(
        cls,
        outcomes: pd.DataFrame,
        clean: pd.DataFrame,
        cells: pd.DataFrame,
        config: Mapping[str, Any],
        *,
        n_layers: int,
        predictions: pd.DataFrame | None = None,
    ) -> AblationCurve:
        """Summarise per-cell outcomes.

        Args:
            outcomes: one row per example, layer and unit (a word's number in its prompt, a head,
                0 for a block). Columns: example, layer, unit, prediction (token id), correct,
                target_logprob (nats), target_rank.
            clean: one row per example. Columns: example, prompt, answer, n_tokens, prediction,
                prediction_text, correct, target_logprob, target_rank; where the config's answers
                are "foil", foil.
            cells: what each unit is: example (-1 where a unit is the same in all), unit, text,
                group (the line of the figure that it counts for).
            config: what was run, in JSON's types.
            n_layers: of the model.
            predictions: the texts of predictions, for :meth:`report`: prediction (token id), text.

        Raises:
            InputError: a column is missing, foreign or of the wrong type; no rows; rows doubled; an
                example or a unit that another table does not have.
            LayerError: a layer outside 0 … n_layers - 1.
        """
        clean, cells = with_foil(CLEAN, config).ordered(clean), CELLS.ordered(cells)
        outcomes = OUTCOMES.ordered(
            outcomes, example=clean["example"].tolist(), layer=range(n_layers)
        )
        _check_cells(outcomes, cells)
        frames = {
            "curve": _summarise(outcomes, clean, cells, n_layers),
            "outcomes": outcomes,
            "clean": clean,
            "cells": cells,
            "predictions": PREDICTIONS.ordered(given(predictions)),
        }
        return cls(config=config, frames=frames, versions=environment_versions())

    @property
    def frame(self) -> pd.DataFrame:
        """One row per layer and group: ``"any word"`` and, with a tagger, each kind of word; each
        head; or the one block.

        Columns: layer; depth (0 … 1); group; accuracy, a mean over examples of the share of their
        cells answered rightly, with its 95 % interval ci_low, ci_high (Wilson's, counting examples,
        where each has one cell, or all examples agree; else a bootstrap over
        whole examples: 1000 draws, seed 0); accuracy_kept, the same mean over the examples that the
        clean model got right (NaN when there are none); target_logprob (nats; the same kind of
        mean); logprob_change, its difference to the clean model, with Student's t interval over
        examples logprob_change_low, logprob_change_high (NaN of one example); target_rank (median
        over cells); n (examples that have such a cell); n_cells; clean_accuracy (the clean
        model's, over the same examples).
        """
        return self.frames["curve"]

    @property
    def outcomes(self) -> pd.DataFrame:
        """One row per example, layer and unit: see :meth:`from_outcomes`."""
        return self.frames["outcomes"]

    @property
    def clean(self) -> pd.DataFrame:
        """One row per example, the clean model: see :meth:`from_outcomes`."""
        return self.frames["clean"]

    @property
    def cells(self) -> pd.DataFrame:
        """What each unit is: see :meth:`from_outcomes`."""
        return self.frames["cells"]

    def changes(self, example: int) -> pd.DataFrame:
        """The change of the answer's log-probability (nats) in one example: a row per unit, in
        reading order and named by its text, a column per layer.

        Raises:
            InputError: there is no such example, or nothing in it was knocked out.
        """
        rows = self.outcomes[self.outcomes["example"] == example]
        if rows.empty:
            examples = self.outcomes["example"].unique().tolist()
            raise InputError(
                f"example {example!r} has no outcomes; those that have are {examples[:10]} "
                f"({len(examples)} in all)."
            )
        texts = self.cells[self.cells["example"].isin([example, -1])].set_index("unit")["text"]
        clean_logprob = self.clean.set_index("example").loc[example, "target_logprob"]
        table = rows.pivot(index="unit", columns="layer", values="target_logprob") - clean_logprob
        table.index = pd.Index([texts[unit] for unit in table.index], name="text")
        return table

    def plot(self) -> ChartFigure:
        """Accuracy against the layer, one curve per group; of heads, see :meth:`heatmap`.

        The horizontal line is the clean model's accuracy. Bands are 95 % intervals of the
        difference to it over a group's examples, paired by example and laid at the curve.
        """
        if self.config.get("what") == "heads":
            return self.heatmap()
        from interp_compose.studies.ablation.figures import curve_figure

        return curve_figure(
            self._from_clean(),
            clean_accuracy=float(self.clean["correct"].mean()),
            config=self.config,
        )

    def _from_clean(self) -> pd.DataFrame:
        """:attr:`frame`, each group compared with the clean model on its examples
        (:func:`.against`)."""
        from interp_compose.studies.core.figures import against

        clean, parts = self.clean.set_index("example")["correct"], []
        for name, rows in _groups(_grouped(self.outcomes, self.cells), self.cells).items():
            shares = rows.pivot_table(index="example", columns="layer", values="correct")
            parts.append(against(self.frame[self.frame["group"] == name], shares, clean))
        return pd.concat(parts, ignore_index=True)

    def heatmap(self, example: int | None = None) -> ChartFigure:
        """The change of the answer's log-probability: units × layers.

        Args:
            example: one example's, units by their text; None for the mean over all examples, where
                units are the same in all (heads, blocks). Of words, None is the first example.

        Raises:
            InputError: see :meth:`changes`.
        """
        from interp_compose.studies.ablation.figures import example_figure, heads_figure

        if example is None and self.config.get("what") != "words":
            return heads_figure(self.frame, config=self.config)
        if example is None:
            example = int(self.outcomes["example"].min())
        table = self.changes(example)
        clean = self.clean[self.clean["example"] == example].iloc[0]
        return example_figure(
            table,
            clean["prompt"],
            clean["answer"],
            correct=bool(clean["correct"]),
            logprob=float(clean["target_logprob"]),
            config=self.config,
        )

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure of the study, by the name its files get."""
        if self.config.get("what") == "heads":
            return {"ablation_heads": self.heatmap()}
        figures = {"ablation_curve": self.plot()}
        if self.config.get("what") == "words":
            figures["ablation_words"] = self.heatmap()
        return figures

    def _head(self) -> tuple[str, str]:
        from interp_compose.studies.ablation.figures import ablated

        n, right = len(self.clean), int(self.clean["correct"].sum())
        low, high = wilson_interval(right, n)
        size = f"{counted(n, 'examples')}, {len(self.outcomes)} outcomes"
        return (
            about(self.config, ("model", "task"), ablated(self.config), size),
            f"clean accuracy {right / n:.3f} [{low:.3f}, {high:.3f}]",
        )

    def _summary(self) -> Summary:
        """What ablating changes, and the table as aligned text: a row per layer, a column per
        group."""
        from interp_compose.studies.ablation.reading import answers

        head, clean_accuracy = self._head()
        heads = self.config.get("what") == "heads"
        value = "logprob_change" if heads else "accuracy"
        table = self.frame.pivot(index="layer", columns="group", values=value)
        names = list(dict.fromkeys(self.frame["group"]))
        shown = names[:12]
        wide = max(13, *(len(name) + 2 for name in shown))
        title = "mean change of the answer's log-probability (nats), by head"
        if not heads:
            title = f"accuracy where {self._done()}"
        if not heads:
            clean = self.frame.drop_duplicates("group").set_index("group")["clean_accuracy"]
            table = pd.concat([clean.to_frame("clean").T, table])
        columns = [("layer", "", ">5")]  # no group is called so
        if heads:
            numbers = table.map(lambda one: f"{one:.3f}".replace("-", "−"))
            table = (numbers + " ").where(~self._sure(), numbers + "*")
            columns += [(f"head {name} ", name, f">{wide}") for name in shown]
        else:
            counts = self.frame.drop_duplicates("group").set_index("group")["n"]
            titles = {name: f"{name} (n {counts[name]})" for name in shown}
            titles = titles if counts.nunique() > 1 else {}
            wide = max(wide, *(len(title) + 2 for title in titles.values())) if titles else wide
            columns += [(titles.get(name, name), name, f">{wide}.3f") for name in shown]
        lines: Summary = [
            head,
            *answers(self),
            f"{clean_accuracy}; {title}:",
            text_table(table.rename_axis("").reset_index(), columns),
        ]
        if heads:
            lines.append("* the 95 % interval excludes 0, uncorrected for the number of heads")
        if len(names) > len(shown):
            lines.append(f"and {len(names) - len(shown)} more columns in curve.csv")
        return self._told(lines)

    def sentences(self) -> list[str]:
        """Where the answer's log-probability changes, the clean accuracy, and the accuracy where
        most is lost."""
        from interp_compose.studies.ablation.reading import answers

        rows = self.frame
        if self.config["what"] != "heads":  # kinds of words are of other examples each
            rows = rows[rows["group"] == rows["group"].iloc[0]]
        worst = rows.nsmallest(1, "logprob_change").iloc[0].to_dict()
        accuracy = interval(*(worst[name] for name in ("accuracy", "ci_low", "ci_high")))
        done = self._done(worst["group"], worst["layer"])
        return [
            *answers(self),
            f"{self._head()[1].capitalize()}, the clean model; {INTERVALS}.",
            f"By the answer's log-probability, most is lost where {done}: the accuracy is "
            f"{accuracy}, from {decimal(worst['clean_accuracy'], 3)} for the same "
            f"{counted(worst['n'], 'examples')}.",
        ]

    def _done(self, group: str = ALL_WORDS, layer: int | str = "ℓ") -> str:
        """What was done to the model, of a row of :attr:`frame`."""
        from interp_compose.studies.ablation.figures import PARTS, REACH

        what = self.config["what"]
        if what == "heads":
            return f"head {group} of layer {layer} is ablated"
        layers = REACH[self.config["reach"]].replace("ℓ", str(layer))
        if what != "words":
            return f"{PARTS[what]} in {layers}"
        unit = self.config.get("unit") or "word"
        named = f"a {unit}" if group == ALL_WORDS else f"a {unit} of the kind “{group}”"
        return f"{named} is knocked out in {layers} (one {unit} at a time)"

    def _examples(self) -> Examples:
        framed = "Framed words are those knocked out, one at a time. "
        cells = {place: rows["text"].tolist() for place, rows in self.cells.groupby("example")}
        outcomes = self.outcomes.sort_values(["example", "unit", "layer"])
        key = ["unit"] if (self.cells["example"] == -1).all() else ["example", "unit"]
        lines = outcomes[key].merge(self.cells[[*key, "text"]], on=key, how="left")
        return examples_of(
            outcomes,
            key="example",
            line="head " * (self.config["what"] == "heads") + lines["text"],
            value="target_logprob",
            clean=self.clean,
            parts=lambda row: marked(row["prompt"], cells.get(row["example"], ())),
            facts=answered,
            answers=the_answer,
            right="correct",
            predictions=self.frames.get("predictions", PREDICTIONS.of(())),
            measured="log-probability of the answer (nats)",
            marks=f"{framed * (self.config['what'] == 'words')}Bold predictions are right.",
        )

    @property
    def notes(self) -> list[str]:
        """What filters left, examples with nothing to knock out, few examples, or a clean model
        that gets nothing right."""
        notes = super().notes + cautions(len(self.clean), floor_of(self.clean))
        n, n_hidden = len(self.clean), self.outcomes["example"].nunique()
        if self.config.get("what") == "words" and n_hidden < n:
            unit = self.config.get("unit") or "word"
            notes.append(
                f"{n - n_hidden} of {counted(n, 'examples')} have no {unit} before the last token: "
                "they count in the clean accuracy, and in no layer's"
            )
        return notes

    def _sure(self) -> pd.DataFrame:
        """Layers × groups: whether the interval of the change of log-probability excludes 0."""
        low, high = self.frame["logprob_change_low"], self.frame["logprob_change_high"]
        sure = self.frame.assign(sure=(low > 0) | (high < 0))
        return sure.pivot(index="layer", columns="group", values="sure")


def _check_cells(outcomes: pd.DataFrame, cells: pd.DataFrame) -> None:
    """Every outcome is of a cell, and no group is named as all of them together."""
    grouped = _grouped(outcomes, cells)
    groupless = grouped[grouped["group"].isna()]
    if len(groupless):
        example, unit = groupless[["example", "unit"]].iloc[0]
        raise InputError(
            f"outcomes has example {example}, unit {unit}, which cells has not; expected a row for "
            "each, or rows of example -1 alone"
        )
    if ALL_WORDS in set(cells["group"]) and cells["group"].nunique() > 1:
        raise InputError(
            f"cells has the group {ALL_WORDS!r} beside others; it is made of all of them, so name "
            "it otherwise"
        )


def _grouped(outcomes: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The outcomes with their cells' groups."""
    key = ["unit"] if (cells["example"] == -1).all() else ["example", "unit"]
    return outcomes.merge(cells[[*key, "group"]], on=key, how="left")


def _groups(table: pd.DataFrame, cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each group, all words first."""
    groups = {name: table[table["group"] == name] for name in dict.fromkeys(table["group"])}
    if list(groups) != [ALL_WORDS] and not (cells["example"] == -1).all():
        groups = {ALL_WORDS: table, **dict(sorted(groups.items()))}
    return groups


def _summarise(
    outcomes: pd.DataFrame, clean: pd.DataFrame, cells: pd.DataFrame, n_layers: int
) -> pd.DataFrame:
    """The tidy curve: one row per group and layer, all words first."""
    clean_rows = clean.set_index("example")
    table = _grouped(outcomes, cells)
    table["change"] = table["target_logprob"] - table["example"].map(clean_rows["target_logprob"])
    frames = []
    for name, rows in _groups(table, cells).items():
        part = _one_group(rows, clean_rows["correct"])
        part.insert(0, "group", name)
        frames.append(part)
    frame = pd.concat(frames, ignore_index=True)
    frame.insert(1, "depth", frame["layer"] / max(1, n_layers - 1))
    first = ["layer", "depth", "group"]
    return frame[first + [column for column in frame.columns if column not in first]]


def _one_group(rows: pd.DataFrame, clean_right: pd.Series) -> pd.DataFrame:
    """One group's row for each layer."""
    by_example = rows.pivot_table(
        index="example", columns="layer", values=["correct", "change", "target_logprob"]
    )
    right = by_example["correct"].to_numpy(float)
    change = by_example["change"].to_numpy(float)
    was_right = clean_right[by_example.index].to_numpy(bool)
    n, n_cells = len(right), len(rows) // rows["layer"].nunique()
    accuracy = right.mean(axis=0)
    one_each = n_cells == n
    low, high = wilson_interval(right.sum(axis=0), n) if one_each else share_interval(right)
    change_low, change_high = zip(*map(mean_interval, change.T), strict=True)
    kept = right[was_right].mean(axis=0) if was_right.any() else np.full(len(accuracy), np.nan)
    return pd.DataFrame(
        {
            "layer": by_example["correct"].columns.to_numpy(np.int64),
            "accuracy": accuracy,
            "ci_low": low,
            "ci_high": high,
            "accuracy_kept": kept,
            "target_logprob": by_example["target_logprob"].to_numpy(float).mean(axis=0),
            "logprob_change": change.mean(axis=0),
            "logprob_change_low": change_low,
            "logprob_change_high": change_high,
            "target_rank": rows.groupby("layer")["target_rank"].median().to_numpy(float),
            "n": n,
            "n_cells": n_cells,
            "clean_accuracy": float(was_right.mean()),
        }
    )
