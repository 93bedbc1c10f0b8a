"""The audit as a test of another project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose.studies.audit.result import Audit

pytest_plugins = "pytester"
PLUGIN = "interp_compose.pytest_plugin"
HEAVY = ("torch", "transformers", "pandas", "numpy", "transformer_lens", "plotly")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of one test, whose warnings are errors."""
    pytester.makepyfile("def test_own():\n    pass\n")
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def audited(monkeypatch: pytest.MonkeyPatch, *statuses: str) -> list[tuple[Any, ...]]:
    """Audits, from now on, that find these; returns what was asked."""
    asked: list[tuple[Any, ...]] = []

    def audit(model: str, *, quick: bool, progress: bool) -> Audit:
        asked.append((model, quick, progress))
        rows = [("model", "", f"check {k}", one, "0.3 off") for k, one in enumerate(statuses)]
        names = ["part", "name", "check", "status", "detail"]
        config = {"study": "audit", "model": model, "architecture": "GPT2"}
        return Audit.from_rows(pd.DataFrame(rows, columns=names), config)

    monkeypatch.setattr(ic, "audit", audit, raising=False)
    return asked


def test_without_the_option_there_is_no_test_more(project: pytest.Pytester) -> None:
    project.inline_run("-p", PLUGIN).assertoutcome(passed=1)


def test_it_imports_nothing_heavy() -> None:
    loaded = f"import sys, {PLUGIN}; print(*[one for one in {HEAVY} if one in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", loaded],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""


def test_a_model_without_findings_passes(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = audited(monkeypatch, "holds", "refused", "silent")
    given = ("-p", PLUGIN, "--interp-compose-audit", "a", "--interp-compose-audit=b")
    project.inline_run(*given).assertoutcome(passed=3)
    assert asked == [("a", False, False), ("b", False, False)]
    asked.clear()
    chosen = project.inline_run(*given, "--interp-compose-audit-quick", "-k", "audit and b")
    chosen.assertoutcome(passed=1)
    assert asked == [("b", True, False)]


@pytest.mark.parametrize("statuses", [("holds", "wrong"), ("holds", "discarded"), ("refused",)])
def test_a_finding_or_a_refusal_fails_with_the_audits_words(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, statuses: tuple[str, ...]
) -> None:
    audited(monkeypatch, *statuses)
    done = project.runpytest_inprocess("-p", PLUGIN, "--interp-compose-audit", "mini")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        ["*interp_compose_audit[[]mini[]]*", "model mini · GPT2", "*0.3 off*"]
    )


def test_a_model_that_is_not_there_fails_with_its_message(project: pytest.Pytester) -> None:
    done = project.runpytest_inprocess("-p", PLUGIN, "--interp-compose-audit", "no/such/model")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*Error: *no/such/model*"])


def test_a_shipped_model(project: pytest.Pytester) -> None:
    options = ("-p", PLUGIN, "--interp-compose-audit-quick", "--interp-compose-audit", "mini-idm")
    project.runpytest_inprocess(*options).assert_outcomes(passed=2)
