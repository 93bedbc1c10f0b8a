"""The CAP curve: its definitions by hand, its figures."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from interp_compose.errors import InputError, OptionError
from interp_compose.studies.cap.result import CONTROLS, POOLINGS, CapCurve, compare_curves

N, LAYERS, N_LAYERS = 7, (0, 2, 4), 5
CONFIG = {"model": "tiny", "task": "mini-idm", "unit": "word", "seed": 42}
Z95 = 1.959963984540054


def make_clean(n: int = N, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    correct = rng.random(n) < 0.7
    correct[:2] = [True, False]
    affected = np.arange(n) % 5 != 3
    return pd.DataFrame(
        {
            "example": np.arange(n),
            "prompt": [f"a small thing {i} is called a" for i in range(n)],
            "answer": [" kitten"] * n,
            "prediction": np.where(correct, 11, 13),
            "prediction_text": [" kitten" if right else " <b>cat</b>" for right in correct],
            "correct": correct,
            "target_logprob": -rng.random(n),
            "target_rank": np.where(correct, 1, rng.integers(2, 50, n)),
            "affected": affected,
            "n_tokens": 9,
            "n_groups": np.where(affected, 6, 9),
        }
    )


def make_outcomes(
    clean: pd.DataFrame,
    poolings: tuple[str, ...] = POOLINGS + CONTROLS,
    layers: tuple[int, ...] = LAYERS,
    seed: int = 1,
) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for layer, pooling, base in itertools.product(layers, poolings, clean.to_dict("records")):
        row = {"example": base["example"], "layer": layer, "pooling": pooling}
        if base["affected"]:
            right = bool(rng.random() < 0.5)
            row |= {"prediction": 11 if right else 17, "correct": right}
            row |= {"target_logprob": -float(rng.random()), "target_rank": 1 if right else 5}
        else:
            same = ("prediction", "correct", "target_logprob", "target_rank")
            row |= {key: base[key] for key in same}
        rows.append(row)
    return pd.DataFrame(rows)


def make_curve(**changes: object) -> CapCurve:
    clean = make_clean()
    return CapCurve.from_outcomes(make_outcomes(clean, **changes), clean, CONFIG, n_layers=N_LAYERS)


def test_every_number_of_the_frame_by_hand() -> None:
    clean = make_clean()
    outcomes = make_outcomes(clean)
    frame = CapCurve.from_outcomes(outcomes, clean, CONFIG, n_layers=N_LAYERS).frame
    expected_order = list(itertools.product(POOLINGS + CONTROLS, LAYERS))
    assert list(zip(frame["pooling"], frame["layer"], strict=True)) == expected_order
    was_right = {row["example"]: row["correct"] for row in clean.to_dict("records")}
    for row in frame.to_dict("records"):
        mine = [
            o
            for o in outcomes.to_dict("records")
            if o["layer"] == row["layer"] and o["pooling"] == row["pooling"]
        ]
        p = sum(o["correct"] for o in mine) / N
        kept = [o["correct"] for o in mine if was_right[o["example"]]]
        half = Z95 * math.sqrt(p * (1 - p) / N + Z95**2 / (4 * N**2)) / (1 + Z95**2 / N)
        centre = (p + Z95**2 / (2 * N)) / (1 + Z95**2 / N)
        assert row["accuracy"] == pytest.approx(p)
        assert row["ci_low"] == pytest.approx(centre - half, abs=1e-9)
        assert row["ci_high"] == pytest.approx(centre + half, abs=1e-9)
        assert row["accuracy_kept"] == pytest.approx(sum(kept) / len(kept))
        assert row["n_clean_correct"] == len(kept)
        assert row["target_logprob"] == pytest.approx(sum(o["target_logprob"] for o in mine) / N)
        assert row["target_rank"] == statistics.median(o["target_rank"] for o in mine)
        assert row["depth"] == row["layer"] / (N_LAYERS - 1)
        assert row["n"] == N
        assert row["n_affected"] == sum(clean["affected"])
        assert row["clean_accuracy"] == pytest.approx(sum(was_right.values()) / N)
        assert row["clean_target_logprob"] == pytest.approx(sum(clean["target_logprob"]) / N)


def test_the_columns_are_the_ones_documented() -> None:
    curve = make_curve()
    assert list(curve.frame) == [
        "layer", "depth", "pooling", "accuracy", "ci_low", "ci_high", "accuracy_kept",
        "target_logprob", "target_rank", "n", "n_affected", "n_clean_correct",
        "clean_accuracy", "clean_target_logprob",
    ]  # fmt: skip
    assert list(curve.outcomes) == [
        "example", "layer", "pooling", "prediction", "correct", "target_logprob", "target_rank",
    ]  # fmt: skip
    assert all(column in (CapCurve.frame.__doc__ or "") for column in curve.frame)


def test_nothing_kept_where_the_clean_model_is_never_right() -> None:
    clean = make_clean().assign(correct=False)
    outcomes = make_outcomes(clean)
    frame = CapCurve.from_outcomes(outcomes, clean, CONFIG, n_layers=N_LAYERS).frame
    assert frame["accuracy_kept"].isna().all()
    assert (frame["n_clean_correct"] == 0).all()
    assert frame["accuracy"].notna().all()


def test_one_block_and_one_example_is_enough() -> None:
    clean = make_clean().iloc[:1]
    outcomes = make_outcomes(clean, ("sum",), (0,))
    curve = CapCurve.from_outcomes(outcomes, clean, {}, n_layers=1)
    assert curve.frame["depth"].tolist() == [0.0]
    ends = ["ci_low", "ci_high"]
    assert curve.average()[ends].to_numpy() == pytest.approx(curve.frame[ends].to_numpy())
    assert (curve.average()["ci_low"] < curve.average()["ci_high"]).all()
    curve.plot()
    curve.plot(normalised_depth=True, average=True)


def test_average_is_the_mean_over_protocols_without_controls() -> None:
    curve = make_curve()
    average = curve.average()
    assert average["layer"].tolist() == list(LAYERS)
    assert average["depth"].tolist() == [0.0, 0.5, 1.0]
    for row in average.to_dict("records"):
        at_layer = curve.outcomes[curve.outcomes["layer"] == row["layer"]]
        parts = [at_layer[at_layer["pooling"] == p]["correct"].mean() for p in POOLINGS]
        assert row["accuracy"] == pytest.approx(sum(parts) / 3)
        assert row["ci_low"] <= row["accuracy"] <= row["ci_high"]
        assert row["n"] == N


def test_protocols_that_agree_add_no_certainty() -> None:
    """Three copies of one protocol are not three times the examples."""
    clean = make_clean(211).assign(affected=True)
    one = make_outcomes(clean, ("mean",))
    three = pd.concat([one.assign(pooling=name) for name in POOLINGS])
    single = CapCurve.from_outcomes(one, clean, CONFIG, n_layers=N_LAYERS).average()
    triple = CapCurve.from_outcomes(three, clean, CONFIG, n_layers=N_LAYERS).average()
    np.testing.assert_allclose(single["ci_low"], triple["ci_low"], rtol=0, atol=1e-12)
    wilson = CapCurve.from_outcomes(one, clean, CONFIG, n_layers=N_LAYERS).frame
    width = (wilson["ci_high"] - wilson["ci_low"]).to_numpy()
    boot = (triple["ci_high"] - triple["ci_low"]).to_numpy()
    np.testing.assert_allclose(boot, width, rtol=0.15)


def test_controls_alone_have_no_average() -> None:
    curve = make_curve(poolings=CONTROLS)
    with pytest.raises(
        InputError, match=r"only \['first', 'last', 'sh.*\] were run; run at least one"
    ):
        curve.average()


def test_summary_is_an_aligned_table() -> None:
    clean = make_clean()
    outcomes = make_outcomes(clean).assign(correct=False)
    outcomes.loc[outcomes["example"] == 3, "correct"] = clean["correct"][3]
    curve = CapCurve.from_outcomes(outcomes, clean, CONFIG, n_layers=N_LAYERS)
    lines = curve.summary().splitlines()
    right = int(clean["correct"].sum())
    share = int(clean["correct"][3]) / N
    assert (
        lines[0]
        == "model tiny · task mini-idm · unit word · 7 examples, 6 with a unit of several tokens"
    )
    assert lines[1].startswith(f"clean accuracy {right / N:.3f} [")
    assert lines[2:5] == [*curve.sentences()[:2], ""]
    del lines[2:5]
    assert lines[2] == "accuracy with units pooled (controls: last, first, straddling, shuffled):"
    assert lines[3] == (
        "layer  depth      mean       max       sum      last     first  straddling  shuffled"
    )
    assert lines[4] == "    0   0.00" + f"     {share:.3f}" * 5 + f"{share:12.3f}{share:10.3f}"
    assert len({len(line) for line in lines[3 : 4 + len(LAYERS)]}) == 1
    assert lines[5 + len(LAYERS)].startswith(
        "mean − control, paired by example: 95 % interval, not corrected for the number of compar"
    )
    tables = [lines[6 + len(LAYERS) :][:4], lines[10 + len(LAYERS) : -1]]
    for table, controls in zip(
        tables, (("last", "first"), ("straddling", "shuffled")), strict=True
    ):
        assert len(table) == 1 + len(LAYERS)
        assert len({len(line) for line in table}) == 1
        assert [name for name in CONTROLS if f"− {name} " in table[0]] == list(controls)
    assert lines[-1] == (
        "! 7 examples, fewer than 30: the 95 % interval of an accuracy of 0.5 is [0.20, 0.80]"
    )


def test_a_result_of_two_controls_is_read_and_shown(tmp_path: Path) -> None:
    """As they were saved before there were four."""
    make_curve(poolings=(*POOLINGS, "last", "shuffled")).save(tmp_path / "curve")
    curve = CapCurve.load(tmp_path / "curve")
    lines = curve.summary().splitlines()
    assert "accuracy with units pooled (controls: last, shuffled):" in lines
    assert sum(line.startswith("layer  depth") for line in lines) == 2
    assert list(drawn(curve.plot())) == [*POOLINGS, "last", "shuffled"]
    cost, clean = curve.sentences()  # what a layer shows takes the control first
    assert "Pooling words by mean" in cost or "No cost of pooling words by mean" in cost
    assert "one token off" not in cost
    assert "the clean model" in clean
    both = curve.differences_from(make_curve())
    assert {*both["pooling"]} == {"clean", *POOLINGS, "last", "shuffled"}


def test_the_summary_tells_on_which_side_of_0_an_interval_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curve = make_curve()
    ends = {"difference": 0.007, "ci_low": 0.000043, "ci_high": 0.0138}
    close = curve.differences("mean", "last").assign(**ends)
    monkeypatch.setattr(CapCurve, "differences", lambda *names, value: close)
    assert " +0.007 [+0.000043, +0.014] " in curve.summary()


def test_differences_pair_examples() -> None:
    curve = make_curve()
    right = {
        (row["example"], row["layer"], row["pooling"]): row["correct"]
        for row in curve.outcomes.to_dict("records")
    }
    clean = dict(zip(curve.clean["example"], curve.clean["correct"], strict=True))
    for second in ("shuffled", "clean"):
        table = curve.differences("mean", second)
        assert table["layer"].tolist() == list(LAYERS)
        for row in table.to_dict("records"):
            pairs = [
                (right[e, row["layer"], "mean"], right.get((e, row["layer"], second), clean[e]))
                for e in range(N)
            ]
            only = [sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)]
            assert [row["only_first"], row["only_second"]] == only
            assert row["difference"] == pytest.approx((only[0] - only[1]) / N)
            assert row["n"] == N
            assert row["p"] <= row["p_holm"] <= 1
    assert all(column in (CapCurve.differences.__doc__ or "") for column in table)
    for first, second in (("mean", "mean"), ("clean", "mean"), ("mean", "own")):
        with pytest.raises(OptionError, match="expected two of mean, max, sum, last, first, str"):
            curve.differences(first, second)


@pytest.mark.parametrize("long", [True, False], ids=["several tokens", "nothing right"])
def test_where_accuracy_says_little_differences_are_of_log_probabilities(long: bool) -> None:
    clean = make_clean().assign(**({} if long else {"correct": False}))
    outcomes = make_outcomes(clean).assign(**({} if long else {"correct": False}))
    config = {**CONFIG, "answer_tokens": {"1": 2, "3": 5}} if long else CONFIG
    curve = CapCurve.from_outcomes(outcomes, clean, config, n_layers=N_LAYERS)
    value = {
        (row["example"], row["layer"], row["pooling"]): row["target_logprob"]
        for row in outcomes.to_dict("records")
    }
    for second in ("straddling", "clean"):
        table = curve.differences("mean", second, value="target_logprob")
        for row in table.to_dict("records"):
            one = [value[e, row["layer"], "mean"] for e in range(N)]
            two = [
                value.get((e, row["layer"], second), clean["target_logprob"][e]) for e in range(N)
            ]
            changes = [a - b for a, b in zip(one, two, strict=True)]
            half = 2.446912 * statistics.stdev(changes) / math.sqrt(N)  # t of 6 degrees of freedom
            assert row["difference"] == pytest.approx(statistics.mean(changes))
            assert row["ci_high"] - row["difference"] == pytest.approx(half, rel=1e-6)
            assert row["difference"] - row["ci_low"] == pytest.approx(half, rel=1e-6)
            assert row["p"] == pytest.approx(ttest_rel(one, two).pvalue)
            higher = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
            assert (row["only_first"], row["only_second"]) == higher
            assert (row["n"], row["p"] <= row["p_holm"] <= 1) == (N, True)
    shown = curve.summary()
    assert "mean − control, nats an answer, paired by example" in shown
    assert "p of the paired t test, by Holm" in shown
    assert "McNemar" not in shown + " ".join(curve.sentences())
    differences = curve.differences("mean", value="target_logprob")
    told = differences.nsmallest(1, "difference").iloc[0]
    cost = curve.sentences()[0]
    assert f"layer {told['layer']}" in cost
    assert all(f"{abs(told[end]):.2f}" in cost for end in ("ci_low", "ci_high"))
    assert {*curve.figures()} == {"cap_curve", "cap_logprob"}


def test_one_example_has_no_paired_log_probabilities() -> None:
    clean = make_clean()[:1].assign(correct=False)
    outcomes = make_outcomes(clean).assign(correct=False)
    curve = CapCurve.from_outcomes(outcomes, clean, CONFIG, n_layers=N_LAYERS)
    assert "mean − control" not in curve.summary()
    assert len(curve.sentences()) == 1
    with pytest.raises(InputError, match="a paired difference needs 2 examples"):
        curve.differences("mean", value="target_logprob")
    subtitle = curve.plot(value="target_logprob").chart.subtitle
    assert subtitle.endswith("mean over 1 example")  # and no word of bands, which are not drawn
    assert "bands: 95 % intervals of the difference" in curve.plot().chart.subtitle  # Newcombe's


def test_differences_of_two_curves_pair_examples() -> None:
    one = make_curve()
    clean, outcomes = make_clean(), one.outcomes.copy()
    affected = outcomes["example"].isin(clean.loc[clean["affected"], "example"])
    outcomes.loc[affected & (outcomes["pooling"] == "max"), "correct"] = False
    outcomes = outcomes[outcomes["pooling"].isin(["mean", "max"])]
    other = CapCurve.from_outcomes(outcomes, clean, CONFIG, n_layers=N_LAYERS)
    table = one.differences_from(other)
    places = [("clean", -1), *((how, at) for at in LAYERS for how in ("max", "mean"))]
    assert sorted(zip(table["pooling"], table["layer"], strict=True)) == sorted(places)
    for row in table.to_dict("records"):
        own = one.outcomes[
            (one.outcomes["pooling"] == row["pooling"]) & (one.outcomes["layer"] == row["layer"])
        ]
        lost = own["correct"] & own["example"].isin(clean.loc[clean["affected"], "example"])
        expected = int(lost.sum()) if row["pooling"] == "max" else 0
        assert (row["only_first"], row["only_second"], row["n"]) == (expected, 0, N)
        assert row["difference"] == pytest.approx(expected / N)
        assert row["p"] <= row["p_holm"] <= 1
    assert table["only_first"].sum() > 0
    deeper = CapCurve.from_outcomes(one.outcomes, clean, CONFIG, n_layers=N_LAYERS + 1)
    assert set(deeper.differences_from(one)["layer"]) == {-1, 0}  # layer 0 has the same depth
    changed = clean.assign(prompt=clean["prompt"].where(clean["example"] != 2, "another"))
    foreign = CapCurve.from_outcomes(one.outcomes, changed, CONFIG, n_layers=N_LAYERS)
    with pytest.raises(InputError, match=f"have 1 of {N} examples that differ in prompt"):
        one.differences_from(foreign)
    with pytest.raises(InputError, match=f"the curves have {N} and 30 examples; run both on the"):
        one.differences_from(_large())


def test_a_clean_model_that_gets_nothing_right_is_named() -> None:
    clean = make_clean().assign(correct=False)
    outcomes = make_outcomes(clean).assign(correct=False)
    curve = CapCurve.from_outcomes(outcomes, clean, CONFIG, n_layers=N_LAYERS)
    said = "the clean model gets nothing right"
    assert said in curve.summary()
    assert "mean log-probability of the answer (nats)" in curve.summary()
    assert said in json.loads(curve._files()["result.json"])["notes"][0]
    figures = curve.figures()
    assert said in figures["cap_curve"].chart.subtitle
    panel = figures["cap_logprob"].chart.panels[0]
    assert panel.levels[0].label.startswith("clean \N{MINUS SIGN}0.")
    lines = {line.label: line for line in panel.lines}
    for name, line in lines.items():
        name = name.removesuffix(" (control)")
        rows = curve.frame[curve.frame["pooling"] == name]
        assert line.y == pytest.approx(rows["target_logprob"].tolist())
        at_0 = outcomes.query("layer == 0 and pooling == @name").set_index("example")
        before = clean.set_index("example")["target_logprob"]
        changes = [at_0["target_logprob"][e] - before[e] for e in before.index]
        half = 2.446912 * statistics.stdev(changes) / math.sqrt(N)  # t of 6 degrees of freedom
        assert line.high[0] - line.y[0] == pytest.approx(half, rel=1e-6)
        assert line.y[0] - line.low[0] == pytest.approx(half, rel=1e-6)
    told = "95 % intervals of the difference to clean, paired by example"
    assert told in figures["cap_logprob"].chart.subtitle
    assert said not in make_curve().summary()
    assert "notes" not in json.loads(_large()._files()["result.json"])


def test_a_clean_model_no_better_than_the_most_common_answer_is_named() -> None:
    answers = [" kitten", " bird"] * (N // 2 + 1)
    clean = make_clean().assign(answer=answers[:N], correct=[i < 4 for i in range(N)])
    curve = CapCurve.from_outcomes(make_outcomes(clean), clean, CONFIG, n_layers=N_LAYERS)
    most = clean["answer"].value_counts(normalize=True).iloc[0]
    said = (
        f"the 95 % interval of the clean accuracy does not lie above {most:.3f}, the share of the "
        "most common answer"
    )
    assert f"{said}: accuracies say little here; compare log-probabilities" in curve.notes
    assert said in curve.plot().chart.subtitle
    better = clean.assign(answer=[f" {i}" for i in range(N)])
    curve = CapCurve.from_outcomes(make_outcomes(better), better, CONFIG, n_layers=N_LAYERS)
    assert "most common answer" not in str(curve.notes) + curve.plot().chart.subtitle


def test_figures_tell_what_filters_left() -> None:
    left = "filters left 8 of 10 examples: answers of one token"
    clean = make_clean()
    curve = CapCurve.from_outcomes(
        make_outcomes(clean), clean, {**CONFIG, "filtered": left}, n_layers=N_LAYERS
    )
    for figure in (curve.plot(), curve.plot(value="target_logprob")):
        assert "filters left 8 of 10 examples · " in figure.chart.subtitle
    assert left in curve.notes


def _large() -> CapCurve:
    clean = make_clean(30)
    return CapCurve.from_outcomes(make_outcomes(clean), clean, CONFIG, n_layers=N_LAYERS)


# --- figures -------------------------------------------------------------------------------------


def drawn(figure: object) -> dict[str, object]:
    return {
        trace.name.removesuffix(" (control)"): trace
        for trace in figure.data
        if trace.name and trace.customdata is not None
    }


def test_plot_draws_the_frames_numbers() -> None:
    curve = make_curve()
    lines = drawn(curve.plot())
    assert list(lines) == [*POOLINGS, *CONTROLS]
    for name, trace in lines.items():
        rows = curve.frame[curve.frame["pooling"] == name]
        assert list(trace.x) == rows["layer"].tolist()
        assert list(trace.y) == rows["accuracy"].tolist()
        change = curve.differences(name)
        clean = rows["clean_accuracy"].to_numpy()
        low, high, n = zip(*trace.customdata, strict=True)
        assert low == pytest.approx((clean + change["ci_low"]).clip(0).tolist())
        assert high == pytest.approx((clean + change["ci_high"]).clip(upper=1).tolist())
        assert [*n] == rows["n"].tolist()
        assert (trace.line.dash == "solid") == (name in POOLINGS)
    deep = drawn(curve.plot(normalised_depth=True))
    assert list(deep["mean"].x) == [0.0, 0.5, 1.0]
    average = drawn(curve.plot(average=True))
    assert list(average) == ["average", *CONTROLS]
    assert list(average["average"].y) == curve.average()["accuracy"].tolist()


@pytest.mark.parametrize("average", [False, True])
def test_a_band_that_keeps_off_the_clean_level_is_a_difference(average: bool) -> None:
    """Also where the intervals of the two accuracies overlap: of 30 examples pooling loses 7 of
    those that were right, and gains none."""
    clean = make_clean(30).assign(
        correct=lambda rows: rows["example"] < 20, affected=True, target_rank=1
    )
    outcomes = make_outcomes(clean, POOLINGS).assign(
        correct=lambda rows: rows["example"] < 13, target_rank=1
    )
    curve = CapCurve.from_outcomes(outcomes, clean, CONFIG, n_layers=N_LAYERS)
    assert curve.frame["ci_high"].iloc[0] > 0.6 > 0.5 > 0.488 > curve.frame["ci_low"].iloc[0]
    assert (curve.differences("mean")["p"] < 0.05).all()
    for figure in (curve.plot(average=average), compare_curves({"a": curve, "b": curve})):
        (panel,) = figure.chart.panels
        assert all(high < panel.levels[0].y for line in panel.lines for high in line.high)
        told = "bands: 95 % intervals of the difference to clean, paired by example"
        assert told in figure.chart.subtitle


def test_compare_overlays_models() -> None:
    curves = {"a": make_curve(), "b": make_curve(seed=5)}
    lines = drawn(compare_curves(curves))
    assert list(lines) == ["a", "b"]
    assert list(lines["b"].y) == curves["b"].average()["accuracy"].tolist()
    lines = drawn(compare_curves(curves, pooling="max", normalised_depth=False))
    expected = curves["a"].frame[curves["a"].frame["pooling"] == "max"]
    assert list(lines["a"].y) == expected["accuracy"].tolist()
    assert list(lines["a"].x) == list(LAYERS)


def test_what_differs_of_the_examples_is_said() -> None:
    plain, other = make_curve(), make_curve()
    settings = {"examples_sha256": "0" * 64, "answers": ["one", "two"]}
    object.__setattr__(other, "config", {**CONFIG, **settings})
    told = compare_curves([plain, other]).chart.subtitle.replace("<br>", " ")
    assert "settings differ: answers none (" in told
    object.__setattr__(other, "config", {**CONFIG, "examples_sha256": "0" * 64})
    with pytest.warns(UserWarning, match=r"differ: the examples' tokens or units$"):
        plain.differences_from(other)
    frames = {**other.frames, "clean": other.clean.iloc[::-1]}
    object.__setattr__(other, "frames", frames)
    told = compare_curves([plain, other]).chart.subtitle.replace("<br>", " ")  # without a warning
    assert "7 examples · settings differ: the order of the examples" in told
    with pytest.raises(InputError, match="the same 7 examples in another order"):
        plain.differences_from(other)


def test_curves_of_different_examples_are_drawn_with_a_warning() -> None:
    own = [make_curve(), _large()]
    with pytest.warns(UserWarning, match=r"different examples \(tiny \(1\): 7; tiny \(2\): 30\)"):
        figure = compare_curves(own)
    assert figure.chart.subtitle.startswith("task mini-idm · different examples · ")
    curves = [make_curve(), make_curve()]
    object.__setattr__(curves[1], "config", {**CONFIG, "task": "mine", "seed": 1})
    figure = compare_curves(curves)
    assert list(drawn(figure)) == ["tiny, mini-idm", "tiny, mine"]
    object.__setattr__(curves[1], "config", {**CONFIG, "task": ""})
    assert list(drawn(compare_curves(curves))) == ["tiny, mini-idm", "tiny, own examples"]
    assert figure.chart.subtitle.startswith("7 examples · ")


def test_what_differs_between_curves_is_named() -> None:
    one, clean = make_curve(), make_clean().assign(correct=False)
    settings = {"unit": "constituent", "labels": ["NP", "VP"], "mode": "broadcast"}
    rows = make_outcomes(clean).assign(correct=False)
    rows = rows[rows["pooling"].isin(["mean", "last"])]
    config = {**CONFIG, **settings, "pooling": ["mean"], "weights_sha256": "b" * 64}
    other = CapCurve.from_outcomes(rows, clean, config, n_layers=N_LAYERS)
    object.__setattr__(one, "config", {**CONFIG, "weights_sha256": "a" * 64, "pooling": ["max"]})
    chart = compare_curves({"GPT-2": one, "own": other}).chart
    assert chart.title == "Accuracy when tokens are pooled, average over the poolings of each curve"
    for part in (
        "settings differ: unit word (GPT-2), constituent (own); pooling max (GPT-2), mean (own); ",
        "labels none (GPT-2), NP + VP (own); mode none (GPT-2), broadcast (own) · ",
        " · own: the clean model gets nothing right · ",
    ):
        assert part in chart.subtitle
    means = compare_curves([one, other], pooling="mean")
    assert "pooling max" not in means.chart.subtitle  # the same one of both is drawn
    assert list(drawn(means)) == ["tiny, weights aaaaaa", "tiny, weights bbbbbb"]
    assert "settings differ" not in compare_curves([one, one]).chart.subtitle
    alone = compare_curves([other, other]).chart
    assert alone.title == chart.title
    assert " · the clean model gets nothing right · " in alone.subtitle
    with pytest.warns(UserWarning, match=r"settings differ: unit word \(this curve\), constituent"):
        one.differences_from(other)


def test_compare_refuses_nothing_and_unknown_protocols() -> None:
    with pytest.raises(InputError, match="nothing to compare; pass at least one curve"):
        compare_curves({})
    for label in ("", " ", "a\nb"):
        with pytest.raises(InputError, match="label .*: expected a word or a few"):
            compare_curves({label: make_curve()})
    with pytest.raises(InputError, match="'a' has no pooling 'median'; it has average, mean, max"):
        compare_curves({"a": make_curve()}, pooling="median")
