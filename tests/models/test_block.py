"""Blocks of interventions: entered, left, and never entered."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
import torch

from interp_compose.models.block import intervention
from tests.interventions.shared import make
from tests.models.test_copying import TOKENS

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


def test_blocks_of_a_model_may_be_entered_again() -> None:
    model = make("GPT-2")
    block = model.hooks([("blocks.0.hook_attn_out", lambda activation, hook: activation * 0)])
    with torch.no_grad():
        clean = model(TOKENS)
        with block, block:
            edited = model(TOKENS)
        assert not torch.equal(edited, clean)
        with block:
            assert torch.equal(model(TOKENS), edited)
        assert torch.equal(model(TOKENS), clean)
    with model.activation_checkpointing():
        pass


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
