"""Mean cosines within and between words against a loop over pairs in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import LayerError
from interp_compose.probes.word_cosines import word_cosine_sums, word_cosines

IDS = torch.tensor([[-1, 0, 0, 1, 1, 1, 2], [4, 4, 9, -1, -1, -1, -1]])


def slow_sums(resid: Tensor, word_ids: Tensor) -> list[dict[str, list[float]]]:
    """By layer, every ordered pair's cosine, same word and different words."""
    found = []
    for layer in resid.double():
        pairs: dict[str, list[float]] = {"same": [], "different": []}
        for row, ids in zip(layer, word_ids.tolist(), strict=True):
            for i, own in enumerate(ids):
                for j, other in enumerate(ids):
                    if i != j and own >= 0 and other >= 0:
                        size = (row[i].norm() * row[j].norm()).item()
                        cosine = (row[i] @ row[j]).item() / size if size else 0.0
                        pairs["same" if own == other else "different"].append(cosine)
        found.append(pairs)
    return found


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_they_are_means_over_ordered_pairs(seed: int) -> None:
    torch.manual_seed(seed)
    resid = torch.randn(3, 2, 7, 5)
    same, different = word_cosines(resid, IDS)
    for layer, pairs in enumerate(slow_sums(resid, IDS)):
        assert (len(pairs["same"]), len(pairs["different"])) == (10, 26)
        assert same[layer].item() == pytest.approx(mean(pairs["same"]), abs=1e-6)
        assert different[layer].item() == pytest.approx(mean(pairs["different"]), abs=1e-6)


def test_by_hand() -> None:
    """Words of two equal vectors, at a right angle to each other."""
    resid = torch.eye(2)[torch.tensor([0, 0, 1, 1])][None, None] * 7
    same, different = word_cosines(resid, torch.tensor([[0, 0, 1, 1]]))
    assert (same.item(), different.item()) == (1, 0)


def test_no_pair_is_nan() -> None:
    resid = torch.randn(3, 1, 4, 5)
    same, different = word_cosines(resid, torch.tensor([[0, 1, 2, -1]]))
    assert same.isnan().all()
    assert different.isfinite().all()
    same, different = word_cosines(resid, torch.tensor([[-1, 0, 0, 0]]))
    assert same.isfinite().all()
    assert different.isnan().all()


def test_sums_add_up_over_batches() -> None:
    torch.manual_seed(0)
    resid = torch.randn(3, 2, 7, 5)
    whole = word_cosine_sums(resid, IDS)
    parts = [word_cosine_sums(resid[:, i : i + 1], IDS[i : i + 1]) for i in range(2)]
    assert (whole.same_pairs.item(), whole.different_pairs.item()) == (10, 26)
    for name in whole._fields:
        added = getattr(parts[0], name) + getattr(parts[1], name)
        torch.testing.assert_close(added, getattr(whole, name))
    same, different = word_cosines(resid, IDS)
    assert torch.equal(same, whole.same / 10)
    assert torch.equal(different, whole.different / 26)


@pytest.mark.parametrize("junk", [1e4, math.nan])
def test_padding_and_zero_vectors(junk: float) -> None:
    torch.manual_seed(0)
    resid = torch.randn(3, 2, 7, 5)
    resid[:, 0, 1] = 0
    expected = word_cosines(resid, IDS)
    found = word_cosines(resid.masked_fill((IDS < 0)[..., None], junk), IDS)
    for layer, pairs in enumerate(slow_sums(resid, IDS)):
        assert expected[0][layer].item() == pytest.approx(mean(pairs["same"]), abs=1e-6)
    assert torch.equal(torch.stack(found), torch.stack(expected))


def test_half_precision_is_computed_in_float32() -> None:
    resid = torch.randn(3, 2, 7, 5).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same, _ = word_cosines(resid, IDS)
    assert same.dtype == torch.float32
    assert same[0].item() == pytest.approx(mean(slow_sums(resid, IDS)[0]["same"]), abs=1e-6)


def test_no_layers_are_refused() -> None:
    with pytest.raises(LayerError, match="resid has 0 layers"):
        word_cosines(torch.zeros(0, 2, 7, 5), IDS)
