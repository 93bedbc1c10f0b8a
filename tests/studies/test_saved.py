"""Saved results drawn again, and several of one study side by side: by the commands."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import InputError
from interp_compose.plots.chart import Chart
from interp_compose.plots.export import SCRIPT, page_files
from interp_compose.runs.result import Result
from interp_compose.studies.core.text import unlike
from interp_compose.studies.saved import compare, plot
from interp_compose.studies.saved.compare import compared_figures, differing, joined
from interp_compose.studies.saved.read import load_result
from tests.studies.test_cap_curve_result import make_curve
from tests.studies.test_transplant import result as transplanted


@pytest.fixture
def curves(tmp_path: Path) -> list[Path]:
    """Curves of one model's name and two others' numbers."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for seed, folder in enumerate(folders):
        make_curve(seed=seed).save(folder)
    return folders


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(argv))
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_saved_result_is_drawn_again_into_its_folder(
    curves: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = curves[0]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    argv = ["plot", str(folder), "--format", "svg", "pdf", "--width", "column"]
    cli.main(argv)
    assert "cap_curve.svg, cap_curve.pdf" in capsys.readouterr().out
    root = ElementTree.parse(folder / "cap_curve.svg").getroot()
    assert float(root.attrib["width"].removesuffix("pt")) <= 3.25 * 72
    drawn = (folder / "cap_curve.svg").read_bytes()
    assert drawn == _saved(make_curve(seed=0), folder.parent / "f.svg", "column")
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name: after[name] for name in before if name != "manifest.json"} == {
        name: data for name, data in before.items() if name != "manifest.json"
    }
    named = set(json.loads(after["manifest.json"])["files"])
    assert named == set(after) - {"manifest.json"}
    cli.main(argv)  # again: the same bytes under names that it knows
    assert (folder / "cap_curve.svg").read_bytes() == drawn
    assert ic.CapCurve.load(folder).frame.equals(make_curve(seed=0).frame)


def _saved(curve: ic.CapCurve, path: Path, width: float | str) -> bytes:
    return curve.plot().save(path, width=width).read_bytes()


