"""Whether a word has the same codes in other contexts, and other codes in other senses."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int

from interp_compose.errors import MissingDataError
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.codes.words import WordPlaces, directions, vectors_of
from interp_compose.papers.cat.text.wordpiece import WordPieceTokenizer
from interp_compose.stats.agreement import rounding
from interp_compose.stats.intervals import bootstrap_interval, share_interval
from interp_compose.tasks.wordnet import wordnet_examples

MOST: Final = 2000
"""Words whose occurrences in several passages are compared."""
PART: Final = 500
"""Words whose vectors are in memory at one time."""
VECTORS: Final = ("codes", "cont")
STEP: Final = rounding("float32")
"""Cosines that differ by less are alike."""


@dataclass(frozen=True, eq=False)
class Occurrences:
    """For each of some words, occurrences that are to be compared: pairs of the ``same`` kind, and
    of the ``other``."""

    words: WordPlaces
    same: Sequence[Int[np.ndarray, "_ 2"]]
    other: Sequence[Int[np.ndarray, "_ 2"]]


def in_passages(words: WordPlaces, counted: Int[np.ndarray, "spelling"]) -> Occurrences:
    """Of each word that occurs in several passages, two occurrences from two of them, and the first
    of these with an occurrence of another word, from another passage; of at most :data:`MOST`
    words, drawn by a fixed seed."""
    random = np.random.default_rng(0)
    order = np.argsort(words.spelling, kind="stable")
    by_spelling = np.split(order, np.cumsum(words.counts)[:-1])
    chosen = []
    for spelling in random.permutation(counted):
        places = by_spelling[spelling]
        first = int(random.choice(places))
        elsewhere = places[words.row[places] != words.row[first]]
        if len(elsewhere):
            chosen.append((first, int(random.choice(elsewhere))))
        if len(chosen) == MOST:
            break
    same, other = [], []
    for i, (first, second) in enumerate(chosen):
        following = (chosen[(i + step) % len(chosen)][0] for step in range(1, len(chosen)))
        third = next((one for one in following if words.row[one] != words.row[first]), None)
        if third is not None:
            same.append(np.array([[first, second]]))
            other.append(np.array([[first, third]]))
    return Occurrences(words, same, other)


def in_senses(
    folder: str | os.PathLike[str] | None, tokenizer: WordPieceTokenizer, n_ctx: int
) -> Occurrences | None:
    """Of each word with WordNet's examples of several synsets, and several examples of one of them,
    all pairs of examples: of one synset, and of two. The word is where it first occurs in the
    example; words that the vocabulary does not have are left out.

    None where no folder is given and NLTK finds no WordNet.

    Raises:
        MissingDataError: no WordNet in the given folder.
        DataFormatError: a garbled line of it.
    """
    try:
        examples = wordnet_examples(None if folder is None else os.fspath(folder))
    except MissingDataError:
        if folder is not None:
            raise
        return None
    texts = list(dict.fromkeys(one.text for one in examples))
    row = {text: i for i, text in enumerate(texts)}
    words = WordPlaces.of(tokenizer.pieces(texts), tokenizer, n_ctx)
    first: dict[tuple[int, int], int] = {}
    for index, place in enumerate(zip(words.row.tolist(), words.spelling.tolist(), strict=True)):
        first.setdefault(place, index)
    number = {spelling: i for i, spelling in enumerate(words.spellings)}
    names = list(dict.fromkeys(one.word for one in examples))
    spelled = dict(zip(names, map(tuple, tokenizer.pieces(names)), strict=True))
    of_word: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for one in examples:
        place = row[one.text], number.get(spelled[one.word], -1)
        if place in first:
            of_word[one.word].append((first[place], one.synset))
    same, other = [], []
    for uses in of_word.values():
        at, synsets = (np.array(values) for values in zip(*uses, strict=True))
        pairs = np.stack(np.triu_indices(len(at), 1), axis=1)
        pairs = pairs[at[pairs[:, 0]] != at[pairs[:, 1]]]  # a text may be of two synsets
        is_same = synsets[pairs[:, 0]] == synsets[pairs[:, 1]]
        if is_same.any() and not is_same.all():
            same.append(at[pairs[is_same]])
            other.append(at[pairs[~is_same]])
    return Occurrences(words, same, other)


def compared(model: SmallEncoderModel, occurrences: Occurrences) -> Iterator[dict[str, Any]]:
    """Of each block with codes, and of O and h_cont (``vector``): the mean cosine of pairs of the
    ``same`` kind and of the ``other``, and ``auc``, how often one of the same is the larger: the
    area under the ROC curve of each word's pairs. Means over ``n`` words; ``low`` and ``high`` end
    the bootstrap interval over words, ``over_cont`` is the difference from h_cont's area, with its
    own interval. Cosines that differ by rounding alone are alike.
    """
    measures: dict[tuple[int, str], list[tuple[float, float, float]]] = defaultdict(list)
    for first in range(0, len(occurrences.same), PART):
        part = slice(first, first + PART)
        same, other = occurrences.same[part], occurrences.other[part]
        chosen, at = np.unique(np.concatenate([*same, *other]), return_inverse=True)
        ends = np.cumsum([len(pairs) for pairs in (*same, *other)])[:-1]
        places = np.split(at.reshape(-1, 2), ends)
        for layer, vectors in vectors_of(model, occurrences.words, chosen).items():
            for name, vector in zip(VECTORS, vectors, strict=True):
                unit = directions(vector).numpy()
                by_word = [(unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(axis=1) for pairs in places]
                halves = zip(by_word[: len(same)], by_word[len(same) :], strict=True)
                measures[layer, name] += [(a.mean(), b.mean(), _area(a, b)) for a, b in halves]
    for (layer, name), values in measures.items():
        same_mean, other_mean, area = np.array(values).T
        over_cont = area - np.array(measures[layer, "cont"])[:, 2]
        low, high = share_interval(area[:, None])
        over_low, over_high = bootstrap_interval(over_cont[:, None])
        yield {
            "layer": layer,
            "vector": name,
            "same": float(same_mean.mean()),
            "other": float(other_mean.mean()),
            "auc": float(area.mean()),
            "low": float(low[0]),
            "high": float(high[0]),
            "over_cont": float(over_cont.mean()),
            "over_low": float(over_low[0]),
            "over_high": float(over_high[0]),
            "n": len(area),
        }


def _area(same: Float[np.ndarray, "same"], other: Float[np.ndarray, "other"]) -> float:
    """P(a cosine of the same is larger) + ½ P(alike), over all that can be compared."""
    apart = same[:, None] - other[None, :]
    return float((apart > STEP).mean() + 0.5 * (np.abs(apart) <= STEP).mean())
