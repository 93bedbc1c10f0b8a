"""How fast training data are fitted that break a rule (complexity control, section VIII, Fig. 8).

Each figure has a panel per init rate, from the largest initialisation to the smallest. ``config``
names what all runs share, for the titles: norm, d_model, samples; any may be missing. The frames
are those of :class:`.result.FittingSpeed`: ``cells``, ``pair_cells``
and ``roc``. NaN is what was not reached by every run; it is not drawn, and the subtitle says how
often.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from interp_compose.errors import InputError
from interp_compose.papers.complexity.studies.anchors.titles import remarks_of, seeds_of, shape_of
from interp_compose.plots.chart import Chart, Line, Panel, side_by_side, subtitle_of
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import BLUE, MUTED, VERMILLION, Style, styles_of
from interp_compose.studies.core.figures import Named, lines_of
from interp_compose.studies.core.text import counted

REACHED: Final = {
    "accuracy": "every training sample is predicted right",
    "loss": "the training loss is 0.05 or less",
}
BARS: Final = "bars: fastest to slowest seed"
CHANCE: Final = Style(MUTED, "x", dash="dot", width=1.2)
TOUCHED: Final = Style(VERMILLION, "square", width=0.0)
OTHERS: Final = Style(BLUE, "circle", width=0.0)

Row = Mapping[Hashable, Any]


def fitting_epochs_figure(
    cells: pd.DataFrame, *, measure: str, config: Mapping[str, Any]
) -> ChartFigure:
    """Epochs until the data were fitted against the depth; a line per number of violating groups,
    from its fastest seed to its slowest (Fig. 8A).

    Raises:
        InputError: in no cell did every run get there.
    """
    panels = []
    groups = sorted(cells["violations"].unique().tolist())
    for rate, rows in cells.groupby("init_rate", sort=True):
        columns = ("n_layers", *(f"{measure}_{what}" for what in ("epochs", "low", "high")))
        lines = lines_of(_by_groups(rows, groups), *columns, interval="bars")
        panels.append((f"γ = {rate:g}", side_by_side(lines, False)))
    left_out = int(cells[f"{measure}_epochs"].isna().sum())
    return draw(
        Chart(
            title=f"{shape_of(config)}: epochs until {REACHED[measure]}",
            subtitle=_subtitle(config, cells, left_out, "cells"),
            x_title="layers",
            y_title="epochs",
            y_is_share=False,
            panels=_panels(panels, "in no cell did every run fit its data; train longer"),
            x_name="layers",
            x_ticks=sorted({float(depth) for depth in cells["n_layers"]}),
        )
    )


def fitting_pairs_figure(pair_cells: pd.DataFrame, *, config: Mapping[str, Any]) -> ChartFigure:
    """Epochs until each pair of anchors was learned, at one depth and number of violating groups;
    pairs in the order that they have at the largest init rate (Fig. 8B).

    Raises:
        InputError: no pair was learned by every run.
    """
    smallest = pair_cells[pair_cells["init_rate"] == pair_cells["init_rate"].max()]
    order = smallest.sort_values(["epochs", "low", "pair"], na_position="last")["pair"].tolist()
    panels = []
    for rate, rows in pair_cells.groupby("init_rate", sort=True):
        placed = rows.assign(place=[order.index(pair) + 1.0 for pair in rows["pair"]])
        named = [
            ("both anchors in violating pairs", TOUCHED, placed[rows["touched"]]),
            ("others", OTHERS, placed[~rows["touched"]]),
        ]
        lines = lines_of(named, "place", "epochs", "low", "high", interval="bars")
        panels.append((f"γ = {rate:g}", lines))
    depth, number = (int(pair_cells[name].iloc[0]) for name in ("n_layers", "violations"))
    shape = shape_of({**config, "n_layers": depth})
    violating = [row["pair"] for row in _rows(smallest) if row["violates"]]
    note = f"violating: {', '.join(violating)}" if violating else "no violating pairs"
    return draw(
        Chart(
            title=f"{shape}: epochs until a pair is learned",
            subtitle=_subtitle(
                config, pair_cells, int(pair_cells["epochs"].isna().sum()), "points", note, BARS
            ),
            x_title=f"pairs of anchors, by their epochs at the largest γ ({_groups(number)})",
            y_title="epochs until 60 % of its samples are right",
            y_is_share=False,
            panels=_panels(panels, "no pair was learned by every run; train longer"),
            x_name="pair",
            x_ticks=[place + 1.0 for place in range(len(order))],
            x_notes=[pair.replace(" ", "") for pair in order],
        )
    )


def violations_roc_figure(
    roc: pd.DataFrame, cells: pd.DataFrame, *, config: Mapping[str, Any]
) -> ChartFigure:
    """ROC curves of finding samples that violate the rule by their lateness, at one depth: a line
    per number of violating groups, the mean over seeds, bands from the lowest to the highest.

    Raises:
        InputError: no curve.
    """
    if roc.empty:
        raise InputError("no run has an ROC curve: all that violate the rule diverged")
    panels = []
    groups = sorted(cells["violations"].unique().tolist())
    for rate, rows in roc.groupby("init_rate", sort=True):
        columns = ("false_positive_rate", "true_positive_rate", "low", "high")
        lines = lines_of(_by_groups(rows, groups), *columns)
        n = [int(rows["n"].max())] * 2
        ends = [0.0, 1.0]
        lines.append(Line("chance", CHANCE, x=ends, y=ends, low=ends, high=ends, n=n))
        areas = cells[(cells["init_rate"] == rate) & cells["auc"].notna()]
        areas_text = ", ".join(
            f"{row['auc']:.2f} ({counted(row['violations'], 'groups')})"
            for row in _rows(areas.sort_values("violations"))
        )
        panels.append((f"γ = {rate:g}, AUC {areas_text}", lines))
    shape = shape_of({**config, "n_layers": int(cells["n_layers"].iloc[0])})
    return draw(
        Chart(
            title=f"{shape}: samples that break the rule, by lateness",
            subtitle=_subtitle(config, roc, 0, "", "bands: lowest to highest seed"),
            x_title="false-positive rate",
            y_title="true-positive rate",
            x_is_share=True,
            panels=_panels(panels, ""),
            x_name="false positives",
        )
    )


def _panels(candidates: Sequence[tuple[str, Sequence[Line]]], message: str) -> list[Panel]:
    """Panels that hold something; a line that has no label beside the last panel is named by its
    marker in the title of its own."""
    kept = [(title, lines) for title, lines in candidates if lines]
    if not kept:
        raise InputError(message)
    named = {line.label for line in kept[-1][1]}
    panels = []
    for title, lines in kept:
        extra = [f"{line.style.marker}: {line.label}" for line in lines if line.label not in named]
        panels.append(Panel(lines, [], title=", ".join([title, *extra])))
    return panels


def _by_groups(frame: pd.DataFrame, groups: Sequence[int]) -> list[Named]:
    """Label, style and rows of each number of violating groups."""
    return [
        (_groups(number), style, frame[frame["violations"] == number])
        for number, style in styles_of(groups).items()
    ]


def _rows(frame: pd.DataFrame) -> list[Row]:
    return list(frame.to_dict("records"))


def _groups(number: int) -> str:
    """Like "3 violating groups"."""
    return counted(number, "violating groups")


def _subtitle(
    config: Mapping[str, Any], cells: pd.DataFrame, left_out: int, what: str, *more: str
) -> str:
    """Like "5,000 samples · 3 seeds · bars: …"."""
    parts = [f"{config['samples']:,} samples"] if config.get("samples") is not None else []
    several = cells["n"].max() > 1
    spans = [part for part in more or [BARS] if several or not part.startswith(("bars:", "bands:"))]
    parts += [seeds_of(cells["n"].tolist()), *filter(None, spans), *remarks_of(config)]
    if left_out:
        parts.append(f"not drawn: {counted(left_out, what)} that some run never reached")
    return subtitle_of(*parts)
