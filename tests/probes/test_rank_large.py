"""Matrices that are iterated, not decomposed: against all singular values in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import OptionError
from interp_compose.probes import rank
from interp_compose.probes.lanczos import _log_growth, top_pair
from interp_compose.probes.rank import SMALL_SIDE, spectral_norm, stable_rank
from tests.probes.slow import slow_rank, slow_values

LARGE = SMALL_SIDE + 1


def with_values(values: Tensor, seed: int = 0) -> Tensor:
    """A dense matrix with these singular values."""
    generator = torch.Generator().manual_seed(seed)
    n = len(values)
    left, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
    return (left * values) @ right


SPECTRA = {
    "a gap of 1 %": torch.cat([torch.ones(1), torch.linspace(0.99, 0, LARGE - 1)]),
    "a gap of 1 % above a plateau": torch.cat([torch.ones(1), torch.full((LARGE - 1,), 0.99)]),
    "all equal": torch.ones(LARGE),
    "two equal": torch.cat([torch.ones(2), torch.linspace(0.9, 0, LARGE - 2)]),
    "rank one": torch.cat([torch.ones(1), torch.zeros(LARGE - 1)]),
    "a power law": torch.arange(1, LARGE + 1) ** -0.7,
    "geometric": 0.99 ** torch.arange(LARGE),
    "straight": torch.linspace(1, 0.001, LARGE),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_spectrum_within_the_tolerance(name: str, dtype: torch.dtype) -> None:
    values = SPECTRA[name].double()
    A = with_values(values).to(dtype)
    expected = float(values.square().sum() / values.max() ** 2)
    found = stable_rank(A)
    assert found.dtype == dtype
    assert found.item() == pytest.approx(expected, rel=1e-4)
    assert spectral_norm(A).item() == pytest.approx(1, rel=5e-5)


@pytest.mark.parametrize("shape", [(LARGE, 701), (701, LARGE), (LARGE, LARGE)])
def test_gaussian_matrices_of_any_shape_and_layout(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    A = torch.randn(shape)
    expected = slow_rank(A)
    strided = torch.randn(shape[0], 2 * shape[1])
    strided[:, ::2] = A
    for same in (A, A.mT, A.mT.contiguous().mT, strided[:, ::2], A[None, None]):
        assert stable_rank(same).squeeze().item() == pytest.approx(expected, rel=1e-4)


def test_a_finer_tolerance_is_kept() -> None:
    A = with_values(SPECTRA["straight"].double())
    expected = float(SPECTRA["straight"].double().square().sum())
    errors = [abs(stable_rank(A, tolerance=t).item() / expected - 1) for t in (1e-2, 1e-6, 1e-12)]
    assert errors[0] <= 1e-2
    assert errors[1] <= 1e-6
    assert errors[2] <= 1e-11
    assert errors[2] < errors[0]


def test_a_hidden_direction_is_found_from_an_unlucky_start() -> None:
    """The start has a thousandth of its usual component along the largest singular vector, and the
    rest of the spectrum is so flat that the residual alone would call it done at once."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(LARGE, generator=generator).double()
    top = torch.randn(LARGE, dtype=torch.float64)
    top -= (top @ start) / (start @ start) * start
    top = top / top.norm() + 1e-3 / math.sqrt(LARGE) * start / start.norm()
    top /= top.norm()
    A = torch.eye(LARGE, dtype=torch.float64) + 0.02 * torch.outer(top, top)
    assert spectral_norm(A).item() == pytest.approx(1.02, rel=1e-5)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([1e-30, 1.0, 1e30]))
def test_laws_of_a_low_rank_matrix(seed: int, width: int, scale: float) -> None:
    """Between 1 and the rank; the same for the transpose, any scale and any rotation."""
    torch.manual_seed(seed)
    A = torch.randn(LARGE, width) @ torch.randn(width, LARGE + 3) / math.sqrt(width)
    found = stable_rank(A).item()
    assert 1 - 1e-5 <= found <= width * (1 + 1e-4)
    v = torch.randn(LARGE)
    mirrored = A - 2 * torch.outer(v, v @ A) / (v @ v)
    for same in (A.mT, A * scale, mirrored):
        assert stable_rank(same).item() == pytest.approx(found, rel=2e-4)


