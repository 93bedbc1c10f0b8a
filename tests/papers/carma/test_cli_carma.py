"""``interp-compose carma`` from outside: files, numbers, messages, exit statuses."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import OptionError
from interp_compose.papers.carma import measure as carma_measure
from interp_compose.papers.carma.plan import carma_of, limited, training_of
from interp_compose.runs.files import json_bytes
from interp_compose.studies.core import output as run_folder
from interp_compose.tasks.task import Task
from interp_compose.types import Example
from tests.papers.carma.studies.carma_runs import (
    assert_same,
    counted,
    dies_at_step,
    nothing_runs,
)

SMALL = [
    *("--model", "mini-base", "--task", "mini-sst", "--device", "cpu", "--seeds", "2"),
    *("--limit", "12", "--max-steps", "2", "--epochs", "1", "--batch-size", "8"),
    *("--layers", "0", "1.0", "--rates", "0.25"),
]


def command(out: Path, *more: str) -> list[str]:
    return ["carma", *SMALL, "--out", str(out), *more]


@dataclass(frozen=True)
class Ran:
    out: Path
    printed: str
    bars: str


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of the command, as a user sees it."""
    out = tmp_path_factory.mktemp("carma") / "out"
    printed, bars = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(bars):
        cli.main(command(out))
    return Ran(out, printed.getvalue(), bars.getvalue())


def test_what_is_printed(ran: Ran) -> None:
    lines = ran.printed.splitlines()
    told = "at most 12 of each split, drawn at random with seed 42"
    assert lines[0] == f"model mini-base · task mini-sst, {told} · 2 seeds"
    assert sum(line.startswith("CAP at layer") for line in lines) == 2
    assert (
        "! 2 of 2 ft runs had visibly not converged: 2 steps are too few to come to rest." in lines
    )
    assert lines[-1].startswith(f"written to {ran.out}/: report.html, runs/ (weights and history")
    table = [line for line in lines if re.match(r"(accuracy|CAP|ConsistSyn|CV)", line)]
    assert max(map(len, table)) < 120


def test_bars_say_what_is_going_on(ran: Ran) -> None:
    for text in ("2/5 ft, seed 0: ", "5/5 carma, seed 1: ", "cap mini-base: ", "MI=", "stab="):
        assert text in ran.bars
    assert "\x1b" not in ran.bars  # no bar around another: their rests would stay


def test_options_reach_the_study(ran: Ran) -> None:
    config = ic.carma.Comparison.load(ran.out).config
    assert (config["seeds"], config["rates"], config["layers"]) == ([0, 1], [0.25], [0, 3])
    assert (config["n_train"], config["n_validation"], config["n_test"]) == (12, 12, 12)
    assert config["total_steps"] == 2
    assert config["train"]["batch_size"] == 8
    given = parsed("--weight 0.3 --mi-weight 0 --carma-layers 1 2 --stability-layers 2 3")
    expected = ic.CarmaConfig(
        weight=0.3, mi_weight=0.0, layers=(1, 2), stability_layers=(2, 3), negatives="all"
    )
    assert carma_of(given) == expected
    assert carma_of(parsed("")) == ic.CarmaConfig()
    given = parsed("--lr 0.5 --patience 3 --schedule linear --precision bfloat16")
    trained = training_of(given, 3_000_000)
    assert (trained.lr, trained.patience, trained.schedule) == (0.5, 3, "linear")
    assert (trained.precision, trained.epochs) == ("bfloat16", 8)


def parsed(options: str) -> Any:
    return cli._parsed(["carma", *options.split()])


def test_the_papers_settings_and_what_is_said_over_them() -> None:
    found = carma_of(parsed("--model meta-llama/Llama-3.2-3B --task idm --paper"))
    assert (found.weight, found.layers, found.stability_layers) == (0.5, (1, 12), (1, 8))
    found = carma_of(parsed("--model gpt2 --task sst --paper --weight 0.1"))
    assert (found.weight, found.layers) == (0.1, (1, 4))


def test_the_papers_batch_size_and_epochs_and_what_is_said_over_them() -> None:
    found = training_of(parsed("--model meta-llama/Llama-3.2-3B --task idm --paper"), 10**9)
    assert (found.batch_size, found.epochs, found.lr, found.schedule) == (32, 3, 6e-5, "linear")
    given = parsed("--model gpt2 --task sst --paper --batch-size 8 --lr 0.006")
    found = training_of(given, 10**9)
    assert (found.batch_size, found.epochs, found.lr) == (8, 2, 0.006)


