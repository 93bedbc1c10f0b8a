"""What is kept of studies of sequence tasks: runs ``generalise_*``, ``task_phases_*``,
``text_phases_text``.

Settings, what each run got right, shares over seeds and paired differences. What the file has
already, of the same data and training, and that the folders do not hold, stays: other settings of
the same seeds, or other seeds of some of its settings. So a comparison can be measured a few
models, or a seed, at a time; where settings have unequal numbers of seeds, pictures show those that
have most. ``fits`` has the steps until ten of them have a mean loss of :func:`fit_loss` or less
(runs have those until an epoch does), and whether a run fitted its training data; rows of runs that
an earlier release measured have none there. Of ``generalise`` the seconds of a step and the
learning curves are kept, too (:mod:`benchmarks.seq2seq` measures steps side by side); of the others
times stay behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, RESULTS as RESULTS_FOLDER, plain_rows
from interp_compose.papers.complexity.grid.settings import with_settings
from interp_compose.papers.complexity.studies.task_phases import figures as task_figures
from interp_compose.papers.complexity.studies.task_phases.result import FITTED
from interp_compose.papers.complexity.studies.text_phases.result import (
    measures_of,
    perplexity_figure,
    summary_of_text,
)
from interp_compose.papers.lrf.studies.generalise import figures as generalise_figures
from interp_compose.papers.shared.grid.figures import MOST_KINDS
from interp_compose.papers.shared.grid.shares import ALL, differences_of, shares_of, summary_of
from interp_compose.plots.interactive import ChartFigure
from interp_compose.runs.files import read_json
from interp_compose.stats.seeds import paired_difference

AXES: Final[Mapping[str, Sequence[str]]] = {
    "generalise": ("model",),
    "task_phases": ("init_rate", "weight_decay", "size"),
    "text_phases": ("init_rate", "weight_decay", "size"),
}
"""What tells the settings of a study apart, beside the seed."""
FIT_LOSSES: Final[Mapping[str, float]] = {"prontoqa-1": 0.01, "prontoqa-3": 0.01}
"""The mean loss (nats a token) that says of a task that its data are fitted, where
:data:`.FITTED` does not: a derivation of which all but one bit is right has one of ln 2 over its 15
to 17 tokens."""
RESULTS: Final[
    Mapping[
        str,
        type[ic.lrf.Generalisation]
        | type[ic.complexity.TaskPhases]
        | type[ic.complexity.TextPhases],
    ]
]
RESULTS = {
    "generalise": ic.lrf.Generalisation,
    "task_phases": ic.complexity.TaskPhases,
    "text_phases": ic.complexity.TextPhases,
}


def measured(*folders: Path) -> dict[str, Any]:
    """Of several results of one study on one task, joined to what the file has."""
    study = read_json(folders[0] / "result.json")["config"]["study"]
    axes, together = AXES[study], dict[str, Any]()
    ceilings: list[dict[str, Any]] = []
    for folder in folders:
        result = RESULTS[study].load(folder)
        print(result.summary())
        tables, config = tables_of(result, study), kept_config(result.config)
        if isinstance(result, ic.complexity.TaskPhases):
            rows_of = plain_rows(result.frames["ceilings"])
            ceilings += [row for row in rows_of if row not in ceilings]
        joined = with_known(tables, config, together, axes)
        if together and len(joined["runs"]) == len(tables["runs"]):
            raise SystemExit(f"{folder} has other data, training and seeds than {folders[0]}")
        together = {"config": config, **joined}
    tables, config = {table: together[table] for table in tables}, together["config"]
    kind = (study, config["task"], *([config["model"]] if "model" in config else []))
    file = RESULTS_FOLDER / (re.sub(r"\W+", "_", "_".join(kind)) + ".json")
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    tables = with_known(tables, config, before, axes)
    for axis in axes:
        each = dict.fromkeys(value for (value,) in places(tables["runs"], [axis]))
        config[f"{axis}s"] = [value for value in each if value is not None]
    if "seeds" in config:
        config["seeds"] = sorted(set(tables["runs"]["seed"].tolist()))
    rows = {table: plain_rows(frame) for table, frame in tables.items()}
    more = {"ceilings": ceilings} if any(row["n_known"] < row["n"] for row in ceilings) else {}
    return {"config": config, **over_seeds(tables[measured_of(study)], study), **rows, **more}


def measured_of(study: str) -> str:
    """The table of what was measured at the end."""
    return "held_out" if study == "text_phases" else "accuracy"


def tables_of(
    found: ic.lrf.Generalisation | ic.complexity.TaskPhases | ic.complexity.TextPhases, study: str
) -> dict[str, pd.DataFrame]:
    """What is kept of a result: runs, what was measured at the end, and the curves' ends."""
    axes, curve = AXES[study], found.frames["curve"]
    measured = measured_of(study)
    last = curve.groupby([*axes, "seed"], dropna=False)["step"].transform("max")
    tables = {
        "runs": found.frames["runs"].drop(columns="step_seconds"),
        measured: found.frames[measured],
        "curve_ends": curve[curve["step"] == last],
    }
    if isinstance(found, ic.lrf.Generalisation):
        tables |= {"runs": found.frames["runs"], "curve": curve}
        tables["depths"] = generalise_figures.read_depths(found.reads)
    if isinstance(found, ic.complexity.TaskPhases):
        fits = found.epochs_to_fit(fit_loss(found.config)).drop(columns="setting")
        fits = fits.rename(columns={"epochs": "epochs_to_fit", "steps": "steps_to_fit"})
        tables["runs"] = tables["runs"].merge(fits.drop(columns="by_step"))
        fitted = found.fitted.drop(columns="setting")
        tables["fits"] = fits.drop(columns=["epochs_to_fit", "steps_to_fit"]).merge(fitted)
    return tables


