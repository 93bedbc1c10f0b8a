"""The probes on CUDA: the numbers of the CPU."""

from __future__ import annotations

import pytest
import torch

from interp_compose.papers.complexity.probes.geometry import embedding_geometry
from interp_compose.probes.condensation import condensation, mean_abs_cosine
from interp_compose.probes.rank import SMALL_SIDE, effective_rank, spectral_norm, stable_rank
from interp_compose.probes.rank_tracker import StableRankTracker

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("side", [40, SMALL_SIDE + 1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_ranks(side: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    A = torch.randn(2, side, side + 7).to(dtype)
    for measure, near in ((stable_rank, 2e-4), (spectral_norm, 1e-4), (effective_rank, 1e-4)):
        there = measure(A.cuda())
        assert there.device.type == "cuda"
        torch.testing.assert_close(there.cpu(), measure(A), rtol=near, atol=0)
    tracker = StableRankTracker()
    for _ in range(2):
        assert tracker.update(A[0].cuda()) == pytest.approx(stable_rank(A[0]).item(), rel=2e-4)


def test_a_gradient() -> None:
    torch.manual_seed(0)
    here = torch.randn(SMALL_SIDE + 1, SMALL_SIDE + 1, dtype=torch.float64, requires_grad=True)
    there = here.detach().cuda().requires_grad_()
    for A in (here, there):
        stable_rank(A, tolerance=1e-10).backward()
    assert here.grad is not None
    assert there.grad is not None
    torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=0, atol=1e-6)


def test_directions_and_geometry() -> None:
    torch.manual_seed(0)
    W = torch.randn(30, 11)
    W[4] = 0
    here, there = condensation(W), condensation(W.cuda())
    assert there.order.device.type == "cuda"
    assert there.sizes == here.sizes
    assert torch.equal(there.order.cpu(), here.order)
    assert mean_abs_cosine(W.cuda()) == pytest.approx(here.mean_abs_cosine, rel=1e-4)
    found, expected = embedding_geometry(W.cuda()), embedding_geometry(W)
    torch.testing.assert_close(found.coordinates.cpu(), expected.coordinates)
    for one, two in zip(found.order, expected.order, strict=True):
        assert one.cosine == pytest.approx(two.cosine, abs=1e-9)
        assert one.p == two.p
