"""How a task is shown: the sizes of its splits, and one example of the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from interp_compose.errors import shortened
from interp_compose.notebook import block, facts


class ShownTask:
    """A ``repr`` of one line, and HTML for notebooks, of data in named splits."""

    name: str

    def _splits(self) -> Mapping[str, Sequence[Any]]:
        splits: Mapping[str, Sequence[Any]] = self.splits  # type: ignore[attr-defined]
        return splits

    def _head(self) -> str:
        sizes = ", ".join(f"{name}: {len(items)}" for name, items in self._splits().items())
        return f"{self.name!r}, {sizes}"

    def _first(self) -> Any:
        return next((items[0] for items in self._splits().values() if items), None)

    def _example(self) -> str:
        """The first example, on one line."""
        return shortened(repr(self._first()), 160)

    def __repr__(self) -> str:
        such = f", such as {self._example()}" if self._first() is not None else ""
        return f"{type(self).__name__}({self._head()}{such})"

    def _repr_html_(self) -> str:
        first = self._first()
        values = {}
        if is_dataclass(first):
            values = {one.name: getattr(first, one.name) for one in fields(first)}
            values = {name: one for name, one in values.items() if one not in (None, "", ())}
        elif first is not None:
            values = {"text": first}
        parts = [facts(values, title="such as")] if values else []
        return block(type(self).__name__, self._head(), *parts)
