"""Reasoning complexity and training speed (complexity control, section VIII): how fast data are
fitted that break the rule.

One dataclass for the command line; the work is done in ``measure.py``. Nothing heavy is
imported until it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    from interp_compose.studies.fitting_speed.result import FittingSpeed


@dataclass(frozen=True)
class SpeedConfig:
    """How many epochs small transformers need to fit composed anchor functions of which some pairs
    break the rule, and whether late samples are those. A run of the default takes about a minute
    of a core."""

    gammas: str | None = None
    """Init rates: a list by commas, or "0.4:0.8:0.1" (from, to, step). By default 0.4,0.8."""
    depths: str | None = None
    """Numbers of layers. By default 2,3,4."""
    violations: str | None = None
    """Groups of anchor pairs with a wrong target, of 6: the reasoning complexity. By default
    0,1,3,5."""
    seeds: int | None = None
    """Runs per cell. By default 3."""
    first_seed: int | None = None
    """By default 0."""
    out: Path = Path("out")
    """Folder for runs, tables and figures. Runs that are there already are not done again."""
    weight_decay: float | None = None
    """By default 0.01."""
    norm: Literal["pre", "post", "query"] | None = None
    """LayerNorm as in GPT-2 (pre), as in the paper's single-head model (post), or before queries
    alone, as in its released code (query). By default pre."""
    d_model: int | None = None
    """By default 64."""
    samples: int | None = None
    """Training sequences. By default 5000."""
    steps: int | None = None
    """Optimiser steps, at most: a run ends once it is fitted. By default 1500."""
    evaluate_every: int | None = None
    """Steps between two looks at all training sequences. By default one epoch."""
    paper: Literal["fig8"] | None = None
    """The paper's setting and grid instead of the default, as far as they are known; what differs
    is listed in docs/phases.md. All runs together take, by estimate and at 25 TFLOP/s, 6 hours of a
    GPU, or less, since a run ends once it is fitted."""
    where: Literal["here", "workers", "slurm"] = "workers"
    """In this process (with a GPU, many at a time), one worker per core, or jobs of a cluster."""
    workers: int | None = None
    """How many."""
    overwrite: bool = False
    """Replace the tables and figures of another setting in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bar, no table."""


SHAPE = ("weight_decay", "norm", "d_model", "samples", "steps")

GRID = ("init_rates", "depths", "violations", "seeds")
"""What a later call may ask more of."""


def run(config: SpeedConfig) -> FittingSpeed:
    """Train what is missing, and write ``out/``: results (Parquet, CSV), figures as HTML and PNG.

    Raises:
        InputError: ``out`` holds another study's result and ``overwrite`` is off.
        InputError, ModelError: as :func:`.measure.fitting_speed`.
    """
    from interp_compose.studies.anchors.grid import numbers
    from interp_compose.studies.core.output import check_folder, check_larger, write_result
    from interp_compose.studies.fitting_speed.measure import (
        base_of,
        fitting_speed,
        runs_of,
        setting_of,
        whole_numbers,
    )
    from interp_compose.studies.fitting_speed.presets import DEFAULT, PRESETS
    from interp_compose.studies.fitting_speed.result import FittingSpeed

    preset = DEFAULT if config.paper is None else PRESETS[config.paper]
    given: dict[str, Any] = {
        name: getattr(config, name) for name in SHAPE if getattr(config, name) is not None
    }
    base = base_of(replace(preset.run, **given), config.evaluate_every)
    rates, depths, groups = preset.init_rates, preset.depths, preset.violations
    if config.gammas is not None:
        rates = tuple(numbers(config.gammas, "gammas"))
    if config.depths is not None:
        depths = tuple(whole_numbers(config.depths, "depths"))
    if config.violations is not None:
        groups = tuple(whole_numbers(config.violations, "violations"))
    seeds = preset.seeds if config.seeds is None else config.seeds
    first_seed = preset.first_seed if config.first_seed is None else config.first_seed
    runs_of(base, rates, depths, groups, seeds, first_seed)  # refuses a grid that cannot be
    check_folder(
        config.out, FittingSpeed, {"study": "speed", **setting_of(base)}, overwrite=config.overwrite
    )
    if not config.overwrite:
        grid = {"init_rates": rates, "depths": depths, "violations": groups}
        check_larger(config.out, {**grid, "seeds": range(first_seed, first_seed + seeds)})
    speed = fitting_speed(
        rates,
        depths,
        groups,
        config.out,
        seeds=seeds,
        first_seed=first_seed,
        evaluate_every=config.evaluate_every,
        run=base,
        where=config.where,
        workers=config.workers,
        progress=not config.quiet,
    )
    write_result(config.out, speed, overwrite=config.overwrite, grows=GRID)
    return speed
