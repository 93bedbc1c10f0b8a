"""Which tokens of a target are predicted right, by kind, given those before them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from interp_compose.papers.lrf.grammar import END, LEXICAL, TokenKinds
from interp_compose.papers.lrf.models.seq2seq import SmallSeq2Seq
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import EncodedPair, in_batches

STRUCTURE: Final = "structure"
"""Every token but those that name a word of the source (:data:`.grammar.LEXICAL`)."""
COUNTS: Final = ("n_right", "n", "n_whole", "n_pairs")


@torch.no_grad()
def token_rows(
    model: SmallSeq2Seq,
    pairs: Sequence[EncodedPair],
    marks: Sequence[TokenKinds],
    types: Sequence[str],
) -> list[dict[str, Any]]:
    """Of each type of pairs and each kind of target token, and of all the structure together: how
    many of the ``n`` tokens are right (``n_right``), and of how many of the ``n_pairs`` pairs that
    have such tokens all of these (``n_whole``).

    Each position is given the target's own tokens before it.
    """
    counts: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(4, dtype=np.int64))
    for places, batch in in_batches(pairs, BOS, model.b_U.device):
        same = batch.logits(model).argmax(dim=-1) == batch.target[batch.valid]
        lengths = [len(pairs[i].target) for i in places]
        for i, right in zip(places, same.cpu().split(lengths), strict=True):
            kinds = np.array([*marks[i].target[1:], END])  # of the tokens that are predicted
            masks = {kind: kinds == kind for kind in dict.fromkeys(kinds.tolist())}
            masks[STRUCTURE] = ~np.isin(kinds, LEXICAL)
            for kind, mask in masks.items():
                hits = right.numpy()[mask]
                counts[types[i], kind] += hits.sum(), len(hits), hits.all(), 1
    return [
        {"type": type_, "kind": kind, **dict(zip(COUNTS, map(int, numbers), strict=True))}
        for (type_, kind), numbers in sorted(counts.items())
    ]
