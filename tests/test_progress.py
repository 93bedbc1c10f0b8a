"""Bars in a terminal and in a notebook; lines in a log."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from interp_compose import progress
from interp_compose.progress import Lines, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(total: int | None, steps: int, *, fails: bool = False) -> list[str]:
    """The lines of a log, up to the time that was taken."""
    out = io.StringIO()
    try:
        with Lines(total=total, desc="work", file=out, mininterval=0, miniters=1) as bar:
            for _ in range(steps):
                bar.update()
            if fails:
                raise ValueError
    except ValueError:
        pass
    assert "\r" not in out.getvalue()
    assert out.getvalue().endswith("]\n")
    return [line.partition(" [")[0] for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("total", [1, 3, 10, 23, 1000])
def test_a_log_has_a_line_for_each_tenth(total: int) -> None:
    expected, before = [], -1
    for n in range(total + 1):
        if 10 * n // total > before:
            before = 10 * n // total
            expected.append(f"work: {100 * n / total:3.0f}% {n}/{total}")
    assert len(expected) <= 11
    assert told(total, total) == expected


def test_work_that_ends_early_has_a_last_line() -> None:
    assert told(100, 14) == ["work:   0% 0/100", "work:  10% 10/100", "work:  14% 14/100"]
    assert told(100, 14, fails=True)[-1] == "work:  14% 14/100"
    assert len(told(None, 7)) == 2


def test_who_reads_decides_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress_bar(total=2, disable=True), Lines)
    with monkeypatch.context() as patch:
        patch.setattr(progress, "in_notebook", lambda: True)
        assert isinstance(progress_bar(total=2, disable=True), progress.tqdm)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    for _ in progress_bar(range(3), "work"):
        pass
    assert "\r" in terminal.getvalue()


def test_a_bar_that_is_off_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress_bar(range(3), "work", disable=True)) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_command_s_log() -> None:
    code = (
        "from interp_compose.progress import progress_bar as b\nfor _ in b(range(20), 'work'): pass"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert lines[0].startswith("work:   0% 0/20 [")
    assert lines[-1].startswith("work: 100% 20/20 [")
    assert not done.stdout
