"""Is CARMA's gain under CAP one for words? The two controls, on the weights of a comparison.

``python -m benchmarks.carma_controls out/carma-idm`` loads every run's weights, measures its CAP
curve with the controls `last` (each word's last token alone) and `shuffled` (spans of the same
sizes at random places), and pairs CARMA and plain fine-tuning by seed, pooling and layer.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

import interp_compose as ic
from benchmarks.common import machine, run_folder, write
from interp_compose.models.copying import copy_model
from interp_compose.stats.seeds import paired_difference


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="written by interp-compose carma")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    config = ic.carma.Comparison.load(options.folder).config
    base = ic.load_model(config["model"])
    task = ic.load_task(config["task"], base)
    rows = []
    for seed in config["seeds"]:
        for version in ("ft", "carma"):
            model = copy_model(base)
            weights = run_folder(options.folder, version, seed) / "weights.safetensors"
            ic.load_weights(model, weights)
            curve = ic.cap_curve(model, task.test, pooling=["mean"], seed=seed, progress=False)
            rows.append(curve.frame.assign(version=version, run=seed))
    frame = pd.concat(rows)
    wide = frame.pivot_table(
        index="run", columns=["pooling", "layer", "version"], values="accuracy"
    ).mul(100)
    found = [
        {
            "pooling": pooling,
            "layer": int(layer),
            **dataclasses.asdict(
                paired_difference(
                    wide[pooling, layer, "carma"].to_numpy(), wide[pooling, layer, "ft"].to_numpy()
                )
            ),
        }
        for pooling in ("mean", "last", "shuffled")
        for layer in sorted(frame["layer"].unique())
    ]
    write(
        f"carma_controls_{config['task'].replace('-', '_')}",
        {"machine": machine(), "config": {"seeds": config["seeds"]}, "differences": found},
    )
    print(pd.DataFrame(found).round(3).to_string())


if __name__ == "__main__":
    main()
