"""What the benchmarks of watched trainings share: means over seeds by step, and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from interp_compose.plots.chart import Chart, Panel
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.studies.core.figures import by_value, lines_of

OF_WEIGHTS: Mapping[str, str] = {
    "stable_rank": "stable rank",
    "mean_abs_cosine": "condensation: mean abs(cos) of rows",
}
"""Titles of measures of weights."""


def over_seeds(frame: pd.DataFrame, place: Sequence[str]) -> pd.DataFrame:
    """Mean, smallest and largest seed at each ``place``, of the column ``value``."""
    found = frame.groupby([*place, "step"], sort=False)["value"].agg(["mean", "min", "max", "size"])
    return found.reset_index()


def panel(rows: pd.DataFrame, by: str, title: str, among: pd.DataFrame) -> Panel:
    """A line for each value of ``by``, with a band from the smallest to the largest seed; styles
    are those of values ``among`` all rows."""
    lines = by_value(rows, by, among)
    return Panel(lines_of(lines, "step", "mean", "min", "max", n="size"), [], title)


def steps_figure(
    panels: Sequence[Panel], last: float, title: str, subtitle: str, y_title: str, *, share: bool
) -> ChartFigure:
    """Panels over steps, up to the ``last``."""
    return draw(
        Chart(
            title=title,
            subtitle=f"{subtitle} · bands: smallest to largest seed",
            x_title="step",
            y_title=y_title,
            x_is_share=False,
            y_is_share=share,
            panels=panels,
            x_name="step",
            x_ticks=[0.0, last / 2, last],
        )
    )


def weights_figure(frame: pd.DataFrame, by: str, title: str) -> ChartFigure:
    """Each measure of weights over its value before training, a line for each value of ``by``."""
    own = frame[frame["measure"].isin(list(OF_WEIGHTS))]
    place = [by, "seed", "measure"]
    first = own[own["step"] == own["step"].min()].set_index(place)["value"]
    before = first.loc[list(own[place].itertuples(index=False, name=None))]
    rows = over_seeds(
        own.assign(value=own["value"].to_numpy() / before.to_numpy()), [by, "measure"]
    )
    panels = [
        panel(rows[rows["measure"] == measure], by, name, rows)
        for measure, name in OF_WEIGHTS.items()
    ]
    return steps_figure(
        panels,
        float(rows["step"].max()),
        title,
        f"{frame['seed'].nunique()} seeds",
        "ratio to the value before training",
        share=False,
    )
