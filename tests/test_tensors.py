"""The softmax over few keys: the same numbers and gradients as torch's, and seen by a mode."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from interp_compose.models.attention import AroundSoftmax
from interp_compose.tensors import FEW, softmax_over_keys


@pytest.mark.parametrize("n_keys", [1, 2, FEW - 1, FEW])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_softmax_over_keys_is_the_softmax_of_rows(n_keys: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 4, n_keys, generator=generator).to(dtype)
    scores[0, 0, 0, 0] = torch.finfo(dtype).min
    scores[1, 1, 1] = 0.5  # all equal
    scores.requires_grad_()
    weights = torch.randn(2, 3, 4, n_keys, generator=generator, dtype=torch.float64)

    exact = scores.detach().double()
    exponentials = (exact - exact.amax(-1, keepdim=True)).exp()
    pattern = exponentials / exponentials.sum(-1, keepdim=True)
    slope = pattern * (weights - (pattern * weights).sum(-1, keepdim=True))

    found = softmax_over_keys(scores)
    (found.double() * weights).sum().backward()
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-2}[dtype]
    assert found.shape == scores.shape
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), pattern, atol=tolerance, rtol=0)
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad.double(), slope, atol=4 * tolerance, rtol=0)
    if n_keys > 1:
        assert found[0, 0, 0, 0] == 0  # an excluded key leaks nothing


class Bump:
    """Adds to the score of key 0; halves the pattern."""

    def scores(self, scores: Tensor) -> Tensor:
        bump = torch.zeros_like(scores)
        bump[..., 0] = 1.0
        return scores + bump

    def pattern(self, pattern: Tensor) -> Tensor:
        return pattern / 2


@pytest.mark.parametrize("n_keys", [FEW - 1, FEW])
def test_edits_reach_it(n_keys: int) -> None:
    scores = torch.randn(2, 3, 4, n_keys, generator=torch.Generator().manual_seed(0))
    with AroundSoftmax(Bump()) as mode:
        found = softmax_over_keys(scores)
    assert mode.calls == 1
    expected = Bump().scores(scores).softmax(dim=-1) / 2
    torch.testing.assert_close(found, expected)
