"""Killed before file operations, and given again: the same files, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.forking import can_fork, outcome_of

pytestmark = can_fork
LEAST = {"study": 50, "training": 60, "watching": 7, "decoder": 20, "sweep": 40}
"""Operations that each job has at the least, so that none is left out of sight."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcome_of("tests.killed_writes", tmp_path_factory.mktemp("writes"))


@pytest.mark.parametrize("job", LEAST)
def test_killed_before_file_operations(job: str, outcome: dict[str, Any]) -> None:
    assert outcome[job]["operations"] >= LEAST[job]
    assert outcome[job]["wrong"] == {}
    assert not [name for name in outcome[job]["left"] if ".tmp" in name]
