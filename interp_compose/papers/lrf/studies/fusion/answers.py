"""What opened encoder–decoders say, in a sentence: what is left of each on the last split without
the earlier output that it needs most, or with phrases pooled where that costs most.

One run of each model is opened and outcomes are counts, so that no test is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.papers.lrf.studies.fusion.reading import ALL
from interp_compose.stats.intervals import wilson_interval
from interp_compose.studies.core.decided import ACCURACY

NO_TEST: Final = "No test is made: one run of each model is opened, and shares are of its sequences"


def answers(frames: Mapping[str, pd.DataFrame], split: str) -> list[str]:
    """The sentence that answers what was opened, and that nothing is tested.

    Args:
        frames: of a :class:`.Fusion`; of its cuts those of all layers of a stack, and of its
            pooled phrases those that are not shuffled.
        split: the last one.
    """
    cuts, pooled = (rows[rows["split"] == split] for rows in (frames["cuts"], frames["cap"]))
    cuts, pooled = cuts[cuts["layers"] == ALL], pooled[pooled["spans"] == "phrases"]
    without = [
        (row, f"without {_output(row['earlier'])} in the {row['stack']}'s fuse-attention")
        for row in _least(cuts)
    ] or [
        (row, f"with each {row['unit']} pooled before layer {row['layer']}")
        for row in _least(pooled)
    ]
    if not without:
        return [f"{NO_TEST}."]
    clauses, floors = [], []
    for row, how in without:
        clean = f"{ACCURACY.number(row['n_clean'] / row['n'])} %"
        if row["n_clean"] <= ACCURACY.margin * row["n"]:
            floors.append(f"{row['model']} has hardly any sequence right ({clean} clean)")
        else:
            clauses.append(f"{row['model']} keeps {_right(row)}, clean {clean}, {how}")
    least = [f"where least is left, {'; '.join(clauses)} (95 %)"] if clauses else []
    return [f"On {split}, {'; '.join([*least, *floors])}. {NO_TEST}."]


def _least(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    """Of each model, the row with the smallest share."""
    least = rows.assign(share=rows["n_right"] / rows["n"]).sort_values("share", kind="stable")
    return least.drop_duplicates("model").sort_index().to_dict("records")


def _right(row: dict[Any, Any]) -> str:
    """``2 % [1.4, 2.7] of 2,067 sequences right``."""
    ends = (float(end) for end in wilson_interval(row["n_right"], row["n"]))
    interval = ", ".join(map(ACCURACY.number, ends))
    share = ACCURACY.number(row["n_right"] / row["n"])
    return f"{share} % [{interval}] of {row['n']:,} sequences right"


def _output(earlier: int) -> str:
    """What fuse-attention reads."""
    return "the embeddings" if earlier == 0 else f"the output of layer {earlier - 1}"
