"""Units of text, on cases worked out by hand."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from transformers import ByT5Tokenizer

from interp_compose.errors import (
    AlignmentError,
    DataFormatError,
    OptionError,
    PromptError,
    SpanError,
)
from interp_compose.interventions.control_spans import shuffled_groups
from interp_compose.interventions.pooling import PooledLayout
from interp_compose.text.units import TokenizedPrompt, Unit, tokenize_prompts
from interp_compose.types import Example, Span


def groups_of(
    tok: Any, text: str, unit: str = "word", spans: tuple[Span, ...] | None = None, **options: Any
) -> list[str]:
    example = Example(text, " x", spans=spans, tree=options.pop("tree", None))
    prompt = tokenize_prompts(tok, [example], unit=unit, **options)[0]
    return [prompt.group_text(i) for i in range(prompt.n_groups)]


def by_hand(groups: list[int]) -> TokenizedPrompt:
    n = len(groups)
    offsets = np.array([(i, i + 1) for i in range(n)])
    return TokenizedPrompt("abcdefg"[:n], np.arange(n) + 10, np.array(groups), offsets)


CASES = {
    "a young dog": ["a", "young", "dog"],
    "  a   young\n\ndog  ": ["a", "young", "dog"],
    "(then) they": ["(", "then", ")", "they"],
    "🙂 happy": ["🙂", "happy"],
    "日本 dog": ["日本", "dog"],
    "an é dog": ["an", "é", "dog"],
}


@pytest.mark.parametrize("text", CASES)
def test_words(tokenizer: Any, text: str) -> None:
    assert groups_of(tokenizer, text) == CASES[text]


def test_a_contraction_is_two_words_where_the_tokens_allow(tokenizers: dict[str, Any]) -> None:
    by_char = tokenizers["unigram"]
    assert by_char.tokenize("isn't")[-3:] == ["n", "'", "t"]
    assert groups_of(by_char, "it isn't") == ["it", "is", "n't"]


def test_a_token_over_two_words_makes_them_one(bpe: Any) -> None:
    assert bpe.tokenize(" don't") == ["Ġdon", "'t"]
    assert groups_of(bpe, "you don't") == ["you", "don't"]
    assert bpe.tokenize('stop."')[-1] == '."'
    assert groups_of(bpe, '"stop."') == ['"', "stop", '."']


def test_blanks_go_with_what_follows_and_else_with_the_last(bpe: Any) -> None:
    prompt = tokenize_prompts(bpe, [Example("a  \n dog \n", "x")])[0]
    tokens = bpe.convert_ids_to_tokens(prompt.ids.tolist())
    assert tokens[0] == "<|endoftext|>"
    first_of_dog = tokens.index("Ġ")
    assert prompt.groups.tolist()[:first_of_dog] == [-1, 0]
    assert set(prompt.groups.tolist()[first_of_dog:]) == {1}
    assert tokens[-1] == "Ċ"


def test_the_bytes_of_a_character_are_one_group_and_alone_outside_spans(
    tokenizers: dict[str, Any],
) -> None:
    for kind in ("bpe", "bpe-trimmed", "unigram", "llama"):
        for spans, step in (((2, 3),), 0), ((), 1):
            example = Example("a 🙂", "x", spans=spans)
            prompt = tokenize_prompts(tokenizers[kind], [example], unit="span")[0]
            assert np.diff(prompt.groups[-4:]).tolist() == [step] * 3


def test_a_blank_outside_spans_is_alone(bpe: Any) -> None:
    """Nothing outside a span is pooled; a blank before one is the span's."""
    text = "a 1 dog 1"
    groups = {}
    for spans in ((), ((4, 7),), ((8, 9),)):
        prompt = tokenize_prompts(bpe, [Example(text, "x", spans=spans)], unit="span")[0]
        groups[spans] = prompt.groups.tolist()
    tokens = bpe.convert_ids_to_tokens(prompt.ids.tolist())
    assert tokens == ["<|endoftext|>", "a", "Ġ", "1", "Ġdog", "Ġ", "1"]
    alone = [-1, 0, 1, 2, 3, 4, 5]
    assert groups[()] == groups[(4, 7),] == alone
    assert groups[(8, 9),] == [-1, 0, 1, 2, 3, 4, 4]


