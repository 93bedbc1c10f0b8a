"""The table of what transplants carry, from ``benchmarks/results/``."""

from __future__ import annotations

from docs.measured import Table, read

COLUMNS = (
    ("expected: transplant", "transplant", "expected"),
    ("own", "own", "expected"),
    ("random phrase", "random phrase", "expected"),
    ("random direction", "random direction", "expected"),
    ("untouched: transplant", "transplant", "answer"),
    ("own", "own", "answer"),
    ("random phrase", "random phrase", "answer"),
)


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
