"""``interp-compose ablate`` from outside: files, messages, exit statuses, interruption."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose import cli
from interp_compose.studies.ablation import measure as ablation_measure
from interp_compose.studies.ablation.options import AblationOptions
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
    given = ["--model", str(folder), "--task", str(data), "--out", str(out), "--device", "cpu"]
    return ["ablate", *given, *more]


def refused(given: list[str], capsys: pytest.CaptureFixture[str], status: int = 2) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(given)
    assert stopped.value.code == status
    return capsys.readouterr().err


def test_a_run_writes_tables_and_figures(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command(inputs, tmp_path, "--layers", "0", "1.0", "--tagger", "kind"))
    printed = capsys.readouterr().out
    assert "clean accuracy" in printed
    assert "what words · reach from · mode exclude" in printed
    assert "ablation_curve.html, ablation_curve.png, ablation_words.html" in printed
    tables = ("curve", "outcomes", "clean", "cells")
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{name}.{kind}" for name in tables for kind in ("csv", "parquet")),
        *(f"ablation_{name}.{kind}" for name in ("curve", "words") for kind in ("html", "png")),
        "result.json",
        "manifest.json",
    }
    curve = ic.AblationCurve.load(tmp_path)
    assert sorted(set(curve.frame["layer"])) == [0, 2]
    assert curve.config["task"] == f"{inputs[1]} (test)"
    assert set(curve.frame["group"]) == {"all words", "content", "function"}
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "curve.csv"), curve.frame)
    for name in ("curve", "words"):
        assert (tmp_path / f"ablation_{name}.png").read_bytes()[:4] == b"\x89PNG"
        html = (tmp_path / f"ablation_{name}.html").read_text(encoding="utf-8")
        assert "Plotly.newPlot" in html
        assert not re.search(r"<(script|link)[^>]+(src|href)=", html)  # nothing from elsewhere


@pytest.mark.parametrize(
    ("what", "figure"), [("heads", "ablation_heads"), ("layers", "ablation_curve")]
)
def test_quiet_prints_nothing(
    inputs: tuple[Path, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    what: str,
    figure: str,
) -> None:
    cli.main(command(inputs, tmp_path, "--what", what, "--layers", "0", "--quiet"))
    assert capfd.readouterr().out == ""
    assert {path.stem for path in tmp_path.glob("*.png")} == {figure}


def test_running_again_ends_in_the_same_result_and_another_run_is_refused(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = command(inputs, tmp_path, "--layers", "0", "-q")
    cli.main(once)
    before = (tmp_path / "outcomes.csv").read_bytes()
    cli.main(once)
    assert (tmp_path / "outcomes.csv").read_bytes() == before
    other = command(inputs, tmp_path, "--what", "mlp", "-q")
    said = refused(other, capsys)
    assert "holds the result of another run:" in said
    assert 'what was "words", is now "mlp"' in said
    assert (tmp_path / "outcomes.csv").read_bytes() == before
    cli.main([*other, "--overwrite"])
    assert ic.AblationCurve.load(tmp_path).config["what"] == "mlp"
    assert {path.stem for path in tmp_path.glob("*.png")} == {"ablation_curve"}  # no words left


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layers", "7"], "LayerError: layer 7 is outside the model"),
        (["--layers", "first"], "Error parsing --layers"),
        (["--limit", "0"], "OptionError: limit=0"),
        (["--device", "tpu9"], "DeviceError: unknown device 'tpu9'"),
        (["--task", "no-such-task"], "no-such-task"),
        (["--model", "no/such-model"], "no model 'no/such-model'"),
        (["--how", "mean"], "OptionError: how='mean' has no meaning for what='words'"),
        (["--tagger", "xx_no"], "MissingDataError: spaCy has no model 'xx_no'"),
        (["--what", "neurons"], "what"),
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
    assert message in refused(command(inputs, out, *options), capsys)
    assert not out.exists()


def test_an_interrupted_run_exits_with_130_and_resumes_to_the_same_result(
    inputs: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = ["--what", "heads", "--how", "resample", "--batch-size", "2", "-q"]
    cli.main(command(inputs, tmp_path / "whole", *options))
    real, calls = ablation_measure._measure, [0]

    def dies(*args: Any, **options: Any) -> pd.DataFrame:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return real(*args, **options)

    broken = tmp_path / "broken"
    with monkeypatch.context() as patch:
        patch.setattr(ablation_measure, "_measure", dies)
        assert "the same command again goes on" in refused(
            command(inputs, broken, *options), capsys, 130
        )
    assert len(list((broken / "batches").glob("*.parquet"))) == 1
    assert not (broken / "manifest.json").exists()
    cli.main(command(inputs, broken, *options))
    for name in ("outcomes.csv", "curve.csv", "clean.csv", "cells.csv"):
        assert (broken / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (broken / "batches").exists()


def test_the_limit_draws_by_the_seed(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    folder, data = inputs

    def prompts(seed: int) -> list[str]:
        out = tmp_path / str(seed)
        options = ["--what", "mlp", "--layers", "0", "--limit", "3", "--seed", str(seed)]
        cli.main(command((folder, data), out, *options))
        drawn: list[str] = ic.AblationCurve.load(out).clean["prompt"].tolist()
        return drawn

    one, other = prompts(1), prompts(2)
    assert len(one) == len(other) == 3
    assert one != other
    every = [f'{text} "' for text in TEXTS]
    assert [every.index(prompt) for prompt in one] == sorted(map(every.index, one))


def test_help_mentions_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["ablate", "--help"])
    assert stopped.value.code == 0
    told = capsys.readouterr().out
    fields = dataclasses.fields(AblationOptions)
    for field in fields:
        named = f"--{field.name.replace('_', '-')} " in told
        assert named == (field.name not in ("progress", "resume"))  # those of the API alone
    for word in ("words", "heads", "layers", "attn", "mlp", "from", "at", "until", "resample"):
        assert word in told
