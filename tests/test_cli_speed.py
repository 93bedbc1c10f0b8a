"""``interp-compose speed`` from outside: files, messages, exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import interp_compose as ic
from interp_compose import cli

TINY = ["--d-model", "8", "--samples", "60", "--steps", "6"]


def command(out: Path, *more: str) -> list[str]:
    grid = ["--gammas", "0.4,0.8", "--depths", "1", "--violations", "0,1", "--seeds", "1"]
    return ["speed", "--out", str(out), "--where", "here", *TINY, *grid, *more]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("speed")
    cli.main(command(out, "-q"))
    return out


def test_again_prints_the_same_and_trains_nothing(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a run was done again")

    monkeypatch.setattr("interp_compose.studies.fitting_speed.measure.train", never)
    before = (finished / "runs.csv").read_bytes()
    cli.main(command(finished))
    assert (finished / "runs.csv").read_bytes() == before
    printed = capsys.readouterr().out
    assert ic.FittingSpeed.load(finished).summary() in printed
    assert "violations_roc.html, violations_roc.png" in printed


def test_another_setting_or_a_smaller_grid_is_refused_before_work(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / "runs.csv").read_bytes()
    for options, message in (
        (["--steps", "7"], "steps was 6, is now 7"),
        (["--depths", "2"], "depths 1, which this one lacks"),
        (["--violations", "1"], "violations 0, which this one lacks"),
    ):
        with pytest.raises(SystemExit) as stopped:
            cli.main(command(finished, *options))
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
    assert (finished / "runs.csv").read_bytes() == before


def test_another_study_of_the_folder_is_left_alone(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["phases", "--out", str(finished), "--where", "here", "--steps", "6"])
    assert 'study was "speed", is now "phases' in capsys.readouterr().err
