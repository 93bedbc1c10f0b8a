"""The table of what attention masks let through, from ``benchmarks/results/``."""

from __future__ import annotations

from docs.measured import Table, read


def leaks() -> Table:
    """Heads and rows: the largest move of a logit, and the predictions that changed."""
    found = read("circuits_cpu")["leaks"]
    rows = []
    for model, row in found.items():
        moves = [row[f"{mode}_largest"] for mode in ("unmasked", "zero", "exclude")]
        changed = [row[f"{mode}_changed"] for mode in ("unmasked", "zero", "exclude")]
        cells = [
            f"{move:.2f} ({share:.1%})" if move else "exactly 0"
            for move, share in zip(moves, changed, strict=True)
        ]
        rows.append([f"`{model}`" if model == "mini-idm" else model, *cells])
    heads = ["largest move of a logit (predictions that changed)", "without a mask"]
    return [*heads, '`mode="zero"` (complexity control)', '`mode="exclude"`'], rows
