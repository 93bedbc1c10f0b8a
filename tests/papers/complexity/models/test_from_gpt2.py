"""GPT-2 as a small decoder of a task's words: equal to Hugging Face where words are tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import interp_compose as ic
from interp_compose.errors import CapabilityError, InterventionError, OptionError
from interp_compose.papers.complexity.models.from_gpt2 import decoder_from_gpt2
from interp_compose.papers.shared.text.vocabulary import Vocabulary
from tests import architectures
from tests.studies.conftest import splitting_tokenizer

WORDS = Vocabulary(("a", "b", "xyz"))
TOKENIZER = splitting_tokenizer()


def gpt2(**changes: Any) -> Any:
    from transformers import GPT2LMHeadModel

    config = architectures.build("GPT-2").config
    config.update({"activation_function": "gelu_new", **changes})
    torch.manual_seed(0)
    return GPT2LMHeadModel(config).eval()


def loaded(plain: Any, **options: Any) -> ic.LensModel:
    return ic.load_model(plain, **{"tokenizer": TOKENIZER, **options})


@torch.no_grad()
@pytest.mark.parametrize("act", ["gelu_new", "gelu", "relu"])
def test_logits_are_those_of_hugging_face(act: str) -> None:
    plain = gpt2(activation_function=act)
    for weight in plain.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    decoder = decoder_from_gpt2(loaded(plain), WORDS, n_ctx=6)
    a, b = (TOKENIZER(word, add_special_tokens=False)["input_ids"] for word in "ab")
    assert (len(a), len(b)) == (1, 1)
    theirs = plain(torch.tensor([[*a, *b, *b, 0]])).logits[0]
    ours = decoder(torch.tensor([[3, 4, 4, 1]]))[0]
    assert (ours[:, [1, 3, 4]] - theirs[:, [0, *a, *b]]).abs().max() < 1e-4
    assert ours.std() > 0.1  # not the equality of zeros


@torch.no_grad()
def test_a_word_of_several_tokens_is_their_mean() -> None:
    plain = gpt2()
    decoder = decoder_from_gpt2(loaded(plain), WORDS, n_ctx=6)
    pieces = TOKENIZER("xyz", add_special_tokens=False)["input_ids"]
    assert len(pieces) > 1
    mean = sum(plain.transformer.wte.weight[i].double() for i in pieces) / len(pieces)
    assert torch.allclose(decoder.W_E[5].double(), mean, atol=1e-6)
    assert torch.equal(decoder.W_U[:, 5], decoder.W_E[5])
    assert torch.equal(decoder.W_E[0], plain.transformer.wte.weight[0])  # <s> stands for the end
    assert len(decoder.W_pos) == 6


def test_weights_that_transformer_lens_has_folded_are_refused() -> None:
    from interp_compose.models.bridge import bridge_around

    plain = gpt2()
    for weight in plain.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    bridge = bridge_around(plain)
    model = loaded(bridge)
    bridge.enable_compatibility_mode(disable_warnings=True)
    with pytest.raises(CapabilityError, match="computes something else .* not folded"):
        decoder_from_gpt2(model, WORDS, n_ctx=6)


def test_words_that_the_model_cannot_tell_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(gpt2())
    with pytest.warns(UserWarning, match="1 of 3 words .* same tokens of 'A' and 'B'"):
        decoder_from_gpt2(model, Vocabulary(("A", "B", "a")), n_ctx=6)  # both are unknown

    class Empty:
        eos_token_id, bos_token_id = 0, None

        def __init__(self, ids: list[int]) -> None:
            self.ids = ids

        def __call__(self, word: str, add_special_tokens: bool) -> dict[str, list[int]]:
            return {"input_ids": self.ids}

    for ids in ([], [97]):
        with pytest.raises(OptionError, match=rf"makes \{ids} of 'a': expected tokens, of the 97"):
            decoder_from_gpt2(loaded(gpt2(), tokenizer=Empty(ids)), WORDS, n_ctx=6)
    with ic.ablate(model, heads=[(0, 0)]):
        model(torch.tensor([[1, 2]]))
        with pytest.raises(InterventionError, match="has open interventions"):
            decoder_from_gpt2(model, WORDS, n_ctx=6)


def test_what_a_small_decoder_cannot_be() -> None:
    with pytest.raises(CapabilityError, match="is a LlamaForCausalLM; expected a GPT-2"):
        decoder_from_gpt2(loaded(architectures.build("Llama")), WORDS, n_ctx=6)
    for changes, why in (
        ({"activation_function": "silu"}, "activation_function = 'silu'; expected 'gelu' or"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon = 1e-06; expected 1e-05"),
        ({"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx = True; expected False"),
    ):
        with pytest.raises(CapabilityError, match=why):
            decoder_from_gpt2(loaded(gpt2(**changes)), WORDS, n_ctx=6)
    with pytest.raises(OptionError, match=r"has 500 tokens, and .* 61 positions"):
        decoder_from_gpt2(loaded(gpt2()), WORDS, n_ctx=500)
    without = splitting_tokenizer()
    without.bos_token = None
    for tokenizer in (None, without):
        with pytest.raises(OptionError, match="has no tokenizer with an end of text"):
            decoder_from_gpt2(loaded(gpt2(), tokenizer=tokenizer), WORDS, n_ctx=6)
