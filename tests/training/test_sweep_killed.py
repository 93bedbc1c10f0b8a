"""``kill -9`` of callers and workers at a dozen random moments; two callers; Ctrl-C.

What is exactly once: a run that is done is never begun again, and no two processes are ever at one
run. A run that is killed is begun again, and leaves what it leaves in an undisturbed sweep.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.forking import can_fork, outcome_of
from tests.training.sweep_kills import CONFIGS, KILLS

pytestmark = can_fork


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcome_of("tests.training.sweep_kills", tmp_path_factory.mktemp("killed"))


def check(run: dict[str, Any], undisturbed: dict[str, Any]) -> None:
    assert run["files"] == undisturbed["files"]  # the same runs, and the same bytes in them
    assert len(run["files"]) == len(CONFIGS)
    assert run["done again"] == 0
    assert not run["overlap"]
    assert run["failed"] == run["torn"] == []


def test_undisturbed(outcome: dict[str, Any]) -> None:
    check(outcome["undisturbed"], outcome["undisturbed"])
    assert outcome["undisturbed"]["begun"] == len(CONFIGS)


@pytest.mark.parametrize("victim", KILLS)
def test_killed_at_random_moments(outcome: dict[str, Any], victim: str) -> None:
    kills = []
    for run in outcome[victim]:
        check(run, outcome["undisturbed"])
        lost = run["begun"] - len(CONFIGS)
        assert 0 <= lost <= len(run["done when killed"])  # at most the one in flight each time
        if victim == "caller of workers":  # they end the runs they are at
            assert lost == 0
        kills += run["done when killed"]
    assert len(kills) == KILLS[victim]
    assert len(set(kills)) >= 2  # at several stages of a sweep


def test_two_callers_never_do_the_same_run(outcome: dict[str, Any]) -> None:
    run = outcome["two"]
    check(run, outcome["undisturbed"])
    assert run["codes"] == [0, 0]
    assert run["begun"] == len(CONFIGS)


def test_ctrl_c_ends_the_workers(outcome: dict[str, Any]) -> None:
    run = outcome["interrupted"]
    check(run, outcome["undisturbed"])
    assert run["code"] == 130
    assert run["workers left"] == run["states"] == []
    assert len(CONFIGS) < run["begun"] <= len(CONFIGS) + 2  # two workers were at a run each


def test_workers_end_with_the_run_they_are_at_when_the_caller_is_killed(
    outcome: dict[str, Any],
) -> None:
    run = outcome["orphaned"]
    check(run, outcome["undisturbed"])
    at_the_kill, at_the_end = run["done when killed"]
    assert at_the_kill < at_the_end <= at_the_kill + 2
    assert run["begun"] == len(CONFIGS)
