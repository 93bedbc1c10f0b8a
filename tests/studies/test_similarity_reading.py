"""What similarity curves say in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from interp_compose.studies.similarity.reading import answers, differences
from interp_compose.studies.similarity.result import SimilarityCurve
from tests.studies import test_similarity_result as of_similarity


def curve(*rows: tuple[float, float, float], clean: tuple[float, float], n: int = 50) -> Any:
    """A curve with these differences to the clean model and ends of their intervals, by layer."""
    made = of_similarity.make()
    frame = made.frame.iloc[: len(rows)].copy()
    frame["layer"], frame["pooling"], frame["subset"] = range(len(rows)), "mean", "all"
    columns = ["pearson_diff", "pearson_diff_low", "pearson_diff_high"]
    frame[columns] = np.array(rows)
    frame[["clean_pearson_low", "clean_pearson_high"]] = clean
    return replace(made, frames={**made.frames, "curve": frame.assign(n=n)})


NAN = float("nan")
LOWER, SAME, OPEN = (-0.2, -0.3, -0.1), (0.0, -0.02, 0.02), (-0.03, -0.1, 0.04)
CASES: list[tuple[list[tuple[float, float, float]], tuple[float, float], str]] = [
    (
        [LOWER, LOWER, SAME],
        (0.4, 0.6),
        "Pooling texts by mean lowers Pearson's r with people at layers 0 and 1, most at layer 0, "
        "by 0.20 [0.10, 0.30] (95 %); it changes it at layer 2 by no more than 0.05.",
    ),
    (
        [OPEN],
        (0.4, 0.6),
        "Whether pooling texts by mean changes Pearson's r with people is open at layer 0: between "
        "0.10 less and 0.04 more than clean (95 %); about 300 pairs would decide it, were it as "
        "measured.",
    ),
    (
        [SAME],
        (0.4, 0.6),
        "Pooling texts by mean changes Pearson's r with people nowhere by more than 0.05: most at "
        "layer 0, where it is between 0.02 less and 0.02 more than clean (95 %).",
    ),
    (
        [LOWER],
        (-0.1, 0.3),
        "Whether pooling texts changes Pearson's r with people cannot be told: without it the 95 % "
        "interval, −0.10 to 0.30, holds chance, 0.",
    ),
    (
        [(-0.2, NAN, NAN)],
        (NAN, NAN),
        "Whether pooling texts by mean changes Pearson's r with people is not known: there is no "
        "interval of 50 pairs.",
    ),
]


@pytest.mark.parametrize(("rows", "clean", "sentence"), CASES)
def test_sentences(
    rows: list[tuple[float, float, float]], clean: tuple[float, float], sentence: str
) -> None:
    made: SimilarityCurve = curve(*rows, clean=clean)
    assert answers(made) == [sentence]
    assert made.sentences()[0] == sentence == made.summary().splitlines()[1]


def test_p_is_of_the_bootstraps_spread_and_corrected_over_layers() -> None:
    rows = differences(curve((-0.1, -0.2, 0.0), (0.2, 0.1, 0.3), (0.0, 0.0, 0.0), clean=(0.4, 0.6)))
    p = [2 * t.sf(abs(d) / (0.1 / 2.009575), 49) for d in (0.1, 0.2)]  # t₀.₉₇₅ of 50 pairs
    assert rows[0]["p_holm"] == pytest.approx(2 * p[0], rel=1e-4)
    assert rows[1]["p_holm"] == pytest.approx(3 * p[1], rel=1e-3)
    assert rows[2]["p_holm"] == 1
    assert isinstance(pd.DataFrame(rows)["layer"].iloc[0], np.integer)
