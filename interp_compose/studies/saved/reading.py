"""What a comparison says, in a sentence for each pair of results: where their accuracies differ,
where they lie within the margin, and where that is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from interp_compose.plots.chart import short
from interp_compose.studies.cap.result import NOT_POOLED
from interp_compose.studies.core.decided import (
    ACCURACY,
    LIES,
    Row,
    changed,
    layers_named,
    records,
)
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.text import FLOOR, floors_of

UNTESTED: Final = (
    "No test is made between these results: each number has the interval of its own result."
)
"""Of all but CAP curves of the same examples."""


def answers(results: Mapping[str, StudyResult], pairs: pd.DataFrame) -> list[str]:
    """A sentence for each result that is paired with the first, of the clean model and the first
    pooling; else that none is tested.

    Args:
        results: by label.
        pairs: as :func:`.compare.paired` has them; Holm is over all rows of a pair.
    """
    if pairs.empty:
        return [UNTESTED]
    if FLOOR in floors_of(results):
        return [f"Whether accuracies differ cannot be told: {FLOOR} in any of these results."]
    sentences = []
    for labels, rows in pairs.groupby(["first", "second"], sort=False):
        first, second = (short(str(label), 40) for label in labels)
        pooled = rows[rows["pooling"] != NOT_POOLED]
        pooling = pooled["pooling"].iloc[0]
        shown = records(rows[rows["pooling"].isin([NOT_POOLED, pooling])])
        sentences.append(
            changed(
                shown,
                ACCURACY,
                act=f"The accuracy of {first}",
                what=f"that of {second}",
                places=_places,
                than=f"that of {second}",
                saying=LIES,
            )
        )
    return sentences


def _places(rows: Sequence[Row]) -> str:
    """``in clean runs and when pooled by mean at layers 0 to 2``."""
    texts = ["in clean runs"] if any(row["pooling"] == NOT_POOLED for row in rows) else []
    if pooled := [row for row in rows if row["pooling"] != NOT_POOLED]:
        layers = layers_named([row["layer"] for row in pooled])
        texts.append(f"when pooled by {pooled[0]['pooling']} at {layers}")
    return " and ".join(texts)
