"""The table of what transplants carry, from ``benchmarks/results/``."""

from __future__ import annotations

from collections.abc import Mapping

from docs.measured import Table, read
from docs.verdicts import BREAK

COLUMNS = (
    ("expected: transplant", "transplant", "expected"),
    ("own", "own", "expected"),
    ("random phrase", "random phrase", "expected"),
    ("random direction", "random direction", "expected"),
    ("untouched: transplant", "transplant", "answer"),
    ("own", "own", "answer"),
    ("random phrase", "random phrase", "answer"),
)


ANSWERS = (("expected", "expected_"), ("untouched", "answer_"), ("source's own", "remembered_"))
ANCHOR_MODELS = {
    "anchors_0.5": "0.5 (2c: pairs, in either order)",
    "anchors_0.8": "0.8 (3: reasons)",
}


SCAN_MODELS = {"scan_0.5": "0.5, weight decay 0.01", "scan_0.7": "0.7, weight decay 0.1"}


def of_models(models: Mapping[str, str], head: str) -> Table:
    """Heads and rows: what models answer under the transplant with its interval and, below, under
    the three controls."""
    rows = []
    for name, label in models.items():
        found = read(f"transplants_{name}")["table"]
        for pooling, layer in dict.fromkeys((row["pooling"], row["layer"]) for row in found):
            place = [row for row in found if (row["pooling"], row["layer"]) == (pooling, layer)]
            cells, shown = {row["vector"]: row for row in place}, []
            moved = cells.pop("transplant")
            for _, column in ANSWERS:
                value = "remembered" if column == "remembered_" else f"{column}accuracy"
                interval = f"({moved[f'{column}low']:.3f}–{moved[f'{column}high']:.3f})"
                controls = ", ".join(f"{kind} {row[value]:.3f}" for kind, row in cells.items())
                shown.append(f"{moved[value]:.3f} {interval}{BREAK}{controls}")
            rows.append([label, pooling, str(layer), *shown])
    return [head, "pooling", "layer", *(answer for answer, _ in ANSWERS)], rows


def transplants(name: str) -> Table:
    """Heads and rows: accuracies of both answers, with their intervals."""
    found = read(f"transplants_{name}")["table"]
    cells = {(row["pooling"], row["layer"], row["vector"]): row for row in found}
    rows = []
    for pooling, layer in dict.fromkeys((row["pooling"], row["layer"]) for row in found):
        shown = []
        for _, vector, answer in COLUMNS:
            row = cells[pooling, layer, vector]
            low, high = row[f"{answer}_low"], row[f"{answer}_high"]
            shown.append(f"{row[f'{answer}_accuracy']:.3f} ({low:.3f}–{high:.3f})")
        rows.append([pooling, str(layer), *shown])
    return ["pooling", "layer", *(head for head, _, _ in COLUMNS)], rows
