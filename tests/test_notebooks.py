"""Every notebook runs from top to bottom in a fresh kernel, offline, and stays small."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from docs import notebooks
from docs.notebooks import NOTEBOOKS, PLOTLY, SHOWS, data_of, executed, is_passing
from interp_compose.plots.chart import Chart, Line, Panel
from interp_compose.plots.interactive import draw
from interp_compose.plots.theme import BLUE, Style
from tests.marian_files import write, write_pieces

MOST_BYTES = 1_000_000  # of outputs after a run
MOST_COMMITTED = 500_000  # of the file in the repository
LOADED = 'ic.load_task("mini-idm", model)'
FEWER = """
splits = [rows[:60] for rows in (task.train, task.validation, task.test)]
task = type(task)(task.name, task.template, *splits, task.report)
"""
SHORTER = {  # they compute for a minute and more; here the same calls do so for seconds
    "01_cap_curves.ipynb": {
        "model.generate(texts, max_new_tokens=60)": '["um cão", "um gato"] * 4',
        "in zip(texts, translations)": "in zip(texts[:8], translations)",
        "range(7)": "range(4)",
        "model.generate(list(phrases), max_new_tokens=40)": '["um cão"] * len(phrases)',
    },
    "02_carma.ipynb": {
        LOADED: LOADED + FEWER,
        "max_steps=40": "max_steps=2",
        "epochs=3": "max_steps=4",
        "seeds=2": "seeds=1",
    },
    "03_phases.ipynb": {
        "seeds=1": 'seeds=1, run=ic.complexity.PhaseRun(steps=30), where="here"',
        "[0.5, 0.8]": "[0.8]",
    },
    "04_circuits.ipynb": {
        "task.test[:200]": "task.test[:40]",
        "n_layer=6, n_head=6, n_embd=192": "n_layer=2, n_head=2, n_embd=64",
        "vocab_size=5000": "vocab_size=500",
        "randint(0, 5000": "randint(0, 500",
    },
    "06_generalise.ipynb": {
        '"scan", seeds=1': '"scan", seeds=1, where="here"',
        "epochs=20": "max_steps=3, n_looks=1, n_curve=20",
        "scan-length-8": "scan-length-2",
        "[:60]": "[:5]",
    },
    "07_rule_or_cases.ipynb": {
        "seeds=1": 'seeds=1, where="here"',
        "epochs=100": "max_steps=2, n_looks=1, n_curve=20",
        "epochs=5": "samples=8, channels=(2,), max_steps=2, sample_steps=1",
        "n_images=20": "n_images=1",
        "[:200]": "[:5]",
    },
    "08_codes.ipynb": {"max_steps=40": "max_steps=2"},
    "09_audit_and_transplants.ipynb": {"pairs[:300]": "pairs[:40]"},
}
MAKES_DO = {
    "05_human_judgements.ipynb": "no BiRD here: twelve made-up pairs instead",
    "08_codes.ipynb": "no text or sememes here: made-up ones instead",
}
TO_RUN_AGAIN: set[str] = set()
"""Their figures are older than the code: ``python -m docs.notebooks NAME``, and out of here."""
INTERVAL = re.compile(r"  \[%\{customdata\[#\].*?, %\{customdata\[#\].*?\}\]")
STYLES = {"type", "mode", "dash", "symbol", "hovertemplate", "tickformat"}
"""What plotly's figures say of their looks, whatever the data."""
OF_FEW = re.compile("seed|not converged|not fitted|measured on|fewer than|made-up")
"""In subtitles and names: what follows from less data or training than the notebook has, or from
other data."""
ALSO = {
    "04_circuits.ipynb": {"torch", "transformers"},
    "06_generalise.ipynb": {"torch"},
    "07_rule_or_cases.ipynb": {"torch"},
    "08_codes.ipynb": {"gzip", "itertools", "pathlib", "torch"},
    "09_audit_and_transplants.ipynb": {"torch", "transformers"},
}  # tensors, and a shape of one's own


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_there_is_a_notebook_for_each_study() -> None:
    assert [path.name for path in NOTEBOOKS] == [
        "01_cap_curves.ipynb",
        "02_carma.ipynb",
        "03_phases.ipynb",
        "04_circuits.ipynb",
        "05_human_judgements.ipynb",
        "06_generalise.ipynb",
        "07_rule_or_cases.ipynb",
        "08_codes.ipynb",
        "09_audit_and_transplants.ipynb",
    ]


