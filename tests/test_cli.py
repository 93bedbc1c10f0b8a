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

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose import cli
from tests import architectures
from tests.studies.conftest import TEXTS, splitting_tokenizer


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


def test_a_run_writes_table_figures_and_outcomes(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command(inputs, tmp_path, "--layers", "0", "1.0", "--pooling", "mean"))
    printed = capsys.readouterr().out
    assert "clean accuracy" in printed
    assert "shuffled" in printed
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {
        "cap_curve.html",
        "cap_curve.png",
        "curve.csv",
        "curve.parquet",
        "outcomes.csv",
        "outcomes.parquet",
        "clean.parquet",
        "result.json",
        "manifest.json",
    }
    assert "batches" not in names
    curve = ic.CapCurve.load(tmp_path)
    assert sorted(set(curve.frame["layer"])) == [0, 2]
    assert set(curve.frame["pooling"]) == {"mean", "last", "shuffled"}
    assert curve.config["layers"] == [0, 2]
    assert (tmp_path / "cap_curve.png").read_bytes()[:4] == b"\x89PNG"
    html = (tmp_path / "cap_curve.html").read_text(encoding="utf-8")
    assert "Plotly.newPlot" in html
    assert not re.search(r"<(script|link)[^>]+(src|href)=", html)  # nothing from elsewhere


def test_quiet_prints_nothing(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command(inputs, tmp_path, "--layers", "0", "--quiet"))
    assert capsys.readouterr().out == ""


def test_running_again_ends_in_the_same_result_and_another_run_is_refused(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = command(inputs, tmp_path, "--layers", "0", "-q")
    cli.main(once)
    before = (tmp_path / "outcomes.csv").read_bytes()
    cli.main(once)
    assert (tmp_path / "outcomes.csv").read_bytes() == before
    other = command(inputs, tmp_path, "--layers", "1", "-q")
    with pytest.raises(SystemExit) as stopped:
        cli.main(other)
    assert stopped.value.code == 2
    assert "holds the result of another run: layers was [0], is now [1]" in capsys.readouterr().err
    assert (tmp_path / "outcomes.csv").read_bytes() == before
    cli.main([*other, "--overwrite"])
    assert set(ic.CapCurve.load(tmp_path).frame["layer"]) == {1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layers", "7"], "LayerError: layer 7 is outside the model"),
        (["--layers", "first"], "Error parsing --layers"),
        (["--limit", "0"], "OptionError: limit=0"),
        (["--device", "tpu9"], "DeviceError: unknown device 'tpu9'"),
        (["--task", "no-such-task"], "no-such-task"),
        (["--model", "no/such-model"], "no model 'no/such-model'"),
    ],
)
def test_bad_input_exits_with_2_and_writes_nothing(
    inputs: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as stopped:
        cli.main(command(inputs, out, *options))
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_garbled_row_is_named(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"prompt": "x", "answer": "a"}\n{"prompt": 3}\n', encoding="utf-8")
    with pytest.raises(SystemExit):
        cli.main(command((inputs[0], bad), tmp_path / "out"))
    assert "2" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


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
    assert b"the same command again" in errors
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
    assert "the same command again" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
