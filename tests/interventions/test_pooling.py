"""pool_groups against its formula, written out in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import OptionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling import HOW, pool_groups, spread_groups
from tests.interventions.reference import pool, units_of
from tests.interventions.shared import shared

GROUPS = torch.tensor([[-1, 0, 0, 1, 2, 2, 2], [0, 1, 1, 2, 3, -1, -1]])


def resid(batch: int, pos: int, d_model: int = 5, *, seed: int = 0) -> Tensor:
    return torch.randn(batch, pos, d_model, generator=torch.Generator().manual_seed(seed))


@st.composite
def groupings(draw: st.DrawFn) -> list[int]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    groups = [unit for unit, size in enumerate(sizes) for _ in range(size)]
    return [-1] * draw(st.integers(0, 2)) + groups + [-1] * draw(st.integers(0, 2))


@pytest.mark.parametrize("how", HOW)
@given(groups=groupings(), seed=st.integers(0, 2**16))
@settings(max_examples=40)
def test_equals_the_formula(how: str, groups: list[int], seed: int) -> None:
    activations = resid(1, len(groups), seed=seed)
    pooled = pool_groups(activations, torch.tensor([groups]), how)
    (units,) = units_of(torch.tensor([groups]))
    expected = torch.stack([pool(activations[0, unit], how) for unit in units])
    torch.testing.assert_close(pooled[0].double(), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_groups_of_one_token_come_back_bit_for_bit(how: str, dtype: torch.dtype) -> None:
    activations = (resid(2, 7) * 1e3).to(dtype)
    groups = torch.arange(7).expand(2, -1)
    assert torch.equal(pool_groups(activations, groups, how), activations)


@pytest.mark.parametrize("how", HOW)
def test_what_belongs_to_no_group_is_never_read(how: str) -> None:
    activations = resid(2, 7)
    expected = pool_groups(activations, GROUPS, how)
    for junk in (1e4, float("nan"), float("inf")):
        spoilt = activations.masked_fill((GROUPS < 0)[:, :, None], junk)
        assert torch.equal(pool_groups(spoilt, GROUPS, how), expected)


@pytest.mark.parametrize("how", HOW)
def test_an_empty_group_is_zero(how: str) -> None:
    pooled = pool_groups(resid(1, 3), torch.tensor([[0, 2, 2]]), how, n_groups=5)
    assert pooled.shape == (1, 5, 5)
    assert torch.equal(pooled[0, [1, 3, 4]], torch.zeros(3, 5))


@pytest.mark.parametrize("how", HOW)
def test_float64_stays_float64(how: str) -> None:
    activations = resid(1, 5).double() / 3
    pooled = pool_groups(activations, torch.tensor([[0, 0, 1, 1, 1]]), how)
    expected = torch.stack([pool(activations[0, unit], how) for unit in ([0, 1], [2, 3, 4])])
    torch.testing.assert_close(pooled[0], expected, atol=1e-15, rtol=1e-15)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("bad", [float("inf"), -float("inf"), float("nan")])
def test_what_is_not_finite_stays_in_its_unit(how: str, bad: float) -> None:
    """At one token of unit 1 and one feature; the same in every token of unit 2."""
    activations = resid(1, 6)
    groups = torch.tensor([[0, 0, 1, 1, 2, 2]])
    clean = pool_groups(activations, groups, how, n_groups=4)
    spoilt = activations.clone()
    spoilt[0, 3, 1] = bad
    spoilt[0, 4:, 2] = bad
    pooled = pool_groups(spoilt, groups, how, n_groups=4)
    expected = clean.clone()
    expected[0, 1, 1] = pool(spoilt[0, [2, 3]], how)[1]
    if bad != bad and how == "max":  # Python's max depends on the order of what it compares
        expected[0, 1, 1] = bad
    expected[0, 2, 2] = bad
    torch.testing.assert_close(pooled, expected, rtol=0, atol=0, equal_nan=True)


def test_bf16_sums_run_in_float32() -> None:
    # 256 + 1 + 1 … in bf16 stays 256: its steps there are 2 wide.
    activations = torch.ones(1, 65, 1, dtype=torch.bfloat16)
    activations[0, 0] = 256
    groups = torch.zeros(1, 65, dtype=torch.long)
    assert pool_groups(activations, groups, "sum").item() == 320
    assert pool_groups(activations, groups, "mean").item() == pytest.approx(320 / 65, rel=4e-3)


def of_all(vectors: Tensor) -> Tensor:
    return vectors.mul_(1).mean(dim=0)  # in place: what is given is a copy


def root_mean_square(vectors: Tensor) -> Tensor:
    assert len(vectors) > 1  # a token that is alone is not asked about
    return vectors.square().mean(dim=0).sqrt()


@given(groups=groupings(), seed=st.integers(0, 2**16))
@settings(max_examples=20)
def test_functions_of_your_own_equal_their_formula(groups: list[int], seed: int) -> None:
    activations = resid(1, len(groups), seed=seed)
    before, ids = activations.clone(), torch.tensor([groups])
    (units,) = units_of(ids)
    mean = pool_groups(activations, ids, of_all)[0].double()
    expected = torch.stack([pool(activations[0, unit], "mean") for unit in units])
    torch.testing.assert_close(mean, expected, atol=1e-6, rtol=1e-6)
    found = pool_groups(activations, ids, root_mean_square)[0]
    for vector, unit in zip(found, units, strict=True):
        rows = activations[0, unit].double().tolist()
        slow = [
            (sum(x * x for x in column) / len(rows)) ** 0.5 for column in zip(*rows, strict=True)
        ]
        slow = rows[0] if len(rows) == 1 else slow
        torch.testing.assert_close(vector.double(), torch.tensor(slow).double(), atol=1e-6, rtol=0)
    assert torch.equal(activations, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_functions_of_your_own_run_in_the_precision_of_poolings(dtype: torch.dtype) -> None:
    seen = set()

    def noted(vectors: Tensor) -> Tensor:
        seen.add(vectors.dtype)
        return vectors.mean(dim=0)

    activations = resid(2, 7).to(dtype).requires_grad_()
    pooled = pool_groups(activations, GROUPS, noted, n_groups=5)
    assert seen == {torch.float64 if dtype == torch.float64 else torch.float32}
    torch.testing.assert_close(pooled, pool_groups(activations, GROUPS, "mean", n_groups=5))
    assert pool_groups(activations, GROUPS, "mean").shape[1] == int(GROUPS.max()) + 1
    assert torch.equal(pooled[0, 3:], torch.zeros(2, 5, dtype=dtype))  # no token
    assert torch.equal(pooled[0, 1], activations[0, 3])  # one
    pooled.sum().backward()
    assert activations.grad is not None
    assert activations.grad[1, :3, 0].tolist() == [1.0, 0.5, 0.5]


def test_what_a_function_gives_is_checked_at_every_unit() -> None:
    activations = resid(2, 7)
    for function, what in (
        (lambda vectors: vectors[:2].flatten() if len(vectors) > 2 else vectors[0], r"\[10\]"),
        (lambda vectors: vectors[0] / (len(vectors) - 3), "3 tokens .*NaN or infinite"),
        (lambda vectors: vectors.mean(0)[None, 9], "IndexError"),
    ):
        with pytest.raises(OptionError, match=f"'<lambda>'.*{what}"):
            pool_groups(activations, GROUPS, function)
    activations[0, 1, 2] = float("nan")  # its own unit's alone
    assert pool_groups(activations, GROUPS, of_all).isnan().nonzero().tolist() == [[0, 0, 2]]


def test_all_equal_tokens() -> None:
    activations = torch.full((1, 4, 3), 2.5)
    groups = torch.tensor([[0, 0, 0, 1]])
    for how in ("mean", "max", "last"):
        assert torch.equal(pool_groups(activations, groups, how), torch.full((1, 2, 3), 2.5))
    assert pool_groups(activations, groups, "sum")[0, :, 0].tolist() == [7.5, 2.5]


def test_gradients_are_shared_by_the_mean() -> None:
    activations = resid(1, 3).requires_grad_()
    pool_groups(activations, torch.tensor([[0, 0, 1]]), "mean").sum().backward()
    assert activations.grad is not None
    assert activations.grad[0, :, 0].tolist() == [0.5, 0.5, 1.0]


def test_spreading_gives_each_token_its_units_vector() -> None:
    activations = resid(2, 7)
    pooled = pool_groups(activations, GROUPS, "mean")
    spread = spread_groups(pooled, GROUPS, activations)
    for row, units in enumerate(units_of(GROUPS)):
        for slot, unit in enumerate(units):
            for position in unit:
                assert torch.equal(spread[row, position], pooled[row, slot])
    outside = GROUPS < 0
    assert torch.equal(spread[outside], activations[outside])


def test_positions_of_a_sequence_that_keeps_its_length_are_not_renumbered() -> None:
    groups = torch.zeros(1, 2, dtype=torch.long)
    pooling = pool_at(shared("Llama"), 0, groups, mode="broadcast", renumber=True)
    with pytest.raises(OptionError, match="no meaning for mode='broadcast'"), pooling:
        pass


def test_an_unknown_pooling_is_refused() -> None:
    with pytest.raises(OptionError, match="how='median'; expected one of 'mean', 'max', 'sum'"):
        pool_groups(resid(1, 3), torch.zeros(1, 3).long(), "median")
