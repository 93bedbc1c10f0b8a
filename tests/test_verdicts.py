"""The page of verdicts: whole, current, and each verdict bound to the numbers beside it."""

from __future__ import annotations

import copy
import csv
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.stats import (
    t as student,
    ttest_1samp,
    ttest_ind,
    ttest_rel,
)

from docs import finding_page, measured, panel_page, tables, task_results, verdict_page
from docs.cat_paper import glue
from docs.claims.evaluate import Claims
from docs.claims.runs import RUNS
from docs.claims.special import (
    by_phase,
    clearer,
    correlation,
    gaps,
    growth,
    own_tables,
    ratio_power,
    spreads,
    variations,
)
from docs.verdict_page import PAPERS
from docs.verdicts import (
    NOT,
    REPRODUCED,
    STALE,
    UNDECIDED,
    UNTESTED,
    VERDICTS,
    Side,
    TTest,
    agreed,
    by_ranges,
    by_tests,
    compared,
    decided,
    exactly,
    judged,
    of_file,
    of_three,
    power,
    read_side,
    seeds_needed,
    seen,
    side_of,
    spread,
    t_test,
    t_tests,
    welch,
    with_holm,
    with_seeds,
)
from interp_compose import shipped
from interp_compose.stats.seeds import holm

ROOT = tables.FOLDER.parents[1]
CARMA, COMPLEXITY, LRF, CAT = PAPERS
Change = Callable[[dict[str, Any]], None]


def test_the_page_is_current() -> None:
    for name, text in tables.PAGES.items():
        written = (tables.FOLDER.parent / name).read_text(encoding="utf-8")
        assert written == text(), "run: python -m docs.tables"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_claim_has_a_verdict_and_what_it_rests_on(paper: Claims) -> None:
    assert paper
    for one in paper:
        text, verdict = one.find()
        assert verdict.removesuffix(" †") in VERDICTS, f"{one.words}: {verdict}"
        assert set(one.runs) <= set(RUNS), one.words
        assert all((one.words, one.where, text)), one.words
        if verdict != UNTESTED:
            assert one.runs, f"{one.words}: no run"
            assert re.search(r"\d", text), f"{one.words}: no number"


def test_every_run_has_its_file_and_a_claim() -> None:
    used = {run for paper in (*PAPERS, finding_page.FINDINGS) for one in paper for run in one.runs}
    assert used == set(RUNS)
    for run in RUNS.values():
        assert measured.read(run.file)


def test_a_sentence_to_rely_on_is_bound_to_its_verdict(monkeypatch: Any) -> None:
    assert len([sentence for paper in PAPERS for sentence in paper.rely()]) == 10
    read = measured.read

    def without_effect(name: str) -> dict[str, Any]:
        found = copy.deepcopy(read(name))
        if name == "phase_diagram_pre":
            each("runs", ood=0.01)(found)
        return found

    monkeypatch.setattr(measured, "read", without_effect)
    with pytest.raises(ValueError, match="A small initialisation .*: undecided; its sentence is"):
        COMPLEXITY.rely()


@pytest.mark.parametrize(
    ("title", "file", "change"),
    [
        ("Masks after the softmax leak", "leaks_agreement", {"mode": "zero", "largest": 0.0}),
        ("At γ 0.8, post-LN", "unseen_sum", {"seen": False, "ood": 1.0}),
        (
            "In a toy, the last tokens",
            "carma_controls_mini_idm",
            {"pooling": "last", "gain": 0.0},
        ),
        (
            "What is right of COGS",
            "generalise_cogs_exposures",
            {"exposures_of": "others", "n_right": 500},
        ),
        ("In a toy, CAT's guided loss", "toy_codes", {"setting": "eq. 4", "r_precision": 0.9}),
    ],
)
def test_a_finding_is_bound_to_its_file(
    title: str, file: str, change: dict[str, Any], monkeypatch: Any
) -> None:
    (finding,) = (o for o in finding_page.FINDINGS if o.stated["title"].startswith(title))
    with Image.open(finding_page.IMAGES / finding_page.picture(finding)) as picture:
        drawn = picture.info["Description"]
    assert drawn == finding_page.drawn(finding), "run: python -m docs.finding_page"
    assert all(finding.stated[key] for key in ("words", "limits", "axis"))
    section = finding_page.section(finding)
    assert f"## {title}" in section
    for line in finding.decided_lines():
        for names, test in zip(line.compared(), line.tests, strict=True):
            called = re.escape(finding.stated["names_of_sides"][names.split(" → ")[1]])
            assert re.search(rf"{called}[^:;]*: {re.escape(str(test).replace('-', '−'))}", section)
    read, (where, value) = measured.read, change.items()

    def without_effect(name: str) -> dict[str, Any]:
        found = copy.deepcopy(read(name))
        for table in found.values() if name == file else ():
            for row in table if isinstance(table, list) else ():
                row.update([value] if row[where[0]] == where[1] else [])
        return found

    monkeypatch.setattr(measured, "read", without_effect)
    with pytest.raises(ValueError, match=f"{title}.*: the rule gives .*; it is no finding"):
        finding_page.section(finding)


