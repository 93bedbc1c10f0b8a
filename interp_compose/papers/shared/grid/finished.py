"""Finished runs of a study that trains, found again in the folder that holds them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from interp_compose.errors import CorruptFileError, InputError, MissingDataError
from interp_compose.runs.folder import Run, SweepPlan, read_sweep


@runtime_checkable
class Seeded(Protocol):
    """What a run's configuration is read as: a dataclass with a seed."""

    @property
    def seed(self) -> int:
        """Of data, initialisation and order."""
        ...


R = TypeVar("R", bound=Seeded)


def finished_of_seed(
    runs: str | os.PathLike[str],
    config_class: Callable[..., R],
    *,
    work: str,
    command: str,
    varies: Collection[str],
    seed: int | None,
) -> list[tuple[R, Path]]:
    """The finished runs of one seed in a sweep's folder, each with its own, in the sweep's order.

    Args:
        runs: the folder.
        config_class: the dataclass of a run's configuration.
        work: what the sweep calls such runs.
        command: the one that trains them.
        varies: what runs of a seed may differ in.
        seed: of the runs; None: the smallest there is.

    Raises:
        MissingDataError: the folder holds no runs, or none of this seed is done.
        InputError: it holds another sweep, runs of another version, or runs of several settings.
        CorruptFileError: a run's files were altered after it was done.
    """
    done = _done(runs, config_class, work, command)
    seeds = sorted({each.seed for each, _ in done})
    if seed is not None and seed not in seeds:
        raise MissingDataError(
            f"{Path(runs).absolute()} holds no finished run of seed {seed}; of "
            f"{', '.join(map(str, seeds))}"
        )
    chosen_seed = seeds[0] if seed is None else seed
    return _opened([(each, run) for each, run in done if each.seed == chosen_seed], varies)


def finished_of_all(
    runs: str | os.PathLike[str],
    config_class: Callable[..., R],
    *,
    work: str,
    command: str,
    varies: Collection[str],
) -> list[tuple[R, Path]]:
    """The finished runs of all seeds; as :func:`finished_of_seed`."""
    return _opened(_done(runs, config_class, work, command), varies)


def left_out(opened: Sequence[Any]) -> dict[str, list[str]]:
    """What a result of these runs says in its config of others of their seeds, which the sweep was
    asked for and which are not done."""
    out, seeds = opened[0].folder.parents[1], {each.run.seed for each in opened}
    record = read_sweep(out) or {"work": "", "configs": []}
    planned = SweepPlan(record["work"], record["configs"]).runs(out)
    missing = [run for run in planned if run.config["seed"] in seeds and not run.is_done]
    names = [f"{run.config.get('model', run.name)} (seed {run.config['seed']})" for run in missing]
    note = f"left out, since their runs are not finished: {', '.join(names)}"
    return {"left_out": [note]} if names else {}


def _done(
    runs: str | os.PathLike[str], config_class: Callable[..., R], work: str, command: str
) -> list[tuple[R, Run]]:
    """The finished runs of a folder, one at least."""
    try:
        out = Path(runs).absolute()
    except TypeError as error:
        raise InputError(
            f"runs={runs!r}: expected the folder of runs that {command} trained"
        ) from error
    record = read_sweep(out)
    if record is None:
        raise MissingDataError(f"{out} holds no runs; train them first: {command} --out {runs}")
    if record["work"] != work:
        raise InputError(f"{out} holds a sweep of {record['work']!r}; expected one of {work!r}")
    done = [
        (_read(run, config_class), run)
        for run in SweepPlan(record["work"], record["configs"]).runs(out)
        if run.is_done
    ]
    if not done:
        raise MissingDataError(
            f"no run in {out} is finished; give the command `{command}` that fills it again"
        )
    return done


def _opened(finished: Sequence[tuple[R, Run]], varies: Collection[str]) -> list[tuple[R, Path]]:
    """The runs' folders, whose files are those of one setting, and whole."""
    _check_setting(finished, varies)
    for _, run in finished:
        damage = run.damage()
        if damage:
            raise CorruptFileError(f"{damage}; the command that trained it trains it anew")
    return [(each, run.folder) for each, run in finished]


def _read(run: Run, config_class: Callable[..., R]) -> R:
    try:
        return config_class(**run.config)
    except TypeError as error:
        raise InputError(
            f"{run.folder} was trained by another version of this library ({error}); train it "
            "again, in another folder"
        ) from error


def _check_setting(runs: Sequence[tuple[Any, Run]], varies: Collection[str]) -> None:
    first, folder = asdict(runs[0][0]), runs[0][1].folder
    for other, run in runs[1:]:
        settings = asdict(other).items()
        differing = [name for name, one in settings if name not in varies and one != first[name]]
        if differing:
            raise InputError(
                f"{folder} and {run.folder} differ in {', '.join(sorted(differing))}; train each "
                "setting in a folder of its own, or delete the runs that are not meant"
            )
