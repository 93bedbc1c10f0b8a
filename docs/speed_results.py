"""Tables of the study of fitting speed, from ``benchmarks/results/``."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from docs.measured import Table, read
from docs.phase_results import share


def epochs(name: str) -> Table:
    """A row per cell: epochs until the data were fitted, and the area under the ROC curve."""
    rows = []
    for cell in read(name)["cells"]:
        place = [f"{cell['init_rate']:g}", str(cell["n_layers"]), str(cell["violations"])]
        told = [_epochs(cell, name) for name in ("accuracy", "loss")]
        area = "–"
        if cell["auc"] is not None:
            low, high = share(cell["auc_low"]), share(cell["auc_high"])
            area = f"{share(cell['auc'])} ({low}–{high})"
        rows.append([*place, *told, area])
    heads = ["γ", "layers", "violating groups", "epochs to accuracy 1", "epochs to a loss of 0.05"]
    return [*heads, "ROC AUC"], rows


def delays(name: str) -> Table:
    """A row per init rate, depth and number of violating groups: epochs to a loss of 0.05 beyond
    those that the same seed takes without violating groups."""
    cells: dict[tuple[float, int, int], dict[int, float]] = {}
    for run in read(name)["runs"]:
        place = run["init_rate"], run["n_layers"], run["violations"]
        cells.setdefault(place, {})[run["seed"]] = run["loss_epochs"]
    rows = []
    for (rate, depth, groups), own in sorted(cells.items()):
        before = cells[rate, depth, 0]
        if not groups or None in (*own.values(), *before.values()):
            continue
        later = [own[seed] - before[seed] for seed in own]
        mean, low, high = (_signed(f(later), "+.1f") for f in (fmean, min, max))
        part = _signed(sum(later) / sum(before.values()), "+.0%")
        told = [f"{mean} ({low} to {high})", part, f"{sum(d > 0 for d in later)} of {len(later)}"]
        rows.append([f"{rate:g}", str(depth), str(groups), *told])
    heads = ["γ", "layers", "violating groups", "epochs later", "of those without", "seeds later"]
    return heads, rows


def _signed(value: float, style: str) -> str:
    return f"{value:{style}}".replace("-", "−")


def pairs(name: str, n_layers: int) -> Table:
    """A row per pair of anchors: epochs without and with one violating group, per init rate."""
    cells = [cell for cell in read(name)["pair_cells"] if cell["n_layers"] == n_layers]
    by_place = {(c["init_rate"], c["violations"], c["pair"]): c for c in cells}
    rates = sorted({cell["init_rate"] for cell in cells})
    ones = [cell for cell in cells if cell["violations"] == 1 and cell["init_rate"] == rates[-1]]
    rows = []
    for one in sorted(ones, key=lambda cell: (not cell["violates"], not cell["touched"])):
        pair = one["pair"].replace(" ", "")
        told = [_pair(by_place[rate, n, one["pair"]]) for rate in rates for n in (0, 1)]
        kind = "violating" if one["violates"] else "touched" if one["touched"] else ""
        rows.append([f"({pair[0]}, {pair[1]})", kind, *told])
    heads = [f"γ {rate:g}, {n} violating" for rate in rates for n in (0, 1)]
    return ["pair", "", *heads], rows


def _pair(cell: dict[str, Any]) -> str:
    if cell["epochs"] is None:
        return f"{cell['fitted']} of {cell['n']}"
    return f"{cell['epochs']:.1f} ({cell['low']:g}–{cell['high']:g})"


def _epochs(cell: dict[str, Any], name: str) -> str:
    """Like "21.3 (19–24)", or "2 of 3" where some run never got there."""
    if cell[f"{name}_epochs"] is None:
        return f"{cell[f'{name}_fitted']} of {cell['n']}"
    low, high = cell[f"{name}_low"], cell[f"{name}_high"]
    return f"{cell[f'{name}_epochs']:.1f} ({low:g}–{high:g})"