@pytest.mark.docs
def test_it_runs_and_stays_small(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    run = _shortened(path, tmp_path) if path.name in SHORTER else path
    notebook = executed(run, tmp_path, models=_small_models(tmp_path / "models"))
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    outputs = [output for cell in cells for output in cell.outputs]
    assert any(PLOTLY in one.get("data", {}) for one in outputs)
    assert len(json.dumps(outputs)) < MOST_BYTES
    kept = nbformat.read(path, as_version=4)
    news = list(missing(figures(notebook), figures(kept)))
    assert bool(news) == (path.name in TO_RUN_AGAIN), (path.stem, news)
    if path.name in SHOWS:  # not given here, so it has to make do and to say so
        assert MAKES_DO[path.name] in " ".join(_printed(notebook))


def figures(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """The figures that a notebook shows, as Jupyter keeps them."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    shown = [out.get("data", {}) for out in outputs]
    return [data for data in shown if data.get("text/plain", "").startswith("figure: ")]


def missing(drawn: Any, kept: Any) -> Iterator[tuple[int, list[str]]]:
    """The number of each figure that is drawn now with a look that the kept one has not, and what.

    A run on fewer data shows less, but nothing that the kept figure has not. Compared are
    plotly's template, kinds and styles of traces, titles, subtitles, axes' titles and names, each
    number as "#"; fewer data may have no intervals. A figure that is kept as a picture has its
    title and subtitle alone.
    """
    for number, (new, old) in enumerate(zip(drawn, kept, strict=True)):
        both = [PLOTLY] if PLOTLY in old else []
        now, then = ({*_look([data[kind] for kind in both])} for data in (new, old))
        then |= {INTERVAL.sub("", look) for look in then}
        told = {*_told(new["text/plain"])} - {*_told(old["text/plain"])}
        if found := sorted(told | now - then):
            yield number, found


def _look(value: Any, place: str = "") -> Iterator[str]:
    if place.endswith(".template"):
        yield json.dumps(value, sort_keys=True)
    elif isinstance(value, list):
        for one in value:
            yield from _look(one, place)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _look(one, f"{place}.{re.sub('[0-9]', '', key)}")
    elif isinstance(value, str):
        is_word = place.endswith((".title.text", ".name")) and not OF_FEW.search(value)
        if is_word or place.rpartition(".")[2] in STYLES:
            yield f"{place} {_numberless(value)}"


def _told(text: str) -> list[str]:
    """The parts of a figure's title and subtitle."""
    return [_numberless(part) for part in re.split(r" · |; |\. ", text) if not OF_FEW.search(part)]


def _numberless(text: str) -> str:
    return re.sub(r"\d+([.,]\d+)*", "#", text)


def test_a_figure_that_is_older_than_its_code_is_noticed() -> None:
    """One that is drawn here, with fewer data, with other words, and with another style."""

    def shown(title: str = "t 4", n: int = 3, **style: Any) -> dict[str, Any]:
        line = Line("mean", Style(BLUE, "circle", **style), *([[0.1] * n] * 4), [n] * n)
        chart = Chart(title, f"task a · {n} examples", "layer", "right", [Panel([line], [])])
        return draw(chart)._repr_mimebundle_()

    kept = shown()
    assert list(missing([shown("t 50", n=2)], [kept])) == []
    assert list(missing([shown("u 4")], [kept])) == [(0, [".layout.title.text u #", "figure: u #"])]
    assert [len(found) for _, found in missing([shown(dash="dot")], [kept])] == [1]
    picture = {"text/plain": kept["text/plain"]}
    assert list(missing([shown()], [picture])) == []
    assert list(missing([shown("u 4")], [picture])) == [(0, ["figure: u #"])]
    kept[PLOTLY]["layout"]["template"]["layout"]["title"]["xref"] = "paper"
    assert len(list(missing([shown()], [kept]))) == 1


def test_it_imports_nothing_but_the_package(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    imported: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module))
    packages = {name.split(".")[0] for name in imported}
    assert packages == {"interp_compose"} | ALSO.get(path.name, set())


def test_it_is_fit_for_the_repository(path: Path) -> None:
    assert path.stat().st_size < MOST_COMMITTED
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert not [out for out in outputs if out.output_type == "error" or is_passing(out)]


def test_what_is_shown_of_human_judgements_is_the_real_run() -> None:
    path = _named("05_human_judgements.ipynb")
    shown = " ".join(_printed(nbformat.read(path, as_version=4)))
    assert "all: 1627 pairs" in shown, "run: python -m docs.notebooks (with the data)"
    assert "mirror: 410 pairs" in shown
    assert "made-up" not in shown


def test_public_data_is_looked_for_where_the_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgements, cap = _named("05_human_judgements.ipynb"), _named("01_cap_curves.ipynb")
    monkeypatch.delenv("INTERP_COMPOSE_TEST_DATA", raising=False)
    assert data_of(judgements) == []
    monkeypatch.setenv("INTERP_COMPOSE_TEST_DATA", str(tmp_path))
    assert data_of(judgements) == []
    (tmp_path / "bird").mkdir()
    assert data_of(judgements) == [tmp_path / "bird"]
    assert data_of(cap) == []


def test_a_notebook_is_left_alone_where_its_data_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("INTERP_COMPOSE_TEST_DATA", raising=False)
    path = _named("05_human_judgements.ipynb")
    before = path.read_bytes()
    for name in (path.name, path.stem):
        notebooks.main([name])
        assert path.read_bytes() == before
        assert capsys.readouterr().out == (
            "05_human_judgements.ipynb: left alone; INTERP_COMPOSE_TEST_DATA has no bird/\n"
        )


def test_a_notebook_is_left_alone_where_its_model_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    path = _named("01_cap_curves.ipynb")
    before = path.read_bytes()
    notebooks.main([path.stem])
    assert path.read_bytes() == before
    assert capsys.readouterr().out == (
        "01_cap_curves.ipynb: left alone; there is no out/models/en-pt\n"
    )


def test_a_name_that_is_no_notebook_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        notebooks.main(["05_human_judgments"])
    assert ended.value.code == 2
    assert "no notebook '05_human_judgments'; expected one of 01_cap" in capsys.readouterr().err


def _small_models(folder: Path) -> Path:
    """Of random weights, under the names that notebooks use; pieces are single characters."""
    pieces = ["</s>", "<unk>", "▁", *(chr(code) for code in range(33, 127)), *"çãé"]
    for name in notebooks.RUNS.values():
        (folder / name).mkdir(parents=True)
        write_pieces(folder / name, pieces)
        write(folder / name / "model.bin", n_pieces=len(pieces))
    return folder


def _shortened(path: Path, folder: Path) -> Path:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for long, short in SHORTER[path.name].items():
        assert any(long in cell.source for cell in code), long
        for cell in code:
            cell.source = cell.source.replace(long, short)
    nbformat.write(notebook, folder / path.name)
    return folder / path.name


def _named(name: str) -> Path:
    return next(path for path in NOTEBOOKS if path.name == name)


def _printed(notebook: nbformat.NotebookNode) -> list[str]:
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    return [out.text for out in outputs if out.output_type == "stream"]
