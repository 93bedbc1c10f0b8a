"""The runs of a sweep, each trained by all the processes that ``torchrun`` or ``accelerate launch``
started side by side: the first goes through the sweep and writes, the others follow it from run to
run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from interp_compose.errors import ModelError, NonFiniteError, OptionError
from interp_compose.training.processes import Processes

Part = Callable[[Mapping[str, Any], Path, bool], None]
"""What each process does of a run: its configuration, its folder, and whether it is the first."""


def _processes() -> Processes:
    return Processes(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def is_follower() -> bool:
    """Whether this process is one of several, and not the first."""
    return not _processes().is_main


def check_where(where: str) -> None:
    """Refuse workers of one's own among several processes.

    Raises:
        OptionError: names ``where``.
    """
    count = _processes().count
    if count > 1 and where != "here":
        raise OptionError(
            f"where={where!r} in one of {count} processes (WORLD_SIZE), which share each run out: "
            "expected where='here' (--where here)"
        )


def lead(part: Part, config: Mapping[str, Any], folder: Path) -> None:
    """Do a run with those that follow."""
    processes = _processes()
    if processes.count == 1:
        part(config, folder, True)
        return
    processes.broadcast({"config": dict(config), "folder": str(folder)})
    try:
        part(config, folder, True)
    except NonFiniteError:
        raise  # as in all processes, after an exchange
    except Exception as broken:
        # The others are in the middle of a step, and this process cannot go on to another run.
        print(f"{folder}: {type(broken).__name__}: {broken}", file=sys.stderr)
        raise KeyboardInterrupt from broken


@contextmanager
def leading() -> Iterator[None]:
    """After the ``with`` block, the others are told that it is over, and whether by an error."""
    try:
        yield
    except Exception as error:
        _processes().broadcast({"error": f"{type(error).__name__}: {error}"})
        raise
    _processes().broadcast({})


def follow(part: Part) -> None:
    """Take part in each run that the first process does, until it says that it is over.

    Raises:
        ModelError: it stopped by an error, which is named.
    """
    processes = _processes()
    while True:
        message = processes.broadcast(None)
        if "error" in message:
            raise ModelError(f"the first process stopped: {message['error']}")
        if not message:
            return
        try:
            part(message["config"], Path(message["folder"]), False)
        except NonFiniteError:
            continue  # the first process says so
