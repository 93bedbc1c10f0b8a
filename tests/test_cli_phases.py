"""``interp-compose phases`` from outside: files, messages, exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import interp_compose as ic
from interp_compose import cli
from interp_compose.studies.anchors.presets import PRESETS
from interp_compose.studies.anchors.run import train

TINY = ["--d-model", "16", "--d-mlp", "20", "--samples", "150", "--steps", "6"]
FIGURES = ("phase_curve", "phase_map", "phase_bubbles")


def command(out: Path, *more: str) -> list[str]:
    grid = ["--gammas", "0.4,0.8", "--weight-decays", "0.01,1", "--seeds", "1"]
    return ["phases", "--out", str(out), "--where", "here", *TINY, *grid, *more]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("phases")
    cli.main(command(out, "-q"))
    return out


def test_again_prints_the_same_and_trains_nothing(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a run was done again")

    monkeypatch.setattr("interp_compose.studies.anchors.run.train", never)
    before = (finished / "runs.csv").read_bytes()
    cli.main(command(finished))
    assert (finished / "runs.csv").read_bytes() == before
    printed = capsys.readouterr().out
    assert ic.PhaseDiagram.load(finished).summary() in printed
    assert "phase_map.html, phase_map.png" in printed


def test_gradients_may_be_left_as_they_are(tmp_path: Path) -> None:
    one = ["--gammas", "0.8", "--weight-decays", "0", "-q"]
    for clip, kept in (("inf", None), ("0.5", 0.5)):
        cli.main(command(tmp_path / clip, *one, "--clip", clip))
        assert ic.PhaseDiagram.load(tmp_path / clip).config["clip"] == kept
    runs = [(tmp_path / clip / "history.csv").read_text() for clip in ("inf", "0.5")]
    assert runs[0] != runs[1]


def test_a_grid_grows_by_what_is_missing(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def counted(configs: list[dict[str, object]], folders: list[Path]) -> None:
        calls.append(len(configs))
        train(configs, folders)

    monkeypatch.setattr("interp_compose.studies.anchors.run.train", counted)
    cli.main(command(tmp_path, "-q", "--gammas", "0.4"))
    assert sum(calls) == 2
    cli.main(command(tmp_path, "-q"))
    assert sum(calls) == 4
    assert (tmp_path / "runs.csv").read_bytes() == (finished / "runs.csv").read_bytes()


@pytest.mark.parametrize("paper", PRESETS)
def test_the_papers_settings_can_be_trained(paper: str) -> None:
    preset = PRESETS[paper]
    preset.run.check()
    assert 0.8 in preset.init_rates
    assert preset.run.batch_size == 2048


def test_a_smaller_grid_does_not_replace_the_tables(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / "runs.csv").read_bytes()
    for option, lost in (("--gammas", "init_rates 0.8"), ("--first-seed", "seeds 0")):
        with pytest.raises(SystemExit):
            cli.main(command(finished, option, "0.4" if option == "--gammas" else "1"))
        assert f"{lost}, which this one lacks" in capsys.readouterr().err
    assert (finished / "runs.csv").read_bytes() == before


def test_a_grid_that_diverged_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command(tmp_path, "--lr", "1e30", "--gammas", "0.8", "--weight-decays", "0.01"))
    diagram = ic.PhaseDiagram.load(tmp_path)
    assert diagram.frame["finite"].tolist() == [False]
    assert diagram.circuits.empty
    assert (tmp_path / "phase_map.png").exists()
    assert not (tmp_path / "phase_curve.png").exists()
    assert "1 diverged" in capsys.readouterr().out
