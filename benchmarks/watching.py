"""What the benchmarks of watched trainings share: looks at each evaluation of a run, means over
seeds by step, and their figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, RESULTS, plain_rows
from interp_compose.papers.shared.grid.figures import by_value
from interp_compose.plots.chart import Chart, Panel
from interp_compose.plots.interactive import ChartFigure, draw as drawn
from interp_compose.runs.files import read_json
from interp_compose.stats.seeds import paired_difference
from interp_compose.studies.core.figures import lines_of
from interp_compose.studies.core.grid import RESULT

LOOKS: Final = "looks.jsonl"
"""The file of a run's looks, in its folder."""

OF_WEIGHTS: Mapping[str, str] = {
    "stable_rank": "stable rank",
    "mean_abs_cosine": "condensation: mean abs(cos) of rows",
}
"""Titles of measures of weights."""

PICTURES: Final = {
    "carma_watched_mini_idm": (
        "version",
        ("carma", "ft"),
        "mini-base on mini-idm: CARMA and fine-tuning (FT), while they train",
    ),
    "cat_watched": (
        "model",
        ("bert", "cat-last"),
        "Pre-training: the matrices that a BERT and CAT, the same with codes, both have",
    ),
    "lrf_watched": (
        "model",
        ("transformer", "lrf"),
        "SCAN without turn left: weights while LRF and a Transformer learn",
    ),
}
"""By name of a result file: what its lines are, in which order, and a title."""


@contextmanager
def watched(
    objective: type,
    folder: Path,
    named: Callable[[Any], Any] = lambda model: model,
    *,
    measures: Sequence[str] = tuple(OF_WEIGHTS),
    **others: Any,
) -> Iterator[None]:
    """Within, the model is looked at in each evaluation of an objective of this type, into a file
    of the run's folder. ``named`` makes of the module what :func:`ic.watch` takes."""
    evaluate: Any = objective.evaluate  # type: ignore[attr-defined]
    watchers: list[ic.Watcher] = []

    def watches(self: Any, trainer: Any) -> Any:
        if not watchers:
            options = {"every": 1, "budget": None, "path": folder / LOOKS, **others}
            watchers.append(ic.watch(named(trainer.model), measures=measures, **options))
        watchers[0](trainer.step)
        return evaluate(self, trainer)

    with patch.object(objective, "evaluate", watches):
        yield


def looks_of(runs: Path) -> Iterator[pd.DataFrame]:
    """Of each run of a sweep: its looks, with the run's model and seed."""
    for file in sorted(runs.glob(f"runs/*/{LOOKS}")):
        run = read_json(file.parent / RESULT)["run"]
        yield ic.Watched.read(file).frame.assign(model=run["model"], seed=run["seed"])


def matrix_means(looks: Iterable[pd.DataFrame], matrices: Sequence[str]) -> pd.DataFrame:
    """Of each run and step, the mean of each measure over matrices of these names."""
    frame = pd.concat(looks, ignore_index=True)
    place = ["model", "seed", "step", "measure"]
    return frame[frame["of"].isin(matrices)].groupby(place)["value"].mean().reset_index()


def last_differences(frame: pd.DataFrame, models: Sequence[str]) -> pd.DataFrame:
    """Of each measure and model: the mean before training, after the last step, and its difference
    to the first model's there, paired by seed, of the seeds in which both exist."""
    first, last = frame["step"].min(), frame["step"].max()
    rows = []
    for measure, own in frame.groupby("measure", sort=False):
        ends = own[own["step"] == last].pivot(index="seed", columns="model", values="value")
        starts = own[own["step"] == first].groupby("model")["value"].mean()
        for model in models:
            place = {"measure": measure, "model": model, "start": starts[model]}
            place["end"] = ends[model].mean()
            both = ends[[model, models[0]]].dropna()
            if model != models[0] and len(both) > 1:
                place |= asdict(paired_difference(both[model].tolist(), both[models[0]].tolist()))
            rows.append(place)
    return pd.DataFrame(rows)


def ends(frame: pd.DataFrame) -> pd.DataFrame:
    """The values of each seed before training and after the last step, which ``at`` tells."""
    at = frame["step"].map({frame["step"].min(): "start", frame["step"].max(): "end"})
    return frame.assign(at=at).dropna(subset="at")


def over_seeds(frame: pd.DataFrame, place: Sequence[str]) -> pd.DataFrame:
    """Mean, smallest and largest seed at each ``place``, of the column ``value``."""
    found = frame.groupby([*place, "step"], sort=False)["value"].agg(["mean", "min", "max", "size"])
    return found.reset_index()


def panel(rows: pd.DataFrame, by: str, title: str, among: pd.DataFrame) -> Panel:
    """A line for each value of ``by``, with a band from the smallest to the largest seed; styles
    are those of values ``among`` all rows."""
    lines = by_value(rows, by, among)
    return Panel(lines_of(lines, "step", "mean", "min", "max", n="size"), [], title)


def kept_of(
    folder: Path, matrices: Sequence[str], models: Sequence[str], others: Sequence[pd.DataFrame]
) -> dict[str, Any]:
    """What is kept of a sweep's looks at these matrices, and of ``others``: rows with model, seed,
    step, measure and value."""
    frame = pd.concat([matrix_means(looks_of(folder), matrices), *others], ignore_index=True)
    differences = last_differences(frame, models)
    print(differences.round(4).to_string())
    return {
        "means": plain_rows(over_seeds(frame, ["model", "measure"])),
        "differences": plain_rows(differences),
        "runs": plain_rows(ends(frame)),
    }


def steps_figure(
    panels: Sequence[Panel], last: float, title: str, subtitle: str, y_title: str, *, share: bool
) -> ChartFigure:
    """Panels over steps, up to the ``last``."""
    return drawn(
        Chart(
            title=title,
            subtitle=f"{subtitle} · bands: smallest to largest seed",
            x_title="step",
            y_title=y_title,
            y_is_share=share,
            panels=panels,
            x_name="step",
            x_ticks=[0.0, last / 2, last],
        )
    )


def draw(name: str) -> None:
    """The picture of weights of a result file."""
    by, order, title = PICTURES[name]
    kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    rows = pd.DataFrame(kept["means"])
    rows = pd.concat(rows[(rows[by] == one) & rows["measure"].isin(OF_WEIGHTS)] for one in order)
    n_seeds = len(kept["config"]["seeds"])
    weights_figure(rows, by, title, n_seeds).save(IMAGES / f"{name}.png")


def weights_figure(rows: pd.DataFrame, by: str, title: str, n_seeds: int) -> ChartFigure:
    """Each measure of weights, a line for each value of ``by``: mean, smallest and largest seed,
    each divided by the mean before training."""
    first = rows[rows["step"] == rows["step"].min()]
    before = rows.merge(first[[by, "measure", "mean"]], on=[by, "measure"], suffixes=("", "_first"))
    ends = ["mean", "min", "max"]
    ratios = before.assign(**before[ends].div(before["mean_first"], axis=0))
    panels = [
        panel(ratios[ratios["measure"] == measure], by, name, ratios)
        for measure, name in OF_WEIGHTS.items()
    ]
    return steps_figure(
        panels,
        float(rows["step"].max()),
        title,
        f"{n_seeds} seeds",
        "ratio to the mean before training",
        share=False,
    )
