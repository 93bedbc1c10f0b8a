"""Tables of the study of fitting speed: ``fitting_speed*``."""

from __future__ import annotations

from typing import Final

from docs.measured import Columns, Row, Table, cell, frame, over, pivot, ranged, table, written

PLACE: Final = ["init_rate", "n_layers", "violations"]
CELL: Final[Columns] = {
    "γ": "{init_rate:g}",
    "layers": "{n_layers}",
    "violating groups": "{violations}",
}


def epochs(name: str) -> Table:
    """A row per cell: epochs until the data were fitted, and the area under the ROC curve."""
    columns: Columns = {
        **CELL,
        "epochs to accuracy 1": lambda row: _epochs(row, "accuracy_"),
        "epochs to a loss of 0.05": lambda row: _epochs(row, "loss_"),
        "ROC AUC": ranged("auc", "share"),
    }
    return table(frame(name, "cells"), columns)


def _epochs(row: Row, measure: str = "") -> str:
    """Like "21.3 (19–24)", or "2 of 3" where some run never got there."""
    epochs = f"{{{measure}epochs:.1f}} ({{{measure}low:g}}–{{{measure}high:g}})"
    fitted = row[f"{measure}fitted"]
    return cell(epochs, row) if fitted == row["n"] else f"{fitted} of {row['n']}"


def delays(name: str) -> Table:
    """A row per init rate, depth and number of violating groups: epochs to a loss of 0.05 beyond
    those that the same seed takes without violating groups; none where a run never got there."""
    runs = frame(name, "runs")[[*PLACE, "seed", "loss_epochs"]]
    without = runs.query("violations == 0").drop(columns="violations")
    without = without.rename(columns={"loss_epochs": "without"})
    rows = runs.query("violations > 0").merge(without, on=["init_rate", "n_layers", "seed"])
    rows["later"] = rows["loss_epochs"] - rows["without"]
    rows = rows.groupby(PLACE).filter(lambda cell: cell["later"].notna().all())
    columns: Columns = {
        **CELL,
        "epochs later": "{later:+.1f}",
        "of those without": lambda row: written(sum(row["later"]) / sum(row["without"]), "+.0%"),
        "seeds later": "{n_later} of {n}",
    }
    cells = over(rows, PLACE).sort_values(PLACE)
    cells["n_later"] = [sum(epochs > 0 for epochs in later) for later in cells["later"]]
    return table(cells.assign(n=cells["seed"].map(len)), columns)


def pairs(name: str, n_layers: int) -> Table:
    """A row per pair of anchors: epochs without and with one violating group, per init rate; pairs
    that violate the rule first, then those that these touch."""
    rows = frame(name, "pair_cells").query("n_layers == @n_layers and violations <= 1")
    rows = rows.sort_values(["init_rate", "violations"], kind="stable")
    kinds = rows[rows["violations"] == 1].groupby("pair")[["violates", "touched"]].first()
    rows = rows.drop(columns=["violates", "touched"]).merge(kinds, on="pair")
    rows = rows.sort_values(["violates", "touched"], ascending=False, kind="stable")
    by = {"pair": lambda row: "({}, {})".format(*row["pair"].replace(" ", "")), "": _kind}
    columns = {"γ {init_rate:g}, {violations} violating": _epochs}
    return pivot(rows, by, ["init_rate", "violations"], columns)


def _kind(row: Row) -> str:
    return "violating" if row["violates"] else "touched" if row["touched"] else ""
