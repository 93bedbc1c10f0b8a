"""Local attention and scaled rotary angles: what a shorter sequence or a neighbour changes."""

from __future__ import annotations

import pytest
import torch

from interp_compose.errors import PromptError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import batch_of_lengths, weights_digest
from tests import architectures
from tests.models.test_own_forward import dynamic_llama, phi3

WINDOWED = ["Gemma 2", "Gemma 3", "GPT-Neo", "ModernBERT decoder"]


@torch.no_grad()
@pytest.mark.parametrize("name", WINDOWED)
def test_a_collapse_beyond_the_window_is_refused(name: str) -> None:
    model = load_model(architectures.build(name))
    window = 23
    assert model.window == window
    tokens = torch.randint(3, 97, (1, window + 1), generator=torch.Generator().manual_seed(1))
    groups = torch.arange(window + 1)[None] // 3
    with pool_at(model, 1, groups, mode="broadcast"):
        model(tokens)
    message = rf"a text of {window + 1} tokens in a collapse.*look back {window} tokens"
    with pytest.raises(PromptError, match=message), pool_at(model, 1, groups):
        model(tokens)
    with pool_at(model, 1, groups[:, :window]) as record:
        model(tokens[:, :window])
    assert record.calls == 1


def test_texts_that_change_each_other_run_one_at_a_time() -> None:
    model = load_model(phi3())
    assert batch_of_lengths(model, [8, 24], None) == 1
    assert batch_of_lengths(model, [8, 24], 1) == 1
    assert batch_of_lengths(model, [8, 16], None) is None
    assert batch_of_lengths(model, [8, 16], 4) == 4
    assert batch_of_lengths(model, [20, 24], 4) == 4
    with pytest.raises(PromptError, match="batch_size=1"):
        batch_of_lengths(model, [8, 24], 4)
    dynamic = load_model(dynamic_llama())
    for batch_size in (None, 1, 4):
        with pytest.raises(PromptError, match="depend on the longest text read so far"):
            batch_of_lengths(dynamic, [24], batch_size)
    assert batch_of_lengths(load_model(architectures.build("Llama")), [8, 60], 4) == 4


def test_the_digest_knows_buffers_and_scales_of_adapters() -> None:
    def built() -> LensModel:
        return load_model(architectures.build("GPT-2"))

    def digest_with(buffer: float | None, scale: float | None) -> str:
        model = built()
        part = model.lens.original_model.transformer.h[1].mlp
        if buffer is not None:
            part.register_buffer("kept", torch.tensor([buffer]))
        if scale is not None:
            part.scaling = {"default": scale}
        return weights_digest(model)

    kinds = [(None, None), (1.0, None), (2.0, None), (None, 1.0), (None, 2.0)]
    digests = [digest_with(*kind) for kind in kinds]
    assert len(set(digests)) == len(kinds)
    assert digest_with(1.0, None) == digests[1]
