"""What is kept of phrase transplants: runs ``transplants_*``.

Several folders are of models that differ in their seed alone: accuracies are means over them then,
intervals their smallest and largest, figures the first one's.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, plain_rows

PLACE: Final = ["layer", "pooling", "vector"]


def over_models(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames of transplants of the same pairs: means over models, ``low`` and ``high`` the smallest
    and largest of one model."""
    if len(frames) == 1:
        return frames[0]
    every = pd.concat(frames)
    over = every.groupby(PLACE, sort=False)
    means = over.mean()
    for answer, column in (
        ("expected", "expected_accuracy"),
        ("answer", "answer_accuracy"),
        ("remembered", "remembered"),
    ):
        means[f"{answer}_low"] = over[column].min()
        means[f"{answer}_high"] = over[column].max()
    return means.reset_index().assign(n_models=len(frames))


def by_type(result: ic.Transplants) -> pd.DataFrame:
    """The share of pairs of each type that get the expected answer from a transplant."""
    outcomes = result.frames["outcomes"]
    moved = outcomes[outcomes["vector"] == "transplant"]
    typed = moved.assign(type=moved["pair"].map(result.pairs.set_index("pair")["type"]))
    shares = typed.groupby(["type", "pooling", "layer"], sort=False)["expected_right"]
    return shares.agg(expected_accuracy="mean", n="size").reset_index()


def measured(*folders: Path, name: str, figures: Sequence[str] = ()) -> dict[str, Any]:
    """Of the model ``name``; some figures go into the pages' folder."""
    every = [ic.Transplants.load(folder) for folder in folders]
    first = every[0]
    print(first.summary())
    if len({each.config["pairs_sha256"] for each in every}) > 1:
        raise SystemExit("the folders are of different pairs")
    for figure in figures:
        picture = f"transplants_{name.replace('-', '_')}_{figure}.png"
        shutil.copyfile(folders[0] / f"{figure}.png", IMAGES / picture)
    return {
        "model": name,
        **{key: first.config[key] for key in ("task", "n_pairs", "seed", "dtype")},
        "table": plain_rows(over_models([each.frame for each in every])),
        "types": plain_rows(pd.concat([by_type(each) for each in every])),
        **first.versions,
    }
