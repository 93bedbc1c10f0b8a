"""Each token of model.generate is the argmax of a call under the same intervention."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from copy import deepcopy
from functools import cache, partial
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.nn.functional import pad

from interp_compose.errors import CapabilityError, InputError, OptionError, PromptError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models import generate
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.papers.lrf.models.decode import greedy_search
from tests import architectures
from tests.interventions.shared import MASK, TOKENS, assert_clean, mini, shared, t5
from tests.interventions.test_words_pooled import by_hand

TEXTS = ["a swine and a young dog", "swine of a young dog"]
NEW = 3
Block = AbstractContextManager[Any]


@cache
def made(name: str) -> LensModel:
    """Random weights, and a tokenizer of words."""
    tokenizer = mini().tokenizer
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "eos_token_id": len(tokenizer) - 1}
    kinds: dict[str, Any] = {
        "GPT-2": (hf.GPT2LMHeadModel, hf.GPT2Config, architectures._GPT2),
        "Llama": (hf.LlamaForCausalLM, hf.LlamaConfig, architectures._GQA),
        "Gemma": (hf.GemmaForCausalLM, hf.GemmaConfig, architectures._GQA | {"head_dim": 14}),
    }
    kind, config, shape = kinds[name]
    model: LensModel = load_model(kind(config(**shape | sizes)).eval(), tokenizer=tokenizer)
    return model


@torch.no_grad()
def by_full_calls(
    model: LensModel, tokens: Tensor, mask: Tensor, block: Callable[[int], list[Block]]
) -> Tensor:
    """The likeliest token of a call on all tokens so far, again and again; ``block`` makes the
    interventions for a prompt that has grown by so many tokens."""
    for new in range(NEW):
        with ExitStack() as opened:
            for one in block(new):
                opened.enter_context(one)
            logits = model(tokens, attention_mask=mask)[:, -1:]
        tokens, mask = torch.cat([tokens, logits.argmax(-1)], dim=1), pad(mask, (0, 1), value=1)
    return tokens


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma"])
def test_greedy_generation_under_interventions(name: str) -> None:
    """Words, numbers and tensors are the prompt's; a shorter text is padded on the left."""
    model = made(name)
    tokens, mask = model.tokenize(TEXTS)
    assert int(mask.sum()) < mask.numel()
    swine = by_hand(model, TEXTS, [[("swine",)]] * 2)
    words = by_hand(model, TEXTS, [[(word,) for word in text.split()] for text in TEXTS])
    two = by_hand(model, TEXTS, [[("swine",), ("young", "dog")], [("swine",), ("young", "dog")]])
    at = torch.zeros_like(mask).bool()
    at[:, [-3, -1]] = True

    def grown(flags: Tensor, new: int) -> Tensor:
        return pad(flags, (0, new), value=-1 if flags.dtype == torch.long else False)

    def double(resid: Tensor, hook: Any) -> Tensor:
        return resid * torch.linspace(0.5, 2, resid.shape[2])

    key, cut, pool = partial(mask_attention, model), partial(ablate, model), partial(pool_at, model)
    stay = partial(mask_residual, model)
    cases: list[tuple[Callable[[], list[Block]], Callable[[int], list[Block]]]] = [
        (lambda: [key(keys="swine")], lambda n: [key(keys=grown(swine >= 0, n))]),
        (
            lambda: [key(keys=[-3, -1], queries=-1, layers=[1, 2])],
            lambda n: [
                key(keys=grown(at, n), queries=grown(last(mask), n), layers=[1, 2]),
            ],
        ),
        (lambda: [key(keys=at, mode="zero")], lambda n: [key(keys=grown(at, n), mode="zero")]),
        (
            lambda: [cut(heads=[0, 2], positions="swine")],
            lambda n: [cut(heads=[0, 2], positions=grown(swine >= 0, n))],
        ),
        (lambda: [cut(heads=[(1, 3)], neurons=[4])], lambda n: [cut(heads=[(1, 3)], neurons=[4])]),
        (
            lambda: [stay(positions="young", layers=1)],
            lambda n: [stay(positions=grown(word(model, "young"), n), layers=1)],
        ),
        (lambda: [pool(1, "swine")], lambda n: [pool(1, grown(swine, n))]),
        (lambda: [pool(1, unit="word")], lambda n: [pool(1, grown(words, n))]),
        (lambda: [pool(2, two, "max")], lambda n: [pool(2, grown(two, n), "max")]),
        (
            lambda: [pool(1, ["swine", "young dog"], mode="broadcast"), key(keys="swine")],
            lambda n: [
                pool(1, grown(two, n), mode="broadcast"),
                key(keys=grown(swine >= 0, n)),
            ],
        ),
        (
            lambda: [pool(2, "swine"), key(keys="swine", layers=2)],
            lambda n: [pool(2, grown(swine, n)), key(keys=grown(swine >= 0, n), layers=2)],
        ),
        (
            lambda: [model.hooks([("blocks.1.hook_resid_pre", double)])],
            lambda n: [model.hooks([("blocks.1.hook_resid_pre", double)])],
        ),
    ]
    if name != "GPT-2":  # each half of them
        cases = cases[name == "Gemma" :: 2]
    plain = model.generate(tokens, NEW, attention_mask=mask)
    assert torch.equal(plain, by_full_calls(model, tokens, mask, lambda n: []))
    changed = 0
    for number, (blocks, block) in enumerate(cases):
        expected = by_full_calls(model, tokens, mask, block)
        with ExitStack() as opened:
            for one in blocks():
                opened.enter_context(one)
            found = model.generate(tokens, NEW, attention_mask=mask)
        assert torch.equal(found, expected), number
        assert_clean(model)
        changed += not torch.equal(found, plain)
    assert changed >= len(cases) // 2
    assert generate.has_cache(model)
    assert torch.equal(model.generate(tokens, NEW, attention_mask=mask), plain)


