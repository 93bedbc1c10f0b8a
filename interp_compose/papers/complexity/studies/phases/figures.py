"""Phases of solutions: what a model learns, by initial scale and weight decay (complexity control).

Section IV tells three phases apart: poor accuracy on seen and unseen pairs of anchors; good on
seen ones alone; good on both. Each figure takes the same frame, ``cells``, one row for each
(init_rate, weight_decay):

as :func:`.phase.cells_of` makes it. A cell that is not in the frame, or whose mean is NaN, was not
measured. ``config`` names what all runs share, for the titles: norm, n_layers, d_model, samples,
steps; any may be missing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.errors import InputError
from interp_compose.papers.complexity.studies.anchors.phase import COMMUTES, FITS_ID, phase_name
from interp_compose.papers.complexity.studies.anchors.titles import (
    mean_of,
    remarks_of,
    seeds_of,
    shape_of,
)
from interp_compose.papers.shared.grid.figures import RATE_AXIS
from interp_compose.plots.chart import Chart, Panel, side_by_side, subtitle_of
from interp_compose.plots.heatmap import NOT_MEASURED, HeatMap
from interp_compose.plots.heatmap_bubbles import Bubbles
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import BLUE, GREEN, VERMILLION, Style
from interp_compose.studies.core.figures import line_of

PHASES: Final = {"0": "not fitted", "1": "1", "2": "2", "2c": "2, commutative", "3": "3"}
"""From the smallest bubble to the largest, and how the legend calls it."""
MARKS: Final = {
    "0": "not fitted",
    "2c": "commutative",
    "?": "not of every seed",
    "??": "of fewer than half",
}
LINES: Final = {
    "train": ("train", Style(GREEN, "diamond", width=1.6, filled=False)),
    "id": ("seen pairs (ID)", Style(BLUE, "circle", width=2.6)),
    "commutativity": ("commutativity", Style("#A3478A", "triangle-up", dash="dash", width=1.6)),
    "ood": ("unseen pairs (OOD)", Style(VERMILLION, "square", width=2.8)),
}
RATE: Final = "init rate γ"
MOST_TICKS: Final = 17

Cell = Mapping[Hashable, Any]


def phase_curve_figure(
    cells: pd.DataFrame, *, weight_decay: float, config: Mapping[str, Any]
) -> ChartFigure:
    """Accuracies and commutativity against the init rate, at one weight decay (Fig. 3A).

    Bands reach from the smallest seed to the largest. The phase stands under each init rate.

    Raises:
        InputError: nothing was measured at this weight decay.
    """
    grid = _Grid(cells)
    places = [(rate, weight_decay) for rate in grid.rates]
    rows = [grid.cells[place] for place in places if place in grid.cells]
    frame = pd.DataFrame(rows, columns=cells.columns)
    lines = [
        line_of(label, style, frame, "init_rate", name, f"{name}_low", f"{name}_high")
        for name, (label, style) in LINES.items()
    ]
    lines = [line for line in lines if line.x]
    if not lines:
        raise InputError(
            f"nothing was measured at weight_decay={weight_decay}; cells hold "
            f"{', '.join(f'{decay:g}' for decay in grid.decays)}"
        )
    measured = {x for line in lines for x in line.x}
    gaps = [f"{rate:g}" for rate in grid.rates if rate not in measured]
    ticks = sorted(measured)
    step = min(np.diff(ticks), default=0.1)
    lines = side_by_side(lines, True)
    kept = ticks[:: -(-len(ticks) // MOST_TICKS)]
    phases = {row["init_rate"]: row["phase"] + row["doubt"] for row in rows}
    has_several = any(row["n"] > 1 for row in rows)
    used = {row[name] for row in rows for name in ("phase", "doubt")}
    legend = ", ".join(f"{mark}: {means}" for mark, means in MARKS.items() if mark in used)
    explained = f" ({legend})" if legend else ""
    return draw(
        Chart(
            title=f"{shape_of(config)}: accuracy at weight decay {weight_decay:g}",
            subtitle=subtitle_of(
                *_run(config, rows),
                "bands: smallest to largest seed" if has_several else "",
                f"{NOT_MEASURED}: γ {', '.join(gaps)}" if gaps else "",
            ),
            x_title=f"{RATE_AXIS}, phase below{explained}",
            y_title="accuracy, or commutativity (dashed)",
            panels=[Panel(lines, [])],
            x_name=RATE,
            x_ticks=kept,
            x_notes=[phases[rate] for rate in kept],
            x_step=float(step),
        )
    )


def phase_map_figure(cells: pd.DataFrame, *, config: Mapping[str, Any]) -> ChartFigure:
    """Accuracy on unseen pairs, by init rate and weight decay (Fig. 3B).

    Hatched where the mean accuracy on seen pairs is below :data:`FITS_ID`; a triangle where mean
    commutativity is below :data:`COMMUTES`. Colours span 0 to 100 %.
    """
    grid = _Grid(cells)

    def below(name: str, bound: float) -> list[tuple[int, int]]:
        values = [(place, grid.cells[key]) for place, key in grid.map_places("ood")]
        return [place for place, row in values if row[name] < bound]

    return draw(
        HeatMap(
            title=f"{shape_of(config)}: accuracy on unseen pairs",
            subtitle=subtitle_of(*_run(config, grid.cells.values())),
            x_title=RATE_AXIS,
            y_title="weight decay",
            columns=[f"{rate:g}" for rate in grid.rates],
            rows=[f"{decay:g}" for decay in grid.falling],
            values=[[grid.number(r, d, "ood") for r in grid.rates] for d in grid.falling],
            value_name=f"OOD accuracy, {mean_of(cells['n'].tolist())}",
            value_format=".0%",
            limits=(0.0, 1.0),
            marked=below("commutativity", COMMUTES),
            mark_name=f"commutativity < {COMMUTES:.0%}",
            mark="triangle",
            hatched=below("id", FITS_ID),
            hatch_name=f"ID < {FITS_ID:.0%}",
            hover=[[_hover(grid.cells.get((r, d))) for r in grid.rates] for d in grid.falling],
        )
    )


def phase_bubble_figure(cells: pd.DataFrame, *, config: Mapping[str, Any]) -> ChartFigure:
    """Phase and complexity of each cell (Fig. 5C).

    The axes are the map's. The larger a bubble, the higher its phase; its colour is the mean stable
    rank of W_Q in layer 0, on a logarithmic scale. The values of both axes are as far apart as
    their number is, not their size.

    Raises:
        InputError: a stable rank that is not positive.
    """
    grid = _Grid(cells)
    order = list(PHASES)
    measured = {
        key: row
        for key, row in grid.cells.items()
        if row["phase"] in order and not np.isnan(row["stable_rank"])
    }
    return draw(
        Bubbles(
            title=f"{shape_of(config)}: phase and complexity",
            subtitle=subtitle_of(*_run(config, grid.cells.values())),
            x_title=RATE_AXIS,
            y_title="weight decay",
            columns=[f"{rate:g}" for rate in grid.rates],
            rows=[f"{decay:g}" for decay in grid.falling],
            values=[
                [grid.number(r, d, "stable_rank") if (r, d) in measured else None
                 for r in grid.rates]
                for d in grid.falling
            ],
            value_name="stable rank of W_Q, layer 0",
            log=True,
            hover=[[_hover(grid.cells.get((r, d))) for r in grid.rates] for d in grid.falling],
            sizes=[
                [order.index(measured[r, d]["phase"]) if (r, d) in measured else 0
                 for r in grid.rates]
                for d in grid.falling
            ],
            size_names=list(PHASES.values()),
            size_title="phase:",
        )
    )  # fmt: skip


class _Grid:
    """The cells by (init_rate, weight_decay); both axes in rising order."""

    def __init__(self, cells: pd.DataFrame) -> None:
        self.cells: dict[tuple[float, float], Cell] = {
            (row["init_rate"], row["weight_decay"]): row for row in cells.to_dict("records")
        }
        self.rates: list[float] = sorted(set(cells["init_rate"].tolist()))
        self.decays: list[float] = sorted(set(cells["weight_decay"].tolist()))
        self.falling = self.decays[::-1]

    def number(self, rate: float, decay: float, name: str) -> float | None:
        row = self.cells.get((rate, decay))
        return None if row is None else float(row[name])

    def map_places(self, name: str) -> list[tuple[tuple[int, int], tuple[float, float]]]:
        """Row and column of the map, and the key, of each cell in which ``name`` was measured."""
        return [
            ((i, j), (rate, decay))
            for i, decay in enumerate(self.falling)
            for j, rate in enumerate(self.rates)
            if (row := self.cells.get((rate, decay))) and not np.isnan(row[name])
        ]


def _hover(row: Cell | None) -> str:
    """Like "phase 3 · OOD 97% · ID 99% · train 100% · commut. 98% · n = 3"."""
    if row is None or not row["phase"]:
        return ""
    names = {"ood": "OOD", "id": "ID", "train": "train", "commutativity": "commut."}
    shares = [f"{text} {row[name]:.0%}" for name, text in names.items() if not np.isnan(row[name])]
    return " · ".join([phase_name(row["phase"] + row["doubt"]), *shares, f"n = {row['n']}"])


def _run(config: Mapping[str, Any], rows: Iterable[Cell]) -> list[str]:
    """Like "5,000 samples", "1,500 steps", "2–3 seeds", and how many runs diverged."""
    rows = list(rows)
    sizes = [
        f"{value:,} {key}" if isinstance(value, int) else f"{value} {key}"
        for key in ("samples", "steps")
        if (value := config.get(key)) is not None
    ]
    counts = [row["n"] for row in rows]
    diverged = sum(row["diverged"] for row in rows)
    return [
        *sizes,
        *remarks_of(config),
        seeds_of(counts),
        *([f"{diverged} runs diverged"] if diverged else []),
    ]
