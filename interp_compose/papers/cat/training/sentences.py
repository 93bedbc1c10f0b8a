"""Sentences to pre-train an encoder on: a stream of tokens on disk, passages of it, and the pairs,
masked, that a step sees.

What a batch holds is drawn from a seed alone: which passages are paired, where they are parted,
which words are masked. So a run resumes in the middle of an epoch to the same batches, and models
of one seed see the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from interp_compose.errors import InputError
from interp_compose.papers.cat.text.wordpiece import WordPieces

MASKED: Final = 0.15
"""The share of words that is masked (Devlin et al. 2019, section 3.1)."""
AS_MASK, AS_RANDOM = 0.8, 0.1
"""Shares of these that become ``[MASK]``, and other tokens; the rest stays."""
TRIES: Final = 8
"""Other passages of which the second part is taken whose length is nearest to that of the one that
follows, so that lengths do not tell the two apart."""
NEAR: Final = 64
"""How many passages of about the same length they are drawn from."""
MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""The multiplier in the hash of a word's tokens; odd, so that no bit is lost."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """Tokens of a text, one sentence after another; they may be in a file that is mapped.

    ``starts`` are the places of each sentence's first token and, last, the end; ``documents`` the
    numbers of each document's first sentence and, last, that of sentences.
    """

    tokens: Integer[np.ndarray, "token"]
    starts: Integer[np.ndarray, "sentence_and_end"]
    documents: Integer[np.ndarray, "document_and_end"]


@dataclass(frozen=True, eq=False)
class Passages:
    """Neighbouring sentences of a document, as many as a model reads at one time.

    ``bounds`` are the numbers of each one's first sentence and of the first past it. A passage of
    one sentence has no second part, and is read without.
    """

    text: Sentences
    bounds: Int[np.ndarray, "passage 2"]
    n_ctx: int

    @classmethod
    def of(cls, text: Sentences, n_ctx: int) -> Passages:
        """All of a text; ``n_ctx`` includes ``[CLS]`` and both ``[SEP]``. A sentence that is longer
        is a passage of its own, of which the beginning is read.

        Raises:
            InputError: fewer positions than one token needs; no sentence.
        """
        room = n_ctx - 3
        if room < 1:
            raise InputError(f"n_ctx={n_ctx}: expected 4 or more, for three special tokens")
        starts = np.asarray(text.starts).tolist()
        bounds: list[tuple[int, int]] = []
        for first, last in pairwise(np.asarray(text.documents).tolist()):
            begin = first
            for sentence in range(first + 1, last + 1):
                if sentence == last or starts[sentence + 1] - starts[begin] > room:
                    bounds.append((begin, sentence))
                    begin = sentence
        if not bounds:
            raise InputError("the text has no sentence to read")
        return cls(text, np.array(bounds, dtype=np.int64), n_ctx)

    def __len__(self) -> int:
        return len(self.bounds)

    @cached_property
    def counts(self) -> Int[np.ndarray, "passage"]:
        """Tokens of each passage, special ones included, if its parts follow each other."""
        low, high = (self.text.starts[self.bounds[:, side]].astype(np.int64) for side in (0, 1))
        special = np.where(self.bounds[:, 1] - self.bounds[:, 0] > 1, 3, 2)
        counts: Int[np.ndarray, "passage"] = np.minimum(high - low + special, self.n_ctx)
        return counts

    @property
    def lengths(self) -> list[int]:
        """:attr:`counts`; what a batch's budget is reckoned by."""
        return [int(n) for n in self.counts]

    def first(self, n: int) -> Passages:
        """``n`` passages at most, always the same ones, from all over the text."""
        if n >= len(self):
            return self
        chosen = np.random.default_rng(0).choice(len(self), n, replace=False)
        return replace(self, bounds=self.bounds[np.sort(chosen)])

    @cached_property
    def _by_length(self) -> tuple[Int[np.ndarray, "several"], Int[np.ndarray, "passage"]]:
        """Passages of several sentences, the shortest first; and the place of each there (of
        others, that of the next longer one)."""
        several = np.flatnonzero(self.bounds[:, 1] - self.bounds[:, 0] > 1)
        order = several[np.argsort(self.counts[several], kind="stable")]
        place = np.searchsorted(self.counts[order], self.counts)
        place[order] = np.arange(len(order))
        return order, place

    def whole(self, index: int) -> Integer[np.ndarray, "token"]:
        """The tokens of a passage, undivided; of a sentence that is too long, the beginning."""
        low, high = (int(one) for one in self.bounds[index])
        return self._tokens(low, high)[: self.n_ctx - 2]

    def paired(
        self, index: int, random: np.random.Generator
    ) -> tuple[Integer[np.ndarray, "first"], Integer[np.ndarray, "second"] | None, int]:
        """The tokens of a passage in two parts, and whether the second follows the first: 1, or 0
        where it is that of another document (half of the time). None and -1 where there is one
        sentence alone, which has no second part."""
        low, high = (int(one) for one in self.bounds[index])
        room = self.n_ctx - 3
        if high - low < 2:
            return self.whole(index), None, -1
        # 1. Parted between two sentences, at random; half of the time that is the pair.
        middle = int(random.integers(low + 1, high))
        first, second = self._tokens(low, middle), self._tokens(middle, high)
        if random.random() < 0.5:
            return first, second, 1
        # 2. Else the second part is another document's, of those tried the nearest in length.
        tried = [self._other(index, len(second), room - len(first), random) for _ in range(TRIES)]
        candidates = [other for other in tried if other is not None]
        if not candidates:
            return first, second, 1
        return first, min(candidates, key=lambda other: abs(len(other) - len(second))), 0

    def _other(
        self, index: int, length: int, most: int, random: np.random.Generator
    ) -> Integer[np.ndarray, "second"] | None:
        """A second part from another document, of a passage of about the same length, and of those
        of at most ``most`` tokens the one nearest to ``length``; None where there is none."""
        order, place = self._by_length
        # 1. One of NEAR passages around this one's place in the order of lengths.
        low = min(max(0, int(place[index]) - NEAR // 2), max(0, len(order) - NEAR))
        other = int(order[random.integers(low, min(low + NEAR, len(order)))])
        begin, end = (int(one) for one in self.bounds[other])
        documents = np.searchsorted(self.text.documents, [self.bounds[index][0], begin], "right")
        if documents[0] == documents[1]:
            return None
        # 2. Where to part it: tokens from each sentence but the first to the end.
        sizes = int(self.text.starts[end]) - self.text.starts[begin + 1 : end].astype(np.int64)
        # n_ctx: never the nearest
        distances = np.where(sizes <= most, np.abs(sizes - length), self.n_ctx)
        cut = int(distances.argmin())
        return self._tokens(begin + 1 + cut, end) if sizes[cut] <= most else None

    def _tokens(self, low: int, high: int) -> Integer[np.ndarray, "token"]:
        tokens: Integer[np.ndarray, "token"] = self.text.tokens[
            int(self.text.starts[low]) : int(self.text.starts[high])
        ]
        return tokens


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Annotated words by the tokens that they are: found by a hash of 64 bits, of which no two
    annotated words have the same.

    ``keys`` are the hashes, ascending; ``marks`` the sememes of each.
    """

    keys: Integer[np.ndarray, "word"]
    marks: Bool[np.ndarray, "word sememe"]

    @classmethod
    def of(cls, sememes: Mapping[tuple[int, ...], tuple[int, ...]], n_sememes: int) -> Lexicon:
        """The lexicon of token ids and the sememes of the words that they spell.

        Raises:
            InputError: no words; two with one hash.
        """
        if not sememes:
            raise InputError("no annotated word has tokens of this vocabulary")
        keys = np.array([_hash_of(tokens) for tokens in sememes], dtype=np.uint64)
        order = np.argsort(keys)
        if len(np.unique(keys)) < len(keys):
            raise InputError("two annotated words have one hash; leave one of them out")
        marks = np.zeros((len(keys), n_sememes), dtype=bool)
        for row, word_sememes in enumerate(sememes.values()):
            marks[row, list(word_sememes)] = True
        return cls(keys[order], marks[order])

    def find(self, hashes: Integer[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """The row of each hash, -1 where it is none of them."""
        place = np.searchsorted(self.keys, hashes).clip(max=len(self.keys) - 1)
        rows: Int[np.ndarray, "n"] = np.where(self.keys[place] == hashes, place, -1)
        return rows


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Passages side by side, padded on the right, words masked.

    Attributes:
        tokens: as the model reads them; ``mask`` is 0 at padding, ``segments`` 1 in the second
            part.
        words: the number of each token's word in its row, before it was masked; -1 at padding.
        at: masked places, counted row by row; ``target`` are the tokens that stood there.
        follows: whether the second part follows: 1, 0, or -1 where there is none; ``pairs`` are
            the rows that have one.
        guided: places of the first token of annotated words, counted row by row; ``sememes``
            theirs.
    """

    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    segments: Int[Tensor, "batch pos"]
    words: Int[Tensor, "batch pos"]
    at: Int[Tensor, "masked"]
    target: Int[Tensor, "masked"]
    follows: Int[Tensor, "batch"]
    pairs: Int[Tensor, "pair"]
    guided: Int[Tensor, "guided"]
    sememes: Bool[Tensor, "guided sememe"]

    def to(self, device: torch.device) -> MaskedBatch:
        moved = {name: value.to(device) for name, value in vars(self).items()}
        return MaskedBatch(**moved)


def masked_batch(
    passages: Passages,
    indices: Int[np.ndarray, "_"],
    *,
    vocabulary: WordPieces,
    lexicon: Lexicon | None,
    random: np.random.Generator,
) -> MaskedBatch:
    """What a step sees of some passages.

    Of every ten words 1.5 are masked on average, at least one of a row; all tokens of a word alike:
    eight of ten become ``[MASK]``, one becomes other tokens, one stays.
    """
    pairs = [passages.paired(int(index), random) for index in indices]
    # 1. [CLS] first [SEP] second [SEP], padded on the right.
    sizes = [len(a) + 2 + (0 if b is None else len(b) + 1) for a, b, _ in pairs]
    tokens = np.full((len(pairs), max(sizes)), vocabulary.pad, dtype=np.int64)
    segments = np.zeros_like(tokens)
    mask = (np.arange(tokens.shape[1]) < np.array(sizes)[:, None]).astype(np.int64)
    for row, (a, b, _) in enumerate(pairs):
        tokens[row, 0], tokens[row, 1 : 1 + len(a)] = vocabulary.cls, a
        tokens[row, 1 + len(a)] = vocabulary.sep
        if b is not None:
            tokens[row, 2 + len(a) : 2 + len(a) + len(b)] = b
            tokens[row, sizes[row] - 1] = vocabulary.sep
            segments[row, 2 + len(a) : sizes[row]] = 1
    # 2. Words by number, before any is masked: all tokens of a word share its fate.
    starts = ~vocabulary.continues[tokens] & (mask == 1)
    starts[:, 0] = True
    words = np.where(mask == 1, starts.cumsum(axis=1) - 1, -1)
    chosen = _masked_words(tokens, words, vocabulary, random)
    seen = _as_seen(tokens, words, chosen, vocabulary, random)
    at = np.flatnonzero(chosen)  # [masked], row · pos + column
    guided, marks = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=bool)
    if lexicon is not None:
        guided, rows = _annotated(tokens, words, starts, lexicon)
        marks = lexicon.marks[rows]
    follows = np.array([label for _, _, label in pairs])
    return MaskedBatch(
        tokens=torch.from_numpy(seen),
        mask=torch.from_numpy(mask),
        segments=torch.from_numpy(segments),
        words=torch.from_numpy(words),
        at=torch.from_numpy(at),
        target=torch.from_numpy(tokens.flatten()[at]),
        follows=torch.from_numpy(follows),
        pairs=torch.from_numpy(np.flatnonzero(follows >= 0)),
        guided=torch.from_numpy(guided),
        sememes=torch.from_numpy(marks),
    )


def _masked_words(
    tokens: Int[np.ndarray, "batch pos"],
    words: Int[np.ndarray, "batch pos"],
    vocabulary: WordPieces,
    random: np.random.Generator,
) -> Bool[np.ndarray, "batch pos"]:
    """Tokens of the words that are to be predicted; special tokens never are."""
    plain = (words >= 0) & (tokens != vocabulary.cls) & (tokens != vocabulary.sep)
    score = random.random(tokens.shape)  # of a word: that at its number
    of_word = np.take_along_axis(score, words.clip(min=0), axis=1)  # [batch pos]
    of_word = np.where(plain, of_word, 2.0)  # above every score, so never the lowest
    lowest = of_word.min(axis=1, keepdims=True)  # [batch 1]: the word that is masked in any case
    chosen: Bool[np.ndarray, "batch pos"] = plain & ((of_word < MASKED) | (of_word == lowest))
    return chosen


def _as_seen(
    tokens: Int[np.ndarray, "batch pos"],
    words: Int[np.ndarray, "batch pos"],
    chosen: Bool[np.ndarray, "batch pos"],
    vocabulary: WordPieces,
    random: np.random.Generator,
) -> Int[np.ndarray, "batch pos"]:
    # [batch pos], one for a word
    kind = np.take_along_axis(random.random(tokens.shape), words.clip(min=0), axis=1)
    others = vocabulary.plain[random.integers(0, len(vocabulary.plain), tokens.shape)]
    seen = tokens.copy()
    seen[chosen & (kind < AS_MASK)] = vocabulary.mask
    replaced = chosen & (kind >= AS_MASK) & (kind < AS_MASK + AS_RANDOM)
    seen[replaced] = others[replaced]
    return seen


def _annotated(
    tokens: Int[np.ndarray, "batch pos"],
    words: Int[np.ndarray, "batch pos"],
    starts: Bool[np.ndarray, "batch pos"],
    lexicon: Lexicon,
) -> tuple[Int[np.ndarray, "guided"], Int[np.ndarray, "guided"]]:
    """Where annotated words begin, and their rows in the lexicon."""
    first = np.flatnonzero(starts)  # [word]: where each word of the batch begins, row by row
    # [batch pos]: the number of each token's word in the whole batch
    number = np.where(words >= 0, starts.flatten().cumsum().reshape(words.shape) - 1, -1)
    hashes = np.zeros(len(first), dtype=np.uint64)
    flat, of_word = tokens.flatten().astype(np.uint64), number.flatten()
    place = np.arange(tokens.size) - first[of_word.clip(min=0)]  # of each token in its word
    # The k-th tokens of all words at once; a word has one k-th token, so no index is doubled.
    for k in range(int(place[of_word >= 0].max(initial=0)) + 1):
        is_kth = (place == k) & (of_word >= 0)
        hashes[of_word[is_kth]] = _onward(hashes[of_word[is_kth]], flat[is_kth])
    rows = lexicon.find(hashes)
    return first[rows >= 0], rows[rows >= 0]


def _hash_of(tokens: tuple[int, ...]) -> int:
    value = np.zeros(1, dtype=np.uint64)
    for token in tokens:
        value = _onward(value, np.array([token], dtype=np.uint64))
    return int(value[0])


def _onward(
    hashes: Integer[np.ndarray, "n"], tokens: Integer[np.ndarray, "n"]
) -> Integer[np.ndarray, "n"]:
    """The hash with one more token; multiplied and shifted, modulo 2^64."""
    mixed: Integer[np.ndarray, "n"] = (hashes ^ (tokens + np.uint64(1))) * MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    return mixed
