"""How often a word of COGS has to be seen: runs ``generalise_cogs_exposures*``.

Of several results of ``interp-compose generalise`` on COGS, which differ in exposures, epochs,
models and seeds alone: what each run got right, by how often its training showed each line of
exposure (``seen``: exposures in an epoch times epochs), and means over seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, RESULTS, plain_rows
from interp_compose.papers.shared.grid.figures import BARS, by_value, seed_lines
from interp_compose.papers.shared.grid.shares import ALL, shares_of, summary_of
from interp_compose.plots.chart import Chart, Panel, subtitle_of
from interp_compose.plots.interactive import draw as drawn

PLACE: Final = ["seen", "exposures", "exposures_of", "epochs", "model"]
VARIED: Final = (
    *("task", "data", "data_report", "models", "seeds"),
    *("epochs", "max_steps", "steps_per_epoch"),
)
"""What the configs of the results may differ in."""
SPLIT: Final = "gen"


def measured(*folders: Path) -> dict[str, Any]:
    """The runs of all folders, by how often they saw what is tested."""
    tables: dict[str, list[pd.DataFrame]] = {"runs": [], "accuracy": [], "curve_ends": []}
    configs = []
    for folder in folders:
        result = ic.lrf.Generalisation.load(folder)
        print(result.summary())
        configs.append({key: one for key, one in result.config.items() if key not in VARIED})
        place = place_of(result)
        curve = result.frames["curve"]
        frames = {
            "runs": result.frames["runs"].drop(columns="step_seconds"),
            "accuracy": result.frames["accuracy"],
            "curve_ends": curve[curve["step"] == curve["step"].max()],
        }
        for name, frame in frames.items():
            tables[name].append(frame.assign(**place))
    if any(config != configs[0] for config in configs):
        raise SystemExit("the folders are not of one comparison: their configs differ")
    joined = {name: pd.concat(frames, ignore_index=True) for name, frames in tables.items()}
    summary = summary_of(shares_of(joined["accuracy"], PLACE), [*PLACE, "split", "kind"])
    rows = {name: plain_rows(frame) for name, frame in joined.items()}
    return {"config": configs[0], "summary": plain_rows(summary), **rows}


def place_of(result: ic.lrf.Generalisation) -> dict[str, Any]:
    """Where a result stands in the curve."""
    if result.seen is None:
        raise SystemExit(
            f"{result.config['task']}: how often it was seen is not known; expected a comparison "
            "on COGS whose epochs were not cut short"
        )
    report: Mapping[str, Any] = result.config["data_report"]
    return {
        "seen": result.seen,
        "exposures": report.get("exposures", 1),
        "exposures_of": report.get("exposures_of", "tested"),
        "epochs": result.config["epochs"],
    }


def draw(name: str) -> None:
    """The curve of a file of results: what is right of the generalisation set, by how often each
    line of exposure was seen."""
    kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    summary = pd.DataFrame(kept["summary"])
    rows = summary[(summary["split"] == SPLIT) & (summary["kind"] == ALL)]
    rows = rows.assign(seen=rows["seen"].round()).sort_values("seen", kind="stable")
    numbers = list(dict.fromkeys(rows["seen"]))
    placed = rows.assign(
        label=rows["model"] + _kinds(rows), place=rows["seen"].map(numbers.index).astype(float)
    )
    chart = Chart(
        title="COGS: generalisation by exposures",
        subtitle=subtitle_of(BARS, "each epoch repeats the lines of exposure, unless stated"),
        x_title="times that training showed each line of exposure",
        y_title="exact match",
        panels=[Panel(seed_lines(by_value(placed, "label"), "place"), [])],
        categories=[f"{number:,.4g}" for number in numbers],
    )
    drawn(chart).save(IMAGES / f"{name}.png")


def _kinds(rows: pd.DataFrame) -> list[str]:
    """What a line of the picture says besides the model. A run that repeats nothing is a point of
    the curve of those that do if it has as many epochs."""
    alone = (rows["exposures"] == 1) & (rows["epochs"].nunique() > 1)
    kinds = alone.map({True: ", nothing repeated", False: ""})
    return list(kinds.mask(rows["exposures_of"] == "others", ", others repeated"))
