"""``concept_graphs``: diffusion models over init rates, and whether they compose concepts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from interp_compose.papers.complexity.studies.concept_graphs.options import (
    ConceptGraphsCommand,
    ImageTraining,
)
from interp_compose.papers.complexity.studies.concept_graphs.result import JUDGE, ConceptGraphs
from interp_compose.papers.complexity.studies.concept_graphs.run import GRID, WORK, ConceptRun
from interp_compose.papers.complexity.tasks.concept_images import (
    NODES,
    checked_nodes,
    concept_images,
)
from interp_compose.papers.complexity.tasks.concept_judge import degraded, judge
from interp_compose.papers.works import WORKS
from interp_compose.runs.folder import SweepPlan
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.grid import (
    checked,
    numbers,
    result_of_grid,
    run_grid,
    seeds_of,
)
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions

TRAIN: Final = WORKS[WORK]
"""The function that trains them."""
AXES: Final = {"init_rates": "init_rate", "seeds": "seed"}
"""What the result calls the axes of its grid, and the fields of a run that they vary."""
N_JUDGED: Final = 125
"""Rendered images of each node on which the judge is tested."""
NOISE, BLUR = 0.05, 0.7
"""Deviations of the noise and of the blur (pixels) with which it is tested."""


@dataclass(frozen=True, kw_only=True)
class ConceptGraphsOptions(GridOptions):
    """What :func:`concept_graphs` takes by name."""

    train_nodes: str | Sequence[str] = "paper"
    """Nodes to train on: "paper", "code" (the same images), or nodes such as "010"."""
    run: ImageTraining | None = None
    """Images, U-Net, training and sampling of every run."""


@keywords(ConceptGraphsOptions)
def concept_graphs(
    init_rates: Sequence[float], out: str | os.PathLike[str], options: ConceptGraphsOptions
) -> ConceptGraphs:
    """Train a conditional diffusion model on images of some combinations of shape, size and colour
    for every init rate and seed, and measure what it generates for all eight (complexity control,
    section VII, Fig. 6; Okawa et al. 2023).

    Nothing is selected: the weights after the last step generate the images. What these show is
    measured by :func:`.concept_judge.judge`, whose own accuracy is in the
    result. The extra ``images`` (diffusers) has to be installed.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        init_rates: γ; a larger one is a smaller initialisation.
        out: folder for the runs: weights, histories and generated images.
        options: every option.

    Raises:
        MissingPackageError: diffusers is not installed.
        OptionError: a grid that is empty or repeats; nodes that do not exist, none or all of them;
            a U-Net, a rate or a number that cannot be.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    check_options(options.where, options.workers, options.slurm)
    runs = _runs(init_rates, options)
    plan = SweepPlan(WORK, [asdict(run) for run in runs], None, TRAIN)
    judge_table = judged(runs[0].pixels)
    return result_of_grid(ConceptGraphs, plan, GRID, _config(runs), out, options, judge=judge_table)


def judged(side: int) -> pd.DataFrame:
    """How often the judge is right about rendered images, with noise and blur, of each node."""
    rows = []
    for seed, node in enumerate(NODES):
        images, _ = concept_images([node], N_JUDGED, side, seed)
        right = judge(degraded(images, seed, noise=NOISE, blur=BLUR)).right(node)
        rows += [
            {"node": node, "kind": kind, "n_right": count, "n": N_JUDGED}
            for kind, count in right.items()
        ]
    return JUDGE.of(rows)


def _runs(init_rates: Sequence[float], options: ConceptGraphsOptions) -> list[ConceptRun]:
    rates = checked(init_rates, "init_rates")
    shape = asdict(options.run or ImageTraining())
    nodes = list(checked_nodes(options.train_nodes))
    runs = [
        ConceptRun(
            **{**shape, "channels": list(shape["channels"])},
            train_nodes=nodes,
            init_rate=rate,
            seed=seed,
        )
        for seed in seeds_of(options)
        for rate in rates
    ]
    for run in runs[: len(rates)]:
        run.check()
    return runs


def _config(runs: Sequence[ConceptRun]) -> dict[str, Any]:
    """What a result says of itself."""
    shape = {name: value for name, value in asdict(runs[0]).items() if name not in GRID}
    values = {axis: sorted({getattr(run, name) for run in runs}) for axis, name in AXES.items()}
    return {"study": "concept_graphs", "noise": NOISE, "blur": BLUR, **shape, **values}


def run(command: ConceptGraphsCommand) -> ConceptGraphs:
    """The command ``interp-compose concept-graphs``: train what is missing, and write."""
    rates = numbers(command.gammas, "gammas")
    options: Mapping[str, Any] = {
        **vars(command.grid), "train_nodes": command.train_nodes, "run": command.run,
    }  # fmt: skip
    return run_grid(
        command.output,
        ConceptGraphs,
        _config(_runs(rates, ConceptGraphsOptions(**options))),
        list(AXES),
        lambda bar: concept_graphs(rates, Path(command.output.out), **{**options, "progress": bar}),
    )
