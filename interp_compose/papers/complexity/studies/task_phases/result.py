"""What decoders get right of a task, by init rate, weight decay and size of the training set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.grid.settings import (
    EACH,
    KEY,
    PLACE,
    RUNS,
    SETTING,
    WITH_STEPS,
    with_settings,
)
from interp_compose.papers.shared.grid.shares import ALL, differences_of, shares_of, summary_of
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import Column
from interp_compose.studies.core.view import LARGEST, LAST, StudyQuestion, View

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

ACCURACY: Final = Table(
    "accuracy",
    f"{PLACE}, split str, kind str, n_right int, n int",
    key=(*KEY, "split", "kind"),
    complete=(*EACH, ("split", "kind")),
    rules=("0 <= n_right <= n", "n > 0"),
)
CURVE: Final = Table(
    "curve",
    f"{PLACE}, step int, split str, accuracy float, n int",
    key=(*KEY, "step", "split"),
    complete=(*WITH_STEPS, ("split",)),
    rules=("0 <= accuracy <= 1", "n > 0"),
)
EPOCHS: Final = Table(
    "epochs",
    f"{PLACE}, epoch int, step int, loss float",
    key=(*KEY, "epoch"),
    complete=(*EACH[:2], ("size", "epoch"), ("seed",)),
    rules=("epoch >= 1", "step >= epoch", "loss >= 0"),
)
LOSSES: Final = Table(
    "losses",
    f"{PLACE}, step int, loss float",
    key=(*KEY, "step"),
    complete=(*EACH[:2], ("size", "step"), ("seed",)),
    rules=("step >= 1", "loss >= 0"),
    may_be_empty=True,
)
CEILINGS: Final = Table(
    "ceilings",
    "size int, split str, kind str, n_known int, n int",
    key=("size", "split", "kind"),
    complete=(("size",), ("split", "kind")),
    rules=("0 <= n_known <= n", "n > 0"),
    may_be_empty=True,
)
FITTED: Final = 0.1
"""Training loss (nats a token) at which data count as fitted."""
FITS_TRAIN: Final = 0.9
"""Share of the training sample that is right after the last step, below which a run is not fitted:
what it gets right of other splits says nothing of how it generalises."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class TaskPhases(GridResult):
    """Decoders on a task of sequences, over a grid of init rates and weight decays; made by
    :func:`task_phases`."""

    SCHEMA = (RUNS, ACCURACY, CURVE, EPOCHS, LOSSES, CEILINGS)
    TABLES = (
        "runs",
        "accuracy",
        "curve",
        "epochs",
        "losses",
        "ceilings",
        "summary",
        "differences",
    )
    FIGURES = (
        "task_phases_accuracy",
        "task_phases_curve",
        "task_phases_map",
        "task_phases_types",
        "task_phases_steps",
        "task_phases_square",
    )
    VIEW = View(
        "sequences that are right, in per cent: mean, smallest to largest seed",
        place=(
            Column("setting", "setting", "<20"),
            Column("size", "size", ">8"),
            Column("split", "split", ">8"),
        ),
        values=(
            Column("right", "mean", ">8.2f", 100.0),
            Column("seeds", ("smallest", "largest"), ">14.1", 100.0),
            Column("ceiling", "ceiling", ">9.1f", 100.0),
            Column("fitted", "n_fitted", ">8.0f"),
            Column("stable rank", "stable_rank", ">13.2f"),
            Column("n", "n", ">8"),
        ),
        where=f"kind == '{ALL}'",
    )
    QUESTION = StudyQuestion(
        "whether a small initialisation, or more weight decay, makes a decoder find the rule; "
        "right of split {split}, after {size:,} training sequences",
        by="setting",
        at={"split": LAST, "kind": ALL, "size": LARGEST},
        percent=True,
    )

    def __post_init__(self) -> None:
        later = {t.name: t.of(()) for t in (LOSSES, CEILINGS) if t.name not in self.frames}
        if later:  # of an earlier release, whose summary has no ceilings either
            kept = {name: frame for name, frame in self.frames.items() if name != "summary"}
            object.__setattr__(self, "frames", {**kept, **later})
        super().__post_init__()

    def computed(self) -> dict[str, pd.DataFrame]:
        """The shares over seeds, and how settings differ."""
        values = shares_of(with_settings(self.frames["accuracy"]), SETTING)
        ceilings = self.frames["ceilings"].rename(columns={"n_known": "n_right"})
        ceilings = shares_of(ceilings.assign(seed=0), ("size",))[["size", "split", "kind", "value"]]
        fitted = self.fitted.groupby(list(SETTING), dropna=False)["fitted"]
        summary = summary_of(values, (*SETTING, "split", "kind"))
        summary = summary.merge(
            ceilings.rename(columns={"value": "ceiling"}), on=["size", "split", "kind"], how="left"
        ).merge(fitted.sum(min_count=1).rename("n_fitted").reset_index(), on=list(SETTING))
        return {
            "summary": summary,
            "differences": differences_of(values, "setting", ("size", "split", "kind")),
        }

    @property
    def frame(self) -> pd.DataFrame:
        """One row per setting (init rate and weight decay), size of the training set, split and
        kind of sequences: the share that is right, over seeds.

        Columns: setting, init_rate, weight_decay, size, split, kind ("all", or a type of
        generalisation), mean, low and high (the ends of Student's t interval at 95 %; NaN of one
        seed), smallest and largest seed, n (sequences), n_seeds; ceiling: the share of sequences
        without a token (on its side) that this subset of the training split lacks, n_fitted: seeds
        whose run is :attr:`fitted`; NaN where that was not kept.
        """
        return self.frames["summary"]

    @property
    def fitted(self) -> pd.DataFrame:
        """Whether each run has fitted its training data: after the last step at least 0.9 of the
        sample of these are right.

        Columns: setting, init_rate, weight_decay, size, seed, train (that share), fitted (1.0, 0.0,
        or NaN where it was not measured).
        """
        curve = self.frames["curve"].query("split == 'train'").sort_values("step")
        last = curve.groupby(list(KEY), dropna=False)["accuracy"].last().rename("train")
        runs = with_settings(self.frames["runs"])[["setting", *KEY]]
        runs = runs.merge(last.reset_index(), on=list(KEY), how="left")
        known = runs["train"].notna()
        return runs.assign(fitted=(runs["train"] >= FITS_TRAIN).astype(float).where(known))

    @property
    def notes(self) -> list[str]:
        """As of every study; also which runs did not fit their training data."""
        rows = self.fitted.query("fitted == 0")
        unfitted = [
            f"{row['setting']}, {row['size']:,} sequences, seed {row['seed']} ({row['train']:.2f})"
            for row in rows.to_dict("records")
        ]
        note = (
            f"not fitted, less than {FITS_TRAIN:g} of the training sample right at the end, and "
            f"yet in all means and differences: {'; '.join(unfitted)}"
        )
        return [*([note] if unfitted else []), *super().notes]

    @property
    def differences(self) -> pd.DataFrame:
        """Of each setting and the first one at the same size, paired by seed, a row for each split
        and kind.

        Columns: setting, other (the first), size, split, kind, difference (setting − other),
        ci_low and ci_high (95 %), p (paired t test, two-sided), p_holm (over all settings, sizes,
        splits and kinds of a family; "all" is a family, the kinds are another), n_seeds.
        """
        return self.frames["differences"]

    def _rows(self) -> pd.DataFrame:
        place = ["init_rate", "weight_decay", "size"]
        runs = self.frames["runs"].groupby(place, as_index=False, dropna=False)
        return self.frame.merge(runs["stable_rank"].mean(), on=place)

    def epochs_to_fit(self, loss: float = FITTED) -> pd.DataFrame:
        """How many epochs each run needs until its training loss is as low (complexity control,
        Fig. 7E: convergence).

        Args:
            loss: nats a token, mean over the steps of an epoch.

        Returns:
            One row per run, with setting, init_rate, weight_decay, size, seed; epochs, the first
            epoch whose loss is ``loss`` or lower; steps, the steps until its end; and by_step, the
            steps until the end of the first ten steps whose mean loss is as low. NaN where none is,
            and by_step where ``losses`` has no rows.

        Raises:
            OptionError: a loss that is not a positive number.
        """
        if not 0 < loss < math.inf:
            raise OptionError(f"loss={loss!r}: expected a positive number of nats")
        epochs = with_settings(self.frames["epochs"])
        fits = epochs[epochs["loss"] <= loss]
        run = ["setting", *KEY]
        first = fits.groupby(run, as_index=False, dropna=False)[["epoch", "step"]].min()
        losses = with_settings(self.frames["losses"])
        low = losses[losses["loss"] <= loss].groupby(run, as_index=False, dropna=False)[["step"]]
        rows = epochs[run].drop_duplicates().merge(first, on=run, how="left")
        rows = rows.rename(columns={"epoch": "epochs", "step": "steps"})
        by_step = low.min().rename(columns={"step": "by_step"})
        return rows.merge(by_step, on=run, how="left").astype({"by_step": float})

    def figures(self) -> dict[str, ChartFigure]:
        """Accuracy by size of the training set, and over training with the largest size; by init
        rate and weight decay, where both vary; by type, where there are types; steps to fit the
        training data, where all runs of a setting do; of addition, the square that is held out."""
        from interp_compose.papers.complexity.studies.task_phases import figures
        from interp_compose.papers.shared.grid.figures import about_decoders, curve_figure

        curve = self.frames["curve"]
        largest = int(curve["size"].max())
        last = with_settings(curve[curve["size"] == largest])
        notes = (*about_decoders(self.config), f"{largest:,} training sequences")
        charts = {
            "task_phases_accuracy": figures.accuracy_figure(self.frame, self.config),
            "task_phases_curve": curve_figure(last, "setting", self.config, notes),
        }
        if (grid := figures.map_figure(self.frame, self.config)) is not None:
            charts["task_phases_map"] = grid
        types = figures.types_figure(self.frame, self.differences, self.config)
        if types is not None:
            charts["task_phases_types"] = types
        fits = self.epochs_to_fit()
        if len(self.frames["losses"]):
            fits = fits.assign(steps=fits["by_step"])
        if figures.fitted(fits).any():
            charts["task_phases_steps"] = figures.steps_figure(fits, self.config, FITTED)
        if len(blocks := figures.blocks_of(self.frame)):
            charts["task_phases_square"] = figures.square_figure(blocks, self.config)
        return charts
