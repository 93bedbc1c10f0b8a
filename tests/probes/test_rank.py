"""Stable rank against all singular values in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from interp_compose.errors import InputError, NonFiniteError
from interp_compose.probes.rank import stable_rank
from tests.probes.slow import slow_rank


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (1, 11), (11, 1), (13, 13), (1, 1)])
def test_it_is_the_squared_frobenius_over_the_squared_spectral_norm(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    A = torch.randn(shape)
    assert stable_rank(A).item() == pytest.approx(slow_rank(A), rel=1e-5)
    double = stable_rank(A.double())
    assert double.dtype == torch.float64
    assert double.item() == pytest.approx(slow_rank(A), rel=1e-12)


def test_by_hand() -> None:
    assert stable_rank(torch.eye(5)).item() == pytest.approx(5)
    assert stable_rank(torch.diag(torch.tensor([2.0, 1.0, 1.0]))).item() == pytest.approx(1.5)
    assert stable_rank(torch.outer(torch.arange(1.0, 5), torch.ones(3))).item() == pytest.approx(1)


def test_every_matrix_of_a_batch_by_itself() -> None:
    torch.manual_seed(0)
    A = torch.randn(2, 3, 7, 5) * torch.tensor([1e-3, 1.0, 1e3])[:, None, None]
    found = stable_rank(A)
    assert found.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            assert found[i, j].item() == pytest.approx(slow_rank(A[i, j]), rel=1e-5)
    assert stable_rank(A[:0]).shape == (0, 3)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_squares_beyond_float32_do_no_harm(scale: float) -> None:
    A = torch.randn(5, 7)
    assert stable_rank(A * scale).item() == pytest.approx(slow_rank(A), rel=1e-5)


def test_a_nearly_singular_matrix_keeps_its_digits() -> None:
    A = torch.ones(7, 5) + 1e-4 * torch.randn(7, 5)
    assert stable_rank(A).item() == pytest.approx(slow_rank(A), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    A = (300 * torch.randn(5, 7)).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = stable_rank(A)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(slow_rank(A), rel=1e-5)


def test_a_zero_matrix_has_rank_zero() -> None:
    A = torch.randn(2, 3, 3)
    A[1] = 0
    assert stable_rank(A)[1].item() == 0
    assert stable_rank(A)[0].item() == pytest.approx(slow_rank(A[0]), rel=1e-5)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9))
def test_it_lies_between_1_and_the_rank_and_is_a_property_of_the_shape_alone(
    seed: int, rows: int, columns: int
) -> None:
    torch.manual_seed(seed)
    A = torch.randn(rows, columns)
    found = stable_rank(A).item()
    assert 1 - 1e-5 <= found <= min(rows, columns) * (1 + 1e-5)
    q, _ = torch.linalg.qr(torch.randn(rows, rows))
    for same in (A.T, -3 * A, q @ A):
        assert stable_rank(same).item() == pytest.approx(found, rel=1e-4)


def test_a_matrix_without_entries_is_refused() -> None:
    with pytest.raises(InputError, match=r"A has the shape \(0, 5\); expected matrices"):
        stable_rank(torch.zeros(0, 5))


@pytest.mark.parametrize("junk", [math.nan, math.inf])
def test_entries_that_are_not_finite_are_refused(junk: float) -> None:
    A = torch.ones(3, 5)
    A[1, 2] = junk
    with pytest.raises(NonFiniteError, match="A has 1 NaN or infinite entries of 15"):
        stable_rank(A)
