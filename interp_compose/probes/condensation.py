"""Condensation: do the input weights of a layer's neurons point in a few common directions?

Complexity control, section VI-A: the cosine between the input weights of every two neurons (Fig.
5A, with W_Q of the first layer, heads merged), neurons of a common direction next to each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.probes.matrices import check_matrices, wide_enough
from interp_compose.tensors import full_precision

CHUNK: Final = 1 << 24
"""Cosines held at one time where the whole matrix is not returned."""


@dataclass(frozen=True, repr=False)
class Condensation:
    """How far neurons share their directions. Tensors are on the device of the weights.

    Attributes:
        cosines: of every two neurons, in the order they came; float32 (float64 for float64). A dead
            neuron, whose weights are all zero, has no direction: 0 with all, itself included.
        order: neurons in the order of a figure, dead ones last: ``cosines[order][:, order]``.
        group: of each neuron, the direction it belongs to, numbered in the order of their first
            neurons; -1 if dead.
        sizes: neurons in each direction; they and the dead add up to all.
        n_directions: condensed directions, those of at least two neurons.
        dead: neurons without weights.
        mean_abs_cosine: mean ``|cos|`` over pairs of different living neurons, NaN without a pair.
        random_abs_cosine: its expectation for independent random directions in as many dimensions,
            the zero of the scale: nothing is condensed.
        threshold: the cosine above which a neuron joins a direction.
    """

    cosines: Float[Tensor, "neuron neuron"]
    order: Int[Tensor, "neuron"]
    group: Int[Tensor, "neuron"]
    sizes: tuple[int, ...]
    n_directions: int
    dead: int
    mean_abs_cosine: float
    random_abs_cosine: float
    threshold: float

    def __repr__(self) -> str:
        """The numbers, without the matrices."""
        dead = f", {self.dead} dead" if self.dead else ""
        largest = max(self.sizes, default=0)
        return (
            f"<Condensation of {len(self.group)} neurons{dead}: {self.n_directions} directions of "
            f"two or more at cos > {self.threshold:g}, the largest of {largest}; mean |cos| "
            f"{self.mean_abs_cosine:.3f}, of random ones {self.random_abs_cosine:.3f}>"
        )


@public
def condensation(W: Float[Tensor, "neuron d_in"], *, threshold: float = 0.4) -> Condensation:
    """Cosines of neurons' input weights, and the directions that several of them share.

    The greedy reordering of the authors' code: the first neuron not yet taken opens a direction,
    and every one not yet taken whose cosine with it is above ``threshold`` joins; then the next.
    Where directions are not clearly separated, their number depends on the order of the neurons;
    the means do not. Memory: a matrix of neuron × neuron; :func:`mean_abs_cosine` does without.

    Args:
        W: one row of input weights per neuron.
        threshold: a cosine, at least 0 and below 1. The authors' is 0.4.

    Raises:
        InputError: not a matrix, no entries, a sparse layout, a quantised dtype.
        NonFiniteError: NaN or infinite weights.
        OptionError: a threshold out of range.
    """
    if not 0 <= threshold < 1:
        raise OptionError(
            f"threshold={threshold!r}: expected a cosine of at least 0 and below 1, e.g. 0.4"
        )
    # 1. Cosines of all pairs of rows, in full precision.
    unit = _directions(W)
    with full_precision(unit):
        cosines = unit @ unit.mT  # [neuron neuron]
    # 2. Directions, greedily. A dead neuron is a row of zeros, and joins none.
    alive = unit.any(dim=1)  # [neuron]
    order, group, sizes = _grouped(cosines > threshold, alive)
    return Condensation(
        cosines=cosines,
        order=order.to(W.device),
        group=group.to(W.device),
        sizes=sizes,
        n_directions=sum(size > 1 for size in sizes),
        dead=len(unit) - int(alive.sum()),
        mean_abs_cosine=_mean_abs_of(cosines.split(_rows_of(len(unit))), alive),
        random_abs_cosine=random_abs_cosine(W.shape[1]),
        threshold=float(threshold),
    )


def mean_abs_cosine(W: Float[Tensor, "neuron d_in"]) -> float:
    """Mean ``|cos|`` over pairs of different rows that are not zero; NaN without a pair.

    The same number as :attr:`Condensation.mean_abs_cosine`, a block of rows at a time.

    Raises:
        InputError, NonFiniteError: as :func:`condensation`.
    """
    unit = _directions(W)
    with full_precision(unit):
        blocks = (block @ unit.mT for block in unit.split(_rows_of(len(unit))))
        return _mean_abs_of(blocks, unit.any(dim=1))


def random_abs_cosine(d: int) -> float:
    """E ``|cos|`` of two independent directions, uniform in ``d`` dimensions.

    Γ(d/2) / (√π Γ((d+1)/2)): 1, 2/π, 1/2 for d = 1, 2, 3, and about √(2 / (π d)) for many.
    """
    if d < 1:
        raise InputError(f"d={d!r}: expected a number of dimensions, 1 or more")
    # By logarithms: Γ itself overflows from a few hundred dimensions on.
    return math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)


def _directions(W: Float[Tensor, "neuron d_in"]) -> Float[Tensor, "neuron d_in"]:
    """The rows of W at unit length, whatever their scale; rows of zeros stay zero."""
    check_matrices(W, "W", "neuron, d_in")
    W = W.detach().to(wide_enough(W.dtype))
    # Over the largest entry first, so that no square overflows or vanishes.
    largest = W.abs().amax(dim=1, keepdim=True)  # [neuron 1]
    scaled = W / largest.masked_fill(largest == 0, 1)
    norm = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)  # [neuron 1]
    unit: Tensor = scaled / norm.masked_fill(norm == 0, 1)
    return unit


def _rows_of(n: int) -> int:
    """Rows of an n × n matrix that are computed together."""
    return max(1, CHUNK // n)


def _mean_abs_of(blocks: Iterable[Tensor], alive: Tensor) -> float:
    """Mean over pairs of different living rows, whose cosines come in blocks of rows.

    From the sum of all: a dead row adds nothing, a living one adds 1 with itself.
    """
    n = int(alive.sum())
    if n < 2:
        return math.nan
    # Σ_j |cos_ij| of each row i, without a copy of the block's absolute values.
    by_row = (torch.linalg.vector_norm(block, ord=1, dim=1) for block in blocks)
    total = sum(float(sums.sum(dtype=torch.float64)) for sums in by_row)
    return max(total - n, 0.0) / (n * (n - 1))  # without the diagonal


def _grouped(
    near: Tensor, alive: Tensor
) -> tuple[Int[Tensor, "neuron"], Int[Tensor, "neuron"], tuple[int, ...]]:
    """Greedy order, each neuron's group, and the groups' sizes. ``near`` loses its diagonal."""
    # 1. Neurons with no other above the threshold need no search.
    has_neighbour = near.fill_diagonal_(False).any(1)  # the others are a direction each
    connected = np.flatnonzero(has_neighbour.cpu().numpy())
    neighbours = near[has_neighbour][:, has_neighbour].cpu().numpy()
    # 2. The first neuron that is free opens a direction, and its free neighbours join.
    free = np.ones(len(connected), dtype=bool)
    isolated = np.flatnonzero((alive & ~has_neighbour).cpu().numpy())
    directions = [isolated[i : i + 1] for i in range(len(isolated))]
    for first in range(len(connected)):
        if not free[first]:
            continue
        members = free & neighbours[first]
        directions.append(connected[np.concatenate([[first], np.flatnonzero(members)])])
        free[members] = free[first] = False
    # 3. Directions in the order of their first neurons, the dead behind them.
    directions.sort(key=lambda direction: int(direction[0]))
    sizes = tuple(len(direction) for direction in directions)
    dead = np.flatnonzero(~alive.cpu().numpy())
    order = np.concatenate([*directions, dead])
    group = np.full(len(alive), -1)
    group[order[: len(order) - len(dead)]] = np.repeat(np.arange(len(sizes)), sizes)
    return torch.from_numpy(order), torch.from_numpy(group), sizes
