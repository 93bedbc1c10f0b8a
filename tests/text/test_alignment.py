"""The laws of alignment, over any text, against a slow reference written out by characters."""

from __future__ import annotations

import os
import unicodedata
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from interp_compose.errors import AlignmentError
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts
from interp_compose.types import Example

NLP = spacy.blank("en")
KINDS = ("bpe", "bpe-trimmed", "unigram", "llama", "wordpiece")
TRICKY = "ab T'.,\"?-:()n't  \t\n\u00a0\u3000é\u0301\u0308日本ﬁ½🙂👩\u200d🚀\ufe0f🏽Ġ▁#İß\u200b<>"
TEXTS = st.one_of(
    st.text(st.sampled_from(TRICKY), min_size=1, max_size=24),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.lists(st.sampled_from(["don't", "unhappy", ' "stop."', "\n\n", "  ", "(then)", "🙂🙂"])).map(
        " ".join
    ),
)
many = settings(
    max_examples=int(os.environ.get("ALIGNMENT_EXAMPLES", "20")),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def spacy_words(text: str) -> list[int | None]:
    """The word of every character, each run of non-blanks split by spaCy on its own."""
    out: list[int | None] = [None] * len(text)
    n, at = 0, 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        end = at
        while end < len(text) and not text[end].isspace():
            end += 1
        for word in NLP.make_doc(text[at:end]):
            for char in range(at + word.idx, at + word.idx + len(word)):
                out[char] = n
            n += 1
        at = end
    return out


def reference(prompt: TokenizedPrompt, special: list[bool], unit_of: list[int | None]) -> list[int]:
    """Join any two tokens that touch the same unit, until nothing changes; then number."""
    touched: list[set[int]] = []
    for (low, high), mark in zip(prompt.offsets.tolist(), special, strict=True):
        units = {unit_of[char] for char in range(low, high)} - {None}
        touched.append(set() if mark else {u for u in units if u is not None})
    changed = True
    while changed:
        changed = False
        for i in range(len(touched)):
            for j in range(len(touched)):
                if touched[i] & touched[j] and touched[i] != touched[j]:
                    touched[i] = touched[j] = touched[i] | touched[j]
                    changed = True
    plain = [i for i, mark in enumerate(special) if not mark]
    shown = [i for i in plain if touched[i]]
    groups, names = [-1] * len(special), {}
    for i in plain:
        later = [j for j in shown if j >= i]
        home = later[0] if later else shown[-1]
        groups[i] = names.setdefault(frozenset(touched[home]), len(names))
    return groups


def attempt(tok: Any, text: str, unit: str) -> TokenizedPrompt:
    """Tokenize, where a refusal is right only if the tokenizer did drop a character."""
    assume(text.strip())
    spans = () if unit == "span" else None
    try:
        return tokenize_prompts(tok, [Example(text, " x", spans=spans)], unit=unit)[0]
    except AlignmentError:
        encoded = tok(text, return_offsets_mapping=True)
        covered = {c for low, high in encoded["offset_mapping"] for c in range(low, high)}
        lost = [c for i, c in enumerate(text) if i not in covered and not c.isspace()]
        assert lost
        assert "wordpiece" in str(tok.unk_token).lower() or tok.unk_token == "[UNK]"
        assume(False)
        raise


@pytest.mark.parametrize("kind", KINDS)
@many
@given(text=TEXTS)
@example(text='he said: "stop."  don\'t\n\n🙂 café cafe\u0301 ')
def test_every_token_is_in_exactly_one_pretoken(
    tokenizers: dict[str, Any], kind: str, text: str
) -> None:
    tok = tokenizers[kind]
    prompt = attempt(tok, text, "pretoken")
    out = tok(text, return_special_tokens_mask=True)
    assert prompt.ids.tolist() == out["input_ids"]
    special = np.array(out["special_tokens_mask"], dtype=bool)
    assert np.array_equal(prompt.groups == -1, special)
    assert not prompt.offsets[special].any()
    inner = prompt.groups[~special]
    assert inner[0] == 0
    assert set(np.diff(inner).tolist()) <= {0, 1}
    assert prompt.n_groups == inner[-1] + 1 == len(prompt.group_sizes())
    assert prompt.group_sizes().sum() == len(inner)


@pytest.mark.parametrize("kind", KINDS)
@many
@given(text=TEXTS)
@example(text="don't")
@example(text=' ."  x')
@example(text="a  \n b  ")
def test_groups_equal_the_slow_reference(tokenizers: dict[str, Any], kind: str, text: str) -> None:
    tok = tokenizers[kind]
    prompt = attempt(tok, text, "word")
    special = [bool(m) for m in tok(text, return_special_tokens_mask=True)["special_tokens_mask"]]
    assert prompt.groups.tolist() == reference(prompt, special, spacy_words(text))


@pytest.mark.parametrize("kind", ["bpe", "bpe-trimmed", "unigram"])
@pytest.mark.parametrize("unit", ["word", "pretoken"])
@many
@given(text=TEXTS)
def test_the_groups_cover_the_text(
    tokenizers: dict[str, Any], kind: str, unit: str, text: str
) -> None:
    prompt = attempt(tokenizers[kind], text, unit)
    joined = "".join(prompt.group_text(i) for i in range(prompt.n_groups))
    assert "".join(joined.split()) == "".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["word", "pretoken"])