def test_a_normaliser_that_changes_lengths_keeps_original_offsets(
    tokenizers: dict[str, Any],
) -> None:
    assert groups_of(tokenizers["llama"], "the ﬁne ½ dog") == ["the", "ﬁne", "½", "dog"]
    assert groups_of(tokenizers["wordpiece"], "The DOG Á") == ["The", "DOG", "Á"]


@pytest.mark.parametrize(("kind", "mark"), [("bpe", "Ġ"), ("unigram", "▁"), ("llama", "▁")])
def test_pretokens_begin_at_the_tokenizers_mark(
    tokenizers: dict[str, Any], kind: str, mark: str
) -> None:
    tok = tokenizers[kind]
    prompt = tokenize_prompts(
        tok, [Example("she said: don't (unhappy) stop.", "x")], unit="pretoken"
    )[0]
    surfaces = tok.convert_ids_to_tokens(prompt.ids.tolist())
    expected, n = [], -1
    for surface, group in zip(surfaces, prompt.groups.tolist(), strict=True):
        if group >= 0:
            n += surface.startswith(mark) or n < 0
            expected.append(n)
    assert prompt.groups[prompt.groups >= 0].tolist() == expected


def test_pretokens_of_wordpiece_go_on_at_hashes(tokenizers: dict[str, Any]) -> None:
    tok = tokenizers["wordpiece"]
    prompt = tokenize_prompts(tok, [Example("unhappily (stop).", "x")], unit="pretoken")[0]
    tokens = tok.convert_ids_to_tokens(prompt.ids.tolist())
    assert tokens[:2] == ["[CLS]", "unhapp"]
    assert tokens[2].startswith("##")
    texts = [prompt.group_text(i) for i in range(prompt.n_groups)]
    assert texts == ["unhappily", "(", "stop", ")", "."]


def test_a_composing_normaliser_loses_nothing(tokenizers: dict[str, Any]) -> None:
    """NFKC makes one character of a base and its accent, of jamo, of kana and their marks."""
    text = "e\u0301 \u1112\u1161\u11ab \uff76\uff9e dog"
    prompt = tokenize_prompts(tokenizers["llama"], [Example(text, "x")], unit="pretoken")[0]
    assert prompt.n_groups == 4


@pytest.mark.parametrize("unit", ["word", "pretoken"])
def test_a_special_token_of_the_text_itself_is_in_no_unit(bpe: Any, unit: Any) -> None:
    for text in ("a<|endoftext|> dog", "a <|endoftext|>dog"):
        prompt = tokenize_prompts(bpe, [Example(text, "x")], unit=unit)[0]
        tokens = bpe.convert_ids_to_tokens(prompt.ids.tolist())
        special = [token == "<|endoftext|>" for token in tokens]
        assert sum(special) == 2  # the tokenizer's own, and this one
        assert [group == -1 for group in prompt.groups.tolist()] == special
        assert sorted({*prompt.groups.tolist()}) == list(range(-1, prompt.n_groups))
        for seed in range(8):
            shuffled = shuffled_groups(prompt.groups.tolist(), seed=seed, example=0)
            layout = PooledLayout.from_groups(
                torch.tensor([shuffled]), torch.ones(1, len(shuffled)).long()
            )
            assert layout.n_positions == len({*shuffled}) - 1 + sum(special)


def test_a_special_token_that_the_tokenizer_adds_as_well_is_refused(bpe: Any) -> None:
    rows = [Example("a dog", "x"), Example("<|endoftext|>a dog", "x")]
    with pytest.raises(
        PromptError, match=r"example 1: its text begins with .*<\|endoftext\|>.*twice"
    ):
        tokenize_prompts(bpe, rows)


