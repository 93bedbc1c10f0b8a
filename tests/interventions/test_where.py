"""The grammar of layers, heads and positions: what is accepted, and what is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from interp_compose._public import public
from interp_compose.errors import (
    HeadError,
    InputError,
    LayerError,
    OptionError,
    PositionError,
)
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.leak import attention_leak
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.select import (
    Heads,
    Positions,
    as_list,
    resolve_heads,
    resolve_positions,
)
from interp_compose.models.layers import Layers, resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.interventions.shared import MASK, TOKENS, assert_clean, run, shared
from tests.text.conftest import byte_level

pytestmark = pytest.mark.tl3


@public
def layers_of(layers: Layers) -> list[int]:
    return resolve_layers(layers, 5)


@public
def heads_of(heads: Heads) -> dict[int, list[int]]:
    return resolve_heads(heads, [1, 4], 5, 3)


@public
def keys_of(keys: Positions) -> Any:
    return keys


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (None, [0, 1, 2, 3, 4]),
        (2, [2]),
        (np.int64(2), [2]),
        (0.5, [2]),
        ([4, 0, 4], [0, 4]),
        ([0.0, 1.0, 3], [0, 3, 4]),
        ([0.125], [1]),  # 0.5 of the way to layer 1: halves go up
        (range(1, 3), [1, 2]),
        ({3, 1}, [1, 3]),
        (-1, [4]),
        ([-5, 0, -2], [0, 3]),
        (np.array([3, 1]), [1, 3]),
    ],
)
def test_layers(layers: Any, expected: list[int]) -> None:
    assert layers_of(layers) == expected


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (5, "layer 5 is outside the model: expected 0 … 4"),
        ([0, -6], "layer -6 is outside the model: expected 0 … 4 .* -1 … -5 from the end"),
        (1.5, "depth 1.5 is outside 0.0 … 1.0"),
        ([float("nan")], "depth nan is outside"),
        ([], "no layers: expected at least one, or None for all"),
    ],
)
def test_layers_refused(layers: Any, message: str) -> None:
    with pytest.raises(LayerError, match=message):
        layers_of(layers)


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (None, {1: [0, 1, 2], 4: [0, 1, 2]}),
        (2, {1: [2], 4: [2]}),
        ([2, 0, 2], {1: [0, 2], 4: [0, 2]}),
        ((0, 2), {1: [0, 2], 4: [0, 2]}),  # two numbers, no pair
        ([(4, 1)], {4: [1]}),
        ([(-1, 1), (4, 0)], {4: [0, 1]}),
        ([(4, 1), [1, 0], 2], {1: [0, 2], 4: [1, 2]}),
        (np.array([1]), {1: [1], 4: [1]}),
    ],
)
def test_heads(heads: Any, expected: dict[int, list[int]]) -> None:
    assert heads_of(heads) == expected


@pytest.mark.parametrize(
    ("heads", "error", "message"),
    [
        ([3], HeadError, "head 3 is outside its layer: expected numbers from 0 to 2"),
        ([-1], HeadError, "head -1 is outside"),
        ([(1, 3)], HeadError, "head 3 is outside"),
        ([(2, 0)], LayerError, r"head \(2, 0\) is of layer 2, and the layers are \[1, 4\]"),
        ([(5, 0)], LayerError, "layer 5 is outside the model"),
        ([], HeadError, "no heads: expected numbers"),
        ([True], OptionError, r"heads\[0\]=True is a bool"),
        ([(1, 0, 0)], OptionError, r"heads\[0\]=\(1, 0, 0\) is a tuple"),
        ([(1, "a")], OptionError, r"heads\[0\]\[1\]='a' is a str"),
    ],
)
def test_heads_refused(heads: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        heads_of(heads)


def test_neurons_are_named_in_messages() -> None:
    with pytest.raises(
        HeadError, match=r"neuron 7 is outside its layer: .*\(layer, neuron\) pairs"
    ):
        resolve_heads([7], [0], 1, 7, "neuron")


@pytest.fixture(scope="module")
def gpt2() -> LensModel:
    return shared("GPT-2")


@given(st.lists(st.integers(-7, 6), unique=True), st.integers(0, 6))
def test_numbers_are_python_indices(gpt2: LensModel, numbers: list[int], padding: int) -> None:
    tokens = torch.zeros(2, 7, dtype=torch.long)
    mask = torch.ones_like(tokens)
    mask[1, :padding] = 0
    expected = torch.zeros(2, 7, dtype=torch.bool)
    for number in numbers:
        expected[:, range(7)[number]] = True
    if bool(expected[1, :padding].any()):
        with pytest.raises(PositionError, match="of row 1 is padding"):
            resolve_positions(gpt2, numbers, tokens, mask, "keys")
    else:
        found = resolve_positions(gpt2, numbers, tokens, mask, "keys")
        assert torch.equal(found, expected)


def test_positions_that_stand_alone_or_are_all() -> None:
    model = shared("GPT-2")
    assert torch.equal(resolve_positions(model, None, TOKENS, MASK, "keys"), MASK.bool())
    one = torch.zeros_like(TOKENS).bool()
    one[:, 5] = True
    assert as_list(np.int64(5)) == [5]
    for where in (5, -2, (5,), range(5, 6), [5, -2], np.int64(5), np.array([5]), {5, -2}):
        found = resolve_positions(model, keys_of(where), TOKENS, MASK, "keys")
        assert torch.equal(found, one)
    assert torch.equal(resolve_positions(model, one, TOKENS, MASK, "keys"), one)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (torch.zeros(2, 7), r"keys is a Tensor \[2, 7\] of torch.float32"),
        (torch.zeros(2, 7, dtype=torch.long), r"keys is a Tensor \[2, 7\] of torch.int64"),
        (torch.zeros(7, dtype=torch.bool), r"keys\[0\]=False is a bool"),
        ({"a": 1}, "keys={'a': 1} is a dict"),
        ([True], r"keys\[0\]=True is a bool"),
        ([[0], [1]], r"keys\[0\]=\[0\] is a list"),
        ([0, "cat"], r"keys\[1\]='cat' is a str"),
    ],
)
def test_no_positions(where: Any, message: str) -> None:
    with pytest.raises(OptionError, match=f"keys_of: {message}; expected an integer"):
        keys_of(where)


def test_positions_refused_at_the_call_and_nothing_is_left() -> None:
    model = shared("GPT-2")
    other = torch.ones(3, 7, dtype=torch.bool)
    padded = torch.zeros(2, 7, dtype=torch.bool)
    padded[1, 1] = True
    cases: list[tuple[Any, type[Exception], str]] = [
        (7, PositionError, "position 7 is beyond a sequence of 7; expected -7 … 6"),
        ([0, -8], PositionError, "position -8 is beyond"),
        (0, PositionError, "position 0 of row 1 is padding; numbers count padding too"),
        (padded, PositionError, "position 1 of row 1 is padding"),
        (other, InputError, r"\[3, 7\] and the tokens of this call \[2, 7\]"),
        ("cat", InputError, "are words, and .* came without a tokenizer"),
    ]
    for where, error, message in cases:
        blocks = [
            ("keys", mask_attention(model, keys=where)),
            ("queries", mask_attention(model, queries=where)),
            ("positions", mask_residual(model, positions=where)),
            ("positions", ablate(model, heads=[0], positions=where)),
        ]
        for name, block in blocks:
            with pytest.raises(error, match=f"^{name}.*{message}"), block:
                run(model, TOKENS, MASK)
            assert_clean(model)
        with pytest.raises(error, match="sizes of the other" if where is other else message):
            attention_leak(model, TOKENS, keys=where, attention_mask=MASK)
        assert_clean(model)


def test_words_in_a_padded_batch() -> None:
    tokenizer = byte_level()
    hf_model = architectures.build("GPT-2")
    model = load_model(hf_model, tokenizer=tokenizer)
    model.d_vocab = 10_000  # ids are only looked at
    texts = ["a young dog is a dog", "the lazy dogs' tails stopped"]
    rows = [tokenizer(text)["input_ids"] for text in texts]
    length = max(map(len, rows)) + 2
    for side in ("left", "right"):
        tokens = torch.full((2, length), 3)
        mask = torch.zeros_like(tokens)
        starts = [length - len(row) if side == "left" else 0 for row in rows]
        for i, (row, start) in enumerate(zip(rows, starts, strict=True)):
            tokens[i, start : start + len(row)] = torch.tensor(row)
            mask[i, start : start + len(row)] = 1
        with pytest.raises(PositionError, match="row 1 has no word 'dog'; its words are the, lazy"):
            resolve_positions(model, "dog", tokens, mask, "keys")
        found = resolve_positions(model, ["dog"], tokens[:1], mask[:1], "keys")
        pieces = [tokenizer.decode(t) for t in tokens[0, found[0]].tolist()]
        assert "".join(pieces) == " dog dog"
        assert not bool((found & ~mask[:1].bool()).any())


def test_a_mask_of_numbers_is_no_list_of_positions() -> None:
    """0 and 1, often: positions 0 and 1 would be meant."""
    model = shared("GPT-2")
    tokens = torch.tensor([[5, 17, 3, 41, 29]])
    numbers = torch.tensor([0, 0, 1, 0, 0])
    for positions in (numbers, numbers.tolist()):
        with (
            pytest.raises(PositionError, match="name a position more than once; .* boolean tensor"),
            mask_attention(model, keys=positions),
        ):
            model(tokens)