@many
@given(words=st.lists(st.text("abdeglonpruy", min_size=1, max_size=12), min_size=1, max_size=8))
def test_plain_words_are_the_groups(
    tokenizers: dict[str, Any], kind: str, unit: str, words: list[str]
) -> None:
    # spaCy splits a few runs of letters too, such as "gonna"; none is spelt with these letters
    text = " ".join(words)
    prompt = tokenize_prompts(tokenizers[kind], [Example(text, " x")], unit=unit)[0]
    assert [prompt.group_text(i) for i in range(prompt.n_groups)] == words


@pytest.mark.parametrize("kind", KINDS)
@many
@given(texts=st.lists(st.text(st.sampled_from(TRICKY), max_size=9), max_size=5))
def test_a_batch_is_its_examples_one_by_one(
    tokenizers: dict[str, Any], kind: str, texts: list[str]
) -> None:
    tok = tokenizers[kind]
    examples = [Example("a" + text, " x") for text in texts]
    together = tokenize_prompts(tok, examples)
    for one, many_ in zip(examples, together, strict=True):
        alone = tokenize_prompts(tok, [one])[0]
        assert many_.text == alone.text
        assert np.array_equal(many_.ids, alone.ids)
        assert np.array_equal(many_.groups, alone.groups)
        assert np.array_equal(many_.offsets, alone.offsets)


@pytest.mark.parametrize("kind", KINDS)
@many
@given(text=TEXTS, data=st.data())
def test_spans_are_groups_or_are_refused(
    tokenizers: dict[str, Any], kind: str, text: str, data: st.DataObject
) -> None:
    """Random spans: each becomes one group, of its tokens and the blank ones before it (and after
    it, at the end), unless an edge cuts a token; every other token is a group alone."""
    assume(text.strip())
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=6)))
    spans = tuple((a, b) for a, b in pairwise(cuts) if text[a:b].strip())[::2]
    tok = tokenizers[kind]
    single = attempt(tok, text, "span")
    inside = [
        [{i for i in range(low, high) if a <= i < b and not text[i].isspace()} for a, b in spans]
        for low, high in single.offsets.tolist()
    ]
    shown = [
        {i for i in range(low, high) if not text[i].isspace()}
        for low, high in single.offsets.tolist()
    ]
    cut = any(
        part and part != whole for parts, whole in zip(inside, shown, strict=True) for part in parts
    )
    asked = [Example(text, "x", spans=spans)]
    if cut:
        with pytest.raises(AlignmentError, match="an edge of a span cuts the token"):
            tokenize_prompts(tok, asked, unit="span")
        return
    prompt = tokenize_prompts(tok, asked, unit="span")[0]
    plain = [i for i, group in enumerate(single.groups.tolist()) if group >= 0]
    names: dict[Any, int] = {}
    for i in plain:
        later = [j for j in plain if j >= i and shown[j]]
        home = later[0] if later else [j for j in plain if shown[j]][-1]
        of = [n for n in range(len(spans)) if inside[home][n]]
        assert prompt.groups[i] == names.setdefault(of[0] if of else ("alone", i), len(names))
    assert np.array_equal(prompt.groups == -1, single.groups == -1)