@pytest.mark.parametrize(
    "page", ["README.md", "CITATION.cff", "docs/papers.md", "docs/verdicts.md"]
)
def test_all_four_papers_are_cited(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    for title in (
        "CARMA: Enhanced Compositionality in LLMs via Advanced Regularisation and Mutual "
        "Information Alignment",
        "Complexity Control Facilitates Reasoning-Based Compositional Generalization in "
        "Transformers",
        "Towards Equipping Transformer with the Ability of Systematic Compositionality",
        "Layer-Wise Representation Fusion for Compositional Generalization",
    ):
        assert title in text, title


def test_counts_are_those_of_the_rows() -> None:
    page = (tables.FOLDER.parent / "verdicts.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    for paper in PAPERS:
        (section,) = (one for one in sections if one.startswith(f"{paper.name}\n"))
        rows = [line for line in section.splitlines() if re.match(r"\| \d", line)]
        ends = Counter(re.findall(r"\*\*([a-z ]+?)(?: †)?\*\* \|$", "\n".join(rows), re.MULTILINE))
        (told,) = (row for row in verdict_page.counts()[1] if row[0].startswith(f"[{paper.name}]"))
        assert told[1:] == [*(str(ends[verdict]) for verdict in VERDICTS), str(len(rows))]


def test_the_rules() -> None:
    def row(difference: float, p: float | None) -> dict[str, Any]:
        return {"difference": difference, "p_holm": p}

    assert by_tests([row(1, 0.04), row(-3, 0.05)]) == REPRODUCED
    assert by_tests([row(-1, 0.0), row(3, 0.9)]) == NOT
    assert by_tests([row(1, 0.01), row(-1, 0.01)]) == UNDECIDED
    assert by_tests([row(9, None), row(1, 0.05)]) == UNDECIDED
    assert by_ranges((0, 1), (1.1, 2)) == REPRODUCED
    assert by_ranges((1.1, 2), (0, 1)) == NOT
    assert by_ranges((0, 1), (1, 2)) == UNDECIDED
    assert by_ranges((None, 1), (2, 3)) == UNDECIDED
    assert agreed([NOT, NOT]) == NOT
    assert agreed([NOT, REPRODUCED]) == UNDECIDED
    assert judged(NOT, True) == "not reproduced †"
    assert judged(NOT, False) == STALE


def of_seeds(*values: float, first: int = 0) -> Side:
    rows = [{"seed": first + i, "x": value} for i, value in enumerate(values)]
    return with_seeds(spread(values, tuple(rows)), {row["seed"]: row["x"] for row in rows})


def test_values_by_seed_are_compared_by_t_tests() -> None:
    """Paired, against a bound, and of other seeds; by Holm over all that are compared together."""
    low, high = [0.1, 0.2, 0.35, 0.3], [0.3, 0.38, 0.6, 0.5]
    paired = t_test(of_seeds(*low), of_seeds(*high))
    assert paired is not None
    assert paired.p == pytest.approx(ttest_rel(high, low).pvalue)
    assert paired.difference == pytest.approx(sum(high) / 4 - sum(low) / 4)
    changes = [b - a for a, b in zip(low, high, strict=True)]
    assert paired.sd == pytest.approx(stdev(changes))
    interval = ttest_rel(high, low).confidence_interval()
    assert paired.ci == pytest.approx((interval.low, interval.high))
    above = t_test(exactly(0.3), of_seeds(*high))
    assert above is not None
    assert above.p == pytest.approx(ttest_1samp(high, 0.3).pvalue)
    other = t_test(of_seeds(*low), of_seeds(*high, first=2))
    assert other is not None
    assert other.p == pytest.approx(ttest_ind(high, low, equal_var=False).pvalue)
    interval = ttest_ind(high, low, equal_var=False).confidence_interval()
    assert other.ci == pytest.approx((interval.low, interval.high))
    assert t_test(of_seeds(0.1), of_seeds(0.5)) is None
    assert compared(of_seeds(*low), of_seeds(*high)) == REPRODUCED
    assert compared(of_seeds(*high), of_seeds(*low)) == NOT
    assert compared(of_seeds(0.1), of_seeds(0.5)) == UNDECIDED  # one seed decides nothing
    near = (of_seeds(0.1, 0.3, 0.2, 0.4), of_seeds(0.25, 0.35, 0.4, 0.47))  # p .044
    assert decided([near]) == [REPRODUCED]
    assert decided([near, near]) == [UNDECIDED] * 2
    one, two = t_tests([near, near])
    assert one is not None
    assert two is not None
    assert one.p_holm == two.p_holm == pytest.approx(2 * one.p)
    assert one.family == 2
    assert decided([near, (spread([1, 2]), spread([3, 4]))]) == [REPRODUCED] * 2  # ranges: no test


def test_three_values_follow_from_their_mean_and_ends() -> None:
    low, high = [0.1, 0.35, 0.2], [0.3, 0.62, 0.5]

    def side(values: list[float], **row: Any) -> Side:
        row = {"mean": mean(values), "low": min(values), "high": max(values), **row}
        return side_of(row, "mean", "low", "high")

    sides = [of_three(side(values, n_seeds=3)) for values in (low, high)]
    assert [of.unpaired for of in sides] == [
        pytest.approx(sorted(values)) for values in (low, high)
    ]
    test = t_test(*sides)
    assert test is not None
    assert test.p == pytest.approx(ttest_ind(high, low, equal_var=False).pvalue)
    assert test.difference == pytest.approx(mean(high) - mean(low))
    assert test.n == 3
    assert 1 < test.groups < 2
    assert test.sd == pytest.approx((stdev(high) ** 2 + stdev(low) ** 2) ** 0.5)
    above = t_test(exactly(0.1), sides[1])
    assert above is not None
    assert above.p == pytest.approx(ttest_1samp(high, 0.1).pvalue)
    unnamed = t_test(of_seeds(*low), sides[1])  # the one side's seeds are known
    assert unnamed is not None
    assert unnamed.p == pytest.approx(test.p)
    assert not of_three(side([float("nan")] * 3)).unpaired
    for wrong in (side(low, n=5), side(low, mean=0.5)):
        with pytest.raises(ValueError, match="of three seeds"):
            of_three(wrong)


def test_seeds_that_a_file_has_are_taken_in_the_place_of_ends(monkeypatch: Any) -> None:
    """So that two sides of the same seeds are paired."""
    summary = [
        {"model": "a", "split": "test", "mean": 0.2, "low": 0.1, "high": 0.3, "n_seeds": 3},
    ]
    values = [
        {"model": model, "seed": seed, "right": value}
        for model, own in (("a", [0.1, 0.3, 0.2]), ("b", [0.5, 0.6, 0.9]))
        for seed, value in enumerate(own)
    ]
    query = {
        **{"file": "made", "table": "summary", "value": ["mean", "low", "high"]},
        "rows": {"model": "a", "split": "test"},
        "of_three": {"table": "values", "value": "right"},
    }
    monkeypatch.setattr(measured, "read", lambda name: {"summary": summary, "values": values})
    found = read_side(query)
    assert found.by_seed == {0: 0.1, 1: 0.3, 2: 0.2}
    assert (found.mean, found.low, found.high) == (0.2, 0.1, 0.3)
    for wrong in ([*values, values[0]], [row | {"right": 0.5} for row in values]):
        found_wrong = {"summary": summary, "values": wrong}
        monkeypatch.setattr(measured, "read", lambda name, wrong=found_wrong: wrong)
        with pytest.raises(ValueError, match="are not those of"):
            read_side(query)
    monkeypatch.setattr(measured, "read", lambda name: {"summary": summary})
    assert read_side(query).by_seed == {}
    assert read_side(query).unpaired == pytest.approx((0.1, 0.2, 0.3))


def row_of(first: list[float], second: list[float]) -> dict[str, Any]:
    """What a file has of a paired difference."""
    changes = [a - b for a, b in zip(first, second, strict=True)]
    n, error = len(changes), stdev(changes) / len(changes) ** 0.5
    half = student.ppf(0.975, n - 1) * error
    p = float(ttest_rel(first, second).pvalue)
    ends = {"ci_low": mean(changes) - half, "ci_high": mean(changes) + half}
    return {"difference": mean(changes), **ends, "n_seeds": n, "p": p}


def test_a_files_difference_is_tested_as_its_values_by_seed_would_be() -> None:
    low, high = [0.1, 0.2, 0.35, 0.3], [0.3, 0.38, 0.6, 0.5]
    row, values = row_of(high, low), t_test(of_seeds(*low), of_seeds(*high))
    test = of_file(row, "difference")
    assert test is not None
    assert values is not None
    for name in ("difference", "p", "n", "sd", "ci"):
        assert getattr(test, name) == pytest.approx(getattr(values, name)), name
    side = Side((row,), (), row["difference"], row["ci_low"], row["ci_high"], test=test)
    assert compared(exactly(0), side) == REPRODUCED
    assert compared(side, exactly(0)) == NOT
    other = {"mean": mean(high), "sd": stdev(high), "n_seeds": 4}
    of_mean = of_file(other, "mean")
    assert of_mean is not None
    assert of_mean.p == pytest.approx(ttest_1samp(high, 0).pvalue)
    assert of_mean.ci == pytest.approx((*ttest_1samp(high, 0).confidence_interval(),))
    # Against another bound than 0, from either side.
    changes = [a - b for a, b in zip(high, low, strict=True)]
    for pair, sign in (((exactly(0.1), side), 1), ((side, exactly(0.1)), -1)):
        beyond = t_test(*pair)
        assert beyond is not None
        assert beyond.p == pytest.approx(ttest_1samp(changes, 0.1).pvalue)
        assert beyond.difference == pytest.approx(sign * (mean(changes) - 0.1))
        ends = [sign * (end - 0.1) for end in ttest_1samp(changes, 0).confidence_interval()]
        assert beyond.ci == pytest.approx((min(ends), max(ends)))
    # Of other models: Welch's, of what each side's seeds give.
    mean_side = Side((other,), (), other["mean"], 0, 1, test=of_mean)
    welch = t_test(side, mean_side)
    assert welch is not None
    assert welch.p == pytest.approx(ttest_ind(high, changes, equal_var=False).pvalue)
    for without in ({**row, "p": None}, {"difference": 0.1}, {"mean": 0.1, "sd": None, "n": 3}):
        assert of_file(without, "mean" if "mean" in without else "difference") is None


@pytest.mark.parametrize("name", ["carma_mini_base_mini_idm", "carma_mini_base_mini_sst"])
def test_p_in_the_files_is_that_of_their_standard_errors(name: str) -> None:
    for row in measured.read(name)["differences"]:
        if row["standard_error"]:
            t = abs(row["difference"]) / row["standard_error"]
            p = 2 * student.sf(t, row["n_seeds"] - 1)
            assert row["p"] == pytest.approx(p, rel=0.01, abs=2e-6)  # six decimals are kept


def test_differences_of_a_row_are_corrected_together() -> None:
    """Of m p-values the smallest times m, the next times m - 1, and none below the one before."""
    rows = [{"difference": 1.0, "p": p, "p_holm": 9.0} for p in (0.03, 0.01, None, 0.02)]
    sides = [Side(tuple(rows[:2]), (), 0, 0, 0), Side(tuple(rows[2:]), (), 0, 0, 0)]
    first, second = with_holm(sides)
    assert [row["p_holm"] for row in first.rows] == pytest.approx([0.04, 0.03])
    assert [row["p_holm"] for row in second.rows] == [None, pytest.approx(0.04)]
    assert rows[0]["p_holm"] == 9.0  # the file's rows are left as they are
    assert with_holm([Side((), (), 0, 0, 0)])[0].rows == ()


def test_a_claims_tests_are_corrected_over_all_its_lines() -> None:
    (claim,) = (one for one in CARMA if one.words.startswith("Accuracy under CAP"))
    lines = claim.lines()
    families = [
        [line for line in lines if ("second" in line.stated) is toy] for toy in (True, False)
    ]
    assert [len(family) for family in families] == [2, 1]
    for family in families:  # the toys', which decide nothing, and the language model's
        rows = [row for line in family for row in line.sides["cap"].rows]
        p_values = sorted(row["p"] for row in rows)
        for row in rows:
            rank = p_values.index(row["p"])
            before = [min(1, (len(rows) - i) * p) for i, p in enumerate(p_values[: rank + 1])]
            assert row["p_holm"] == pytest.approx(max(before))


def test_toys_are_shown_with_their_verdict_and_decide_nothing(monkeypatch: Any) -> None:
    (claim,) = (one for one in CARMA if one.words.startswith("Accuracy under CAP"))
    text, verdict = claim.find()
    assert text.count("(alone: ") == 2
    read = measured.read

    def without_gain(name: str) -> dict[str, Any]:
        found = copy.deepcopy(read(name))
        if name in (IDM, SST):
            each("differences", p=0.9)(found)
        return found

    monkeypatch.setattr(measured, "read", without_gain)
    changed, still = claim.find()
    assert still == verdict
    assert changed.count("(alone: undecided)") == 2
    assert text.count("(alone: reproduced)") == 2


def test_values_without_a_total_are_averaged_by_seed(monkeypatch: Any) -> None:
    rows = [{"seed": seed, "x": float(seed + place)} for seed in range(3) for place in (0, 4)]
    monkeypatch.setattr(measured, "read", lambda name: {"runs": rows})
    side = read_side({"file": "", "table": "runs", "rows": {}, "value": "x", "pooled": True})
    assert side.by_seed == {0: 2, 1: 3, 2: 4}
    assert (side.mean, side.low, side.high) == (3, 2, 4)


def drawn(ratio: float, correlation: float, n: int, times: int) -> np.ndarray:
    """Pairs, [times n 2], whose standard deviations have this ratio."""
    covariance = [[ratio**2, correlation * ratio], [correlation * ratio, 1]]
    return np.random.default_rng(0).multivariate_normal([0, 0], covariance, (times, n))


def paired_variances(pairs: np.ndarray) -> np.ndarray:
    """p of Pitman's and Morgan's test, by the ratio of the variances and the correlation."""
    first, second = pairs[..., 0], pairs[..., 1]
    ratio = first.var(-1, ddof=1) / second.var(-1, ddof=1)
    first, second = (one - one.mean(-1, keepdims=True) for one in (first, second))
    r2 = (first * second).sum(-1) ** 2 / ((first**2).sum(-1) * (second**2).sum(-1))
    n = pairs.shape[-2]
    t = (ratio - 1) * np.sqrt(n - 2) / (2 * np.sqrt(ratio * (1 - r2)))
    return np.asarray(2 * student.sf(np.abs(t), n - 2))


def test_two_spreads_are_compared_by_pairs() -> None:
    (pairs,) = drawn(2.0, 0.6, 9, 1)
    sides = {name: of_seeds(*pairs[:, k].tolist()) for k, name in enumerate(("plain", "carma"))}
    found = spreads(sides)
    assert found["p"] == pytest.approx(float(paired_variances(pairs)), rel=1e-6)
    assert found["plain_sd"] == pytest.approx(np.std(pairs[:, 0], ddof=1))
    assert found["way"] == "reproduced"  # where p, corrected over the claim's lines, is small
    far = {"plain": of_seeds(*(9 + pairs[:, 0])), "carma": of_seeds(*(7 + pairs[:, 1]))}
    relative = (pairs + np.array([9, 7])) / (pairs.mean(0) + np.array([9, 7]))
    varied = variations(far)
    assert varied["p"] == pytest.approx(float(paired_variances(relative)), rel=1e-6)
    assert varied["plain_sd"] == pytest.approx(np.std(relative[:, 0], ddof=1))
    turned = spreads({"plain": sides["carma"], "carma": sides["plain"]})
    assert turned["p"] == pytest.approx(found["p"])
    assert turned["way"] == "not reproduced"


def test_p_of_spreads_is_corrected_over_the_lines_that_decide_and_those_that_do_not() -> None:
    (claim,) = (one for one in CARMA if one.words.startswith("Its coefficient of variation"))
    lines = claim.lines()
    for second in (False, True):
        own = [line for line in lines if ("second" in line.stated) == second]
        raw = [variations(line.sides)["p"] for line in own]
        assert [line.names["p"] for line in own] == pytest.approx(holm(raw))
        for line in own:
            assert line.names["verdict"] == (
                line.names["way"] if line.names["p"] < 0.05 else UNDECIDED
            )


def test_an_undecided_row_names_what_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole lines by their labels, else comparisons; nothing where rises are not the claim's."""
    (claim,) = (one for one in COMPLEXITY if one.words.startswith("The stable rank of"))
    text, verdict = claim.find()
    assert verdict == UNDECIDED
    told = "weight decay 0.01, phase 3 below phase 2"
    assert re.search(f"<br>decided for the claim: [^<]*{told}", text)
    assert "decided against" not in text

    (clearer_in,) = (one for one in CARMA if one.words.startswith("The gain is clearer"))
    at = "layer 2; layer 3; synonyms, 25%; synonyms, 40%"
    assert f"<br>decided against the claim: {at}<br>" in clearer_in.find()[0]

    (slowed,) = (one for one in COMPLEXITY if one.words.startswith("In the post-LN model wrong"))
    at = "2 layers, epochs of γ 0.5 with five groups below epochs of γ 0.5 with none"
    assert f"decided against the claim: {at}" in slowed.find()[0]
    monkeypatch.delitem(slowed.stated, "as_claimed")
    assert "decided against" not in slowed.find()[0]


def test_runs_are_grouped_by_the_phase_of_each() -> None:
    """A seed's mean over its runs of a phase; those of phase 3 that a run of phase 2 reaches."""
    found = [  # phase, seed, value
        ("1", 0, 0.1), ("2", 0, 0.2), ("2c", 0, 0.4), ("3", 0, 0.9), ("2", 1, 0.3), ("3", 1, 0.35),
        ("0", 1, 9.0),
    ]  # fmt: skip
    rows = tuple(
        {"init_rate": place, "weight_decay": 0.0, "seed": seed, "phase": phase}
        for place, (phase, seed, _) in enumerate(found)
    )
    circuits = spread([value for _, _, value in found], rows)
    names = by_phase({"runs": spread([], rows), "circuits": circuits})
    assert names["two"].by_seed == pytest.approx({0: 0.3, 1: 0.3})
    assert names["plain"].by_seed == {0: 0.2, 1: 0.3}
    assert names["three"].by_seed == {0: 0.9, 1: 0.35}
    assert not names["one"].by_seed  # one seed decides nothing
    counts = {name: names[f"n_{name}"] for name in ("one", "two", "plain", "commuting", "three")}
    assert counts == {"one": 1, "two": 3, "plain": 2, "commuting": 1, "three": 2}
    assert names["low"] == 1  # .35 is below .4


def test_curves_are_of_one_shape_by_the_jackknife() -> None:
    """Of z = arctanh r of the means over seeds, against that of .9; r itself is of all seeds."""
    generator = np.random.default_rng(5)
    plain = np.linspace(0, 1, 6) + generator.normal(0, 0.1, (4, 6))  # [seed layer]
    curves = {"plain": plain, "carma": plain + generator.normal(0, 0.1, (4, 6)), "original": -plain}

    def side(values: np.ndarray) -> Side:
        rows = tuple(
            {"seed": seed, "pooling": "mean", "layer": layer, "value": float(values[seed, layer])}
            for seed in range(4)
            for layer in range(6)
        )
        return spread([row["value"] for row in rows], rows)

    found = correlation({name: side(values) for name, values in curves.items()})

    def z(left: list[int]) -> float:
        means = (curves[name][left].mean(0) for name in ("plain", "carma"))
        return float(np.arctanh(np.corrcoef(*means)[0, 1]))

    every = [0, 1, 2, 3]
    pseudo = [4 * z(every) - 3 * z([s for s in every if s != seed]) for seed in every]
    assert [*found["shape"].by_seed.values()] == pytest.approx(pseudo)
    assert found["r"] == pytest.approx(np.tanh(z(every)))
    assert found["r_original"] == pytest.approx(-1)
    low, high = ttest_1samp(pseudo, 0).confidence_interval()
    assert (found["low"], found["high"]) == pytest.approx((np.tanh(low), np.tanh(high)))
    assert found["bound"].mean == pytest.approx(np.arctanh(0.9))


def test_steps_of_weight_decay_that_condense_more_are_counted() -> None:
    """Of two γ, the second of which falls from decay 0 to 1."""
    means = {(0, 0.5): 0.15, (1, 0.5): 0.35, (0, 0.8): 0.55, (1, 0.8): 0.5}
    cells = tuple(
        {"weight_decay": d, "init_rate": rate, "mean_abs_cosine": value}
        for (d, rate), value in means.items()
    )
    found = growth({"cells": spread([], cells)})
    assert (found["n"], found["total"], found["rho"]) == (1, 2, pytest.approx(1))
    assert (found["n_steps"], found["total_steps"]) == (1, 2)


def test_two_ratios_of_spreads_are_compared_by_the_jackknife() -> None:
    values = {
        ("plain", 0.25): [40.0, 44, 47, 42, 41],
        ("carma", 0.25): [42.0, 43, 45, 42, 44],
        ("plain", 0.4): [18.0, 25, 21, 20, 16],
        ("carma", 0.4): [20.0, 22, 19, 18, 21],
    }

    def apart(left: list[int]) -> float:
        cv = {of: np.std(x := np.array(v)[left], ddof=1) / x.mean() for of, v in values.items()}
        few, many = (cv["plain", rate] / cv["carma", rate] for rate in (0.25, 0.4))
        return float(np.log(many) - np.log(few))

    names = ("plain_few", "carma_few", "plain_many", "carma_many")
    found = clearer(dict(zip(names, (of_seeds(*v) for v in values.values()), strict=True)))
    every = [0, 1, 2, 3, 4]
    pseudo = [5 * apart(every) - 4 * apart([s for s in every if s != seed]) for seed in every]
    assert [*found["apart"].by_seed.values()] == pytest.approx(pseudo)
    assert np.log(found["many"] / found["few"]) == pytest.approx(apart(every))
    test = t_test(exactly(0), found["apart"])
    assert test is not None
    assert test.p == pytest.approx(ttest_1samp(pseudo, 0).pvalue)


def test_the_power_to_tell_two_spreads_is_that_of_drawn_samples() -> None:
    for n, ratio, rho in ((5, 4.9, 0.0), (10, 2.0, 0.5), (10, 2.0, -0.5), (17, 1.6, 0.3)):
        share = float((paired_variances(drawn(ratio, rho, n, 20_000)) < 0.05).mean())
        assert ratio_power(ratio, n, rho) == pytest.approx(share, abs=0.012)
        assert ratio_power(1 / ratio, n, rho) == pytest.approx(share, abs=0.012)
    assert ratio_power(1, 5, 0.3) == pytest.approx(0.05)


def test_gaps_are_held_out_less_training_loss_by_seed() -> None:
    sides = {
        **{f"{name}_held_out": of_seeds(4.0, 4.5, 5.0) for name in ("large", "small")},
        "large_train": of_seeds(3.0, 3.0, 3.0),
        "small_train": of_seeds(3.5, 4.0, 4.75),
    }
    gap = gaps(sides)
    assert gap["large"].by_seed == {0: 1, 1: 1.5, 2: 2}
    assert gap["small"].by_seed == {0: 0.5, 1: 0.5, 2: 0.25}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_undecided_row_says_its_power_or_why_not(paper: Claims) -> None:
    for one in paper:
        text, verdict = one.find()
        last = text.split("<br>")[-1]
        if verdict.removesuffix(" †") != UNDECIDED:
            assert "power:" not in text, one.words
            continue
        assert last.startswith("power: "), one.words
        if last.startswith("power: not known, "):
            assert (
                "values by seed" in last
                or "no_power" in one.stated
                or "count" in last
                or "at the floor" in last
                or "all comparisons are decided" in last
            ), one.words
        else:
            assert re.search(r"would be found in 80 % of cases; .* take .*\d+ seeds", last), last


def test_check_prints_each_row_and_finds_a_page_or_a_file_that_differs(
    monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(verdict_page, "PAPERS", (LRF,))
    page = (tables.FOLDER.parent / "verdicts.md").read_text(encoding="utf-8")
    assert verdict_page.check(page)
    told = capsys.readouterr().out
    assert len(re.findall(r"^LRF \d+: ", told, re.MULTILINE)) == len(LRF)
    (claim,) = (one for one in LRF if one.words.startswith("The bottom layers"))
    (line,) = (line for line in claim.decided_lines() if line.show("label") == "SCAN, accuracy")
    side = line.sides["l1"]
    values = " ".join(f"{seed}={value:.4g}" for seed, value in side.by_seed.items())
    assert f"    SCAN, accuracy l1: {values}\n" in told
    assert len(side.by_seed) == 5
    (test,) = line.tests
    assert test is not None
    low, high = test.ci
    compared = f"{test.difference:+.2g} [{low:+.2g}, {high:+.2g}], p by Holm {test.p_holm:.2g}"
    assert f"    SCAN, accuracy l1 → l2: {compared}: reproduced\n" in told

    number = LRF.index(claim) + 1
    changed = re.sub(
        rf"^(\| {number} \| The bottom.*)\*\*undecided †\*\*",
        r"\1**reproduced**",
        page,
        flags=re.M,
    )
    assert changed != page
    assert not verdict_page.check(changed)
    told = capsys.readouterr().out
    assert told.count("THE PAGE HAS ANOTHER ROW") == 1
    assert f"LRF {number}: undecided †: The bottom layers" in told

    monkeypatch.setattr(measured, "RESULTS", measured.RESULTS / "elsewhere")
    assert not verdict_page.check(page)
    assert "NO FILE" in capsys.readouterr().out


SMALL = [  # of each seed two kinds; the second run did not fit
    {"init_rate": rate, "seed": seed, "kind": kind, "n_right": n_right + 10 * seed, "n": n}
    for rate, n_right in ((0.5, 20), (0.7, 50))
    for seed in range(4)
    for kind, n in (("a", 100), ("b", 300))
]
RUNS_OF_SMALL = [
    {"init_rate": rate, "seed": seed, "last_loss": 0.5 if (rate, seed) == (0.7, 1) else 0.001}
    for rate in (0.5, 0.7)
    for seed in range(4)
]


def test_shares_are_pooled_by_seed_and_of_runs_that_fit(monkeypatch: Any) -> None:
    monkeypatch.setattr(measured, "read", lambda name: {"accuracy": SMALL, "runs": RUNS_OF_SMALL})
    query = {"file": "", "table": "accuracy", "value": "n_right", "of": "n", "pooled": True}
    large = read_side({**query, "rows": {"init_rate": 0.5}})
    assert large.by_seed == {seed: 2 * (20 + 10 * seed) / 400 for seed in range(4)}
    assert (large.mean, large.low, large.high) == pytest.approx((0.175, 0.1, 0.25))
    fitted = {"table": "runs", "where": {"last_loss": {"below": 0.01}}}
    small = read_side({**query, "rows": {"init_rate": 0.7}, "fitted": fitted})
    assert small.by_seed == {seed: 2 * (50 + 10 * seed) / 400 for seed in (0, 2, 3)}
    test = t_test(large, small)  # paired over the seeds that both have
    assert test is not None
    assert (test.n, test.difference) == (3, pytest.approx(0.15))


@pytest.mark.parametrize(
    ("shares", "told"), [((0.0, 0.01), "floor"), ((0.99, 1.0), "ceiling"), ((0.01, 0.5), "")]
)
def test_comparisons_at_a_floor_or_a_ceiling_are_not_judged(
    shares: tuple[float, float], told: str, monkeypatch: Any
) -> None:
    (claim,) = (one for one in COMPLEXITY if one.words.startswith("Addition: a small"))
    accuracy = [
        {
            **{"size": 9, "split": "inside", "seed": seed, "n": 10_000},
            **{"init_rate": rate, "weight_decay": decay},
            "n_right": round(10_000 * share) - seed * (share >= 0.5),
        }
        for seed in range(3)
        for rate, decay, share in ((0.5, 0.01, shares[0]), (0.7, 0.1, shares[1]))
    ]
    monkeypatch.setattr(measured, "read", lambda name: {"accuracy": accuracy})
    text, verdict = claim.find()
    assert (f"(at the {told}: not judged)" in text) == bool(told)
    assert verdict == (UNDECIDED if told else REPRODUCED)


def test_an_undecided_row_says_what_it_would_have_found() -> None:
    (claim,) = (one for one in COMPLEXITY if one.words.startswith("… and fine-tuning GPT-2"))
    (line,) = claim.lines()
    ((large, small),) = line.pairs()
    changes = [small.by_seed[seed] - large.by_seed[seed] for seed in large.by_seed]
    effect = mean(changes) / stdev(changes)
    needed = next(n for n in range(2, 200) if power(effect * n**0.5, n - 1) >= 0.8)
    text, verdict = claim.find()
    assert verdict == UNDECIDED
    told = re.search(r"differences of ([.\d]+) points would be found .* take (\d+) seeds$", text)
    assert told is not None
    assert int(told[2]) == needed
    least = float(told[1]) / 100
    error = stdev(changes) / len(changes) ** 0.5
    assert power(least / error, len(changes) - 1) == pytest.approx(0.8, abs=0.03)


def test_power_is_that_of_drawn_samples() -> None:
    generator = np.random.default_rng(0)
    for n, effect in ((3, 1.5), (5, 1.0), (10, 0.6)):
        drawn = generator.normal(effect, 1, (20_000, n))
        share = float((ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean())
        assert power(effect * n**0.5, n - 1) == pytest.approx(share, abs=0.012)
        of_two = float((ttest_1samp(drawn, 0, axis=1).pvalue < 0.025).mean())
        assert power(effect * n**0.5, n - 1, level=0.025) == pytest.approx(of_two, abs=0.012)
    test = TTest(difference=0.5, p=0.1, n=5, sd=1.0)
    assert power(seen(test) * 5**0.5, 4) == pytest.approx(0.8, abs=1e-6)
    pair = replace(test, family=2)
    assert power(seen(pair) * 5**0.5, 4, level=0.025) == pytest.approx(0.8, abs=1e-6)
    assert (seeds_needed(pair) or 0) > (seeds_needed(test) or 0)
    n = seeds_needed(test)
    assert n is not None
    assert power(0.5 * (n - 1) ** 0.5, n - 2) < 0.8 <= power(0.5 * n**0.5, n - 1)
    assert seeds_needed(TTest(difference=0.01, p=0.9, n=5, sd=1.0)) is None


def test_two_groups_may_differ_in_size_and_spread() -> None:
    generator = np.random.default_rng(1)
    few, many = generator.normal(0, 1, (20_000, 10)), generator.normal(0, 4, (20_000, 17))
    test = welch(*((mean(one), stdev(one), len(one)) for one in (few[0], many[0])))
    found = ttest_ind(many[0], few[0], equal_var=False)
    assert test.of_both is not None
    assert (test.p, test.of_both[1]) == pytest.approx((found.pvalue, found.df))
    interval = found.confidence_interval()
    assert test.ci == pytest.approx((interval.low, interval.high))
    constant = [
        of_three(side_of({"mean": m, "low": m, "high": m}, "mean", "low", "high"))
        for m in (0.1, 0.2)
    ]
    assert t_test(*constant) is None  # no spread to test by: their ranges are compared
    least = seen(welch((0.0, 1.0, 10), (0.0, 4.0, 17)))
    drawn = ttest_ind(many + least, few, axis=1, equal_var=False).pvalue < 0.05
    assert float(drawn.mean()) == pytest.approx(0.8, abs=0.012)


def verdict_of(claims: Claims, words: str) -> str:
    (one,) = (one for one in claims if one.words.startswith(words))
    return one.find()[1]


def each(rows: str, **values: Any) -> Change:
    """Sets fields of every row of a list."""

    def change(found: dict[str, Any]) -> None:
        for row in found[rows]:
            row.update(values)

    return change


def where(rows: str, key: str, value: Any, /, **values: Any) -> Change:
    """Sets fields of the rows with a value."""

    def change(found: dict[str, Any]) -> None:
        chosen = [row for row in found[rows] if row[key] == value]
        assert chosen
        for row in chosen:
            row.update(values)

    return change


def of_composed(rows: str, by_seed: str, mean: float, /, **values: float) -> Change:
    """Sets mean and ends of what is composed, and, where the file has them, its values by seed."""
    of_rows = where(rows, "output", "comp", mean=mean, smallest=mean - 1e-3, largest=mean + 1e-3)

    def change(found: dict[str, Any]) -> None:
        of_rows(found)
        for row in found.get(by_seed, []):
            row.update(values if row["output"] == "comp" else {})

    return change


def carma_hardly_varies(found: dict[str, Any]) -> None:
    """Its values over seeds lie near their own place on one line."""
    for row in found["values"]:
        if row["version"] == "carma" and row["seed"] is not None:
            row["value"] = 50 + 0.01 * row["value"]


def later_with_wrong_data(rate: float) -> Change:
    """Epochs of that start rise with each wrong group."""

    def change(found: dict[str, Any]) -> None:
        for run in found["runs"]:
            if run["init_rate"] == rate:
                run["loss_epochs"] = 10 + run["violations"] * (1 + 0.1 * (run["seed"] % 5))

    return change


def as_fast_with_wrong_data(found: dict[str, Any]) -> None:
    """As long with wrong data as without, but for what differs by seed."""
    for run in found["runs"]:
        run["loss_epochs"] = 20.0 + (run["seed"] + run["violations"]) % 2


def wrong_pairs_later(found: dict[str, Any]) -> None:
    """Those that break the rule, and those of the same anchors, are later than others."""
    for row in found["pairs"]:
        later = 10 + row["seed"] % 3 if row["violates"] or row["touched"] else 0
        row["epochs"] = 9.0 + later


def slower_steps(found: dict[str, Any]) -> None:
    """A step of CARMA in the range that the paper gives."""
    found["overhead"]["paper's layers (1-3)"].update(median=1.45, range=[1.4, 1.5])


def slower_passes(found: dict[str, Any]) -> None:
    """A forward pass of a model that CARMA tuned takes a tenth longer."""
    found["inference"].update(median=1.1, range=[0.99, 1.2])


def few_left(found: dict[str, Any]) -> None:
    """Of sequences that are right, whatever is knocked out."""
    for row in found["cuts"]:
        row["n_right"] = row["seed"] % 3


def roles_at_the_bottom(found: dict[str, Any]) -> None:
    """Told from layer 1 always, from layer 2 half of the time."""
    for probe in found["probes"]:
        if probe["layer"]:
            probe.update(accuracy=(1 - 0.001 * probe["seed"]) / probe["layer"], control=0)


def no_gap_of_the_small_start(found: dict[str, Any]) -> None:
    """Held-out text has the loss of training text, but for a little that differs by seed."""
    for row in [*found["curve_ends"], *found["held_out"]]:
        if row["init_rate"] == 0.7:
            row.update(loss=3.9 + 0.001 * row["seed"] * ("split" not in row))


def early_layers_gain(found: dict[str, Any]) -> None:
    """Every layer, and the first more than the last."""
    each("differences", difference=3.0, p=1e-6)(found)
    found["gain_by_layer"]["early_minus_late"].update(p=0.01, difference=2.0)


def less_fitted(found: dict[str, Any]) -> None:
    """With the largest weight decay, by seed."""
    for run in found["runs"]:
        if run["weight_decay"] == 1:
            run["train"] = 0.9 + 0.001 * (run["seed"] % 3)


def symmetric_pairs_apart(found: dict[str, Any]) -> None:
    """In models with commutativity farther than in others, the key excluded."""
    place = ("init_rate", "weight_decay", "seed")
    phases = {tuple(run[key] for key in place): run["phase"] for run in found["runs"]}
    for row in found["circuits_by_seed"]:
        if row["mode"] == "exclude":
            commutes = phases[tuple(row[key] for key in place)] == "2c"
            row["twin_distance"] = 0.5 + (0.3 + 0.001 * (row["seed"] % 3)) * commutes


def triangles_always(found: dict[str, Any]) -> None:
    """No shape is right, but for as many images as the seed's number."""
    for row in found["accuracy"]:
        if row["kind"] == "shape":
            row.update(n_right=row["seed"])


def controls_lose(found: dict[str, Any]) -> None:
    """Of CARMA's gain nothing is left under the controls."""
    for row in found["gain"]:
        if row["pooling"] != "mean":
            row.update(gain=-5.0)


def simpler(key: str, name: str) -> Change:
    """Weights of these runs end with a low stable rank and condensed."""

    def change(found: dict[str, Any]) -> None:
        for row in found["runs"]:
            if row[key] == name and row["at"] == "end":
                less = {"stable_rank": 5.0, "mean_abs_cosine": 0.5}
                row["value"] = less.get(row["measure"], 0.0) + 0.001 * row["seed"]

    return change


def reasons_at(*rates: float) -> Change:
    """Unseen pairs are right at these init rates alone, but for a little that differs by seed."""

    def change(found: dict[str, Any]) -> None:
        for run in found["runs"]:
            run["ood"] = 0.9 * (run["init_rate"] in rates) + 0.001 * (run["seed"] % 5)
        for cell in found["cells"]:
            cell["phase"] = "3" if cell["init_rate"] in rates else "2"

    return change


SMOL = "carma_smollm2_idm"
IDM, SST = "carma_mini_base_mini_idm", "carma_mini_base_mini_sst"
PHASES, SPEED, SPEED_POST = "phase_diagram_pre", "fitting_speed", "fitting_speed_post"
IN_CARMA: list[tuple[str, str, Change, str]] = [
    ("Accuracy under CAP", SMOL, each("differences", difference=3.0, p=1e-6), REPRODUCED),
    # The file's p_holm is of another family.
    ("Accuracy under CAP", SMOL, each("differences", p=0.9, p_holm=1e-6), UNDECIDED),
    (
        "The gain is one of composition",
        "carma_controls_mini_idm",
        controls_lose,
        REPRODUCED,
    ),
    (
        "Its coefficient of variation",
        SMOL,
        carma_hardly_varies,
        REPRODUCED,
    ),
    (
        "Consistency is above",
        SMOL,
        each("differences", difference=3.0, p=1e-6),
        REPRODUCED,
    ),
    (
        "Early layers gain most",
        SMOL,
        early_layers_gain,
        REPRODUCED,
    ),
    (
        "The gain is clearer in the inverse",
        SST,
        each("differences", difference=-9.0, ci_low=-9.1, ci_high=-8.9, p=1e-9),
        REPRODUCED,
    ),
    (
        "… and comparable",
        SST,
        each("differences", difference=0.1, ci_low=-0.4, ci_high=0.6, p=0.6),
        REPRODUCED,
    ),
    (
        "… and comparable",
        SST,
        each("differences", difference=2.0, ci_low=1.2, ci_high=2.8, p=1e-6),
        NOT,
    ),
    ("Mutual information", "carma_search_mini_idm", each("held_out", p=0.5), STALE),
    ("Training takes", "carma_gpt2-small_cpu_float32", slower_steps, STALE),
    ("… inference no", "carma_gpt2-small_cpu_float32", slower_passes, STALE),
    (
        "If low complexity",
        "carma_watched_mini_idm",
        simpler("version", "carma"),
        REPRODUCED,
    ),
]
IN_CAT: list[tuple[str, str, Change, str]] = [
    (
        "No sign that composed ones need",
        "encoders_small",
        each("differences", difference=-0.05, ci_low=-0.06, ci_high=-0.04, p=1e-4),
        REPRODUCED,
    ),
    (
        "No sign that composed ones need",
        "encoders_small",
        each("differences", difference=0.2, ci_low=0.19, ci_high=0.21),
        NOT,
    ),
]


def same_phase_for_each_seed(by_means: int) -> Change:
    """Of each cell; and of fresh seeds' means in so many cells of 44."""

    def change(found: dict[str, Any]) -> None:
        for cell in [*found["cells"], *found["again"]["cells"]]:
            cell["agree"] = 1.0
        found["again"]["same"] = [by_means, 44]

    return change


def pairs_apart_in_phase_2(found: dict[str, Any]) -> None:
    """Silhouettes by seed: about 0 in phase 1, and about .9 in phase 2 without commutativity."""
    phases = {
        (run["init_rate"], run["weight_decay"], run["seed"]): run["phase"] for run in found["runs"]
    }
    for row in found["circuits_by_seed"]:
        phase = phases[row["init_rate"], row["weight_decay"], row["seed"]]
        row["pair_silhouette"] = (0.9 if phase == "2" else 0.01) * (1 + row["seed"] % 10 / 100)


IN_COMPLEXITY: list[tuple[str, str, Change, str]] = [
    ("A small initialisation", PHASES, each("runs", ood=0.01), UNDECIDED),
    ("Low complexity is", "phase_diagram_post", each("onsets", reasons=5), STALE),
    (
        "Low complexity is",
        "anchors_watched",
        where("means", "measure", "stable_rank", min=9),
        STALE,
    ),
    ("Often an initialisation", PHASES, where("cells", "init_rate", 0.55, phase="2"), STALE),
    ("… and is about the same", PHASES, each("cells", stable_rank=5.0), STALE),
    ("Condensation grows", PHASES, where("cells", "init_rate", 1.0, mean_abs_cosine=0.0), NOT),
    ("Low complexity is", PHASES, where("runs", "phase", "1", stable_rank=12.0), STALE),
    ("The pattern held", PHASES, same_phase_for_each_seed(44), REPRODUCED),
    ("The pattern held", PHASES, same_phase_for_each_seed(30), UNDECIDED),
    (
        "With the key masked",
        "phase_diagram_post",
        pairs_apart_in_phase_2,
        REPRODUCED,
    ),
    ("In phase 1 the", PHASES, each("runs", id=0.1), REPRODUCED),
    ("The post-LN model is", "phase_samples_post", reasons_at(0.8), UNDECIDED),
    ("The post-LN model is", "phase_samples_post", reasons_at(), NOT),
    ("With (a, b)", SPEED, wrong_pairs_later, REPRODUCED),
    ("The stable rank of", PHASES, where("runs", "phase", "2", stable_rank=12.0), REPRODUCED),
    ("A preference for", PHASES, less_fitted, REPRODUCED),
    ("Right answers to", "unseen_sum", where("runs", "seen", False, ood=0.01), NOT),
    (
        "… which is what the model makes",
        "phase_diagram_post",
        symmetric_pairs_apart,
        NOT,
    ),
    ("At a small one", SPEED, as_fast_with_wrong_data, UNDECIDED),
    ("In the post-LN model wrong data", SPEED_POST, later_with_wrong_data(0.5), NOT),
    (
        "… and so does a large",
        "phase_weight_decay",
        where("runs", "weight_decay", 1.0, ood=0.45),
        UNDECIDED,
    ),
    ("A small initialisation", "anchors_watched", each("runs", ood=0.01), UNDECIDED),
    ("Text: a small", "text_phases_text", each("curve_ends", loss=4.0), UNDECIDED),
    ("… by generalising better", "text_phases_text", no_gap_of_the_small_start, REPRODUCED),
    ("Concept graphs: by default", "concept_graphs", triangles_always, REPRODUCED),
]


def fits_at_two_rates(found: dict[str, Any]) -> None:
    """Elsewhere no phase is found, and in these none with commutativity."""
    for run in found["runs"]:
        run["phase"] = "2" if run["init_rate"] in (0.5, 0.52) else "0"


def right_in_the_square(*rates: float) -> Change:
    """Every sum of the square is right with these init rates."""

    def change(found: dict[str, Any]) -> None:
        for row in found["accuracy"]:
            if row["init_rate"] in rates:
                row.update(n_right=row["n"])

    return change


ADDITION = "task_phases_addition_99"
PROOFS = "task_phases_prontoqa_1"
IN_TASKS: list[tuple[str, str, Change, str]] = [
    ("… without holes", ADDITION, right_in_the_square(0.7), REPRODUCED),
    ("… without holes", ADDITION, right_in_the_square(0.5), NOT),
    ("… without holes", ADDITION, right_in_the_square(0.5, 0.7), NOT),
    ("… and converges", PROOFS, where("fits", "init_rate", 0.7, by_step=10), REPRODUCED),
    ("… and converges", PROOFS, where("fits", "init_rate", 0.7, by_step=1390), UNDECIDED),
    (
        "Phase 2 parts in two",
        "phase_diagram_fine",
        where("runs", "phase", "3", phase="2c"),
        REPRODUCED,
    ),
    ("Phase 2 parts in two", "phase_diagram_fine", fits_at_two_rates, UNDECIDED),
    (
        "If phase 3 composes",
        "anchors_watched",
        where("last", "split", "ood", value=0.5),
        REPRODUCED,  # unseen pairs differ without pooling as well
    ),
    (
        "If phase 3 composes",
        "anchors_watched",
        where("last", "split", "id", value=0.5),
        UNDECIDED,
    ),
]


@pytest.mark.parametrize(
    ("claims", "words", "file", "change", "verdict"),
    [
        *((CARMA, *case) for case in IN_CARMA),
        *((CAT, *case) for case in IN_CAT),
        *((COMPLEXITY, *case) for case in [*IN_COMPLEXITY, *IN_TASKS]),
    ],
)
def test_a_verdict_follows_the_file(
    claims: Claims, words: str, file: str, change: Change, verdict: str, monkeypatch: Any
) -> None:
    assert verdict_of(claims, words) != STALE
    read = measured.read

    def changed(name: str) -> dict[str, Any]:
        found = copy.deepcopy(read(name))
        if name == file:
            change(found)
        return found

    monkeypatch.setattr(measured, "read", changed)
    assert verdict_of(claims, words) == verdict


CHANGED = (
    *("encoders_minilm", "encoders_minilm_tuned", "encoders_small", "codes_small"),
    *("cat_watched", "lrf_watched", "fusion_length", "fusion_cogs_exposed"),
)


@pytest.mark.parametrize(
    ("claims", "words", "change", "verdict"),
    [
        (
            CAT,
            "That comes of learning",
            each("differences", difference=0.2, ci_low=0.1, ci_high=0.3, p=0.001),
            REPRODUCED,
        ),
        (
            CAT,
            "CAT's cosines agree",
            each("differences", difference=0.2, ci_low=0.1, ci_high=0.3, p=0.001),
            REPRODUCED,
        ),
        (
            CAT,
            "Composed vectors agree",
            of_composed("summary", "scores", 0.92, value=0.92),
            REPRODUCED,
        ),
        (
            CAT,
            "Composed vectors suit",
            each("differences", difference=0.2, ci_low=0.1, ci_high=0.3, p=0.001),
            REPRODUCED,
        ),
        (
            CAT,
            "Composed vectors are effective",
            of_composed(
                "held_out", "held_out_by_seed", 0.01, masked_accuracy=0.01, next_accuracy=0.01
            ),
            NOT,
        ),
        (
            CAT,
            "A word is decomposed",
            where("codes", "model", "cat-last", codes_per_word=500.0),
            NOT,
        ),
        (
            CAT,
            "Codes of the last block",
            each("differences", words_low=0.1, words_high=0.2),
            REPRODUCED,
        ),
        (
            CAT,
            "Guided decomposition generalises",
            each("differences", words_low=0.1, words_high=0.2),
            REPRODUCED,
        ),
        (
            CAT,
            "No sign that composed ones need fewer",
            each("differences", difference=0.2, ci_low=0.19, ci_high=0.21, p=0.001),
            NOT,
        ),
        (
            CAT,
            "Contextual ones are more appropriate",
            each("differences", p=0.001),
            REPRODUCED,
        ),
        (
            CAT,
            "If low complexity lets",
            simpler("model", "cat-last"),
            REPRODUCED,
        ),
        (
            LRF,
            "If low complexity lets",
            simpler("model", "lrf"),
            REPRODUCED,
        ),
        (
            LRF,
            "The bottom layers",
            roles_at_the_bottom,
            STALE,
        ),
        (LRF, "Each layer accesses", few_left, REPRODUCED),
        (LRF, "Each layer accesses", each("cuts", n_right=10_000), NOT),
    ],
)
def test_verdicts_follow_the_file(
    claims: Claims, words: str, change: Change, verdict: str, monkeypatch: Any
) -> None:
    assert verdict_of(claims, words) != verdict
    read = measured.read

    def changed(name: str) -> dict[str, Any]:
        found = copy.deepcopy(read(name))
        if name in CHANGED:
            change(found)
        return found

    monkeypatch.setattr(measured, "read", changed)
    assert verdict_of(claims, words) == verdict


def test_training_sets_that_were_measured_later_stand_by_their_size(monkeypatch: Any) -> None:
    """Of the largest, 90, each setting's shares are 1 and 2 %, of 50 five times that."""
    large, small = "γ 0.5, wd 0.01", "γ 0.7, wd 0.1"
    summary, differences = [], []
    for size in (90, 50):
        for i, setting in enumerate((large, small), 1):
            share = i / 100 * (1 if size == 90 else 5)
            for split, kind in (("test", "all"), ("gen", "all"), ("gen", "deeper")):
                place = {"size": size, "setting": setting, "split": split, "kind": kind}
                summary.append(
                    place | {"n_seeds": 3} | dict.fromkeys(("mean", "smallest", "largest"), share)
                )
                if setting == small:
                    apart = {"difference": share / 2, "ci_low": 0.0, "ci_high": 1.0, "p_holm": 0.5}
                    differences.append(place | apart)
    accuracy = [
        {
            **{"size": size, "seed": seed, "split": "inside", "n": 1000},
            **{"init_rate": rate, "weight_decay": decay, "n_right": n_right + seed},
        }
        for size in (90, 50)
        for seed in range(3)
        for rate, decay, n_right in ((0.5, 0.01, 100), (0.7, 0.1, 150 + seed))
    ]
    found = {"summary": summary, "differences": differences, "accuracy": accuracy}
    monkeypatch.setattr(measured, "read", lambda name: found)
    rows = task_results.by_size("")[1]
    assert [row[:4] for row in rows] == [
        ["test", "50", "5.0 (5.0–5.0)", "10.0 (10.0–10.0)"],
        ["test", "90", "1.0 (1.0–1.0)", "2.0 (2.0–2.0)"],
        ["gen", "50", "5.0 (5.0–5.0)", "10.0 (10.0–10.0)"],
        ["gen", "90", "1.0 (1.0–1.0)", "2.0 (2.0–2.0)"],
    ]
    ((_, of_large, of_small, apart, _),) = task_results.by_kind("", "gen")[1]
    assert (of_large, of_small) == ("1.0 (1.0–1.0)", "2.0 (2.0–2.0)")
    assert apart.startswith("+1.0 ")
    first, other = task_results.by_setting("", "gen")[1]
    assert first == [large, of_large, of_large, "–", "–"]
    assert other[:4] == [small, of_small, of_small, apart]
    more = [row | {"n_seeds": 5} if row["setting"] == small else row for row in summary]
    monkeypatch.setattr(measured, "read", lambda name: found | {"summary": more})
    heads, cells = task_results.by_setting("", "gen")
    assert heads[:2] == ["setting", "seeds"]
    assert [row[:2] for row in cells] == [[large, "3"], [small, "5"]]
    monkeypatch.setattr(measured, "read", lambda name: found)
    (claim,) = (one for one in COMPLEXITY if one.words.startswith("Addition: a small"))
    text, verdict = claim.find()
    assert verdict == REPRODUCED
    assert [line.split(":")[0] for line in text.split("<br>")[1:]] == ["50", "90"]


def test_every_claim_of_section_seven_is_on_the_page_of_panels() -> None:
    claims = [one for panel in panel_page.PANELS for one in panel.claims]
    assert [one.words for one in claims] == [
        one.words for one in COMPLEXITY if one.where.startswith("VII,")
    ]
    page = (tables.FOLDER.parent / "panels.md").read_text(encoding="utf-8")
    for panel in panel_page.PANELS:
        assert {run for one in panel.claims for run in one.runs} == set(panel.runs)
        for name, _ in panel.pictures:
            assert (tables.FOLDER.parent / "images" / f"{name}.png").is_file(), name
        for one in panel.claims:
            assert page.count(f"| {one.words} |") == 1, one.words


def test_the_papers_own_tables_are_summed_up() -> None:
    path = next(p for p in shipped.__path__) + "/carma_paper.csv"
    with open(path, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] in ("4", "5")]
    for told, metric in zip(own_tables()[1], ("consist_syn", "cv"), strict=True):
        value = {
            (row["label"], row["task"], row["rate"], row["version"]): float(row["value"])
            for row in rows
            if row["metric"] == metric
        }
        pairs = [(one, value[(*place, "ft")]) for (*place, v), one in value.items() if v == "carma"]
        counted = [sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)]
        assert told[2:6] == [*map(str, counted), str(28 - sum(counted)), str(len(pairs))]
    assert [row[2:5] for row in own_tables()[1]] == [
        ["11", "16", "1"],
        ["10", "17", "1"],
    ]


def test_cats_own_table_of_glue_is_summed_up() -> None:
    """As the paper's Table 4 prints it, in its order."""
    bert = [52.10, 78.12, 78.41, 74.40, 85.45, 71.20, 64.62, 94.50, 85.80]  # CoLA first, QQP sixth
    outputs = {
        "CAT cont": [60.18, 75.28, 75.97, 74.95, 84.21, 76.19, 62.93, 93.98, 85.71],
        "CAT mix": [60.28, 74.28, 75.19, 74.93, 83.21, 76.23, 62.76, 94.14, 84.42],
        "CAT comp": [50.09, 72.85, 74.40, 74.03, 81.19, 71.78, 60.68, 93.44, 82.85],
    }
    for told, (name, scores) in zip(glue()[1], outputs.items(), strict=True):
        apart = [score - other for score, other in zip(scores, bert, strict=True)]
        others = [value for i, value in enumerate(apart) if i not in (0, 5)]
        counted = [sum(value > 0 for value in apart), sum(value < 0 for value in apart)]
        assert told == [name, *map(str, counted), f"{mean(apart):+.2f}", f"{mean(others):+.2f}"]
    assert [row[1:3] for row in glue()[1]] == [["3", "6"], ["3", "6"], ["1", "8"]]


def test_counts_and_sentences_of_the_page_are_checked_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (tables.FOLDER.parent / "verdicts.md").read_text(encoding="utf-8")
    # Whether each row is right takes long, and the tests above ask for it.
    monkeypatch.setattr(verdict_page, "check", lambda text: True)
    monkeypatch.setattr(verdict_page, "__file__", str(tmp_path / "verdict_page.py"))
    monkeypatch.setattr("sys.argv", ["docs.verdicts", "--check"])
    changed = text.replace("| reproduced | not reproduced |", "| reproduced | refuted |", 1)
    assert changed != text
    for page, problem in ((text, ""), (changed, "COUNTS OR SENTENCES")):
        (tmp_path / "verdicts.md").write_text(page, encoding="utf-8")
        with pytest.raises(SystemExit) as end:
            verdict_page.main()
        assert bool(end.value.code) == bool(problem)
        assert capsys.readouterr().out.startswith(problem)


def test_what_explains_an_open_claim_is_open(monkeypatch: Any) -> None:
    assert verdict_of(CAT, "That comes of") == UNDECIDED
    read = measured.read

    def all_agree_better(name: str) -> dict[str, Any]:
        found = copy.deepcopy(read(name))
        if name.startswith("encoders"):
            each("differences", difference=0.1, ci_low=0.09, ci_high=0.11, p=1e-6)(found)
        return found

    monkeypatch.setattr(measured, "read", all_agree_better)
    assert verdict_of(CAT, "CAT's cosines agree") == REPRODUCED
    assert verdict_of(CAT, "That comes of") == REPRODUCED
