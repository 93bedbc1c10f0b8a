"""``interp-compose phases`` and ``speed``: grids that grow, and runs that are not done again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interp_compose as ic
from interp_compose import cli
from interp_compose.papers.complexity.studies.anchors.run import train
from tests.studies.conftest import few_outputs

TINY = "--d-model 16 --samples 150 --steps 6 --gammas 0.4,0.8 --seeds 1 --where here"
GRIDS = {
    "phases": f"{TINY} --d-mlp 20 --weight-decays 0.01,1",
    "speed": f"{TINY} --depths 1 --violations 0,1",
}
SMALLER = {
    "phases": {"--gammas 0.4": "init_rates 0.8", "--first-seed 1": "seeds 0"},
    "speed": {"--depths 2": "depths 1", "--violations 1": "violations 0"},
}
"""Options that leave out a value, and which."""
TRAIN = {
    "phases": "interp_compose.papers.complexity.studies.anchors.run.train",
    "speed": "interp_compose.papers.complexity.studies.fitting_speed.measure.train",
}


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with few_outputs():
        yield


def run(name: str, out: Path, more: str = "-q") -> None:
    cli.main([name, "--out", str(out), *GRIDS[name].split(), *more.split()])


@pytest.fixture(scope="module", params=GRIDS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp(request.param)
    run(request.param, out)
    return request.param, out


def test_again_trains_nothing(finished: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a run was done again")

    name, out = finished
    monkeypatch.setattr(TRAIN[name], never)
    before = (out / "runs.csv").read_bytes()
    run(name, out)
    assert (out / "runs.csv").read_bytes() == before


def test_a_smaller_grid_does_not_replace_the_tables(
    finished: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    name, out = finished
    before = (out / "runs.csv").read_bytes()
    for options, lost in SMALLER[name].items():
        with pytest.raises(SystemExit) as stopped:
            run(name, out, options)
        assert stopped.value.code == 2
        assert f"{lost}, which this one lacks" in capsys.readouterr().err
    other = "speed" if name == "phases" else "phases"
    with pytest.raises(SystemExit):
        run(other, out)
    assert f'study was "{name}", is now "{other}' in capsys.readouterr().err
    assert (out / "runs.csv").read_bytes() == before


@pytest.mark.parametrize("finished", ["phases"], indirect=True)
def test_a_grid_grows_by_what_is_missing(
    finished: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def counted(configs: list[dict[str, object]], folders: list[Path]) -> None:
        calls.append(len(configs))
        train(configs, folders)

    monkeypatch.setattr(TRAIN["phases"], counted)
    run("phases", tmp_path, "-q --gammas 0.4")
    assert sum(calls) == 2
    run("phases", tmp_path)
    assert sum(calls) == 4
    assert (tmp_path / "runs.csv").read_bytes() == (finished[1] / "runs.csv").read_bytes()


def test_gradients_may_be_left_as_they_are(tmp_path: Path) -> None:
    for clip, kept in (("inf", None), ("0.5", 0.5)):
        run("phases", tmp_path / clip, f"-q --gammas 0.8 --weight-decays 0 --clip {clip}")
        assert ic.complexity.PhaseDiagram.load(tmp_path / clip).config["clip"] == kept
    runs = [(tmp_path / clip / "history.csv").read_text() for clip in ("inf", "0.5")]
    assert runs[0] != runs[1]


def test_a_grid_that_diverged_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("phases", tmp_path, "--lr 1e30 --gammas 0.8 --weight-decays 0.01")
    diagram = ic.complexity.PhaseDiagram.load(tmp_path)
    assert diagram.frame["finite"].tolist() == [False]
    assert diagram.circuits.empty
    assert (tmp_path / "phase_map.png").exists()
    assert not (tmp_path / "phase_curve.png").exists()
    assert "1 diverged" in capsys.readouterr().out
