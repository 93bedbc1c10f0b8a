"""Keeps what a comparison said: ``python -m benchmarks.generalise_outcomes out/length``.

The folder is one that ``interp-compose generalise`` wrote; its settings, shares by split and type
and paired differences go into ``results/generalise_{task}.json``. Times stay behind:
``benchmarks.seq2seq`` measures those, side by side.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations

import pandas as pd

import interp_compose as ic
from benchmarks.common import machine, plain_rows, write
from interp_compose.stats.seeds import paired_difference


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="written by interp-compose generalise")
    options = parser.parse_args(arguments)
    found = ic.Generalisation.load(options.folder)
    runs = found.frames["runs"].drop(columns="step_seconds")
    curve = found.frames["curve"]
    ends = curve[curve["step"] == curve["step"].max()]
    write(
        re.sub(r"\W+", "_", f"generalise_{found.config['task']}"),
        {
            "machine": machine(),
            "config": {key: value for key, value in found.config.items() if key != "data"},
            "summary": plain_rows(found.frame),
            "differences": plain_rows(found.differences),
            "pairs": plain_rows(pairs(found.frames["accuracy"])),
            "runs": plain_rows(runs),
            "curve_ends": plain_rows(ends),
        },
    )
    print(found.summary())


def pairs(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The difference of every two models on each split, paired by seed; not corrected."""
    counts = accuracy.groupby(["split", "model", "seed"], sort=False)[["n_right", "n"]].sum()
    shares = (counts["n_right"] / counts["n"]).unstack("seed")
    rows = []
    for split, own in shares.groupby(level="split", sort=False):
        for other, model in combinations(own.index.get_level_values("model"), 2):
            first, second = (own.loc[(split, name)].tolist() for name in (model, other))
            found = asdict(paired_difference(first, second))
            rows.append({"split": split, "model": model, "other": other, **found})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