def test_spans_pool_and_the_rest_stays_apart(bpe: Any) -> None:
    text = "the unhappy dog stopped"
    prompt = tokenize_prompts(bpe, [Example(text, "x", spans=((3, 15),))], unit="span")[0]
    at = [prompt.group_text(i) for i in range(prompt.n_groups)]
    assert "unhappy dog" in at
    sizes = prompt.group_sizes().tolist()
    assert [size for size, name in zip(sizes, at, strict=True) if name != "unhappy dog"] == [1] * (
        len(at) - 1
    )


def test_neighbouring_spans_stay_apart(bpe: Any) -> None:
    assert groups_of(bpe, "a dog a dog", "span", ((6, 11), (0, 5))) == ["a dog", "a dog"]


def test_phrases_of_a_tree_pool_and_the_rest_are_words(bpe: Any) -> None:
    tree = "(S (NP (DT The) (JJ unhappy) (NN dog)) (VP (VBD stopped)))"
    found = groups_of(
        bpe, 'They say: The unhappy dog stopped is "', "constituent", tree=tree, height=2
    )
    assert found == ["They", "say", ":", "The unhappy dog", "stopped", "is", '"']


def test_a_tokens_reach_joins_words_to_a_phrase(bpe: Any) -> None:
    """``don`` + ``'t`` cannot be cut at ``do|n't``, so the phrase takes the whole of it."""
    tree = "(S (NP (PRP you) (VBP do)) (VP (RB n't) (VB think)))"
    assert groups_of(bpe, "you don't think", "constituent", tree=tree, height=2) == [
        "you don't think"
    ]


def test_many_batches_keep_their_order(bpe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interp_compose.text.units._BATCH", 3)
    examples = [Example(f"dog {'a' * n}", "x") for n in range(1, 8)]
    out = tokenize_prompts(bpe, examples)
    assert [prompt.text for prompt in out] == [example.prompt for example in examples]
    assert [prompt.group_text(1) for prompt in out] == ["a" * n for n in range(1, 8)]
    with pytest.raises(PromptError, match="example 7: "):
        tokenize_prompts(bpe, [*examples, Example(" ", "x")])


def test_settings_left_on_the_tokenizer_do_not_cut_or_pad(tokenizers: dict[str, Any]) -> None:
    tok = tokenizers["unigram"]
    tok.pad_token = "<unk>"
    plain = tokenize_prompts(tok, [Example("a", "x"), Example("a young dog", "x")])
    tok(["a", "a young dog"], padding=True, truncation=True, max_length=3)
    again = tokenize_prompts(tok, [Example("a", "x"), Example("a young dog", "x")])
    for one, two in zip(plain, again, strict=True):
        assert one.ids.tolist() == two.ids.tolist()


def test_last_apart() -> None:
    prompt = by_hand([-1, 0, 0, 1, 1, 1])
    apart = prompt.with_last_apart()
    assert apart.groups.tolist() == [-1, 0, 0, 1, 1, 2]
    assert prompt.groups.tolist() == [-1, 0, 0, 1, 1, 1]
    assert apart.with_last_apart() is apart
    assert apart.group_sizes().tolist() == [2, 2, 1]
    ends_special = by_hand([-1, 0, 0, -1])
    assert ends_special.with_last_apart() is ends_special


def test_a_slow_tokenizer_is_aligned_by_decoded_prefixes() -> None:
    tok = ByT5Tokenizer()
    assert not tok.is_fast
    prompt = tokenize_prompts(tok, [Example("é🙂 don't", "x")])[0]
    # é: 2 bytes, 🙂: 4, blank, d, o, n, ', t, </s>
    assert prompt.offsets.tolist() == [
        *[[0, 1]] * 2,
        *[[1, 2]] * 4,
        *[[n, n + 1] for n in range(2, 8)],
        [0, 0],
    ]
    texts = [prompt.group_text(i) for i in range(prompt.n_groups)]
    assert texts == ["é", "🙂", "do", "n't"]
    assert prompt.groups.tolist() == [0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, -1]


@pytest.mark.parametrize("text", ["A dog", "a\ufffd dog"])
def test_a_slow_tokenizer_that_does_not_give_the_text_back_is_refused(text: str) -> None:
    class Lowering(ByT5Tokenizer):  # type: ignore[misc]
        def decode(self, *args: Any, **kwargs: Any) -> str:
            return str(super().decode(*args, **kwargs)).lower()

    with pytest.raises(AlignmentError, match=r"gives no character offsets.*use the fast version"):
        tokenize_prompts(Lowering(), [Example(text, "x")])


@pytest.mark.parametrize("prompt", ["", "  ", "\n\t\u00a0"])
def test_an_empty_prompt_is_refused(bpe: Any, prompt: str) -> None:
    with pytest.raises(PromptError, match=r"example 1: the prompt .* is empty; give it"):
        tokenize_prompts(bpe, [Example("a", "x"), Example(prompt, "x")])


def test_half_a_surrogate_pair_is_refused(bpe: Any) -> None:
    with pytest.raises(PromptError, match=r"example 1: .*\\ud83d.* surrogate pair; decode"):
        tokenize_prompts(bpe, [Example("a\n\nb", "x"), Example("a \ud83d", "x")])


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        (None, r"example 1 has no spans, which unit=\"span\" pools; .*give it spans=\(\)"),
        (((0, 0),), r"example 1: the span \(0, 0\) is empty or leaves the prompt's 11 characters"),
        (((5, 3),), r"the span \(5, 3\) is empty or leaves"),
        (((-1, 3),), r"the span \(-1, 3\) is empty or leaves"),
        (((0, 12),), r"the span \(0, 12\) is empty or leaves"),
        (((1, 2),), r"the span \(1, 2\) of 'a young dog' holds only blanks"),
        (((2, 7), (0, 3)), r"the spans \(0, 3\) and \(2, 7\) overlap; .*drop or shorten one"),
    ],
)
def test_impossible_spans_are_refused(bpe: Any, spans: tuple[Span, ...] | None, why: str) -> None:
    examples = [Example("a dog", "x", spans=()), Example("a young dog", "x", spans=spans)]
    with pytest.raises(SpanError, match=why):
        tokenize_prompts(bpe, examples, unit="span")


