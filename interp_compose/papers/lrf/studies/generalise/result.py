"""What encoder–decoders get right of a compositional task, and how they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.papers.shared.grid.shares import (
    ALL,
    differences_of,
    shares_of,
    summary_of,
    with_costs,
)
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import Column
from interp_compose.studies.core.view import LAST, StudyQuestion, View

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

RUNS: Final = Table(
    "runs",
    "model str, seed int, n_parameters int, steps int, step_seconds float, first_loss float, "
    "last_loss float",
    key=("model", "seed"),
    complete=(("model",), ("seed",)),
    rules=("n_parameters > 0", "steps > 0", "step_seconds > 0"),
)
ACCURACY: Final = Table(
    "accuracy",
    "model str, seed int, split str, kind str, n_right int, n int",
    key=("model", "seed", "split", "kind"),
    complete=(("model",), ("seed",), ("split", "kind")),
    rules=("0 <= n_right <= n", "n > 0"),
)
CURVE: Final = Table(
    "curve",
    "model str, seed int, step int, split str, accuracy float, n int",
    key=("model", "seed", "step", "split"),
    complete=(("model",), ("seed",), ("step",), ("split",)),
    rules=("0 <= accuracy <= 1", "n > 0"),
)
OF_HEAD: Final = ("split", "stack", "layer", "head", "kind")
"""Where fuse-attention is looked at, within a model."""
HEAD_COLUMNS: Final = "split str, stack str, layer int, head int, kind str"
READ_COLUMNS: Final = f"{HEAD_COLUMNS}, earlier int, weight float, n int"
ENTROPY_COLUMNS: Final = f"{HEAD_COLUMNS}, entropy float, share float null, n int"
"""``share`` is NaN where one layer is read."""
STACKS: Final = {"stack": ("encoder", "decoder")}
READS: Final = Table(
    "reads",
    f"model str, seed int, step int, {READ_COLUMNS}",
    key=("model", "seed", "step", *OF_HEAD, "earlier"),
    known=STACKS,
    rules=("0 <= earlier <= layer", "n > 0"),
    may_be_empty=True,
)
ENTROPIES: Final = Table(
    "entropies",
    f"model str, seed int, step int, {ENTROPY_COLUMNS}",
    key=("model", "seed", "step", *OF_HEAD),
    known=STACKS,
    rules=("n > 0",),
    may_be_empty=True,
)


@public
@dataclass(frozen=True, eq=False, repr=False)
class Generalisation(GridResult):
    """Encoder–decoders on a compositional task, seed by seed; made by :func:`generalise`."""

    SCHEMA = (RUNS, ACCURACY, CURVE, READS, ENTROPIES)
    TABLES = ("runs", "accuracy", "curve", "reads", "entropies", "summary", "differences")
    FIGURES = (
        "generalise_accuracy",
        "generalise_types",
        "generalise_curve",
        "generalise_reads",
        "generalise_reads_kinds",
    )
    VIEW = View(
        "sequences that are right, in per cent: mean, 95 % interval, smallest to largest seed",
        place=(Column("model", "model", "<24"), Column("split", "split", "<8")),
        values=(
            Column("mean", "mean", ">7.2f", 100.0),
            Column("interval", ("low", "high"), ">16.1", 100.0),
            Column("seeds", ("smallest", "largest"), ">14.1", 100.0),
            Column("n", "n", ">8"),
            Column("parameters", "n_parameters", ">12,"),
            Column("ms a step", "step_seconds", ">11.1f", 1e3),
        ),
        where=f"kind == '{ALL}'",
    )
    QUESTION = StudyQuestion(
        "what encoder–decoders get right of {n:,} sequences that training does not show, split "
        "{split}",
        by="model",
        at={"split": LAST, "kind": ALL},
        percent=True,
    )

    def computed(self) -> dict[str, pd.DataFrame]:
        """The shares over seeds, and how models differ."""
        values = shares_of(self.frames["accuracy"], ("model",))
        summary = summary_of(values, ("model", "split", "kind"))
        return {
            "summary": summary if self.seen is None else summary.assign(seen=self.seen),
            "differences": differences_of(values, "model", ("split", "kind")),
        }

    @property
    def frame(self) -> pd.DataFrame:
        """The share that is right, over seeds; one row per model, split and kind of pairs.

        Columns: model, split, kind ("all", or a type of generalisation), mean, low and high (the
        ends of Student's t interval at 95 %; NaN of one seed), smallest and largest seed, n
        (sequences), n_seeds; of COGS :attr:`seen`, too.
        """
        return self.frames["summary"]

    @property
    def seen(self) -> float | None:
        """Of COGS, how often training showed each line of exposure: exposures in an epoch times
        epochs, of which the last may be cut short (then a mean over these lines). None of other
        tasks, and where ``max_steps`` ended a run of one exposure, whose epochs are not kept."""
        config, (steps, *_) = self.config, self.frames["runs"]["steps"]
        if not str(config.get("task", "")).startswith("cogs"):
            return None
        report = config.get("data_report", {})
        each = report["exposures"] if report.get("exposures_of") == "tested" else 1
        if "steps_per_epoch" in config:
            return float(each * steps / config["steps_per_epoch"])
        if steps == config.get("max_steps") or "epochs" not in config:
            return None
        return float(each * config["epochs"])

    @property
    def notes(self) -> list[str]:
        """As of every study; of COGS also how often what it tests was shown."""
        if self.seen is None:
            return super().notes
        return [
            f"training showed each line of exposure, and with it what gen tests, {self.seen:,.4g} "
            "times",
            *super().notes,
        ]

    @property
    def differences(self) -> pd.DataFrame:
        """Of each model and the first one, paired by seed, a row for each split and kind.

        Columns: model, other (the first model), split, kind, difference (model − other), ci_low
        and ci_high (95 %), p (paired t test, two-sided), p_holm (over all models, splits and kinds
        of a family; "all" is a family, the kinds are another), n_seeds. One seed has no interval.
        """
        return self.frames["differences"]

    @property
    def reads(self) -> pd.DataFrame:
        """What fuse-attention reads, over training: one row per run, step, split, stack, layer,
        head, kind of token and earlier layer.

        ``weight`` is the mean of the pattern over the ``n`` tokens of the kind in the split's
        sample; ``earlier`` 0 is the embeddings, ``earlier`` j what leaves layer j - 1. Empty
        without fuse-attention. ``frames["entropies"]`` has for each head and kind the ``entropy``
        of a token's weights, −Σ w ln w in nats, a mean over tokens, and its ``share`` of the
        largest that there is (NaN where one layer is read).
        """
        return self.frames["reads"]

    def _rows(self) -> pd.DataFrame:
        return with_costs(self.frame, self.frames["runs"])

    def figures(self) -> dict[str, ChartFigure]:
        """Accuracy by split, by type where there are types, and over training; what fuse-attention
        reads."""
        from interp_compose.papers.lrf.studies.generalise import figures
        from interp_compose.papers.shared.grid.figures import MOST_KINDS, curve_figure

        charts = {"generalise_accuracy": figures.accuracy_figure(self.frame, self.config)}
        if 1 < self.frame["kind"].nunique() <= MOST_KINDS:
            charts["generalise_types"] = figures.types_figure(
                self.frame, self.differences, self.config
            )
        charts["generalise_curve"] = curve_figure(
            self.frames["curve"], "model", self.config, figures.shape_and_seeds(self.config)
        )
        if len(self.frames["reads"]):
            charts["generalise_reads"] = figures.reads_figure(self.frames["reads"], self.config)
        if (self.frames["reads"]["earlier"] < self.frames["reads"]["layer"]).any():
            charts["generalise_reads_kinds"] = figures.reads_kinds_figure(
                self.frames["reads"], self.config
            )
        return charts
