"""What several tests of training share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where toy runs note what they do, see :mod:`tests.training.sweep_jobs`."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    monkeypatch.setenv("SWEEP_LEDGER", str(folder))
    return folder
