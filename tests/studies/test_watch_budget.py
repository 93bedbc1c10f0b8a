"""The bound on what looks take, with a clock of the test's own."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from interp_compose.models.lens_model import LensModel
from interp_compose.studies.watch import watcher as watching
from interp_compose.studies.watch.budget import Budget
from interp_compose.studies.watch.measure import watch
from interp_compose.studies.watch.measures import Measurement
from interp_compose.studies.watch.watcher import Watcher
from tests.training.runs import shared


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[..., Watcher]


@pytest.fixture
def make(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A watcher whose looks take what ``costs`` says, one after another."""

    def made(costs: list[float], **options: object) -> Watcher:
        left = iter(costs)

        def look(model: LensModel) -> list[dict[str, object]]:
            clock.now += next(left)
            row = {"measure": "stable_rank", "layer": 0, "of": "W_Q", "value": clock.now}
            return [{**row, "low": float("nan"), "high": float("nan"), "n": 1}]

        monkeypatch.setattr(watching, "planned", lambda lens, asked: [Measurement({}, look)])
        return watch(shared(), measures=("stable_rank",), clock=clock, **options)

    return made


def test_a_look_waits_until_it_is_paid_for(clock: Clock, make: Make) -> None:
    """Steps of 1 s, looks of 2 s, every 10 steps, a fifth of the time: W + 2 <= T / 5."""
    watcher = make([2.0] * 6, every=10, budget=0.2)
    for step in range(61):
        watcher(step)
        clock.now += 1.0
    looks = watcher.looks
    assert looks["step"].tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert looks["taken"].tolist() == [True, False, True, True, True, True, True]
    assert looks["training_seconds"].tolist() == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    assert looks["watching_seconds"].tolist() == [2.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    assert looks["seconds"].tolist() == [2.0, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    assert looks["expected"].isna().tolist() == [True] + [False] * 6
    assert watcher.frame["step"].tolist() == [0, 20, 30, 40, 50, 60]
    assert "6 looks, 1 skipped for the budget; 12 s beside 60 s of training" in (
        watcher.result.summary()
    )


def test_a_look_that_took_longer_than_expected_is_paid_for_before_the_next(
    clock: Clock, make: Make
) -> None:
    watcher = make([1.0, 1.0, 9.0, *[1.0] * 20], every=1, budget=0.1)
    for step in range(0, 300, 10):
        watcher(step)
        clock.now += 10.0
    looks = watcher.looks
    taken = looks["step"][looks["taken"]].tolist()
    # W + c <= T / 10: 1 + 1 at 20; 2 + 1 at 30, which takes 9; 11 + 9 at 200; 12 + 1 at 210
    assert taken[:5] == [0, 20, 30, 200, 210]


@pytest.mark.parametrize("seed", range(5))
def test_what_looks_take_is_bounded_as_the_page_says(seed: int) -> None:
    """Against the rule written out on all times since the beginning."""
    rng = random.Random(seed)
    clock = Clock()
    share = (0.03, 0.05, 0.1, 0.3, 1.0)[seed]
    budget = Budget(share, clock)
    budget.begin()
    steps: list[float] = []
    looks: list[float] = []
    for _ in range(400):
        fits = not looks or sum(looks) + looks[-1] <= share * sum(steps)
        assert budget.training == pytest.approx(sum(steps), abs=1e-6)
        assert budget.allows(budget.training) == fits
        if fits:
            cost = rng.uniform(0.1, 2.0)
            clock.now += cost
            budget.last = cost
            budget.watching += cost
            late = max(0.0, cost - looks[-1]) if looks else 0.0
            looks.append(cost)
            assert sum(looks) <= max(looks[0], share * sum(steps) + late) + 1e-6
        steps.append(rng.uniform(0.1, 1.0))
        clock.now += steps[-1]
    assert 1 < len(looks) < 400


def test_a_resumed_training_goes_on_in_its_budget(clock: Clock, make: Make, tmp_path: Path) -> None:
    def run(watcher: Watcher, steps: range) -> None:
        for step in steps:
            watcher(step)
            clock.now += 1.0

    whole = make([2.0] * 9, every=10, budget=0.1)
    run(whole, range(100))
    path = tmp_path / "rows.jsonl"
    killed = make([2.0] * 9, every=10, budget=0.1, path=path)
    run(killed, range(75))
    clock.now += 5000.0  # until it is started again
    resumed = make([2.0] * 9, every=10, budget=0.1, path=path)
    resumed.begin(70)
    clock.now += 1.0
    run(resumed, range(71, 100))
    skipped = whole.looks["step"][~whole.looks["taken"]].tolist()
    assert skipped == [10, 20, 30, 50, 70, 90]
    for column in ("step", "taken", "seconds", "training_seconds", "watching_seconds"):
        assert resumed.looks[column].tolist() == whole.looks[column].tolist(), column


def test_without_a_budget_every_look_is_taken(clock: Clock, make: Make) -> None:
    watcher = make([50.0] * 4, every=2, budget=None)
    for step in range(7):
        watcher(step)
    assert watcher.looks["taken"].all()
    assert watcher.frame["step"].tolist() == [0, 2, 4, 6]


def test_a_look_can_be_asked_for(clock: Clock, make: Make) -> None:
    """After the last step, whatever it takes; a skipped step is then a taken one."""
    watcher = make([2.0] * 4, every=5, budget=0.01)
    for step in range(6):
        watcher(step)
        clock.now += 1.0
    assert watcher.looks["taken"].tolist() == [True, False]
    watcher.look(5)
    watcher.look(7)
    assert watcher.looks["step"].tolist() == [0, 5, 7]
    assert watcher.looks["taken"].all()
    with pytest.raises(ValueError, match="step=7: step 7 has been measured; expected a later one"):
        watcher.look(7)