def kept_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says of the runs: without digests, and of a folder its name alone."""
    kept = {key: value for key, value in config.items() if key not in ("data", "start")}
    report = kept.get("data_report", {})
    if "source" in report:
        kept["data_report"] = {**report, "source": re.sub(r" in \S*/", " in ", report["source"])}
    return kept


def fit_loss(config: Mapping[str, Any]) -> float:
    """The mean loss at which the data of a study are fitted."""
    return FIT_LOSSES.get(config["task"], FITTED)


def runs_of(found: Mapping[str, Any]) -> pd.DataFrame:
    """The runs of a file of ``task_phases``; ``steps_to_fit`` by tens of steps where the file has
    these of all runs."""
    runs = pd.DataFrame(found["runs"])
    fits = pd.DataFrame(found.get("fits", []))
    if len(fits) != len(runs):
        return runs
    steps = fits[[*AXES["task_phases"], "seed", "by_step"]]
    return runs.drop(columns="steps_to_fit").merge(
        steps.rename(columns={"by_step": "steps_to_fit"})
    )


def draw(name: str) -> None:
    """The pictures of a file of results, into the pages' folder: of all settings that it has."""
    found = json.loads((RESULTS_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    summary = pd.DataFrame(found["summary"])
    none = pd.DataFrame(columns=["setting", "size", "split", "kind", "p_holm"])  # of one setting
    differences = pd.DataFrame(found["differences"]) if found["differences"] else none
    config = found["config"]
    figures: dict[str, ChartFigure | None] = {}
    if config["study"] == "generalise":
        figures["accuracy"] = generalise_figures.accuracy_figure(summary, config)
        if 1 < summary["kind"].nunique() <= MOST_KINDS:
            figures["types"] = generalise_figures.types_figure(summary, differences, config)
        if found.get("depths"):
            depths = pd.DataFrame(found["depths"])
            own = {**config, "seeds": sorted(set(depths["seed"]))}  # not kept of every seed
            figures["reads_kinds"] = generalise_figures.depths_figure(depths, own)
    if config["study"] == "text_phases" and len(config["sizes"]) > 1:  # of one a table says it
        figures["perplexity"] = perplexity_figure(summary, config)
    if config["study"] == "task_phases":
        summary = summary[summary["n_seeds"] == summary["n_seeds"].max()]
        config["seeds"] = range(summary["n_seeds"].max())
        of_tasks = task_figures
        if len(config["sizes"]) > 1:
            figures["accuracy"] = of_tasks.accuracy_figure(summary, config)
            fits = with_settings(runs_of(found)).rename(
                columns={"steps": "all_steps", "steps_to_fit": "steps"}
            )
            if of_tasks.fitted(fits).any():
                figures["steps"] = of_tasks.steps_figure(fits, config, fit_loss(config))
        if len(set(summary["setting"])) == len(config["init_rates"]) * len(config["weight_decays"]):
            figures["map"] = of_tasks.map_figure(summary, config)
        figures["types"] = of_tasks.types_figure(summary, differences, config)
        if len(blocks := of_tasks.blocks_of(summary)):
            figures["square"] = of_tasks.square_figure(blocks, config)
    for figure, drawn in figures.items():
        if drawn is not None:
            drawn.save(IMAGES / f"{name}_{figure}.png")


def with_known(
    tables: Mapping[str, pd.DataFrame],
    config: Mapping[str, Any],
    before: Mapping[str, Any],
    axes: Sequence[str],
) -> dict[str, pd.DataFrame]:
    """The tables, joined by the rows of settings, or of seeds, that only the results of ``before``
    have, in the order that settings have there, where these are of the same data and training, and
    of the same seeds, or of these settings."""
    varied = {"seeds", *(f"{axis}s" for axis in axes)}
    old = before.get("config", {})
    same = all(old.get(key) == value for key, value in config.items() if key not in varied)
    if not same or "runs" not in before:
        return dict(tables)
    then, now = pd.DataFrame(before["runs"]), tables["runs"]
    same_seeds = set(places(then, ["seed"])) == set(places(now, ["seed"]))
    if not same_seeds and not set(places(now, axes)) <= set(places(then, axes)):
        return dict(tables)
    order = list(dict.fromkeys([*places(then, axes), *places(now, axes)]))
    here = set(places(now, [*axes, "seed"]))
    joined = {}
    for name, rows in tables.items():
        earlier = pd.DataFrame(before.get(name, []), columns=rows.columns)
        others = earlier[[place not in here for place in places(earlier, [*axes, "seed"])]]
        parts = [others, rows] if len(others) else [rows]  # an empty one would change types
        both = pd.concat(parts, ignore_index=True)
        at = pd.Series([order.index(place) for place in places(both, axes)], dtype=int)
        joined[name] = both.loc[at.sort_values(kind="stable").index].reset_index(drop=True)
    return joined


def places(rows: pd.DataFrame, axes: Sequence[str]) -> list[tuple[Any, ...]]:
    """Where each row stands on these axes; what is not there, as the init rate of a given model, is
    None."""
    own = rows[list(axes)].astype(object)
    return list(own.where(own.notna(), None).itertuples(index=False, name=None))


def over_seeds(accuracy: pd.DataFrame, study: str) -> dict[str, list[dict[str, Any]]]:
    """Summary, differences to the first setting, and those of every two settings (not corrected),
    paired by seed."""
    if study == "text_phases":
        values = measures_of(accuracy)
        losses = values[values["measure"] == "loss"]
        return {
            "summary": plain_rows(summary_of_text(values)),
            "differences": plain_rows(differences_of(losses, "setting", ("size",))),
        }
    setting, more = ("model", []) if study == "generalise" else ("setting", ["size"])
    rows = accuracy if study == "generalise" else with_settings(accuracy)
    own = list(dict.fromkeys([setting, *AXES[study]]))
    values = shares_of(rows, own)
    place = [*more, "split", "kind"]
    return {
        "summary": plain_rows(summary_of(values, [*own, "split", "kind"])),
        "differences": plain_rows(differences_of(values, setting, place)),
        "pairs": plain_rows(pairs(values, setting, [*more, "split"])),
    }


def pairs(values: pd.DataFrame, setting: str, place: Sequence[str]) -> pd.DataFrame:
    """The difference of every two settings on all kinds together, paired by the seeds that both
    have; not corrected."""
    rows = []
    for where, group in values[values["kind"] == ALL].groupby(list(place), sort=False):
        shares = group.pivot(index="seed", columns=setting, values="value")
        for other, one in combinations(dict.fromkeys(group[setting]), 2):
            both = shares[[one, other]].dropna()
            if len(both) < 2:
                continue
            found = asdict(paired_difference(both[one].tolist(), both[other].tolist()))
            about = dict(zip(place, where, strict=True))
            rows.append({**about, setting: one, "other": other, **found})
    return pd.DataFrame(rows)
