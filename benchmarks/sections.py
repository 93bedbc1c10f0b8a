"""A long measurement in sections: each in a process, within its time, kept as it is measured.

A section is a process because what hangs in a kernel hears no signal, an error of CUDA spoils its
process, and memory is given back where it ends. It is forked from one that has imported everything
and never touched the GPU, which saves seconds a section; where a forked process cannot use the GPU
(something initialised CUDA while importing), processes begin afresh.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

from benchmarks.common import write

START_S: Final = 120.0
"""Longest wait for the GPU."""
REFUSED: Final = 3
"""Exit status where a file is of another machine."""
Row = dict[str, Any]
"""What was measured; ``ok`` is whether a check held, where there is one."""


class Section(NamedTuple):
    """A generator of rows, and the seconds that it may take."""

    work: Callable[[Any], Iterator[Row]]
    limit_s: float


def run(
    sections: Mapping[str, Section],
    on: Any,
    path: Path,
    about: Callable[[Any], dict[str, Any]],
    whole_s: float,
) -> int:
    """Measure what the JSON file ``path`` lacks, in order: 1 if a check failed or a section did not
    finish, else 0.

    Args:
        sections: by name; each is given ``on``.
        about: called first in every process; gives what has to be the same for all of a file.
        whole_s: what is left of it limits a section as well; with nothing left none begins.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a section ends with this process
    started = perf_counter()
    for method in ("fork", "spawn"):
        code = _within(START_S, method, _compare, about, on, path)
        if code in (0, REFUSED):
            break
    if code != 0:
        return 1
    for name, (work, limit_s) in sections.items():
        left = whole_s - (perf_counter() - started)
        if _read(path)["sections"].get(name, {}).get("state") == "finished" or left <= 0:
            continue
        limit_s = min(limit_s, left)
        print(f"{name}, at most {limit_s:.0f} s", flush=True)
        code = _within(limit_s, method, _measure, work, about, on, path, name)
        record = _read(path)["sections"].get(name, {"state": "running", "rows": []})
        if code is None:
            record |= {
                "state": "stopped",
                "seconds": limit_s,
                "error": f"took over {limit_s:.0f} s",
            }
            _keep(path, name, record)
        elif record["state"] == "running":
            _keep(path, name, record | {"state": "failed", "error": f"its process ended: {code}"})
    return _summary(sections, _read(path))


def _within(limit_s: float, method: str, work: Callable[..., None], *args: Any) -> int | None:
    """The exit status of a process that does ``work``; None where it had to be killed."""
    context: Any = multiprocessing.get_context(method)
    process: multiprocessing.Process = context.Process(target=_leading, args=(work, *args))
    process.start()
    try:
        process.join(limit_s)
        return process.exitcode
    finally:
        if process.is_alive():
            with suppress(ProcessLookupError):  # what it began, too
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()


def _leading(work: Callable[..., None], *args: Any) -> None:
    """As the leader of a group of processes, which can be killed together."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    work(*args)


def _compare(about: Callable[[Any], dict[str, Any]], on: Any, path: Path) -> None:
    """Refuse a file of another machine or of other versions."""
    found, here = _read(path), json.loads(json.dumps(about(on)))
    other = [name for name in here if name in found and found[name] != here[name]]
    if other:
        print(f"{path} has another {', '.join(other)}: take another folder.", file=sys.stderr)
        sys.exit(REFUSED)
    print(json.dumps(here), flush=True)
    write(path.stem, found | here, path.parent)


def _measure(
    work: Callable[[Any], Iterator[Row]],
    about: Callable[[Any], dict[str, Any]],
    on: Any,
    path: Path,
    name: str,
) -> None:
    """Each row is in the file before the next is measured."""
    started = perf_counter()
    record: dict[str, Any] = {"rows": []}

    def keep(state: str) -> None:
        record.update(state=state, seconds=round(perf_counter() - started, 2))
        _keep(path, name, record)

    keep("running")
    try:
        about(on)
        for row in work(on):
            record["rows"].append(row)
            keep("running")
            print(f"  {json.dumps(row)}", flush=True)
    except BaseException:
        record["error"] = traceback.format_exc()[-4000:]
        keep("failed")
        raise
    keep("finished")


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"sections": {}}
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else found


def _keep(path: Path, name: str, record: Row) -> None:
    """Only one process at a time writes."""
    found = _read(path)
    found["sections"][name] = record
    write(path.stem, found, path.parent)


def _summary(sections: Mapping[str, Section], found: dict[str, Any]) -> int:
    """Print a line for each section, and what failed; the exit status."""
    bad = False
    for name in sections:
        record = found["sections"].get(name, {"state": "not begun: no time left", "rows": []})
        checks = [row["ok"] for row in record["rows"] if "ok" in row]
        print(
            f"{name}: {record['state']}, {record.get('seconds', 0):.1f} s, "
            f"{len(record['rows'])} rows, {sum(checks)} of {len(checks)} checks hold"
        )
        for row in record["rows"]:
            if not row.get("ok", True):
                print(f"  FAILED {json.dumps(row)}")
        if "error" in record:
            print(f"  {record['error'].strip().splitlines()[-1]}")
        bad |= record["state"] != "finished" or not all(checks)
    return int(bad)
