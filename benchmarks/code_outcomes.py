"""Keeps what codes stand for: ``python -m benchmarks.code_outcomes NAME out/codes``.

The folder is that of ``interp-compose codes``. Sememes that are named, differences from the
baselines, cosines of words and senses, what words keep in a phrase, and the words of some codes go
into ``results/codes_{NAME}.json``, both pictures into ``docs/images``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, machine, plain_rows, write

SHOWN: Final = 12
"""Codes of which the words are kept."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the result and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="of the result")
    parser.add_argument("codes", help="written by interp-compose codes")
    asked = parser.parse_args(arguments)
    found = ic.cat.Codes.load(asked.codes)
    keep(found, asked.name)
    print(found.summary())


def keep(found: ic.cat.Codes, name: str) -> None:
    """The numbers, and the pictures."""
    known = {key: value for key, value in found.config.items() if key not in ("data", "start")}
    write(
        f"codes_{name}",
        {
            "machine": machine(),
            "config": known,
            "summary": plain_rows(found.frame),
            "differences": plain_rows(found.differences),
            "consistency": plain_rows(found.consistency),
            "inside_phrases": plain_rows(found.inside_phrases),
            "words": plain_rows(of_some_codes(found.words)),
        },
    )
    for figure, drawn in found.figures().items():
        drawn.save(IMAGES / f"{figure}_{name}.png")


def of_some_codes(words: pd.DataFrame) -> pd.DataFrame:
    """The words of each model's last block, of its first seed, of those codes whose lightest listed
    word is the heaviest: those that most surely have several words."""
    parts = []
    for _, own in words.groupby("model", sort=False):
        rows = own[(own["seed"] == own["seed"].min()) & (own["layer"] == own["layer"].max())]
        full = rows[rows["rank"] == rows["rank"].max()]
        codes = full.nlargest(SHOWN, "weight")["code"]
        parts.append(rows[rows["code"].isin(codes)])
    return pd.concat(parts) if parts else words


if __name__ == "__main__":
    main()
