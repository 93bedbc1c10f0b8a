"""The size of the package and of its docs: ``budget.toml``, enforced.

Lines and files per room, public names, options of commands; words of the docs that are read from
end to end. Who raises a number says why in the
same line; ``python -m tests.test_budget`` prints the numbers as they are.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from pathlib import Path

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


def measured() -> dict[str, dict[str, int]]:
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        depth = 2 if parts[0] == "papers" else 1
        room = ".".join(parts[:depth]) if len(parts) > depth else "root"
        lines[room] += path.read_text(encoding="utf-8").count("\n")
        files[room] += 1
    papers = interp_compose.PAPERS
    names = {paper: len(getattr(interp_compose, paper).__all__) for paper in papers}
    names["library"] = len(interp_compose.__all__) - len(papers)
    commands = (*cli.COMMANDS, *cli.NOT_MEASURING)
    options = {name: len(_options(name)) for name in commands}
    words = {"guides and results": sum(map(_words, DOCS.glob("*.md")))}
    return {
        **{"lines": dict(lines), "files": dict(files), "names": names, "options": options},
        "words": words,
    }


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


def test_no_room_is_larger_than_its_budget() -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    budget = tomllib.loads(BUDGET.read_text(encoding="utf-8"))
    now = measured()
    for table, numbers in now.items():
        assert numbers.keys() == budget[table].keys(), table
        over = {name: n for name, n in numbers.items() if n > budget[table][name]}
        assert not over, f"{table}: over the budget. Make it smaller, or raise it with a reason"
        under = {name: n for name, n in numbers.items() if n * SLACK + 3 < budget[table][name]}
        assert not under, f"{table}: far below the budget; lower it to this"


if __name__ == "__main__":
    for table, numbers in measured().items():
        print(f"[{table}]")
        print("\n".join(f"{name!r} = {n}".replace("'", '"') for name, n in sorted(numbers.items())))
        print()
