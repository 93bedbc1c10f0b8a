"""Tables of what knock-outs, transplants and ablated heads change, task by task: SmolLM2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from benchmarks.natural_phrases import TASKS as NATURAL
from docs.measured import Cell, Columns, Row, Table, cell, frame, pivot, read, records, table
from interp_compose.studies.core.text import probability

TASKS: Final = (*NATURAL, "sst")
NAMES: Final = {"sst": "sst-few-shot"}
VECTORS: Final = {
    "transplant": "the phrase",
    "last word": "its last word",
    "random phrase": "another phrase",
    "random direction": "a random direction",
    "own": "the target's own",
}
TESTED: Final = ("last word", "random phrase")
"""Vectors whose difference to the phrase's is shown."""


def _of_tasks(study: str, key: str) -> pd.DataFrame:
    """A frame of one study of every task."""
    return pd.concat(
        pd.DataFrame(read(f"phrases_{task}")[study][key]).assign(task=task) for task in TASKS
    )


def _in_order(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Sorted by columns as they are shown, then by layer."""
    orders = {
        "task": TASKS,
        "group": (
            *("last word", "other words", "phrase of its sentiment", "other phrase"),
            *("whole phrase", "words elsewhere"),
        ),
        "vector": [*VECTORS],
    }
    ranks = {
        name: rows[name].map(orders[name].index if name in orders else str) for name in columns
    }
    keys = pd.DataFrame({**ranks, "layer": rows["layer"]}).reset_index(drop=True)
    return rows.reset_index(drop=True).loc[keys.sort_values([*columns, "layer"]).index]


def _by_layer(rows: pd.DataFrame, by: Columns, layers: Sequence[int], value: Cell) -> Table:
    """Of ten items or more: a case can have one alone."""
    return pivot(rows.query("layer in @layers and n >= 10"), by, ["layer"], {"{layer}": value})


def knocked_out(layers: Sequence[int]) -> Table:
    """Right between answer and foil where words are knocked out from a layer on; a star where that
    differs from the clean model."""
    rows = _in_order(_of_tasks("knocked_out", "table"), ["task", "case", "group"])
    by: Columns = {
        "task": _case,
        "items": "{n}",
        "clean": "{clean:.2f}",
        "knocked out": "{group}",
    }
    return _by_layer(rows, by, layers, _starred("accuracy"))


def transplanted(layers: Sequence[int]) -> Table:
    """How often the expected answer is likelier than the untouched, by what takes the phrase's
    place; a star where that differs from the phrase's vector."""
    rows = _of_tasks("transplanted", "table")
    less = _of_tasks("transplanted", "mean_less").query(
        "measure == 'preferred' and against in @TESTED"
    )
    place = ["task", "case", "layer", "vector"]
    less = less.rename(columns={"against": "vector"})[[*place, "p_holm"]]
    as_text = _of_tasks("transplanted", "clean").query("run == 'composed'")
    rows = rows.merge(less, on=place, how="left").fillna({"p_holm": 1.0})
    rows = rows.merge(
        as_text[["task", "case", "preferred"]], on=["task", "case"], suffixes=("", "_as_text")
    )
    rows = _in_order(rows, ["task", "case", "vector"])
    by: Columns = {
        "task": _case,
        "pairs": "{n}",
        "as text": "{preferred_as_text:.2f}",
        "vector": lambda row: VECTORS[row["vector"]],
    }
    return _by_layer(rows, by, layers, _starred("preferred"))


def _case(row: Row) -> str:
    return ", ".join(filter(None, (f"`{NAMES.get(row['task'], row['task'])}`", row["case"])))


def _starred(share: str) -> Cell:
    def shown(row: Row) -> str:
        return cell(f"{{{share}:.2f}}", row) + ("\\*" if row["p_holm"] < 0.05 else "")

    return shown


def heads(most: int) -> Table:
    """The heads whose ablation lowers the log-odds of answer and foil most, of those that change
    them (Holm over all)."""
    rows = []
    for task in TASKS:
        of_task = frame(f"heads_{task}", "heads")
        losing = of_task[(of_task["p_holm"] < 0.05) & (of_task["difference"] < 0)]
        change = "**{layer}.{head}** {difference:+.2f} [{ci_low:+.2f}, {ci_high:+.2f}], p "
        shown = [
            cell(change, row) + probability(row["p_holm"])
            for row in records(losing.sort_values("difference").head(most))
        ]
        rows.append(
            {
                "task": NAMES.get(task, task),
                "n": len(of_task["changes"].iloc[0]),
                "shown": "; ".join(shown),
            }
        )
    columns: Columns = {
        "task": "`{task}`",
        "items": "{n}",
        "the largest losses with p < .05 (nats)": "{shown}",
    }
    return table(pd.DataFrame(rows), columns)
