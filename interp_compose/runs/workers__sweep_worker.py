"""A worker of a sweep: takes runs that nobody is at, one after another, until none is left.

``python -m interp_compose.runs.workers__sweep_worker <plan> <state> <parent>`` is what
:func:`~interp_compose.runs.sweep.run_sweep` starts, here or on a cluster. ``<state>`` is a file
in which the worker keeps the names of the runs it holds, and which it deletes when it ends as it
should; ``<parent>`` is the process without which it takes up no further run, or 0. This module
imports little, so that a worker starts at once.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interp_compose.runs.files import plain_json
from interp_compose.runs.folder import LOG, Claim, Run, read_plan, resolve


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
    of the seconds, and if one raises, all have failed.
    """
    configs = [plain_json(claim.run.config, "config") for claim in batch]  # the work's own copies
    folders = [claim.run.folder for claim in batch]
    started = time.perf_counter()
    try:
        if many:
            function(configs, folders)
        else:
            function(configs[0], folders[0])
        seconds = (time.perf_counter() - started) / len(batch)
        for claim in batch:
            claim.finish(seconds)
    except (Exception, SystemExit):  # noqa: BLE001  recorded in FAILED, and said on stderr
        traceback.print_exc()
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
    """Work through a plan; see the top of this file."""
    faulthandler.enable()  # a crash in C code leaves a traceback in the log
    plan = read_plan(plan_file)
    function = resolve(plan.work)
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
