"""Sentiment among the labels (eq. 10) beside the whole vocabulary (eq. 9), on the same weights.

``python -m benchmarks.carma_labels out/carma-sst`` loads every run's weights of a comparison on
``mini-sst`` and reads accuracy and the CAP curve under both; so it does for the model as it was,
and for the shipped ``mini-idm``, which was tuned on another task and mostly answers with something
else than a label.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import interp_compose as ic
from benchmarks.common import machine, run_folder, write
from interp_compose.models.copying import copy_model
from interp_compose.stats.seeds import paired_difference


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="written by interp-compose carma on mini-sst")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    config = ic.carma.Comparison.load(options.folder).config
    base = ic.load_model(config["model"])
    task = ic.load_task(config["task"], base)
    tuned_elsewhere = ic.load_model("mini-idm")
    rows = measured(base, task, "original", 0)
    rows += measured(tuned_elsewhere, ic.load_task(config["task"], tuned_elsewhere), "mini-idm", 0)
    for seed in config["seeds"]:
        for version in ("ft", "carma"):
            model = copy_model(base)
            weights = run_folder(options.folder, version, seed) / "weights.safetensors"
            ic.load_weights(model, weights)
            rows += measured(model, task, version, seed)
            print(rows[-1], flush=True)
    frame = pd.DataFrame(rows)
    write(
        f"carma_labels_{config['task'].replace('-', '_')}",
        {
            "machine": machine(),
            "config": {"seeds": config["seeds"], "labels": list(task.labels)},
            "means": means(frame),
            "differences": differences(frame),
        },
    )
    print(pd.DataFrame(means(frame)).round(2).to_string())


def measured(model: Any, task: Any, version: str, seed: int) -> list[dict[str, Any]]:
    """Per cent right under both, without intervention and by layer (mean of the poolings)."""
    rows = []
    for answers in ("vocabulary", "labels"):
        curve = ic.cap_curve(
            model, task.test, controls=False, answers=task.answer_set(answers), progress=False
        )
        about = {"version": version, "seed": seed, "answers": answers}
        right = 100 * float(curve.clean["correct"].mean())
        rows.append({**about, "metric": "accuracy", "layer": None, "value": right})
        by_layer = curve.frame.groupby("layer")["accuracy"].mean()
        rows += [
            {**about, "metric": "cap", "layer": int(layer), "value": 100 * float(value)}
            for layer, value in by_layer.items()
        ]
    return rows


def means(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Mean, smallest and largest over seeds of each version and measure."""
    found = []
    keys = ["version", "answers", "metric", "layer"]
    for place, rows in frame.groupby(keys, dropna=False, sort=False):
        about = dict(zip(keys, place, strict=True))
        about["layer"] = None if pd.isna(about["layer"]) else int(about["layer"])
        numbers = rows["value"]
        found.append(
            {
                **about,
                "mean": float(numbers.mean()),
                "low": float(numbers.min()),
                "high": float(numbers.max()),
                "n_seeds": len(numbers),
            }
        )
    return found


def differences(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """CARMA minus plain fine-tuning under each, paired by seed."""
    found = []
    trained = frame[frame["version"].isin(["ft", "carma"])]
    for (answers, metric, layer), rows in trained.groupby(
        ["answers", "metric", "layer"], dropna=False, sort=False
    ):
        wide = rows.pivot_table(index="seed", columns="version", values="value")
        one = paired_difference(wide["carma"].to_numpy(), wide["ft"].to_numpy())
        about = {
            "answers": answers,
            "metric": metric,
            "layer": None if pd.isna(layer) else int(layer),
        }
        found.append({**about, **dataclasses.asdict(one)})
    return found


if __name__ == "__main__":
    main()
