"""Interventions as blocks: what acts inside ``with``, and says so where it was never entered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from functools import partial, wraps
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

from interp_compose.errors import warn
from interp_compose.notebook import block, facts

P = ParamSpec("P")
R = TypeVar("R")


class Intervention(AbstractContextManager[R], ContextDecorator, Generic[R]):
    """A block of an intervention. One that is never entered warns when it is thrown away."""

    def __init__(self, name: str, opened: Callable[[], AbstractContextManager[R]]) -> None:
        self._name, self._opened = name, opened
        self._blocks: list[AbstractContextManager[R]] = []
        self._entered = False

    def __enter__(self) -> R:
        self._entered = True
        opened = self._opened()
        record = opened.__enter__()
        self._blocks.append(opened)
        return record

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._blocks.pop().__exit__(kind, error, traceback)

    def __repr__(self) -> str:
        state = "entered" if self._entered else "not entered"
        return f"<{self._name}: {state}; it acts inside `with {self._name}(…):` alone>"

    def __del__(self) -> None:
        if not self._entered:
            warn(
                f"{self._name}(…) was never entered and changed nothing; write "
                f"`with {self._name}(…):` around the calls of the model",
            )


def intervention(function: Callable[P, Iterator[R]]) -> Callable[P, Intervention[R]]:
    """Make a generator function, as :func:`contextlib.contextmanager` takes them, a block."""
    made = contextmanager(function)

    @wraps(function)
    def opened(*args: P.args, **named: P.kwargs) -> Intervention[R]:
        return Intervention(function.__name__, partial(made, *args, **named))

    return opened


class Record:
    """What the block of an intervention has done so far; a notebook shows its counts."""

    def _counts(self) -> tuple[str, Mapping[str, object]]:
        """The intervention's name, and what it counts."""
        raise NotImplementedError

    def __repr__(self) -> str:
        name, counts = self._counts()
        return f"<{name}: {', '.join(f'{what} {n}' for what, n in counts.items())}>"

    def _repr_html_(self) -> str:
        name, counts = self._counts()
        return block(name, "", facts(counts))
