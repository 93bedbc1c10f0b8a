"""The size of the package and of its docs: ``budget.toml``, enforced.

Lines and files per room, public names, options of commands; words of the docs that are read from
end to end. Who raises a number says why in the same line; ``python -m tests.test_budget`` prints
the numbers as they are.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import interp_compose
from interp_compose import cli

PACKAGE = Path(interp_compose.__file__).parent
BUDGET = PACKAGE.parent / "budget.toml"
DOCS = BUDGET.parent / "docs"
LOOKED_UP = {"api", "changelog", "cli", "contributing", "glossary", "objects", "papers", "verdicts"}
"""Pages that nobody reads from end to end."""
NOT_PROSE = re.compile(r"^```.*?^```|^\|.*?$", re.DOTALL | re.MULTILINE)
"""Blocks of code, and rows of tables."""
SLACK = 1.03
"""A room may stay this far below its number before that is lowered."""


def _rooms() -> dict[str, list[Path]]:
    """Files of the package by the folder they lie in."""
    rooms: defaultdict[str, list[Path]] = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        depth = 2 if parts[0] == "papers" else 1
        rooms[".".join(parts[:depth]) if len(parts) > depth else "root"].append(path)
    return rooms


def _lines() -> dict[str, int]:
    texts = {room: [path.read_text("utf-8") for path in paths] for room, paths in _rooms().items()}
    return {room: sum(text.count("\n") for text in of_room) for room, of_room in texts.items()}


def _names() -> dict[str, int]:
    papers = interp_compose.PAPERS
    names = {paper: len(getattr(interp_compose, paper).__all__) for paper in papers}
    return {**names, "library": len(interp_compose.__all__) - len(papers)}


TABLES: Final[dict[str, Callable[[], dict[str, int]]]] = {
    "lines": _lines,
    "files": lambda: {room: len(paths) for room, paths in _rooms().items()},
    "names": _names,
    "words": lambda: {"guides and results": sum(map(_words, DOCS.glob("*.md")))},
    "options": lambda: {name: len(_options(name)) for name in (*cli.COMMANDS, *cli.NOT_MEASURING)},
}
"""What is counted, that which takes long last."""


def _words(page: Path) -> int:
    """Of its prose."""
    if page.stem in LOOKED_UP:
        return 0
    return len(NOT_PROSE.sub("", page.read_text(encoding="utf-8")).split())


def _options(command: str) -> set[str]:
    """What its help lists."""
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen), contextlib.suppress(SystemExit):
        cli.main([command, "--help"])
    return set(re.findall(r"^\W*--([a-z][a-z-]*)", screen.getvalue(), re.MULTILINE))


@pytest.mark.parametrize("table", TABLES)
def test_no_room_is_larger_than_its_budget(table: str) -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    budget = tomllib.loads(BUDGET.read_text(encoding="utf-8"))[table]
    numbers = TABLES[table]()
    assert numbers.keys() == budget.keys()
    over = {name: n for name, n in numbers.items() if n > budget[name]}
    assert not over, f"{table}: over the budget. Make it smaller, or raise it with a reason"
    under = {name: n for name, n in numbers.items() if n * SLACK + 3 < budget[name]}
    assert not under, f"{table}: far below the budget; lower it to this"


def test_each_table_of_the_budget_is_counted() -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    assert tomllib.loads(BUDGET.read_text(encoding="utf-8")).keys() == TABLES.keys()


if __name__ == "__main__":
    for table, numbers in TABLES.items():
        print(f"[{table}]")
        print("\n".join(f'"{name}" = {n}' for name, n in sorted(numbers().items())))
        print()
