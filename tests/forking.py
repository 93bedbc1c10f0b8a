"""Processes that may be killed: a script imports everything once and forks them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

can_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def fork(work: Callable[[], object]) -> int:
    """The id of a process that does ``work`` and ends: with 0, 130 after Ctrl-C, or else 1."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:  # noqa: BLE001  said on stderr, and by the exit status
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def wait(pid: int) -> int:
    """How a process ended: its exit status, negative where a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def outcome_of(script: str, folder: Path) -> dict[str, Any]:
    """What a module, run with a folder in a process of its own, left there in ``out.json``."""
    subprocess.run(
        [sys.executable, "-m", script, str(folder)],
        check=True,
        timeout=900,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found