def test_each_of_a_batch_by_itself_and_zero_is_zero() -> None:
    torch.manual_seed(0)
    A = torch.randn(2, 2, LARGE, LARGE) * torch.tensor([1e-20, 1.0])[:, None, None]
    A[0, 1] = 0
    found = stable_rank(A)
    assert found.shape == (2, 2)
    assert found[0, 1].item() == 0
    for i, j in ((0, 0), (1, 0), (1, 1)):
        assert found[i, j].item() == stable_rank(A[i, j]).item()
        assert found[i, j].item() == pytest.approx(slow_rank(A[i, j]), rel=1e-4)
    assert spectral_norm(A)[0, 0].item() == pytest.approx(slow_values(A[0, 0])[0], rel=5e-5)
    assert stable_rank(A[:0]).shape == (0, 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    A = torch.randn(LARGE, LARGE).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = stable_rank(A)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(slow_rank(A), rel=1e-4)


def test_the_frobenius_norm_keeps_its_digits_in_float32() -> None:
    """One running sum over 4 million squares would be wrong by 10⁻³."""
    A = torch.outer(torch.rand(2048) + 0.5, torch.rand(2048) + 0.5)
    assert stable_rank(A).item() == pytest.approx(1, abs=1e-5)


def test_it_is_deterministic_and_leaves_the_random_state_alone() -> None:
    A = torch.randn(LARGE, LARGE)
    torch.manual_seed(1)
    first, state = stable_rank(A), torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(stable_rank(A), first)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_its_gradient_is_that_of_the_definition(
    small: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 A / σ² − 2 ‖A‖² u vᵀ / σ³, by a full SVD in float64."""
    monkeypatch.setattr(rank, "SMALL_SIDE", SMALL_SIDE if small else 0)
    torch.manual_seed(0)
    A = torch.randn(2, 23, 31, dtype=torch.float64)
    A[1] *= 1e15  # this one is scaled on its way
    u, s, vh = torch.linalg.svd(A)
    top = s[:, 0, None, None]
    outer = u[:, :, :1] @ vh[:, :1]
    total = A.square().sum((1, 2))[:, None, None]
    own = A.to(dtype).requires_grad_()
    tolerance = 1e-11 if dtype == torch.float64 else 1e-6
    ratios = stable_rank(own, tolerance=tolerance)
    (ratios * torch.tensor([1.0, 1e15])).sum().backward()
    expected = 2 * A / top**2 - 2 * total * outer / top**3
    expected[1] *= 1e15
    assert own.grad is not None
    near = {"rtol": 0.0, "atol": 1e-5 if dtype == torch.float64 else 2e-3}
    torch.testing.assert_close(own.grad.double(), expected, **near)
    own.grad = None
    spectral_norm(own, tolerance=tolerance).sum().backward()
    torch.testing.assert_close(own.grad.double(), outer, **near)


@pytest.mark.parametrize("side", [3, LARGE])
def test_a_zero_matrix_has_a_zero_gradient(side: int) -> None:
    A = torch.zeros(side, side, requires_grad=True)
    (stable_rank(A) + spectral_norm(A)).backward()
    assert A.grad is not None
    assert (A.grad == 0).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2), (3, 7)])
def test_the_iteration_is_exact_once_it_has_gone_through_the_space(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    A = torch.randn(shape, dtype=torch.float64)
    top = top_pair(A, 1e-12)
    assert top.value == pytest.approx(slow_values(A)[0], rel=1e-12)
    assert top.steps <= min(shape) + 1
    torch.testing.assert_close(A @ top.right, top.value * top.left)


def test_the_polynomial_grows_as_its_recurrence_says() -> None:
    diagonal, off, x = [1.0, 2.0, 1.5], [0.5, 0.3, 0.7], 4.0
    before, now = 0.0, 1.0
    for i in range(3):
        before, now = now, ((x - diagonal[i]) * now - (off[i - 1] if i else 0) * before) / off[i]
    assert _log_growth(diagonal, off, x) == pytest.approx(math.log(now), rel=1e-12)
    assert _log_growth(diagonal, off, 1.5) == -math.inf


@pytest.mark.parametrize("tolerance", [0.0, -1e-4, 1e-7, 0.2, math.nan, math.inf])
def test_a_tolerance_out_of_range_is_refused(tolerance: float) -> None:
    with pytest.raises(OptionError, match="expected a number between 1e-06") as caught:
        stable_rank(torch.eye(3), tolerance=tolerance)
    assert f"tolerance={tolerance!r}" in str(caught.value)
    with pytest.raises(OptionError, match="tolerance="):
        spectral_norm(torch.eye(3), tolerance=tolerance)


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize(("n", "top", "rest"), [(520, 256, 0.1), (640, 50, 0.3), (640, 2, 0.99)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_many_nearly_equal_singular_values(
    n: int, top: int, rest: float, noise: float, dtype: torch.dtype
) -> None:
    """Two values, each many times over, and a little noise: after two steps little is left of the
    iteration's vectors but rounding."""
    generator = torch.Generator().manual_seed(n + top)
    left, right = (
        torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))[0]
        for _ in range(2)
    )
    values = torch.full((n,), rest, dtype=torch.float64)
    values[:top] = 1.0
    matrix = (left * values) @ right
    matrix += noise * torch.randn(n, n, generator=generator, dtype=torch.float64) / n**0.5
    A = matrix.to(dtype)
    exact = torch.linalg.svdvals(A.double())
    expected = float(exact.square().sum() / exact[0] ** 2)
    assert float(stable_rank(A)) == pytest.approx(expected, rel=2e-4)
    assert float(spectral_norm(A)) <= float(exact[0]) * (1 + 1e-6)


def test_a_finer_tolerance_is_no_worse() -> None:
    torch.manual_seed(2)
    n = 640
    left, right = (torch.linalg.qr(torch.randn(n, n))[0] for _ in range(2))
    values = torch.full((n,), 0.3)
    values[:50] = 1.0
    A = (left * values) @ right + 1e-3 * torch.randn(n, n) / n**0.5
    exact = torch.linalg.svdvals(A.double())
    expected = float(exact.square().sum() / exact[0] ** 2)
    for tolerance in (1e-2, 1e-4, 1e-6):
        found = float(stable_rank(A, tolerance=tolerance))
        assert found == pytest.approx(expected, rel=max(2 * tolerance, 2e-5))
