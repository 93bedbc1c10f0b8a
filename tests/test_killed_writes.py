"""Killed before any file operation, and given again: the same files, and no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
LEAST = {"study": 50, "training": 60, "decoder": 20, "sweep": 40}
"""Operations that each job has at the least, so that none is left out of sight."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("writes")
    subprocess.run(
        [sys.executable, "-m", "tests.killed_writes", str(folder)],
        check=True,
        timeout=900,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found


@pytest.mark.parametrize("job", LEAST)
def test_killed_before_every_file_operation(job: str, outcome: dict[str, Any]) -> None:
    assert outcome[job]["operations"] >= LEAST[job]
    assert outcome[job]["wrong"] == {}
    assert not [name for name in outcome[job]["left"] if ".tmp" in name]
