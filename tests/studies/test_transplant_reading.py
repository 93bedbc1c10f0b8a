"""What transplants say in sentences, of tables made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from interp_compose.stats.paired_shares import paired_shares
from interp_compose.studies.transplant.reading import answers, differences
from interp_compose.studies.transplant.result import Transplants

CONTROLS = ("own", "random phrase", "random direction")


def shares(n: int, share: float, start: int = 0) -> Any:
    """So many of ``n`` pairs, from one on."""
    return (np.arange(n) - start) % n < round(share * n)


def result(
    n: int, right: dict[tuple[int, str], dict[str, Any]], composed: float | None = 0.9
) -> Transplants:
    """Transplants whose expected answers, at (layer, pooling) by vector, are given in these
    pairs."""
    pairs = pd.DataFrame({"pair": np.arange(n), "donor": -1, "n_source": 1, "n_target": 1})
    texts = ("source", "source_phrase", "target", "target_phrase", "expected", "answer")
    pairs = pairs.assign(**dict.fromkeys((*texts, "composed", "type"), "a"), source_answer="")
    rows = pairs[["pair"]].assign(
        prediction=0, answer_right=False, remembered=False, expected_logprob=-1.0
    )
    rows = rows.assign(expected_rank=1, answer_logprob=-1.0, answer_rank=1, expected_right=False)
    clean = [rows.assign(run="target")]
    if composed is not None:
        clean.append(rows.assign(run="composed", expected_right=shares(n, composed)))
    outcomes = [
        rows.assign(layer=layer, pooling=pooling, vector=vector, expected_right=given)
        for (layer, pooling), by_vector in right.items()
        for vector, given in by_vector.items()
    ]
    return Transplants.from_outcomes(
        pd.concat(outcomes),
        pd.concat(clean).assign(prediction_text="a"),
        pairs,
        {"model": "tiny"},
        n_layers=3,
    )


def place(n: int, transplant: float, control: float, start: int = 0) -> dict[str, Any]:
    controls = dict.fromkeys(CONTROLS, shares(n, control, start))
    return {"transplant": shares(n, transplant), **controls}


def test_differences_are_of_each_control_at_each_place() -> None:
    n = 100
    found = result(n, {(0, "mean"): place(n, 0.6, 0.2, 10), (1, "mean"): place(n, 0.3, 0.3)})
    rows = differences(found)
    assert [*rows] == ["random phrase", "random direction"]
    by_hand = paired_shares(shares(n, 0.6), shares(n, 0.2, 10))
    assert rows["random phrase"][0]["difference"] == pytest.approx(0.4)
    assert rows["random phrase"][0]["ci_low"] == pytest.approx(by_hand.ci_low)
    assert rows["random phrase"][0]["p_holm"] == pytest.approx(2 * by_hand.p)  # of two places
    assert rows["random phrase"][1]["p_holm"] == 1


CASES = {
    "carried at one place": (
        lambda: result(
            400, {(0, "mean"): place(400, 0.6, 0.2), (1, "mean"): place(400, 0.21, 0.2)}
        ),
        "A phrase's vector is taken for the phrase at layer 0 (mean): the expected answer is given "
        "in 60 % of 400 pairs, more often than with a random phrase and a random direction, by 40 "
        "points [35, 45] (95 %); the prompts composed as text get it in 90 %.",
    ),
    "carried at several places": (
        lambda: result(
            400,
            {
                **{(0, name): place(400, 0.6, 0.2) for name in ("mean", "sum")},
                (1, "mean"): place(400, 0.5, 0.2),
                (1, "sum"): place(400, 0.2, 0.2),
            },
            composed=None,
        ),
        "A phrase's vector is taken for the phrase at layers 0 and 1 (mean), layer 0 (sum), most "
        "at layer 0 (mean): the expected answer is given in 60 % of 400 pairs, more often than "
        "with a random phrase and a random direction, by 40 points [35, 45] (95 %).",
    ),
    "within the margin": (
        lambda: result(2000, {(0, "max"): place(2000, 0.2, 0.2)}),
        "A phrase's vector is not taken for the phrase: the expected answer is given nowhere more "
        "than 5 points more often than with a random phrase and a random direction: between 0.2 "
        "points less and 0.2 more than with a random phrase (95 %); the prompts composed as text "
        "get it in 90 %.",
    ),
    "open": (
        lambda: result(40, {(0, "max"): place(40, 0.3, 0.2, 8)}),
        "Whether a phrase's vector is taken for the phrase is open at layer 0 (max): the expected "
        "answer is given between 7.5 points less and 27 more than with a random phrase (95 %); "
        "about 200 pairs would decide it, were it as measured; the prompts composed as text get it "
        "in 90 %.",
    ),
    "floor": (
        lambda: result(400, {(0, "max"): place(400, 0.01, 0.0)}, composed=0.02),
        "Whether a phrase's vector is taken for the phrase cannot be told: the model gives the "
        "expected answer in 2 % of the prompts composed as text as well.",
    ),
    "one pair": (
        lambda: result(1, {(0, "max"): place(1, 1.0, 0.0)}),
        "Whether a phrase's vector is taken for the phrase is open at layer 0 (max): the expected "
        "answer is given between 12 points less and 100 more than with a random phrase (95 %); "
        "about 100 pairs would decide it, were it as measured; the prompts composed as text get it "
        "in 100 %.",
    ),
    "no controls": (
        lambda: result(400, {(0, "mean"): {"transplant": shares(400, 0.6)}}, composed=None),
        "A phrase's vector is taken for the phrase at layer 0 (mean): the expected answer is given "
        "in 60 % of 400 pairs, more often than with the clean target, by 60 points [55, 65] "
        "(95 %).",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sentences(case: str) -> None:
    made, sentence = CASES[case]
    found = made()
    assert answers(found) == [sentence]
    assert found.sentences()[0] == sentence == found.summary().splitlines()[1]


def test_bands_of_controls_are_of_their_difference_to_the_transplant() -> None:
    """Of 100 pairs the transplant gives 60 and a control 50 of the same: the intervals of the
    shares overlap, that of the difference does not hold 0."""
    found = result(100, {(layer, "mean"): place(100, 0.6, 0.5) for layer in (0, 1)})
    shares = found.frame.set_index("vector")
    assert shares.loc["random phrase", "expected_high"].iloc[0] > 0.59
    assert shares.loc["transplant", "expected_low"].iloc[0] < 0.51
    chart = found.plot().chart
    transplant, *controls = sorted(chart.panels[0].lines, key=lambda line: "control" in line.label)
    assert transplant.low == transplant.high == transplant.y
    assert len(controls) == len(chart.panels[0].banded) == 3
    assert all(
        low > 0.4 and high < 0.6 for line in controls for high in line.high for low in line.low
    )
    assert "bands: 95 % intervals of the difference to the transplant, paired by pair" in (
        chart.subtitle
    )
    alone = result(100, {(layer, "mean"): {"transplant": np.arange(100) < 6} for layer in (0, 1)})
    chart = alone.plot().chart
    assert "of the difference to the clean target, paired by pair" in chart.subtitle
    assert all(low > 0 for line in chart.panels[0].lines for low in line.low)
