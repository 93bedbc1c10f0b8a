"""Byte pairs: against merges by hand, there and back, END inside a text, what is refused."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from interp_compose.errors import OptionError
from interp_compose.papers.complexity.text.bpe import END, LEAST, BpeTokenizer

TEXTS = ["low low low lower", "newest newest widest", "lower newest\nwidest éé"]
TOKENIZER = BpeTokenizer.trained(TEXTS * 2, LEAST + 8)


def test_merges_by_counting() -> None:
    """Each merge joins a pair that occurs most often, counted anew over all pretokens."""
    words = Counter(
        word for text in TEXTS * 2 for word, _ in TOKENIZER.backend_tokenizer.pre_tokenizer
        .pre_tokenize_str(text)
    )  # fmt: skip
    split = {word: list(word) for word in words}
    merges = [tuple(pair) for pair in TOKENIZER.saved()["model"]["merges"]]
    assert len(merges) == 8
    for merge in merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in split.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        assert pairs[merge] == max(pairs.values())
        for parts in split.values():
            for at in range(len(parts) - 2, -1, -1):
                if tuple(parts[at : at + 2]) == merge:
                    parts[at : at + 2] = ["".join(merge)]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_is_written_and_read_back(text: str) -> None:
    ids = TOKENIZER.stream([text])
    assert (ids[0], ids[-1]) == (0, 0)
    assert TOKENIZER.decode(ids[1:-1].tolist()) == text


def test_end_stands_between_texts_and_never_inside() -> None:
    inside = f"low{END}low"
    stream = TOKENIZER.stream([inside, "low"])
    places = (stream == 0).nonzero()[0].tolist()
    assert len(places) == 3
    assert places[0] == 0
    assert TOKENIZER.decode(stream[1 : places[1]].tolist()) == inside
    for tokenizer in (TOKENIZER, BpeTokenizer(json.dumps(TOKENIZER.saved()))):
        assert tokenizer(inside)["input_ids"] == stream[: places[1]].tolist()  # as in training
    assert stream[places[1] + 1 : -1].tolist() == TOKENIZER("low")["input_ids"][1:]


def test_it_is_made_again_of_what_is_saved() -> None:
    again = BpeTokenizer(json.dumps(TOKENIZER.saved()))
    found = again("lower newest", return_offsets_mapping=True)
    assert found == TOKENIZER("lower newest", return_offsets_mapping=True)
    assert found["input_ids"][0] == 0
    assert found["offset_mapping"][0] == (0, 0)
    assert found["offset_mapping"][-1][1] == len("lower newest")
    assert BpeTokenizer.trained(TEXTS[::-1] * 2, LEAST + 8).saved() == TOKENIZER.saved()


def test_a_vocabulary_that_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="vocab_size=256: expected 257 or more"):
        BpeTokenizer.trained(TEXTS, 256)
    with pytest.raises(OptionError, match="vocab_size=1000000000: expected at most 1,048,576"):
        BpeTokenizer.trained(["ab"], 10**9)
    with pytest.raises(OptionError, match="vocab_size=999: the training part supports 2"):
        BpeTokenizer.trained(TEXTS, 999)
