"""Generates ``_generated/audits.md``: what an audit finds of each architecture.

Run with ``python -m docs.audits``; with names, the rows of these architectures alone are written
again. Each architecture of ``tests/architectures.py`` is built with random weights and audited;
nothing is downloaded. It takes some fifteen minutes of one core.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from interp_compose.studies.audit.measure import audit
from interp_compose.studies.audit.result import Audit
from tests import architectures

TABLE = Path(__file__).parent / "_generated" / "audits.md"
LAYER = r"((?:en|de)coder_)?blocks[.][0-9]+[.]"
NATIVE = "TransformerLens' own decoder"
COLUMNS = ("wrong", "discarded", "silent")


def row(name: str) -> list[str]:
    """Build one architecture and audit it."""
    native = name == "native"
    model = architectures.build_native() if native else architectures.build(name)
    shown = NATIVE if native else name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = audit(model, progress=False)
    if len(found.frame) == 1:
        other = "its own forward pass in transformers" in found.frame["detail"].item()
        reason = "refused: other numbers" if other else "refused"
        return [shown, reason, *["–"] * len(COLUMNS)]
    return [shown, str(n_points(found)), *(cell(found.frame, status) for status in COLUMNS)]


def n_points(found: Audit) -> int:
    """How many hook points there are."""
    return int((found.frame["check"] == "fires").sum())  # other checks may use an alias


def cell(frame: pd.DataFrame, status: str) -> str:
    """What has a status: of the model by its check, hook points without the numbers of layers."""
    rows = frame[frame["status"] == status]
    if status == "silent":
        return str(len(rows))
    named = [
        f"`{re.sub(LAYER, lambda found: found[1] or '', name)}`" if name else check
        for name, check in zip(rows["name"], rows["check"], strict=True)
        if name or not check.startswith("an edit of")  # which its hook points say as well
    ]
    return ", ".join(dict.fromkeys(named)) or "–"


def table(rows: Sequence[Sequence[str]]) -> str:
    """The page fragment."""
    heads = ["", "hook points", "wrong", "edits discarded", "never fire"]
    lines = [
        "<!-- written by `python -m docs.audits`; do not edit -->",
        "",
        f"Run with transformer-lens {version('transformer-lens')}, transformers "
        f"{version('transformers')}, torch {version('torch').partition('+')[0]}, eager attention, "
        f"float32, random weights, {architectures.N_LAYERS} layers.",
        "",
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
        *("| " + " | ".join(cells) + " |" for cells in rows),
    ]
    return "\n".join(lines) + "\n"


def written() -> dict[str, list[str]]:
    """The rows of the fragment, by architecture."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    return {cells[0]: cells for cells in rows}


def main(argv: Sequence[str] | None = None) -> None:
    """Audit architectures and write the table, after each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="of architectures; by default all")
    names = (*architectures.BUILDERS, "native", *architectures.LISTED, *architectures.AUDITED)
    asked = parser.parse_args(argv).names or names
    rows = written()
    for name in asked:
        rows[NATIVE if name == "native" else name] = cells = row(name)
        print(" | ".join(cells), flush=True)
        shown = [NATIVE if name == "native" else name for name in names]
        temporary = TABLE.with_suffix(".tmp")
        temporary.write_text(table([rows[one] for one in shown if one in rows]), encoding="utf-8")
        os.replace(temporary, TABLE)


if __name__ == "__main__":
    main()
