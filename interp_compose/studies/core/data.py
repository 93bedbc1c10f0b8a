"""What a study's data may come as, beside the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from interp_compose.studies.core.options import Options
from interp_compose.tasks.rows import rows_in
from interp_compose.tasks.task import Task

OptionsT = TypeVar("OptionsT", bound=Options)


@runtime_checkable
class HasTest(Protocol):
    """A task: its test split is measured, under its name."""

    @property
    def name(self) -> str: ...

    @property
    def test(self) -> Sequence[Any]: ...


def rows_of(data: Any, options: OptionsT) -> tuple[Any, OptionsT]:
    """The rows of a task's test split, and the task's name and split for the figure's title where
    none is given; or those of a table or a list."""
    if isinstance(data, HasTest) and not hasattr(data, "columns"):  # as a frame may have any name
        return data.test, replace(options, task=options.task or f"{data.name} (test)")
    return rows_in(data), options


def filtered_of(data: Any) -> str:
    """What a task's filters left of its test split's data, where they left less."""
    return data.filtered("test") if isinstance(data, Task) else ""
