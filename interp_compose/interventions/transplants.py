"""A phrase's vector from one prompt in the place of a phrase of another.

At layer ℓ the tokens of the target's phrase become one position, as in a collapse of constituent-
aware pooling, and that position is given a vector v instead of its own pooled one:

=================  =============================================================================
transplant         v = α({h_j : x_j ∈ source phrase}), α the pooling, h what enters block ℓ
own                v = α({h_j : x_j ∈ target phrase}): what pooling alone does
random phrase      another pair's source phrase, pooled alike, scaled to the transplant's norm
random direction   a Gaussian vector, scaled to the transplant's norm
=================  =============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.errors import InterventionError
from interp_compose.interventions.pooling import How, OwnPooling, PooledLayout, pool_groups

Vector = Literal["transplant", "own", "random phrase", "random direction"]
VECTORS: Final[tuple[Vector, ...]] = ("transplant", "own", "random phrase", "random direction")
"""What a phrase can be replaced by; all but the first are controls."""


@dataclass(frozen=True)
class Places:
    """Where the phrases of a batch of pairs lie.

    Attributes:
        layout: of the targets; each one's phrase is one position.
        phrase: the pooled position of each target's phrase.
        source: 0 at the tokens of each source's phrase, -1 elsewhere; behind the pairs' own
            sources may be those that give the random phrases, one a pair.
        differs: whether a pair's phrases have different tokens.
    """

    layout: PooledLayout
    phrase: Int[Tensor, "pair"]
    source: Int[Tensor, "source pos"]
    differs: Bool[Tensor, "pair"]

    def to(self, device: torch.device) -> Places:
        return Places(
            self.layout.to(device),
            self.phrase.to(device),
            self.source.to(device),
            self.differs.to(device),
        )


def vectors_of(
    targets: Float[Tensor, "pair d_model"],
    sources: Float[Tensor, "source d_model"],
    direction: Float[Tensor, "pair d_model"],
) -> dict[Vector, Callable[[], Float[Tensor, "pair d_model"]]]:
    """What each kind of vector is, from the pooled phrases of targets and sources."""
    transplants = sources[: len(targets)]
    # Functions, since `sources` holds vectors of random phrases only where these are wanted.
    return {
        "transplant": lambda: transplants,
        "own": lambda: targets,
        "random phrase": lambda: as_long_as(sources[len(targets) :], transplants),
        "random direction": lambda: as_long_as(direction, transplants),
    }


def as_long_as(
    vectors: Float[Tensor, "pair d_model"], others: Float[Tensor, "pair d_model"]
) -> Float[Tensor, "pair d_model"]:
    """The vectors with the norms of the others; NaN for a vector of zeros."""
    precise = torch.float64 if others.dtype == torch.float64 else torch.float32
    norms = torch.linalg.vector_norm(others.to(precise), dim=-1, keepdim=True)  # [pair 1]
    vectors = vectors.to(precise)
    scaled: Tensor = vectors * (norms / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True))
    return scaled.to(others.dtype)


def entering(
    target: Float[Tensor, "pair pos d_model"],
    source: Float[Tensor, "source source_pos d_model"],
    places: Places,
    poolings: Mapping[str, How | OwnPooling],
    vectors: Sequence[Vector],
    direction: Float[Tensor, "pair d_model"],
    layer: int,
) -> Float[Tensor, "row group d_model"]:
    """The residuals that enter a layer: pair by pair for each vector of each pooling.

    Args:
        target, source: the clean residuals of both; as many sources as ``places`` has.
        places: of the phrases.
        poolings: α, by name.
        vectors: what replaces the phrase.
        direction: of the random vectors; only its direction counts.
        layer: for messages.

    Raises:
        InterventionError: in no pair whose phrases differ does the source's vector differ from the
            target's own.
    """
    places, direction = places.to(target.device), direction.to(target.device)
    layout, rows = places.layout, torch.arange(len(target), device=target.device)
    out = []
    for name, how in poolings.items():
        # 1. Every unit of the targets, and the phrase of each source.
        # [pair group d_model], [source d_model]
        pooled = pool_groups(target, layout.of_token, how, n_groups=layout.n_positions)
        sources = pool_groups(source, places.source, how, n_groups=1)[:, 0]
        targets = pooled[rows, places.phrase]  # [pair d_model]
        # 2. A pooling by which no phrase changes is refused, once for all kinds of vectors.
        _check_changed(targets, sources[: len(targets)], places.differs, layer, name)
        vector_of: Mapping[Vector, Callable[[], Tensor]] = vectors_of(targets, sources, direction)
        # 3. A copy of the pooled residual for each vector, in the place of the phrase's own.
        for vector in vectors:
            edited = pooled.clone()
            edited[rows, places.phrase] = vector_of[vector]()
            out.append(edited)
    return torch.cat(out)  # row = (pooling · vectors + vector) · pairs + pair


def _check_changed(
    targets: Float[Tensor, "pair d_model"],
    transplants: Float[Tensor, "pair d_model"],
    differs: Bool[Tensor, "pair"],
    layer: int,
    pooling: str,
) -> None:
    """Refuse transplants of which not one changed a number, although phrases differ."""
    if bool(differs.any()) and torch.equal(targets[differs], transplants[differs]):
        raise InterventionError(
            f"transplants at layer {layer} changed nothing, although the phrases of "
            f"{int(differs.sum())} pairs differ: after {pooling} pooling the source's vector is "
            "the target's own. Check that the layer's input depends on the tokens."
        )
