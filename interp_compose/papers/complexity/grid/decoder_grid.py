"""Grids of init rates, weight decays, sizes of the training set and seeds (complexity control)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from interp_compose.errors import OptionError
from interp_compose.papers.complexity.grid.decoder_run import DecoderRun
from interp_compose.papers.complexity.grid.settings import AXES, KEY
from interp_compose.papers.complexity.grid.together import plan_of
from interp_compose.papers.shared.grid.sequence_run import PreparedRun, train_alone, train_together
from interp_compose.settings import identity_of
from interp_compose.studies.core.grid import (
    Grid,
    GridResult,
    Tables,
    checked,
    gathered,
    numbers,
    seeds_of,
)
from interp_compose.studies.core.options import Execution, GridOptions
from interp_compose.training.loop import trains

R = TypeVar("R", bound=DecoderRun)
ResultT = TypeVar("ResultT", bound=GridResult)


def places_of(
    init_rates: Sequence[float] | None,
    weight_decays: Sequence[float],
    sizes: Sequence[int] | None,
    options: GridOptions,
) -> list[dict[str, Any]]:
    """What tells the runs of a grid apart, those of the first seed first: their :data:`KEY`.
    ``init_rates`` as None: the model is given. A size is None where none are stated.

    Raises:
        OptionError: an axis that is empty, repeats, or holds what cannot be.
    """
    decays = checked(weight_decays, "weight_decays")
    rates = [None] if init_rates is None else checked(init_rates, "init_rates")
    each = [None] if sizes is None else [int(size) for size in checked(sizes, "sizes", whole=True)]
    return [
        {"init_rate": rate, "weight_decay": decay, "size": size, "seed": seed}
        for seed in seeds_of(options)
        for size, decay, rate in product(each, decays, rates)
    ]


def of_all(places: Sequence[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """Places whose size, where none was stated, is that of all data."""
    return [{**place, "size": most if place["size"] is None else place["size"]} for place in places]


def decoder_grid(
    result: type[ResultT],
    work: str,
    runs: Sequence[R],
    execution: Execution,
    *,
    task: str,
    report: Mapping[str, Any],
    check: Callable[[R], None],
    keep: Callable[[Path], object],
    bytes_of_each: Callable[[], int],
    tables: Tables = gathered,
    frames: Mapping[str, pd.DataFrame] | None = None,
    **config: Any,
) -> Grid[ResultT]:
    """The grid of these runs.

    Args:
        result: the class of what comes of them.
        work: their name in :data:`.works.WORKS`.
        runs: of every place.
        execution: where they are trained.
        task: the data's name, and
        report: counts, for the result.
        check: refuses a run that cannot be trained; of each place, the first seed's is tried.
        keep: writes the data beside the runs.
        bytes_of_each: how much memory a run needs on a GPU.
        tables, frames: see :class:`.Grid`.
        config: what else the result says of itself.
    """
    for run in runs:
        if run.seed == runs[0].seed:
            check(run)
    shape = {name: value for name, value in identity_of(runs[0]).items() if name not in KEY}
    axes = {
        axis: sorted({getattr(run, name) for run in runs} - {None}) for axis, name in AXES.items()
    }
    return Grid(
        result=result,
        plan=plan_of(work, runs, execution, bytes_of_each),
        place=KEY,
        config={
            "study": work,
            "task": task,
            "data_report": dict(report),
            **shape,
            **axes,
            **config,
        },
        axes=list(AXES),
        keep=keep,
        tables=tables,
        frames=frames or {},
    )


def trainers(
    kind: type[R], prepared: Callable[[R, Path], PreparedRun]
) -> tuple[Callable[..., None], Callable[..., None]]:
    """The functions that train one run, and several, those of one seed and size as one program, of
    what ``prepared`` makes of a run and the folder of its sweep."""

    @trains
    def train(config: Mapping[str, Any], folder: Path) -> None:
        train_alone(prepared(kind(**config), folder.parents[1]), folder)

    @trains
    def train_many(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
        runs = [kind(**config) for config in configs]
        starts = [prepared(run, folders[0].parents[1]) for run in runs]
        train_together(starts, [(run.seed, run.size) for run in runs], folders)

    return train, train_many


def sizes_of(text: str | None) -> list[int] | None:
    """The command line's ``--sizes``.

    Raises:
        OptionError: a number that is not whole.
    """
    values = [] if text is None else numbers(text, "sizes")
    for value in values:
        if not value.is_integer():
            raise OptionError(f"sizes holds {value:g}: expected whole numbers")
    return None if text is None else [int(value) for value in values]
