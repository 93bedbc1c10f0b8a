"""The result of phrase transplants: accuracies per layer, pooling and vector.

Four tidy tables: ``pairs`` (one row per pair), ``clean`` (the clean model, on targets and on
composed prompts), ``outcomes`` (one row per pair, layer, pooling and vector) and ``frame`` (one row
per layer, pooling and vector, computed from them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose._versions import environment_versions
from interp_compose.errors import InputError, OptionError
from interp_compose.interventions.transplants import VECTORS
from interp_compose.stats.intervals import wilson_interval
from interp_compose.studies.core.examples import (
    PREDICTIONS,
    Examples,
    examples_of,
    given,
    marked,
)
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import YOURS, Table
from interp_compose.studies.core.text import (
    INTERVALS,
    Summary,
    about,
    cautions,
    counted,
    crossed_table,
    interval,
)

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

POOLINGS: Final = ("mean", "max", "sum")
RUNS: Final = ("target", "composed")
ANSWERED: Final = (
    "prediction int, expected_right bool, answer_right bool, remembered bool, "
    "expected_logprob float, expected_rank int, answer_logprob float, answer_rank int"
)
RULES: Final = ("expected_rank >= 1", "answer_rank >= 1")
ONE_PREDICTION: Final = ("~(expected_right & answer_right)", "~(expected_right & remembered)")
"""Where answers are one token. Longer ones are read from several runs, in each of which rounding
may make another of two tokens that are about as likely the first."""
PAIRS: Final = Table(
    "pairs",
    "pair int, source str, source_phrase str, target str, target_phrase str, expected str, "
    "answer str, composed str, source_answer str, type str, donor int, n_source int, n_target int",
    key=("pair",),
    rules=("n_source >= 1", "n_target >= 1"),
)
CLEAN: Final = Table(
    "clean",
    f"pair int, run str, prediction_text str, {ANSWERED}",
    key=("pair", "run"),
    known={"run": RUNS},
    rules=RULES,
)
OUTCOMES: Final = Table(
    "outcomes",
    f"pair int, layer int, pooling str, vector str, {ANSWERED}",
    key=("pair", "layer", "pooling", "vector"),
    complete=(("pair",), ("layer",), ("pooling",), ("vector",)),
    known={"pooling": (*POOLINGS, YOURS), "vector": VECTORS},
    rules=RULES,
)
SHOWN: Final = {"own": "target pooled"}
"""Vectors by what tables and figures call them."""
RIGHT: Final = {
    "expected": "expected_right",
    "untouched": "answer_right",
    "remembered": "remembered",
}
"""Of each answer, the column that says whether it is given."""
PLACE: Final = ["layer", "pooling", "vector"]


@public
@dataclass(frozen=True, eq=False, repr=False)
class Transplants(StudyResult):
    """What a phrase's vector carries from one prompt into another, layer by layer.

    Make one with :meth:`from_outcomes`; keep it with :meth:`~Result.save`; read it back with
    :meth:`~Result.load`.
    """

    SCHEMA = (PAIRS, CLEAN, OUTCOMES, PREDICTIONS)
    TABLES = ("curve", "outcomes", "clean", "pairs", "predictions")
    FIGURES = ("expected", "untouched", "remembered")

    @classmethod
    def _tables(cls, config: Mapping[str, Any]) -> tuple[Table, ...]:
        if "answer_tokens" in config:
            return cls.SCHEMA
        pairs, *answered, predictions = cls.SCHEMA
        ruled = [replace(one, rules=(*one.rules, *ONE_PREDICTION)) for one in answered]
        return (pairs, *ruled, predictions)

    @classmethod
    def from_outcomes(
        cls,
        outcomes: pd.DataFrame,
        clean: pd.DataFrame,
        pairs: pd.DataFrame,
        config: Mapping[str, Any],
        *,
        n_layers: int,
        predictions: pd.DataFrame | None = None,
    ) -> Transplants:
        """Summarise per-pair outcomes.

        Args:
            outcomes: one row per pair, layer, pooling and vector ("transplant", and the controls
                "own", "random phrase" and "random direction"). Columns: these, prediction (token
                id), expected_right and answer_right (whether it is that answer), remembered
                (whether it is the source's own), and of the first two answers logprob (nats) and
                rank (1 is the most likely token). Of answers of several tokens: all of them, the
                sum, and the largest.
            clean: the same of the clean model, by pair and run: "target", and "composed" where
                that prompt is known; with prediction_text.
            pairs: one row per pair. Columns: pair, source, source_phrase, target, target_phrase,
                expected, answer, composed and source_answer ("" where not known), type, donor (the
                pair whose source phrase the random phrase is, -1 without controls), n_source and
                n_target (tokens of the phrases).
            config: what was run, in JSON's types.
            n_layers: of the model; depth is layer / (n_layers - 1), 0 for a model of one block.
            predictions: the texts of predictions, for :meth:`report`: prediction (token id), text.

        Raises:
            InputError: a column is missing, foreign or of the wrong type; a number is not finite;
                rows are missing or doubled; a pair has no clean run on its target.
            LayerError: a layer outside 0 … n_layers - 1.
            OptionError: a pooling that is none of POOLINGS, and not in ``config["pooling"]``.
        """
        of_pairs, of_clean, of_outcomes, of_predictions = cls._tables(config)
        pairs = of_pairs.ordered(pairs)
        every = {"pair": pairs["pair"].tolist()}
        clean = of_clean.ordered(clean, pair=every["pair"])
        untouched = set(clean.loc[clean["run"] == "target", "pair"])
        lacking = [pair for pair in every["pair"] if pair not in untouched]
        if lacking:
            raise InputError(
                f"clean has no run 'target' of pair {lacking[0]}; expected one of every pair"
            )
        known = {"layer": range(n_layers), **of_outcomes.named_in(config)}
        outcomes = of_outcomes.ordered(outcomes, every, **known)
        remembering = pairs.loc[pairs["source_answer"] != "", "pair"]
        curve = _summarise(outcomes, clean, set(remembering), n_layers)
        frames = {"curve": curve, "outcomes": outcomes, "clean": clean, "pairs": pairs}
        frames["predictions"] = of_predictions.ordered(given(predictions))
        return cls(config=config, frames=frames, versions=environment_versions())

    @property
    def frame(self) -> pd.DataFrame:
        """One row per layer, pooling and vector.

        Columns: layer; depth (0 … 1); pooling; vector; expected_accuracy, the share of the n pairs
        in which the prediction is the expected answer, with its Wilson 95 % interval expected_low,
        expected_high; answer_accuracy, answer_low, answer_high of the target's own answer;
        remembered, remembered_low, remembered_high, the share of the source's own answer among the
        n_remembered pairs where that is known (NaN where there is none);
        expected_logprob and answer_logprob (means, nats); n; clean_expected, clean_answer and
        clean_remembered, the same shares of the clean model on the targets;
        composed_expected, that of the expected answer on the n_composed composed prompts (NaN where
        there is none).
        """
        return self.frames["curve"]

    @property
    def outcomes(self) -> pd.DataFrame:
        """One row per pair, layer, pooling and vector: see :meth:`from_outcomes`."""
        return self.frames["outcomes"]

    @property
    def clean(self) -> pd.DataFrame:
        """The clean model, on targets and composed prompts: see :meth:`from_outcomes`."""
        return self.frames["clean"]

    @property
    def pairs(self) -> pd.DataFrame:
        """One row per pair: see :meth:`from_outcomes`."""
        return self.frames["pairs"]

    def plot(self, answer: str = "expected") -> ChartFigure:
        """Accuracy of an answer against the layer, a panel for each pooling, a curve for each
        vector.

        The horizontal lines are the clean model on the targets and on the composed prompts,
        controls are dashed. Bands are 95 % intervals of a control's difference to the transplant,
        paired by pair and laid at the control's curve: where a band does not hold the transplant's
        curve, they differ. Without random controls they are of the differences to the clean target.

        Args:
            answer: "expected", what the composed sentence would mean, "untouched", the target's
                own, or "remembered", the source's own.

        Raises:
            OptionError: another word, or "remembered" where no pair has the source's own answer.
        """
        from interp_compose.studies.transplant.figures import accuracy_figure

        known = self._answered()
        if answer not in known:
            raise OptionError(f"answer={answer!r}: expected one of {', '.join(known)}")
        return accuracy_figure(self._compared(RIGHT[answer]), answer, self.config)

    def _answered(self) -> tuple[str, ...]:
        """The answers that are known."""
        known = (self.frame["n_remembered"] > 0).all()
        return self.FIGURES if known else self.FIGURES[:2]

    def _compared(self, right: str) -> pd.DataFrame:
        """:attr:`frame`, each vector compared with the transplant, or without random controls with
        the clean target (:func:`.against`); ``compared_with`` names which."""
        from interp_compose.studies.core.figures import against
        from interp_compose.studies.transplant.reading import CLEAN, RANDOM

        pairs = self.pairs[(self.pairs["source_answer"] != "") | (right != "remembered")]["pair"]
        clean = self.clean[self.clean["run"] == "target"].set_index("pair")[right]
        outcomes = self.outcomes[self.outcomes["pair"].isin(pairs)]
        given = {
            place: rows.pivot(index="pair", columns="layer", values=right)
            for place, rows in outcomes.groupby(["vector", "pooling"])
        }
        has_random, parts = bool({*RANDOM} & {*self.frame["vector"]}), []
        for (vector, pooling), rows in self.frame.groupby(["vector", "pooling"], sort=False):
            other = given["transplant", pooling] if has_random else clean
            parts.append(against(rows, given[vector, pooling], other))
            if has_random and vector == "transplant":  # no interval of a difference to itself
                parts[-1][["low", "high"]] = float("nan")
        compared_with = "the transplant" if has_random else CLEAN
        return pd.concat(parts).sort_index().assign(compared_with=compared_with)

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure of the study, by the name its files get."""
        return {answer: self.plot(answer) for answer in self._answered()}

    def _head(self) -> tuple[str, str]:
        first = self.frame.iloc[0]
        n = int(first["n"])
        target, expected = (_share(first[f"clean_{one}"], n) for one in ("answer", "expected"))
        return (
            about(self.config, ("model", "task"), counted(n, "pairs")),
            f"clean model: the target's own answer in {target}, the expected one in {expected}",
        )

    def _summary(self) -> Summary:
        """What is carried; and accuracies as aligned text: a row per layer and pooling, a column
        per vector."""
        from interp_compose.studies.transplant.reading import answers

        first, (head, clean) = self.frame.iloc[0], self._head()
        lines: Summary = [head, *answers(self), clean]
        if first["n_composed"]:
            n_composed = int(first["n_composed"])
            lines.append(
                f"on {counted(n_composed, 'composed prompts')}: the expected answer in "
                f"{_share(first['composed_expected'], n_composed)}"
            )
        shown = {"expected": ("expected", "n"), "target's own": ("answer", "n")}
        if first["n_remembered"]:
            shown["source's own"] = ("remembered", "n_remembered")
        rows = self.frame.sort_values(["pooling", "layer", "vector"], key=OUTCOMES.place)
        place = (("pooling", "pooling", "<8"), ("layer", "layer", ">5"))
        for title, (name, count) in shown.items():
            value = name if name == "remembered" else f"{name}_accuracy"
            cells = rows.assign(
                vector=rows["vector"].replace(SHOWN),
                shown=[
                    f"{share:.3f} [{low:.3f}, {high:.3f}]"
                    for share, low, high in zip(
                        *(rows[one] for one in (value, f"{name}_low", f"{name}_high")),
                        strict=True,
                    )
                ],
            )
            lines += [
                "",
                f"accuracy of the {title} answer, {counted(int(first[count]), 'pairs')}",
                crossed_table(cells, "vector", "shown", ">22", place),
            ]
        return self._told(lines)

    def sentences(self) -> list[str]:
        """Where the transplant is taken for the phrase, what was asked, what the clean model
        answers, and the shares where the expected answer is given most often."""
        from interp_compose.studies.transplant.reading import answers

        moved = self.frame[self.frame["vector"] == "transplant"]
        best = moved.nlargest(1, "expected_accuracy").iloc[0].to_dict()
        place = (self.frame["layer"] == best["layer"]) & (self.frame["pooling"] == best["pooling"])
        numbers = ["vector", "expected_accuracy", "expected_low", "expected_high"]
        shares = [
            f"{SHOWN.get(vector, vector)} {interval(*share)}"
            for vector, *share in self.frame.loc[place, numbers].to_numpy().tolist()
        ]
        first = self._head()[1]
        pair = {name: str(text).strip() for name, text in self.pairs.iloc[0].items()}
        return [
            *answers(self),
            "Asked: whether the vector of a phrase of one prompt (the source) is taken for that "
            "phrase in another (the target). The expected answer is that of the composed prompt, "
            "the target with the source's phrase in it. In the first pair "
            f"“{pair['source_phrase']}” out of “{pair['source']}” takes the place of "
            f"“{pair['target_phrase']}” in “{pair['target']}”, whose own answer is "
            f"“{pair['answer']}”; expected is “{pair['expected']}”.",
            f"{first[0].upper()}{first[1:]}.",
            f"The transplant gives the expected answer most often at layer {best['layer']} "
            f"({best['pooling']}); by vector: {'; '.join(shares)}; {INTERVALS}.",
        ]

    def _examples(self) -> Examples:
        order = ["pair", "vector", "pooling", "layer"]
        outcomes = self.outcomes.sort_values(order, key=OUTCOMES.place)
        clean = self.clean[self.clean["run"] == RUNS[0]]
        return examples_of(
            outcomes,
            key="pair",
            line=outcomes["vector"].replace(SHOWN) + ", " + outcomes["pooling"],
            value="answer_logprob",
            clean=self.pairs.merge(clean, on="pair"),
            parts=lambda row: [
                *marked(row["target"], [row["target_phrase"]]),
                " ← ",
                *marked(row["source"], [row["source_phrase"]]),
            ],
            facts=lambda row: (
                f"expected “{row['expected']}”, the target's own answer “{row['answer']}”; the "
                f"clean model predicts “{row['prediction_text']}”"
            ),
            answers=lambda row: (
                f"expected “{row['expected'].strip()}”, the target's own “{row['answer'].strip()}”"
            ),
            right="expected_right",
            predictions=self.frames.get("predictions", PREDICTIONS.of(())),
            measured="log-probability of the target's own answer (nats)",
            marks="The framed phrase of the right text stands in for that of the left one. Bold "
            "predictions are the expected answer.",
        )

    @property
    def notes(self) -> list[str]:
        """What filters left, and few pairs."""
        return super().notes + cautions(int(self.frame["n"].iloc[0]), of="pairs")


def _share(share: float, n: int) -> str:
    low, high = wilson_interval(round(share * n), n)
    return f"{share:.3f} [{low:.3f}, {high:.3f}]"


def _summarise(
    outcomes: pd.DataFrame, clean: pd.DataFrame, known: set[int], n_layers: int
) -> pd.DataFrame:
    """The tidy curve: one row per layer, pooling and vector. ``known`` are the pairs whose source's
    own answer is."""
    of_target = clean[clean["run"] == "target"]
    of_composed = clean[clean["run"] == "composed"]
    n = len(of_target)
    table = (
        outcomes.groupby(PLACE, sort=False)
        .agg(
            expected=("expected_right", "sum"),
            answer=("answer_right", "sum"),
            remembered=("remembered", "sum"),
            expected_logprob=("expected_logprob", "mean"),
            answer_logprob=("answer_logprob", "mean"),
        )
        .reset_index()
    )
    frame = table[PLACE].copy()
    frame.insert(1, "depth", table["layer"] / max(n_layers - 1, 1))
    for answer in ("expected", "answer"):
        frame[f"{answer}_accuracy"] = table[answer] / n
        low, high = wilson_interval(table[answer].to_numpy(), n)
        frame[f"{answer}_low"], frame[f"{answer}_high"] = low, high
    low, high = wilson_interval(table["remembered"].to_numpy(), len(known))
    frame["remembered"] = table["remembered"] / len(known) if known else float("nan")
    frame["remembered_low"], frame["remembered_high"] = low, high
    frame["expected_logprob"] = table["expected_logprob"]
    frame["answer_logprob"] = table["answer_logprob"]
    frame["n"] = n
    frame["n_remembered"] = len(known)
    frame["clean_expected"] = float(of_target["expected_right"].mean())
    frame["clean_answer"] = float(of_target["answer_right"].mean())
    frame["clean_remembered"] = float(
        of_target.loc[of_target["pair"].isin(known), "remembered"].mean()
    )
    frame["composed_expected"] = float(of_composed["expected_right"].mean())
    frame["n_composed"] = len(of_composed)
    return frame.sort_values(["pooling", "vector", "layer"], key=OUTCOMES.place, ignore_index=True)
