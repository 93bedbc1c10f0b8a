"""The phase diagram: every run of a grid, its history, and the phase of every cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.studies.anchors.phase import (
    PHASES,
    cells_of,
    onsets_of,
    phase_name,
    with_phases,
)
from interp_compose.papers.complexity.studies.anchors.titles import diverged_runs, legend, mean_of
from interp_compose.papers.complexity.tasks.anchor_record import looked_up, task_of
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import LIMITS, Summary, counted, text_table

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

PLACE: Final = "init_rate float, weight_decay float, seed int"
KEY: Final = ("init_rate", "weight_decay", "seed")
MEASURED: Final = (
    "finite bool, train float, id float, ood float, commutativity float, stable_rank float null, "
    "mean_abs_cosine float null"  # NaN where a run has diverged
)
RUNS: Final = Table("runs", f"{PLACE}, {MEASURED}, phase str", key=KEY)
HISTORY: Final = Table(
    "history",
    f"{PLACE}, step int, train_loss float null, {MEASURED}",  # no loss before the first step
    key=(*KEY, "step"),
)
CIRCUITS: Final = Table(
    "circuits",
    f"{PLACE}, mode str, pair_silhouette float, twin_distance float, anchor_contrast float",
    key=(*KEY, "mode"),
    may_be_empty=True,
)
COLUMNS: Final = (
    ("weight decay", "weight_decay", ">12g"),
    ("γ", "init_rate", ">6g"),
    ("train", "train", ">8.3f"),
    ("ID", "id", ">8.3f"),
    ("OOD", "ood", ">8.3f"),
    ("commutes", "commutativity", ">10.3f"),
    ("stable rank", "stable_rank", ">13.2f"),
    ("n", "n", ">4"),
    ("", "diverged", ""),
)
"""Of the summary's table of cells."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class PhaseDiagram(GridResult):
    """Where transformers memorise and where they reason; made by :func:`phase_diagram`."""

    SCHEMA = (RUNS, HISTORY, CIRCUITS)
    TABLES = ("runs", "history", "circuits")
    FIGURES = ("phase_curve", "phase_map", "phase_bubbles")

    def __post_init__(self) -> None:
        runs = with_phases(self.frames.get("runs"))
        object.__setattr__(self, "frames", {**self.frames, "runs": runs})
        super().__post_init__()

    @property
    def frame(self) -> pd.DataFrame:
        """One row per run, at its last step.

        ================= =====================================================================
        init_rate         γ: the deviation of a weight at the start is fan_in^-γ
        weight_decay      decoupled, on every parameter
        seed              of data, initialisation and order
        finite            whether every weight is a number; else the run has diverged
        train, id, ood    accuracy on seen pairs with training keys, seen pairs with test keys,
                          unseen pairs
        commutativity     share of unseen inputs whose prediction stays when their anchors change
                          places
        stable_rank       of W_Q of the first layer, heads merged (NaN where it diverged)
        mean_abs_cosine   of two of its neurons
        phase             "1", "2", "2c" (with commutativity) or "3"; "0" where the training data
                          are not fitted (accuracy below 0.9); "" where it diverged
        ================= =====================================================================
        """
        return self.frames["runs"]

    @property
    def history(self) -> pd.DataFrame:
        """The same measures over training: a row per run and evaluation, with ``train_loss`` (nats,
        mean over the steps since the row before; NaN before the first)."""
        return self.frames["history"]

    @property
    def circuits(self) -> pd.DataFrame:
        """What knockouts show of each run (section V): a row per run and ``mode``, "zero" after the
        softmax as the paper does it, "exclude" before it, so that nothing of the token is left.
        No rows of a run that diverged, or that collapsed so that its output no longer depends on
        its attention.

        ``pair_silhouette`` and ``twin_distance`` of outputs with the key knocked out (Fig. 4C),
        ``anchor_contrast`` of those with the second anchor knocked out (Fig. 4D); see
        :func:`.masked_outputs.circuit_numbers`.
        """
        return self.frames["circuits"]

    @property
    def onsets(self) -> pd.DataFrame:
        """Which came first (a row per run): ``reasons`` is the first step at which OOD accuracy was
        above 0.5, ``condenses`` the first at which W_Q's stable rank had made half of its way from
        the start to the end. NaN where that never came, or where the rank fell by less than half.
        """
        return onsets_of(self.history)

    @property
    def notes(self) -> list[str]:
        """As of every study; of anchor functions of one's own, which unseen pairs may be looked
        up."""
        record = self.config.get("own_task")
        return [*super().notes, *(looked_up(task_of(record)) if record else ())]

    @property
    def cells(self) -> pd.DataFrame:
        """One row per init rate and weight decay; see :func:`cells_of`."""
        return cells_of(self.frame)

    def plot_curve(self, weight_decay: float | None = None) -> ChartFigure:
        """Accuracies against γ at one weight decay (Fig. 3A); by default 0.01, or the smallest.

        Raises:
            OptionError: a weight decay that is not in the grid.
        """
        from interp_compose.papers.complexity.studies.phases.figures import phase_curve_figure

        known = sorted(self.frame["weight_decay"].unique().tolist())
        if weight_decay is None:
            sound = self._sound_decays or known
            weight_decay = 0.01 if 0.01 in sound else sound[0]
        if weight_decay not in known:
            raise OptionError(
                f"weight_decay={weight_decay!r} is not in the grid; it has "
                f"{', '.join(f'{value:g}' for value in known)}"
            )
        return phase_curve_figure(self.cells, weight_decay=weight_decay, config=self.config)

    def plot_map(self) -> ChartFigure:
        """OOD accuracy over γ and weight decay (Fig. 3B)."""
        from interp_compose.papers.complexity.studies.phases.figures import phase_map_figure

        return phase_map_figure(self.cells, config=self.config)

    def plot_bubbles(self) -> ChartFigure:
        """Phase and stable rank over γ and weight decay (Fig. 5C)."""
        from interp_compose.papers.complexity.studies.phases.figures import phase_bubble_figure

        return phase_bubble_figure(self.cells, config=self.config)

    def _answers(self) -> list[str]:
        from interp_compose.papers.complexity.studies.phases.reading import answers

        return answers(self.cells)

    def sentences(self) -> list[str]:
        """In how many cells unseen pairs are answered, and how many cells are in which phase."""
        cells = self.cells
        counts = cells["phase"].replace("", "diverged").value_counts().sort_index()
        phases = ", ".join(f"{n} {phase_name(str(phase))}" for phase, n in counts.items())
        phases = phases.replace("phase diverged", "diverged")
        return [
            *self._answers(),
            "Asked: at which init rates and weight decays decoders answer pairs of anchors that "
            f"training does not show; of {counted(len(cells), 'cells')} ({len(self.frame)} runs), "
            f"{phases}.",
            f"Each phase is that of the {mean_of(cells['n'].tolist())}. {LIMITS}",
        ]

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure, by the name its files get; no curve where every run diverged."""
        curve = {"phase_curve": self.plot_curve()} if self._sound_decays else {}
        return {**curve, "phase_map": self.plot_map(), "phase_bubbles": self.plot_bubbles()}

    @property
    def _sound_decays(self) -> list[float]:
        """Weight decays at which some run did not diverge."""
        decays: list[float] = self.frame.loc[self.frame["finite"], "weight_decay"].unique().tolist()
        return sorted(decays)

    def _summary(self) -> Summary:
        """Phases as aligned text, a row per weight decay; then accuracies, a row per cell."""
        cells = self.cells
        shown = cells.assign(phase=(cells["phase"] + cells["doubt"]).replace("", "-"))
        grid = shown.pivot(index="weight_decay", columns="init_rate", values="phase").fillna("-")
        grid = grid.rename(columns="{:g}".format).sort_index(ascending=False)
        rates = [(rate, rate, ">6") for rate in grid]
        title = f"phase by weight decay and init rate γ ({mean_of(cells['n'].tolist())})"
        phases = text_table(grid.reset_index(), [("", "weight_decay", ">8g"), *rates])
        doubt = {"?": "not of every seed by itself; ??: of fewer than half"}
        signs = legend(PHASES | (doubt if cells["doubt"].any() else {}))
        accuracies = text_table(diverged_runs(cells), COLUMNS)
        return self._told([title, "", phases, "", signs, "", accuracies])
