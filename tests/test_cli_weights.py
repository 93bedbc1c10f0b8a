"""``interp-compose weights`` from outside: files, messages, exit statuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import interp_compose as ic
from interp_compose import cli


def command(out: Path, *more: str) -> list[str]:
    return ["weights", "--model", "mini-base", "--out", str(out), "--device", "cpu", *more]


def test_a_run_writes_table_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(command(tmp_path))
    printed, bar = capsys.readouterr()
    report = ic.ComplexityReport.load(tmp_path)
    assert report.summary() in printed
    assert "stable_rank.html, stable_rank.png" in printed
    assert "weights of mini-base" in bar
    figures = ["stable_rank", "condensation"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "result.json",
        "manifest.json",
        "matrices.csv",
        "matrices.parquet",
        *(f"{name}.{kind}" for name in figures for kind in ("html", "png")),
    }
    for name in figures:
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        html = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert "Plotly.newPlot" in html
        assert not re.search(r"<(script|link)[^>]+(src|href)=", html)  # nothing from elsewhere
    assert len(report.merged) == 2 + 4 * 6 + 1
    assert len(report.heads) == 4 * 4 * 4
    assert report.config["model"] == "mini-base"


def test_quiet_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(command(tmp_path, "--no-heads", "-q"))
    assert capsys.readouterr() == ("", "")
    assert ic.ComplexityReport.load(tmp_path).heads.empty


def test_running_again_ends_in_the_same_result_and_another_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = command(tmp_path, "--no-heads", "-q")
    cli.main(once)
    before = (tmp_path / "matrices.csv").read_bytes()
    cli.main(once)
    assert (tmp_path / "matrices.csv").read_bytes() == before
    other = command(tmp_path, "-q")
    with pytest.raises(SystemExit) as stopped:
        cli.main(other)
    assert stopped.value.code == 2
    assert "holds the result of another run: heads was false, is now true" in (
        capsys.readouterr().err
    )
    assert (tmp_path / "matrices.csv").read_bytes() == before
    cli.main([*other, "--overwrite"])
    assert not ic.ComplexityReport.load(tmp_path).heads.empty


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "tpu9"], "DeviceError: unknown device 'tpu9'"),
        (["--model", "no/such-model"], "no model 'no/such-model'"),
    ],
)
def test_bad_input_exits_with_2_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as stopped:
        cli.main(command(out, *options))
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
