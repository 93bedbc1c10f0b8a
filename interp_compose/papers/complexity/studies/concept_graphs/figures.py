"""The figures of a concept graph: accuracy by init rate, and a grid of generated images."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.papers.complexity.studies.concept_graphs.result import FAILING
from interp_compose.papers.complexity.tasks.concept_images import NODES, described
from interp_compose.papers.shared.grid.figures import (
    BARS,
    RATE_AXIS,
    by_value,
    curve_figure,
    means_of_seeds,
    n_seeds,
    of_several,
    seed_lines,
)
from interp_compose.papers.shared.grid.shares import ALL
from interp_compose.plots.chart import Chart, Panel, subtitle_of
from interp_compose.plots.images import ImageGrid, image_of, side_by_side
from interp_compose.plots.interactive import ChartFigure, draw

PANELS: Final = {ALL: "all three attributes", "shape": "shape"}


def accuracy_figure(values: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """The share of images that is right, by init rate: of each node that was not trained on, and
    of those that were together; the mean over seeds, bars from the smallest to the largest."""
    lines = [
        "trained nodes" if trained else f"{node} {described(node)}"
        for node, trained in zip(values["node"], values["trained"], strict=True)
    ]
    of_seeds = (
        values.assign(line=lines)
        .groupby(["line", "kind", "init_rate", "seed"], sort=False)["value"]
        .mean()
        .reset_index()
    )
    means = means_of_seeds(of_seeds, ("line", "kind", "init_rate"), "value")
    means = means.sort_values("line", kind="stable")
    panels = [
        Panel(seed_lines(by_value(means[means["kind"] == kind], "line"), "init_rate"), [], title)
        for kind, title in PANELS.items()
    ]
    rates = sorted(set(values["init_rate"]))
    notes = (f"trained on {', '.join(config['train_nodes'])}", n_seeds(config))
    return draw(
        Chart(
            title="concept graph: generated images that are right",
            subtitle=subtitle_of(*notes, *of_several(config, BARS)),
            x_title=RATE_AXIS,
            y_title="images",
            panels=panels,
            x_name="γ",
            x_ticks=rates,
            x_step=(rates[-1] - rates[0]) / max(1, len(rates) - 1) or 0.1,
        )
    )


def over_training(values: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """The share of images that is right over training, a line for each γ: of the nodes that are
    trained on, of the others, and the shape alone of small circles that are not."""
    is_all, trained = values["kind"] == ALL, values["trained"]
    circles = (values["kind"] == "shape") & values["node"].isin(FAILING) & ~trained
    panels = {"trained nodes": is_all & trained, "other nodes": is_all & ~trained}
    if circles.any():
        panels["shape of small circles"] = circles
    of_seeds = pd.concat(
        [
            values[rows]
            .groupby(["setting", "seed", "step"], sort=False)
            .agg(accuracy=("value", "mean"), n=("n", "sum"))
            .reset_index()
            .assign(split=title)
            for title, rows in panels.items()
        ]
    )
    notes = (f"trained on {', '.join(config['train_nodes'])}", n_seeds(config))
    return curve_figure(
        of_seeds,
        "setting",
        {**config, "task": "concept graph"},
        notes,
        name="images that are right",
        of="measured on {} images",
    )


def images_figure(
    examples: pd.DataFrame, values: pd.DataFrame, config: Mapping[str, Any]
) -> ChartFigure:
    """Images that the first seed's models generate: a row for each node, a column for each γ."""
    seed = min(examples["seed"])
    rates = sorted(set(examples["init_rate"]))
    seed_rows = examples[examples["seed"] == seed].sort_values("image")
    seed_values = values[(values["kind"] == ALL) & (values["seed"] == seed)]
    accuracy = seed_values.set_index(["node", "init_rate"])["value"]
    pictures = {
        place: side_by_side([image_of(b64decode(png)) for png in rows["png"]])
        for place, rows in seed_rows.groupby(["node", "init_rate"])
    }
    trained = config["train_nodes"]
    names = {node: f"{node} {described(node)}{' *' * (node in trained)}" for node in NODES}
    return draw(
        ImageGrid(
            title="concept graph: generated images",
            subtitle=f"seed {seed}, all γ from the same noise · * trained on",
            x_title=RATE_AXIS,
            columns=[f"{rate:g}" for rate in rates],
            rows=list(names.values()),
            images=[[pictures[node, rate] for rate in rates] for node in NODES],
            hover=[
                [f"γ {rate:g}, {names[node]}: {accuracy[node, rate]:.0%} right" for rate in rates]
                for node in NODES
            ],
        )
    )
