"""Texts, and pairs of them, as vectors of a small encoder: all its outputs in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.errors import NonFiniteError
from interp_compose.models.embed import EmbeddingReader
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel

BATCH: Final = 64
Vectors = dict[tuple[str, str], Float[np.ndarray, "text d_model"]]
"""Vectors by output and embedding."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts, or pairs of them, as a small encoder reads them: see :func:`texts_of`."""

    model: SmallEncoderModel
    rows: Sequence[tuple[Sequence[int], Sequence[int]]]
    """Tokens and segments of each."""
    cut: Bool[np.ndarray, "text"]
    """Which were longer than the model's context."""

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text, which batches are sorted by."""
        return [len(ids) for ids, _ in self.rows]

    def batch(self, indices: Int[np.ndarray, "example"]) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens, mask and segments of these, padded on the right."""
        return _padded(self.model, [self.rows[i] for i in indices])

    def some(self, indices: Int[np.ndarray, "example"]) -> Texts:
        """The texts at ``indices`` alone."""
        return Texts(self.model, [self.rows[i] for i in indices], self.cut[indices])


def texts_of(model: SmallEncoderModel, texts: Sequence[tuple[str, ...]]) -> Texts:
    """Texts, or each two texts as BERT reads them.

    What is longer than the model's context loses tokens at the end of its longer text, as
    tokenizers of Hugging Face do it ("longest_first"). Names of special tokens in a text are text.
    """
    flat = iter(model.tokenizer.pieces([text for parts in texts for text in parts]))
    pieces = [[next(flat) for _ in parts] for parts in texts]
    lengths = [sum(map(len, parts)) + len(parts) + 1 for parts in pieces]  # with special tokens
    cut = np.array([length > model.n_ctx for length in lengths], dtype=bool)
    return Texts(model, [_framed(model, parts) for parts in pieces], cut)


@dataclass(frozen=True, eq=False)
class Scaled:
    """Vectors, each component less its mean and over its standard deviation in training ones."""

    values: Float[Tensor, "text d_model"]

    @classmethod
    def of(
        cls, vectors: Float[np.ndarray, "text d_model"], train: Float[np.ndarray, "some d_model"]
    ) -> Scaled:
        """A component that is constant in the training vectors keeps its scale."""
        scale = standard_scale(train.std(axis=0), np.abs(train).max(axis=0))
        scaled = (vectors - train.mean(axis=0)) / scale
        return cls(torch.from_numpy(scaled.astype(np.float32)))

    @property
    def lengths(self) -> list[int]:
        """A vector counts as one token."""
        return [1] * len(self.values)

    def batch(self, indices: Int[np.ndarray, "example"]) -> tuple[Tensor]:
        """The vectors ``[example d]`` at ``indices``."""
        return (self.values[torch.from_numpy(indices)],)


def standard_scale(
    deviation: Float[np.ndarray, "d_model"], largest: Float[np.ndarray, "d_model"]
) -> Float[np.ndarray, "d_model"]:
    """What components are divided by: their standard deviations, and 1 where that is no more than
    float32's rounding of the largest value."""
    constant = deviation <= 10 * np.finfo(np.float32).eps * largest
    return np.where(constant, 1.0, deviation)


@torch.no_grad()
def vectors(
    model: SmallEncoderModel,
    texts: Sequence[tuple[str, ...]],
    outputs: Sequence[str],
    embeddings: Sequence[str],
) -> tuple[Vectors, Bool[np.ndarray, "text"]]:
    """A vector of each text, or of each two texts, by output and embedding (float64), and which
    were cut: see :func:`texts_of`.

    Raises:
        NonFiniteError: a vector has NaN or infinite values.
    """
    read = texts_of(model, texts)
    order = np.argsort(read.lengths, kind="stable")
    by_reading: Vectors = {
        (output, embedding): np.zeros((len(texts), model.d_model))
        for output in outputs
        for embedding in embeddings
    }
    readers = {one: reader(one) for one in embeddings}
    for first in range(0, len(order), BATCH):
        indices = order[first : first + BATCH]
        tokens, mask, segments = (one.to(model.device) for one in read.batch(indices))
        last = model.lens(tokens, mask, segments)[-1]
        for output in outputs:
            hidden = last.of(output)
            for embedding, read_hidden in readers.items():
                vector = read_hidden(hidden, mask, torch.zeros_like(mask))
                by_reading[output, embedding][indices] = vector.double().cpu()
    for (output, embedding), values in by_reading.items():
        if not np.isfinite(values).all():
            raise NonFiniteError(
                f"{model.name!r}: vectors of the output {output!r}, embedding {embedding!r}, have "
                "NaN or infinite values; train it again with a lower learning rate"
            )
    return by_reading, read.cut


def reader(embedding: str) -> EmbeddingReader:
    """How a text's vector is read: special tokens count."""
    return EmbeddingReader(embedding, True, False, "chosen")


def _framed(
    model: SmallEncoderModel, texts: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """Tokens and segments, ``[CLS]`` first and ``[SEP]`` after each text, cut to the context."""
    pieces = [list(ids) for ids in texts]
    while sum(map(len, pieces)) + len(pieces) + 1 > model.n_ctx:
        max(pieces, key=len).pop()
    tokens, segments = [int(model.tokenizer.cls_token_id)], [0]
    for number, ids in enumerate(pieces):
        tokens += [*ids, int(model.tokenizer.sep_token_id)]
        segments += [number] * (len(ids) + 1)
    return tokens, segments


def _padded(
    model: SmallEncoderModel, rows: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, mask and segments, padded on the right."""
    width = max(len(ids) for ids, _ in rows)
    tokens = torch.full((len(rows), width), int(model.tokenizer.pad_token_id))
    mask, segments = torch.zeros_like(tokens), torch.zeros_like(tokens)
    for i, (ids, kinds) in enumerate(rows):
        tokens[i, : len(ids)], segments[i, : len(ids)] = torch.tensor(ids), torch.tensor(kinds)
        mask[i, : len(ids)] = 1
    return tokens, mask, segments
