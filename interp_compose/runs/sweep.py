"""Many runs of one function, each configuration exactly once, in a folder to come back to.

However processes end: a run that a process was at when it was killed is started again by the next
that comes along, in the same folder (:mod:`interp_compose.runs.folder`), where it finds its own
checkpoints; and no two processes are at one run at a time. POSIX systems only, for the locks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import (
    InputError,
    MissingDataError,
    ModelError,
    NonFiniteError,
    OptionError,
    warn,
)
from interp_compose.runs.files import plain_json
from interp_compose.runs.folder import (
    FAILED,
    SWEEP,
    Run,
    SweepPlan,
    hashed,
    read_sweep,
    register,
    resolve,
)
from interp_compose.runs.slurm import Cluster
from interp_compose.runs.workers import (
    PROGRESS,
    Process,
    Progress,
    claimed,
    perform,
    supervise,
)

OWN_COLUMNS = ("index", "hash", "state", "seconds")


@public
def sweep_status(out: str | os.PathLike[str]) -> pd.DataFrame:
    """One row per configuration that the sweep in ``out`` was ever given, in that order.

    Columns: ``index``; ``hash``, which is the folder's name under ``runs/``; ``state``, one of
    "done", "damaged" (done, and a file was altered or lost since: every file is read for it),
    "failed", "running" and "missing"; ``seconds`` of runs that are done, else NaN; and what the
    configurations hold, under its own name, or as ``config.<name>`` where that is one of the
    columns above. May be called while the sweep is going on.

    Raises:
        MissingDataError: the folder holds no sweep.
        CorruptFileError: its ``sweep.json`` was damaged.
    """
    out = Path(out).absolute()
    record = read_sweep(out)
    if record is None:
        raise MissingDataError(f"{out / SWEEP} is missing; expected the folder of a sweep")
    runs = SweepPlan(record["work"], record["configs"]).runs(out)
    rows = [
        {"index": index, "hash": run.name, "state": _state(run), "seconds": run.seconds}
        | {f"config.{k}" if k in OWN_COLUMNS else k: value for k, value in run.config.items()}
        for index, run in enumerate(runs)
    ]
    return pd.DataFrame(rows).astype({"seconds": float})


def _state(run: Run) -> str:
    if run.is_done:
        return "damaged" if run.damage() else "done"
    if run.is_held:
        return "running"
    return "failed" if run.has_failed else "missing"


Where = Literal["here", "workers", "slurm"]
WAIT = 0.2
"""Seconds after which runs that another process is at are tried again."""


@dataclass(frozen=True)
class Sweep:
    """What a call of :func:`run_sweep` leaves, in the order of its configurations.

    Attributes:
        configs: the configurations in JSON's own types.
        folders: where each run keeps its files.
        failed: the last line of what went wrong, by index; empty where every run is done.
    """

    out: Path
    configs: Sequence[Mapping[str, Any]]
    folders: Sequence[Path]
    failed: Mapping[int, str]

    def check(self) -> None:
        """Refuse to go on without every run.

        Raises:
            ModelError: runs failed; names the first and its folder. A :class:`NonFiniteError` where
                that is what the first one raised.
        """
        if self.failed:
            index, why = next(iter(self.failed.items()))
            broke = f".{NonFiniteError.__name__}:" in why.partition(" ")[0]
            kind = NonFiniteError if broke else ModelError
            raise kind(
                f"{len(self.failed)} of {len(self.folders)} runs failed; the first, in "
                f"{self.folders[index]}: {why.rstrip('.')}. The others are kept: "
                "call again to go on."
            )


@public
def run_sweep(
    work: str,
    configs: Sequence[Mapping[str, Any]],
    out: str | os.PathLike[str],
    *,
    where: Where = "here",
    workers: int | None = None,
    slurm: Mapping[str, Any] | None = None,
    together: int | None = None,
    name: str | None = None,
    progress: bool = True,
) -> Sweep:
    """Do what is missing of ``work`` for every configuration, and wait until all of it is there.

    A run that raises is recorded with its traceback, the sweep goes on, and the next call tries it
    again. A worker that dies is reported with the end of its log and replaced; a run during which
    two workers died has failed. A finished run whose files were altered or lost since is reported
    and done again: the files it vouched for are deleted first, others stay. Several calls, on
    several machines, may share a folder.

    Args:
        work: ``"module:function"``. The function takes ``(config, folder)``; what it returns is
            left alone. Given an equal configuration it has to leave equal files, and it has to cope
            with what a killed attempt left in its folder.
        configs: one mapping of JSON values per run; no two equal ones (1 and 1.0 are not equal).
        out: the sweep's folder.
        where: "here", in this process; "workers", in processes of one thread each on this machine
            (which Ctrl-C ends, and which end the runs they are at when this process is killed);
            "slurm", in jobs of a cluster.
        workers: processes (by default one per core), or jobs at a time, which "slurm" requires.
        slurm: options of the jobs, see :class:`~interp_compose.runs.slurm.Cluster`. Jobs
            that are running go on when this process is killed, and are cancelled by Ctrl-C; a job
            that reaches its time limit counts as a worker that died.
        together: hand up to so many runs to one call of the work, which then takes a list of
            configurations and a list of folders. If the call raises, all its runs have failed.
        name: what the runs are called by in the folder instead of ``work``, so that they are found
            again when the function has moved.
        progress: whether to draw a bar.

    Raises:
        InputError: no configurations, equal ones, ones that are not JSON; no such ``work``; or
            ``out`` holds another sweep.
        OptionError: an unknown ``where``, or an option that does not go with it.
        MissingPackageError: "slurm" without submitit.
        InterpComposeError: workers die before they take up a run.
    """
    function = resolve(work)
    plan = SweepPlan(name or work, configs, together, work)
    done = sweep(plan, function, out, where=where, workers=workers, slurm=slurm, progress=progress)
    if done.failed:
        index, why = next(iter(done.failed.items()))
        warn(
            f"{len(done.failed)} of {len(configs)} runs failed, the first of them {index}: {why} "
            f"({done.folders[index] / FAILED}); call again to retry",
        )
    return done


def sweep(
    plan: SweepPlan,
    function: Callable[..., object],
    out: str | os.PathLike[str],
    *,
    where: Where = "here",
    workers: int | None = None,
    slurm: Mapping[str, Any] | None = None,
    progress: bool,
) -> Sweep:
    """:func:`run_sweep` of a plan, its failures in the result alone.

    ``function`` is what is called in this process; workers import :attr:`.SweepPlan.function`.
    """
    check_options(where, workers, slurm, plan.together)
    plan = replace(plan, configs=_checked(plan.configs))
    out = Path(out).absolute()
    runs = plan.runs(out)
    size = plan.together or 1
    cluster = Cluster(out, plan.file(out), slurm or {}) if where == "slurm" else None
    register(out, plan)
    for run in runs:
        _prepare(run)
    with closing(Progress(runs, progress=progress)) as bar:
        if where == "here":
            _here(function, bar, size=size, many=plan.together is not None)
        else:
            start = partial(Process, out, plan.file(out)) if cluster is None else cluster.start
            number = workers or (  # else the cores that this process may use
                len(os.sched_getaffinity(0))
                if hasattr(os, "sched_getaffinity")
                else os.cpu_count() or 1
            )
            supervise(runs, start, bar, workers=number, size=size)
    failed = {index: _why(run) for index, run in enumerate(runs) if not run.is_done}
    return Sweep(out, plan.configs, [run.folder for run in runs], failed)


def check_options(
    where: Where,
    workers: int | None,
    slurm: Mapping[str, Any] | None,
    together: int | None = None,
) -> None:
    """Refuse what cannot be, before any work.

    Raises:
        OptionError: as :func:`run_sweep`.
    """
    for name, value in (("workers", workers), ("together", together)):
        if value is not None and value < 1:
            raise OptionError(f"{name}={value!r}: expected an integer, 1 or more")
    if where == "here" and workers is not None:
        raise OptionError(f"workers={workers} with where='here'; choose where='workers'")
    if where == "slurm" and workers is None:
        raise OptionError("workers=None with where='slurm'; say how many jobs may run at a time")
    if where != "slurm" and slurm is not None:
        raise OptionError(f"slurm={dict(slurm)!r} with where={where!r}; choose where='slurm'")


def _checked(configs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The configurations in JSON's own types, all of them different."""
    if not configs:
        raise InputError("configs is empty; expected at least one configuration")
    seen: dict[str, int] = {}
    plain = []
    for index, config in enumerate(configs):
        plain.append(plain_json(config, f"configs[{index}]"))
        first = seen.setdefault(hashed(plain[-1]), index)
        if first != index:
            raise InputError(
                f"configs[{first}] and configs[{index}] are equal: {plain[-1]!r}; leave one out, "
                "or tell them apart by a seed"
            )
    return plain


def _prepare(run: Run) -> None:
    """Before a call: a failure is forgotten, and a run that is damaged is undone."""
    claim = run.claim() if run.is_finished else None
    if claim is None:  # it is not finished, or another call is at it
        return
    try:
        if run.is_done:
            damage = run.damage()
            if damage:
                warn(f"{damage} after its run was done; it is done again")
                claim.reset()
        (run.folder / FAILED).unlink(missing_ok=True)
    finally:
        claim.release()


def _here(function: Any, bar: Progress, *, size: int, many: bool) -> None:
    while bar.left:
        for batch in claimed(bar.left, size):
            bar.show(len(batch))
            shown = PROGRESS.set(partial(bar.show, len(batch)))
            try:
                perform(batch, function, many=many)
            finally:
                PROGRESS.reset(shown)
        bar.count()
        if bar.left:
            bar.show(0)
            time.sleep(WAIT)


def _why(run: Run) -> str:
    """The last line of a traceback, or the first of another report."""
    if not run.has_failed:
        return "another call has begun it again"
    lines = (run.folder / FAILED).read_text().strip().splitlines()
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]