def test_what_cannot_be_drawn_is_refused(
    curves: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(curves[0])
    assert "expected column, page or a number" in refused(capsys, "plot", folder, "--width", "a4")
    assert "expected 'column'" in refused(capsys, "plot", folder, "--width", "99")
    assert "no result" in refused(capsys, "plot", str(curves[0].parent / "three"))
    (curves[0] / "cap_curve.pdf").write_text("mine")
    assert "cap_curve.pdf, which no run" in refused(capsys, "plot", folder)
    assert (curves[0] / "cap_curve.pdf").read_text() == "mine"
    cli.main(["plot", folder, "--overwrite"])
    assert (curves[0] / "cap_curve.pdf").read_bytes().startswith(b"%PDF")
    bare = curves[0].parent / "bare"
    Result({}, {"a": pd.DataFrame({"b": [1]})}, {}).save(bare)
    assert "tables that are no study's result" in refused(capsys, "plot", str(bare))


def test_results_keep_their_figures_where_asked(tmp_path: Path) -> None:
    curve = make_curve()
    curve.save(tmp_path / "plain")
    curve.save(tmp_path / "drawn", figures=True)
    names = {path.name for path in (tmp_path / "drawn").iterdir()}
    more = names - {path.name for path in (tmp_path / "plain").iterdir()}
    assert more == {"cap_curve.html", "cap_curve.png", "report.html", SCRIPT}
    for name, data in page_files(curve.figures()).items():
        assert (tmp_path / "drawn" / name).read_bytes() == data
    written = (tmp_path / "drawn" / SCRIPT).stat().st_mtime_ns
    cli.main(["plot", str(tmp_path / "drawn"), "--format", "html"])
    curve.save(tmp_path / "drawn", figures=True)
    assert (tmp_path / "drawn" / SCRIPT).stat().st_mtime_ns == written  # once
    curve.save(tmp_path / "drawn")
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == names


def test_another_script_of_that_name_is_refused(
    curves: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (curves[0] / SCRIPT).write_text("another")
    assert f"has {SCRIPT}, which no run" in refused(
        capsys, "plot", str(curves[0]), "--format", "html"
    )
    assert not (curves[0] / "cap_curve.html").exists()


def test_a_panel_for_each_line_and_a_line_for_each_result(
    curves: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "both"
    argv = ["compare", *map(str, curves), "--out", str(out)]
    cli.main(argv)
    told = capsys.readouterr().out
    assert "one\n" in told
    assert "compare.html, cap_curve.html, cap_curve.png" in told
    results = compare.labelled(curves, ())
    page = html.unescape((out / "compare.html").read_text(encoding="utf-8"))
    assert results["two"].notes
    assert all(f"! {label}: {note}" in page for label, one in results.items() for note in one.notes)
    assert list(results) == ["one", "two"]  # the models' names are the same
    (figure,) = compared_figures(results).values()
    chart = figure.chart
    assert isinstance(chart, Chart)
    frame = results["two"].frames["curve"]
    assert [panel.title.removesuffix(" (control)") for panel in chart.panels] == list(
        dict.fromkeys(frame["pooling"])
    )
    for panel in chart.panels:
        assert [line.label for line in panel.lines] == ["one", "two"]
        rows = frame[frame["pooling"] == panel.title.removesuffix(" (control)")]
        assert list(panel.lines[1].y) == rows["accuracy"].tolist()
        levels = [one.clean["correct"].mean() for one in results.values()]
        assert [level.y for level in panel.levels] == levels
    kept = Result.load(out)
    pd.testing.assert_frame_equal(kept.frames["compared"], joined(results))
    pairs = kept.frames["differences"]
    assert set(zip(pairs["first"], pairs["second"], strict=True)) == {("one", "two")}
    assert "p_holm" in pairs
    assert set(pairs["pooling"]) >= {"clean", "mean"}
    assert "differences (.parquet, .csv)" in told
    assert "one minus two, paired by example, in points" in told
    clean = next(line for line in told.splitlines() if line.startswith("clean  "))
    assert clean.split()[1] == "+0.00"
    assert kept.frames["compared"]["result"].value_counts().to_dict() == {
        "one": len(frame), "two": len(frame),
    }  # fmt: skip
    with pytest.raises(InputError, match=r"no study's result .*read them with pandas"):
        load_result(out)
    page = (out / "compare.html").read_text()
    assert "<h1>CAP compared: one, two</h1>" in page
    assert "What constituent-aware pooling does to a model" in page
    assert "2 results compared: one, two" in page
    assert page.count("<figure>") == 1
    assert (out / SCRIPT).is_file()
    cli.main(argv)  # again, into its own folder
    assert "holds a different result" in refused(capsys, *argv, "--labels", "a", "b")


def test_settings_that_differ_are_named(curves: list[Path]) -> None:
    one, two = (load_result(folder) for folder in curves)
    assert differing({"one": one, "two": two}) == {}
    changed = type(two)({**two.config, "unit": "token", "new": 1}, two.frames, two.versions)
    found = differing({"one": one, "two": changed})
    assert found["new"] == {"one": None, "two": 1}
    assert found["unit"]["two"] == "token"
    assert set(found) == {"new", "unit"}


def test_figures_and_notes_name_settings_that_differ(curves: list[Path], tmp_path: Path) -> None:
    one, two = (load_result(folder) for folder in curves)
    other = replace(two, config={**two.config, "unit": "token"})
    (figure,) = compared_figures({"one": one, "two": other}).values()
    told = f"settings differ: unit {one.config['unit']} (one), token (two)"
    assert told in figure.chart.subtitle
    assert compare.paired({"one": one, "two": other})[1] == [f"! {told}"]


def test_what_cannot_be_compared_is_refused(
    curves: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = map(str, curves)
    assert "name two or more" in refused(capsys, "compare", one)
    assert "expected each folder once" in refused(capsys, "compare", one, one)
    assert "expected 2 labels" in refused(capsys, "compare", one, two, "--labels", "a")
    assert "no two alike" in refused(capsys, "compare", one, two, "--labels", "a", "a")
    transplanted().save(tmp_path / "moved")
    told = refused(capsys, "compare", one, str(tmp_path / "moved"))
    moved = f"{tmp_path / 'moved'} is of transplant: only results of one study can be compared"
    assert f"InputError: {one} is of cap, {moved}" in told


def test_numbers_of_examples_that_differ_are_told() -> None:
    a, b = make_curve().plot().chart, make_curve().plot().chart
    assert isinstance(a, Chart)
    assert isinstance(b, Chart)
    few = [replace(line, n=[3] * len(line.n)) for line in b.panels[0].lines]
    found = compare.facets({"a": a, "b": replace(b, panels=[replace(b.panels[0], lines=few)])})
    assert found is not None
    n = a.panels[0].lines[0].n[0]
    assert f" · n: {n} of a, 3 of b · " in found.subtitle
    assert found.subtitle.endswith("dotted: the clean model of each result, in its colour")


def test_heat_maps_and_charts_of_other_axes_are_left_out() -> None:
    a, b = make_curve().plot(), make_curve().plot(normalised_depth=True)
    assert compare.facets({"a": a.chart, "b": b.chart}) is None
    assert compare.facets({"a": a.chart}) is None


@pytest.mark.parametrize("text", [None, "column", "page", "5.5"])
def test_widths_of_the_command_line(text: str | None) -> None:
    assert plot.width_of(text) == (5.5 if text == "5.5" else text)


def test_other_examples_units_pairs_and_taggers_are_named_whatever_the_models() -> None:
    """Each model reads its own tokens, so that their digests say nothing of two models."""

    def result(tokens: list[tuple[str, int]], **config: Any) -> Result:
        rows = [
            {"example": 0, "position": i, "text": text, "unit": unit}
            for i, (text, unit) in enumerate(tokens)
        ]
        clean = pd.DataFrame([{"prompt": "a red fox", "answer": " x"}])
        frames = {"clean": clean, "tokens": pd.DataFrame(rows)}
        return Result(config={"examples_sha256": str(tokens), **config}, frames=frames, versions={})

    one = result([("<s>", -1), ("a", 0), (" red", 1), (" fox", 1)], model="one")
    same = result([("a", 0), ("r", 1), ("ed", 1), ("fox", 1)], model="two")
    other = result([("a", 0), (" red", 0), (" fox", 1)], model="two")
    read = result([("A", 0), (" red", 0), (" fox", 1)], model="two")  # another text: no telling
    assert unlike({"a": one, "b": same}) == unlike({"a": one, "b": read}) == ""
    assert unlike({"a": one, "b": other}) == "settings differ: the examples' units"
    columns = ["source", "source_phrase", "target", "target_phrase", "expected", "answer"]
    for name, kept in (("pairs", columns), ("clean", ["text1", "text2", "target"])):
        first, second = (
            Result(
                config={"pairs_sha256": text, "model": text},
                frames={name: pd.DataFrame([dict.fromkeys(kept, text)])},
                versions={},
            )
            for text in ("x", "y")
        )
        assert unlike({"a": first, "b": second}) == "settings differ: the examples"
    mine = result([("a", 0)], tagger="make.<locals>.tagger()")
    assert "'make.<locals>.tagger()' is another function in each" in unlike({"a": mine, "b": mine})
    theirs = result([("a", 0)], tagger="en_core_web_sm 3.7.1")
    assert unlike({"a": theirs, "b": theirs}) == ""
