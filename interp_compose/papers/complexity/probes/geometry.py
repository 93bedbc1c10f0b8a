"""The geometry of an embedding: its principal components, and whether tokens are in order there.

Complexity control, section VI-B and Fig. 5B: in the reasoning phase, number tokens are arranged
regularly, those that differ by 3 next to each other along one direction and those that differ by 4
along another; "not a simple numerical magnitude relationship".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.probes.matrices import check_matrices
from interp_compose.tensors import full_precision

MAX_ORDERED: Final = 4096
"""Most tokens whose order is tested: all their distances are held in memory."""
MAX_PERMUTATIONS: Final = 100_000
ORDERS_CHUNK: Final = 256
"""Shuffled orders that are computed together."""


@dataclass(frozen=True)
class StepOrder:
    """Do tokens ``step`` places apart differ by one common direction, and are they near?

    ``cosine`` is the mean cosine between the differences e(t + step) − e(t) of different t: 1 where
    each is the same direction, about 0 where there is none. ``null_mean`` and ``null_sd`` are those
    of the same tokens in random orders; ``p`` is the share of orders, the observed one among them,
    whose cosine is at least as large.

    ``distance`` is the mean length of these differences, over its mean in random orders: 1 where
    distance does not depend on the order, 0 where tokens so far apart coincide. ``distance_p`` is
    the share of orders whose mean length is at most as large. On a ring the directions of all steps
    cancel, and the distance alone shows the order.
    """

    step: int
    cosine: float
    null_mean: float
    null_sd: float
    p: float
    distance: float
    distance_p: float


@dataclass(frozen=True)
class Geometry:
    """Principal components of some tokens' embeddings, and the order of the tokens among them.

    Attributes:
        tokens: rows of the embedding, in the order given.
        coordinates: of each token, centred, along the components; float64. Of each component's two
            signs the one that makes its largest coordinate positive.
        explained: each component's share of the tokens' variance.
        order: one entry for each of ``steps``.
    """

    tokens: tuple[int, ...]
    coordinates: Float[Tensor, "token component"]
    explained: Float[Tensor, "component"]
    order: tuple[StepOrder, ...]


@public
def embedding_geometry(
    W_E: Float[Tensor, "d_vocab d_model"],
    tokens: Sequence[int] | None = None,
    *,
    components: int = 2,
    steps: Sequence[int] = (1, 2, 3, 4, 5),
    permutations: int = 999,
    seed: int = 0,
) -> Geometry:
    """Principal components of tokens' embeddings, and a test for ordered structure.

    Why the cosine: adding ``step`` to a number should move its embedding along one direction,
    whichever direction that is and whatever the tokens' magnitude does. A fit of the embeddings to
    the numbers themselves would see only magnitude, which the paper rules out; distances alone
    would call any tight cluster ordered. A line that folds back a few times keeps most of its
    cosine. Along a straight line every step is ordered: compare the steps with one another.

    Args:
        W_E: one row per token.
        tokens: rows, in the order that is tested (e.g. those of the numbers 20 … 99); None: all.
        components: how many to keep.
        steps: places between two tokens compared; ``()`` tests nothing.
        permutations: random orders of the same tokens in each null distribution.
        seed: of those orders.

    Raises:
        InputError: not a matrix, no entries, a sparse layout, a quantised dtype; tokens that are no
            rows, occur twice, or are fewer than two; embeddings that are all equal; a step that
            leaves fewer than two differences; steps over more than 4096 tokens.
        NonFiniteError: NaN or infinite entries.
        OptionError: components or permutations out of range.
    """
    check_matrices(W_E, "W_E", "d_vocab, d_model")
    rows = _checked_tokens(tokens, len(W_E))
    n, most = len(rows), min(len(rows), W_E.shape[1])
    if not 1 <= components <= most:
        raise OptionError(
            f"components={components!r}: expected 1 … {most} for {n} tokens in "
            f"{W_E.shape[1]} dimensions"
        )
    if not 1 <= permutations <= MAX_PERMUTATIONS:
        raise OptionError(
            f"permutations={permutations!r}: expected 1 to {MAX_PERMUTATIONS}, e.g. 999"
        )
    if seed < 0:
        raise OptionError(f"seed={seed!r}: expected a whole number of 0 or more")
    _check_steps(steps, n)
    X = W_E.detach()
    X = X if tokens is None else X[list(rows)]
    X = X.double()
    entry = float(X.abs().max())
    X = X - X.mean(dim=0)
    largest = float(X.abs().max())
    if largest <= 1e-15 * entry:
        raise InputError(
            f"the embeddings of all {n} tokens are equal; expected tokens with different rows"
        )
    with full_precision(X):
        coordinates, explained = _components(X / largest, components)
        order = _orders(X / largest, steps, permutations, seed) if len(steps) else ()
    return Geometry(rows, coordinates * largest, explained, order)


def _checked_tokens(tokens: Sequence[int] | None, d_vocab: int) -> tuple[int, ...]:
    if tokens is not None and len(tokens) > d_vocab:
        raise InputError(f"{len(tokens)} tokens of a W_E with {d_vocab} rows; give each row once")
    rows = tuple(range(d_vocab)) if tokens is None else tuple(tokens)
    for i, row in enumerate(rows):
        if not 0 <= row < d_vocab:
            raise InputError(f"tokens[{i}] is {row!r}; expected a row of W_E, 0 … {d_vocab - 1}")
    if len(set(rows)) < len(rows):
        twice = next(row for i, row in enumerate(rows) if row in rows[:i])
        raise InputError(f"token {twice} occurs twice in tokens; give each once")
    if len(rows) < 2:
        raise InputError(f"{len(rows)} tokens; expected at least two to compare")
    return rows


def _check_steps(steps: Sequence[int], n: int) -> None:
    for i, step in enumerate(steps):
        if not 1 <= step <= n - 2:
            raise InputError(
                f"steps[{i}] is {step!r}; expected 1 … {n - 2} for {n} tokens, so that two "
                "differences can be compared; steps=() tests no order"
            )
    if len(steps) and n > MAX_ORDERED:
        raise InputError(
            f"{n} tokens are too many to test their order, at most {MAX_ORDERED}: name the tokens "
            "whose order means something, or pass steps=() for the components alone"
        )


def _components(
    X: Float[Tensor, "token d_model"], components: int
) -> tuple[Float[Tensor, "token component"], Float[Tensor, "component"]]:
    """Coordinates and shares of variance, by the eigenvectors of the smaller Gram matrix."""
    is_tall = X.shape[0] > X.shape[1]
    values, vectors = torch.linalg.eigh(X.mT @ X if is_tall else X @ X.mT)
    values = values.flip(0)[:components].clamp_min(0)
    vectors = vectors.flip(1)[:, :components]
    coordinates = X @ vectors if is_tall else vectors * values.sqrt()
    furthest = coordinates.abs().argmax(dim=0, keepdim=True)
    sign = coordinates.gather(0, furthest).sign()
    return coordinates * torch.where(sign == 0, 1.0, sign), values / X.square().sum()


def _orders(
    X: Float[Tensor, "token d_model"], steps: Sequence[int], permutations: int, seed: int
) -> tuple[StepOrder, ...]:
    """Each step's mean cosine in the order given and in shuffled ones, the same for all steps."""
    n = len(X)
    rng = np.random.default_rng(seed)
    shuffled = np.stack([np.arange(n), *(rng.permutation(n) for _ in range(permutations))])
    places = torch.from_numpy(shuffled).to(X.device)
    distances = torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist")
    orders = []
    for step in steps:
        parts = [_mean_cosine(X, distances, part, step) for part in places.split(ORDERS_CHUNK)]
        observed, *null = torch.cat(parts).tolist()
        n_at_least = sum(value >= observed - 1e-12 for value in null)
        lengths = [distances[p[:, :-step], p[:, step:]].mean(1) for p in places.split(ORDERS_CHUNK)]
        length, *null_lengths = torch.cat(lengths).tolist()
        n_as_near = sum(value <= length * (1 + 1e-12) for value in null_lengths)
        orders.append(
            StepOrder(
                step=step,
                cosine=observed,
                null_mean=float(np.mean(null)),
                null_sd=float(np.std(null)),
                p=(1 + n_at_least) / (1 + permutations),
                distance=length / float(np.mean(null_lengths)),
                distance_p=(1 + n_as_near) / (1 + permutations),
            )
        )
    return tuple(orders)


def _mean_cosine(
    X: Float[Tensor, "token d_model"],
    distances: Float[Tensor, "token token"],
    places: Tensor,
    step: int,
) -> Float[Tensor, "order"]:
    """Mean cosine between the differences of different tokens, for each order [order token].

    The sum s of the unit differences has ‖s‖² = (their number) + (the sum over pairs). It is one
    product with X: how often each token's embedding counts in it. The difference of equal
    embeddings has no direction and is left out.
    """
    low, high = places[:, :-step], places[:, step:]
    distance = distances[low, high]
    weight = torch.where(distance > 0, 1 / distance, 0.0)
    counts = X.new_zeros(len(places), len(X))
    counts.scatter_add_(1, high, weight).scatter_add_(1, low, -weight)
    m = (distance > 0).sum(dim=1)
    squared = (counts @ X).square().sum(dim=1)
    cosine: Tensor = (squared - m) / (m * (m - 1)).clamp_min(1)
    return torch.where(m > 1, cosine, 0.0)
