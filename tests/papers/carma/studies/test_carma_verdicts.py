"""What a comparison says of its numbers: verdicts, caveats and cautions."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from interp_compose.papers.carma.differences import verdict
from interp_compose.papers.carma.result import Comparison
from interp_compose.papers.carma.verdicts import answers, cautions, verdicts
from interp_compose.plots.canvas import LONGEST
from tests.papers.carma.studies.carma_tables import (
    CONFIG,
    N_LAYERS,
    RATES,
    against_ft,
    cells,
    compare,
    make_tables,
    pick,
)

NAN = float("nan")


def test_a_large_difference_is_established() -> None:
    comparison = compare(gain={"accuracy": 20, "cap": -30})
    assert against_ft(comparison, "accuracy")["verdict"] == (
        "carma higher by 2.00 points (SE 0.07, 5 seeds)"
    )
    cap = against_ft(comparison, "cap", layer=1, pooling="average")
    assert cap["verdict"] == "carma lower by 3.00 points (SE 0.07, 5 seeds)"
    said = dict(verdicts(comparison))
    assert said["CAP, mean of the poolings"] == (
        "CARMA lower at layers 0–2 (difference −3.00 points)"
    )
    cosine = against_ft(comparison, "same_word_cosine", layer=0)
    assert cosine["verdict"].startswith("carma higher by 0.300 (SE 0.00071, 5 seeds)")


def test_equal_versions_have_no_difference() -> None:
    differences = compare().differences
    rows = differences.query("first == 'carma' and second == 'ft' and family != 'representations'")
    assert set(rows["verdict"]) == {"no difference established"}
    assert set(rows["caveat"]) == {""}


def test_a_small_difference_is_a_hint_where_correction_takes_it_away() -> None:
    row = against_ft(compare(gain={"accuracy": 3}), "accuracy")
    assert row["p"] < 0.05 < row["p_holm"]  # five: both rates have the same numbers
    assert row["verdict"] == (
        "hint only, does not survive correction for 5 comparisons: "
        "carma higher by 0.30 points (SE 0.07, 5 seeds)"
    )


def test_the_same_difference_in_every_seed_is_no_proof() -> None:
    tables = make_tables(seeds=range(2))
    accuracy = tables["accuracy"]
    accuracy.loc[accuracy["version"] == "ft", "n_correct"] = 600
    accuracy.loc[accuracy["version"] == "carma", "n_correct"] = 601
    row = against_ft(Comparison.from_runs(tables, CONFIG), "accuracy")
    assert all(math.isnan(row[name]) for name in ("p", "p_holm", "ci_low", "ci_high"))
    assert row["n_compared"] == 1 + N_LAYERS  # the two rates are one, and accuracy has no test
    assert row["verdict"] == (
        "hint only, all seeds differ by the same, no spread to test against: "
        "carma higher by 0.10 points (SE 0.00, 2 seeds)"
    )
    said = dict(verdicts(Comparison.from_runs(tables, CONFIG)))["Accuracy"]
    assert said.endswith("standard error 0.00, 95 % interval –, 2 seeds")
    accuracy.loc[accuracy["version"] == "carma", "n_correct"] = 600
    comparison = Comparison.from_runs(tables, CONFIG)
    row = against_ft(comparison, "accuracy")
    assert math.isnan(row["p"])
    assert row["verdict"] == "no difference established"
    assert "+0.00 0.00 – – no difference established" in cells(comparison, "accuracy")


def test_numbers_without_spread_have_no_coefficient_of_variation() -> None:
    tables = make_tables()
    synonyms = tables["synonyms"]
    synonyms.loc[synonyms["version"] == "ft", "n_both"] = 400
    comparison = Comparison.from_runs(tables, CONFIG)
    row = pick(comparison.frame, version="ft", metric="consist_syn_cv", rate=0.25)
    assert (row["mean"], math.isnan(row["ci_low"]), math.isnan(row["ci_high"])) == (0, True, True)
    said = dict(verdicts(comparison))["CV of ConsistSyn, 25 % replaced"]
    assert said == "undefined, or without an interval: no statement"


def test_rates_with_the_same_numbers_are_one_comparison() -> None:
    tables = make_tables(gain={"accuracy": 3})
    same = against_ft(Comparison.from_runs(tables, CONFIG), "accuracy")
    assert same["n_compared"] == 1 + N_LAYERS + 1
    tables["synonyms"].loc[tables["synonyms"]["rate"] == RATES[1], "n_both"] -= 1
    shifted = against_ft(Comparison.from_runs(tables, CONFIG), "accuracy")
    assert shifted["n_compared"] == 1 + N_LAYERS + len(RATES)
    assert shifted["p_holm"] == pytest.approx(shifted["p"] * 6)
    assert same["p_holm"] == pytest.approx(same["p"] * 5)
    differences = Comparison.from_runs(make_tables(gain={"synonyms": 3}), CONFIG).differences
    rows = differences.query("metric == 'consist_syn' and first == 'carma' and second == 'ft'")
    assert rows["p_holm"].nunique() == 1
    assert rows["p_holm"].iloc[0] == pytest.approx(5 * rows["p"].iloc[0])


def test_few_changed_prompts_are_counted_aloud() -> None:
    tables = make_tables()
    rows = tables["synonyms"]["rate"] == RATES[0]
    for n, caution in ((899, True), (900, False)):
        tables["synonyms"].loc[rows, "n"] = 950
        tables["synonyms"].loc[rows & (tables["synonyms"]["seed"] == 2), "n"] = n
        comparison = Comparison.from_runs(tables, CONFIG)
        told = (
            f"At 25 %, ConsistSyn counts the {n} of 1000 prompts in which a word was replaced "
            "(smallest over seeds)"
        )
        assert cautions(comparison) == ([f"{told}."] if caution else [])
        assert told in cells(comparison, "consist_syn")  # in the table always
    assert "ConsistSyn counts" not in cells(compare(), "consist_syn")


def test_fine_tuning_below_the_original_model_is_named() -> None:
    tables = make_tables()
    accuracy = tables["accuracy"]
    original = accuracy["version"] == "original"
    above = accuracy.loc[accuracy["version"] == "ft", "n_correct"].to_numpy() + 100
    tables["accuracy"].loc[original, "n_correct"] = above
    (told,) = cautions(Comparison.from_runs(tables, CONFIG))
    assert told.startswith("Plain fine-tuning ends below the original model: accuracy ")
    assert "over 5 seeds a difference of \N{MINUS SIGN}10.000" in told


def test_versions_with_one_answer_to_everything_are_named() -> None:
    tables = make_tables(seeds=range(2))
    accuracy = tables["accuracy"]
    accuracy.loc[accuracy["version"] != "carma", "n_distinct"] = 1
    accuracy.loc[(accuracy["version"] == "carma") & (accuracy["seed"] == 1), "n_distinct"] = 1
    assert cautions(Comparison.from_runs(tables, CONFIG)) == [
        "The original answers every prompt with the same token.",
        "2 of 2 ft runs answer every prompt with the same token.",
        "1 of 2 carma runs answer every prompt with the same token.",
    ]


def test_a_tiny_difference_shows_its_digits() -> None:
    row = {"n_seeds": 5, "difference": -0.00042, "standard_error": 0.0000123, "n_compared": 6}
    row |= {"metric": "stable_rank", "first": "carma", "p": 0.001, "p_holm": 0.01}
    assert verdict(row).sentence == "carma lower by 0.00042 (SE 0.000012, 5 seeds)"


def test_rates_that_replace_the_same_words_are_named() -> None:
    tables = make_tables(seeds=(1, 2))
    low, high = (tables["replacements"]["rate"] == rate for rate in RATES)
    same = pd.concat(
        [tables["replacements"][low], tables["replacements"][low].assign(rate=RATES[1])],
        ignore_index=True,
    )
    assert high.any()
    distinct = cautions(Comparison.from_runs(tables, CONFIG))
    assert not [text for text in distinct if "the same words" in text]
    found = cautions(Comparison.from_runs({**tables, "replacements": same}, CONFIG))
    assert [text for text in found if "the same words" in text] == [
        "At 25 % and 40 % the same words were replaced (6 words, over all seeds): these texts have "
        "too few words that can be, and the two rates are one observation."
    ]


def test_one_seed_says_nothing() -> None:
    comparison = compare(seeds=(7,), gain={"accuracy": 100})
    assert set(comparison.differences["verdict"]) == {"one seed: no statement"}
    assert comparison.differences["p"].isna().all()
    row = pick(comparison.frame, version="carma", metric="accuracy")
    assert math.isnan(row["sd"])
    assert math.isnan(row["ci_low"])
    assert cautions(comparison) == ["One seed: nothing is said about differences; run at least 5."]
    assert "one seed: no statement" in comparison.summary()
    assert len(comparison.figures()) == 5


def test_of_two_seeds_the_seeds_themselves_are_drawn() -> None:
    """Their differences to plain fine-tuning, at its mean."""
    comparison = compare(seeds=(3, 7), gain={"synonyms": 40})
    chart = comparison.plot_consistency().chart
    assert "2 seeds · bars: from one seed's difference to FT to the other's" in chart.subtitle
    rows = comparison.frames["synonyms"].query("rate == @RATES[0]").set_index(["version", "seed"])
    kept = (100 * rows["n_both"] / rows["n_before"]).unstack("seed")
    each = sorted(kept.loc["ft"].mean() + (kept.loc["carma"] - kept.loc["ft"]))
    assert len(each) == 2
    line = next(line for line in chart.panels[0].lines if line.label == "CARMA")
    assert [line.low[0], line.high[0]] == pytest.approx(each)


def test_a_saturated_set_is_noticed() -> None:
    comparison = compare(kept=0.97)
    rows = comparison.differences.query("metric == 'consist_syn'")
    saturated = "saturated (both versions above 95 %): this set does not discriminate"
    assert set(rows["caveat"]) == {saturated}
    assert set(comparison.differences.query("metric != 'consist_syn'")["caveat"]) == {""}
    assert cautions(comparison) == [
        "ConsistSyn is saturated at 25 %, 40 %: this set does not discriminate "
        "(every version above 95 %)."
    ]
    subtitle = comparison.plot_consistency().chart.subtitle
    assert subtitle.endswith(" · saturated at 25 %, 40 %")
    # one version below is enough to discriminate
    tables = make_tables(kept=0.97)
    low = tables["synonyms"]["version"] == "original"
    tables["synonyms"].loc[low, "n_both"] = 400
    mixed = Comparison.from_runs(tables, CONFIG)
    assert cautions(mixed) == []
    # but the two above do not differ by this set, and one that is undefined says nothing
    caveats = mixed.differences.query("metric == 'consist_syn'").groupby(["first", "second"])
    told = {pair: set(rows["caveat"]) for pair, rows in caveats}
    assert told == {("carma", "ft"): {saturated}, ("ft", "original"): {""},
                    ("carma", "original"): {""}}  # fmt: skip
    tables["synonyms"].loc[low, ["n_before", "n_both"]] = 0
    assert len(cautions(Comparison.from_runs(tables, CONFIG))) == 1


def test_runs_that_have_not_converged_are_told_beside_every_figure() -> None:
    comparison = compare(stuck=(0, 2, 3), kept=0.97)
    caveats = comparison.differences.groupby(["first", "second"], sort=False)["caveat"]
    text = "3 of 5 ft runs had visibly not converged"
    for (first, second), group in caveats:
        touched = "ft" in (first, second)
        assert group.str.contains(text, regex=False).all() == touched
    assert cautions(comparison)[0] == f"{text}: loss still falling."
    for figure in comparison.figures().values():
        assert "3 of 10 trainings not converged" in figure.chart.subtitle
        assert len(figure.chart.subtitle) <= LONGEST  # not cut
    assert f"! {text}: loss still falling." in comparison.summary()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"n_seeds": 0}, "undefined"),
        ({"n_seeds": 1}, "one seed"),
        ({"p": 0.05, "p_holm": 0.05}, "none"),
        ({"p": 0.01, "p_holm": 0.05}, "hint"),
        ({"p": 0.01, "p_holm": 0.049}, "higher"),
        ({"p": 0.01, "p_holm": 0.049, "difference": -1.0}, "lower"),
        ({"p": math.nan, "p_holm": math.nan, "standard_error": 0.0}, "hint"),
        ({"p": math.nan, "p_holm": math.nan, "standard_error": 0.0, "difference": 0.0}, "none"),
    ],
)
def test_words_follow_from_numbers(changes: dict[str, Any], kind: str) -> None:
    row = {"n_seeds": 5, "difference": 1.0, "standard_error": 0.2, "n_compared": 6}
    row |= {"metric": "accuracy", "first": "carma", "p": 0.5, "p_holm": 0.5}
    said = verdict(row | changes)
    assert said.kind == kind
    assert said.sentence.startswith("hint only") == (kind == "hint")
    assert (f" {kind} by " in said.sentence) == (kind in ("higher", "lower"))


def minus_ft(*rows: tuple[str, float, float, float], n: int = 5) -> pd.DataFrame:
    """Differences to plain fine-tuning, by metric; the layer of cap counts up."""
    table = pd.DataFrame(rows, columns=["metric", "ci_low", "ci_high", "p_holm"])
    table["difference"] = table[["ci_low", "ci_high"]].mean(axis=1).fillna(0.3)
    table["layer"] = (table["metric"] == "cap").cumsum() - 1
    pooling = table["metric"].map({"cap": "average"}).fillna("")
    pair = {"first": "carma", "second": "ft", "rate": 0.25, "n_seeds": n}
    return table.assign(pooling=pooling, **pair)


IT, FT = "The accuracy of CARMA", "that of plain fine-tuning"
DECIDED = {
    "above, within a point and open": (
        minus_ft(("accuracy", -0.5, 1.0, 0.5), ("cap", 2.0, 4.0, 0.01), ("cap", -3.0, 2.0, 0.9)),
        [
            f"{IT} is above {FT} when pooled at layer 0, by 3.00 points [2.00, 4.00] (95 %); it is "
            "within 1 point of it in clean runs; it is open when pooled at layer 1: between "
            f"3.00 points less and 2.00 more than {FT} (95 %); about 125 seeds would decide it, "
            "were it as measured."
        ],
    ),
    "across the margin": (
        minus_ft(("accuracy", -0.5, 1.01, 0.5)),
        [
            f"Whether the accuracy of CARMA differs from {FT} is open in clean runs: between 0.50 "
            f"points less and 1.01 more than {FT} (95 %); about 6 seeds would decide it, were it "
            "as measured."
        ],
    ),
    "consistency": (
        minus_ft(("accuracy", 0.0, 0.0, 1.0), ("consist_syn", -9.0, -3.0, 0.02)),
        [
            f"{IT} is nowhere further than 1 point from {FT}: most in clean runs, where it is "
            f"no more and no less than {FT}.",
            f"The ConsistSyn of CARMA is below {FT} with 25 % of words replaced, by 6.00 points "
            "[3.00, 9.00] (95 %).",
        ],
    ),
    "one seed, or all alike": (
        minus_ft(("accuracy", NAN, NAN, NAN), n=1),
        [
            f"Whether the accuracy of CARMA differs from {FT} is not known: there is no interval "
            "of 1 seed."
        ],
    ),
    "not trained": (minus_ft().astype({"difference": float}), []),
}


@pytest.mark.parametrize("case", DECIDED)
def test_sentences_at_the_head(case: str) -> None:
    differences, sentences = DECIDED[case]
    assert answers(differences) == sentences


def test_numbers_of_the_head_are_those_of_the_table() -> None:
    comparison = compare(gain={"cap": 20})
    row = against_ft(comparison, "cap", layer=0, pooling="average")
    ends = f"[{row['ci_low']:.2f}, {row['ci_high']:.2f}]"
    said = comparison.sentences()[0]
    assert f"by {row['difference']:.2f} points {ends} (95 %)" in said
    assert comparison.summary().splitlines()[1] == said
