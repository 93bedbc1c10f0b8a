"""One model per architecture for all tests that leave it as it was, and what they leave behind."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures

TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1]])
"""The second row is padded on the left."""

WRAPPED = [name for name in architectures.BUILDERS if name not in ("MPNet", "DistilBERT")]
"""Those that TransformerLens can wrap."""

FEW = ("GPT-2", "Gemma 2", "GPT-NeoX", "OPT", "BERT", "native", "HookedTransformer")
"""Of each kind one: plain, grouped, parallel, with edits discarded, encoder, and own."""

THREE = ("Gemma 2", "BERT", "native")
"""Grouped queries behind the bridge, an encoder, and a decoder of our own."""

needs_tl3 = pytest.mark.skipif(
    not version("transformer-lens").startswith("3."),
    reason="transformer-lens 4 removed HookedTransformer (make test-tl3 runs this)",
)


def params(*names: str) -> list[Any]:
    """Names of models as parameters, each with the release that it needs."""
    marks = {"RoBERTa": architectures.needs_tl4, "HookedTransformer": needs_tl3}
    return [pytest.param(name, marks=marks[name]) if name in marks else name for name in names]


def make(name: str) -> LensModel:
    """A model with random weights."""
    model: LensModel
    if name == "HookedTransformer":
        from tests.interventions.test_hooked_transformer import make as hooked_transformer

        model = load_model(hooked_transformer("gqa"))
    else:
        model = architectures.load(name)
    return model


@cache
def shared(name: str) -> LensModel:
    """The same for every test, none of which may change it."""
    return make(name)


@cache
def mini() -> LensModel:
    """The shipped model, which has a tokenizer."""
    model: LensModel = load_model("mini-idm")
    return model


@cache
def t5(start: int | None = 0) -> LensModel:
    """A T5 with random weights that reads the words of :func:`mini`."""
    tokenizer = mini().tokenizer
    shape = architectures._T5 | {"vocab_size": len(tokenizer), "decoder_start_token_id": start}
    torch.manual_seed(0)
    built = hf.T5ForConditionalGeneration(hf.T5Config(**shape)).eval()
    model: LensModel = load_model(built, tokenizer=tokenizer)
    return model


def run(model: LensModel, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
    """Logits, or an encoder's hidden states."""
    return model.forward(
        tokens, attention_mask=mask, read="hidden" if model.bidirectional else "logits"
    )


def replaced(tokens: Tensor, position: int) -> Tensor:
    """Another token at a position; never one of the first three, which are special."""
    other = tokens.clone()
    other[:, position] = (other[:, position] + 31) % (architectures.D_VOCAB - 3) + 3
    return other


def keep_in(store: list[Tensor]) -> Any:
    """A hook that keeps the activation."""

    def keep(activation: Tensor, hook: Any) -> None:
        store.append(activation)

    return keep


def assert_clean(model: LensModel) -> None:
    """Nothing of an intervention is left on the model."""
    assert not model.active_hooks
    assert not model.open_blocks.wraps_calls
    for module in model.lens.modules():
        forward = vars(module).get("forward")  # TransformerLens gives T5's blocks one of their own
        assert forward is None or forward.__module__.startswith("transformer_lens.")
        for hook in module._forward_pre_hooks.values():
            assert not type(hook).__module__.startswith("interp_compose.")
