"""The heat map of a report: what stands in which cell, and what beside it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from interp_compose.studies.weights.figures import FORMATS, REFERENCES, TITLES, complexity_figure
from interp_compose.studies.weights.result import MATRICES, MEASURES

CONFIG = {"model": "a model", "n_layers": 2}


def rows(**changes: Any) -> pd.DataFrame:
    """W_Q with a head and W_in in layer 0, W_Q alone in layer 1; every number its own."""
    places = [(-1, "W_E", -1), (0, "W_in", -1), (0, "W_Q", -1), (0, "W_Q", 0), (1, "W_Q", -1)]
    made = []
    for i, (layer, matrix, head) in enumerate([*places, (2, "W_U", -1)]):
        row: dict[str, Any] = {name: 10.0 * i + j for j, name in enumerate(MATRICES.columns)}
        ends = {"layer": layer, "matrix": matrix, "head": head, "rows": 7, "cols": 5}
        made.append(row | ends | {"tied_to": ""} | changes)
    return pd.DataFrame(made)


def chart(frame: pd.DataFrame, measure: str = "stable_rank") -> Any:
    return complexity_figure(frame, measure, config=CONFIG).chart


@pytest.mark.parametrize("measure", MEASURES)
def test_a_cell_is_a_matrix_of_a_layer_with_its_heads_merged(measure: str) -> None:
    found = chart(rows(), measure)
    cells = rows().set_index(["matrix", "layer"])[lambda frame: frame["head"] == -1]
    number = cells[measure] / (cells[REFERENCES[measure]] if measure in REFERENCES else 1)
    assert list(found.rows) == ["W_Q", "W_in"]  # in the order of all kinds; no W_gate
    assert list(found.columns) == ["0", "1"]
    assert found.values == [[number["W_Q", 0], number["W_Q", 1]], [number["W_in", 0], None]]
    assert found.value_name.startswith(TITLES[measure])
    assert ("divided by a random matrix's" in found.value_name) == (measure in REFERENCES)
    assert found.title == f"a model: {TITLES[measure]} of weights"


def test_hovering_tells_the_shape_and_what_a_random_matrix_has() -> None:
    own, random = (40 + list(MATRICES.columns).index(f"{of}stable_rank") for of in ("", "random_"))
    assert chart(rows()).hover[0][1] == f"7 × 5; {own:.1f}, a random matrix: {random:.1f}"
    assert chart(rows()).hover[1][1] == ""  # no such matrix
    assert chart(rows(), "frobenius_norm").hover[0][1] == "7 × 5"


def test_embeddings_stand_in_the_subtitle() -> None:
    place = list(MATRICES.columns).index("frobenius_norm")
    assert chart(rows(), "frobenius_norm").subtitle == f"W_E {place:.1f} · W_U {50 + place:.1f}"
    frame = rows()
    frame.loc[5, "tied_to"] = "W_E"
    ratio = frame.loc[0, "stable_rank"] / frame.loc[0, "random_stable_rank"]
    told = f"1: a random matrix of the same shape · W_E {ratio:.2f} · W_U is W_E"
    assert chart(frame).subtitle == told


def test_what_has_no_number_is_an_empty_cell() -> None:
    frame = rows()
    frame.loc[4, "mean_abs_cosine"] = float("nan")
    found = chart(frame, "mean_abs_cosine")
    assert found.text(0, 1) == "not measured"
    assert found.value_format == ""  # as its numbers differ
    assert chart(frame, "n_directions").value_format == FORMATS["n_directions"]
