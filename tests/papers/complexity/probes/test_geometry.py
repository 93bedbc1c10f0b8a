"""Principal components and order of embeddings, against sums over pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import InputError, NonFiniteError, OptionError
from interp_compose.papers.complexity.probes.geometry import embedding_geometry


def slow_cosine(E: Tensor, step: int) -> float:
    """Mean over pairs of different t of cos(e(t + step) − e(t), e(t' + step) − e(t'))."""
    E = E.double()
    moves = [E[t + step] - E[t] for t in range(len(E) - step)]
    moves = [move for move in moves if move.any()]
    pairs = [
        float(moves[i] @ moves[j] / moves[i].norm() / moves[j].norm())
        for i in range(len(moves))
        for j in range(len(moves))
        if i != j
    ]
    return sum(pairs) / len(pairs) if pairs else 0.0


@pytest.mark.parametrize("shape", [(23, 7), (7, 23), (5, 5)])
@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_components_are_those_of_the_centred_embeddings(
    shape: tuple[int, int], scale: float
) -> None:
    torch.manual_seed(0)
    E = torch.randn(shape)
    found = embedding_geometry(E * scale, components=3, steps=())
    X = (E * scale).double()
    X = X - X.mean(dim=0)
    u, s, _ = np.linalg.svd(X.numpy(), full_matrices=False)
    expected = u[:, :3] * s[:3]
    assert found.order == ()
    assert found.tokens == tuple(range(shape[0]))
    for c in range(3):
        column = expected[:, c] * np.sign(expected[np.abs(expected[:, c]).argmax(), c])
        np.testing.assert_allclose(found.coordinates[:, c], column, rtol=0, atol=1e-7 * s[0])
    np.testing.assert_allclose(found.explained, s[:3] ** 2 / (s**2).sum(), rtol=1e-9)


def test_all_components_keep_all_distances_and_explain_everything() -> None:
    torch.manual_seed(0)
    E = torch.randn(11, 5)
    found = embedding_geometry(E, components=5, steps=())
    torch.testing.assert_close(
        torch.cdist(found.coordinates, found.coordinates), torch.cdist(E.double(), E.double())
    )
    assert float(found.explained.sum()) == pytest.approx(1)


def test_chosen_tokens_in_the_order_given() -> None:
    torch.manual_seed(0)
    E = torch.randn(40, 5)
    chosen = [7, 3, 30, 21, 9, 12]
    found = embedding_geometry(E, chosen, steps=(1, 3))
    alone = embedding_geometry(E[chosen], steps=(1, 3))
    assert found.tokens == tuple(chosen)
    assert found.order == alone.order
    torch.testing.assert_close(found.coordinates, alone.coordinates)


@pytest.mark.parametrize("step", [1, 2, 5, 9])
def test_the_cosine_is_the_mean_over_pairs_of_differences(step: int) -> None:
    torch.manual_seed(0)
    E = torch.randn(11, 5)
    E[4] = E[5] = E[6]  # equal embeddings have no direction between them
    (found,) = embedding_geometry(E, steps=(step,), permutations=40).order
    assert found.step == step
    assert found.cosine == pytest.approx(slow_cosine(E, step), abs=1e-12)
    rng = np.random.default_rng(0)
    null = [slow_cosine(E[torch.from_numpy(rng.permutation(11))], step) for _ in range(40)]
    assert found.null_mean == pytest.approx(float(np.mean(null)), abs=1e-12)
    assert found.null_sd == pytest.approx(float(np.std(null)), abs=1e-12)
    assert found.p == (1 + sum(value >= found.cosine - 1e-12 for value in null)) / 41
    rng = np.random.default_rng(0)
    lengths = [slow_length(E[torch.from_numpy(rng.permutation(11))], step) for _ in range(40)]
    length = slow_length(E, step)
    assert found.distance == pytest.approx(length / float(np.mean(lengths)), abs=1e-12)
    assert found.distance_p == (1 + sum(value <= length + 1e-12 for value in lengths)) / 41


def slow_length(E: torch.Tensor, step: int) -> float:
    X = E.double()
    return float(np.mean([float((X[t + step] - X[t]).norm()) for t in range(len(X) - step)]))


def test_a_ring_shows_in_distances_alone() -> None:
    """Once around: the directions of steps cancel, and neighbours are near all the same."""
    angle = torch.arange(40.0) * 2 * torch.pi / 40
    (found,) = embedding_geometry(torch.stack([angle.cos(), angle.sin()], dim=1), steps=(1,)).order
    assert abs(found.cosine) < 0.05
    assert found.distance < 0.15
    assert found.distance_p == 1 / 1000


def test_tokens_on_a_line_are_ordered_at_every_step() -> None:
    torch.manual_seed(0)
    E = torch.arange(30.0)[:, None] * torch.randn(8) + 0.1 * torch.randn(30, 8)
    for found in embedding_geometry(E).order:
        assert found.cosine > 0.9
        assert found.p == 1 / 1000
        assert abs(found.null_mean) < 0.3


def test_order_by_3_and_by_4_and_not_by_magnitude() -> None:
    """The paper's Fig. 5B: a folded sheet, on which tokens that differ by 3 are neighbours along
    one direction and those that differ by 4 along another."""
    torch.manual_seed(0)
    t = torch.arange(80)
    E = torch.zeros(80, 16)
    E[:, 0] = (t // 3 % 13).float()  # along one direction by threes, folding back
    E += 0.3 * torch.randn(80, 16) + 3 * torch.randn(3, 16)[t % 3]
    by_step = {one.step: one for one in embedding_geometry(E, steps=(1, 2, 3, 4)).order}
    assert by_step[3].p == 1 / 1000
    assert by_step[3].cosine > 3 * max(by_step[s].cosine for s in (1, 2, 4))


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_scale_shift_and_rotation_change_nothing(seed: int) -> None:
    torch.manual_seed(seed)
    E = torch.randn(9, 4, dtype=torch.float64)
    q, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))
    first = embedding_geometry(E, steps=(1, 2), permutations=19)
    for same in (3 * E, E + torch.randn(4), E @ q):
        other = embedding_geometry(same, steps=(1, 2), permutations=19)
        torch.testing.assert_close(other.explained, first.explained)
        for one, two in zip(first.order, other.order, strict=True):
            assert two.cosine == pytest.approx(one.cosine, abs=1e-9)
            assert two.p == one.p


def test_p_values_of_random_embeddings_are_spread_evenly() -> None:
    torch.manual_seed(0)
    ps = [
        embedding_geometry(torch.randn(12, 4), steps=(1,), permutations=49).order[0].p
        for _ in range(300)
    ]
    for level in (0.1, 0.5, 0.9):
        share = sum(p <= level for p in ps) / len(ps)
        assert abs(share - level) < 4 * math.sqrt(level * (1 - level) / len(ps))


def test_the_seed_decides_the_null_and_nothing_else() -> None:
    torch.manual_seed(0)
    E = torch.randn(20, 4)
    state = torch.get_rng_state()
    first, again = (embedding_geometry(E, seed=3).order for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert first == again
    other = embedding_geometry(E, seed=4).order
    assert other[0].null_mean != first[0].null_mean
    assert other[0].cosine == first[0].cosine


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    E = torch.randn(20, 4).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = embedding_geometry(E, steps=(1,), permutations=9)
    assert found.order[0].cosine == pytest.approx(slow_cosine(E, 1), abs=1e-9)
    assert found.coordinates.dtype == torch.float64


def test_two_tokens_and_many() -> None:
    pair = embedding_geometry(torch.eye(2), steps=(), components=1)
    assert pair.coordinates.abs().flatten().tolist() == pytest.approx([math.sqrt(0.5)] * 2)
    assert pair.explained.tolist() == pytest.approx([1])
    with pytest.raises(InputError, match=r"steps\[0\] is 1; expected 1 … 0 for 2 tokens"):
        embedding_geometry(torch.eye(2))
    with pytest.raises(InputError, match="5000 tokens are too many to test their order"):
        embedding_geometry(torch.randn(5000, 2))


def test_what_it_refuses() -> None:
    E = torch.randn(6, 5)
    refused = {
        r"tokens\[1\] is 6; expected a row of W_E, 0 … 5": {"tokens": [0, 6, 2]},
        r"tokens\[0\] is -1; expected": {"tokens": [-1, 2, 3]},
        "token 2 occurs twice in tokens": {"tokens": [2, 1, 2]},
        "1 tokens; expected at least two": {"tokens": [1]},
        r"steps\[1\] is 5; expected 1 … 4 for 6 tokens": {"steps": [1, 5]},
        r"steps\[0\] is 0; expected": {"steps": [0]},
    }
    for message, options in refused.items():
        with pytest.raises(InputError, match=message):
            embedding_geometry(E, **options)
    for message, options in {
        "components=6: expected 1 … 5 for 6 tokens": {"components": 6},
        "components=0: expected": {"components": 0},
        "permutations=0: expected 1 to 100000": {"permutations": 0},
        "seed=-1: expected": {"seed": -1},
    }.items():
        with pytest.raises(OptionError, match=message):
            embedding_geometry(E, **options)
    with pytest.raises(InputError, match="the embeddings of all 6 tokens are equal"):
        embedding_geometry(torch.full((6, 5), 0.1), steps=())
    E[1, 1] = math.inf
    with pytest.raises(NonFiniteError, match="W_E has 1 NaN or infinite entries of 30"):
        embedding_geometry(E, steps=())
    with pytest.raises(InputError, match=r"W_E has the shape \(0, 5\)"):
        embedding_geometry(torch.zeros(0, 5))
