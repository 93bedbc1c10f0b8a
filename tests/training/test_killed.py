"""``kill -9`` at random moments and at every stage of a save; two processes against one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.forking import can_fork, outcome_of
from tests.training.forked import CASES, KILLS, MOMENTS

pytestmark = can_fork
ROWS = 16 + 5 * (1 + 3)  # steps; evaluations at 0, 5, 10, 15 and 16, of three layers


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcome_of("tests.training.forked", tmp_path_factory.mktemp("forked"))


def check(run: dict[str, Any]) -> None:
    assert run["same weights"]
    assert run["same history"]
    assert run["rows doubled"] == 0
    assert run["rows"] == ROWS
    assert run["checkpoints"] == ["step_00000014", "step_00000016"]
    assert run["left over"] == []


def test_undisturbed(outcome: dict[str, Any]) -> None:
    check(outcome["undisturbed"])


def test_killed_at_random_moments(outcome: dict[str, Any]) -> None:
    runs = outcome["random"]
    assert sum(len(run["killed after"]) for run in runs) == KILLS
    moments = {steps for run in runs for steps in run["killed after"]}
    assert len(moments) >= 3  # at several stages, not always before the first step
    for run in runs:
        check(run)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_during_a_save(moment: str, outcome: dict[str, Any]) -> None:
    run = outcome["saving"][moment]
    assert run["killed"]
    renamed = moment in ("just renamed", "before older ones go")
    before = ["step_00000006", "step_00000008"]
    assert run["at hand"] == ([*before, "step_00000010"] if renamed else before)
    check(run)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_agree_with_two_parts_on_one(case: str, outcome: dict[str, Any]) -> None:
    run = outcome["two"][case]
    assert run["apart"] < 1e-6
    assert run["loss apart"] < 1e-6
    assert run["between"] == run["loss between"] == 0


def test_only_the_main_process_writes(outcome: dict[str, Any]) -> None:
    main, other = outcome["two"]["files"]
    assert len(main) == 4 * len(CASES)  # a history, two checkpoints and their fingerprint each
    assert other == []


def test_a_nan_in_one_process_stops_both(outcome: dict[str, Any]) -> None:
    one, other = outcome["two"]["broken"]
    assert one == other
    assert one.startswith("step 1: the task's loss is nan")
