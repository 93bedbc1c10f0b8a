"""Condensation against loops over pairs of neurons."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import InputError, NonFiniteError, OptionError
from interp_compose.probes import condensation as module
from interp_compose.probes.condensation import condensation, mean_abs_cosine, random_abs_cosine


def slow_cosine(a: Tensor, b: Tensor) -> float:
    a, b = a.double(), b.double()
    if not a.any() or not b.any():
        return 0.0
    return float(a @ b / math.sqrt(float(a @ a) * float(b @ b)))


def slow_mean(W: Tensor) -> float:
    living = [row for row in W if row.any()]
    pairs = [abs(slow_cosine(living[i], living[j])) for j in range(len(living)) for i in range(j)]
    return sum(pairs) / len(pairs)


def slow_groups(W: Tensor, threshold: float) -> list[list[int]]:
    left = [i for i in range(len(W)) if W[i].any()]
    groups = []
    while left:
        first = left.pop(0)
        joined = [j for j in left if slow_cosine(W[first], W[j]) > threshold]
        left = [j for j in left if j not in joined]
        groups.append([first, *joined])
    return groups


def condensed(*sizes: int, d: int = 13, noise: float = 0.05) -> Tensor:
    """Shuffled neurons, so many along each of several orthogonal directions."""
    rows = torch.cat([torch.eye(d)[i].repeat(size, 1) for i, size in enumerate(sizes)])
    rows = rows + noise * torch.randn(rows.shape)
    return rows[torch.randperm(len(rows))] * (0.1 + torch.rand(len(rows), 1))


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.4, 0.9])
def test_it_is_the_greedy_reordering_of_the_cosines(threshold: float) -> None:
    torch.manual_seed(0)
    W = torch.randn(29, 5)
    W[[3, 17]] = 0
    found = condensation(W, threshold=threshold)
    groups = slow_groups(W, threshold)
    assert found.order.tolist() == [*(i for group in groups for i in group), 3, 17]
    for number, group in enumerate(groups):
        assert found.group[group].tolist() == [number] * len(group)
    assert found.group[[3, 17]].tolist() == [-1, -1]
    assert found.sizes == tuple(len(group) for group in groups)
    assert found.n_directions == sum(len(group) > 1 for group in groups)
    assert found.dead == 2
    assert sum(found.sizes) + found.dead == 29
    for i in range(29):
        for j in range(29):
            assert found.cosines[i, j].item() == pytest.approx(slow_cosine(W[i], W[j]), abs=1e-6)
    assert found.mean_abs_cosine == pytest.approx(slow_mean(W), rel=1e-5)
    assert found.random_abs_cosine == random_abs_cosine(5)
    assert found.threshold == threshold


def test_condensed_directions_are_counted_and_put_side_by_side() -> None:
    torch.manual_seed(0)
    W = condensed(8, 5, 1, 3)
    found = condensation(W)
    assert found.n_directions == 3
    assert sorted(found.sizes) == [1, 3, 5, 8]
    assert found.mean_abs_cosine > found.random_abs_cosine
    placed = found.cosines[found.order][:, found.order]
    same = found.group[found.order][:, None] == found.group[found.order]
    assert placed[same].min() > 0.9
    assert placed[~same].abs().max() < 0.4


def test_opposite_neurons_do_not_share_a_direction_but_do_in_the_mean() -> None:
    W = torch.tensor([[1.0, 0.0], [-2.0, 0.0]])
    found = condensation(W)
    assert found.sizes == (1, 1)
    assert found.n_directions == 0
    assert found.mean_abs_cosine == pytest.approx(1)


def test_random_neurons_are_at_the_zero_of_the_scale() -> None:
    torch.manual_seed(0)
    found = condensation(torch.randn(400, 67))
    assert found.mean_abs_cosine == pytest.approx(found.random_abs_cosine, rel=0.01)


@pytest.mark.parametrize(
    ("d", "expected"), [(1, 1.0), (2, 2 / math.pi), (3, 0.5), (4, 4 / 3 / math.pi)]
)
def test_the_random_cosine_by_hand(d: int, expected: float) -> None:
    assert random_abs_cosine(d) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("d", [2, 5, 64])
def test_the_random_cosine_by_drawing(d: int) -> None:
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(200_000, d, generator=generator)
    drawn = (draws[:, 0] / draws.norm(dim=1)).abs()  # to a fixed direction: the same by symmetry
    error = float(drawn.std()) / math.sqrt(len(drawn))
    assert abs(float(drawn.mean()) - random_abs_cosine(d)) < 4 * error
    assert error < 0.01 * random_abs_cosine(d)
    assert random_abs_cosine(50_257) == pytest.approx(math.sqrt(2 / math.pi / 50_257), rel=1e-5)


@pytest.mark.parametrize("chunk", [1, 100, 1 << 24])
def test_the_light_path_is_the_same_number(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    torch.manual_seed(0)
    W = torch.randn(31, 7)
    W[5] = 0
    assert mean_abs_cosine(W) == pytest.approx(slow_mean(W), rel=1e-5)
    assert condensation(W).mean_abs_cosine == pytest.approx(mean_abs_cosine(W), rel=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 6))
def test_the_means_know_no_order_no_scale_no_sign_and_no_rotation(
    seed: int, neurons: int, d: int
) -> None:
    torch.manual_seed(seed)
    W = torch.randn(neurons, d, dtype=torch.float64)
    found = mean_abs_cosine(W)
    assert 0 <= found <= 1 + 1e-12
    q, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64))
    scales = torch.randn(neurons, 1, dtype=torch.float64).exp()
    for same in (W[torch.randperm(neurons)], scales * W, -W, W @ q):
        assert mean_abs_cosine(same) == pytest.approx(found, rel=1e-9)
        assert condensation(same).mean_abs_cosine == pytest.approx(found, rel=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_directions_that_are_apart_are_counted_in_any_order(seed: int) -> None:
    torch.manual_seed(seed)
    W = condensed(4, 3, 1, 2)
    W[0] *= 1e-30
    found = condensation(W[torch.randperm(len(W))])
    assert sorted(found.sizes) == [1, 2, 3, 4]
    assert found.n_directions == 3
    assert found.dead == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_every_dtype(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    W = torch.randn(11, 5).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, light = condensation(W), mean_abs_cosine(W)
    assert found.cosines.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert found.mean_abs_cosine == pytest.approx(slow_mean(W), rel=1e-5)
    assert light == pytest.approx(slow_mean(W), rel=1e-5)


def test_no_living_pair_has_no_mean() -> None:
    for W in (torch.zeros(3, 5), torch.eye(3, 5) * torch.tensor([[1.0], [0.0], [0.0]])):
        found = condensation(W)
        assert math.isnan(found.mean_abs_cosine)
        assert math.isnan(mean_abs_cosine(W))
        assert found.dead + len(found.sizes) == 3
        assert sorted(found.order.tolist()) == [0, 1, 2]
        assert found.n_directions == 0


def test_what_it_refuses() -> None:
    for threshold in (-0.1, 1.0, math.nan):
        with pytest.raises(OptionError, match="expected a cosine of at least 0 and below 1"):
            condensation(torch.eye(3), threshold=threshold)
    W = torch.eye(3)
    W[1, 1] = math.nan
    for measure in (condensation, mean_abs_cosine):
        with pytest.raises(NonFiniteError, match="W has 1 NaN or infinite entries of 9"):
            measure(W)
        with pytest.raises(InputError, match=r"W has the shape \(0, 5\); expected matrices"):
            measure(torch.zeros(0, 5))
        with pytest.raises(InputError, match=r"torch.sparse_coo.*to_dense\(\)"):
            measure(torch.eye(3).to_sparse())
    with pytest.raises(InputError, match="d=0: expected a number of dimensions"):
        random_abs_cosine(0)


def test_its_text_is_a_line_of_numbers() -> None:
    W = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert repr(condensation(W)) == (
        "<Condensation of 4 neurons, 1 dead: 1 directions of two or more at cos > 0.4, the largest "
        f"of 2; mean |cos| {slow_mean(W):.3f}, of random ones {random_abs_cosine(2):.3f}>"
    )
