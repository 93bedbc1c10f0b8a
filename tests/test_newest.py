"""What is printed of releases past the bounds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interp_compose.studies.audit.result import STATUSES
from tests import newest


def test_what_is_worse_is_named_by_its_capability() -> None:
    here = {
        "Llama": {"prefix": ("holds", ""), "edit_z": ("discarded", ""), "hidden": ("wrong", "")}
    }
    there = {
        "Llama": {
            "prefix": ("wrong", "relative error 2.5"),
            "edit_z": ("discarded", ""),
            "hidden": ("holds", ""),
            "a new check": ("refused", "no"),
        },
        "OPT": {"loading": ("wrong", "ImportError: gone")},
    }
    assert list(newest.worse({**here, "OPT": {}}, there)) == [
        "Llama: 'prefix' was 'holds' and is 'wrong' (relative error 2.5)",
        "Llama: 'a new check' was 'holds' and is 'refused' (no)",
        "OPT: 'loading' was 'holds' and is 'wrong' (ImportError: gone)",
    ]
    assert set(newest.STATUSES) == set(STATUSES)


def test_without_a_registry_it_says_so_and_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(folder: Path) -> Any:
        raise subprocess.CalledProcessError(1, ["pip"], stderr="no route\nno releases")

    monkeypatch.setattr(newest, "make_environment", unreachable)
    monkeypatch.setattr(sys, "argv", ["newest"])
    newest.main()
    assert re.match(
        r"WARNING: the newest .* were not tried: .*no releases", capsys.readouterr().out
    )


def test_the_audits_of_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "MODELS", ("GPT-2", "Mamba"))
    found = newest.statuses()
    assert found["GPT-2"]["prefix"][0] == "holds"
    assert {status for status, _ in found["Mamba"].values()} == {"refused"}
