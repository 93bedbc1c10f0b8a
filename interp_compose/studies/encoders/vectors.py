"""Texts, and pairs of them, as vectors of a small encoder: all its outputs in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from jaxtyping import Float

from interp_compose.errors import InputError, NonFiniteError
from interp_compose.models.embed import EmbeddingReader
from interp_compose.models.small_encoder import SmallEncoderModel

BATCH: Final = 64
READ: Final = ("input_ids", "token_type_ids", "attention_mask")
Read = dict[tuple[str, str], Float[np.ndarray, "text d_model"]]
"""Vectors by output and embedding."""


@torch.no_grad()
def vectors(
    model: SmallEncoderModel,
    texts: Sequence[str],
    seconds: Sequence[str] | None,
    outputs: Sequence[str],
    embeddings: Sequence[str],
) -> tuple[Read, int]:
    """A vector of each text, or of each pair of texts as BERT reads two, by output and embedding
    (float64), and how many pairs were cut.

    A pair that is longer than the model's context loses tokens of its longer text, as BERT does it.

    Raises:
        InputError: a single text that is longer than the context.
        NonFiniteError: a vector has NaN or infinite values.
    """
    given = (list(texts),) if seconds is None else (list(texts), list(seconds))
    rows = model.tokenizer(*given, return_token_type_ids=True)
    whole = [len(ids) for ids in rows["input_ids"]]
    longest = max(range(len(texts)), key=lambda i: whole[i])
    if seconds is None and whole[longest] > model.n_ctx:
        raise InputError(
            f"the text {texts[longest][:60]!r} has {whole[longest]} tokens; {model.name!r} reads "
            f"{model.n_ctx} at most"
        )
    if whole[longest] > model.n_ctx:
        cut = {"truncation": "longest_first", "max_length": model.n_ctx}
        rows = model.tokenizer(*given, return_token_type_ids=True, **cut)
    order = np.argsort([len(ids) for ids in rows["input_ids"]], kind="stable")
    found: Read = {
        (output, embedding): np.zeros((len(texts), model.d_model))
        for output in outputs
        for embedding in embeddings
    }
    readers = {one: EmbeddingReader(one, True, False, "chosen") for one in embeddings}
    for first in range(0, len(order), BATCH):
        own = order[first : first + BATCH]
        batch = model.tokenizer.pad(
            [{name: rows[name][i] for name in READ} for i in own], return_tensors="pt"
        ).to(model.device)
        tokens, mask = batch["input_ids"], batch["attention_mask"]
        last = model.lens(tokens, mask, batch["token_type_ids"])[-1]
        for output in outputs:
            hidden = last.of(output)
            for embedding, reader in readers.items():
                found[output, embedding][own] = (
                    reader(hidden, mask, torch.zeros_like(mask)).double().cpu()
                )
    for (output, embedding), values in found.items():
        if not np.isfinite(values).all():
            raise NonFiniteError(
                f"{model.name!r}: vectors of the output {output!r}, embedding {embedding!r}, have "
                "NaN or infinite values; train it again with a lower learning rate"
            )
    return found, sum(n > model.n_ctx for n in whole)
