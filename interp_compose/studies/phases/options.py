"""Memorising or reasoning (complexity control): the phase diagram of init rate and weight decay.

One dataclass for the command line; the work is done in ``measure.py``. Nothing heavy is
imported until it is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    from interp_compose.studies.phases.result import PhaseDiagram


@dataclass(frozen=True)
class PhasesConfig:
    """Small transformers on composed anchor functions, over a grid of init rates and weight decays:
    which ones memorise, and which ones reason. A run of the default takes about 40 s of a core."""

    gammas: str | None = None
    """Init rates: "0.3:1.0:0.1" (from, to, step), or a list by commas. By default 0.3:1.0:0.1."""
    weight_decays: str | None = None
    """By default 0,0.01,0.1,1."""
    seeds: int | None = None
    """Runs per cell. By default 3."""
    first_seed: int | None = None
    """By default 0."""
    out: Path = Path("out")
    """Folder for runs, tables and figures. Runs that are there already are not done again."""
    norm: Literal["pre", "post", "query"] | None = None
    """LayerNorm as in GPT-2 (pre), as in the paper's single-head model (post), or before queries
    alone, as in its released code (query). By default pre."""
    n_layers: int | None = None
    """By default 2."""
    d_model: int | None = None
    """By default 64."""
    n_heads: int | None = None
    """By default 1."""
    d_mlp: int | None = None
    """By default 128."""
    samples: int | None = None
    """Training sequences. By default 5000."""
    steps: int | None = None
    """Optimiser steps. By default 1500."""
    batch_size: int | None = None
    """By default 256."""
    lr: float | None = None
    """Peak learning rate. By default 0.003."""
    clip: float | None = None
    """Norm to which gradients are clipped, inf for not at all. By default 1."""
    paper: Literal["fig3", "fig3-code", "fig4"] | None = None
    """The paper's setting and grid instead of the default, as far as they are known; what differs
    is listed in docs/phases.md. All runs together take, by estimate and at 25 TFLOP/s: fig3 16 days
    of a GPU, fig3-code 14 days, fig4 2 hours."""
    where: Literal["here", "workers", "slurm"] = "workers"
    """In this process (with a GPU, many at a time), one worker per core, or jobs of a cluster."""
    workers: int | None = None
    """How many."""
    overwrite: bool = False
    """Replace the tables and figures of another setting in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bar, no table."""


SHAPE = (
    "norm",
    "n_layers",
    "d_model",
    "n_heads",
    "d_mlp",
    "samples",
    "steps",
    "batch_size",
    "lr",
    "clip",
)

GRID = ("init_rates", "weight_decays", "seeds")
"""What a later call may ask more of."""


def run(config: PhasesConfig) -> PhaseDiagram:
    """Train what is missing, and write ``out/``: results (Parquet, CSV), figures as HTML and PNG.

    Raises:
        InputError: ``out`` holds another study's result and ``overwrite`` is off.
        InputError, ModelError: as :func:`.measure.phase_diagram`.
    """
    from interp_compose.studies.anchors.grid import numbers, setting_of
    from interp_compose.studies.anchors.presets import DEFAULT, PRESETS
    from interp_compose.studies.core.output import check_folder, check_larger, write_result
    from interp_compose.studies.phases.measure import phase_diagram
    from interp_compose.studies.phases.result import PhaseDiagram

    preset = DEFAULT if config.paper is None else PRESETS[config.paper]
    given: dict[str, Any] = {
        name: getattr(config, name) for name in SHAPE if getattr(config, name) is not None
    }
    if given.get("clip") == math.inf:
        given["clip"] = None
    rates, decays = preset.init_rates, preset.weight_decays
    if config.gammas is not None:
        rates = tuple(numbers(config.gammas, "gammas"))
    if config.weight_decays is not None:
        decays = tuple(numbers(config.weight_decays, "weight_decays"))
    base = replace(preset.run, **given)
    setting = {"study": "phases", **setting_of(base)}
    check_folder(config.out, PhaseDiagram, setting, overwrite=config.overwrite)
    seeds = preset.seeds if config.seeds is None else config.seeds
    first_seed = preset.first_seed if config.first_seed is None else config.first_seed
    if not config.overwrite:
        grid = {"init_rates": rates, "weight_decays": decays}
        check_larger(config.out, {**grid, "seeds": range(first_seed, first_seed + seeds)})
    diagram = phase_diagram(
        rates,
        decays,
        config.out,
        seeds=seeds,
        first_seed=first_seed,
        run=base,
        where=config.where,
        workers=config.workers,
        progress=not config.quiet,
    )
    write_result(config.out, diagram, overwrite=config.overwrite, grows=GRID)
    return diagram
