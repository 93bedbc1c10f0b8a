"""Passages, pairs of sentences and masks, by hand, by slow rules and by their statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from interp_compose.errors import InputError
from interp_compose.papers.cat.text.wordpiece import CLS, MASK, PAD, SEP, SPECIALS, WordPieces
from interp_compose.papers.cat.training import sentences
from interp_compose.papers.cat.training.sentences import (
    Lexicon,
    MaskedBatch,
    Passages,
    Sentences,
    masked_batch,
)

D_VOCAB = 60
GOES_ON = 40
"""The first entry that goes on with a word; all that follow do as well."""
CONTINUES = np.arange(D_VOCAB) >= GOES_ON
VOCABULARY = WordPieces(
    CONTINUES, np.arange(len(SPECIALS), D_VOCAB), pad=PAD, cls=CLS, sep=SEP, mask=MASK
)
LENGTHS = st.lists(st.lists(st.integers(1, 13), min_size=1, max_size=6), min_size=1, max_size=5)
"""Of the sentences of documents."""

Rows = list[list[int]]
Annotations = dict[tuple[int, ...], tuple[int, ...]]


def text_of(documents: list[Rows]) -> Sentences:
    """Sentences of token ids, as they are kept in a file."""
    flat = [sentence for document in documents for sentence in document]
    return Sentences(
        np.array([token for sentence in flat for token in sentence], dtype=np.uint16),
        np.cumsum([0, *map(len, flat)]),
        np.cumsum([0, *map(len, documents)]),
    )


def numbered(lengths: list[list[int]]) -> Sentences:
    """Every token is another one: its place in the text, after the special ones."""
    text = text_of([[[0] * n for n in document] for document in lengths])
    tokens = np.arange(len(text.tokens), dtype=np.int32) + len(SPECIALS)
    return Sentences(tokens, text.starts, text.documents)


def made_up(n_documents: int, *, seed: int = 0, d_vocab: int = D_VOCAB) -> Sentences:
    """Documents of 1 to 29 sentences of 3 to 24 tokens; a third of the tokens goes on with a
    word, none at the beginning of a sentence."""
    random = np.random.default_rng(seed)
    documents = []
    for _ in range(n_documents):
        document = []
        for _ in range(random.integers(1, 30)):
            own = random.integers(len(SPECIALS), GOES_ON, random.integers(3, 25))
            more = random.random(len(own)) < 1 / 3
            more[0] = False
            own[more] = random.integers(GOES_ON, d_vocab, int(more.sum()))
            document.append(own.tolist())
        documents.append(document)
    return text_of(documents)


def document_of(text: Sentences, sentence: int) -> int:
    """By looking through all of them."""
    for number, first in enumerate(text.documents[:-1]):
        if first <= sentence < text.documents[number + 1]:
            return number
    raise AssertionError("no document has it")


def batch_of(
    passages: Passages, seed: int, lexicon: Lexicon | None = None, vocabulary: Any = VOCABULARY
) -> MaskedBatch:
    return masked_batch(
        passages,
        np.arange(len(passages)),
        vocabulary=vocabulary,
        lexicon=lexicon,
        random=np.random.default_rng(seed),
    )


def unmasked(batch: MaskedBatch) -> Rows:
    """The tokens as they were, padding included."""
    tokens = batch.tokens.clone().flatten()
    tokens[batch.at] = batch.target
    rows: Rows = tokens.view_as(batch.tokens).tolist()
    return rows


# ---- passages ------------------------------------------------------------------------------------


def test_passages_by_hand() -> None:
    """Seven tokens fit; a document ends in the middle, one is empty, one sentence is too long."""
    text = numbered([[3, 4, 1], [], [9, 2], [6, 2, 5]])
    passages = Passages.of(text, 10)
    assert passages.bounds.tolist() == [[0, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 8]]
    assert len(passages) == len(passages.lengths) == 6
    assert passages.lengths[0] == passages.lengths[5] == 10
    assert passages.lengths[2] == 10  # 9 tokens, of which 8 are read
    assert passages.counts.tolist() == passages.lengths


@given(LENGTHS, st.integers(4, 24))
def test_every_sentence_once_and_as_many_as_fit(lengths: list[list[int]], n_ctx: int) -> None:
    text = numbered(lengths)
    bounds = Passages.of(text, n_ctx).bounds.tolist()
    assert [i for low, high in bounds for i in range(low, high)] == list(
        range(sum(map(len, lengths)))
    )
    flat = [n for document in lengths for n in document]
    for low, high in bounds:
        assert document_of(text, low) == document_of(text, high - 1)
        assert sum(flat[low:high]) + 3 <= n_ctx or high - low == 1
        if high not in text.documents:  # another sentence of the document would not fit
            assert sum(flat[low : high + 1]) + 3 > n_ctx


def test_some_passages_from_all_over_the_text() -> None:
    passages = Passages.of(made_up(40), 32)
    few = passages.first(50)
    places = [passages.bounds.tolist().index(one) for one in few.bounds.tolist()]
    assert len(set(places)) == 50
    assert places == sorted(places)
    assert places[0] < len(passages) / 10
    assert places[-1] > len(passages) * 9 / 10
    assert few.bounds.tolist() == passages.first(50).bounds.tolist()
    assert passages.first(len(passages)) is passages


def test_a_text_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InputError, match="n_ctx=3: expected 4 or more, for three special tokens"):
        Passages.of(numbered([[1]]), 3)
    for text in (numbered([]), numbered([[], []])):
        with pytest.raises(InputError, match="the text has no sentence to read"):
            Passages.of(text, 4)


# ---- pairs ---------------------------------------------------------------------------------------


def check_pair(passages: Passages, index: int, random: np.random.Generator) -> int:
    """What a pair must be, with each token another one."""
    text, (low, high) = passages.text, passages.bounds[index].tolist()
    starts, tokens = text.starts.tolist(), text.tokens.tolist()
    first, second, follows = passages.paired(index, random)
    whole = tokens[starts[low] : starts[high]]
    assert follows in (-1, 0, 1)
    assert (follows == -1) == (high - low == 1)
    if second is None:
        assert follows == -1
        assert first.tolist() == whole[: passages.n_ctx - 2]
        return follows
    assert follows != -1
    assert len(first) + len(second) + 3 <= passages.n_ctx
    cuts = [starts[sentence] - starts[low] for sentence in range(low + 1, high)]
    assert first.tolist() in [whole[:cut] for cut in cuts]
    if follows:
        assert [*first.tolist(), *second.tolist()] == whole
        return follows
    begin = starts.index(tokens.index(int(second[0])))
    (last,) = [one for one in passages.bounds.tolist() if one[0] < begin < one[1]]
    assert second.tolist() == tokens[starts[begin] : starts[last[1]]]  # to the passage's end
    assert document_of(text, begin) != document_of(text, low)
    return follows


@given(LENGTHS, st.integers(4, 24), st.integers(0, 99))
def test_pairs_are_of_one_passage_or_of_two_documents(
    lengths: list[list[int]], n_ctx: int, seed: int
) -> None:
    passages, random = Passages.of(numbered(lengths), n_ctx), np.random.default_rng(seed)
    for index in range(len(passages)):
        check_pair(passages, index, random)


def test_half_of_the_pairs_follow() -> None:
    """Where nothing of another document fits in a few tries the second part follows, so that it
    does so a little more often. The standard error is below 0.01."""
    passages, random = Passages.of(made_up(300), 64), np.random.default_rng(0)
    labels = [passages.paired(i, random)[2] for i in range(len(passages)) for _ in range(3)]
    paired = [one for one in labels if one >= 0]
    assert len(paired) > 3000
    assert 0.47 < np.mean(paired) < 0.56


def test_each_kind_of_pair_is_met() -> None:
    text = numbered([[4, 3, 5, 2], [6], [3, 3, 2, 7, 1], [2, 9, 2], [4, 4]])
    passages, random = Passages.of(text, 16), np.random.default_rng(0)
    found = {check_pair(passages, i, random) for i in range(len(passages)) for _ in range(20)}
    assert found == {-1, 0, 1}


def test_a_passage_is_parted_at_any_of_its_sentences() -> None:
    passages = Passages.of(numbered([[4, 3, 5, 2, 1], [3, 3, 2, 7]]), 18)
    cuts: dict[int, list[int]] = {0: [], 1: []}
    random = np.random.default_rng(0)
    for _ in range(600):
        first, _, follows = passages.paired(0, random)
        if follows == 1:
            cuts[0].append(len(first))
        first, _, follows = passages.paired(1, random)
        if follows == 1:
            cuts[1].append(len(first))
    for found, places in ((cuts[0], (4, 7, 12, 14)), (cuts[1], (3, 6, 8))):
        assert set(found) == set(places)
        assert min(found.count(place) for place in places) > len(found) / 10


def test_a_document_alone_has_no_other_second_part() -> None:
    passages, random = Passages.of(numbered([[2, 3, 2, 4, 1, 3]]), 9), np.random.default_rng(0)
    for _ in range(20):
        assert check_pair(passages, 0, random) == 1


# ---- batches -------------------------------------------------------------------------------------


def test_a_batch_of_single_sentences_by_hand() -> None:
    """The second row is cut off at n_ctx=8, and the third has one word, which is masked."""
    text = text_of([[[7, 41, 9, 8, 42]], [[11, 12, 50, 51, 13, 14, 15, 16]], [[20, 43]]])
    batch = batch_of(Passages.of(text, 8), 0)
    assert unmasked(batch) == [
        [CLS, 7, 41, 9, 8, 42, SEP, PAD],
        [CLS, 11, 12, 50, 51, 13, 14, SEP],
        [CLS, 20, 43, SEP, PAD, PAD, PAD, PAD],
    ]
    assert batch.words.tolist() == [
        [0, 1, 1, 2, 3, 3, 4, -1],
        [0, 1, 2, 2, 2, 3, 4, 5],
        [0, 1, 1, 2, -1, -1, -1, -1],
    ]
    assert batch.mask.tolist() == [[1] * 7 + [0], [1] * 8, [1] * 4 + [0] * 4]
    assert not batch.segments.any()
    assert batch.follows.tolist() == [-1, -1, -1]
    assert [int(at) for at in batch.at if at >= 16] == [17, 18]
    assert batch.guided.shape == (0,)
    assert batch.sememes.shape == (0, 0)


def check_batch(batch: MaskedBatch, n_ctx: int) -> None:
    """All laws of what a row is, token by token."""
    seen, mask, words = batch.tokens.tolist(), batch.mask.tolist(), batch.words.tolist()
    width = batch.tokens.shape[1]
    assert width <= n_ctx
    assert max(sum(row) for row in mask) == width  # no more padding than is needed
    chosen = torch.zeros(batch.tokens.numel(), dtype=torch.bool)
    chosen[batch.at] = True
    assert batch.at.tolist() == chosen.nonzero().flatten().tolist()  # ascending, each once
    for row, own in enumerate(unmasked(batch)):
        masked, n = chosen.view(-1, width)[row].tolist(), sum(mask[row])
        ends = [at for at in range(n) if own[at] == SEP]
        assert mask[row] == [1] * n + [0] * (width - n)
        assert own[0] == CLS
        assert ends[-1] == n - 1
        assert len(ends) == (1 if batch.follows[row] == -1 else 2)
        assert own[n:] == seen[row][n:] == [PAD] * (width - n)
        assert batch.segments[row].tolist() == [int(ends[0] < at < n) for at in range(width)]
        number, expected = -1, []
        for at in range(n):
            number += not CONTINUES[own[at]]
            expected.append(number)
        assert words[row] == expected + [-1] * (width - n)
        groups = [[at for at in range(n) if expected[at] == w] for w in range(number + 1)]
        for group in groups:
            kinds, special = {masked[at] for at in group}, own[group[0]] in (CLS, SEP)
            assert len(kinds) == 1  # all tokens of a word alike
            if not kinds.pop():
                assert [seen[row][at] for at in group] == [own[at] for at in group]
                continue
            assert not special
            as_mask = [seen[row][at] == MASK for at in group]
            assert all(as_mask) or not any(as_mask)
            assert all(seen[row][at] == MASK or seen[row][at] >= len(SPECIALS) for at in group)
        assert any(masked)  # at least one word of each row
        assert not any(masked[at] for at in (0, *ends, *range(n, width)))
    assert bool((batch.target >= len(SPECIALS)).all())


@settings(max_examples=40)
@given(st.integers(0, 2**40), st.integers(8, 40))
def test_batches_hold_together(seed: int, n_ctx: int) -> None:
    check_batch(batch_of(Passages.of(made_up(3, seed=seed % 97), n_ctx), seed), n_ctx)


@settings(max_examples=40)
@given(LENGTHS, st.integers(4, 24), st.integers(0, 99))
def test_a_row_is_its_pair(lengths: list[list[int]], n_ctx: int, seed: int) -> None:
    """With each token another one, so that where it stands in the text is known."""
    passages = Passages.of(numbered(lengths), n_ctx)
    alone = np.zeros(sum(map(sum, lengths)) + len(SPECIALS), dtype=bool)
    batch = batch_of(passages, seed, vocabulary=replace(VOCABULARY, continues=alone))
    starts, tokens = passages.text.starts.tolist(), passages.text.tokens.tolist()
    for (low, high), row, follows in zip(
        passages.bounds.tolist(), unmasked(batch), batch.follows.tolist(), strict=True
    ):
        own = [token for token in row if token >= len(SPECIALS)]
        whole = tokens[starts[low] : starts[high]]
        if follows == 0:
            first = row[1 : row.index(SEP)]
            assert first == whole[: len(first)]
            assert not set(own[len(first) :]) & set(whole)
        else:
            assert own == (whole if follows == 1 else whole[: n_ctx - 2])


def test_the_seed_decides_a_batch() -> None:
    passages = Passages.of(made_up(5), 32)
    one, again, other = (vars(batch_of(passages, seed)) for seed in (3, 3, 4))
    assert all(torch.equal(value, again[name]) for name, value in one.items())
    for name in ("tokens", "at", "follows"):
        assert one[name].shape != other[name].shape or not torch.equal(one[name], other[name])
    moved = vars(batch_of(passages, 3).to(torch.device("cpu")))
    assert all(torch.equal(value, moved[name]) for name, value in one.items())


# ---- masks, counted ------------------------------------------------------------------------------


def within(share: float, expected: float, n: int) -> bool:
    """By four standard errors."""
    return abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / n)


def test_shares_of_words_that_are_masked_and_how() -> None:
    """Of n words each is masked at 0.15, and one where that leaves none: 0.15 + 0.85^n / n."""
    d_vocab = 5000
    passages = Passages.of(made_up(220, d_vocab=d_vocab), 64)
    entries = np.arange(d_vocab)
    more = replace(VOCABULARY, continues=entries >= GOES_ON, plain=entries[len(SPECIALS) :])
    batch = batch_of(passages, 0, vocabulary=more)
    seen, words, own = batch.tokens.numpy(), batch.words.numpy(), np.array(unmasked(batch))
    chosen = np.isin(np.arange(own.size), batch.at.numpy()).reshape(own.shape)
    expected, n_words, masked, by_size = 0.0, 0, 0, {size: [0, 0] for size in (1, 2, 3)}
    kinds = {"mask": 0, "same": 0, "other": 0}
    places: list[float] = []
    for row in range(len(own)):
        _, first, counts = np.unique(words[row], return_index=True, return_counts=True)
        plain = [
            (at, n)
            for at, n in zip(first, counts, strict=True)
            if words[row, at] >= 0 and own[row, at] >= len(SPECIALS)
        ]
        expected += 0.15 * len(plain) + 0.85 ** len(plain)
        n_words += len(plain)
        for i, (at, n) in enumerate(plain):
            if n in by_size:
                by_size[n][0] += int(chosen[row, at])
                by_size[n][1] += 1
            if not chosen[row, at]:
                continue
            masked += 1
            places.append((i + 0.5) / len(plain))
            before, after = own[row, at : at + n], seen[row, at : at + n]
            same = (before == after).all()
            kinds["mask" if after[0] == MASK else "same" if same else "other"] += 1
    assert masked > 4000
    assert abs(masked / expected - 1) < 4 * math.sqrt(0.85 / expected)
    assert 0.15 < expected / n_words < 0.17
    for found, n in by_size.values():  # however many tokens a word has
        assert within(found / n, expected / n_words, n)
    for kind, share in (("mask", 0.8), ("same", 0.1), ("other", 0.1)):
        assert within(kinds[kind] / masked, share, masked), kind
    assert abs(np.mean(places) - 0.5) < 4 / math.sqrt(12 * masked)  # wherever it stands


def test_other_tokens_are_any_but_special_ones() -> None:
    passages = Passages.of(made_up(150), 64)
    batch = batch_of(passages, 1)
    now = batch.tokens.flatten()[batch.at]
    counts = np.bincount(now[(now != MASK) & (now != batch.target)].numpy(), minlength=D_VOCAB)
    assert counts[: len(SPECIALS)].sum() == 0
    n, share = counts.sum(), 1 / (D_VOCAB - len(SPECIALS))
    assert all(within(count / n, share, n) for count in counts[len(SPECIALS) :])


# ---- annotated words -----------------------------------------------------------------------------

ANNOTATED: Annotations = {
    (7,): (2, 0),
    (7, 41): (1,),
    (9, 42, 43): (3, 4),
    (8,): (0,),
    (PAD,): (4,),
}
"""Of five sememes; what padding would be is among them."""
MARKS = {tokens: [i in own for i in range(5)] for tokens, own in ANNOTATED.items()}


def annotated(batch: MaskedBatch) -> list[tuple[int, list[bool]]]:
    return list(zip(batch.guided.tolist(), batch.sememes.tolist(), strict=True))


def test_annotated_words_by_hand() -> None:
    """Whole words alone: neither the beginning of one nor its end, and not padding."""
    text = text_of([[[7, 41, 7, 9, 42, 43, 8]], [[7, 42, 9, 42, 8, 41]], [[8]]])
    batch = batch_of(Passages.of(text, 10), 0, Lexicon.of(ANNOTATED, 5))
    assert batch.tokens.shape == (3, 9)
    assert annotated(batch) == [
        (1, MARKS[7, 41]),
        (3, MARKS[7,]),
        (4, MARKS[9, 42, 43]),
        (7, MARKS[8,]),
        (19, MARKS[8,]),
    ]


@settings(max_examples=60)
@given(st.integers(0, 2**40), st.integers(6, 30), st.integers(1, 60))
def test_annotated_words_are_found_wherever_they_are(seed: int, n_ctx: int, n_words: int) -> None:
    """Against a search token by token, among words of one to three tokens."""
    random = np.random.default_rng(seed)
    text = made_up(3, seed=seed % 97, d_vocab=GOES_ON + 3)
    words = {
        (int(random.integers(5, GOES_ON)), *random.integers(GOES_ON, GOES_ON + 3, n).tolist()): (
            int(random.integers(7)),
            int(random.integers(7)),
        )
        for n in random.integers(0, 3, n_words)
    }
    batch = batch_of(Passages.of(text, n_ctx), seed, Lexicon.of(words, 7))
    expected = []
    width = batch.tokens.shape[1]
    for row, (own, numbers) in enumerate(zip(unmasked(batch), batch.words.tolist(), strict=True)):
        for number in range(max(numbers) + 1):
            places = [at for at in range(width) if numbers[at] == number]
            sememes = words.get(tuple(own[at] for at in places))
            if sememes is not None:
                expected.append((row * width + places[0], [i in sememes for i in range(7)]))
    assert annotated(batch) == expected


def test_an_annotated_word_may_be_masked() -> None:
    batch = batch_of(Passages.of(text_of([[[7, 41]]]), 6), 0, Lexicon.of(ANNOTATED, 5))
    assert batch.at.tolist() == [1, 2]
    assert annotated(batch) == [(1, MARKS[7, 41])]


def test_a_lexicon_of_words_that_the_text_has_not() -> None:
    batch = batch_of(Passages.of(made_up(2), 20), 0, Lexicon.of({(7, 7): (0, 3)}, 4))
    assert batch.guided.shape == (0,)
    assert batch.sememes.shape == (0, 4)


def test_hashes_of_many_words_differ() -> None:
    """Of all words of two tokens, and those with one of them at the other end."""
    words: Annotations = {(a, b): (a % 3,) for a in range(5, 65) for b in range(5, 65)}
    lexicon = Lexicon.of(words, 3)
    assert len(lexicon.keys) == 60**2
    assert lexicon.keys.tolist() == sorted(set(lexicon.keys.tolist()))
    unknown: NDArray[np.uint64] = lexicon.keys[[0, 17, -1]] ^ np.uint64(1)
    assert lexicon.find(unknown).tolist() == [-1, -1, -1]
    assert lexicon.find(lexicon.keys[[5, 3599]]).tolist() == [5, 3599]


def test_a_lexicon_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no annotated word has tokens of this vocabulary"):
        Lexicon.of({}, 3)
    monkeypatch.setattr(sentences, "_hash_of", lambda tokens: 9)
    with pytest.raises(InputError, match="two annotated words have one hash; leave one of them"):
        Lexicon.of({(5,): (0,), (6,): (1,)}, 3)


@pytest.mark.parametrize("n_ctx", [32, 128])
def test_lengths_do_not_tell_whether_a_second_part_follows(n_ctx: int) -> None:
    """No better than the more frequent answer, and four standard errors."""
    passages, random = Passages.of(made_up(400), n_ctx), np.random.default_rng(0)
    rows = []
    for index in range(len(passages)):
        for _ in range(3):
            first, second, follows = passages.paired(index, random)
            if second is not None:
                rows.append((len(first), len(second), len(first) + len(second), follows))
    lengths, label = np.array(rows)[:, :3].astype(float), np.array(rows)[:, 3]
    fitted = np.arange(len(rows)) % 2 == 0
    model = LogisticRegression(max_iter=1000).fit(lengths[fitted], label[fitted])
    right = model.score(lengths[~fitted], label[~fitted])
    chance = max(label[~fitted].mean(), 1 - label[~fitted].mean())
    assert right < chance + 4 * 0.5 / (~fitted).sum() ** 0.5
