"""CARMA's mutual-information loss against a float64 reference that loops in the open."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import OptionError
from interp_compose.tensors import word_pairs
from interp_compose.training.losses import (
    _draw,
    count_anchors,
    mutual_information_loss,
    stability_loss,
)
from tests.slow_losses import LAYERS, POS, WIDTH, batch, cosine, slow_mi, slow_stability

NAN = math.nan
CASES = {
    "words": [[0, 0, 1, 1, 1, 2, 2], [4, 4, 4, 4, 9, 9, 7], [1, 0, 1, 0, 2, 2, 2]],
    "one-token words beside others": [[0, 1, 2, 3, 4, 5, 5], [0, 1, 1, 2, 3, 4, 5]],
    "BOS and padding": [[-1, 0, 0, 1, 1, -1, -1], [-1, -1, -1, -1, 0, 1, 1]],
    "a row of one word, a row of several": [[3, 3, 3, 3, -1, -1, -1], [0, 0, 1, 2, 2, 3, 3]],
    "one anchor-free row": [[0, 1, 2, 3, 4, 5, 6], [-1, 0, 0, 1, 1, 2, 2]],
}


@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
def test_mutual_information_is_equation_16(rows: list[list[int]], temperature: float) -> None:
    torch.manual_seed(0)
    ids, resid = torch.tensor(rows), torch.randn(LAYERS, len(rows), POS, WIDTH)
    expected = slow_mi(resid, ids, temperature)
    assert expected > 0
    for given_as in (resid, list(resid), tuple(resid)):
        value = mutual_information_loss(given_as, ids, temperature=temperature)
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(expected, rel=2e-5)
    exact = mutual_information_loss(resid.double(), ids, temperature=temperature)
    assert exact.dtype == torch.float64
    assert exact.item() == pytest.approx(slow_mi(resid, ids, temperature), rel=1e-12)


def test_mutual_information_by_hand() -> None:
    """Two orthogonal words: the positive has cosine 1, both negatives 0; log(1 + 2 e^-1/τ)."""
    axes = torch.eye(2)
    resid = axes[torch.tensor([0, 0, 1, 1])][None, None]
    value = mutual_information_loss(resid, torch.tensor([[0, 0, 1, 1]]), temperature=0.5)
    assert value.item() == pytest.approx(math.log(1 + 2 * math.exp(-2)), rel=1e-6)


def test_a_small_loss_is_exact_and_not_rounded_away() -> None:
    """log(1 + 2 e^-40): as a difference of logarithms float32 would give 0."""
    resid = torch.eye(2)[torch.tensor([0, 0, 1, 1])][None, None]
    value = mutual_information_loss(resid, torch.tensor([[0, 0, 1, 1]]), temperature=0.025)
    assert value.item() == pytest.approx(2 * math.exp(-40), rel=1e-4)


@pytest.mark.parametrize(
    "rows",
    [[[0, 1, 2, 3, 4, 5, 6]], [[-1] * POS] * 2, [[2, 2, 2, -1, -1, -1, -1], [5] * POS]],
    ids=["one-token words only", "no words at all", "a single word"],
)
@pytest.mark.parametrize("negatives", ["all", 3])
def test_without_an_anchor_the_loss_is_a_zero_with_a_gradient(
    rows: list[list[int]], negatives: Any
) -> None:
    ids, resid = torch.tensor(rows), torch.randn(LAYERS, len(rows), POS, WIDTH)
    resid.requires_grad_()
    value = mutual_information_loss(resid, ids, negatives=negatives)
    assert count_anchors(ids).item() == 0
    assert value.item() == 0
    value.backward()
    assert resid.grad is not None
    assert (resid.grad == 0).all()


def test_anchors_are_counted_once_per_layer() -> None:
    ids = torch.tensor([[0, 0, 1, 2, -1], [3, 3, 3, -1, -1], [0, 1, 1, 1, 0]])
    assert count_anchors(ids).item() == 2 + 0 + 5
    resid = torch.randn(1, 3, 5, WIDTH)
    parts = [mutual_information_loss(resid[:, i : i + 1], ids[i : i + 1]) for i in range(3)]
    shares = [count_anchors(ids[i : i + 1]) for i in range(3)]
    merged = sum(p * n for p, n in zip(parts, shares, strict=True)) / count_anchors(ids)
    torch.testing.assert_close(merged, mutual_information_loss(resid, ids))


@pytest.mark.parametrize("junk", [1e4, 1e18, math.inf, NAN])
@pytest.mark.parametrize("negatives", ["all", 2])
def test_what_stands_at_masked_positions_reaches_nothing(junk: float, negatives: Any) -> None:
    """BOS with a massive norm in front, padding on both sides."""
    torch.manual_seed(0)
    ids = torch.tensor([[-1, -1, 0, 0, 1, 1, 2], [-1, 0, 0, 1, -1, -1, -1]])
    clean = torch.randn(LAYERS, 2, POS, WIDTH).masked_fill((ids < 0)[..., None], 0)
    dirty = clean.masked_fill((ids < 0)[..., None], junk)
    found = []
    for start in (clean, dirty):
        resid = start.clone().requires_grad_()
        mi = mutual_information_loss(resid, ids, negatives=negatives)
        (mi + stability_loss(resid, ids >= 0)).backward()
        found.append((mi.detach(), stability_loss(resid, ids >= 0).detach(), resid.grad))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)  # type: ignore[arg-type]
    assert (found[1][2][:, ids < 0] == 0).all()  # type: ignore[index]
    assert (found[1][2][:, ids >= 0] != 0).all()  # type: ignore[index]


def test_a_zero_vector_has_cosine_zero_and_no_gradient() -> None:
    torch.manual_seed(0)
    resid, ids = torch.randn(LAYERS, 1, POS, WIDTH), torch.tensor([[0, 0, 1, 1, 1, 2, 2]])
    resid[:, 0, 1] = 0
    expected = slow_mi(resid, ids)
    resid.requires_grad_()
    value = mutual_information_loss(resid, ids)
    value.backward()
    assert value.item() == pytest.approx(expected, rel=1e-5)
    assert resid.grad is not None
    assert (resid.grad[:, 0, 1] == 0).all()
    assert resid.grad.isfinite().all()
    assert (resid.grad[:, 0, 0] != 0).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    resid, ids = batch(1)
    half = (resid * 200).to(dtype).requires_grad_()  # squares beyond float16's range
    value = mutual_information_loss(half, ids, temperature=0.01)
    moved = stability_loss(half, ids >= 0)
    assert value.dtype == moved.dtype == torch.float32
    assert value.item() == pytest.approx(slow_mi(half.detach(), ids, 0.01), rel=2e-5)
    assert moved.item() == pytest.approx(slow_stability(half.detach(), ids >= 0), rel=1e-5)
    (value + moved).backward()
    assert half.grad is not None
    assert half.grad.dtype == dtype
    assert half.grad.isfinite().all()


def test_autocast_changes_nothing() -> None:
    resid, ids = batch(2)
    plain = mutual_information_loss(resid, ids), stability_loss(resid, ids >= 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = mutual_information_loss(resid, ids), stability_loss(resid, ids >= 0)
    assert torch.equal(torch.stack(plain), torch.stack(cast))


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_gradients_are_the_numerical_ones(temperature: float) -> None:
    resid, ids = batch(3, rows=2)
    exact = resid.double().requires_grad_()

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        mi = mutual_information_loss(x, ids, temperature=temperature)
        return mi, stability_loss(x, ids >= 0)

    assert torch.autograd.gradcheck(both, (exact,))


@pytest.mark.parametrize("temperature", [0.1, 0.01])
def test_float32_gradients_are_close_to_float64_ones(temperature: float) -> None:
    resid, ids = batch(4)
    grads = []
    for start in (resid.clone(), resid.double()):
        start.requires_grad_()
        mutual_information_loss(start, ids, temperature=temperature).backward()
        assert start.grad is not None
        grads.append(start.grad.double())
    assert (grads[0] - grads[1]).abs().max() < 1e-5 * grads[1].abs().max()


def test_a_step_along_the_gradient_pulls_words_together_and_apart() -> None:
    """The sign: eq. 5 as printed would pull negatives closer."""
    ids = torch.tensor([[0, 0, 1, 1]])
    torch.manual_seed(0)
    resid = torch.randn(1, 1, 4, WIDTH, requires_grad=True)
    (grad,) = torch.autograd.grad(mutual_information_loss(resid, ids), resid)
    stepped = (resid - 0.1 * grad).detach()[0, 0].tolist()
    before = resid.detach()[0, 0].tolist()

    def gap(rows: list[list[float]]) -> float:
        same = cosine(rows[0], rows[1]) + cosine(rows[2], rows[3])
        return same - sum(cosine(rows[i], rows[j]) for i in (0, 1) for j in (2, 3)) / 2

    assert gap(stepped) > gap(before)


def test_a_nan_at_a_word_is_not_hidden() -> None:
    resid, ids = batch(5)
    resid[0, 0, int((ids[0] >= 0).nonzero()[0])] = NAN
    assert stability_loss(resid, ids >= 0).isnan()
    assert mutual_information_loss(resid, torch.where(ids < 0, 0, ids)).isnan()


# Drawn negatives


@pytest.mark.parametrize("seed", [-1, 2**64, 10**30])
def test_a_seed_of_more_than_64_bits_is_refused(seed: int) -> None:
    resid, words = torch.randn(1, 1, 4, 3), torch.tensor([[0, 0, 1, 1]])
    with pytest.raises(OptionError, match=rf"seed={seed}: expected an integer from 0"):
        mutual_information_loss(resid, words, negatives=2, seed=seed)


def test_drawn_negatives_are_exact_where_there_is_one() -> None:
    """Of n draws of the same negative each counts: log(1 + n e^(s⁻ − s⁺))."""
    torch.manual_seed(0)
    resid, ids = torch.randn(3, 1, 6, WIDTH), torch.tensor([[-1, 0, 0, 1, -1, -1]])
    terms = []
    for layer in resid[:, 0].tolist():
        positive = cosine(layer[1], layer[2]) / 0.2
        terms += [
            math.log1p(4 * math.exp(cosine(layer[i], layer[3]) / 0.2 - positive)) for i in (1, 2)
        ]
    value = mutual_information_loss(resid, ids, temperature=0.2, negatives=4)
    assert value.item() == pytest.approx(sum(terms) / len(terms), rel=1e-5)


def test_a_seed_fixes_the_draw_and_leaves_the_global_generator_alone() -> None:
    resid, ids = batch(6, rows=4, pos=15)
    state = torch.get_rng_state()
    values = [mutual_information_loss(resid, ids, negatives=2, seed=s).item() for s in (1, 1, 2, 3)]
    assert values[0] == values[1]
    assert len(set(values)) == 3
    assert torch.equal(torch.get_rng_state(), state)


def test_every_negative_is_drawn_equally_often_and_nothing_else() -> None:
    """Neither padding, nor BOS, nor the anchor's own word, on any of 600 layers."""
    different = word_pairs(torch.tensor([[-1, 7, 7, 1, 2, 2, -1, 3, -1]]))[1]
    allowed, layers, n = [3, 4, 5, 7], 600, 5
    drawn = _draw(different, layers, n, seed=3)[:, 0, 1].flatten()
    counts = drawn.bincount(minlength=9)
    assert counts.sum() == layers * n
    assert set(counts.nonzero().flatten().tolist()) == set(allowed)
    expected = layers * n / len(allowed)
    chi2 = ((counts[allowed] - expected) ** 2 / expected).sum().item()
    assert chi2 < 16.3  # 3 degrees of freedom, p = 0.001


