"""A few hundred of the calls that ``python -m tests.fuzz`` makes by the hundred thousand.

In a process of its own, where beartype does not stand in front of every inner function.
"""

from __future__ import annotations

from pathlib import Path

from tests.forking import can_fork
from tests.untyped import FORKED, outcomes_of

pytestmark = can_fork
CALLS = 300


def test_no_wrong_value_ends_in_a_raw_error(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = ["tests.fuzz", "--calls", str(CALLS), "--groups", "model", "numbers", "data"]
    script = f"""
def fuzz():
    assert ended(forked({command}, {str(told)!r})) == 0
calls = {{"fuzz": fuzz}}
"""
    outcomes = outcomes_of(FORKED + script)
    printed = told.read_text(encoding="utf-8")
    assert outcomes == {"fuzz": "accepted"}, printed
    assert f"{CALLS} calls: " in printed
    assert int(printed.split(" refused")[0].split()[-1]) > CALLS / 2
