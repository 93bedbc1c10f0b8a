"""What a study or a way of loading alone needs is an extra, and is refused by name without it."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import interp_compose as ic
from interp_compose.errors import MissingPackageError
from interp_compose.models.marian_file import _settings
from interp_compose.papers.cat.stats.classified import classified
from interp_compose.papers.cat.tasks.labelled import LabelledTask
from interp_compose.papers.complexity.probes.clusters import silhouette
from interp_compose.training.processes import Processes

ROOT = Path(__file__).parents[1]
MODULES = {"sklearn": "scikit-learn", "yaml": "pyyaml", "PIL": "pillow"}
"""Modules that are called otherwise than their distribution."""
BROUGHT = {"huggingface-hub": "transformers", "traitlets": "anywidget", "ipython": "ipywidgets"}
"""Packages that another one requires, of those that are required or extras."""


def settings() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    read = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project: dict[str, Any] = read["project"]
    return project


def name_of(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_what_the_library_imports_is_required_or_an_extra() -> None:
    project = settings()
    extras = project["optional-dependencies"]
    required = {name_of(each) for each in project["dependencies"]}
    listed = [name for name in extras if name not in ("dev", "docs")]
    optional = {name_of(each) for name in listed for each in extras[name]}
    imported: dict[str, Path] = {}
    for file in (ROOT / "interp_compose").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            imported |= {module.partition(".")[0]: file for module in modules}
    foreign = (
        set(imported) - sys.stdlib_module_names - {"interp_compose", "pytest"}
    )  # by its plugin
    names = {MODULES.get(module, module).lower().replace("_", "-"): module for module in foreign}
    undeclared = set(names) - required - optional - set(BROUGHT)
    assert undeclared == set(), [imported[names[one]] for one in undeclared]
    assert set(BROUGHT.values()) <= required | optional
    unused = required - set(names) - {"einops", "tomli"}  # einops: TransformerLens' notation
    assert unused == set()
    assert name_of(extras["all"][0]) == "interp-compose"
    every = re.findall(r"\[(.*)\]", extras["all"][0])[0].split(",")
    assert set(every) == set(extras) - {"all", "dev", "docs"}


def of_one_task(out: Path) -> None:
    ic.cat.encoders(out / "none", {"cola": object.__new__(LabelledTask)}, out)


CALLS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "phases": ("sklearn", "papers", lambda out: ic.complexity.phase_diagram([0.5], [0.1], out)),
    "speed": (
        "sklearn",
        "papers",
        lambda out: ic.complexity.fitting_speed([0.5], [1], [0, 1], out),
    ),
    "mechanism": ("sklearn", "papers", lambda out: ic.complexity.mechanism(out, [0.5])),
    "fusion": ("sklearn", "papers", ic.lrf.fusion),
    "encoders": ("sklearn", "papers", of_one_task),
    "silhouette": ("sklearn", "papers", lambda _: silhouette(torch.eye(3), torch.arange(3))),
    "a metric": ("sklearn", "papers", lambda _: classified("f1", np.ones(2), np.ones(2))),
    "Marian": ("yaml", "marian", lambda out: _settings(b"a: 1", out)),
    "processes": ("accelerate", "processes", lambda _: Processes(torch.device("cpu"))),
    "devices": ("accelerate", "processes", lambda _: ic.load_model("gpt2", device_map="auto")),
}


@pytest.mark.parametrize("call", CALLS)
def test_without_the_package_nothing_begins(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, extra, run = CALLS[call]
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, module, None)
    out = tmp_path / "out"
    expected = rf"{module} is not installed; get it with: pip install 'interp-compose\[{extra}\]'"
    with pytest.raises(MissingPackageError, match=expected):
        run(out)
    assert not out.exists()
    package = MODULES.get(module, module)
    assert any(name_of(each) == package for each in settings()["optional-dependencies"][extra])
    assert importlib.metadata.version(package)  # which dev brings
