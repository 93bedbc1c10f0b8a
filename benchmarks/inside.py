"""The pages' pictures of models of the phase diagrams, opened up.

Run with ``python -m benchmarks.inside --runs out/phases`` and, of the post-LN model,
``python -m benchmarks.inside --runs out/phases-post --norm post``, on what
``benchmarks.phase_diagram`` trained. The same from the command line::

    interp-compose mechanism --runs out/phases --gammas 0.4,0.5,0.8 --seed 200 --out out/mechanism
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import interp_compose as ic
from benchmarks.common import IMAGES
from interp_compose.plots.export import picture_bytes
from interp_compose.plots.palette import few_colours
from interp_compose.runs.files import atomic_write

SHOWN: Final[Mapping[str, Mapping[tuple[float, ...], tuple[str, ...]]]] = {
    "pre": {
        (0.4, 0.5, 0.8): (
            "masked_key_pca_zero",
            "masked_key_tsne_zero",
            "masked_key_tsne_exclude",
            "masked_second_anchor",
            "all_neurons",
            "embedding",
            "condensation_and_reasoning",
        ),
    },
    "post": {
        (0.3, 0.45, 0.8): (
            "masked_key_tsne_zero",
            "masked_key_tsne_exclude",
            "masked_second_anchor",
        ),
        (0.2, 0.5, 0.8): ("neurons", "all_neurons", "embedding"),
    },
}
"""Pictures by norm and the init rates that they are of; the last ones are the paper's Figs 5A, 10
and 5B. Neurons over the diagram are of every run that the folder has; the page shows three γ of the
post-LN model."""
SHADES: Final = ("masked_second_anchor", "neurons", "all_neurons")
"""Of more colours than a palette has."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--norm", default="pre", choices=tuple(SHOWN))
    parser.add_argument("--seed", type=int, default=200)
    options = parser.parse_args(arguments)
    for rates, names in SHOWN[options.norm].items():
        figures = ic.complexity.mechanism(options.runs, rates, seed=options.seed).figures()
        for name in names:
            picture = picture_bytes(figures[name])
            picture = picture if name in SHADES else few_colours(picture)
            atomic_write(IMAGES / f"inside_{options.norm}_{name}.png", picture)


if __name__ == "__main__":
    main()
