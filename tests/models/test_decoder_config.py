"""Shapes of small decoders: what a configuration makes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from interp_compose.errors import InputError, OptionError, PromptError
from interp_compose.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.models.small_decoder import small_decoder
from tests.models.test_decoder import CASES, random

pytestmark = pytest.mark.tl3


def test_biases_of_the_unembedding_alone() -> None:
    names = [name for name, _ in SmallDecoder(CASES[0]).named_parameters()]
    assert [name for name in names if ".b_" in name] == ["unembed.b_U"]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"n_layers": 0}, "n_layers=0: expected a whole number, 1 or more"),
        ({"n_layers": 10**6, "d_model": 1, "d_mlp": 1}, "n_layers=1000000: expected at most 10000"),
        ({"d_head": 0}, "d_head=0: expected a whole number, 1 or more"),
        ({"n_heads": 3}, "n_heads=3 do not divide d_model=64: give d_head"),
    ],
)
def test_sizes_that_are_none(shape: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DecoderConfig(**shape)


def test_d_head_may_be_any() -> None:
    assert DecoderConfig(n_heads=3, d_head=5).head_width == 5
    assert DecoderConfig(d_model=64, n_heads=4).head_width == 16


@pytest.mark.parametrize("cfg", CASES, ids=lambda cfg: f"{cfg.norm}-{cfg.act}")
def test_too_long_a_sequence_is_refused(cfg: DecoderConfig) -> None:
    model = random(cfg)
    long = torch.zeros((2, 12), dtype=torch.long)
    mask = torch.ones_like(long)
    for call in (lambda: model(long), lambda: model.last_logits(long), lambda: model(long, mask)):
        with pytest.raises(PromptError, match="has 12 tokens, and the model n_ctx=11 positions"):
            call()


@pytest.mark.parametrize("bad", [100, -1])
def test_ids_outside_the_vocabulary_are_named(bad: int) -> None:
    model = small_decoder(DecoderConfig(d_vocab=100), init_rate=0.8, seed=0)
    with pytest.raises(InputError, match=f"token id {bad}: expected 0 to 99"):
        model(torch.tensor([[1, bad]]))
