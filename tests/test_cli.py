"""The command line from outside: files, messages, exit statuses, interruption."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose import cli
from interp_compose.plots.chart import model_name
from interp_compose.studies.saved.compare import labelled
from interp_compose.studies.saved.read import load_result
from tests import architectures
from tests.studies.conftest import TEXTS, splitting_tokenizer
from tests.studies.similarity_reference import bert_tokenizer, few_samples, tsv


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model's folder and a JSONL file."""
    folder = tmp_path_factory.mktemp("model")
    architectures.build("GPT-2").save_pretrained(folder)
    splitting_tokenizer().save_pretrained(folder)
    rows = [{"prompt": f'{text} "', "answer": "a"} for text in TEXTS]
    data = folder.parent / "rows.jsonl"
    data.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return folder, data


def command(inputs: tuple[Path, Path], out: Path, *more: str) -> list[str]:
    folder, data = inputs
    return ["cap", "--model", str(folder), "--task", str(data), "--out", str(out), *more]


def test_the_version_and_the_module_as_a_command() -> None:
    command = [sys.executable, "-m", "interp_compose", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == f"interp-compose {ic.__version__}\n"


def test_threads_that_wait_do_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the user has set it otherwise."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    cli.main(["--version"])
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    cli.main(["--version"])
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def test_what_is_misspelt_is_asked_back(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["cpa", "--limit", "3"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "interp-compose has no command 'cpa'; did you mean 'cap'?\n"
    with pytest.raises(SystemExit):
        cli.main(["cap", "--modle", "x"])
    error = capsys.readouterr().err
    assert "--model STR" in error
    assert "exclude" not in error  # another command's --mode
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 0
    assert "interp-compose --version" in " ".join(capsys.readouterr().out.split())


def test_help_lists_commands_by_group(capsys: pytest.CaptureFixture[str]) -> None:
    every = [name for names in cli.GROUPS.values() for name in names]
    assert every == [*cli.COMMANDS, *cli.NOT_MEASURING]
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    for group, names in cli.GROUPS.items():
        assert f"- {group}: {', '.join(names)}\n" in text
    places = [text.index(f"• {name} ") for name in every]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--limit ten", "--limit: got 'ten'; expected a whole number"),
        ("--seed 1.5", "--seed: got '1.5'; expected a whole number"),
        ("--layers 0 two", "--layers: got '0 two'; expected numbers"),
    ],
)
def test_what_is_no_number_is_told_in_words(
    given: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["cap", *given.split()])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("cap --layers 0,1 --pooling mean,max -q", "cap --layers 0 1 --pooling mean max -q"),
        ("phases --gammas 0.5 0.8 --seeds 2", "phases --gammas 0.5,0.8 --seeds 2"),
        ("carma --rates 0.25,0.4", "carma --rates 0.25 0.4"),
        ("phases --channels 4,8", "phases --channels 4 8"),
        ("cap --task a,b.jsonl --layers 0.0 1.0", "cap --task a,b.jsonl --layers 0.0 1.0"),
    ],
)
def test_lists_by_commas_and_by_blanks(given: str, read: str) -> None:
    assert cli._lists(given.split()) == read.split()


def test_options_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, other = tmp_path / "a.toml", tmp_path / "b.toml"
    file.write_text(
        'gammas = [0.5, 0.7]\nn_layers = 3\nlr = 3e-4\nout = "there"\nquiet = true\n',
        encoding="utf-8",
    )
    other.write_text('n-layers = 5\nschedule = "constant"\n', encoding="utf-8")
    command = cli._parsed(["text-phases", "--config", str(file), "--lr", "0.1"])
    assert (command.gammas, command.run.n_layers, command.run.lr) == ("0.5,0.7", 3, 0.1)
    assert (command.output.out, command.output.quiet) == (Path("there"), True)
    both = ["--config", str(file), f"--config={other}"]
    of_both = cli._parsed(["text-phases", *both, "--paper"]).run  # before the paper's setting
    assert (of_both.n_layers, of_both.schedule, of_both.d_model) == (5, "constant", 1024)
    for text, message in (("n-layers = ", "expected a TOML file"), ("layer = 3", "--layer")):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit, match="2"):
            cli._parsed(["text-phases", "--config", str(file)])
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli._parsed(["text-phases", "--config", str(tmp_path / "none.toml")])


def test_similarity_has_no_model_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["similarity", "--task", "bird"])
    assert ended.value.code == 2
    assert "--model" in capsys.readouterr().err


def test_a_reader_may_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    there, here = os.pipe()
    os.close(there)
    with os.fdopen(here, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with cli._while_read():
            print("a table")


@pytest.mark.parametrize("asked", [["--help"], ["cap", "--help"], ["--version"]])
def test_help_ends_quietly_where_its_reader_has_left(asked: list[str]) -> None:
    there, here = os.pipe()
    os.close(there)
    with os.fdopen(here, "w") as pipe:
        command = [sys.executable, "-m", "interp_compose", *asked]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("old", "new"), [("complexity", "phases"), ("probe", "weights")])
