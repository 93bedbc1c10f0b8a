"""What the benchmarks wrote, for the pages' tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
Table = tuple[list[str], list[list[str]]]


def read(name: str) -> dict[str, Any]:
    """The file of that name in ``benchmarks/results/``."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found
