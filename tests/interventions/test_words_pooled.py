"""Pooling by words of the text: the same as by the groups that they stand for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from interp_compose.errors import (
    AlignmentError,
    InputError,
    InterventionError,
    LayerError,
    NonFiniteError,
    OptionError,
    PositionError,
    SpanError,
    TrainingModeError,
)
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.word_vectors import word_vectors
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.text.find_words import word_groups
from interp_compose.text.units import tokenize_prompts
from tests import architectures
from tests.interventions.shared import assert_clean, mini, shared, t5
from tests.text.conftest import byte_level

TEXT = "a young swine and a young dog and a swine"
TEXTS = ["the house of a swine", TEXT]


@pytest.fixture(scope="module")
def model() -> LensModel:
    return mini()


def by_hand(model: LensModel, texts: list[str], units: list[list[tuple[str, ...]]]) -> Tensor:
    """Groups of the words at each place of a text that spell a unit; padded on the left."""
    prompts = tokenize_prompts(model.tokenizer, texts)
    width = max(len(prompt.ids) for prompt in prompts)
    groups = torch.full((len(texts), width), -1)
    for row, (prompt, wanted) in enumerate(zip(prompts, units, strict=True)):
        words = [prompt.group_text(i) for i in range(prompt.n_groups)]
        number = 0
        for at in range(len(words)):
            for unit in wanted:
                if tuple(words[at : at + len(unit)]) == unit:
                    for token, word in enumerate(prompt.groups.tolist(), width - len(prompt.ids)):
                        if at <= word < at + len(unit):
                            groups[row, token] = number
                    number += 1
    return groups


@torch.no_grad()
@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
def test_each_occurrence_of_a_word_is_a_unit(model: LensModel, mode: Any) -> None:
    tokens, mask = model.tokenize(TEXTS)
    asked: list[tuple[Any, list[list[tuple[str, ...]]]]] = [
        ("swine", [[("swine",)], [("swine",)]]),
        (["swine"], [[("swine",)]] * 2),
    ]
    for words, units in asked:
        groups = by_hand(model, TEXTS, units)
        assert int(groups.max()) == 1
        with pool_at(model, 2, groups, mode=mode):
            expected = model(tokens, attention_mask=mask)
        with pool_at(model, 2, words, mode=mode) as pooled:
            assert torch.equal(model(TEXTS), expected)
            assert torch.equal(model(tokens, attention_mask=mask), expected)
        assert (pooled.calls, pooled.n_affected) == (2, 2)
        assert not torch.equal(model(TEXTS)[:, -1], expected[:, -1])
    groups = by_hand(model, [TEXT], [[("a", "young"), ("swine",), ("dog",)]])
    assert int(groups.max()) == 4
    name = "blocks.3.hook_resid_pre"
    with pool_at(model, 1, groups, "max", mode=mode):
        expected = model.capture(TEXT, [name])[1][name]
    with pool_at(model, 1, ["dog", "a young", "swine"], "max", mode=mode):
        assert torch.equal(model.capture(TEXT, [name])[1][name], expected)
    assert_clean(model)


@torch.no_grad()
def test_all_words_are_those_of_the_studies(model: LensModel) -> None:
    prompts = tokenize_prompts(model.tokenizer, TEXTS)
    groups = torch.full_like(model.tokenize(TEXTS).tokens, -1)
    for row, prompt in enumerate(prompts):
        groups[row, -len(prompt.ids) :] = torch.from_numpy(prompt.groups)
    with pool_at(model, 1, groups):
        expected = model(TEXTS)
    with pool_at(model, 1, unit="word") as pooled:
        assert torch.equal(model(TEXTS), expected)
    assert pooled.layout is not None
    assert pooled.layout.sizes[1].tolist() == [1] + [
        int((groups[1] == unit).sum()) for unit in range(int(groups[1].max()) + 1)
    ]
    with pool_at(model, 1, unit="pretoken"), mask_attention(model, keys="house"):
        model(TEXTS[0])


@architectures.needs_tl4
@torch.no_grad()
def test_words_of_an_encoder_decoder_are_its_source_s(model: LensModel) -> None:
    seq2seq = t5()
    tokens, mask = seq2seq.tokenize(TEXT)
    groups = by_hand(model, [TEXT], [[("swine",)]])
    groups = torch.nn.functional.pad(groups, (0, tokens.shape[1] - groups.shape[1]), value=-1)
    with pool_at(seq2seq, 1, groups):
        expected = seq2seq(tokens, attention_mask=mask)[:, -1]
    with pool_at(seq2seq, 1, "swine"):
        assert torch.equal(seq2seq(TEXT)[:, -1], expected)


def test_what_cannot_be_pooled_is_refused(model: LensModel) -> None:
    without = shared("small, pre")
    on_entering: list[tuple[LensModel, dict[str, Any], type[Exception], str]] = [
        (model, {}, OptionError, "expected one of them"),
        (model, {"groups": "dog", "unit": "word"}, OptionError, "expected one of them"),
        (model, {"groups": []}, OptionError, "no words"),
        (model, {"unit": "word", "how": lambda v: v}, OptionError, r"a tensor \[2, 128\]"),
        (model, {"unit": "span"}, OptionError, "expected one of 'word', 'pretoken'"),
        (without, {"groups": "dog"}, InputError, "came without a tokenizer; pass a tensor"),
    ]
    for which, given, error, message in on_entering:
        with pytest.raises(error, match=message), pool_at(which, 0, **given):
            raise AssertionError("it was entered")
    in_a_call: list[tuple[Any, str, type[Exception], str]] = [
        ("horse", TEXT, PositionError, "row 0 has no word 'horse'; its words are a, young.*tensor"),
        (["a young", "young"], TEXT, SpanError, "'a young', 'young' two share a word"),
    ]
    for words, text, error, message in in_a_call:
        with pytest.raises(error, match=message), pool_at(model, 1, words):
            model(text)
    spelled = model.tokenizer.convert_tokens_to_ids(["d", "o", "g"])
    ids = torch.tensor([[0, *spelled]])
    with pytest.raises(AlignmentError, match="pass groups as a tensor"), pool_at(model, 1, "dog"):
        model(ids)
    with (
        pytest.raises(
            InterventionError, match="a run of some of its blocks was called inside a bl"
        ),
        pool_at(model, 1, "dog"),
    ):
        model.resid_pre(TEXT, 3)
    assert_clean(model)


def test_repeated_words_side_by_side_are_two_units() -> None:
    bpe = byte_level()
    ids = bpe("dog dog cat dog")["input_ids"]
    groups = word_groups(bpe, ids, ["dog"])
    assert [group for group in dict.fromkeys(groups) if group >= 0] == [0, 1, 2]
    surfaces = [bpe.decode([i for i, g in zip(ids, groups, strict=True) if g == n]) for n in (0, 1)]
    assert [text.strip() for text in surfaces] == ["dog", "dog"]
    with pytest.raises(SpanError, match="'dog dog'"):
        word_groups(bpe, ids, ["dog dog", "dog"])


@torch.no_grad()
def test_a_residual_is_read_under_a_mask_of_words(model: LensModel) -> None:
    name = "blocks.3.hook_resid_pre"
    clean = model.resid_pre(TEXT, 3)
    with mask_attention(model, keys="young") as record:
        expected = model.capture(TEXT, [name])[1][name]
        assert torch.equal(model.resid_pre(TEXT, 3), expected)
    assert record.calls == 2
    assert not torch.equal(clean, expected)


def ends(vectors: Tensor) -> Tensor:
    return vectors[0] - vectors[-1]


def bert(tokenizer: Any) -> LensModel:
    shape = architectures._SHAPE | {"vocab_size": len(tokenizer)}
    torch.manual_seed(0)
    return load_model(hf.BertForMaskedLM(hf.BertConfig(**shape)).eval(), tokenizer=tokenizer)


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "how"),
    [("decoder", "mean"), ("decoder", "last"), ("encoder", "max"), ("decoder", ends)],
)
def test_vectors_of_words(model: LensModel, kind: str, how: Any) -> None:
    which = model if kind == "decoder" else bert(model.tokenizer)
    layer = which.n_layers - 1
    vectors = word_vectors(which, TEXT, layer, how)
    words = "a (1), young (1), swine (1), and (1), a (2), young (2), dog, and (2), a (3), swine (2)"
    assert list(vectors) == words.split(", ")
    prompt = tokenize_prompts(which.tokenizer, [TEXT])[0]
    resid = which.resid_pre(TEXT, layer)[0].double()
    for unit, vector in enumerate(vectors.values()):
        own = resid[torch.from_numpy(prompt.groups == unit)]
        found = {"mean": own.mean(0), "max": own.max(0).values, "last": own[-1], ends: ends(own)}
        expected = found[how] if len(own) > 1 else own[0]
        torch.testing.assert_close(vector.double(), expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(word_vectors(which, TEXT, -1, how)["dog"], vectors["dog"])
    with pytest.raises(PositionError, match=r"no one word 'young': expected young \(1\) or young"):
        vectors["young"]
    assert not vectors["dog"].requires_grad


@torch.no_grad()
def test_vectors_of_words_under_interventions(model: LensModel) -> None:
    clean = word_vectors(model, TEXT, 3)
    with mask_attention(model, keys="young"):
        masked = word_vectors(model, TEXT, 3)
    assert torch.equal(masked["a (1)"], clean["a (1)"])
    assert not torch.allclose(masked["dog"], clean["dog"])
    with pytest.raises(InterventionError, match="inside a block of po"), pool_at(model, 1, "dog"):
        word_vectors(model, TEXT, 3)

    def broken(resid: Tensor, hook: Any) -> Tensor:
        resid = resid.clone()
        resid[:, -1] = torch.nan
        return resid

    hooks = model.hooks([("blocks.2.hook_resid_pre", broken)])
    with pytest.raises(NonFiniteError, match="'swine \\(2\\)' at layer 2"), hooks:
        word_vectors(model, TEXT, 2)
    with pytest.raises(LayerError, match="layer 4 is outside the model"):
        word_vectors(model, TEXT, 4)
    with pytest.raises(TrainingModeError, match="model.eval"):
        word_vectors(load_model("mini-idm").train(), TEXT, 1)