def test_a_span_that_cuts_a_token_is_refused(bpe: Any) -> None:
    assert bpe.tokenize(" don't") == ["Ġdon", "'t"]
    with pytest.raises(AlignmentError) as got:
        tokenize_prompts(bpe, [Example("you don't", "x", spans=((4, 6),))], unit="span")
    assert str(got.value) == (
        "example 0: an edge of a span cuts the token 'don' at characters 4 to 7 of "
        '"you don\'t"; move the edge to where a token begins or ends'
    )


def test_unknown_units_and_foreign_options_are_refused(bpe: Any) -> None:
    with pytest.raises(OptionError, match="unit='words'; expected one of 'word', 'pretoken'"):
        tokenize_prompts(bpe, [Example("a", "x")], unit="words")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="unit='phrase'; .* .'phrase' is 'constituent' now"):
        tokenize_prompts(bpe, [Example("a", "x")], unit="phrase")  # type: ignore[arg-type]
    for option in ({"height": 2}, {"labels": frozenset({"NP"})}, {"parser": "spacy"}):
        for unit in set(get_args(Unit)) - {"constituent"}:
            with pytest.raises(OptionError, match="mean nothing for unit"):
                tokenize_prompts(bpe, [Example("a", "x", spans=())], unit=unit, **option)


def test_phrases_need_a_tree_that_fits(bpe: Any) -> None:
    with pytest.raises(SpanError, match=r"example 0 has no tree.*parser=\"benepar\""):
        tokenize_prompts(bpe, [Example("a dog", "x")], unit="constituent")
    bad = Example("a dog", "x", tree="(NP (DT a) (NN cat))")
    with pytest.raises(AlignmentError, match="example 0: the tree's leaf 'cat'"):
        tokenize_prompts(bpe, [bad], unit="constituent")
    with pytest.raises(DataFormatError, match=r"example 0: the tree '\(NP' is not a bracketing"):
        tokenize_prompts(bpe, [Example("a dog", "x", tree="(NP")], unit="constituent")


def test_no_examples_no_prompts(bpe: Any) -> None:
    assert tokenize_prompts(bpe, []) == []
