"""More of the weights of a comparison of CARMA and fine-tuning, paired by seed: runs
``carma_controls_mini_idm`` and ``carma_labels_mini_sst``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import interp_compose as ic
from benchmarks.common import plain_rows
from interp_compose.models.copying import copy_model
from interp_compose.models.lens_model import LensModel
from interp_compose.stats.seeds import paired_difference

CONTROLS: Final = ("last", "shuffled")


def controls(folder: Path, model: str = "", layers: Sequence[int] | None = None) -> dict[str, Any]:
    """Is CARMA's gain under CAP one for words? Accuracy with the controls ``last`` (each word's
    last token alone) and ``shuffled`` (spans of the same sizes at random places), and what is
    gained under each, by seed. Curves are kept below ``folder``."""
    config, base, task = compared(folder, model)
    parts = []
    for version, seed, tuned in models(folder, config["seeds"], base):
        kept = folder / "controls" / f"{version}-{seed}"
        if not kept.exists():
            curve = ic.cap_curve(
                tuned, task.test, pooling=["mean"], layers=layers, seed=seed, progress=False
            )
            curve.save(kept)
        frame = ic.CapCurve.load(kept).frame
        parts.append(frame.assign(version=version, seed=seed, value=100 * frame["accuracy"]))
    every = pd.concat(parts)
    frame = pd.concat(every[every["pooling"] == pooling] for pooling in ("mean", *CONTROLS))
    rows = differences(frame, ["pooling", "layer"])
    print(pd.DataFrame(rows).round(3).to_string())
    return {
        "config": {"seeds": config["seeds"]},
        "differences": rows,
        "gain": gain_by_seed(frame),
        "values": plain_rows(frame[["version", "seed", "pooling", "layer", "value"]]),
    }


def gain_by_seed(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """CARMA minus plain fine-tuning of each seed, in points."""
    place = ["pooling", "layer", "seed"]
    wide = frame.pivot_table(index=place, columns="version", values="value", sort=False)
    return plain_rows((wide["carma"] - wide["ft"]).rename("gain").reset_index())


def labels(folder: Path) -> dict[str, Any]:
    """Sentiment among the labels (eq. 10) and in the whole vocabulary (eq. 9); also of the model as
    it was, and of ``mini-idm``, which was tuned on another task and mostly answers with something
    else than a label."""
    config, base, task = compared(folder, "")
    tuned_elsewhere = ic.load_model("mini-idm")
    rows = under_both(base, task, "original", 0)
    task_elsewhere = ic.load_task(config["task"], tuned_elsewhere)
    rows += under_both(tuned_elsewhere, task_elsewhere, "mini-idm", 0)
    for version, seed, model in models(folder, config["seeds"], base):
        rows += under_both(model, task, version, seed)
        print(rows[-1], flush=True)
    frame = pd.DataFrame(rows)
    means = frame.groupby(["version", "answers", "metric", "layer"], dropna=False, sort=False)
    over_seeds = means["value"].agg(mean="mean", low="min", high="max", n_seeds="size")
    print(over_seeds.round(2).to_string())
    trained = frame[frame["version"].isin(["ft", "carma"])]
    return {
        "config": {"seeds": config["seeds"], "labels": list(task.labels)},
        "means": with_layers(over_seeds.reset_index().to_dict("records")),
        "differences": differences(trained, ["answers", "metric", "layer"]),
    }


def compared(folder: Path, model: str) -> tuple[Mapping[str, Any], LensModel, ic.Task]:
    """A comparison's settings, the model that it began with (``model`` where its name loads
    nothing), and its task."""
    config = ic.carma.Comparison.load(folder).config
    base = ic.load_model(model or config["model"])
    return config, base, ic.load_task(config["task"], base)


def models(
    folder: Path, seeds: Sequence[int], base: LensModel
) -> Iterator[tuple[str, int, LensModel]]:
    """Version, seed and model of each run."""
    runs = ic.sweep_status(folder)
    for seed in seeds:
        for version in ("ft", "carma"):
            of_run = [
                version == v and seed in s
                for v, s in zip(runs["version"], runs["seeds"], strict=True)
            ]
            run = folder / "runs" / str(runs["hash"][of_run].iloc[-1])
            model = copy_model(base)
            ic.load_weights(model, run / "weights.safetensors")
            yield version, seed, model


def under_both(model: Any, task: Any, version: str, seed: int) -> list[dict[str, Any]]:
    """Per cent right under both, without intervention and by layer (mean of the poolings)."""
    rows = []
    for answers in ("vocabulary", "labels"):
        curve = ic.cap_curve(
            model, task.test, controls=False, answers=task.answer_set(answers), progress=False
        )
        place = {"version": version, "seed": seed, "answers": answers}
        right = 100 * float(curve.clean["correct"].mean())
        rows.append({**place, "metric": "accuracy", "layer": None, "value": right})
        by_layer = curve.frame.groupby("layer")["accuracy"].mean()
        rows += [
            {**place, "metric": "cap", "layer": int(layer), "value": 100 * float(value)}
            for layer, value in by_layer.items()
        ]
    return rows


def differences(frame: pd.DataFrame, place: Sequence[str]) -> list[dict[str, Any]]:
    """CARMA minus plain fine-tuning at each place, paired by seed."""
    rows = []
    for where, values in frame.groupby(list(place), dropna=False, sort=False):
        wide = values.pivot_table(index="seed", columns="version", values="value")
        paired = paired_difference(wide["carma"].to_numpy(), wide["ft"].to_numpy())
        rows.append({**dict(zip(place, where, strict=True)), **dataclasses.asdict(paired)})
    return with_layers(rows)


def with_layers(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """In JSON's types; None where there is no layer."""
    plain = [
        {name: each.item() if isinstance(each, np.generic) else each for name, each in row.items()}
        for row in rows
    ]
    return [row | {"layer": None if pd.isna(row["layer"]) else int(row["layer"])} for row in plain]
