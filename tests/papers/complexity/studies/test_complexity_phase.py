"""The paper's rule for phases, cells from runs, and grids as they are written."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from interp_compose.errors import InputError, OptionError
from interp_compose.papers.complexity.studies.anchors.grid import runs_of
from interp_compose.papers.complexity.studies.anchors.phase import (
    cells_of,
    doubt_of,
    onsets_of,
    phase_of,
    with_phases,
)
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.complexity.studies.phases.measure import phase_diagram
from interp_compose.papers.complexity.studies.phases.result import PhaseDiagram
from interp_compose.studies.core.grid import numbers
from interp_compose.studies.core.options import GridOptions


@pytest.mark.parametrize(
    ("train", "id", "ood", "commutativity", "phase"),
    [
        (1.0, 0.89, 1.0, 1.0, "1"),
        (1.0, 0.9, 0.5, 0.69, "2"),
        (1.0, 0.9, 0.5, 0.7, "2c"),
        (1.0, 0.9, 0.51, 0.0, "3"),
        (1.0, 0.0, 0.0, 0.0, "1"),
        (1.0, 1.0, 1.0, 1.0, "3"),
        (0.9, 0.0, 0.0, 0.0, "1"),
        (math.nextafter(0.9, 0), 0.0, 0.0, 0.0, "0"),
        (0.89, 1.0, 1.0, 1.0, "0"),
        (0.0, 0.0, 0.0, 0.0, "0"),
        (0.9, 0.9, 0.6, 1.0, "3"),
    ],
)
def test_the_rule(train: float, id: float, ood: float, commutativity: float, phase: str) -> None:
    assert phase_of(train, id, ood, commutativity) == phase


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
@pytest.mark.parametrize("place", range(4))
def test_no_share_is_refused(bad: float, place: int) -> None:
    shares = [0.5] * 4
    shares[place] = bad
    with pytest.raises(InputError, match="expected a share between 0 and 1"):
        phase_of(*shares)


def runs(**columns: list[object]) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    filled: dict[str, list[object]] = {
        "init_rate": [0.5] * n,
        "weight_decay": [0.1] * n,
        "seed": list(range(n)),
        "finite": [True] * n,
        "train": [1.0] * n,
        "id": [1.0] * n,
        "ood": [0.0] * n,
        "commutativity": [0.0] * n,
        "stable_rank": [2.0] * n,
        "mean_abs_cosine": [0.1] * n,
    }
    return with_phases(pd.DataFrame(filled | columns))


def test_a_cell_is_the_mean_of_its_sound_runs() -> None:
    frame = runs(
        ood=[0.2, 0.9, 0.6, 0.0],
        stable_rank=[2.0, 4.0, 9.0, math.nan],
        finite=[True, True, True, False],
    )
    (cell,) = cells_of(frame).to_dict("records")
    assert (cell["n"], cell["diverged"]) == (4, 1)
    assert (cell["ood"], cell["ood_low"], cell["ood_high"]) == pytest.approx((1.7 / 3, 0.2, 0.9))
    assert cell["stable_rank"] == 5
    assert cell["phase"] == "3"  # of the mean, as in the paper
    assert cell["agree"] == pytest.approx(2 / 3)
    assert cell["doubt"] == "?"


def test_runs_that_did_not_fit_are_marked_as_such() -> None:
    low = {"id": [0.1] * 3, "ood": [0.0] * 3}
    (cell,) = cells_of(runs(train=[0.5, 0.9, 0.95], **low)).to_dict("records")
    assert (cell["phase"], cell["doubt"]) == ("0", "??")  # a mean of 0.78; two of three fitted
    (cell,) = cells_of(runs(train=[0.8, 0.95, 1.0], **low)).to_dict("records")
    assert (cell["phase"], cell["doubt"]) == ("1", "?")
    (cell,) = cells_of(runs(train=[0.5, 0.6, 0.7], **low)).to_dict("records")
    assert (cell["phase"], cell["doubt"]) == ("0", "")


def test_a_phase_of_another_rule_is_not_believed() -> None:
    stale = runs(train=[0.5, 1.0], id=[0.1, 0.1], finite=[True, False]).assign(phase="1")
    assert with_phases(stale)["phase"].tolist() == ["0", ""]
    loaded = PhaseDiagram(config={}, frames={"runs": stale}, versions={})
    assert loaded.frame["phase"].tolist() == ["0", ""]
    (cell,) = loaded.cells.to_dict("records")
    assert (cell["phase"], cell["agree"]) == ("0", 1)


def test_a_cell_that_diverged_has_no_phase() -> None:
    (cell,) = cells_of(runs(finite=[False, False])).to_dict("records")
    assert (cell["n"], cell["diverged"], cell["phase"]) == (2, 2, "")
    assert math.isnan(cell["ood"])
    assert math.isnan(cell["agree"])
    assert cell["doubt"] == ""


@pytest.mark.parametrize(
    ("agree", "mark"),
    [(1.0, ""), (0.9, "?"), (0.5, "?"), (0.49, "??"), (0.0, "??"), (math.nan, "")],
)
def test_a_phase_that_seeds_do_not_share_is_marked(agree: float, mark: str) -> None:
    assert doubt_of(agree) == mark


def test_one_row_for_each_rate_and_weight_decay() -> None:
    frame = runs(init_rate=[0.3, 0.5, 0.3, 0.5], weight_decay=[0.0, 0.0, 0.1, 0.1])
    cells = cells_of(frame)
    places = list(zip(cells["init_rate"], cells["weight_decay"], strict=True))
    assert sorted(places) == [(0.3, 0.0), (0.3, 0.1), (0.5, 0.0), (0.5, 0.1)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.3:1.0:0.1", [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        ("0,0.01,0.1,1", [0, 0.01, 0.1, 1]),
        ("0.2,0.4:0.5:0.05,1", [0.2, 0.4, 0.45, 0.5, 1]),
        ("0.5:0.5:0.1", [0.5]),
        ("1:0:-0.5", [1, 0.5, 0]),
        ("0.3:0.55:0.1", [0.3, 0.4, 0.5]),
    ],
)
def test_numbers_as_they_are_written(text: str, values: list[float]) -> None:
    assert numbers(text, "gammas") == values


@given(st.integers(0, 50), st.integers(1, 60), st.sampled_from([0.01, 0.05, 0.1, 0.25]))
def test_both_ends_are_in(start: int, count: int, step: float) -> None:
    low = start * step
    found = numbers(f"{low}:{low + (count - 1) * step}:{step}", "gammas")
    assert found == pytest.approx([low + i * step for i in range(count)])


@pytest.mark.parametrize(
    "text", ["", "a", "0.3:0.4", "0.3:0.4:0", "0.4:0.3:0.1", "0:1:1e-9", "0:inf:1", "0.1,,0.2"]
)
def test_what_is_no_grid_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="gammas="):
        numbers(text, "gammas")


def test_every_run_of_a_grid() -> None:
    axes = {"weight_decay": [0.0, 1.0], "init_rate": [0.3, 0.5]}
    found = runs_of(PhaseRun(steps=7), axes, GridOptions(seeds=3, first_seed=4))
    assert [(run.seed, run.weight_decay, run.init_rate) for run in found] == [
        (seed, decay, rate) for seed in (4, 5, 6) for decay in (0.0, 1.0) for rate in (0.3, 0.5)
    ]
    assert {run.steps for run in found} == {7}


@pytest.mark.parametrize(
    ("rates", "decays", "seeds", "first", "message"),
    [
        ([], [0.0], 1, 0, "init_rates="),
        ([0.3, 0.3], [0.0], 1, 0, "init_rates holds 0.3 twice"),
        ([0.3], [0.0, 0.0], 1, 0, "weight_decays holds 0 twice"),
        ([0.3, 0.300000001], [0.0], 1, 0, "0.3 and 0.300000001, which tables and figures both"),
        ([0.3], [-1.0], 1, 0, "weight_decays holds -1"),
        ([math.nan], [0.0], 1, 0, "init_rates holds nan"),
        ([0.3], [0.0], 0, 0, "seeds=0"),
        ([0.3], [0.0], 10**9, 0, "seeds=1000000000: expected a whole number, 1 to 10000"),
        ([0.3], [0.0], 1, -1, "first_seed=-1"),
    ],
)
def test_an_axis_that_cannot_be_is_refused(
    rates: list[float],
    decays: list[float],
    seeds: int,
    first: int,
    message: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(OptionError, match=message):
        phase_diagram(rates, decays, tmp_path / "out", seeds=seeds, first_seed=first)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("field", "value", "instead"),
    [("seed", 5, "first_seed"), ("init_rate", 0.4, "init_rates"), ("weight_decay", 1.0, "weight_")],
)
def test_settings_of_a_run_that_the_grid_states_are_refused(
    field: str, value: float, instead: str, tmp_path: Path
) -> None:
    run = PhaseRun(**{field: value})
    with pytest.raises(OptionError, match=rf"run.{field}={value} is not read here: give {instead}"):
        phase_diagram([0.3], [0.0], tmp_path / "out", seeds=1, run=run)
    assert not (tmp_path / "out").exists()


def test_which_came_first() -> None:
    looks = pd.DataFrame(
        {
            "init_rate": [0.8] * 4 + [0.3] * 4,
            "weight_decay": 0.1,
            "seed": 1,
            "step": [0, 10, 20, 30] * 2,
            "ood": [0.0, 0.5, 0.6, 0.4, 0.0, 0.1, 0.2, 0.3],
            "stable_rank": [16.0, 10.0, 9.0, 2.0, 16.0, 12.0, 10.0, 9.0],
        }
    )
    memorises, reasons = onsets_of(looks).to_dict("records")
    assert (reasons["reasons"], reasons["condenses"]) == (20, 20)
    assert math.isnan(memorises["reasons"])
    assert math.isnan(memorises["condenses"])
    looks["stable_rank"] = math.nan
    assert onsets_of(looks)["condenses"].isna().all()
