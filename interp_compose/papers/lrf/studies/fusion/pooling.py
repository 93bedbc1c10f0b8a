"""CAP of encoder–decoders: exact match once phrases of the source are pooled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool

from interp_compose.interventions.control_spans import shuffled_groups
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.papers.lrf.grammar import ALONE, TokenKinds
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import EncodedPair, in_batches

SPANS: Final = ("phrases", "shuffled")
"""What is pooled: the phrases, or as many tokens elsewhere."""
DRAW: Final = 0
"""Seed of the places of shuffled phrases, the same for every model."""


def cap_rows(
    model: EncoderDecoderModel,
    pairs: Sequence[EncodedPair],
    marks: Sequence[TokenKinds],
    right: Bool[np.ndarray, "pair"],
) -> list[dict[str, Any]]:
    """Exact match with the phrases of the source pooled to their means before a layer of the
    encoder, in collapse mode.

    A row for each ``unit`` (a way to form phrases), ``spans`` ("phrases"; "shuffled", as many
    phrases of the same sizes at random places) and ``layer``: ``n_right``, and as the model is
    ``n_clean``, of the ``n`` pairs whose source has a phrase of several tokens. ``right`` says
    which the model as it is gets right.
    """
    rows = []
    for unit in sorted({name for one in marks for name in one.units}):
        groups = [numbered(one.units[unit]) if unit in one.units else [] for one in marks]
        chosen = [i for i, group in enumerate(groups) if len(set(group)) < len(group)]
        if not chosen:
            continue
        chosen_pairs = [pairs[i] for i in chosen]
        counts = {"n_clean": int(right[chosen].sum()), "n": len(chosen)}
        for spans in SPANS:
            span_groups = [
                groups[i]
                if spans == "phrases"
                else shuffled_groups(groups[i], seed=DRAW, example=i, keep_last=False)
                for i in chosen
            ]
            for layer in range(model.n_encoder_layers):
                n_right = int(pooled_match(model, chosen_pairs, span_groups, layer).sum())
                place = {"unit": unit, "spans": spans, "layer": layer}
                rows.append({**place, "n_right": n_right, **counts})
    return rows


@torch.no_grad()
def pooled_match(
    model: EncoderDecoderModel,
    pairs: Sequence[EncodedPair],
    groups: Sequence[Sequence[int]],
    layer: int,
) -> Bool[np.ndarray, "pair"]:
    """Whether each target is predicted exactly, given itself, with the source pooled before
    ``layer``; ``groups`` are the units of each source's tokens, its end included."""
    right = np.zeros(len(pairs), dtype=bool)
    for places, batch in in_batches(pairs, BOS, model.device):
        tokens, mask = model.join(batch.source, batch.given, batch.source_mask, batch.valid.long())
        units = torch.full_like(tokens, ALONE)
        for row, place in enumerate(places):
            units[row, : len(groups[place])] = torch.tensor(groups[place])
        with pool_at(model, layer, units):
            logits = model.forward(tokens, attention_mask=mask)  # right-aligned, the target last
        for row, place in enumerate(places):
            target = torch.from_numpy(pairs[place].target).to(logits.device)
            right[place] = torch.equal(logits[row, -len(target) :].argmax(dim=-1), target)
    return right


def numbered(units: Sequence[int]) -> list[int]:
    """Units as 0, 1, 2, …, a token that is in none as one of its own; but the source's end is none,
    which no pooling moves."""
    *words, _ = units
    numbers: list[int] = []
    for i, unit in enumerate(words):
        begins = i == 0 or unit == ALONE or unit != words[i - 1]
        numbers.append((numbers[-1] if numbers else -1) + begins)
    return [*numbers, ALONE]
