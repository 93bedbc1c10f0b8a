"""Imports run one way: the table of docs/contributing.md, enforced."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import interp_compose

ROOT = Path(interp_compose.__file__).parent
BASE = {"_types", "errors", "_files", "_positions", "_versions", "_public", "_whole"}
MAY_IMPORT = {
    "_types": {"_public"},
    "_public": {"errors"},
    "errors": set(),
    "_files": {"errors"},
    "_positions": {"errors"},
    "_versions": set(),
    "_whole": set(),
    "results": BASE,
    "metrics": BASE,
    "agreement_measures": BASE,
    "agreement": BASE | {"metrics", "agreement_measures"},
    "_word_pairs": BASE,
    "losses": BASE | {"_word_pairs"},
    "probes": BASE | {"_word_pairs"},
    "consistency": BASE,
    "text": BASE | {"results"},
    "training": BASE | {"results", "metrics", "losses", "probes", "text"},
    "tasks": BASE | {"results", "text"},
    "shipped": BASE | {"tasks", "results"},
    "models": BASE | {"shipped"},
    "interventions": BASE | {"text"},
    "plots": BASE | {"results", "metrics"},
    "recipes": BASE
    | {
        "results",
        "metrics",
        "agreement",
        "consistency",
        "losses",
        "probes",
        "training",
        "text",
        "tasks",
        "models",
        "interventions",
        "plots",
        "shipped",
    },
    "cli": BASE | {"recipes", "results"},
}
STUDIES = ("cap", "similarity", "carma", "probe", "ablation", "complexity", "mechanism", "speed")
BUILDS_ON = {
    "carma": {"cap"},  # a comparison measures its models by CAP curves
    "mechanism": {"complexity"},  # opens the models of a phase diagram
    "speed": {"complexity"},  # its runs are those of the phase diagram, on other data
}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_what_its_row_allows(path: Path) -> None:
    room = path.relative_to(ROOT).with_suffix("").parts[0]
    others = {name.split(".")[0] for name in _imports(path)} - {room, "__version__"}
    assert others <= MAY_IMPORT[room], f"{path.name} imports {others - MAY_IMPORT[room]}"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "recipes").glob("*.py")), ids=lambda path: path.name
)
def test_no_study_imports_another(path: Path) -> None:
    own = path.stem.split("_")[0]
    named = {name.split(".")[1].split("_")[0] for name in _imports(path) if name[:8] == "recipes."}
    assert not (named & set(STUDIES)) - {own} - BUILDS_ON.get(own, set())


@pytest.mark.parametrize(
    ("words", "only"),
    [
        (("TransformerBridge", "bridge_core"), {"models/bridge.py"}),
        (("import HookedTransformer",), {"models/hooked_transformer.py"}),
    ],
)
def test_each_lens_class_is_imported_in_one_file(words: tuple[str, ...], only: set[str]) -> None:
    importing = {
        str(path.relative_to(ROOT))
        for path in FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if "import" in line and "transformer_lens" in line and any(w in line for w in words)
    }
    assert importing == only
