"""Numbers for pictures of clusters: how far groups of vectors lie apart, without eyes.

Complexity control shows outputs of masked models as a scatter (Fig. 4C) and as cosines (Fig. 4D),
and reads both by eye. These are what stands behind.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import InputError
from interp_compose.probes.matrices import check_matrices


def silhouette(X: Float[Tensor, "point d"], labels: Int[Tensor, "_"]) -> float:
    """Mean silhouette over points (Rousseeuw 1987): 1 for clusters far apart, 0 for none, and below
    0 where points lie nearer to another cluster than to their own. Euclidean; scikit-learn's.

    Raises:
        InputError: not a matrix; another number of labels; fewer than two clusters, or as many as
            points.
        NonFiniteError: NaN or infinite entries.
    """
    from sklearn.metrics import silhouette_score

    _check(X, labels)
    kinds = len(labels.unique())
    if not 1 < kinds < len(labels):
        raise InputError(
            f"{len(labels)} points in {kinds} clusters; expected at least two clusters, and fewer "
            "clusters than points"
        )
    found = silhouette_score(X.detach().double().cpu().numpy(), labels.cpu().numpy())
    return float(found)


def twin_distance(
    X: Float[Tensor, "point d"], labels: Int[Tensor, "_"], twins: Sequence[tuple[int, int]]
) -> float:
    """Mean distance between the centres of twin clusters, over that between all other two.

    0 where each two twins are one cluster, 1 where a twin is no nearer than any other. Twins are
    pairs of labels, such as (a, b) and (b, a).

    Raises:
        InputError: not a matrix; another number of labels; no twins, a label without points, or
            none but one pair of twins.
        NonFiniteError: NaN or infinite entries.
    """
    _check(X, labels)
    points = X.detach().double()
    kinds = sorted({label for pair in twins for label in pair})
    if len(kinds) < 3 or not set(kinds) <= set(labels.tolist()):
        raise InputError(
            f"twins={list(twins)!r}: expected pairs of labels that occur, of three labels or more"
        )
    centres = torch.stack([points[labels == kind].mean(0) for kind in kinds])
    distances = torch.cdist(centres, centres)
    are_twins = torch.zeros(len(kinds), len(kinds), dtype=torch.bool, device=points.device)
    for one, other in twins:
        are_twins[kinds.index(one), kinds.index(other)] = True
    are_twins = are_twins | are_twins.mT
    others = ~are_twins & ~torch.eye(len(kinds), dtype=torch.bool, device=points.device)
    apart = float(distances[others].mean())
    return float(distances[are_twins].mean()) / apart if apart else 0.0


def block_contrast(X: Float[Tensor, "point d"], labels: Int[Tensor, "_"]) -> float:
    """Mean cosine of two different points of one label, less that of two of different labels.

    2 at most; about 0 where labels say nothing of the direction. A vector of zeros has a cosine of
    0 with all.

    Raises:
        InputError: not a matrix; another number of labels; no two points of one label, or none of
            different ones.
        NonFiniteError: NaN or infinite entries.
    """
    _check(X, labels)
    points = X.detach().double()
    unit = torch.nn.functional.normalize(points, dim=1)
    cosines = unit @ unit.mT
    same = labels[:, None] == labels[None, :]
    within = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    if not bool(within.any()) or bool(same.all()):
        raise InputError(
            f"{len(labels)} points of {len(labels.unique())} labels; expected at least two labels, "
            "and two points of one"
        )
    return float(cosines[within].mean() - cosines[~same].mean())


def _check(X: Tensor, labels: Tensor) -> None:
    check_matrices(X, "X", "point, d")
    if labels.shape != X.shape[:1]:
        raise InputError(
            f"labels have the shape {tuple(labels.shape)}; expected ({len(X)},), one per point"
        )
