"""What diffusion models generate for each node of a concept graph, by init rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from interp_compose._public import public
from interp_compose.papers.complexity.tasks.concept_images import NODES, described
from interp_compose.papers.shared.grid.shares import ALL, differences_of, summary_of
from interp_compose.studies.core import decided
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import LIMITS, Summary, decimal, listed, text_table

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

PLACE: Final = "init_rate float, seed int"
KEY: Final = ("init_rate", "seed")
GRID: Final = tuple((axis,) for axis in KEY)
KINDS: Final = (ALL, "shape", "size", "color", "clear")
KNOWN: Final = {"node": NODES, "kind": KINDS}
RUNS: Final = Table(
    "runs",
    f"{PLACE}, n_parameters int, steps int, step_seconds float, first_loss float, "
    "last_loss float, stable_rank float, mean_abs_cosine float null",  # NaN of one channel
    key=KEY,
    complete=GRID,
    rules=("n_parameters > 0", "steps > 0", "step_seconds > 0"),
)
ACCURACY: Final = Table(
    "accuracy",
    f"{PLACE}, node str, trained bool, kind str, n_right int, n int",
    key=(*KEY, "node", "kind"),
    complete=(*GRID, ("node",), ("kind",)),
    known=KNOWN,
    rules=("0 <= n_right <= n", "n > 0"),
)
CURVE: Final = Table(
    "curve",
    f"{PLACE}, step int, node str, trained bool, kind str, n_right int, n int",
    key=(*KEY, "step", "node", "kind"),
    complete=(*GRID, ("step",), ("node",), ("kind",)),
    known=KNOWN,
    rules=("step >= 0", "0 <= n_right <= n", "n > 0"),
)
EXAMPLES: Final = Table(
    "examples",
    f"{PLACE}, node str, image int, png str",
    key=(*KEY, "node", "image"),
    complete=(*GRID, ("node",), ("image",)),
    known={"node": NODES},
    rules=("image >= 0",),
)
JUDGE: Final = Table(
    "judge",
    "node str, kind str, n_right int, n int",
    key=("node", "kind"),
    complete=(("node",), ("kind",)),
    known=KNOWN,
    rules=("0 <= n_right <= n", "n > 0"),
)
FAILURE: Final = Table(
    "failure",
    "setting str, init_rate float, node str, wrong float, low float, high float, clear float, "
    "right float, learned float, verdict str",
)
DEFAULT_RATE: Final = 0.5
"""PyTorch's default, to which other init rates are compared."""
FAILING: Final = ("010", "011")
"""Small circles, for which the paper's models draw small triangles at γ = 0.5."""
LEARNED: Final = 0.9
"""The share of images of every training node that is right, at least, of a model that has learned
what it was shown."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class ConceptGraphs(GridResult):
    """Diffusion models on a concept graph, over init rates; made by :func:`concept_graphs`."""

    SCHEMA = (RUNS, ACCURACY, CURVE, EXAMPLES, JUDGE)
    TABLES = ("runs", "accuracy", "curve", "examples", "judge", "summary", "differences", "failure")
    RUNS = ("runs/ (weights, history and generated images of each)",)
    FIGURES = ("concept_graphs_accuracy", "concept_graphs_curve", "concept_graphs_images")

    def computed(self) -> dict[str, pd.DataFrame]:
        """The shares over seeds, how init rates differ, and the failure mode."""
        values = shares(self.frames["accuracy"])
        return {
            "summary": summary_of(values, ("setting", "init_rate", "node", "trained", "kind")),
            "differences": differences_of(default_first(values), "setting", ("node", "kind")),
            "failure": failure_of(values),
        }

    @property
    def frame(self) -> pd.DataFrame:
        """One row per init rate, node and kind: the share of images that is right, over seeds.

        Columns: setting, init_rate, node (shape, size, colour), trained, kind ("all": clear and all
        three right; "shape", "size", "color"; "clear": like a drawing of what it shows), mean, low
        and high (the ends of Student's t interval at 95 %; NaN of one seed), smallest and largest
        seed, n (images of a seed), n_seeds.
        """
        return self.frames["summary"]

    @property
    def differences(self) -> pd.DataFrame:
        """Of each init rate and γ = 0.5 (where that is missing, the first one), paired by seed.

        Columns: setting, other, node, kind, difference (setting − other), ci_low and ci_high
        (95 %), p (paired t test, two-sided), p_holm ("all" is a family, the other kinds are
        another), n_seeds.
        """
        return self.frames["differences"]

    @property
    def failure(self) -> pd.DataFrame:
        """Whether each init rate shows the failure mode: a triangle where a small circle, which was
        never seen, is asked for. No rows where both small circles were trained on.

        Columns: setting, init_rate, node, wrong (the share of images that are judged a triangle,
        clear or not, mean over seeds), low, high (95 %: the wider of Student's t over seeds and
        Wilson's of all images; NaN of one seed), clear and right (the shares that are clear, and in
        which all is right, mean over seeds: an image without a triangle may be of the wrong size),
        learned (the smallest
        share of right images of a training node, mean over seeds), verdict: "shown" where the
        interval lies above 0.5, "absent" where it lies below, "undecided" otherwise, and "not
        learned" where ``learned`` is below 0.9.
        """
        return self.frames["failure"]

    def _summary(self) -> Summary:
        """The failure mode at each init rate, and a row per init rate and node."""
        wide = self.frame.pivot_table(
            index=["setting", "node", "trained"], columns="kind", values="mean", sort=False
        ).reset_index()
        wide["trained"] = ["yes" if trained else "no" for trained in wide["trained"]]
        wide["asked"] = [described(node) for node in wide["node"]]
        kinds = [(kind, kind, ">8.1f", 100.0) for kind in KINDS]
        columns = [
            ("setting", "setting", "<10"), ("node", "node", "<6"), ("asked for", "asked", "<22"),
            ("trained", "trained", "<8"), *kinds,
        ]  # fmt: skip
        means = self.frames["runs"].groupby("init_rate")["stable_rank"].mean()
        ranks = ", ".join(f"γ {rate:g} {rank:.2f}" for rate, rank in means.items())
        judged = self.frames["judge"].groupby("kind")[["n_right", "n"]].sum()
        right = {kind: 100 * judged["n_right"][kind] / judged["n"][kind] for kind in KINDS}
        words = ", ".join(f"{kind} {right[kind]:.2f} %" for kind in KINDS)
        return self._told(
            [
                *self._failures(),
                "images that are right, in per cent, mean over seeds:",
                "",
                text_table(wide, columns),
                "",
                "stable rank of the first residual block's first convolution: " + ranks,
                "",
                f"the judge itself, on rendered images with noise and blur: {words}",
            ]
        )

    def _failures(self) -> Summary:
        if self.failure.empty:
            return ["both small circles were trained on: there is no failure to look for", ""]
        shares = []
        for row in self.failure.to_dict("records"):
            ends = "" if math.isnan(row["low"]) else (
                f" (95 % {decimal(100 * row['low'], 1)} to {decimal(100 * row['high'], 1)})"
            )  # fmt: skip
            shares.append(
                f"triangles in {decimal(100 * row['wrong'], 1)} % of images{ends}, "
                f"clear {decimal(100 * row['clear'], 1)} %, "
                f"right {decimal(100 * row['right'], 1)} %"
            )
        formats = {"setting": "<8", "node": "", "verdict": "<12", "shares": ""}
        columns = [("", *one) for one in formats.items()]
        table = text_table(self.failure.assign(shares=shares), columns)
        return ["the failure mode, a triangle where a small circle is asked for:", "", table, ""]

    def _answers(self) -> list[str]:
        differences = self.differences[self.differences["kind"] == ALL]
        named = differences.assign(name=_named(differences))
        return decided.apart(named, "name", decided.ACCURACY)

    def sentences(self) -> list[str]:
        """Whether init rates differ, and which combinations that were not trained on are drawn
        right most and least often."""
        rows = self.frame[(self.frame["kind"] == ALL) & ~self.frame["trained"]]
        rows = rows if len(rows) else self.frame[self.frame["kind"] == ALL]
        rows = rows.assign(name=_named(rows)).sort_values("mean", ascending=False, kind="stable")
        return [
            *self._answers(),
            "Asked: whether diffusion models compose concepts that they have not seen together; of "
            "such combinations, the ones whose images are right most and least often: "
            f"{listed(rows.iloc[[0, -1]], 'name', percent=True)}.",
            f"What is right is decided by a judge, which errs as the summary says. {LIMITS}",
        ]

    def figures(self) -> dict[str, ChartFigure]:
        """Accuracy by init rate and over training, and generated images of the first seed."""
        from interp_compose.papers.complexity.studies.concept_graphs import figures

        values = shares(self.frames["accuracy"])
        return {
            "concept_graphs_accuracy": figures.accuracy_figure(values, self.config),
            "concept_graphs_curve": figures.over_training(
                shares(self.frames["curve"]), self.config
            ),
            "concept_graphs_images": figures.images_figure(
                self.frames["examples"], values, self.config
            ),
        }


def _named(rows: pd.DataFrame) -> list[str]:
    """Like "small red circle at γ 0.5"."""
    places = zip(rows["node"], rows["setting"], strict=True)
    return [f"{described(node)} at {setting}" for node, setting in places]


def shares(accuracy: pd.DataFrame) -> pd.DataFrame:
    """With the share that is right, and a name of the init rate like "γ 0.5"."""
    names = [f"γ {rate:g}" for rate in accuracy["init_rate"]]
    return accuracy.assign(setting=names, value=accuracy["n_right"] / accuracy["n"])


def default_first(values: pd.DataFrame) -> pd.DataFrame:
    """Rows of γ = 0.5 before the others."""
    is_default = values["init_rate"] == DEFAULT_RATE
    return pd.concat([values[is_default], values[~is_default]], ignore_index=True)


def failure_of(values: pd.DataFrame) -> pd.DataFrame:
    """See :attr:`ConceptGraphs.failure`."""
    place = ["setting", "init_rate", "node"]
    unseen = values[~values["trained"] & values["node"].isin(FAILING) & (values["kind"] == "shape")]
    trained = values[values["trained"] & (values["kind"] == ALL)]
    if unseen.empty:
        return FAILURE.of([])
    triangles = unseen.assign(value=1 - unseen["value"], wrong=unseen["n"] - unseen["n_right"])
    failures = summary_of(triangles, place)
    counts = triangles.groupby(place, sort=False)[["wrong", "n"]].sum()
    intervals = [
        binomtest(wrong, n).proportion_ci(method="wilson")
        for wrong, n in counts.itertuples(index=False)
    ]
    failures["low"] = np.minimum(failures["low"], [one.low for one in intervals])  # NaN stays
    failures["high"] = np.maximum(failures["high"], [one.high for one in intervals])
    keys = list(zip(failures["init_rate"], failures["node"], strict=True))
    for name, kind in (("clear", "clear"), ("right", ALL)):
        share = values[values["kind"] == kind].groupby(place[1:])["value"].mean()
        failures[name] = [share[key] for key in keys]
    by_node = trained.groupby(["init_rate", "node"])["value"].mean()
    failures["learned"] = failures["init_rate"].map(by_node.groupby("init_rate").min())
    ends = zip(failures["low"], failures["high"], failures["learned"], strict=True)
    failures["verdict"] = [_verdict(*each) for each in ends]
    return FAILURE.of(failures.rename(columns={"mean": "wrong"}))


def _verdict(low: float, high: float, learned: float) -> str:
    if learned < LEARNED:
        return "not learned"
    if low > 0.5:
        return "shown"
    return "absent" if high < 0.5 else "undecided"
