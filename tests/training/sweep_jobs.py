"""Toy runs for tests of sweeps: they import nothing heavy, and keep a ledger outside of the sweep.

The environment variable ``SWEEP_LEDGER`` names a folder; each run appends there to ``<n>.txt`` what
it does: "begin <pid>", then "end <pid>". Where two processes are at one run, a file ``overlap``
appears.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interp_compose.runs.sweep import Sweep

JOBS = "tests.training.sweep_jobs"


def sweep(out: Path, configs: Any, work: str = "square", **options: Any) -> Sweep:
    """A sweep of one of these functions."""
    from interp_compose.runs.sweep import run_sweep

    return run_sweep(f"{JOBS}:{work}", configs, out, progress=False, **options)


def ledger() -> Path:
    return Path(os.environ["SWEEP_LEDGER"])


def note(n: int, what: str) -> None:
    with open(ledger() / f"{n}.txt", "a") as file:
        file.write(f"{what} {os.getpid()}\n")


def events(folder: Path, what: str) -> dict[int, list[int]]:
    """Process ids that began or ended each run, in order."""
    lines = {int(path.stem): path.read_text().splitlines() for path in folder.glob("*.txt")}
    return {n: [int(x.split()[1]) for x in at if x.startswith(what)] for n, at in lines.items()}


@contextmanager
def alone(n: int) -> Iterator[None]:
    with open(ledger() / f"{n}.busy", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            (ledger() / "overlap").write_text(str(n))
        yield


def square(config: Mapping[str, Any], folder: Path) -> None:
    """Writes its result in two halves, half of its time apart."""
    n = config["n"]
    with alone(n):
        note(n, "begin")
        print(f"squaring {n}")
        text = json.dumps({"square": n * n})
        with open(folder / "result.json", "w") as file:
            file.write(text[:5])
            file.flush()
            time.sleep(config.get("seconds", 0) / 2)
            file.write(text[5:])
        time.sleep(config.get("seconds", 0) / 2)
        note(n, "end")


def squares(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
    (ledger() / f"batch{configs[0]['n']}").write_text(json.dumps([c["n"] for c in configs]))
    if any("raise" in config for config in configs):
        raise ValueError("one of them is bad")
    for config, folder in zip(configs, folders, strict=True):
        square(config, folder)


def reporting(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
    """Says how far it is, as long work does."""
    from interp_compose.runs.workers import PROGRESS

    for share in (0.25, 0.75):
        PROGRESS.get()(share)
    squares(configs, folders)


def moody(config: Mapping[str, Any], folder: Path) -> None:
    """Raises, exits or dies where it is told to, unless ``mended`` is in the ledger."""
    if "mood" in config and not (ledger() / "mended").exists():
        mood = config["mood"]
        if mood != "die once" or not (ledger() / "died").exists():
            print("about to", mood, file=sys.stderr)
            note(config["n"], "begin")
            if mood == "raise":
                raise ValueError("a bad day")
            if mood == "exit":
                sys.exit("enough")
            if mood == "interrupt":
                raise KeyboardInterrupt
            (ledger() / "died").touch()
            os._exit(7)
    square(config, folder)


def meddling(config: dict[str, Any], folder: Path) -> None:
    square(config, folder)
    config["n"] = "meddled with"


def abandon(config: Mapping[str, Any], folder: Path) -> None:
    """The first attempt dies and leaves a process behind; the second succeeds."""
    child = ledger() / "child"
    if not child.exists():
        child.write_text(str(subprocess.Popen(["sleep", "60"]).pid))
        os._exit(7)


not_a_function = 3
