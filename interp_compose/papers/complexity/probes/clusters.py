"""Measures of clusters: how far groups of vectors are from one another.

Complexity control shows masked outputs as a scatter (Fig. 4C) and as cosines (Fig. 4D), and judges
both by eye. These are numbers for what is seen there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.checks import check_package
from interp_compose.errors import InputError
from interp_compose.probes.matrices import check_matrices


def silhouette(X: Float[Tensor, "point d"], labels: Int[Tensor, "_"]) -> float:
    """Mean silhouette over points (Rousseeuw 1987): 1 for clusters far apart, 0 for none, and below
    0 where points are nearer to another cluster than to theirs. Euclidean; scikit-learn's.

    Raises:
        InputError: not a matrix; another number of labels; fewer than two clusters, or as many as
            points.
        NonFiniteError: NaN or infinite entries.
        MissingPackageError: scikit-learn is not installed.
    """
    check_package("sklearn", "papers")
    from sklearn.metrics import silhouette_score

    _check(X, labels)
    clusters = len(labels.unique())
    if not 1 < clusters < len(labels):
        raise InputError(
            f"{len(labels)} points in {clusters} clusters; expected at least two clusters, and "
            "fewer clusters than points"
        )
    return float(silhouette_score(X.detach().double().cpu().numpy(), labels.cpu().numpy()))


def twin_distance(
    X: Float[Tensor, "point d"], labels: Int[Tensor, "_"], mirrored: Sequence[tuple[int, int]]
) -> float:
    """Mean distance between the centres of mirrored clusters, over that between all other two.

    0 where each mirrored pair is one cluster, 1 where its two are no nearer than any others.

    Args:
        X: points.
        labels: the cluster of each.
        mirrored: pairs of labels, such as those of (a, b) and (b, a).

    Raises:
        InputError: not a matrix; another number of labels; no mirrored pair, a label without
            points, or fewer than three labels in all pairs.
        NonFiniteError: NaN or infinite entries.
    """
    _check(X, labels)
    points = X.detach().double()
    clusters = sorted({label for pair in mirrored for label in pair})
    if len(clusters) < 3 or not set(clusters) <= set(labels.tolist()):
        raise InputError(
            f"mirrored={list(mirrored)!r}: expected pairs of labels that occur, three labels or "
            "more in all"
        )
    centres = torch.stack([points[labels == cluster].mean(0) for cluster in clusters])
    distances = torch.cdist(centres, centres)
    is_mirrored = torch.zeros(len(clusters), len(clusters), dtype=torch.bool, device=points.device)
    for one, other in mirrored:
        is_mirrored[clusters.index(one), clusters.index(other)] = True
    is_mirrored = is_mirrored | is_mirrored.mT
    others = ~is_mirrored & ~torch.eye(len(clusters), dtype=torch.bool, device=points.device)
    reference = float(distances[others].mean())
    return float(distances[is_mirrored].mean()) / reference if reference else 0.0


def block_contrast(X: Float[Tensor, "point d"], labels: Int[Tensor, "_"]) -> float:
    """Mean cosine of two different points of one label, less that of two of different labels.

    2 at most; about 0 where labels do not depend on the direction. A vector of zeros has the cosine
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
    is_same = labels[:, None] == labels[None, :]
    is_pair = is_same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    if not bool(is_pair.any()) or bool(is_same.all()):
        raise InputError(
            f"{len(labels)} points of {len(labels.unique())} labels; expected at least two labels, "
            "and two points of one"
        )
    return float(cosines[is_pair].mean() - cosines[~is_same].mean())


def _check(X: Tensor, labels: Tensor) -> None:
    check_matrices(X, "X", "point, d")
    if labels.shape != X.shape[:1]:
        raise InputError(
            f"labels have the shape {tuple(labels.shape)}; expected ({len(X)},), one per point"
        )
