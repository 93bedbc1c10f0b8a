"""``interp-compose mechanism`` from outside: files, messages, exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import interp_compose as ic
from interp_compose import cli

FIGURES = (
    "masked_key_pca_zero",
    "masked_key_pca_exclude",
    "masked_key_tsne_zero",
    "masked_key_tsne_exclude",
    "masked_second_anchor",
    "neurons",
    "all_neurons",
    "embedding",
    "condensation_and_reasoning",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("phases")
    run = ic.PhaseRun(d_model=16, d_mlp=20, samples=150, steps=4, evaluate_every=2, n_test=40)
    ic.phase_diagram([0.4, 0.8], [0.01], out, seeds=1, run=run, where="here", progress=False)
    return out


def test_tables_and_figures_are_written(
    runs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interp_compose.studies.mechanism.views.TSNE_STEPS", 250)
    command = ["mechanism", "--runs", str(runs), "--gammas", "0.4,0.8", "--out", str(tmp_path)]
    cli.main(command)
    found = ic.Mechanism.load(tmp_path)
    assert found.summary() in capsys.readouterr().out
    for name in FIGURES:
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / f"{name}.html").exists()
    with pytest.raises(SystemExit) as stopped:
        cli.main([*command, "--gammas", "0.4"])
    assert stopped.value.code == 2
    assert "holds the result of another run" in capsys.readouterr().err
    assert ic.Mechanism.load(tmp_path).summary() == found.summary()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gammas", "0.5"], "finished are γ 0.4, 0.8 and weight decays 0.01"),
        (["--gammas", "some"], "'some' is no number"),
        (["--gammas", "0.8", "--seed", "7"], "no finished run of seed 7; of 0"),
        (["--gammas", "0.8", "--weight-decay", "1"], "weight decay 1"),
    ],
)
def test_bad_input_exits_with_2(
    runs: Path, tmp_path: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["mechanism", "--runs", str(runs), "--out", str(tmp_path), *options])
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.glob("*.parquet"))


def test_tables_of_the_diagram_stay(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["mechanism", "--runs", str(runs), "--out", str(runs), "--gammas", "0.8"])
    assert "--out and --runs are both" in capsys.readouterr().err
