"""How encoders do on texts and pairs of them, output by output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.papers.cat.studies.pretrain.result import told_of_models
from interp_compose.papers.shared.grid.shares import differences_of_readings, summary_of
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import LIMITS, Column, Summary, counted
from interp_compose.studies.core.view import FIRST, StudyQuestion, View

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

ALL: Final = "all"
MIRROR: Final = "mirror"
OOD: Final = "ood"
SAME_WORDS: Final = "same words"
"""Pairs with labels whose texts have the same words in another order."""
NOTHING: Final = "nothing"
"""What an encoder was tuned on that was not."""
TUNED: Final = ("no", "frozen", "end-to-end")
OUTPUTS: Final = ("cont", "comp", "mix")
EMBEDDINGS: Final = ("cls", "mean")
WORDS: Final = "words"
"""The embedding of questions whose answers are spans: a vector of each word."""
METRICS: Final = (
    "pearson", "spearman", "auc", "accuracy", "specificity", "balanced_accuracy", "matthews", "f1",
    "exact_match", "token_f1",
)  # fmt: skip
SHARES: Final = ("accuracy", "specificity", "balanced_accuracy", "exact_match")
"""Metrics that are drawn in per cent."""
MEASURE: Final = ("embedding", "task", "tuned", "trained_on", "share", "subset", "metric")
SCORES: Final = Table(
    "scores",
    "model str, seed int, task str, tuned str, trained_on str, share float, output str, "
    "embedding str, subset str, metric str, value float null, "  # NaN where all vectors are one
    "n int, n_cut int",
    key=("model", "seed", "output", *MEASURE),
    complete=(("model", "output", *MEASURE), ("seed",)),
    known={
        "tuned": TUNED,
        "output": OUTPUTS,
        "embedding": (*EMBEDDINGS, WORDS),
        "metric": METRICS,
    },
    rules=("not (value < -1 or value > 1)", "n > 0", "0 <= n_cut <= n", "0 <= share <= 1"),
)

TITLES: Final = {
    "pearson": "Pearson's r with people's ratings",
    "spearman": "Spearman's ρ with people's ratings",
    "auc": "area under the ROC curve",
    "accuracy": "accuracy of a classifier",
    "specificity": "pairs of class 0 that a classifier calls so",
    "balanced_accuracy": "mean of a classifier's accuracies in both classes",
    "matthews": "Matthews' correlation of a classifier",
    "f1": "F1 of a classifier",
    "exact_match": "answers that are right (exact match)",
    "token_f1": "F1 of an answer's words",
}
TASK_TITLES: Final = {"bird": "BiRD", "paws-qqp": "PAWS-QQP", "sst": "SST", "squad": "SQuAD"}
"""Names of data sets in titles."""
READINGS: Final = {
    "cont": "cont: contextual",
    "comp": "comp: composed",
    "mix": "mix: both",
    "mirror": "mirror: “a b” with “b a”",
    "same words": "same words: pairs with the same words in another order",
    "cls": "cls: [CLS]",
}
"""What a subtitle says of outputs, subsets and embeddings."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class EncoderScores(GridResult):
    """Pre-trained encoders on texts and pairs of them, seed by seed; made by :func:`encoders`."""

    SCHEMA = (SCORES,)
    TABLES = ("scores", "summary", "differences")
    FIGURES = tuple(f"encoders_{metric}" for metric in METRICS)
    RUNS = ("data/: the tasks", "runs/: what each run measured")
    VIEW = View(
        "texts and pairs of texts, {seeds}",
        place=(
            Column("task", "task", "<12"),
            Column("tuned", "tuned", "<11"),
            Column("on", "trained_on", "<12"),
            Column("share", "share", ">6.2f"),
            Column("subset", "subset", "<14"),
            Column("metric", "metric", "<10"),
            Column("embedding", "embedding", "<11"),
            Column("model", "model", "<16"),
            Column("output", "output", "<8"),
        ),
        values=(
            Column("mean", "mean", ">7.3f"),
            Column("smallest to largest", ("smallest", "largest"), ">21.3"),
            Column("n", "n", ">8,"),
        ),
    )
    QUESTION = StudyQuestion(
        "how well vectors of pre-trained encoders serve {task} ({subset}, {metric}, {embedding}, "
        "n {n:,})",
        by="reading",
        at=dict.fromkeys(MEASURE, FIRST),
    )

    @classmethod
    def from_rows(
        cls, frames: Mapping[str, pd.DataFrame], config: Mapping[str, Any]
    ) -> EncoderScores:
        """A result of tables as ``EncoderScores.SCHEMA`` states them.

        Raises:
            InputError: a table or column is missing, foreign or of the wrong type; rows are
                missing or doubled.
        """
        return cls._checked(frames, config)

    def computed(self) -> dict[str, pd.DataFrame]:
        """The means over seeds, and how models and outputs differ, of values that all seeds
        have."""
        scores = self.frames["scores"]
        place = ["model", "output", *MEASURE]
        known = scores["value"].notna().groupby([scores[one] for one in place]).transform("all")
        first = " ".join(scores[["model", "output"]].iloc[0])
        return {
            "summary": summary_of(scores[known], place, least=-1.0),
            "differences": differences_of_readings(scores[known], first, MEASURE, ["task"]),
        }

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, output, embedding, task, training, subset of its texts and metric,
        over seeds.

        Columns: model, output ("cont", "comp" or "mix": the representation that is read), embedding
        ("cls": the first token's vector; "mean": over all tokens; "words": each word's, where
        answers are spans), task, tuned ("no": cosines; "frozen": a classifier of the vectors;
        "end-to-end"), trained_on (a task, or "nothing"), share (of its training texts), subset
        ("all"; "mirror": pairs that mirror each other; "same words": pairs with labels that differ
        in the order of their words alone; "label 0", …; "ood": another distribution; "addsent" and
        "addonesent": with adversarial sentences), metric ("pearson", "spearman", "auc", "accuracy",
        "matthews", "f1"; of "same words" also "specificity" and "balanced_accuracy"; of spans
        "exact_match", "token_f1"), mean, low and high (the ends of Student's t interval at 95 %;
        NaN of one seed), smallest and largest seed, n (texts, pairs or questions), n_seeds. A
        metric that does not exist for a seed, as its vectors are all the same, has no row.
        """
        return self.frames["summary"]

    @property
    def differences(self) -> pd.DataFrame:
        """Of two models and outputs (``reading`` and ``other``), paired by seed.

        Columns: reading, other, compared ("first": with the first reading; "output": comp and mix
        with cont of the same model; "control": with the same output of a control, that is cat with
        cat-fixed and cat-mlp, cat-last with cat-last-fixed and cat-last-mlp), embedding, task,
        tuned, trained_on, share, subset, metric, difference (reading − other), ci_low and ci_high
        (95 %), p (paired t test, two-sided), p_holm (over all rows of the same task that have the
        same ``compared``), n_seeds.
        """
        return self.frames["differences"]

    def _summary(self) -> Summary:
        """A row per model, output and measure."""
        order = ["task", "metric", "tuned", "trained_on", "share", "subset", "embedding"]
        seeds = counted(len(self.config["seeds"]), "seeds") + self.config.get("sample", "")
        lines = self.VIEW.lines(self.frame.sort_values(order, kind="stable"), seeds=seeds)
        n_missing = int(self.frames["scores"]["value"].isna().sum())
        if n_missing:
            lines += ["", f"{n_missing} values do not exist: all vectors are the same"]
        cut = int(self.frames["scores"].groupby("task")["n_cut"].max().sum())
        if cut:
            lines += ["", f"{cut} texts or pairs are longer than the context, and were cut"]
        return self._told(lines)

    def sentences(self) -> list[str]:
        """The first measure of each model and output, and what differs most there."""
        if self.frame.empty:
            return ["No value exists: all vectors are the same.", LIMITS]
        *sentences, limits = super().sentences()
        n_measures = len(self.frame[[*MEASURE]].drop_duplicates())
        others = f"That is one of {counted(n_measures, 'measures')}, the others are in the tables."
        return [*sentences, f"{others} {limits}"]

    def figures(self) -> dict[str, ChartFigure]:
        """Each metric by model and output."""
        return {
            f"encoders_{metric}": scores_figure(self.frame, metric, self.config)
            for metric in METRICS
            if (self.frame["metric"] == metric).any()
        }


def _training(row: pd.Series) -> str:
    """How the encoder, or a classifier of it, was trained, where it was and that is not the usual:
    like ", end-to-end, 50 %", or ", tuned on PAWS-QQP" of another task."""
    if row["tuned"] == "no":
        return ""
    share = "" if row["share"] == 1 else f", {100 * row['share']:g} %"
    if row["trained_on"] == row["task"]:
        return f", {row['tuned']}{share}"
    return f", tuned on {TASK_TITLES.get(row['trained_on'], row['trained_on'])}{share}"


def scores_figure(summary: pd.DataFrame, metric: str, config: Mapping[str, Any]) -> ChartFigure:
    """The mean over seeds, bars from the smallest to the largest, of each model and output; a
    colour for each task, subset and embedding."""
    from interp_compose.papers.shared.grid.figures import (
        BARS,
        beside,
        by_value,
        n_seeds,
        of_several,
        seed_lines,
        unjoined,
    )
    from interp_compose.plots.chart import Chart, Panel, subtitle_of
    from interp_compose.plots.interactive import draw

    rows = summary[summary["metric"] == metric]
    readings = list(dict.fromkeys(rows["model"] + "\n" + rows["output"]))
    place = (rows["model"] + "\n" + rows["output"]).map(readings.index).astype(float)
    has_several = rows["task"].nunique() > 1
    named = rows["subset"] + ", " + rows["embedding"] + rows.apply(_training, axis=1)
    titles = rows["task"].map(lambda task: TASK_TITLES.get(task, task))
    named = titles + ": " + named if has_several else named
    placed = rows.assign(place=place + beside(named), name=named)
    tasks = ", ".join(dict.fromkeys(titles))
    shown = {*rows["output"], *rows["subset"], *rows["embedding"]}
    notes = (
        str(config.get("sample", "")).removeprefix(", "),
        *told_of_models(dict.fromkeys(rows["model"])),
        *(note for name, note in READINGS.items() if name in shown),
    )
    return draw(
        Chart(
            title=f"{tasks}: {TITLES[metric]}",
            subtitle=subtitle_of(n_seeds(config), *of_several(config, BARS), *notes),
            x_title="",
            y_title=TITLES[metric],
            y_is_share=metric in SHARES,
            panels=[Panel(seed_lines(unjoined(by_value(placed, "name")), "place"), [])],
            categories=readings,
        )
    )