def last(mask: Tensor) -> Tensor:
    flags = torch.zeros_like(mask).bool()
    flags[:, -1] = True
    return flags


def word(model: LensModel, text: str) -> Tensor:
    return by_hand(model, TEXTS, [[(text,)]] * 2) >= 0


@pytest.mark.parametrize("name", ["native", "small, post"])
def test_models_that_hugging_face_did_not_write(name: str) -> None:
    model = shared(name)
    for block in (lambda n: [], lambda n: [mask_attention(model, keys=3)]):
        expected = by_full_calls(model, TOKENS, MASK, block)
        with ExitStack() as opened:
            for one in block(0):
                opened.enter_context(one)
            found = model.generate(TOKENS, NEW, attention_mask=MASK, do_sample=False)
        assert torch.equal(found, expected)
    assert not generate.has_cache(model)


@torch.no_grad()
def test_rows_of_beams_and_samples_have_their_prompts_words() -> None:
    """Scores of beams are the mean log-probabilities of calls under the same mask."""
    model = made("Llama")
    tokens, mask = model.tokenize(TEXTS)
    swine = word(model, "swine")
    options = {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 1.0}
    with mask_attention(model, keys="swine"), pool_at(model, 1, "young dog"):
        beams = model.generate(
            TEXTS, NEW, **options, return_dict_in_generate=True, output_scores=True
        )
        torch.manual_seed(0)
        sampled = model.generate(TEXTS, NEW, do_sample=True, top_k=2, num_return_sequences=2)
    groups = by_hand(model, TEXTS, [[("young", "dog")]] * 2)
    for row, (sequence, score) in enumerate(
        zip(beams.sequences, beams.sequences_scores, strict=True)
    ):
        of = slice(row // 2, row // 2 + 1)
        assert torch.equal(sequence[: tokens.shape[1]], tokens[of][0])
        total = 0.0
        for at in range(tokens.shape[1], len(sequence)):
            new = at - tokens.shape[1]
            with (
                mask_attention(model, keys=pad(swine[of], (0, new))),
                pool_at(model, 1, pad(groups[of], (0, new), value=-1)),
            ):
                logits = model(sequence[None, :at], attention_mask=pad(mask[of], (0, new), value=1))
            total += float(logits[0, -1].double().log_softmax(-1)[sequence[at]])
        assert abs(total / NEW - float(score)) < 1e-5
    assert [text[: len(TEXTS[row // 2])] for row, text in enumerate(sampled)] == [
        TEXTS[row // 2] for row in range(4)
    ]
    assert len(set(sampled)) > 2


@torch.no_grad()
def test_a_cache_that_gives_other_numbers_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(architectures.build("Llama"))
    module: Any = model.lens.original_model
    real = module.forward

    def with_broken_cache(*args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        out = real(*args, past_key_values=past_key_values, **kwargs)
        if past_key_values is not None:
            out.logits = out.logits.roll(1, dims=-1)
        return out

    monkeypatch.setattr(module, "forward", with_broken_cache)
    expected = by_full_calls(model, TOKENS, MASK, lambda n: [])
    assert torch.equal(model.generate(TOKENS, NEW, attention_mask=MASK, do_sample=False), expected)
    assert not generate.has_cache(model)


@architectures.needs_tl4
@torch.no_grad()
def test_encoder_decoders_go_on_with_their_target() -> None:
    model: Any = t5()
    tokens, mask = model.tokenize(TEXTS)
    source, start = tokens[:, :-1], tokens.new_full((2, 1), model.start_ids[0])
    for words in (None, "young"):
        block: Block = ExitStack() if words is None else mask_attention(model, keys=words)
        with block:
            found = model.generate(tokens, NEW, attention_mask=mask)
            texts = model.generate(TEXTS, NEW)
        keys = torch.zeros_like(mask).bool()
        keys[:, :-1] = by_hand(model, TEXTS, [[("young",)]] * 2) >= 0
        of_target = start
        for new in range(NEW):
            joint, real = model.join(source, of_target, mask[:, :-1])
            call = ExitStack()
            if words is not None:
                call.enter_context(mask_attention(model, keys=pad(keys, (0, new))))
            with call:
                logits = model(joint, attention_mask=real)[:, -1:]
            of_target = torch.cat([of_target, logits.argmax(-1)], dim=1)
        assert torch.equal(found, of_target)
        assert texts == [mini().tokenizer.decode(row[1:]) for row in of_target]
        if words is None:
            rows = greedy_search(model, source, mask[:, :-1], max_length=NEW, eos=907)
            assert rows == of_target[:, 1:].tolist()
    with pytest.raises(
        OptionError, match="reads the source, .*pass encoder_no_repeat_ngram_size=0"
    ):
        model.generate(tokens, NEW, encoder_no_repeat_ngram_size=2)


def test_texts_come_back_up_to_their_end() -> None:
    model = mini()
    both = model.generate(['a young dog is called a "', 'a female horse is called a "'], 2)
    assert both == ['a young dog is called a "puppythe', 'a female horse is called a "mare"']
    assert model.generate('a young dog is called a "', 2) == both[0]
    ids = model.generate(model.tokenize('a young dog is called a "').tokens, 2)
    ended = model.generate(['a young dog is called a "'], 9, eos_token_id=int(ids[0, -1]))
    assert ended == ['a young dog is called a "puppy']
    assert model.generate('a young dog is called a "', 9, stop_strings="the").endswith("puppythe")


@torch.no_grad()
def test_options_are_those_of_hugging_face_with_and_without_an_intervention() -> None:
    torch.manual_seed(0)
    own = hf.GPT2LMHeadModel(hf.GPT2Config(**architectures._GPT2)).eval()
    model = load_model(deepcopy(own))
    tokens = TOKENS[:1]
    first = int(own.generate(tokens, max_new_tokens=1)[0, -1])
    for config in (own.generation_config, model.lens.original_model.generation_config):
        config.update(eos_token_id=first, repetition_penalty=1.5)
    stated = deepcopy(model.lens.original_model.generation_config)
    configured = partial(hf.GenerationConfig, pad_token_id=0)
    for options, length in (
        ({"max_new_tokens": 5}, 1),
        ({"max_new_tokens": 5, "eos_token_id": None}, 5),
        ({"max_new_tokens": 5, "repetition_penalty": None, "min_new_tokens": 4}, None),
        ({"generation_config": configured(max_new_tokens=5, eos_token_id=None)}, 1),
        ({"generation_config": configured(max_new_tokens=12), "eos_token_id": None}, 12),
        ({"generation_config": configured(max_length=9, max_new_tokens=5, min_length=9)}, None),
    ):
        expected = own.generate(tokens, **options)
        assert length in (None, expected.shape[1] - tokens.shape[1])
        assert torch.equal(model.generate(tokens, **options), expected), options
        with model.hooks([("blocks.0.hook_resid_pre", lambda value, hook: value.clone())]):
            assert torch.equal(model.generate(tokens, **options), expected), options
    assert model.lens.original_model.generation_config.to_dict() == stated.to_dict()


def test_what_cannot_be_generated_is_refused() -> None:
    model = shared("GPT-2")
    right = MASK.flip(1)
    refused: list[tuple[LensModel, dict[str, Any], type[Exception], str]] = [
        (shared("BERT"), {}, CapabilityError, "is an encoder and predicts no next token"),
        (model, {"max_new_tokens": 0}, OptionError, "max_new_tokens=0: expected 1 or more"),
        (model, {"max_new_tokens": 56}, PromptError, "reads 61 tokens, so that at most 55 can"),
        (model, {"attention_mask": right}, InputError, "row 1 ends in padding"),
        (model, {"max_length": 9}, OptionError, r"max_length=…\) is not supported: pass max_new"),
        (
            model,
            {"generation_config": hf.GenerationConfig(max_length=9)},
            OptionError,
            r"max_length=…\) is not supported: pass max_new",
        ),
        (model, {"position_ids": TOKENS}, OptionError, "is made anew for every token"),
        (model, {"guidance_scale": 2.0}, OptionError, "calls the model on other prompts"),
        (model, {"colour": "red"}, OptionError, r"generate\(colour=…\) is no option of generation"),
    ]
    for which, options, error, message in refused:
        with pytest.raises(error, match=message):
            which.generate(TOKENS, **options)
    for options in ({"use_cache": True}, {"output_attentions": True}):
        with (
            pytest.raises(OptionError, match=r"cannot be had here.*mask_attention"),
            mask_attention(model, keys=1),
        ):
            model.generate(TOKENS, **options)

    def fails(resid: Tensor, hook: Any) -> Tensor:
        raise ValueError("inside the hook")

    hooks = model.hooks([("blocks.0.hook_resid_pre", fails)])
    with pytest.raises(ValueError, match="^inside the hook$"), hooks:
        model.generate(TOKENS)
    with pytest.raises(InputError, match="an attention_mask, and texts make their own"):
        mini().generate("a dog", attention_mask=MASK)
    assert_clean(model)