def test_many_draws_approach_all_negatives() -> None:
    """n draws of m negatives: the sum over the draws times m/n is the sum over all."""
    torch.manual_seed(0)
    resid = torch.randn(2, 1, 5, WIDTH)
    ids = torch.tensor([[0, 0, 1, 2, 3]])  # three negatives for both anchors
    n = 30_000
    drawn = mutual_information_loss(resid, ids, temperature=0.5, negatives=n)
    terms = []
    for layer in resid[:, 0].tolist():
        positive = math.exp(cosine(layer[0], layer[1]) / 0.5)
        for i in (0, 1):
            mean = sum(math.exp(cosine(layer[i], layer[j]) / 0.5) for j in (2, 3, 4)) / 3
            terms.append(math.log1p(n * mean / positive))
    assert drawn.item() == pytest.approx(sum(terms) / 4, abs=0.01)


# Laws


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.data())
def test_permuting_positions_with_their_ids_changes_nothing(seed: int, data: st.DataObject) -> None:
    resid, ids = batch(seed)
    order = torch.tensor(data.draw(st.permutations(range(POS))))
    torch.testing.assert_close(
        mutual_information_loss(resid[:, :, order], ids[:, order]),
        mutual_information_loss(resid, ids),
    )


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_scaling_any_vector_changes_nothing(seed: int) -> None:
    resid, ids = batch(seed)
    scale = 10 ** (8 * torch.rand(LAYERS, 3, POS, 1) - 4)
    torch.testing.assert_close(
        mutual_information_loss(resid * scale, ids),
        mutual_information_loss(resid, ids),
        rtol=1e-4,
        atol=1e-5,
    )


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 4))
def test_padding_on_either_side_changes_nothing(seed: int, left: int, right: int) -> None:
    resid, ids = batch(seed)
    padded = torch.nn.functional.pad(resid, (0, 0, left, right), value=1e4)
    more = torch.nn.functional.pad(ids, (left, right), value=-1)
    torch.testing.assert_close(
        mutual_information_loss(padded, more), mutual_information_loss(resid, ids)
    )
    torch.testing.assert_close(stability_loss(padded, more >= 0), stability_loss(resid, ids >= 0))


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.1, 2.0]))
def test_the_loss_is_what_the_loop_says_and_never_negative(seed: int, temperature: float) -> None:
    resid, ids = batch(seed)
    value = mutual_information_loss(resid, ids, temperature=temperature).item()
    assert value >= 0
    assert value == pytest.approx(slow_mi(resid, ids, temperature), rel=1e-4, abs=1e-5)
    assert mutual_information_loss(resid, ids, temperature=temperature, negatives=2).item() >= 0
