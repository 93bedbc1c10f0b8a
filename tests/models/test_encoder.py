"""Encoders against a Hugging Face copy that was never wrapped: every test builds it anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from interp_compose.errors import CapabilityError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.architectures import D_VOCAB, N_CTX, N_LAYERS

pytestmark = pytest.mark.tl3

# Two rows of seven tokens; id 0 is the pad id of both shapes and is in neither.
TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])
MASK = torch.ones_like(TOKENS)
POSITIONS = torch.arange(7).expand(2, -1)
D_MODEL = 40


def source(name: str, *, head: bool = True) -> Any:
    """The masked-LM class, or the encoder alone."""
    model = architectures.build(name)
    return model if head else model.base_model


def roberta(pad_id: int | None) -> Any:
    shape = {**architectures._SHAPE, "pad_token_id": pad_id}
    torch.manual_seed(0)
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**shape)).eval()


@pytest.fixture(
    scope="module",
    params=["BERT", pytest.param("RoBERTa", marks=architectures.needs_tl4)],
)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str) -> LensModel:
    return load_model(source(name))


@pytest.fixture(scope="module")
def headless(name: str) -> LensModel:
    return load_model(source(name, head=False))


@pytest.mark.parametrize("head", [True, False])
@torch.no_grad()
def test_the_hidden_state_is_hugging_face_own(name: str, head: bool) -> None:
    expected = source(name, head=False)(TOKENS).last_hidden_state
    model = load_model(source(name, head=head))
    found = model.encode(TOKENS)
    assert found.shape == (2, 7, D_MODEL)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.plain_hidden(TOKENS), expected, atol=1e-5, rtol=1e-5)
    assert model.bidirectional


@torch.no_grad()
def test_logits_are_hugging_face_own(name: str, model: LensModel) -> None:
    torch.testing.assert_close(model(TOKENS), source(name)(TOKENS).logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_without_a_head_there_are_no_logits(headless: LensModel) -> None:
    hidden = headless.encode(TOKENS)

    def resume(read: Any) -> Tensor:
        return headless.resume(hidden, 0, attention_mask=MASK, position_ids=POSITIONS, read=read)

    assert resume("hidden").shape == hidden.shape
    for call in (
        lambda: headless(TOKENS),
        lambda: headless.forward(TOKENS, read="last"),
        lambda: headless.plain(TOKENS),
        lambda: headless.unembed(hidden),
        lambda: resume("last"),
        lambda: resume("logits"),
    ):
        with pytest.raises(
            CapabilityError, match=rf"\({headless.architecture}\) came without a masked-LM head.*en"
        ):
            call()
    assert headless.architecture in {"BertModel", "RobertaModel"}


def test_bert_reads_as_many_tokens_as_it_has_positions() -> None:
    assert load_model(source("BERT")).n_ctx == N_CTX


@architectures.needs_tl4
@pytest.mark.parametrize("pad_id", [0, 1, 5])
@torch.no_grad()
def test_roberta_counts_positions_above_its_pad_id(pad_id: int) -> None:
    """Its table of positions begins with the pad id's row and those below, which no token reads;
    it counts positions from token ids, so that its own padded call is a reference too."""
    model = load_model(roberta(pad_id))
    assert (model.pad_id, model.n_ctx) == (pad_id, N_CTX - pad_id - 1)
    longest = torch.randint(7, D_VOCAB, (1, model.n_ctx))
    expected = roberta(pad_id).base_model(longest).last_hidden_state
    torch.testing.assert_close(model.encode(longest), expected, atol=1e-5, rtol=1e-5)
    real = torch.tensor([[9, 17, 13, 41], [23, 61, 7, 31]])
    tokens, mask = torch.full((2, 6), pad_id), torch.zeros(2, 6, dtype=torch.long)
    tokens[:, 2:], mask[:, 2:] = real, 1
    for ids, given in ((real, torch.ones_like(real)), (tokens, mask)):
        own = roberta(pad_id)(ids, attention_mask=given, output_hidden_states=True)
        for read, outputs in (("hidden", own.hidden_states[-1]), ("logits", own.logits)):
            found = model.forward(tokens, attention_mask=mask, read=read)[:, 2:]
            torch.testing.assert_close(found, outputs[:, -4:], atol=1e-5, rtol=1e-5)
    model.require("forward", "hidden")


@architectures.needs_tl4
def test_roberta_without_a_pad_id_is_refused() -> None:
    with pytest.raises(CapabilityError, match="pad"):
        load_model(roberta(None))


@torch.no_grad()
def test_residuals_are_hugging_face_hidden_states(name: str, model: LensModel) -> None:
    expected = source(name, head=False)(TOKENS, output_hidden_states=True).hidden_states
    for layer in range(N_LAYERS):
        found = model.resid_pre(TOKENS, layer, attention_mask=MASK)
        torch.testing.assert_close(found, expected[layer], atol=1e-5, rtol=1e-5)


def test_what_holds_without_a_head(headless: LensModel) -> None:
    headless.require("forward", "resume", "positions", "hidden", "edit_resid")
    with pytest.raises(CapabilityError, match="came without a masked-LM head"):
        headless.require("unembed")


@pytest.mark.parametrize("ignores", ["the mask", "later tokens"])
@pytest.mark.parametrize("layer", [0, N_LAYERS - 1])
def test_attention_that_is_not_what_it_seems_is_refused(
    name: str, layer: int, ignores: str
) -> None:
    """The model's own call, without a mask, is bidirectional; its blocks, called with one, are not
    masked by it, or are causal."""
    block = (encoder := source(name, head=False)).encoder.layer[layer]
    own = block.forward

    def forward(
        hidden: Tensor, attention_mask: Tensor | None = None, *args: Any, **rest: Any
    ) -> Any:
        if ignores == "the mask":
            attention_mask = None
        elif attention_mask is not None:
            n = hidden.shape[1]
            future = torch.full((n, n), torch.finfo(hidden.dtype).min).triu(1)
            attention_mask = torch.minimum(attention_mask, future)
        return own(hidden, attention_mask, *args, **rest)

    block.forward = forward
    refusal = "gives other numbers than its own forward pass|cannot do 'forward'"
    with pytest.raises(CapabilityError, match=refusal):
        load_model(encoder).require("hidden")
