"""Every notebook runs from top to bottom in a fresh kernel, offline, and stays small."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import nbformat
import pytest

from docs.notebooks import NOTEBOOKS, executed

MOST_BYTES = 1_000_000  # of outputs after a run
MOST_COMMITTED = 300_000  # of the file in the repository


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_there_is_a_notebook_for_each_study() -> None:
    assert [path.name for path in NOTEBOOKS] == ["01_cap_curves.ipynb"]


def test_it_runs_and_stays_small(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    notebook = executed(path, tmp_path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("application/vnd.plotly.v1+json" in one.get("data", {}) for one in outputs)
    assert len(json.dumps(outputs)) < MOST_BYTES


def test_it_imports_nothing_but_the_package(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    imported: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module))
    assert imported == {"interp_compose"}


def test_it_is_fit_for_the_repository(path: Path) -> None:
    assert path.stat().st_size < MOST_COMMITTED
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert not [out for out in outputs if out.output_type == "error" or out.get("name") == "stderr"]
