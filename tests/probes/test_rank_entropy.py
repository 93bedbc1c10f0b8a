"""Entropy of the spectrum and effective rank, against float64 singular values."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import InputError, NonFiniteError
from interp_compose.probes import rank
from interp_compose.probes.rank import effective_rank, spectral_entropy, stable_rank
from tests.probes.slow import slow_values
from tests.untyped import outcomes_of


def slow_entropy(A: Tensor) -> float:
    values = slow_values(A)
    shares = values / values.sum()
    return float(-sum(p * math.log(p) for p in shares if p > 0))


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (1, 11), (11, 1), (61, 59)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_it_is_the_entropy_of_the_singular_values(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    A = torch.randn(shape).to(dtype)
    near = 1e-10 if dtype == torch.float64 else 1e-5
    assert spectral_entropy(A).item() == pytest.approx(slow_entropy(A), abs=near)
    assert effective_rank(A).item() == pytest.approx(math.exp(slow_entropy(A)), rel=near)
    assert spectral_entropy(A).dtype == (dtype if dtype == torch.float64 else torch.float32)


def test_by_hand() -> None:
    assert spectral_entropy(torch.eye(5)).item() == pytest.approx(math.log(5))
    assert effective_rank(torch.eye(5)).item() == pytest.approx(5)
    A = torch.diag(torch.tensor([3.0, 1.0]))
    assert spectral_entropy(A).item() == pytest.approx(math.log(4) - 0.75 * math.log(3))
    zero = torch.zeros(2, 3, 3)
    zero[0] = torch.eye(3)
    assert spectral_entropy(zero).tolist() == pytest.approx([math.log(3), 0])
    assert effective_rank(zero).tolist() == pytest.approx([3, 0])
    assert effective_rank(zero[:0]).shape == (0,)


def ill_conditioned(name: str) -> Tensor:
    """256 × 256, singular values that float32's Gram matrix cannot hold."""
    torch.manual_seed(0)
    n = 256
    left, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64))
    values = {
        "rank one": (torch.arange(n) == 0).double(),
        "rank five": (torch.arange(n) < 5).double(),
        "one above 1e-5": torch.where(torch.arange(n) == 0, 1.0, 1e-5).double(),
        "geometric to 1e-10": torch.logspace(0, -10, n, dtype=torch.float64),
        "geometric to 1e-4": torch.logspace(0, -4, n, dtype=torch.float64),
        "square law": torch.arange(1, n + 1, dtype=torch.float64) ** -2,
    }[name]
    return (left * values) @ right


@pytest.mark.parametrize(
    "name",
    [
        "rank one",
        "rank five",
        "one above 1e-5",
        "geometric to 1e-10",
        "geometric to 1e-4",
        "square law",
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("small", [0, rank.SMALL_SIDE])
def test_small_singular_values_are_not_lost(
    name: str, dtype: torch.dtype, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "SMALL_SIDE", small)
    A = ill_conditioned(name).to(dtype)
    assert spectral_entropy(A).item() == pytest.approx(slow_entropy(A), abs=1e-3)


def test_float64_takes_over_where_float32_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "SMALL_SIDE", 0)
    A = ill_conditioned("rank one").float()
    single, estimate = rank._of_spectrum_and_error(A[None])
    assert abs(single[0, 1].item() - slow_entropy(A)) > 0.01
    assert estimate.item() > rank.ENTROPY_ERROR_LIMIT
    both = spectral_entropy(torch.stack([torch.eye(256), A]))
    assert both.tolist() == pytest.approx([math.log(256), slow_entropy(A)], abs=1e-4)


def test_short_products_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 and its like: a user's setting for speed, not for measuring."""
    monkeypatch.setattr(rank, "SMALL_SIDE", 0)
    seen: list[torch.dtype] = []
    plain = rank._of_spectrum_and_error
    monkeypatch.setattr(
        rank, "_of_spectrum_and_error", lambda A: (seen.append(A.dtype), plain(A))[1]
    )
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        spectral_entropy(torch.eye(3))
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == [torch.float64]
    spectral_entropy(torch.eye(3))
    assert seen[1:] == [torch.float32]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9))
def test_between_nothing_and_the_log_of_the_rank(seed: int, rows: int, columns: int) -> None:
    torch.manual_seed(seed)
    A = torch.randn(rows, columns)
    found = spectral_entropy(A).item()
    assert 0 <= found <= math.log(min(rows, columns)) + 1e-6
    q, _ = torch.linalg.qr(torch.randn(rows, rows))
    for same in (A.T, -1e20 * A, q @ A):
        assert spectral_entropy(same).item() == pytest.approx(found, abs=1e-4)


def test_a_side_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "SPECTRUM_LIMIT", 6)
    assert spectral_entropy(torch.eye(6, 9)).item() == pytest.approx(math.log(6))
    for measure in (spectral_entropy, effective_rank):
        with pytest.raises(InputError, match=r"shape \(7, 9\); all singular values .* side of 6"):
            measure(torch.eye(7, 9))


def test_what_has_no_numbers_is_refused() -> None:
    with pytest.raises(InputError, match=r"torch.sparse_coo.*to_dense\(\)"):
        spectral_entropy(torch.eye(3).to_sparse())
    with pytest.raises(InputError, match="on (the )?meta.*(load its values|in memory)"):
        effective_rank(torch.eye(3, device="meta"))
    with pytest.raises(NonFiniteError, match="A has 1 NaN or infinite entries of 4"):
        spectral_entropy(torch.tensor([[1.0, math.inf], [0.0, 1.0]]))


UNTYPED = """
import torch
from interp_compose.probes.rank import spectral_entropy, spectral_norm
from interp_compose.probes.rank_tracker import StableRankTracker
A = torch.randn(6, 5)
calls = {
    "quantised": lambda: spectral_norm(torch.quantize_per_tensor(A, 0.1, 0, torch.qint8)),
    "float8": lambda: spectral_entropy(A.to(torch.float8_e4m3fn)),
    "a switch": lambda: spectral_norm(A, tolerance=True),
    "a batch to track": lambda: StableRankTracker().update(A[None]),
}
"""
REFUSED = {
    "quantised": "InputError: A of shape (6, 5) has the dtype torch.qint8; expected bfloat16",
    "float8": "InputError: A of shape (6, 5) has the dtype torch.float8_e4m3fn; expected bfloat16",
    "a switch": "OptionError: tolerance=True",
    "a batch to track": "InputError: A has the shape (1, 6, 5); expected matrices [row, col]",
}


def test_untyped_misuse_is_refused_by_name() -> None:
    """In a process of its own: here beartype would be there first."""
    outcomes = outcomes_of(UNTYPED)
    assert set(outcomes) == set(REFUSED)
    for name, start in REFUSED.items():
        assert outcomes[name].startswith(start), outcomes[name]


@pytest.mark.parametrize("shape", [(3, 0, 5, 4), (2, 5, 4), (7, 30), (0, 4, 4)])
@pytest.mark.parametrize("small", [0, rank.SMALL_SIDE])
def test_stable_rank_and_entropy_at_once(
    shape: tuple[int, ...], small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    A = torch.randn(shape)
    expected = stable_rank(A), spectral_entropy(A)
    monkeypatch.setattr(rank, "SMALL_SIDE", small)
    for found, alone in zip(rank.spectrum(A), expected, strict=True):
        assert found.shape == shape[:-2]
        torch.testing.assert_close(found, alone, rtol=1e-5, atol=1e-5)
    assert [one.item() for one in rank.spectrum(torch.zeros(4, 3))] == [0, 0]
