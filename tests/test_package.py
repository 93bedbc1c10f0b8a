"""What the package says of itself where it is published, without the files beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)]*)\)")


@pytest.fixture
def settings() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found


def test_its_description_is_readme_without_links_to_files(settings: dict[str, Any]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    how = settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    assert [part["path"] for part in how["fragments"]] == ["README.md"]
    described = readme
    for change in how["substitutions"]:
        described, n = re.subn(change["pattern"], change["replacement"], described)
        assert n
    assert LINK.findall(described) == [one for one in LINK.findall(readme) if one[:6] == "https:"]
    paragraphs = readme.split("\n\n")
    (picture,) = (k for k, text in enumerate(paragraphs) if text.startswith("!"))
    assert paragraphs[picture + 1].startswith("*")  # what is written under it
    kept = paragraphs[:picture] + paragraphs[picture + 2 :]
    assert plain(described) == plain("\n\n".join(kept))


def plain(text: str) -> str:
    """Without links, their words kept."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def test_it_has_the_addresses_of_the_papers(settings: dict[str, Any]) -> None:
    cited = re.findall(r'url: "(.*)"', (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert sorted(settings["project"]["urls"].values()) == sorted(cited) != []


def test_every_function_that_is_long_is_there() -> None:
    for function in json.loads((ROOT / "tests" / "long.json").read_text("utf-8")):
        file, _, name = function.partition("::")
        assert f"\ndef {name}(" in (ROOT / file).read_text("utf-8"), function
