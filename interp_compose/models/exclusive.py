"""One user at a time: a model whose hooks and attentions are replaced for the length of a block
cannot serve two threads, since the second would run under the first one's interventions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interp_compose.errors import ModelInUseError


class Exclusive:
    """A lock of one thread, or of one asyncio task of it; its holder may hold it again."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holder: object = None
        self._depth = 0

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Hold it for the length of a ``with`` block.

        Raises:
            ModelInUseError: another thread or task holds it; ``name`` is the model's.
        """
        # This thread, and the asyncio task that runs in it (0 where none does).
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        caller = threading.get_ident(), id(task) if task is not None else 0
        with self._guard:
            if self._depth and self._holder != caller:
                raise ModelInUseError(
                    f"{name!r} is in use: another thread or asyncio task is inside a call of it or "
                    "a block of hooks, masks or pooling, whose edits would reach this call. Take "
                    "turns (a threading.Lock around your blocks), or load one model for each."
                )
            self._holder = caller
            self._depth += 1
        try:
            yield
        finally:
            with self._guard:
                self._depth -= 1

    def __deepcopy__(self, memo: dict[int, Any]) -> Exclusive:
        return Exclusive()