def test_commands_are_known_by_their_earlier_names(
    old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([old, "--help"])
    printed = capsys.readouterr()
    assert ended.value.code == 0
    assert printed.err == f"`interp-compose {old}` is called `interp-compose {new}` now\n"
    assert f"usage: interp-compose {new}" in printed.out


def test_an_interrupted_run_resumes_to_the_same_result(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, _ = inputs
    data = tmp_path / "many.jsonl"
    rows = [
        {"prompt": f'{TEXTS[i % 5]} {TEXTS[i % 3]} "', "answer": "abcde"[i % 5]} for i in range(60)
    ]
    data.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    options = ["--batch-size", "2"]
    whole = tmp_path / "whole"
    cli.main(command((folder, data), whole, *options, "-q"))

    broken = tmp_path / "broken"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "interp_compose.cli",
            *command((folder, data), broken, *options, "-q"),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if len(list((broken / "batches").glob("*.parquet"))) >= 3:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert b"Run the same command again" in errors
    left = len(list((broken / "batches").glob("*.parquet")))
    assert 3 <= left < 30
    assert not (broken / "manifest.json").exists()

    cli.main(command((folder, data), broken, *options, "-q"))
    pd.testing.assert_frame_equal(
        ic.CapCurve.load(broken).outcomes, ic.CapCurve.load(whole).outcomes
    )
    assert not (broken / "batches").exists()


def test_kill_is_heeded_as_ctrl_c_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def killed(config: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        pytest.fail("nobody heeded it")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(cli, "_run", killed)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["cap", "--out", str(tmp_path)])
    assert stopped.value.code == 130
    told = "Interrupted before anything was saved: the same command begins again."
    assert told in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_options_reach_cap(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--layers", "0", "1.0", "--pooling", "mean", "-q"]
    cli.main(command(inputs, tmp_path, *options, "--name", "tuned, twice"))
    curve = ic.CapCurve.load(tmp_path)
    assert curve.config["model"] == "tuned, twice"
    assert "tuned, twice: accuracy when" in (tmp_path / "cap_curve.html").read_text("utf-8")
    with pytest.raises(SystemExit):
        cli.main(command(inputs, tmp_path / "empty", "--name", " "))
    assert "OptionError: name=' ': expected a word or a few" in capsys.readouterr().err
    assert curve.config["layers"] == [0, 2]
    assert sorted(set(curve.frame["layer"])) == [0, 2]
    assert set(curve.frame["pooling"]) == {"mean", "last", "first", "straddling", "shuffled"}
    out = tmp_path / "among"
    cli.main(command(inputs, out, "--layers", "0", "--answers", "a", "b", "-q"))
    other = ic.CapCurve.load(out).config
    assert other["answers"] == ["a", "b"]
    assert list(labelled([tmp_path, out], ())) == ["tuned, twice", model_name(other)]


def test_the_limit_draws_the_same_examples_by_the_seed_in_each_command(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    def prompts(command_name: str, seed: int) -> list[str]:
        out = tmp_path / f"{command_name}{seed}"
        options = ["--layers", "0", "--limit", "3", "--seed", str(seed), "-q"]
        options += ["--what", "mlp"] if command_name == "ablate" else []
        cli.main([command_name, *command(inputs, out)[1:], *options])
        curve: Any = load_result(out)
        told = f"3 of {len(TEXTS)}, drawn at random with seed {seed}"
        assert told in curve.config["task"]
        assert told in curve.summary().splitlines()[0]
        assert told in next(iter(curve.figures().values())).chart.subtitle
        drawn: list[str] = curve.clean["prompt"].tolist()
        return drawn

    one, other = prompts("ablate", 1), prompts("ablate", 2)
    assert len(one) == len(other) == 3
    assert one != other
    assert prompts("cap", 1) == one
    every = [f'{text} "' for text in TEXTS]
    assert [every.index(prompt) for prompt in one] == sorted(map(every.index, one))


def test_the_limit_of_transplant_draws_by_the_seed(tmp_path: Path) -> None:
    command = ["transplant", "--limit", "3", "--layers", "0", "--no-controls", "-q", "--out"]
    for seed in ("1", "2"):
        cli.main([*command, str(tmp_path / seed), "--seed", seed])
    one, two = (ic.Transplants.load(tmp_path / seed) for seed in ("1", "2"))
    assert re.fullmatch(r"mini-idm, 3 of [\d,]+, drawn at random with seed 1", one.config["task"])
    assert not one.pairs["source"].equals(two.pairs["source"])


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    architectures.build("BERT").save_pretrained(folder)
    bert_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("mirrors", [True, False])
def test_options_reach_similarity(bert: Path, tmp_path: Path, mirrors: bool) -> None:
    data = tsv(tmp_path / "pairs.tsv", mirrors=mirrors)
    lines = data.read_text(encoding="utf-8").splitlines()
    data.write_text("\n".join(line.rpartition("\t")[0] for line in lines), encoding="utf-8")
    given = ["similarity", "--model", str(bert), "--task", str(data), "--out", str(tmp_path / "o")]
    more = ["--unit", "word", "--embedding", "cls", "--no-controls", "--limit", "8", "--seed", "2"]
    with few_samples():
        cli.main([*given, *more, "--pooling", "max", "sum", "--layers", "0", "-q"])
    config = ic.SimilarityCurve.load(tmp_path / "o").config
    wanted = {"unit": "word", "embedding": "cls", "controls": False, "seed": 2}
    wanted |= {"n_pairs": min(8, len(lines) - 1), "pooling": ["max", "sum"]}
    sampled = f", 8 of {len(lines) - 1}, drawn at random with seed 2" if len(lines) > 9 else ""
    wanted["task"] = f"{data} (test{sampled})"
    assert {name: config[name] for name in wanted} == wanted
    third = {"order_sensitivity"} if mirrors else set()
    figures = {path.stem for path in (tmp_path / "o").glob("*.png")}
    assert figures == {"similarity_by_layer", "similarity_curve"} | third
