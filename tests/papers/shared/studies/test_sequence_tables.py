"""What studies of sequences share: the tables of finished runs, and tests over seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy import stats

import interp_compose as ic
from interp_compose.errors import InputError
from interp_compose.runs.files import json_bytes
from interp_compose.studies.core.grid import RESULT, gathered
from tests.papers.lrf.studies.test_generalise import RIGHTS, result


def test_two_seeds_are_enough_for_a_test() -> None:
    found = result({name: rows[:2] for name, rows in RIGHTS.items()}).differences
    row = found.set_index(["model", "kind"]).loc[("lrf", "y")]
    test = stats.ttest_rel([6 / 30, 15 / 30], [3 / 30, 9 / 30])
    assert row["p"] == pytest.approx(test.pvalue)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(test.confidence_interval()))
    assert found["p_holm"].notna().all()


@pytest.mark.parametrize(("n", "last"), [(1, 0), (39, 38), (40, 38.5), (59, 57.5), (60, 58)])
def test_the_last_loss_is_the_mean_of_the_last_twentieth(
    tmp_path: Path, n: int, last: float
) -> None:
    losses = [float(step) for step in range(n)]
    found = {"n_parameters": 9, "step_seconds": 0.5, "losses": losses}
    (tmp_path / RESULT).write_bytes(json_bytes(found))
    place = {"model": "lrf", "seed": 0}
    (row,) = gathered(ic.lrf.Generalisation.SCHEMA, [place], [tmp_path])["runs"].to_dict("records")
    assert (row["steps"], row["first_loss"], row["last_loss"]) == (n, 0, last)


def test_runs_of_an_earlier_release_are_refused_by_name(tmp_path: Path) -> None:
    curve = [{"step": 1, "split": "test", "accuracy": 0.5}]
    found = {"n_parameters": 9, "step_seconds": 0.5, "losses": [1.0], "curve": curve}
    (tmp_path / RESULT).write_bytes(json_bytes(found))
    with pytest.raises(InputError, match=f"{tmp_path} is a run .* its curve lack n; remove"):
        gathered(ic.lrf.Generalisation.SCHEMA, [{"model": "lrf", "seed": 0}], [tmp_path])
