"""Separation of groups of vectors, against sums written out in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import InputError, NonFiniteError
from interp_compose.papers.complexity.probes.clusters import (
    block_contrast,
    silhouette,
    twin_distance,
)


def points(seed: int = 0, n: int = 23, d: int = 5, kinds: int = 4) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.arange(kinds), torch.randint(kinds, (n - kinds,), generator=random)])
    return torch.randn(n, d, generator=random) + labels[:, None] * 0.7, labels


def slow_silhouette(X: np.ndarray, labels: list[int]) -> float:
    found = []
    for i, own in enumerate(labels):
        mean: dict[int, float] = {}
        for kind in set(labels):
            others = [j for j, label in enumerate(labels) if label == kind and j != i]
            if others:
                mean[kind] = sum(math.dist(X[i], X[j]) for j in others) / len(others)
        if own not in mean:
            found.append(0.0)  # alone in its cluster
            continue
        a = mean.pop(own)
        b = min(mean.values())
        found.append((b - a) / max(a, b))
    return sum(found) / len(found)


def slow_contrast(X: np.ndarray, labels: list[int]) -> float:
    within, between = [], []
    for i in range(len(X)):
        for j in range(len(X)):
            cosine = X[i] @ X[j] / math.sqrt(X[i] @ X[i]) / math.sqrt(X[j] @ X[j])
            if i != j:
                (within if labels[i] == labels[j] else between).append(cosine)
    return float(np.mean(within) - np.mean(between))


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_as_written_out(seed: int) -> None:
    X, labels = points(seed)
    slow = X.double().numpy()
    assert silhouette(X, labels) == pytest.approx(slow_silhouette(slow, labels.tolist()), abs=1e-6)
    assert block_contrast(X, labels) == pytest.approx(
        slow_contrast(slow, labels.tolist()), abs=1e-6
    )


def test_ends_of_the_scales() -> None:
    labels = torch.arange(4).repeat_interleave(5)
    apart = torch.nn.functional.one_hot(labels, 4).float()
    assert silhouette(apart, labels) == pytest.approx(1)
    assert block_contrast(apart, labels) == pytest.approx(1)
    assert twin_distance(apart, labels, [(0, 1), (2, 3)]) == pytest.approx(1)
    merged = torch.nn.functional.one_hot(labels // 2, 4).float()
    assert twin_distance(merged, labels, [(0, 1), (2, 3)]) == 0
    same = torch.ones(20, 3)
    assert silhouette(same, labels) == 0
    assert block_contrast(same, labels) == pytest.approx(0, abs=1e-12)
    assert twin_distance(same, labels, [(0, 1), (2, 3)]) == 0


def test_twins_by_their_centres() -> None:
    X, labels = points(3)
    centres = [X[labels == k].double().mean(0).numpy() for k in range(4)]
    other = np.mean(
        [math.dist(centres[i], centres[j]) for i, j in ((0, 1), (0, 3), (2, 1), (2, 3))]
    )
    twins = np.mean([math.dist(centres[0], centres[2]), math.dist(centres[1], centres[3])])
    assert twin_distance(X, labels, [(0, 2), (3, 1)]) == pytest.approx(twins / other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_any_dtype_in(dtype: torch.dtype) -> None:
    X, labels = points()
    X = X.to(dtype)
    assert block_contrast(X, labels) == block_contrast(X.double(), labels)
    assert silhouette(X, labels) == silhouette(X.double(), labels)


def test_what_has_no_answer_is_refused() -> None:
    X, labels = points()
    with pytest.raises(InputError, match=r"labels have the shape \(22,\); expected \(23,\)"):
        silhouette(X, labels[1:])
    with pytest.raises(InputError, match="23 points in 1 clusters"):
        silhouette(X, torch.zeros_like(labels))
    with pytest.raises(InputError, match="23 points in 23 clusters"):
        silhouette(X, torch.arange(23))
    with pytest.raises(InputError, match="two points of one"):
        block_contrast(X, torch.arange(23))
    with pytest.raises(InputError, match="at least two labels"):
        block_contrast(X, torch.zeros_like(labels))
    for twins in ([], [(0, 1)], [(0, 9), (1, 2)]):
        with pytest.raises(InputError, match="expected pairs of labels that occur"):
            twin_distance(X, labels, twins)
    with pytest.raises(NonFiniteError):
        silhouette(X * math.nan, labels)
