"""Numbers of epochs, lateness, areas and curves, each against its definition written out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.complexity.studies.fitting_speed.measure import (
    auc_of,
    lateness,
    packed,
    tables_of,
    touched_pairs,
)
from interp_compose.papers.complexity.studies.fitting_speed.result import (
    SHARES,
    cells_of,
    pair_cells_of,
    roc_of,
    spread,
    true_positive_rates,
)
from interp_compose.papers.complexity.tasks.anchors import AnchorTask, violations

RUN = PhaseRun(samples=50, batch_size=20, violations=1, hold_out=False, seed=7)  # 3 steps an epoch
STEPS = (0, 3, 6, 9, 10)


def history(right: np.ndarray, losses: list[float | None]) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "finite": loss is not None,
            "accuracy": float(own.mean()),
            "loss": loss,
            "right": packed(own),
        }
        for step, own, loss in zip(STEPS, right, losses, strict=True)
    ]


def test_every_number_follows_from_a_history() -> None:
    right = np.random.default_rng(0).random((5, 50)) < np.linspace(0, 0.9, 5)[:, None]
    right[3] = True
    run, pairs, samples = tables_of(RUN, history(right, [4.0, 1.0, 0.05, 0.2, 0.1]))
    assert (run["init_rate"], run["n_layers"], run["violations"], run["seed"]) == (0.8, 2, 1, 7)
    assert run["epochs"] == 10 / 3
    assert run["accuracy"] == right[4].mean()
    assert (run["accuracy_epochs"], run["loss_epochs"]) == (3.0, 2.0)
    task = RUN.task
    data = task.sample("train", 50, seed=RUN.stream("train"))
    for row, chain in zip(pairs, task.chains, strict=True):
        own = [i for i in range(50) if task.chains[data.chains[i]] == chain]
        shares = [sum(bool(look[i]) for i in own) / len(own) for look in right]
        first = next(step / 3 for step, share in zip(STEPS, shares, strict=True) if share >= 0.6)
        assert row["pair"] == " ".join(chain)
        assert row["epochs"] == first
        assert row["violates"] is (set(chain) == {"a", "b"})
        assert row["touched"] is (set(chain) <= {"a", "b"})
    assert samples["sample"].tolist() == list(range(50))
    late = [slow_lateness([bool(look[i]) for look in right]) for i in range(50)]
    assert samples["lateness"].tolist() == pytest.approx(late)
    named = [" ".join(task.chains[i]) for i in data.chains]
    assert samples["pair"].tolist() == named
    assert samples["violates"].tolist() == [name in ("a b", "b a") for name in named]
    assert run["auc"] == pytest.approx(slow_auc(late, samples["violates"].tolist()))


def test_what_never_came_is_nan() -> None:
    run, pairs, _ = tables_of(RUN, history(np.zeros((5, 50), bool), [4.0, 3.0, 2.0, 1.0, None]))
    for value in (run["accuracy_epochs"], run["loss_epochs"], run["loss"], run["auc"]):
        assert math.isnan(value)
    assert all(math.isnan(row["epochs"]) for row in pairs)


def test_what_was_there_at_the_start_took_no_epoch() -> None:
    run, pairs, samples = tables_of(RUN, history(np.ones((5, 50), bool), [0.01] * 5))
    assert (run["accuracy_epochs"], run["loss_epochs"]) == (0.0, 0.0)
    assert {row["epochs"] for row in pairs} == {0.0}
    assert samples["lateness"].eq(0).all()
    assert run["auc"] == 0.5  # all as late: mid ranks


def test_without_violations_there_is_nothing_to_rank() -> None:
    run, pairs, samples = tables_of(
        replace(RUN, violations=0), history(np.ones((5, 50), bool), [0.01] * 5)
    )
    assert samples.empty
    assert math.isnan(run["auc"])
    assert not any(row["violates"] or row["touched"] for row in pairs)


def test_a_pair_without_samples_is_never_learned() -> None:
    few = replace(RUN, samples=5)
    _, pairs, _ = tables_of(few, history(np.ones((5, 5), bool), [0.0] * 5))
    assert sum(math.isnan(row["epochs"]) for row in pairs) == 11


def test_pairs_of_the_anchors_that_violate() -> None:
    def touched(groups: int) -> set[str]:
        task = AnchorTask(unseen=(), violations=violations(groups))
        return {"".join(chain) for chain in touched_pairs(task)}

    assert touched(0) == set()
    assert touched(1) == {"ab", "ba", "aa", "bb"}
    assert touched(2) == {"ab", "ba", "aa", "bb", "ac", "ca", "cc"}
    assert len(touched(6)) == 16


def slow_lateness(looks: list[bool]) -> float:
    """Looks are put away from the end as long as they are right."""
    left = list(looks)
    while left and left[-1]:
        left.pop()
    return len(left) / len(looks)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=6))
def test_lateness_is_when_a_sample_has_converged(looks: list[list[bool]]) -> None:
    found = lateness(np.array(looks))
    expected = [slow_lateness(list(own)) for own in zip(*looks, strict=True)]
    assert found.tolist() == pytest.approx(expected)


def slow_auc(late: list[float], violating: list[bool]) -> float:
    """Every pair of a violating sample and another one, one by one."""
    found = [
        1.0 if one > other else 0.5 if one == other else 0.0
        for one, breaks in zip(late, violating, strict=True)
        for other, also in zip(late, violating, strict=True)
        if breaks and not also
    ]
    return sum(found) / len(found)


SAMPLES = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=12).filter(
    lambda found: len({breaks for _, breaks in found}) == 2
)


@given(SAMPLES)
def test_the_area_and_the_curve_by_their_definitions(found: list[tuple[int, bool]]) -> None:
    late, violating = [k / 4 for k, _ in found], [breaks for _, breaks in found]
    assert auc_of(np.array(late), np.array(violating)) == pytest.approx(slow_auc(late, violating))
    corners = {(0.0, 0.0)}
    for bound in sorted(set(late)):  # samples at least as late are called violating
        called = [breaks for k, breaks in zip(late, violating, strict=True) if k >= bound]
        trues = sum(called)
        corners.add((
            (len(called) - trues) / violating.count(False),
            trues / violating.count(True),
        ))  # fmt: skip
    rates = true_positive_rates(np.array(late), np.array(violating))
    for share, rate in zip(SHARES, rates, strict=True):
        before = max(corner for corner in corners if corner[0] <= share + 1e-12)
        after = min((corner for corner in corners if corner[0] > share + 1e-12), default=before)
        width = (after[0] - before[0]) or 1.0
        expected = before[1] + (share - before[0]) / width * (after[1] - before[1])
        assert rate == pytest.approx(expected if after != before else before[1])


@pytest.mark.parametrize("violating", [[True, True], [False, False]])
def test_one_kind_of_sample_has_no_area(violating: list[bool]) -> None:
    assert math.isnan(auc_of(np.array([0.1, 0.2]), np.array(violating)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 5.0], (2, 4.0, 3.0, 5.0)),
        ([3.0, math.nan, 5.0], (2, math.nan, 3.0, math.nan)),
        ([math.nan], (0, math.nan, math.nan, math.nan)),
        ([0.0], (1, 0.0, 0.0, 0.0)),
    ],
)
def test_a_mean_is_one_of_all_runs_or_none(
    values: list[float], expected: tuple[float, ...]
) -> None:
    assert spread(np.array(values)) == pytest.approx(expected, nan_ok=True)


def test_cells_count_what_got_there() -> None:
    runs = pd.DataFrame(
        {
            "init_rate": [0.4, 0.8, 0.8, 0.8],
            "n_layers": 2,
            "violations": [1, 1, 1, 0],
            "seed": [0, 0, 1, 0],
            "finite": [True, True, True, False],
            "accuracy_epochs": [4.0, 8.0, 12.0, math.nan],
            "loss_epochs": [3.0, math.nan, 5.0, math.nan],
            "auc": [0.5, 0.7, 0.9, math.nan],
        }
    )
    large, none, small = cells_of(runs).to_dict("records")
    assert (large["init_rate"], large["n"], large["accuracy_epochs"]) == (0.4, 1, 4.0)
    assert (none["violations"], none["diverged"], none["accuracy_fitted"]) == (0, 1, 0)
    assert math.isnan(none["auc"])
    assert (small["n"], small["diverged"]) == (2, 0)
    assert [small[f"accuracy_{name}"] for name in ("fitted", "epochs", "low", "high")] == [
        2, 10.0, 8.0, 12.0
    ]  # fmt: skip
    assert (small["loss_fitted"], small["loss_low"]) == (1, 5.0)
    assert math.isnan(small["loss_epochs"])
    assert (small["auc"], small["auc_low"], small["auc_high"]) == pytest.approx((0.8, 0.7, 0.9))


def test_pairs_have_cells_of_their_own() -> None:
    pairs = pd.DataFrame(
        {
            "init_rate": 0.8,
            "n_layers": 2,
            "violations": 1,
            "seed": [0, 0, 1, 1],
            "pair": ["a b", "c d", "a b", "c d"],
            "violates": [True, False, True, False],
            "touched": [True, False, True, False],
            "epochs": [7.0, 3.0, math.nan, 5.0],
        }
    )
    wrong, other = pair_cells_of(pairs).to_dict("records")
    assert (wrong["pair"], wrong["violates"], wrong["n"], wrong["fitted"]) == ("a b", True, 2, 1)
    assert (wrong["low"], math.isnan(wrong["epochs"])) == (7.0, True)
    assert (other["epochs"], other["low"], other["high"], other["touched"]) == (
        4.0,
        3.0,
        5.0,
        False,
    )


def test_curves_are_averaged_over_seeds() -> None:
    samples = pd.DataFrame(
        {
            "init_rate": 0.8,
            "n_layers": 2,
            "violations": [1] * 8 + [6] * 2,
            "seed": [0] * 4 + [1] * 4 + [0] * 2,
            "violates": [True, True, False, False] * 2 + [True, True],
            "lateness": [0.9, 0.8, 0.2, 0.1, 0.1, 0.2, 0.8, 0.9, 0.5, 0.6],
        }
    )
    found = roc_of(samples)  # a perfect seed and one that has it upside down
    assert found["violations"].eq(1).all()
    assert found["n"].eq(2).all()
    assert found["high"].eq(1).all()
    assert found["low"].tolist() == [0.0] * (len(SHARES) - 1) + [1.0]
    assert found["true_positive_rate"].tolist() == [0.5] * (len(SHARES) - 1) + [1.0]
    assert roc_of(samples[samples["violations"] == 6]).empty
