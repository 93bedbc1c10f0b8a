"""Inside a phase diagram's models (complexity control, V and VI): the study and its options.

One dataclass for the command line; the work is done in ``measure.py``. Nothing heavy is
imported until it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from interp_compose.studies.mechanism.result import Mechanism


@dataclass(frozen=True)
class MechanismConfig:
    """Models that `interp-compose phases` trained, opened up: outputs with a token masked,
    neurons, embeddings, and what came first in training."""

    runs: Path
    """The folder that was --out of `interp-compose phases`."""
    gammas: str = "0.4,0.5,0.8"
    """Init rates of the models to open: a list by commas, or from:to:step."""
    weight_decay: float = 0.01
    """Theirs."""
    seed: int | None = None
    """Theirs. By default the smallest there is."""
    out: Path = Path("out")
    """Folder for tables and figures."""
    draw: int = 0
    """Seed of the sequences that are looked at, and of t-SNE."""
    overwrite: bool = False
    """Replace another run's result in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bar, no table."""


def run(config: MechanismConfig) -> Mechanism:
    """Open the models, and write ``out/``: results (Parquet, CSV), figures as HTML and as PNG.

    Raises:
        InputError: ``out`` is ``runs``, or holds another study's result and ``overwrite`` is off.
        InputError, MissingDataError: as :func:`.measure.mechanism`.
    """
    from interp_compose.errors import InputError
    from interp_compose.studies.anchors.grid import numbers
    from interp_compose.studies.core.output import held_folder, write_result
    from interp_compose.studies.mechanism.measure import mechanism
    from interp_compose.studies.mechanism.result import Mechanism

    rates = numbers(config.gammas, "gammas")
    if config.out.resolve() == config.runs.resolve():
        raise InputError(
            f"--out and --runs are both {config.out}; choose another --out, so that the tables of "
            "the diagram stay"
        )
    asked = {
        "study": "mechanism",
        "init_rates": rates,
        "weight_decay": config.weight_decay,
        "draw": config.draw,
        **({} if config.seed is None else {"seed": config.seed}),
    }
    with held_folder(config.out, Mechanism, asked, overwrite=config.overwrite):
        found = mechanism(
            config.runs,
            rates,
            weight_decay=config.weight_decay,
            seed=config.seed,
            draw=config.draw,
            progress=not config.quiet,
        )
        write_result(config.out, found, overwrite=config.overwrite)
    return found
