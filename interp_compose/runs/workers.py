"""Workers of a sweep: started, watched, replaced when they die, the log of a dead one kept."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Final, Protocol, runtime_checkable

from interp_compose.errors import InterpComposeError, warn
from interp_compose.runs.files import disk, make_folder, plain_json
from interp_compose.runs.folder import LOG, Claim, Run, read_plan, resolve

PROGRESS: ContextVar[Callable[[float], object]] = ContextVar("progress", default=lambda share: None)
"""Long work calls it with the share of it that is done, for the bar of the sweep it belongs to."""


class SomeFailed(Exception):
    """Some runs failed of a call that was handed several: these by their place in the lists; the
    others are done."""

    def __init__(self, failures: Mapping[int, Exception]) -> None:
        super().__init__(f"{len(failures)} of the runs failed")
        self.failures = failures


def claimed(runs: Sequence[Run], size: int) -> Iterator[list[Claim]]:
    """Batches of up to ``size`` runs that are now ours, until a pass finds none that is free.

    Runs that another process is at are skipped, and looked at again at the end. Who takes a batch
    releases its claims; they are released as well where the iteration stops early.
    """
    left = list(runs)
    batch: list[Claim] = []
    try:
        while left:
            held = []
            for run in left:
                if run.is_finished:
                    continue
                claim = run.take()
                if claim is None:
                    held.append(run)
                    continue
                batch.append(claim)
                if len(batch) == size:
                    yield batch
                    batch = []
            if batch:
                yield batch
                batch = []
            if len(held) == len(left):
                return
            left = held
    finally:
        for claim in batch:
            claim.release()


def perform(batch: Sequence[Claim], function: Callable[..., object], *, many: bool) -> None:
    """Do the runs of a batch, and record how they ended; what they raise goes no further.

    With ``many`` the function gets lists. Each run of a batch is then said to have taken its share
    of the seconds, and if the function raises anything but :class:`SomeFailed`, all have failed.
    """
    configs = [plain_json(claim.run.config, "config") for claim in batch]  # the work's own copies
    folders = [claim.run.folder for claim in batch]
    started = time.perf_counter()
    failures: Mapping[int, Exception] = {}
    try:
        try:
            if many:
                function(configs, folders)
            else:
                function(configs[0], folders[0])
        except SomeFailed as some:
            failures = some.failures
        seconds = (time.perf_counter() - started) / len(batch)
        for place, claim in enumerate(batch):
            if place in failures:
                claim.fail("".join(traceback.format_exception(failures[place])))
            else:
                claim.finish(seconds)
    except (Exception, SystemExit):  # noqa: BLE001  recorded in FAILED, which the caller names
        for claim in batch:
            if not claim.run.is_done:
                claim.fail(traceback.format_exc())
    finally:
        for claim in batch:
            claim.release()


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Whatever this process prints goes to the end of a file, from C code as well."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(1), os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, handle in enumerate(before, start=1):
            os.dup2(handle, number)
            os.close(handle)


def main(plan_file: Path, state: Path, parent: int) -> None:
    """A worker: do the runs of a plan that are free, until ``parent`` has ended."""
    faulthandler.enable()  # a crash in C code leaves a traceback in the log
    plan = read_plan(plan_file)
    function = resolve(plan.function)
    runs = plan.runs(plan_file.parents[1])
    for batch in claimed(runs, plan.together or 1):
        if parent and os.getppid() != parent:
            break
        state.write_text(" ".join(claim.run.name for claim in batch))
        log = batch[0].run.folder / LOG
        for claim in batch[1:]:
            with open(claim.run.folder / LOG, "a") as file:
                file.write(f"done together with {batch[0].run.name}: see {log}\n")
        with _output_to(log):
            perform(batch, function, many=plan.together is not None)
        state.write_text("")
    state.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))


MAX_DEATHS = 2
"""Workers that die during a run before it counts as failed."""
MAX_FAILED_STARTS = 5
"""Workers in a row that die before they begin a run, before the sweep ends."""
STOP_SECONDS = 5.0
"""Time for a worker to end by itself, and after a signal, before it is killed."""
LOG_TAIL = 2000
"""Characters of a log that a report shows."""
REDRAW: Final = 1.0
"""Seconds after which the bar is drawn though nothing happened."""
COUNTING: Final = 10
"""The runs are counted again after this many times of what the last count took."""


@dataclass(frozen=True)
class Files:
    """What a worker leaves: where it prints outside of runs, and the runs that it holds."""

    log: Path
    state: Path

    @classmethod
    def of_new_worker(cls, out: Path) -> Files:
        """A state that holds nothing, of a worker that is about to start."""
        name = token_hex(4)
        files = cls(out / "workers" / f"{name}.log", out / "workers" / f"{name}.state")
        make_folder(files.state.parent)
        with disk(files.state):
            files.state.write_text("")
        return files

    def held(self) -> set[str]:
        """Names of the runs that it is at."""
        try:
            return set(self.state.read_text().split())
        except FileNotFoundError:
            return set()


@runtime_checkable
class Worker(Protocol):
    """A process somewhere that runs :mod:`interp_compose.runs.workers`."""

    files: Files

    def alive(self) -> bool: ...

    def how(self) -> str:
        """How it ended, of one that is not alive."""
        ...

    def stop(self) -> None: ...


def worker_command(plan: Path, state: Path, parent: int) -> list[str]:
    """The command line of a worker; ``parent`` is 0 where none is to be waited for."""
    module = "interp_compose.runs.workers"
    return [sys.executable, "-u", "-m", module, str(plan), str(state), str(parent)]


def search_path() -> str:
    """``PYTHONPATH`` with which a worker finds what this process finds."""
    return os.pathsep.join(os.path.abspath(entry) for entry in sys.path)


class Process:
    """A worker on this machine, with one thread, out of the reach of the terminal's Ctrl-C."""

    def __init__(self, out: Path, plan: Path) -> None:
        self.files = Files.of_new_worker(out)
        self._children_ended = False
        with disk(self.files.log), open(self.files.log, "ab") as log:
            self._process = subprocess.Popen(
                worker_command(plan, self.files.state, os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": search_path()},
                start_new_session=True,
            )

    def alive(self) -> bool:
        if self._process.poll() is None:
            return True
        if not self._children_ended:
            self._children_ended = True
            with suppress(ProcessLookupError, PermissionError):  # there are none
                os.killpg(self._process.pid, signal.SIGKILL)  # processes that it started
        return False

    def how(self) -> str:
        code = self._process.returncode
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit status {code}"

    def stop(self) -> None:
        """End it and the processes it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.alive():
                os.killpg(self._process.pid, number)
                try:
                    self._process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    continue


class Progress:
    """The runs of a call that are left, whoever finishes them, and the bar of the others.

    The bar's time left is that of the runs still to come at the pace of those finished since it
    began; runs that were done before do not count.
    """

    def __init__(self, runs: Sequence[Run], *, progress: bool) -> None:
        from interp_compose.progress import progress_bar  # no worker has one

        self._undone = self.left = list(runs)
        self.took = self._counted = self._drawn = 0.0
        self._shown: dict[str, int] = {}
        self._done = self._failed = 0
        self.count()
        self._bar = progress_bar(
            total=len(runs),
            initial=self._done + self._failed,
            desc="sweep",
            unit="run",
            smoothing=0,
            disable=not progress,
        )
        self.show(0)

    def show(self, running: int, share: float = 0.0) -> None:
        """Count (see :data:`COUNTING`), and draw the bar where a number changed, and once a second
        for the time and for ``share``, how much of the running ones is done."""
        if time.monotonic() - self._counted >= COUNTING * self.took:
            self.count()
        counts = {"done": self._done, "running": running, "failed": self._failed}
        if counts == self._shown and time.monotonic() - self._drawn < REDRAW:
            return
        self._shown, self._drawn = counts, time.monotonic()
        self._bar.set_postfix(counts, refresh=False)
        finished = self._done + self._failed
        self._bar.n = round(finished + running * share, 2) if share else finished
        self._bar.refresh()

    def count(self) -> None:
        """Look which runs are finished, and how long looking takes."""
        began = time.monotonic()
        undone = [run for run in self._undone if not run.is_done]
        self._done += len(self._undone) - len(undone)
        # A run that failed may have been begun again, by another call
        self.left = [run for run in undone if not run.has_failed]
        self._failed, self._undone = len(undone) - len(self.left), undone
        self._counted = time.monotonic()
        self.took = self._counted - began

    def close(self) -> None:
        """Draw it as it is at the end."""
        self.took = 0
        self.show(0)
        self._bar.close()


def supervise(
    runs: Sequence[Run], start: Callable[[], Worker], bar: Progress, *, workers: int, size: int
) -> None:
    """Keep up to ``workers`` workers at it until every run is finished, here or elsewhere.

    ``size`` is how many runs a worker takes at once. When this is interrupted, the workers end;
    what they were at is started again by the next call.

    Raises:
        InterpComposeError: workers die before they take up a run.
    """
    pool = _Pool(runs, start, bar, workers, size)
    try:
        while bar.left:
            pool.remove_dead()
            bar.count()
            pool.start_missing()
            bar.show(pool.running)
            time.sleep(min(max(0.05, COUNTING * bar.took), 5))  # leave the disk to the runs
        pool.wait_for_end()
    finally:
        pool.stop()


@dataclass(eq=False)
class _Pool:
    runs: Sequence[Run]
    start: Callable[[], Worker]
    bar: Progress
    workers: int
    size: int
    live: list[Worker] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)
    failed_starts: int = 0

    @property
    def running(self) -> int:
        return sum(len(worker.files.held()) for worker in self.live)

    def remove_dead(self) -> None:
        """Report the workers that died; a run during which too many did has failed."""
        dead = [worker for worker in self.live if not worker.alive()]
        self.live = [worker for worker in self.live if worker not in dead]
        if self.running:
            self.failed_starts = 0
        for worker in dead:
            try:
                if worker.files.state.exists():
                    self._report(worker)
            finally:
                _clear(worker)

    def _report(self, worker: Worker) -> None:
        names = worker.files.held()
        held = [run for run in self.runs if run.name in names]
        log = held[0].folder / LOG if held else worker.files.log
        printed = log.read_text(errors="replace")[-LOG_TAIL:].strip() if log.exists() else ""
        message = (
            f"a worker died ({worker.how()}) "
            + (f"during {', '.join(run.name for run in held)}" if held else "between runs")
            + f"; the end of {log}:\n{printed or '(nothing was printed)'}"
        )
        self.failed_starts = 0 if held else self.failed_starts + 1
        if self.failed_starts == MAX_FAILED_STARTS and self.bar.left:
            raise InterpComposeError(
                f"{MAX_FAILED_STARTS} workers in a row died before they took up a run. The last: "
                f"{message}"
            )
        for run in held:
            self.deaths[run.name] += 1
            claim = run.claim() if self.deaths[run.name] >= MAX_DEATHS else None
            if claim is not None:  # else another process is at it
                if not run.is_finished:
                    claim.fail(f"{MAX_DEATHS} workers died during this run. The last: {message}")
                claim.release()
        warn(message)

    def start_missing(self) -> None:
        """Start as many workers as are allowed and have runs to do."""
        missing = self.workers - len(self.live)
        if not missing:
            return
        ours = set().union(*(worker.files.held() for worker in self.live))
        idle = sum(not worker.files.held() for worker in self.live)
        free, enough = 0, (missing + idle) * self.size
        for run in self.bar.left:
            free += run.name not in ours and not run.is_held
            if free == enough:
                break
        for _ in range(min(missing, math.ceil(free / self.size) - idle)):
            self.live.append(self.start())

    def wait_for_end(self) -> None:
        """Wait for workers that find nothing more to do; report those that died meanwhile."""
        until = time.monotonic() + STOP_SECONDS
        while self.live and time.monotonic() < until:
            self.remove_dead()
            time.sleep(0.02)

    def stop(self) -> None:
        for worker in self.live:
            worker.stop()
            _clear(worker)


def _clear(worker: Worker) -> None:
    """Nothing stays of a worker but what it printed."""
    worker.files.state.unlink(missing_ok=True)
    if worker.files.log.exists() and not worker.files.log.stat().st_size:
        worker.files.log.unlink()
