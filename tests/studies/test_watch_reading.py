"""What a watched training says in a sentence, of tables made by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from interp_compose.studies.watch.reading import NO_TEST, answers
from interp_compose.studies.watch.result import Watched
from interp_compose.studies.watch.rows import LOOKS, MEASURED

NAN = float("nan")
Row = tuple[int, str, int, str, float, float, float]


def measured(*rows: Row) -> pd.DataFrame:
    names = ("step", "measure", "layer", "of", "value", "low", "high")
    table: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) | {"n": 20} for row in rows]
    return MEASURED.of(table)


def rank(step: int, layer: int, matrix: str, value: float) -> Row:
    return (step, "stable_rank", layer, matrix, value, NAN, NAN)


def cap(step: int, layer: int, value: float) -> Row:
    return (step, "cap", layer, "mean" if layer >= 0 else "no pooling", value, 0.1, 0.9)


WEIGHTS = (
    *(rank(0, 0, "W_Q", 10.0), rank(0, 0, "W_K", 20.0), rank(0, 1, "W_Q", 10.0)),
    *(rank(9, 0, "W_Q", 9.0), rank(9, 0, "W_K", 19.0), rank(9, 1, "W_Q", 4.0)),
)
CASES = {
    "weights, the mean of a layer's matrices": (
        WEIGHTS,
        "From step 0 to step 9 changes most: stable rank of weights at layer 1, mean of matrices, "
        f"from 10 to 4. {NO_TEST}",
    ),
    "two measures, and a look between": (
        (
            *WEIGHTS,
            cap(0, -1, 0.5),
            cap(4, -1, 0.1),
            cap(9, -1, 0.7),
            cap(0, 0, 0.3),
            cap(9, 0, 0.4),
        ),
        "From step 0 to step 9 changes most: stable rank of weights at layer 1, mean of matrices, "
        "from 10 to 4; accuracy after pooling (no pooling), from 0.500 [0.100, 0.900] to 0.700 "
        f"[0.100, 0.900]. {NO_TEST}",
    ),
    "all equal": (
        (cap(0, 0, 0.3), cap(9, 0, 0.3)),
        f"From step 0 to step 9 has not changed: accuracy after pooling. {NO_TEST}",
    ),
    "one of two measures is equal": (
        (*WEIGHTS, cap(0, 0, 0.3), cap(9, 0, 0.3)),
        "From step 0 to step 9 changes most: stable rank of weights at layer 1, mean of matrices, "
        f"from 10 to 4; has not changed: accuracy after pooling. {NO_TEST}",
    ),
    "no number at the end": (
        (cap(0, 0, 0.3), (9, "cap", -1, "changed nothing", NAN, NAN, NAN)),
        "Nothing has a number both at step 0 and at step 9.",
    ),
    "one look": (
        (cap(7, 0, 0.3),),
        "Whether anything changes over training is not known: there is 1 look yet.",
    ),
    "no look": ((), "Whether anything changes over training is not known: there is no look yet."),
}


@pytest.mark.parametrize("case", CASES)
def test_sentences(case: str) -> None:
    rows, sentence = CASES[case]
    frame = measured(*rows)
    assert answers(frame) == [sentence]
    measures = list(dict.fromkeys(frame["measure"])) or ["cap"]
    frames = {"measured": frame, "looks": LOOKS.of([])}
    found = Watched(config={"measures": measures}, frames=frames, versions={})
    assert found.sentences() == [sentence]
    assert found.summary().splitlines()[0] == sentence
