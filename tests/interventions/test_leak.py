"""The leak of a mask: exactly nothing before the softmax, something after it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from interp_compose.errors import (
    HeadError,
    InputError,
    InterventionError,
    OptionError,
    PositionError,
    TrainingModeError,
)
from interp_compose.interventions import leak
from interp_compose.interventions.leak import attention_leak
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests.architectures import D_VOCAB
from tests.interventions.shared import (
    MASK,
    TOKENS,
    assert_clean,
    run,
    shared,
)
from tests.models.test_bridge import make

pytestmark = pytest.mark.tl3


def test_exclude_leaks_nothing_and_zero_does(model: LensModel) -> None:
    shut = attention_leak(model, TOKENS, keys=2, attention_mask=MASK, draws=3)
    assert shut.largest == 0.0
    assert shut.unmasked > 0.01
    assert shut.draws == 3
    leaky = attention_leak(model, TOKENS, keys=2, attention_mask=MASK, draws=3, mode="zero")
    assert leaky.largest > 0.01
    assert leaky.unmasked == shut.unmasked  # the same draws
    if model.bidirectional:
        assert math.isnan(shut.changed)
        assert math.isnan(shut.unmasked_changed)
    else:
        assert shut.changed == 0.0
        assert 0.0 < shut.unmasked_changed <= 1.0
    assert_clean(model)


def test_texts_are_what_their_tokens_are() -> None:
    model = load_model("mini-idm")
    texts = ['a young dog is called a "', 'a dog is an animal that "']
    tokens, mask = model.tokenize(texts)
    expected = attention_leak(model, tokens, keys="dog", attention_mask=mask, draws=2, mode="zero")
    assert expected.largest > 0
    assert attention_leak(model, texts, keys="dog", draws=2, mode="zero") == expected
    alone = attention_leak(model, texts[0], keys="dog", draws=2)
    assert (alone.largest, alone.unmasked > 0) == (0.0, True)
    with pytest.raises(InputError, match="texts make their own"):
        attention_leak(model, texts, keys="dog", attention_mask=mask)


def test_an_open_layer_head_or_query_leaks() -> None:
    model = shared("GPT-2")
    opened: list[dict[str, Any]] = [{"layers": [0, 1]}, {"heads": [0, 1, 3]}, {"queries": [2, 3]}]
    for options in opened:
        assert attention_leak(model, TOKENS, keys=2, draws=2, **options).largest > 1e-4
    assert_clean(model)


@torch.no_grad()
def test_the_figure_by_hand() -> None:
    """One draw: the largest difference outside the key, computed here."""
    model = shared("GPT-2")
    found = attention_leak(model, TOKENS, keys=[2], draws=1, mode="zero", seed=5)
    generator = torch.Generator().manual_seed(5)
    shift = torch.randint(1, D_VOCAB, (2, 7), generator=generator)
    other = TOKENS.clone()
    other[:, 2] = (other[:, 2] + shift[:, 2]) % D_VOCAB
    assert bool((other[:, 2] != TOKENS[:, 2]).all())
    rest = [3, 4, 5, 6]  # the only ones that can see it
    for masked, largest, changed in (
        (True, found.largest, found.changed),
        (False, found.unmasked, found.unmasked_changed),
    ):
        outs = []
        for tokens in (TOKENS, other):
            if masked:
                with mask_attention(model, keys=[2], mode="zero"):
                    outs.append(run(model, tokens)[:, rest])
            else:
                outs.append(run(model, tokens)[:, rest])
        one, two = outs
        assert float((one - two).abs().max()) == largest
        assert math.isclose(float((one.argmax(-1) != two.argmax(-1)).float().mean()), changed)


def test_draws_follow_the_seed() -> None:
    model = shared("GPT-2")
    one, again, other = (
        attention_leak(model, TOKENS, keys=2, draws=1, mode="zero", seed=seed) for seed in (0, 0, 1)
    )
    assert one == again != other


def test_replaced_tokens_are_others_and_never_padding() -> None:
    model = make("GPT-2")
    model.d_vocab, model.pad_id = 3, 1
    tokens = torch.tensor([[0, 2, 0, 2, 0, 2]]).repeat(50, 1)
    hidden = torch.tensor([[1, 1, 1, 1, 0, 0]]).bool().repeat(50, 1)
    other = leak._replaced(model, tokens, hidden, torch.Generator().manual_seed(0))
    assert torch.equal(other[:, 4:], tokens[:, 4:])
    assert torch.equal(other[:, :4], 2 - tokens[:, :4])  # the only one left


@pytest.mark.parametrize("keys", [range(7), [-1], [5, 6]])
def test_keys_that_nobody_sees_are_no_measurement(keys: Any) -> None:
    with pytest.raises(InterventionError, match="no other position can see them"):
        attention_leak(shared("GPT-2"), TOKENS, keys=keys, draws=1)


def test_an_encoder_sees_keys_from_both_sides() -> None:
    assert attention_leak(shared("BERT"), TOKENS, keys=[-1], draws=1).unmasked > 0.0


def test_dropout_is_no_leak() -> None:
    model = make("GPT-2")
    model.train()
    with pytest.raises(TrainingModeError, match="dropout, where it has any, would pass for a leak"):
        attention_leak(model, TOKENS, keys=2, draws=1)


def test_refusals() -> None:
    model = shared("GPT-2")
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"keys": None}, OptionError, "keys=None, draws=8: expected the keys"),
        ({"keys": 2, "seed": -1}, OptionError, "seed=-1: expected an integer from 0"),
        ({"keys": 2, "draws": 0}, OptionError, "draws=0: expected .* 1 to 10000 draws"),
        ({"keys": []}, OptionError, r"keys=\[\] name no position"),
        ({"keys": 7}, PositionError, "position 7 is beyond"),
        ({"keys": 2, "mode": "none"}, OptionError, "mode='none'; expected one of 'exclude'"),
        ({"keys": 2, "heads": [4]}, HeadError, "head 4 is outside"),
        ({"keys": 5, "queries": 0}, InterventionError, "knocked out nothing"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            attention_leak(model, TOKENS, **options)
        assert_clean(model)
    groups = torch.tensor([[0, 0, 1, 2, 3, 4, 5]] * 2)
    with (
        pool_at(model, 1, groups),
        pytest.raises(InterventionError, match="measure the leak outside a collapse"),
    ):
        attention_leak(model, TOKENS, keys=2)
    assert_clean(model)


@torch.no_grad()
def test_nothing_is_said_of_a_mask_where_nothing_could_leak() -> None:
    model = shared("Llama")
    hooks = model.hooks([("blocks.0.hook_resid_pre", lambda resid, hook: resid * 0)])
    message = "changes no output .* without the mask either"
    with hooks, pytest.raises(InterventionError, match=message):
        attention_leak(model, TOKENS, keys=2, attention_mask=MASK, draws=1)
    assert_clean(model)
