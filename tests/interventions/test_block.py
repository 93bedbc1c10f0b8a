"""Blocks of interventions: entered, left, and never entered."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

from interp_compose.interventions.block import intervention

inside: list[str] = []


@intervention
def edit(name: str) -> Iterator[str]:
    inside.append(name)
    try:
        yield f"record of {name}"
    finally:
        inside.remove(name)


def test_a_block_acts_inside_alone_and_leaves_after_an_error() -> None:
    with edit("a") as record, edit("b"):
        assert (record, inside) == ("record of a", ["a", "b"])
    with pytest.raises(ZeroDivisionError), edit("a"):
        1 / 0  # noqa: B018
    assert inside == []


def test_one_block_as_a_decorator_may_be_nested() -> None:
    @edit("a")
    def depth(n: int) -> int:
        return depth(n - 1) if n else len(inside)

    assert depth(2) == 3
    assert inside == []


def test_a_block_that_is_never_entered_says_so() -> None:
    blocks = [edit("a")]
    assert repr(blocks[0]) == "<edit: not entered; it acts inside `with edit(…):` alone>"
    with pytest.warns(UserWarning, match=r"edit\(…\) was never entered and changed nothing"):
        blocks.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with edit("a"):
            pass
        gc.collect()
