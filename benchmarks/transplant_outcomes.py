"""What phrase transplants found, for the pages.

Run with ``python -m benchmarks.transplant_outcomes FOLDER …``, folders that ``interp-compose
transplant`` wrote: the table goes into ``results/transplants_{name}.json``, the figures of
``--figures`` into ``docs/images/``. ``--name`` is the model's by default; one that was loaded from
a folder should be given another. Several folders are of models that differ in their seed alone:
accuracies are means over them then, intervals their smallest and largest, figures the first one's.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, plain_rows, write

PLACE: Final = ["layer", "pooling", "vector"]


def over_models(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames of transplants of the same pairs: means over models, ``low`` and ``high`` the smallest
    and largest of one model."""
    if len(frames) == 1:
        return frames[0]
    every = pd.concat(frames)
    over = every.groupby(PLACE, sort=False)
    found = over.mean()
    for answer, column in (
        ("expected", "expected_accuracy"),
        ("answer", "answer_accuracy"),
        ("remembered", "remembered"),
    ):
        found[f"{answer}_low"] = over[column].min()
        found[f"{answer}_high"] = over[column].max()
    return found.reset_index().assign(n_models=len(frames))


def by_type(found: ic.Transplants) -> pd.DataFrame:
    """The share of pairs of each type that get the expected answer from a transplant."""
    outcomes = found.frames["outcomes"]
    own = outcomes[outcomes["vector"] == "transplant"]
    typed = own.assign(type=own["pair"].map(found.pairs.set_index("pair")["type"]))
    shares = typed.groupby(["type", "pooling", "layer"], sort=False)["expected_right"]
    return shares.agg(expected_accuracy="mean", n="size").reset_index()


def main(argv: Sequence[str] | None = None) -> None:
    """Read, and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--name")
    parser.add_argument("--figures", nargs="*", choices=ic.Transplants.FIGURES, default=())
    args = parser.parse_args(argv)
    every = [ic.Transplants.load(folder) for folder in args.folders]
    found = every[0]
    if len({one.config["pairs_sha256"] for one in every}) > 1:
        parser.error("the folders are of different pairs")
    model = args.name or found.config["model"]
    name = model.replace("-", "_")
    about = {key: found.config[key] for key in ("task", "n_pairs", "seed", "dtype")}
    table = plain_rows(over_models([one.frame for one in every]))
    write(
        f"transplants_{name}",
        {
            "model": model,
            **about,
            "table": table,
            "types": plain_rows(pd.concat([by_type(one) for one in every])),
            **found.versions,
        },
    )
    for figure in args.figures:
        drawn = args.folders[0] / f"{figure}.png"
        shutil.copyfile(drawn, IMAGES / f"transplants_{name}_{figure}.png")


if __name__ == "__main__":
    main()
