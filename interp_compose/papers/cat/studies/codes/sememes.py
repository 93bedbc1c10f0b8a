"""Which sememes the last block's codes stand for, held against annotations of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import InputError
from interp_compose.papers.cat.studies.codes.words import Spelling, WordPlaces
from interp_compose.papers.cat.studies.pretrain.data import (
    SIDES,
    PretrainingData,
    sememes_by_tokens,
)

WordSememes = tuple[int, ...]
"""The sememes of a word."""
MEASURES: Final = ("r_precision", "precision", "recall")
PERMUTATIONS: Final = 20
"""Of annotations over words, over which the control is averaged."""


def annotated(
    data: PretrainingData, words: WordPlaces, counted: Int[np.ndarray, "spelling"]
) -> dict[str, dict[int, WordSememes]]:
    """The sememes of words that guided, and of those held out, by their places among those counted.

    A word held out that is spelled by the same tokens as one that guided is none.

    Raises:
        InputError: there are no annotations, or none of a word that is counted.
    """
    if data.guiding is None or data.held_out_words is None:
        raise InputError(
            "no annotations of words were kept with these runs; train them with annotations "
            "(--sememes)"
        )
    place = {words.spellings[one]: i for i, one in enumerate(counted)}
    guiding, held_out = (
        sememes_by_tokens(data.tokenizer, side) for side in (data.guiding, data.held_out_words)
    )
    annotations: tuple[Mapping[Spelling, WordSememes], ...] = (
        guiding,
        {word: marks for word, marks in held_out.items() if word not in guiding},
    )
    sides = {
        name: dict(sorted((place[word], marks) for word, marks in side.items() if word in place))
        for name, side in zip(SIDES, annotations, strict=True)
    }
    if not any(sides.values()):
        raise InputError(
            f"none of {len(guiding) + len(held_out):,} annotated words occurs often enough in the "
            "held-out passages; read more of them (n_passages), or count words that are rarer "
            "(least)"
        )
    return sides


def sememe_rows(
    codes: Float[Tensor, "spelling code"], sides: Mapping[str, Mapping[int, WordSememes]], k: int
) -> Iterator[dict[str, Any]]:
    """How many of a word's heaviest codes are among its sememes; beside what always naming the
    commonest sememes gets, and the codes with annotations permuted over the words of a side.

    A row for each ``source``, ``side`` and word (``place``): with R the number of its sememes,
    ``r_precision`` is the share of the R heaviest codes that are among them (where precision is
    recall), ``precision`` and ``recall`` are those of the ``k`` heaviest. Codes of weight 0 are
    not named: what is missing is wrong. Of equal weights, and of sememes that are equally common
    among words that guided, the first come first.
    """
    counts = Counter(one for word_sememes in sides["guiding"].values() for one in word_sememes)
    commonest = sorted(counts, key=lambda one: (-counts[one], one))
    for side, words in sides.items():
        if not words:
            continue
        places, annotations = list(words), list(words.values())
        most = max(k, *(len(word_sememes) for word_sememes in annotations))
        ranked = []
        for weights in (codes[place] for place in places):
            order = weights.argsort(descending=True, stable=True)[:most]
            ranked.append([int(one) for one in order if weights[one] > 0])
        random = np.random.default_rng(0)
        orders = [random.permutation(len(words)) for _ in range(PERMUTATIONS)]
        for i, (place, word_sememes) in enumerate(zip(places, annotations, strict=True)):
            permuted = [_scores(ranked[i], annotations[order[i]], k) for order in orders]
            scores = {
                "codes": _scores(ranked[i], word_sememes, k),
                "commonest": _scores(commonest, word_sememes, k),
                "permuted": tuple(np.mean(permuted, axis=0).tolist()),
            }
            word_row = {"side": side, "place": place, "n_sememes": len(word_sememes)}
            for source, values in scores.items():
                yield {"source": source, **word_row, **dict(zip(MEASURES, values, strict=True))}


def _scores(ranked: Sequence[int], sememes: Collection[int], k: int) -> tuple[float, float, float]:
    """R-precision, and precision and recall at k."""
    hits = [one in sememes for one in ranked]
    return sum(hits[: len(sememes)]) / len(sememes), sum(hits[:k]) / k, sum(hits[:k]) / len(sememes)
