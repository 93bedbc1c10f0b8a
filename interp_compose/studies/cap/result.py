"""The result of a CAP study: one accuracy per layer and pooling, and what it rests on.

Three tidy tables: ``clean`` (one row per example, the clean model), ``outcomes`` (one row per
example, layer and pooling) and ``frame`` (one row per layer and pooling, computed from them); and
two of texts: ``tokens`` of the prompts, and ``predictions``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pandas as pd

from interp_compose._public import public
from interp_compose._versions import environment_versions
from interp_compose.checks import labelled
from interp_compose.errors import InputError, OptionError, warn
from interp_compose.plots.chart import answers_note
from interp_compose.stats.intervals import share_interval, wilson_interval
from interp_compose.stats.seeds import mean_interval
from interp_compose.studies.core.decided import paired
from interp_compose.studies.core.examples import (
    PREDICTIONS,
    TOKENS,
    Examples,
    Part,
    answered,
    examples_of,
    framed,
    given,
    the_answer,
)
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import YOURS, Table, check_same, with_foil
from interp_compose.studies.core.text import (
    INTERVALS,
    LAYER,
    UNCORRECTED,
    Summary,
    about,
    cautions,
    counted,
    crossed_table,
    examples_unlike,
    floor_of,
    floors_of,
    interval,
    probability,
    text_table,
    unlike,
    with_controls_named,
)

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure


POOLINGS: Final = ("mean", "max", "sum")
STRADDLING: Final = "straddling"
CONTROLS: Final = ("last", "first", STRADDLING, "shuffled")

EXACT: Final = "McNemar's exact test"
PAIRED_T: Final = "the paired t test"
ALONE: Final = "without a free unit of one token next to them"

RANK: Final = "target_rank >= 1"  # 1 is the most likely token
OUTCOMES: Final = Table(
    "outcomes",
    "example int, layer int, pooling str, prediction int, correct bool, target_logprob float, "
    "target_rank int",
    key=("example", "layer", "pooling"),
    complete=(("example",), ("layer", "pooling")),
    known={"pooling": (*POOLINGS, YOURS, *CONTROLS)},
    rules=(RANK,),
)
CLEAN: Final = Table(
    "clean",
    "example int, prompt str, answer str, prediction int, prediction_text str, correct bool, "
    "target_logprob float, target_rank int, affected bool, n_tokens int, n_groups int",
    key=("example",),
    rules=(RANK,),
)

Value = Literal["accuracy", "target_logprob"]
AVERAGE: Final = "average"
NOT_POOLED: Final = "clean"


@public
@dataclass(frozen=True, eq=False, repr=False)
class CapCurve(StudyResult):
    """What constituent-aware pooling does to a model, layer by layer (CARMA, section 4.3, C.1).

    Make one with :meth:`from_outcomes`; keep it with :meth:`~Result.save`; read it back with
    :meth:`~Result.load`.
    """

    SCHEMA = (OUTCOMES, CLEAN, TOKENS, PREDICTIONS)
    TABLES = ("curve", "outcomes", "clean", "tokens", "predictions")
    FIGURES = ("cap_curve", "cap_logprob")

    @classmethod
    def _tables(cls, config: Mapping[str, Any]) -> tuple[Table, ...]:
        first, clean, *others = cls.SCHEMA
        return (first, with_foil(clean, config), *others)

    @classmethod
    def from_outcomes(
        cls,
        outcomes: pd.DataFrame,
        clean: pd.DataFrame,
        config: Mapping[str, Any],
        *,
        n_layers: int,
        tokens: pd.DataFrame | None = None,
        predictions: pd.DataFrame | None = None,
    ) -> CapCurve:
        """Summarise per-example outcomes.

        Args:
            outcomes: one row per example, layer and pooling, *all* examples included (one that
                pooling cannot change carries its clean outcome). Columns: example, layer,
                pooling, prediction (token id), correct, target_logprob (nats), target_rank.
            clean: one row per example. Columns: example, prompt, answer, prediction,
                prediction_text, correct, target_logprob, target_rank, affected (has a
                multi-token unit), n_tokens, n_groups; where the config's answers are "foil", foil.
            config: what was run, in JSON's types.
            n_layers: of the model; depth is layer / (n_layers - 1), so that 0 is the embeddings
                and 1 the entry of the last block (0 for a model of one block).
            tokens: of the prompts, for :meth:`report`: example, position, text, unit (tokens of one
                unit are pooled; -1 of special tokens).
            predictions: the texts of predictions, for :meth:`report`: prediction (token id), text.

        Raises:
            InputError: a column is missing, foreign or of the wrong type; a number is not finite;
                rows are missing or doubled; an unaffected example's outcome is not its clean one.
            LayerError: a layer outside 0 … n_layers - 1.
            OptionError: a pooling that is none of POOLINGS and CONTROLS, and not in
                ``config["pooling"]``.
        """
        clean = with_foil(CLEAN, config).ordered(clean)
        examples = {"example": clean["example"].tolist()}
        known = OUTCOMES.named_in(config)
        outcomes = OUTCOMES.ordered(outcomes, examples, layer=range(n_layers), **known)
        columns = ["example", "prediction", "correct", "target_rank", "target_logprob"]
        unaffected = clean.loc[~clean["affected"], columns]
        check_same("outcomes", outcomes, unaffected, "example", "no unit has several tokens")
        frames = {
            "curve": _summarise(outcomes, clean, n_layers),
            "outcomes": outcomes,
            "clean": clean,
            "tokens": TOKENS.ordered(given(tokens), example=examples["example"]),
            "predictions": PREDICTIONS.ordered(given(predictions)),
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
        """One row per example, layer and pooling: see :meth:`from_outcomes`."""
        return self.frames["outcomes"]

    @property
    def clean(self) -> pd.DataFrame:
        """One row per example, the clean model: see :meth:`from_outcomes`."""
        return self.frames["clean"]

    def average(self) -> pd.DataFrame:
        """The mean accuracy over the poolings in POOLINGS, as in CARMA's figures 2 and 8.

        One row per layer: layer, depth, pooling ("average"), accuracy, ci_low, ci_high, n. The
        poolings see the same examples, so they are not independent trials: the 95 % interval is
        a bootstrap over whole examples (:func:`.bootstrap_interval`) of each example's mean
        correctness over the poolings; where all examples agree, Wilson's, counting examples.

        Raises:
            InputError: only controls were run.
        """
        if not self.outcomes["pooling"].isin(POOLINGS).any():
            raise InputError(
                f"nothing to average: only {sorted(self.outcomes['pooling'].unique())} were run; "
                f"run at least one of {', '.join(POOLINGS)}"
            )
        shares = self._shares(AVERAGE)
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

    def differences(
        self, first: str, second: str = NOT_POOLED, *, value: Value = "accuracy"
    ) -> pd.DataFrame:
        """One pooling's accuracy minus another's on the same examples, a row per layer.

        Intervals of the two accuracies do not tell whether they differ, since both are of the same
        examples. Here examples are paired (:func:`.paired_shares`).

        Columns: layer; depth; first; second; difference of the accuracies with its 95 % interval
        ci_low, ci_high (Newcombe's of paired shares); only_first and only_second, the examples that
        one of them gets right alone; p (McNemar's exact test, two-sided); p_holm (Holm, over the
        layers); n.

        Args:
            first: a pooling that was run.
            second: another, or "clean", the clean model.
            value: "target_logprob": the mean difference of the answer's log-probabilities (nats an
                answer), with Student's t interval and the paired t test's p; only_first and
                only_second count the examples in which one of them is the higher.

        Raises:
            OptionError: a pooling that was not run, or the same twice.
            InputError: log-probabilities of a single example.
        """
        column = "correct" if value == "accuracy" else value
        values = self.outcomes.pivot(index="example", columns=["layer", "pooling"], values=column)
        known = [*dict.fromkeys(self.frame["pooling"]), NOT_POOLED]
        if first not in known[:-1] or second not in known or first == second:
            raise OptionError(
                f"first={first!r}, second={second!r}: expected two of {', '.join(known)}; "
                f"{NOT_POOLED!r} comes second"
            )
        if value != "accuracy" and len(self.clean) == 1:
            raise InputError(
                f"value={value!r}: a paired difference needs 2 examples or more, and the curve has "
                "1; read frame's target_logprob"
            )
        clean = self.clean.set_index("example")[column]
        rows: list[tuple[Any, pd.Series[Any], pd.Series[Any]]] = []
        for layer, depth in self._depths.items():
            other = clean if second == NOT_POOLED else values[layer, second]
            place = {"layer": layer, "depth": depth, "first": first, "second": second}
            rows.append((place, values[layer, first], other[values.index]))
        return paired(rows)

    def differences_from(self, other: CapCurve) -> pd.DataFrame:
        """This curve's accuracies minus another's of the same examples: of another model, of a
        fine-tuned one, or of other settings, of which a warning says which they are.

        A row for the clean model (pooling "clean", layer -1), and one for each layer (of the
        same number and depth) and pooling that both have. Columns: layer; depth; pooling;
        difference, ci_low, ci_high, only_first, only_second, p, p_holm, n as
        :meth:`differences` has them; Holm over all rows.

        Raises:
            InputError: the prompts or answers are not the same, in the same order; or there is no
                layer and pooling that both have.
        """
        if other_examples := examples_unlike([self, other]):
            texts = ["prompt", "answer"]
            mine, theirs = (one.clean[texts].to_numpy().tolist() for one in (self, other))
            counts = f"{len(mine)} and {len(theirs)} examples"
            if "order" in other_examples:
                counts = f"the same {len(mine)} examples in another order"
            elif len(mine) == len(theirs):
                changed = sum(a != b for a, b in zip(mine, theirs, strict=True))
                counts = f"{changed} of {len(mine)} examples that differ in prompt or answer"
            raise InputError(
                f"the curves have {counts}; run both on the same examples, in the same order (with "
                "the same task, limit and seed)"
            )
        right, other_right = self._by_place(), other._by_place()
        shared_places = [
            (layer, pooling)
            for layer, pooling in right
            if (layer, pooling) in other_right and self._depths[layer] == other._depths[layer]
        ]
        if not shared_places:
            raise InputError("the curves have no layer, of the same depth, and pooling in common")
        if warning := unlike({"this curve": self, "the other": other}, ["pooling"]):
            warn(warning)
        clean_place = {"layer": -1, "depth": np.nan, "pooling": NOT_POOLED}
        rows: list[tuple[Any, pd.Series[Any], pd.Series[Any]]] = [
            (clean_place, self.clean["correct"], other.clean["correct"])
        ]
        for layer, pooling in shared_places:
            place = {"layer": layer, "depth": self._depths[layer], "pooling": pooling}
            rows.append((place, right[layer, pooling], other_right[layer, pooling]))
        return paired(rows)

    def _shares(self, pooling: str) -> pd.DataFrame:
        """What each example has right at each layer under a pooling, or on average over those in
        POOLINGS: 0 … 1, [example, layer]."""
        is_shown = self.outcomes["pooling"].isin(POOLINGS if pooling == AVERAGE else [pooling])
        return self.outcomes[is_shown].pivot_table(
            index="example", columns="layer", values="correct", aggfunc="mean"
        )

    def _from_clean(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A curve's rows, compared with the clean model (:func:`.against`)."""
        from interp_compose.studies.core.figures import against

        clean = self.clean.set_index("example")["correct"]
        poolings = frame.groupby("pooling", sort=False)
        parts = [against(rows, self._shares(str(name)), clean) for name, rows in poolings]
        return pd.concat(parts, ignore_index=True)

    def _by_place(self) -> dict[Any, pd.Series[bool]]:
        """Which examples are right, in order, at each layer under each pooling."""
        rows = self.outcomes.sort_values("example")
        groups = rows.groupby(["layer", "pooling"], sort=False)
        return {place: group["correct"] for place, group in groups}

    @property
    def _depths(self) -> pd.Series[float]:
        """Of each layer, in order."""
        return self.frame.drop_duplicates("layer").set_index("layer")["depth"].sort_index()

    def plot(
        self,
        *,
        normalised_depth: bool = False,
        average: bool = False,
        value: Value = "accuracy",
    ) -> ChartFigure:
        """Accuracy against the layer at which tokens are pooled, one curve per pooling.

        The horizontal line is the clean model. The band is the 95 % interval of the first
        pooling's difference to it, paired by example and laid at the curve: where it does not hold
        the line, pooling changes the accuracy. The hover has the other poolings' intervals;
        controls are dashed or dotted.

        Args:
            normalised_depth: the x axis is depth in per cent instead of the layer's number.
            average: one curve, of accuracies averaged over mean, max and sum, instead of one each.
            value: "target_logprob": the mean log-probability of the answer (nats).
        """
        from interp_compose.studies.cap.figures import curve_figure, logprob_figure

        if value == "target_logprob":
            if average:
                raise OptionError("average=True is of accuracies; leave it out")
            return logprob_figure(
                _logprobs(self.outcomes, self.clean).merge(
                    self.frame[["layer", "depth", "pooling"]]
                ),
                config=self.config,
                normalised_depth=normalised_depth,
            )
        frame = self.frame
        if average:
            controls = frame[frame["pooling"].isin(CONTROLS)]
            frame = pd.concat([self.average(), controls], ignore_index=True)
        return curve_figure(
            self._from_clean(frame),
            n_affected=int(self.clean["affected"].sum()),
            config=self.config,
            normalised_depth=normalised_depth,
            floor=floor_of(self.clean),
        )

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure of the study, by the name its files get."""
        figures = {"cap_curve": self.plot()}
        if self._value == "target_logprob":
            figures["cap_logprob"] = self.plot(value="target_logprob")
        return figures

    def sentences(self) -> list[str]:
        """What pooling costs, whether one vector per unit suffices, and the clean accuracy."""
        from interp_compose.studies.cap.reading import answers

        return [*answers(self), f"{self._head()[1].capitalize()}, the clean model; {INTERVALS}."]

    def _examples(self) -> Examples:
        tokens = self.frames.get("tokens", TOKENS.of(()))
        parts: dict[Any, list[Part]] = {
            example: framed(rows["text"].tolist(), rows["unit"].tolist())
            for example, rows in tokens.groupby("example")
        }
        outcomes = self.outcomes.sort_values(["example", "pooling", "layer"], key=OUTCOMES.place)
        return examples_of(
            outcomes,
            key="example",
            line=outcomes["pooling"],
            value="target_logprob",
            clean=self.clean,
            parts=lambda row: parts.get(row["example"], [row["prompt"]]),
            facts=answered,
            answers=the_answer,
            right="correct",
            predictions=self.frames.get("predictions", PREDICTIONS.of(())),
            measured="log-probability of the answer (nats)",
            marks="Framed tokens are a unit, which mean, max and sum pool into one vector. Bold "
            "predictions are right.",
        )

    @property
    def notes(self) -> list[str]:
        """What filters left, few examples, a clean model that gets nothing right, or units that the
        control straddling could not move."""
        notes = super().notes + cautions(len(self.clean), floor_of(self.clean))
        counts = self.config.get(STRADDLING)
        if counts is None or counts["moved"] == counts["of"]:
            return notes
        if counts["moved"] == 0:
            return [*notes, left_out(counts["of"])]
        moved = f"{counts['moved']} of {counts['of']} units of several tokens"
        return [*notes, f"straddling moves {moved}; the others, {ALONE}, are pooled as by mean"]

    def _head(self) -> tuple[str, str]:
        n, affected = len(self.clean), int(self.clean["affected"].sum())
        right = int(self.clean["correct"].sum())
        low, high = wilson_interval(right, n)
        shown = f"{counted(n, 'examples')}, {affected} with a unit of several tokens"
        return (
            about(self.config, ("model", "task", "unit"), shown),
            f"clean accuracy {right / n:.3f} [{low:.3f}, {high:.3f}]",
        )

    def _summary(self) -> Summary:
        """The curve as aligned text, a row per layer and a column per pooling; then ``mean`` minus
        each control, paired by example."""
        names = list(dict.fromkeys(self.frame["pooling"]))
        pooled = with_controls_named("accuracy with units pooled", names, CONTROLS)
        table = crossed_table(self.frame, "pooling", "accuracy", ">10.3f")
        lines: Summary = [*self._head(), *self.sentences()[:-1], "", pooled, table]
        if self._value == "target_logprob":
            value = float(self.clean["target_logprob"].mean())
            lines += ["", f"mean log-probability of the answer (nats), clean {value:.3f}"]
            lines.append(crossed_table(self.frame, "pooling", "target_logprob", ">10.3f"))
        if "mean" in names and not (self._value == "target_logprob" and len(self.clean) == 1):
            lines += self._mean_less([name for name in CONTROLS if name in names])
        return self._told(lines)

    @property
    def _value(self) -> Value:
        """What is compared: accuracy, unless the clean model gets nothing right, or it counts
        answers of which every token of several has to be right."""
        long = any(int(length) > 1 for length in self.config.get("answer_tokens", ()))
        return "target_logprob" if long or not self.clean["correct"].any() else "accuracy"

    def _mean_less(self, controls: Sequence[str]) -> Summary:
        """What ``mean`` gains on each control, in words and numbers."""
        if not controls:
            return []
        note = " shuffled: one draw of places, by the seed." if "shuffled" in controls else ""
        unit, test = ("", EXACT) if self._value == "accuracy" else (", nats an answer", PAIRED_T)
        lines: Summary = [
            "",
            f"mean − control{unit}, paired by example: {UNCORRECTED}; p of {test}, by Holm "
            f"over layers.{note}",
        ]
        for first in range(0, len(controls), 2):  # two in a table, which is wide enough
            table = self.frame.drop_duplicates("layer")[["layer", "depth"]].copy()
            columns: list[tuple[Any, ...]] = [*LAYER]
            for name in controls[first : first + 2]:
                rows = self.differences("mean", name, value=self._value)
                cells = rows[["difference", "ci_low", "ci_high"]].itertuples(index=False)
                table[name] = [interval(*cell, sign=True) for cell in cells]
                table[f"p {name}"] = [probability(p) for p in rows["p_holm"]]
                columns += [(f"− {name}", name, ">28"), ("p", f"p {name}", ">9")]
            lines.append(text_table(table, columns))
        return lines


def left_out(n_units: int) -> str:
    """Why there is no control straddling, of so many units of several tokens."""
    return (
        f"the control straddling is left out, since it would be mean itself: all {n_units} units "
        f"of several tokens are {ALONE}, with which they could change places"
    )


@public
def compare_curves(
    curves: Mapping[str, CapCurve] | Sequence[CapCurve],
    *,
    pooling: str = AVERAGE,
    normalised_depth: bool = True,
) -> ChartFigure:
    """Several models in one figure, as in CARMA's figures 2 and 8.

    Args:
        curves: with a label for each, or a list, labelled by the models' names and by what else
            differs. Curves of different examples are drawn with a warning: prompts and answers, as
            ``clean`` has them, tell them apart. The subtitle names settings that differ, and
            models that get nothing right.
        pooling: the one to compare, or "average" for the mean over mean, max and sum.
        normalised_depth: depth in per cent, so that models of different sizes share an axis.

    Bands are of each curve's difference to its own clean model, as in :meth:`CapCurve.plot`;
    :meth:`CapCurve.differences_from` compares two models.

    Raises:
        InputError: no curves, or one that lacks the pooling.
    """
    from interp_compose.studies.cap.figures import comparison_figure

    frames, by_label = {}, labelled(curves)
    same = examples_unlike(by_label.values()) != "the examples"
    if not same:
        shown = "; ".join(f"{label}: {len(curve.clean)}" for label, curve in by_label.items())
        warn(
            f"these curves are of different examples ({shown}), so that more than the models may "
            "differ; measure them on the same ones to compare them",
        )
    for label, curve in by_label.items():
        frame = curve.average() if pooling == AVERAGE else curve.frame
        frame = frame[frame["pooling"] == pooling]
        if frame.empty:
            raise InputError(
                f"the curve {label!r} has no pooling {pooling!r}; it has "
                f"{', '.join([AVERAGE, *curve.frame['pooling'].unique()])}"
            )
        frames[label] = curve._from_clean(frame)
    tasks = {str(curve.config.get("task") or "") for curve in by_label.values()}
    notes = [f"task {task}" for task in tasks if len(tasks) == 1 and task]
    first, *others = (answers_note(curve.config) for curve in by_label.values())
    notes += [note for note in first if all(note in other for other in others)]
    notes.append(counted(len(curve.clean), "examples") if same else "different examples")
    whole = all({*POOLINGS} <= {*curve.frame["pooling"]} for curve in by_label.values())
    over = "of mean, max and sum pooling" if whole else "over the poolings of each curve"
    how = f"average {over}" if pooling == AVERAGE else f"{pooling} pooling"
    notes.append(unlike(by_label, [] if pooling == AVERAGE else ["pooling"]))
    notes += floors_of(by_label)
    return comparison_figure(frames, how=how, notes=notes, normalised_depth=normalised_depth)


def _logprobs(outcomes: pd.DataFrame, clean: pd.DataFrame) -> pd.DataFrame:
    """A row per layer and pooling: target_logprob, a mean; reference, the clean model's; low and
    high, of the paired difference to it; n."""
    rows, clean_logprobs = [], clean.set_index("example")["target_logprob"]
    for (layer, pooling), group in outcomes.groupby(["layer", "pooling"], sort=False):
        values = group.set_index("example")["target_logprob"].loc[clean_logprobs.index]
        ends = mean_interval((values - clean_logprobs).tolist())
        numbers = dict(zip(("low", "high"), ends, strict=True), target_logprob=values.mean())
        numbers["reference"] = clean_logprobs.mean()
        rows.append({"layer": layer, "pooling": pooling, **numbers, "n": len(values)})
    return pd.DataFrame(rows).sort_values(["pooling", "layer"], key=OUTCOMES.place)


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
    return frame.sort_values(["pooling", "layer"], key=OUTCOMES.place, ignore_index=True)
