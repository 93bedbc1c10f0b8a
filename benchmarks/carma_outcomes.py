"""Keeps what a comparison said: ``python -m benchmarks.carma_outcomes out/carma-idm``.

The folder is one that ``interp-compose carma`` wrote; from its checked tables go the settings, the
means over seeds, the paired differences with their verdicts, the doses of the synonym replacement,
and how CARMA's gain under CAP depends on the layer into ``results/carma_{model}_{task}.json``.
Times stay behind: ``benchmarks.carma`` measures those, side by side on a quiet machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

import interp_compose as ic
from benchmarks.common import machine, write
from interp_compose.papers.carma.differences import AVERAGE
from interp_compose.stats.seeds import paired_difference

TIMES = ["seconds", "step_seconds"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="written by interp-compose carma")
    options = parser.parse_args(arguments)
    comparison = ic.carma.Comparison.load(options.folder)
    config = {key: value for key, value in comparison.config.items() if "sha256" not in key}
    config["model"] = str(config["model"]).rstrip("/").split("/")[-1]
    name = re.sub(r"\W+", "_", f"carma_{config['model']}_{config['task']}")
    write(
        name,
        {
            "machine": machine(),
            "config": config,
            "summary": _rows(comparison.frame),
            "differences": _rows(comparison.differences),
            "dose": _rows(comparison.dose),
            "gain_by_layer": gain_by_layer(comparison.frames["values"]),
            "training": _rows(comparison.frames["training"].drop(columns=TIMES)),
        },
    )
    print(comparison.summary())


def gain_by_layer(values: pd.DataFrame) -> dict[str, dict[str, float | int]]:
    """CARMA minus plain fine-tuning under CAP, mean of the poolings, in percentage points.

    ``mean`` is its mean over all layers, ``slope`` its least-squares slope in points per layer,
    ``early_minus_late`` the gain at the first layer minus that at the last; each is taken per seed
    and then averaged. Intervals and p are Student's t over seeds, each a test of its own, not
    corrected.
    """
    rows = values[(values["metric"] == "cap") & (values["pooling"] == AVERAGE)]
    wide = rows.pivot_table(index=["seed", "layer"], columns="version", values="value")
    gain = (wide["carma"] - wide["ft"]).unstack("layer").sort_index(axis=1)
    layers = gain.columns.to_numpy(float)
    centred = layers - layers.mean()
    found = {
        "mean": gain.mean(axis=1),
        "slope": gain @ centred / (centred**2).sum(),
        "early_minus_late": gain.iloc[:, 0] - gain.iloc[:, -1],
    }
    return {
        name: dataclasses.asdict(paired_difference(per_seed.to_numpy(), np.zeros(len(per_seed))))
        for name, per_seed in found.items()
    }


def _rows(frame: object) -> object:
    """Records in JSON's types; a gap is null."""
    return json.loads(frame.to_json(orient="records", double_precision=6))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
