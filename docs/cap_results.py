"""The table of a CAP curve and its controls, from ``benchmarks/results/``."""

from __future__ import annotations

from docs.measured import Table, read


def shuffled_draws() -> Table:
    """Heads and rows: ``mean`` minus each control, in points of accuracy, by layer."""
    found = read("shuffled_draws")
    rows = [
        [
            str(row["layer"]),
            _points(row, "last"),
            _points(row, "shuffled"),
            f"{row['shuffled_p_holm']:.2f}",
            _points(row, "draws"),
        ]
        for row in found["table"]
    ]
    first = f"− `shuffled`, seed {found['seeds'][0]}"
    return ["layer", "− `last`", first, "p (Holm)", "− `shuffled`, five draws"], rows


def _points(row: dict[str, float], name: str) -> str:
    parts = (row[f"{name}_{key}"] for key in ("difference", "ci_low", "ci_high"))
    value, low, high = (f"{100 * part:+.1f}".replace("-", "−") for part in parts)
    return f"{value} [{low}, {high}]"