def test_the_defaults_that_help_states_are_those_of_the_configs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["carma", "--help"])
    text = " ".join(re.sub("[│╭╰─╯╮]", " ", capsys.readouterr().out).split())
    carma, large, small = ic.CarmaConfig(), ic.TrainConfig(), ic.TrainConfig.suggested(1000)
    for name in ("weight", "mi_weight", "stability_weight", "temperature", "negatives"):
        shown = rf"--{name.replace('_', '-')} [^-].*?\(default: {getattr(carma, name)}\)"
        assert re.search(shown, text), name
    for name in ("lr", "epochs", "batch_size", "schedule"):
        both = f"(default: {getattr(large, name)}, or {getattr(small, name)} under 10 M parameters)"
        assert both.replace("0.001", "1e-3").replace("6e-05", "6e-5") in text, name
    for name in ("accumulate", "precision"):
        assert f"(default: {getattr(large, name)})" in text


# ---- again, in a folder that is not empty -----------------------------------------------------


@pytest.fixture
def small_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a figure looks like is tested with figures; here its name is enough."""
    monkeypatch.setattr(run_folder, "picture_bytes", lambda figure: b"drawn")
    monkeypatch.setattr(
        run_folder, "page_files", lambda figures: {f"{name}.html": b"drawn" for name in figures}
    )
    monkeypatch.setattr(run_folder, "report_page", lambda *result: "a page")


@pytest.fixture
def out(ran: Ran, tmp_path: Path) -> Path:
    shutil.copytree(ran.out, tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.usefixtures("small_figures")
def test_again_reads_what_is_there(out: Path, ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "report.html").unlink()
    shutil.rmtree(out / "runs")  # the result alone is enough
    with nothing_runs():
        cli.main(command(out))
    assert capsys.readouterr().out == ran.printed.replace(str(ran.out), str(out))
    assert (out / "report.html").exists()


def interrupt_writing(out: Path) -> None:
    """What is left where the writing of the result was interrupted before it was complete."""
    about = json.loads((out / "manifest.json").read_text())
    writing = {name: [sha] for name, sha in about["files"].items()}
    left = {"format": about["format"], "writing": writing}
    (out / "manifest.json").write_bytes(json_bytes(left))


@pytest.mark.usefixtures("small_figures")
def test_runs_alone_are_enough_as_well(out: Path, ran: Ran) -> None:
    interrupt_writing(out)
    with nothing_runs():
        cli.main(command(out, "-q"))
    assert_same(ic.carma.Comparison.load(out), ic.carma.Comparison.load(ran.out))


@pytest.mark.usefixtures("small_figures")
def test_an_interrupted_run_exits_with_130_prints_nothing_and_goes_on(
    ran: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = [*command(tmp_path, "-q"), "--seeds", "1"]
    with dies_at_step(4), pytest.raises(SystemExit) as stopped:
        cli.main(once)
    assert stopped.value.code == 130
    assert "Run the same command again" in capsys.readouterr().err
    assert not (tmp_path / "manifest.json").exists()
    with counted() as trained:
        cli.main(once)
    assert capsys.readouterr() == ("", "")
    assert trained == ["carma, seed 0"]
    found = ic.carma.Comparison.load(tmp_path).frames["history"].drop(columns="version")
    whole = ic.carma.Comparison.load(ran.out).frames["history"].query("seed == 0")
    pd.testing.assert_frame_equal(found, whole.drop(columns="version").reset_index(drop=True))


# ---- bad input ----------------------------------------------------------------------------------


def test_a_limit_draws_at_random_whatever_order_the_data_has() -> None:
    examples = tuple(Example(f"{i} is", " even" if i % 2 == 0 else " odd") for i in range(90))
    sorted_by_label = tuple(sorted(examples, key=lambda one: one.answer))
    task = Task("mine", "{}", sorted_by_label, sorted_by_label[:5], sorted_by_label, {})
    found = limited(task, 30, 42)
    assert len({one.prompt for one in found.train}) == 30
    assert {one.answer for one in found.train} == {" even", " odd"}
    assert found.validation == task.validation  # fewer than the limit: all, in their order
    assert limited(task, 30, 42) == found
    assert limited(task, 30, 43) != found
    assert limited(task, None, 42) == task


def test_a_papers_name_on_a_model_of_another_depth_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carma_measure, "loaded", lambda source: Depth())
    with pytest.raises(OptionError, match="'gpt2' has 4 layers here and 12 in the paper"):
        carma_measure.run(parsed(f"--model gpt2 --task idm --paper --out {tmp_path}"))


class Depth:
    """A model, as far as it is looked at before it is refused."""

    n_layers = 4
