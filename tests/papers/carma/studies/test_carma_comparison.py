"""The comparison: its numbers by hand and its verdicts."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pandas as pd
import pytest

from interp_compose.errors import OptionError
from interp_compose.papers.carma.result import Comparison
from interp_compose.papers.carma.verdicts import verdicts
from tests.papers.carma.studies.carma_tables import (
    CONFIG,
    N_LAYERS,
    NOISE,
    POOLINGS,
    RATES,
    WOBBLE,
    against_ft,
    cells,
    compare,
    make_tables,
    pick,
)

T4 = 2.7764451051977987  # Student's t, 4 degrees of freedom, 97.5 %


# --- numbers -------------------------------------------------------------------------------------


def test_means_and_intervals_by_hand() -> None:
    frame = compare(gain={"accuracy": 20}).frame
    row = pick(frame, version="carma", metric="accuracy")
    values = [(620 + own + more) / 10 for own, more in zip(NOISE, WOBBLE, strict=True)]
    half = T4 * statistics.stdev(values) / math.sqrt(5)
    assert row["mean"] == pytest.approx(statistics.mean(values))
    assert row["sd"] == pytest.approx(statistics.stdev(values))
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(
        (row["mean"] - half, row["mean"] + half)
    )
    assert row["n_seeds"] == 5
    original = pick(frame, version="original", metric="accuracy")
    assert (original["mean"], original["sd"]) == (20.0, 0.0)


def test_cap_is_averaged_over_protocols_run_by_run() -> None:
    frame = compare().frame
    for layer in range(N_LAYERS):
        row = pick(frame, version="ft", metric="cap", layer=layer, pooling="average")
        parts = [
            pick(frame, version="ft", metric="cap", layer=layer, pooling=name) for name in POOLINGS
        ]
        assert row["mean"] == pytest.approx(10 * (layer + 1) + 1)  # 0, 10, 20 more of 1000
        assert row["mean"] == pytest.approx(statistics.mean(part["mean"] for part in parts))
        assert row["depth"] == layer / (N_LAYERS - 1)
        # the seeds' noise is the protocols' own: averaging does not shrink it
        assert row["sd"] == pytest.approx(statistics.stdev(NOISE) / 10)


def test_consistency_counts_those_right_before_and_after() -> None:
    comparison = compare(gain={"synonyms": 30})
    for rate in RATES:
        ft = [100 * (400 + own) / 500 for own in NOISE]
        carma = [a + 100 * (30 + more) / 500 for a, more in zip(ft, WOBBLE, strict=True)]
        row = pick(comparison.frame, version="ft", metric="consist_syn", rate=rate)
        assert row["mean"] == pytest.approx(statistics.mean(ft))
        cv = pick(comparison.frame, version="carma", metric="consist_syn_cv", rate=rate)
        assert cv["mean"] == pytest.approx(statistics.stdev(carma) / statistics.mean(carma))
        assert cv["ci_low"] < cv["mean"] < cv["ci_high"]
        gains = [100 * (c - f) / f for c, f in zip(carma, ft, strict=True)]
        gain = pick(comparison.frame, version="carma", metric="improvement_over_ft", rate=rate)
        assert gain["mean"] == pytest.approx(statistics.mean(gains))
        assert {"carma", "ft"} == set(
            comparison.frame.query("metric == 'improvement_over_original'")["version"]
        )


def test_differences_are_paired_by_seed() -> None:
    row = against_ft(compare(gain={"accuracy": 20}), "accuracy")
    apart = [(20 + more) / 10 for more in WOBBLE]
    error = statistics.stdev(apart) / math.sqrt(5)  # the noise that both share is gone
    assert row["difference"] == pytest.approx(2.0)
    assert row["standard_error"] == pytest.approx(error)
    assert row["ci_low"] == pytest.approx(2.0 - T4 * error)
    assert row["ci_high"] == pytest.approx(2.0 + T4 * error)
    assert row["n_seeds"] == 5
    assert row["mean_first"] - row["mean_second"] == pytest.approx(2.0)


def test_correction_is_within_a_family_of_one_pair() -> None:
    tables = make_tables(gain={"accuracy": 4, "cap": 2, "synonyms": 3})
    tables["synonyms"].loc[tables["synonyms"]["rate"] == RATES[1], "n_both"] -= 1  # not the same
    differences = Comparison.from_runs(tables, CONFIG).differences
    seen = {}
    for key, rows in differences.groupby(["first", "second", "family"], sort=False):
        order = rows[rows["p"].notna()].sort_values("p", kind="stable")
        seen[key] = len(order)
        worst = 0.0
        for k, (p, corrected) in enumerate(zip(order["p"], order["p_holm"], strict=True)):
            worst = max(worst, min(1.0, p * (len(order) - k)))
            assert corrected == pytest.approx(worst)
        assert set(rows["n_compared"]) == {len(order)}
    headline = 1 + N_LAYERS + len(RATES)
    assert seen.pop(("carma", "ft", "representations")) == 2 * N_LAYERS  # one stable rank in both
    assert {key[2]: n for key, n in seen.items()} == {
        "headline": headline,
        "protocols": N_LAYERS * len(POOLINGS),
        "representations": 3 * N_LAYERS,
    }
    assert len(seen) == 8


def test_overhead_is_a_ratio_of_steps_per_seed() -> None:
    comparison = compare()
    assert comparison.overhead["step_ratio"].tolist() == pytest.approx(
        [1.1, 1.11, 1.12, 1.13, 1.14]
    )
    assert comparison.overhead["ratio"].tolist() == pytest.approx([1.1, 1.11, 1.12, 1.13, 1.14])
    said = dict(verdicts(comparison))["Overhead"]
    assert said.startswith("a step of CARMA takes 1.12 times as long as one of plain fine-tuning")
    assert "(1.10 … 1.14 over 5 seeds)" in said


@pytest.mark.parametrize(("steps", "timed"), [(1, False), (2, False), (9, False), (10, True)])
def test_few_steps_time_nothing(steps: int, timed: bool) -> None:
    tables = make_tables()
    tables["training"].loc[0, "steps"] = steps
    comparison = Comparison.from_runs(tables, CONFIG)
    for said in (dict(verdicts(comparison))["Overhead"], comparison.summary()):
        assert ("times as long" in said) is timed
        assert ("cannot time" in said) is not timed


# --- what is there, and what is not ----------------------------------------------------------


def test_the_columns_are_the_ones_documented() -> None:
    comparison = compare()
    assert list(comparison.frame) == [
        *("version", "metric", "rate", "layer", "depth", "pooling"),
        *("mean", "sd", "ci_low", "ci_high", "n_seeds"),
    ]
    assert list(comparison.differences) == [
        *("first", "second", "metric", "rate", "layer", "depth", "pooling"),
        *("mean_first", "mean_second", "difference", "standard_error", "ci_low", "ci_high"),
        *("n_seeds", "p", "p_holm", "n_compared", "family", "verdict", "caveat"),
    ]
    documented = Comparison.frame.__doc__ or ""
    assert all(name in documented for name in set(comparison.frame["metric"]))


def test_without_a_fine_tuned_model_nothing_is_compared(tmp_path: Path) -> None:
    alone = compare(versions=("original",))
    assert alone.differences.empty
    pd.testing.assert_frame_equal(
        Comparison.load(alone.save(tmp_path)).differences, alone.differences
    )
    assert verdicts(alone) == []
    assert list(alone.figures()) == [
        "cap_average",
        "cap_protocols",
        "consistency",
        "representations",
    ]
    assert alone.overhead.empty
    assert "accuracy (%)" in alone.summary()
    trained = compare(versions=("ft", "carma"))
    assert set(trained.differences["first"]) == {"carma"}


def test_a_model_that_is_never_right_has_no_consistency() -> None:
    tables = make_tables()
    tables["synonyms"][["n_before", "n_after", "n_both"]] = 0
    comparison = Comparison.from_runs(tables, CONFIG)
    rows = comparison.frame.query("metric == 'consist_syn'")
    assert rows["mean"].isna().all()
    assert set(rows["n_seeds"]) == {0}
    assert "consistency" not in comparison.figures()
    assert dict(verdicts(comparison))["CV of ConsistSyn, 25 % replaced"].startswith("undefined")
    undefined = "undefined: no prompt was right before"
    assert set(comparison.differences.query("metric == 'consist_syn'")["verdict"]) == {undefined}
    assert dict(verdicts(comparison))["ConsistSyn, 25 % replaced"] == undefined
    assert "25 % replaced – – – – – – – undefined" in cells(comparison, "consist_syn")
    assert f"– – – – {undefined}" in " ".join(comparison.summary().split())
    assert "nan" not in comparison.summary()


def test_summary_is_an_aligned_table() -> None:
    lines = compare(gain={"cap": 20}).summary().splitlines()
    assert lines[0] == "model tiny · task mini-idm · 5 seeds"
    start = lines.index("mean over seeds             Original        FT     CARMA"
                        "    CARMA − FT (SE)  verdict")  # fmt: skip
    assert lines[start + 1] == (
        "accuracy (%)                    20.0      60.0      60.0       +0.00 (0.07)   "
        "no difference established"
    )
    assert lines[start + 2].startswith("CAP at layer 0 (%)")
    assert lines[start + 2].endswith("CARMA higher by 2.00 points (SE 0.07, 5 seeds)")
    cv = next(line for line in lines if line.startswith("CV of ConsistSyn, 25 %"))
    assert cv.split()[5:] == ["–", "0.005", "0.008"]  # the original's is of another kind


def test_bands_are_of_the_difference_to_fine_tuning() -> None:
    """CARMA's curve, and the original's, with the ends of the paired interval, whatever seeds have
    in common; of two seeds their differences."""
    comparison = compare(gain={"cap": 20})
    ft, carma, original = (
        next(line for line in comparison.plot_cap().chart.panels[0].lines if name in line.label)
        for name in ("FT", "CARMA", "Original")
    )
    assert ft.low == ft.high == ft.y
    rows = comparison.differences.query("metric == 'cap' and pooling == 'average'")
    rows = rows[rows["layer"] == 0].set_index(["first", "second"])
    to_ft, of_ft = rows.loc[("carma", "ft")], rows.loc[("ft", "original")]
    for line, low, high in (
        (carma, to_ft["ci_low"], to_ft["ci_high"]),
        (original, -of_ft["ci_high"], -of_ft["ci_low"]),
    ):
        assert 100 * line.low[0] == pytest.approx(max(0.0, 100 * ft.y[0] + low))
        assert 100 * line.high[0] == pytest.approx(100 * ft.y[0] + high)
    assert "bands: 95 % intervals of the difference to FT, paired by seed" in (
        comparison.plot_cap().chart.subtitle
    )
    tables = make_tables(gain={"cap": 20})
    two = {
        name: table[table["seed"] < 2] if "seed" in table else table
        for name, table in tables.items()
    }
    chart = Comparison.from_runs(two, CONFIG).plot_cap().chart
    assert "2 seeds · bands: from one seed's difference to FT to the other's" in chart.subtitle


def test_a_protocol_that_was_not_run() -> None:
    with pytest.raises(OptionError, match="'last' was not run; choose average, mean, max, sum"):
        compare().plot_cap("last")
