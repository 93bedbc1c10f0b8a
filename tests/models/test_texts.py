"""Texts as calls: what is run is what the studies run, and the model's own numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from interp_compose.errors import InputError, OptionError, PromptError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel, small_decoder
from interp_compose.papers.shared.models.decoder import DecoderConfig
from interp_compose.papers.shared.text.vocabulary import Vocabulary
from interp_compose.studies.core.inputs import PromptBatch, prepare_all
from interp_compose.studies.core.options import PromptOptions
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example
from tests import architectures
from tests.interventions.shared import mini, shared, t5

TEXTS = ["the house of a swine", "a dog", "a young dog"]


@pytest.fixture(scope="module")
def model() -> LensModel:
    return mini()


def test_ids_and_mask_are_those_of_the_studies(model: LensModel) -> None:
    tokens, mask = model.tokenize(TEXTS)
    batch = PromptBatch.of(tokenize_prompts(model.tokenizer, TEXTS), model.device)
    assert torch.equal(tokens, batch.tokens)
    assert torch.equal(mask, batch.mask)
    assert mask[1].tolist().count(0) > 1
    for text, row, real in zip(TEXTS, tokens, mask.bool(), strict=True):
        assert row[real].tolist() == model.tokenizer(text)["input_ids"]


@torch.no_grad()
def test_every_call_takes_texts(model: LensModel) -> None:
    tokens, mask = model.tokenize(TEXTS)
    name = "blocks.2.hook_resid_pre"
    logits, store = model.capture(tokens, [name], attention_mask=mask)
    assert torch.equal(model(TEXTS), logits)
    assert torch.equal(model.capture(TEXTS, [name])[1][name], store[name])
    assert torch.equal(model.run_with_hooks(TEXTS, [(name, lambda x, hook: x)]), logits)
    assert torch.equal(model.encode(TEXTS), model.encode(tokens, attention_mask=mask))
    last = model.forward(tokens, attention_mask=mask, read="last")
    assert torch.equal(model.forward(TEXTS, read="last"), last)
    few = model.forward(TEXTS, read=3)
    torch.testing.assert_close(few, logits[:, -3:], rtol=1e-4, atol=1e-4)
    with pytest.raises(OptionError, match="read=0: expected 1 or more"):
        model.forward(TEXTS, read=0)
    assert torch.equal(model.resid_pre(TEXTS, 2), store[name])
    alone = model(TEXTS[1])  # padding changes rounding alone
    torch.testing.assert_close(alone[0], logits[1, -alone.shape[1] :], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_residual_without_a_mask_is_that_of_real_tokens() -> None:
    model = shared("Llama")
    tokens = torch.tensor([[5, 17, 3], [41, 29, 11]])
    expected = model.resid_pre(tokens, 1, attention_mask=torch.ones_like(tokens))
    assert torch.equal(model.resid_pre(tokens, 1), expected)


@torch.no_grad()
def test_whole_words() -> None:
    words = Vocabulary.of(["jump twice", "run"])
    config = DecoderConfig(d_vocab=len(words), n_ctx=9, n_layers=2, d_model=8, n_heads=2, d_mlp=8)
    lens = small_decoder(config, init_rate=0.5, seed=0).lens
    small = SmallDecoderModel(lens, name="small", words=words)
    tokens, mask = small.tokenize(["jump run run", "run"])
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]
    assert torch.equal(small(["jump run run", "run"]), small(tokens, attention_mask=mask))
    with pytest.raises(InputError, match="walk"):
        small("run walk")


@torch.no_grad()
@architectures.needs_tl4
def test_a_text_is_the_source_of_an_encoder_decoder(model: LensModel) -> None:
    seq2seq = t5()
    tokens, mask = seq2seq.tokenize(TEXTS)
    asked = PromptOptions()
    items = prepare_all(seq2seq, [Example(text, " dog") for text in TEXTS], asked, answered=False)
    batch = PromptBatch.of([item.prompt for item in items], seq2seq.device)
    assert torch.equal(tokens, batch.tokens)
    assert torch.equal(mask, batch.mask)
    assert torch.equal(seq2seq(TEXTS)[:, -1], seq2seq(tokens, attention_mask=mask)[:, -1])
    with pytest.raises(InputError, match="no decoder_start_token_id.*set model.start_ids"):
        t5(None)("a dog")


def test_what_is_no_text_is_refused(model: LensModel) -> None:
    ids = torch.ones(1, 3, dtype=torch.long)
    wrong: list[tuple[Any, Any, type[Exception], str]] = [
        ("", None, PromptError, "text 0: the prompt '' is empty"),
        (["a", " \n"], None, PromptError, "text 1: the prompt .* is empty"),
        ([], None, InputError, "no texts"),
        ("dog " * 99, None, PromptError, "text 0 has 200 tokens and 'mini-idm' reads 64"),
        ("half \ud800 a pair", None, PromptError, "text 0: .* half of a surrogate pair"),
        ("a dog", ids, InputError, "attention_mask, and texts make their own"),
    ]
    for texts, mask, error, message in wrong:
        with pytest.raises(error, match=message):
            model(texts, attention_mask=mask)
    with pytest.raises(OptionError, match=r"tokens=\[1, 2\] is a list; expected a tensor \[batch"):
        model([1, 2])  # type: ignore[list-item]
    without = shared("small, pre")
    with pytest.raises(InputError, match="'small-decoder' came without a tokenizer; pass one"):
        without("a dog")
    with pytest.raises(InputError, match="the tokenizer gives token .* knows 97"):
        load_model(architectures.build("GPT-2"), tokenizer=model.tokenizer)("a young dog")