def test_a_lost_character_is_shown(tokenizers: dict[str, Any]) -> None:
    assert unicodedata.category("\ufffd") == "So"
    examples = [Example("fine", "x"), Example("a dog\ufffd barks", "x")]
    with pytest.raises(
        AlignmentError, match=r"example 1: '\ufffd barks', at character 5 of"
    ) as got:
        tokenize_prompts(tokenizers["wordpiece"], examples)
    assert "use a tokenizer that keeps it" in str(got.value)


def test_a_dropped_accent_or_control_character_is_no_loss(tokenizers: dict[str, Any]) -> None:
    prompt = tokenize_prompts(tokenizers["wordpiece"], [Example("a cafe\u0301\u200b dog", "x")])[0]
    assert prompt.groups.max() == 2


def test_text_that_leaves_no_token_is_refused(tokenizers: dict[str, Any]) -> None:
    with pytest.raises(AlignmentError, match=r"example 0: .* gives no token at all"):
        tokenize_prompts(tokenizers["wordpiece"], [Example("\u200b", "x")])


NORMALISERS: dict[str, Any] = {
    "NFC": normalizers.NFC(),
    "NFKC": normalizers.NFKC(),
    "NFD": normalizers.NFD(),
    "NFKD": normalizers.NFKD(),
    "no accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
    "BERT": normalizers.BertNormalizer(),
    "lower case": normalizers.Sequence([normalizers.Lowercase(), normalizers.NFC()]),
    "none": normalizers.Sequence([]),
}
COMPOSED = [
    "한국말 word",
    "café ệ việt",
    "שָׁלוֹם a",
    "が かが",
    "ﬁsh oﬀ",
    "ﷺ a",
    "ﻻ b",
    "ｶﾞ b",
    "İx ß",
    "क्ष नि",
]


def letters_apart(normalizer: Any) -> Any:
    """A tokenizer with a token for each letter that the normaliser leaves."""
    backend = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    backend.normalizer = normalizer
    blanks, letters = pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("", "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([blanks, letters])
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


@pytest.mark.parametrize("kind", NORMALISERS)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_the_text_of_a_unit_is_its_word_whatever_composes_letters(kind: str, form: Any) -> None:
    """Every character that is not blank is in the text of the one word that it is in."""
    tokenizer = letters_apart(NORMALISERS[kind])
    for one in COMPOSED[:-1] if kind == "no accents" else COMPOSED:  # which drops some vowels
        text = unicodedata.normalize(form, one)
        (prompt,) = tokenize_prompts(tokenizer, [text])
        assert [prompt.group_text(i) for i in range(prompt.n_groups)] == text.split()
        decoded = [text[low:high] for low, high in prompt.offsets.tolist()]
        assert set("".join(decoded)) == set("".join(text.split()))


def test_a_letter_that_is_composed_is_not_parted() -> None:
    tokenizer = letters_apart(normalizers.NFC())
    text = unicodedata.normalize("NFD", "≠b 각 a")  # for spaCy a word ends after the sign "="
    (prompt,) = tokenize_prompts(tokenizer, [text])
    assert [prompt.group_text(i) for i in range(3)] == text.split()
    whole = Example(text, "", spans=((4, 7),))
    (prompt,) = tokenize_prompts(tokenizer, [whole], unit="span")
    assert prompt.group_text(2) == unicodedata.normalize("NFD", "각")
    with pytest.raises(AlignmentError, match="an edge of a span cuts the token"):
        tokenize_prompts(tokenizer, [Example(text, "", spans=((5, 7),))], unit="span")


def test_controls_belong_to_their_unit() -> None:
    tokenizer = letters_apart(normalizers.BertNormalizer())
    text = "\u200bso\u00adft\u200b \u0301a b\u200b"
    (prompt,) = tokenize_prompts(tokenizer, [text])
    assert [prompt.group_text(i) for i in range(prompt.n_groups)] == text.split()


def test_a_first_letter_that_is_lost_is_refused() -> None:
    tokenizer = letters_apart(normalizers.Replace("q", ""))
    with pytest.raises(AlignmentError, match="example 0: 'qa b', at character 0 of 'qa b', is in"):
        tokenize_prompts(tokenizer, ["qa b"])
