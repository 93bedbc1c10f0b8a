"""The pages' pictures of models of the phase diagrams, opened up: runs ``inside_pre`` and
``inside_post``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import interp_compose as ic
from benchmarks.common import IMAGES
from interp_compose.plots.export import picture_bytes
from interp_compose.plots.palette import few_colours
from interp_compose.runs.files import atomic_write

SEED: Final = 200
SHADES: Final = ("masked_second_anchor", "neurons", "all_neurons")
"""Of more colours than a palette has."""


def pictures(folder: Path, shown: Sequence[Mapping[str, Any]]) -> None:
    """Draw ``pictures`` of the runs with these ``rates``, of each entry."""
    for part in shown:
        mechanism = ic.complexity.mechanism(folder, part["rates"], seed=SEED)
        figures, norm = mechanism.figures(), mechanism.config["norm"]
        for name in part["pictures"]:
            picture = picture_bytes(figures[name])
            picture = picture if name in SHADES else few_colours(picture)
            atomic_write(IMAGES / f"inside_{norm}_{name}.png", picture)
