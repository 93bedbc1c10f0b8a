"""Sections that hold, fail, hang and die, measured twice over: ``python -m
tests.sections_of_a_benchmark FOLDER`` writes what came of them to ``out.json``."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.sections import Row, Section, run


def log(folder: Path, name: str) -> None:
    with (folder / "begun").open("a", encoding="utf-8") as file:
        file.write(f"{name}\n")


def about(folder: Path) -> Row:
    """As where a forked process cannot use the GPU, if the folder says so."""
    forked = type(multiprocessing.current_process()).__name__ == "ForkProcess"
    if forked and (folder / "no fork").exists():
        sys.exit(1)
    return {"gpu": (folder / "gpu").read_text(encoding="utf-8")}


def holds(folder: Path) -> Iterator[Row]:
    log(folder, "holds")
    yield {"value": 1}
    yield {"value": 2, "ok": True}


def fails(folder: Path) -> Iterator[Row]:
    log(folder, "fails")
    yield {"value": 3, "ok": False}


def raises(folder: Path) -> Iterator[Row]:
    log(folder, "raises")
    yield {"value": 4}
    raise ValueError("as planned")


def hangs(folder: Path) -> Iterator[Row]:
    log(folder, "hangs")
    yield {"value": 5}
    child = subprocess.Popen(["sleep", "600"])
    (folder / "child").write_text(str(child.pid), encoding="utf-8")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def dies(folder: Path) -> Iterator[Row]:
    log(folder, "dies")
    yield {"value": 6}
    os.kill(os.getpid(), signal.SIGSEGV)


ALL = {"holds": holds, "fails": fails, "raises": raises, "hangs": hangs, "dies": dies}


def ended(pid: int) -> bool:
    """Whether a process has ended, perhaps without anyone who asked how."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True
    return status.rsplit(")", 1)[1].split()[0] == "Z"


def main(folder: Path) -> None:
    sections = {name: Section(work, 1.0 if work is hangs else 60.0) for name, work in ALL.items()}
    path = folder / "kept" / "all.json"
    (folder / "gpu").write_text("one", encoding="utf-8")
    found: dict[str, Any] = {"status": [run(sections, folder, path, about, 300.0)]}
    found["first"] = json.loads(path.read_text(encoding="utf-8"))
    found["child ended"] = ended(int((folder / "child").read_text(encoding="utf-8")))
    (folder / "no fork").touch()
    some = {name: sections[name] for name in ("holds", "fails")}
    again = {**some, "raises": Section(holds, 60.0)}
    found["status"].append(run(again, folder, path, about, 300.0))
    found["second"] = json.loads(path.read_text(encoding="utf-8"))
    (folder / "no fork").unlink()
    only = {"holds": sections["holds"], "raises": Section(holds, 60.0)}
    found["status"].append(run(only, folder, path, about, 300.0))
    late = {"holds": sections["holds"], "late": Section(holds, 60.0)}
    found["status"].append(run(late, folder, path, about, 0.0))
    found["begun"] = (folder / "begun").read_text(encoding="utf-8").split()
    (folder / "gpu").write_text("another", encoding="utf-8")
    found["status"].append(run(late, folder, path, about, 300.0))
    (folder / "out.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
