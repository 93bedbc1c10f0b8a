"""An answer is one token in its context, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from interp_compose.errors import AnswerError
from interp_compose.text.answers import answer_ids, answer_tokens
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example


def ids_of(tok: Any, *examples: Example) -> list[int]:
    return answer_ids(tok, list(examples), tokenize_prompts(tok, examples)).tolist()


@pytest.mark.parametrize("kind", ["bpe", "bpe-trimmed", "llama"])
def test_the_id_is_what_follows_the_prompt(tokenizers: dict[str, Any], kind: str) -> None:
    tok = tokenizers[kind]
    prompt = "an unhappy dog is called"
    answer = " a"
    found = ids_of(tok, Example(prompt, answer), Example("the", "?"))
    assert tok.convert_ids_to_tokens(found) == [tok.tokenize("x a")[-1], "?"]


def test_an_answer_of_several_tokens_is_refused(bpe: Any) -> None:
    with pytest.raises(AnswerError, match=r"example 1: the answer ' zebra' after 'a' is") as got:
        ids_of(bpe, Example("a", " dog"), Example("a", " zebra"))
    pieces = [piece.replace("Ġ", " ") for piece in bpe.tokenize(" zebra")]
    assert f"is {len(pieces)} tokens, {pieces}, and has to be one" in str(got.value)
    assert "multi_token" not in str(got.value)  # whoever asks has no such option


def test_answers_of_several_tokens_where_they_are_asked_for(bpe: Any) -> None:
    examples = [Example("a", " dog"), Example("a", " zebra")]
    prompts = tokenize_prompts(bpe, examples)
    found = answer_tokens(bpe, examples, prompts, several=True)
    assert [bpe.convert_ids_to_tokens(ids) for ids in found] == [
        bpe.tokenize(" dog"),
        bpe.tokenize(" zebra"),
    ]
    with pytest.raises(AnswerError, match=r"or pass multi_token_answers=True \(--multi-token-a"):
        answer_tokens(bpe, examples, prompts, several=False)


def test_an_answer_that_changes_the_prompt_is_refused(bpe: Any) -> None:
    assert bpe.tokenize("the ") == ["the", "Ġ"]
    with pytest.raises(
        AnswerError, match=r"prompt's tokens \[' '\] into .*' dog'.*; move a leading space"
    ):
        ids_of(bpe, Example("the ", "dog"))


def test_an_answer_that_vanishes_is_refused(tokenizers: dict[str, Any]) -> None:
    """One that merges into the prompt's last token adds none."""
    tok = tokenizers["bpe"]
    assert tok.tokenize("do") + tok.tokenize("g") == ["do", "g"]
    assert tok.tokenize(" dog") == ["Ġdog"]
    with pytest.raises(AnswerError, match="changes the prompt's tokens"):
        ids_of(tok, Example("a do", "g"))


def test_half_a_surrogate_pair_is_no_answer(bpe: Any) -> None:
    examples = [Example("a", "b"), Example("a", "\ud83d")]
    prompts = tokenize_prompts(bpe, examples)
    with pytest.raises(AnswerError, match=r"example 1: the answer .*\\ud83d.* surrogate pair"):
        answer_ids(bpe, examples, prompts)


def test_an_empty_answer_is_refused(bpe: Any) -> None:
    with pytest.raises(AnswerError, match="example 0: the answer is empty"):
        ids_of(bpe, Example("a", ""))


def test_a_tokenizer_that_ends_its_texts_is_refused(tokenizers: dict[str, Any]) -> None:
    with pytest.raises(AnswerError, match=r"ends every text with '\[SEP\]'.*add_eos_token=False"):
        ids_of(tokenizers["wordpiece"], Example("a", " dog"))


def test_an_unknown_token_is_no_answer(tokenizers: dict[str, Any]) -> None:
    tok = tokenizers["bpe"]
    known = tok.convert_tokens_to_ids("Ġdog")
    before = tok.unk_token
    tok.unk_token = "Ġdog"
    try:
        assert tok.unk_token_id == known
        with pytest.raises(AnswerError, match="' dog' after 'a' is unknown to this tokenizer"):
            ids_of(tok, Example("a", " dog"))
    finally:
        tok.unk_token = before
