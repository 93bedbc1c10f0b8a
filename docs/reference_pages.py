"""Writes what the pages show of files outside ``docs/``, at build time and for ``docs/conf.py``: a
page for each public name, and copies of the notebooks. Neither is kept in the repository."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from textwrap import indent
from typing import Any

import interp_compose
from interp_compose.runs.result import Result

DOCS = Path(__file__).parent
ROOT = DOCS.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "the tests do not run it.)\n\n"
PLOTLY = "application/vnd.plotly.v1+json"
LONGEST = 30
"""Lines of an example at most."""


def public_names() -> list[str]:
    """The library's names, and those of papers with the paper: ``complexity.phase_diagram``."""
    papers = interp_compose.PAPERS
    found = {*interp_compose.__all__} - {"__version__", *papers}
    for paper in papers:
        found |= {f"{paper}.{name}" for name in getattr(interp_compose, paper).__all__}
    return sorted(found)


def public_objects() -> dict[str, Any]:
    """Each public name, and what it names."""
    return {name: attrgetter(name)(interp_compose) for name in public_names()}


def page_of(name: str, thing: Any) -> str:
    """The page's file name without its ending. Files ``Audit`` and ``audit`` would be one on some
    systems, and so a class's has an ending of its own."""
    return f"{name}-class" if inspect.isclass(thing) else name


def written() -> dict[str, str]:
    """The pages in ``docs/``, by file name."""
    return {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")}


def makers(public: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each public class the public functions that return one, or several."""
    found: dict[str, list[str]] = {}
    classes = {
        name.rpartition(".")[2]: name for name, one in public.items() if inspect.isclass(one)
    }
    for name, thing in public.items():
        if not inspect.isclass(thing):
            made = inspect.signature(thing).return_annotation
            for word in re.findall(r"\w+", getattr(made, "__name__", str(made))):
                if word in classes:
                    found.setdefault(classes[word], []).append(name)
    return found


def examples(
    pages: Mapping[str, str], made_by: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, str]]:
    """For each public name its shortest block that the tests run, and the page it is from. A class
    that no block names has that of a function which makes it.

    Args:
        pages: texts by page name.
        made_by: from :func:`makers`.
    """
    blocks = [(page, code) for page, text in pages.items() for code in _run(text)]
    found: dict[str, tuple[str, str]] = {}
    for block in sorted(blocks, key=lambda block: (len(block[1]), block[0])):
        for name in re.findall(r"\bic\.((?:(?:carma|complexity|lrf|cat)\.)?\w+)", block[1]):
            found.setdefault(name, block)
    for name, functions in made_by.items():
        made = [found[one] for one in functions if one in found]
        if name not in found and made:
            found[name] = min(made, key=lambda block: len(block[1]))
    return found


def _run(text: str) -> Iterator[str]:
    for match in BLOCK.finditer(text):
        is_run = not text[: match.start()].endswith(NOT_RUN)
        if is_run and match[1].count("\n") <= LONGEST:
            yield match[1]


def reference(name: str, thing: Any, example: tuple[str, str]) -> str:
    """One name's page, as reStructuredText."""
    lines = [f"``ic.{name}``", "=" * (len(name) + 7), ""]
    if inspect.isclass(thing):
        lines += [f".. autoclass:: ic.{name}", "   :members:", "   :show-inheritance:"]
        if issubclass(thing, Result):
            lines += ["   :inherited-members:"]
    else:
        lines += [f".. autofunction:: ic.{name}"]
    page, code = example
    lines += ["", "Example", "-------", "", f"From :doc:`/{page.removesuffix('.md')}`:", ""]
    lines += [".. code-block:: python", "", indent(code, "   ")]
    return "\n".join(lines) + "\n"


def write_reference(folder: Path) -> None:
    """A page for each public name."""
    public = public_objects()
    shown = examples(written(), makers(public))
    texts = {
        f"{page_of(name, thing)}.rst": reference(name, thing, shown[name])
        for name, thing in public.items()
    }
    _write(folder, texts)


def write_notebooks(folder: Path) -> None:
    """Copies of the notebooks, whose links lead to these pages. Of a figure they have the picture:
    Sphinx does not know the interactive one."""
    texts = {}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8").replace("](../docs/", "](../"))
        for cell in notebook["cells"]:
            for output in cell.get("outputs", ()):
                output.get("data", {}).pop(PLOTLY, None)
        texts[path.name] = json.dumps(notebook, indent=1, ensure_ascii=False)
    _write(folder, texts)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """These files and no others; those that would not change keep their time."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
