"""How well cosines of an encoder's vectors follow what people say of pairs of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.encoders.result import ALL, MIRROR, SAME_WORDS
from interp_compose.papers.cat.studies.encoders.vectors import vectors
from interp_compose.stats.agreement import agreement, rounding, told_apart
from interp_compose.tasks.pairs import Pair

FEWEST: Final = 3
"""Pairs of which a correlation exists."""
Row = dict[str, Any]


def cosine_rows(
    model: SmallEncoderModel,
    pairs: Sequence[Pair],
    outputs: Sequence[str],
    embeddings: Sequence[str],
) -> Iterator[Row]:
    """Of pairs with scores, Pearson's and Spearman's correlation with the cosines; of pairs with
    labels, the area under the ROC curve: over all, over each subset, and over those that mirror
    each other (of scores) or have the same words in another order (of labels)."""
    labelled = pairs[0].label is not None
    target = np.array([pair.label if labelled else pair.score for pair in pairs], float)
    texts = [(text,) for pair in pairs for text in (pair.text1, pair.text2)]
    read, cut = vectors(model, texts, outputs, embeddings)
    either = cut[::2] | cut[1::2]
    for (output, embedding), text_vectors in read.items():
        cosines = _cosines(text_vectors)
        for subset, rows in _subsets(pairs).items():
            for metric in ("auc",) if labelled else ("pearson", "spearman"):
                value = agreement_of(cosines[rows], target[rows], metric)
                yield score_row(output, embedding, subset, metric, value, either[rows])


def score_row(
    output: str,
    embedding: str,
    subset: str,
    metric: str,
    value: float,
    cut: Bool[np.ndarray, "text"],
) -> Row:
    """A row of the table, but for what tells runs apart."""
    place = {"output": output, "embedding": embedding, "subset": subset, "metric": metric}
    return {**place, "value": value, "n": len(cut), "n_cut": int(cut.sum())}


def are_apart(pairs: Sequence[Pair]) -> bool:
    """Whether there are enough pairs, not all judged alike."""
    judged = {pair.score if pair.label is None else pair.label for pair in pairs}
    return len(pairs) >= FEWEST and len(judged) > 1


def have_same_words(text1: str, text2: str) -> bool:
    """Whether texts have the same words, each as often, in another order.

    Words are between white space, as PAWS' files part them from punctuation, which counts as words
    do; case does not count.
    """
    words1, words2 = text1.casefold().split(), text2.casefold().split()
    return sorted(words1) == sorted(words2) and words1 != words2


def _cosines(text_vectors: Float[np.ndarray, "text d_model"]) -> Float[np.ndarray, "pair"]:
    """Of texts that follow each other, two by two."""
    lengths = np.linalg.norm(text_vectors, axis=1, keepdims=True)
    unit = text_vectors / np.maximum(lengths, np.finfo(float).tiny)
    cosines: Float[np.ndarray, "pair"] = (unit[::2] * unit[1::2]).sum(axis=1)
    return cosines


def agreement_of(
    values: Float[np.ndarray, "pair"], target: Float[np.ndarray, "pair"], metric: str
) -> float:
    """Of cosines, or of a classifier's scores, with what people say. A correlation is NaN where
    rounding alone tells the values apart: all vectors are one."""
    cells = told_apart(values[:, None], rounding("float32"), metric)
    return float(agreement(cells, target, metric, samples=1).value[0])


def _subsets(pairs: Sequence[Pair]) -> dict[str, Int[np.ndarray, "_"]]:
    """All pairs, and named subsets, mirror pairs (of scores) and pairs with the same words (of
    labels) that can be told apart."""
    parts = {ALL: np.arange(len(pairs))}
    for name in dict.fromkeys(pair.subset for pair in pairs if pair.subset):
        parts[name] = np.flatnonzero([pair.subset == name for pair in pairs])
    parts[MIRROR] = np.flatnonzero([pair.is_mirror and pair.label is None for pair in pairs])
    parts[SAME_WORDS] = np.flatnonzero(
        [pair.label is not None and have_same_words(pair.text1, pair.text2) for pair in pairs]
    )
    return {name: rows for name, rows in parts.items() if are_apart([pairs[int(i)] for i in rows])}
