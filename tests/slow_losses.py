"""CARMA's losses in float64, looping in the open, and random batches of words."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

LAYERS, POS, WIDTH = 2, 7, 5


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    size = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / size if size else 0.0


def slow_mi(resid: Tensor, word_ids: Tensor, temperature: float = 0.1) -> float:
    """Eq. 16 with the parentheses of eq. 15: every anchor by itself, largest exponent first."""
    terms = []
    for layer in resid.double().tolist():
        for row, ids in zip(layer, word_ids.tolist(), strict=True):
            for i, own in enumerate(ids):
                if own < 0:
                    continue
                positive, negative = [], []
                for j, other in enumerate(ids):
                    if j == i or other < 0:
                        continue
                    score = cosine(row[i], row[j]) / temperature
                    (positive if other == own else negative).append(score)
                if positive and negative:
                    top = max(positive + negative)
                    above = sum(math.exp(s - top) for s in positive)
                    below = above + sum(math.exp(s - top) for s in negative)
                    terms.append(math.log(below) - math.log(above))
    return sum(terms) / len(terms) if terms else 0.0


def slow_stability(resid: Tensor, mask: Tensor, eps: float = 1e-8) -> float:
    """Eq. 6, one token after the other."""
    layers, total = resid.double().tolist(), 0.0
    seen = [(b, p) for b, row in enumerate(mask.tolist()) for p, one in enumerate(row) if one]
    for low, high in pairwise(layers):
        moved = [
            sum((y - x) ** 2 for x, y in zip(low[b][p], high[b][p], strict=True)) for b, p in seen
        ]
        sizes = [sum(x * x for x in layer[b][p]) for layer in (low, high) for b, p in seen]
        if seen:
            total += sum(moved) / len(seen) / (sum(sizes) / len(seen) + eps)
    return total


def words(rng: random.Random, pos: int = POS) -> list[int]:
    """Words of one to three tokens between some of no word, ids in no order."""
    ids = rng.sample(range(100), pos)
    row = [i for i in ids for _ in range(rng.randint(1, 3))][:pos]
    return [-1 if rng.random() < 0.15 else i for i in row]


def batch(seed: int, rows: int = 3, pos: int = POS) -> tuple[Tensor, Tensor]:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    return torch.randn(LAYERS, rows, pos, WIDTH), torch.tensor(
        [words(rng, pos) for _ in range(rows)]
    )
