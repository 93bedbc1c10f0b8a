"""Imports run one way: the table of docs/contributing.md, enforced."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import interp_compose

ROOT = Path(interp_compose.__file__).parent
BASE = {
    "errors",
    "types",
    "tensors",
    "checks",
    "_public",
    "_versions",
    "hub_waits",
    "notebook",
    "progress",
    "settings",
}
MAY_IMPORT = {
    "errors": set(),
    "_public": {"errors"},
    "_versions": set(),
    "types": {"_public"},
    "tensors": {"errors"},
    "hub_waits": set(),
    "settings": set(),
    "notebook": {"errors"},
    "progress": {"notebook"},
    "runs": {"errors", "_public", "_versions", "notebook", "progress"},
    "checks": {"errors", "runs"},
    "stats": BASE,
    "plots": BASE | {"runs"},
    "probes": BASE,
    "text": BASE | {"runs"},
    "tasks": BASE | {"runs", "text"},
    "shipped": BASE | {"runs", "tasks"},
    "models": BASE | {"runs", "shipped", "text"},
    "interventions": BASE | {"text", "models"},
    "training": BASE | {"runs", "stats", "plots", "probes", "text", "tasks", "models"},
    "studies": BASE
    | {"runs", "stats", "plots", "probes", "text", "tasks", "models", "interventions", "training"},
    "cli": BASE | {"runs", "studies"},
    "pytest_plugin": set(),  # but public names, inside its test
}
MAY_IMPORT["papers"] = MAY_IMPORT["studies"] | {"studies"}
SHARED = {"shared", "works"}
PAPERS = {"carma": {"works"}, "complexity": SHARED, "lrf": SHARED, "cat": SHARED}
"""Papers, and what each imports of others."""
SCRIPTS = {"shipped/build.py": {"training"}, "shipped/training.py": {"training"}}
"""How the shipped models were made: what no other file of the library imports."""
BUILDS_ON = {
    "phases": {"anchors"},  # runs on anchor functions, which three studies share
    "fitting_speed": {"anchors"},
    "mechanism": {"anchors"},
    "fusion": {"generalise"},  # opens the models that it trained
    "encoders": {"pretrain"},
    "codes": {"pretrain"},
    "watch": {"cap", "similarity"},  # measures a model while it is trained
    "explore": {"cap", "similarity"},  # sweeps their curves, of one example
    "saved": {"cap"},  # pairs curves of the same examples
}
FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem[:2] != "__")
OF_STUDIES = [path for path in FILES if path.parent.parent.name == "studies"]


def _imports(path: Path) -> set[str]:
    """Modules of this package that a file imports, anywhere in it, as dotted names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"relative import: {path}"
            continue
        found |= {
            name.removeprefix("interp_compose.") for name in names if "interp_compose." in name
        }
    return found


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_a_package_imports_only_what_its_row_allows() -> None:
    forbidden = {}
    for path in FILES:
        own = path.relative_to(ROOT).with_suffix("").parts[0]
        others = {name.split(".")[0] for name in _imports(path)} - {own, "__version__"}
        forbidden[_name(path)] = others - MAY_IMPORT[own] - SCRIPTS.get(_name(path), set())
    assert not {name: others for name, others in forbidden.items() if others}


def test_the_library_imports_no_paper_and_a_paper_no_other() -> None:
    for path in FILES:
        own = path.relative_to(ROOT).parts
        papers = {name.split(".")[1] for name in _imports(path) if name.startswith("papers.")}
        if own[0] != "papers":
            assert not papers, _name(path)
        elif len(own) > 2:
            assert papers - {own[1]} <= PAPERS.get(own[1], set()), _name(path)


def test_the_library_works_without_the_papers() -> None:
    """All of its files are imported, and a shipped model is measured, where there are none."""
    library = [path for path in FILES if path.relative_to(ROOT).parts[0] != "papers"]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in library]
    code = f"""
import importlib, sys
sys.modules["interp_compose.papers"] = None
for name in {names}:
    importlib.import_module(f"interp_compose.{{name.removesuffix('.__init__')}}")
import interp_compose as ic
model = ic.load_model("mini-idm", device="cpu")
examples = ic.load_task("mini-idm", model).test[:2]
print(len(ic.cap_curve(model, examples, layers=[0], progress=False).frame))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_a_study_imports_core_and_no_other_study() -> None:
    forbidden = {}
    for path in OF_STUDIES:
        own = path.parent.name
        place = path.parent.parent.relative_to(ROOT).as_posix().replace("/", ".")
        named = {
            name.removeprefix(f"{place}.").split(".")[0]
            for name in _imports(path)
            if name.startswith(f"{place}.")
        }
        forbidden[_name(path)] = named - {own, "core"} - BUILDS_ON.get(own, set())
    assert not {name: others for name, others in forbidden.items() if others}


def test_inside_a_study_imports_run_one_way() -> None:
    """options ← measure → result ↔ figures: nothing imports measure, options import nothing."""
    seen = set()
    for path in OF_STUDIES:
        if path.parent.name == "core":
            continue
        own = path.parent.relative_to(ROOT).as_posix().replace("/", ".") + "."
        named = {name.removeprefix(own).split(".")[0] for name in _imports(path) if own in name}
        seen |= {(path.stem, name) for name in named}
    shapes = {"options", "measure", "result", "figures"}
    allowed = {("measure", "options"), ("measure", "result")}
    allowed |= {("result", "figures"), ("figures", "result")}
    assert {pair for pair in seen if set(pair) <= shapes} <= allowed


def test_a_class_name_means_one_thing_in_the_package() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(_name(path))
    assert not {name: files for name, files in places.items() if len(files) > 1}


def test_the_help_is_printed_without_heavy_packages() -> None:
    code = "import sys, interp_compose.cli as c; c._parsed(['cap']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"torch", "pandas", "plotly", "numpy"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "only"),
    [
        (("TransformerBridge", "bridge_core"), {"models/bridge.py"}),
        (("import HookedTransformer",), {"models/hooked_transformer.py"}),
    ],
)
def test_each_lens_class_is_imported_in_one_file(words: tuple[str, ...], only: set[str]) -> None:
    importing = {
        _name(path)
        for path in FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if "import" in line and "transformer_lens" in line and any(w in line for w in words)
    }
    assert importing == only


def _circles() -> list[set[str]]:
    """Files that import each other, by whatever way, those for type checkers and late ones
    included."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
    imports = {
        name: {each for one in _imports(path) for each in (one, one.rpartition(".")[0])} & {*files}
        for name, path in files.items()
    }
    reached = {name: {*found} for name, found in imports.items()}
    grown = True
    while grown:
        more = {
            name: set().union(to, *(reached[one] for one in to)) for name, to in reached.items()
        }
        grown, reached = more != reached, more
    circles = {
        frozenset(one for one in to if name in reached[one])
        for name, to in reached.items()
        if name in to
    }
    return [set(circle) for circle in circles]


def test_no_more_files_import_each_other_than_a_result_and_its_pages() -> None:
    circles = sorted(sorted(circle) for circle in _circles())
    assert circles, "of a result and its page there is one"
    assert all(len(circle) <= 3 for circle in circles), circles
    assert not any(
        one.startswith(("models.", "interventions.")) for each in circles for one in each
    )
