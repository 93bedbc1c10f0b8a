"""``interp-compose phases`` from outside: files, messages, exit statuses."""

from __future__ import annotations

import re
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


def test_tables_figures_and_runs_are_written(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diagram = ic.PhaseDiagram.load(finished)
    assert len(diagram.frame) == 4
    assert diagram.history.groupby(["init_rate", "weight_decay"])["step"].max().eq(6).all()
    for name in FIGURES:
        assert (finished / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        html = (finished / f"{name}.html").read_text(encoding="utf-8")
        assert not re.search(r"<(script|link)[^>]+(src|href)=", html)  # nothing from elsewhere
    states = ic.sweep_status(finished)
    assert states["state"].eq("done").all()
    model = ic.load_model(finished / "runs" / states["hash"][0] / "model")
    assert model.n_layers == 2


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


def test_another_setting_is_refused_before_work(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(command(finished, "--steps", "7"))
    assert stopped.value.code == 2
    assert "steps was 6, is now 7" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gammas", "0.4,0.4"], "init_rates holds 0.4 twice"),
        (["--gammas", "0.4:x:0.1"], "gammas='0.4:x:0.1'"),
        (["--gammas", "50"], "an init rate of 50"),
        (["--weight-decays", "-1"], "weight_decays holds -1"),
        (["--seeds", "0"], "seeds=0"),
        (["--n-heads", "3"], "n_heads=3"),
        (["--workers", "2"], "workers=2 with where='here'"),
    ],
)
def test_bad_input_exits_with_2_and_trains_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([*command(tmp_path / "out"), *options])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "runs").exists()


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
