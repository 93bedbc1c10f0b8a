"""Sweeps in forked processes, which may be killed; a script that leaves an ``out.json``.

One process imports everything and forks the callers, so that a dozen killings take seconds; their
workers are the fresh interpreters that they always are.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from interp_compose.runs.sweep import run_sweep
from tests.forking import fork, wait
from tests.training.sweep_jobs import JOBS, events

CONFIGS = [{"n": n, "seconds": 0.05 + 0.05 * (n % 3)} for n in range(12)]
KILLS = {"caller": 4, "worker": 4, "caller of workers": 4}
Snapshot = dict[str, tuple[int, bytes, int]]


def sweep(folder: Path, where: str) -> None:
    warnings.simplefilter("ignore")  # of workers that were killed
    run_sweep(
        f"{JOBS}:square",
        CONFIGS,
        folder / "sweep",
        where=where,
        workers=None if where == "here" else 2,
        progress=False,
    )


def ended(pid: int) -> int | None:
    """Its exit status, negative where a signal ended it; None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def new(folder: Path) -> Path:
    """A folder for a sweep and its ledger, which the next processes use."""
    (folder / "ledger").mkdir(parents=True)
    os.environ["SWEEP_LEDGER"] = str(folder / "ledger")
    return folder


def finished(folder: Path) -> Snapshot:
    """Of each run that is done: when DONE was written, what it says, and how often it had begun."""
    begun = events(folder / "ledger", "begin")
    found = {}
    for done in (folder / "sweep/runs").glob("*/DONE"):
        n = json.loads((done.parent / "config.json").read_text())["config"]["n"]
        found[done.parent.name] = (done.stat().st_mtime_ns, done.read_bytes(), len(begun[n]))
    return found


def summary(folder: Path, kept: list[Snapshot]) -> dict[str, Any]:
    end = finished(folder)
    begun = events(folder / "ledger", "begin")
    done = {name: json.loads(text)["files"] for name, (_, text, _) in end.items()}
    return {
        "files": dict(sorted(done.items())),
        "done again": sum(end[name] != was for seen in kept for name, was in seen.items()),
        "begun": sum(len(pids) for pids in begun.values()),
        "overlap": (folder / "ledger/overlap").exists(),
        "failed": [str(path) for path in folder.rglob("FAILED")],
        "torn": [str(path) for path in folder.rglob(".*.tmp")],
        "done when killed": [len(seen) for seen in kept],
    }


def alive(pid: int) -> bool:
    """Whether it is there, and not only waiting for someone to ask how it ended."""
    status = Path(f"/proc/{pid}/status")
    try:
        os.kill(pid, 0)
        return not (status.exists() and "State:\tZ" in status.read_text())
    except (ProcessLookupError, FileNotFoundError):  # it may end between any two of these calls
        return False


def at_work(folder: Path) -> list[int]:
    """Processes that began a run and have not ended it."""
    begun, over = (events(folder / "ledger", what) for what in ("begin", "end"))
    return [
        pids[-1]
        for n, pids in begun.items()
        if pids and pids[-1] not in over.get(n, []) and alive(pids[-1])
    ]


def killed(folder: Path, victim: str, rng: random.Random) -> list[dict[str, Any]]:
    """Sweeps, each called until it is done, until there were so many killings of the victim."""
    kills, sweeps = 0, []
    while kills < KILLS[victim]:
        here = new(folder / str(len(sweeps)))
        kept: list[Snapshot] = []
        code = None
        while code != 0 or len(finished(here)) < len(CONFIGS):
            pid = fork(lambda here=here: sweep(here, "here" if victim == "caller" else "workers"))
            code = None
            while code is None:
                if kills < KILLS[victim] and killed_now(here, pid, victim, rng, least=kills):
                    kills += 1
                    kept.append(finished(here))
                time.sleep(0.005)
                code = ended(pid)
        sweeps.append(summary(here, kept))
    return sweeps


def killed_now(folder: Path, pid: int, victim: str, rng: random.Random, least: int) -> bool:
    """Kills the victim, once so many runs are done, a little after another is begun; a caller
    sometimes before any is."""
    while len(finished(folder)) < least and alive(pid):
        time.sleep(0.005)
    until = time.monotonic() + rng.uniform(0, 3)
    while not at_work(folder) and time.monotonic() < until and alive(pid):
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.3))
    targets = at_work(folder) if victim == "worker" else [pid] if alive(pid) else []
    if targets:
        os.kill(rng.choice(targets), signal.SIGKILL)
    return bool(targets)


def two_at_once(folder: Path) -> dict[str, Any]:
    """Two callers with the same configurations, one of them with workers."""
    pids = [fork(lambda where=where: sweep(folder, where)) for where in ("here", "workers")]
    codes = [wait(pid) for pid in pids]
    return {**summary(folder, []), "codes": codes}


def interrupted(folder: Path) -> dict[str, Any]:
    """Ctrl-C while workers are at it, and a second call."""
    pid = fork(lambda: sweep(folder, "workers"))
    while not at_work(folder):
        time.sleep(0.01)
    workers = at_work(folder)
    os.kill(pid, signal.SIGINT)
    code = wait(pid)
    left = [worker for worker in workers if alive(worker)]
    kept = [finished(folder)]
    states = [path.name for path in folder.rglob("*.state")]
    sweep(folder, "here")
    return {**summary(folder, kept), "code": code, "workers left": left, "states": states}


def orphaned(folder: Path) -> dict[str, Any]:
    """The caller is killed, and its workers are waited for; then a second call."""
    pid = fork(lambda: sweep(folder, "workers"))
    while not at_work(folder):
        time.sleep(0.01)
    workers = at_work(folder)
    os.kill(pid, signal.SIGKILL)
    wait(pid)
    kept = [finished(folder)]
    while any(alive(worker) for worker in workers):
        time.sleep(0.01)
    kept.append(finished(folder))
    sweep(folder, "here")
    return summary(folder, kept)


def main(folder: Path) -> None:
    rng = random.Random(0)
    undisturbed = new(folder / "undisturbed")
    sweep(undisturbed, "here")
    out: dict[str, Any] = {"undisturbed": summary(undisturbed, [])}
    for victim in KILLS:
        out[victim] = killed(new(folder / victim), victim, rng)
    out["two"] = two_at_once(new(folder / "two"))
    out["interrupted"] = interrupted(new(folder / "interrupted"))
    out["orphaned"] = orphaned(new(folder / "orphaned"))
    (folder / "out.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
