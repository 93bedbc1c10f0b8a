"""Texts, and pairs of them, as vectors of a small encoder: all its outputs in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from interp_compose.errors import NonFiniteError
from interp_compose.models.embed import EmbeddingReader
from interp_compose.models.small_encoder import SmallEncoderModel

BATCH: Final = 64
Read = dict[tuple[str, str], Float[np.ndarray, "text d_model"]]
"""Vectors by output and embedding."""


@torch.no_grad()
def vectors(
    model: SmallEncoderModel,
    texts: Sequence[tuple[str, ...]],
    outputs: Sequence[str],
    embeddings: Sequence[str],
) -> tuple[Read, Bool[np.ndarray, "text"]]:
    """A vector of each text, or of each two texts as BERT reads them, by output and embedding
    (float64), and which were cut.

    What is longer than the model's context loses tokens at the end of its longer text, as
    tokenizers of Hugging Face do it ("longest_first"). Names of special tokens in a text are text.

    Raises:
        NonFiniteError: a vector has NaN or infinite values.
    """
    flat = iter(model.tokenizer.pieces([text for own in texts for text in own]))
    pieces = [[next(flat) for _ in own] for own in texts]
    cut = np.array([sum(map(len, own)) + len(own) + 1 > model.n_ctx for own in pieces])
    rows = [_framed(model, own) for own in pieces]
    order = np.argsort([len(ids) for ids, _ in rows], kind="stable")
    found: Read = {
        (output, embedding): np.zeros((len(texts), model.d_model))
        for output in outputs
        for embedding in embeddings
    }
    readers = {one: EmbeddingReader(one, True, False, "chosen") for one in embeddings}
    for first in range(0, len(order), BATCH):
        own = order[first : first + BATCH]
        tokens, mask, segments = _padded(model, [rows[i] for i in own])
        last = model.lens(tokens, mask, segments)[-1]
        for output in outputs:
            hidden = last.of(output)
            for embedding, reader in readers.items():
                read = reader(hidden, mask, torch.zeros_like(mask))
                found[output, embedding][own] = read.double().cpu()
    for (output, embedding), values in found.items():
        if not np.isfinite(values).all():
            raise NonFiniteError(
                f"{model.name!r}: vectors of the output {output!r}, embedding {embedding!r}, have "
                "NaN or infinite values; train it again with a lower learning rate"
            )
    return found, cut


def _framed(
    model: SmallEncoderModel, texts: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """Tokens and segments, ``[CLS]`` first and ``[SEP]`` after each text, cut to the context."""
    kept = [list(ids) for ids in texts]
    while sum(map(len, kept)) + len(kept) + 1 > model.n_ctx:
        max(kept, key=len).pop()
    tokens, segments = [int(model.tokenizer.cls_token_id)], [0]
    for number, ids in enumerate(kept):
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
    return tokens.to(model.device), mask.to(model.device), segments.to(model.device)
