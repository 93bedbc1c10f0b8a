"""What the benchmarks count and compare, before it is printed."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import requires
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType, SimpleNamespace

import pandas as pd
import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import interp_compose as ic
from benchmarks import (
    authors,
    cap_sweep,
    carma,
    carma_search,
    cat_pooled,
    common,
    exposures,
    fusion_outcomes,
    gpu,
    outcomes,
    phase_diagram,
    sequence_outcomes,
    speed,
)
from benchmarks.carma_outcomes import gain_by_layer
from benchmarks.common import plain_rows, spread_of
from benchmarks.sequence_outcomes import over_seeds, runs_of, with_known
from benchmarks.toy_codes import SETTINGS, drawn_sememes, measured as toy_codes, named
from benchmarks.transplant_outcomes import over_models
from benchmarks.unseen_pairs import seen_sums, shares
from benchmarks.unseen_sum import SHIFTS, task_of
from benchmarks.watching import ends, last_differences
from docs import (
    encoder_results,
    generalise_results,
    measured,
    phase_results,
    speed_page,
    speed_results,
    tables,
    watch_results,
)
from docs.measured import read
from docs.phase_results import share
from interp_compose import cli
from interp_compose.papers.complexity.grid.settings import KEY
from interp_compose.papers.complexity.studies.anchors.phase import SHARES, phase_of
from interp_compose.papers.complexity.studies.task_phases import measure
from interp_compose.papers.complexity.studies.task_phases.measure import TaskPhasesOptions
from interp_compose.plots.interactive import ChartFigure
from tests.forking import outcome_of
from tests.papers.complexity.studies import (
    test_concept_graphs as concepts,
    test_task_phases as task_phases,
)
from tests.papers.lrf.studies import test_generalise as generalise


@pytest.mark.parametrize("name", sorted(path.stem for path in outcomes.RUNS.glob("*.toml")))
def test_what_a_run_names_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands are read, its functions take its options, its results have its figures."""
    run = outcomes.settings(name)
    commands: list[object] = []
    monkeypatch.setattr(cli, "_run", commands.append)
    calls = list(outcomes.calls(run))
    for call in calls:
        cli.main(call.split()[1:])
    assert len(commands) == len(calls)
    written = {word for call in calls for word in call.split() if word.startswith("out/")}
    if calls:
        results = [folder for _, folder in run.get("results", {}).values()]
        assert {*results, *run.get("folders", [])} <= written
    if "work" in run:
        signature = inspect.signature(outcomes.function(run["work"]))
        signature.bind(*run.get("folders", []), **run.get("options", {}))
    for source in run.get("frames", {}).values():
        if "by" in source:
            assert callable(outcomes.function(source["by"]))
    for source in run.get("pictures", {}).values():
        result, figure = source.split(".")
        assert figure in resolve_name(f"interp_compose:{run['results'][result][0]}").FIGURES
    if "draw" in run:
        inspect.signature(outcomes.function(run["draw"])).bind(name)


def test_each_result_is_of_a_run_or_of_a_benchmark() -> None:
    runs = {path.stem for path in outcomes.RUNS.glob("*.toml")}
    kept = {path.stem for path in outcomes.RUNS.with_name("results").glob("*.json")} - runs
    others = {name for name in kept if not name.startswith(tuple(speed.BENCHMARKS))}
    assert others == {"authors"}


@pytest.fixture(scope="module")
def figures() -> dict[str, list[common.Ratio]]:
    """What each benchmark reads in its kept files."""
    return {
        name: [row for file in files for row in speed.function(name, "ratios")(read(file))]
        for name, files in speed_page.kept().items()
    }


def test_each_benchmark_reads_its_kept_files(figures: dict[str, list[common.Ratio]]) -> None:
    assert {name for name, rows in figures.items() if not rows} == {"side_by_side"}
    files = [file for of_one in speed_page.kept().values() for file in of_one]
    page = speed_page.page()
    assert all(page.count(f"`{file}.json`") == 1 for file in files)
    for name, rows in figures.items():
        for row in rows:
            low, high = row.range or (row.median, row.median)
            assert low <= row.median <= high, f"{name}: {row}"
            assert (" as " in row.unit) <= bool(row.peer), f"{name}: {row}"
    assert "{include} ../benchmarks/speed.md" in (gpu.ROOT / "docs" / "measurements.md").read_text(
        "utf-8"
    )


def test_digits_fit_the_spread(figures: dict[str, list[common.Ratio]]) -> None:
    """By hand, and of each figure: of the range's width there are two digits or fewer."""
    for median, both, written in (
        (9.81953, [9.66111, 10.7346], "9.8 (9.7–10.7)"),
        (0.323762, [0.304547, 0.324909], "0.324 (0.305–0.325)"),
        (157664.2, [137487.1, 161258.6], "158,000 (137,000–161,000)"),
        (38.9816, [38.8788, 39.0389], "39.0 (38.9–39.0)"),
        (28.8209, [27.3381, 45.2175], "29 (27–45)"),
    ):
        assert common.Ratio("", median, both, "s").measured() == f"{written} s"
    for alone in (None, [158.024, 158.024]):
        assert common.Ratio("", 158.024, alone, "s").measured() == "158 s, one run"
    for row in (row for rows in figures.values() for row in rows if row.range):
        written, *both = (row.written(value).replace(",", "") for value in (row.median, *row.range))
        assert len(written.lstrip("0.").replace(".", "").rstrip("0")) <= 3, row
        one = 10.0 ** -len(written.partition(".")[2])
        width = round((float(max(both, key=float)) - float(min(both, key=float))) / one)
        assert len(str(width).rstrip("0")) <= 2, row


def test_floors_and_goals_are_compared() -> None:
    slow = common.Ratio("", 9.82, [9.66, 10.73], peer="one", floor=9.549, goal=8)
    assert slow.against() == ("1.03 × 9.5", "8: missed")
    assert slow._replace(goal=9.82, floor=None).against() == ("", "9.82: met")
    fast = slow._replace(unit=common.FASTER)
    assert fast.against()[1] == "8: met"
    assert fast._replace(goal=10, floor=None).against() == ("", "10: missed")
    assert fast._replace(goal=None).against()[1] == ""


def test_the_command_of_a_file_has_the_options_that_it_states() -> None:
    def heading(name: str, file: str) -> list[str]:
        return speed_page.heading(name, file, read(file)).splitlines()

    command, machine = heading("carma", "carma_llama-3.2-1b_cuda_bfloat16")
    options = "--device cuda --shape llama-3.2-1b --precision bfloat16"
    assert command == f"`python -m benchmarks.speed carma {options}`"
    assert machine.startswith("(NVIDIA H100 80GB HBM3, 1 thread, turns: 7; torch 2.11.0;")
    command, machine = heading("carma_study", "carma_study_mini_idm")
    assert command == "`python -m benchmarks.speed carma_study --repeats 1`"
    assert machine.startswith("(AMD EPYC, 2 threads, turns: 1; torch 2.13.0;")
    assert heading("phases", "phases_cuda")[0].endswith(" phases --device cuda`")


def test_what_was_measured_is_read_as_its_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"peak": {1: 2.0}}
    works = {
        "benchmark": lambda repeats=1, quick=False: {"made": content},
        "ratios": lambda content: [common.Ratio("", content["peak"]["1"], None, "s")],
    }
    written: list[str] = []
    monkeypatch.setattr(speed, "function", lambda name, what="benchmark": works[what])
    monkeypatch.setattr(speed, "write", lambda file, content: written.append(file))
    (row,) = speed.run("made", {"quick": True})
    assert (row.measured(), written) == ("2.00 s, one run", [])
    speed.run("made", {})
    assert written == ["made"]


def test_terms_of_a_benchmark_become_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "One.\n\nTwo :func:`.of`:\n\na b\n    longer\n    text;\nc\n    d.\n"
    monkeypatch.setitem(sys.modules, "made", ModuleType("made", text))
    ratios = SimpleNamespace(__doc__=None, __module__="made")
    assert speed_page.described(ratios) == "One.\n\nTwo `of`:\n\n- *a b*: longer text;\n- *c*: d."


def test_a_benchmark_takes_options_that_can_be_told() -> None:
    for name in speed.BENCHMARKS:
        for option, default in speed.taken(name).items():
            assert isinstance(default, (str, int, tuple)), f"{name}: {option}"


def test_what_codes_of_random_words_name_is_counted_by_hand() -> None:
    weights = torch.tensor([[0.0, 2, 1, 3], [0, 0, 0, 0], [5, 0, 4, 0]])
    sememes = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0], [1, 1, 0, 0]]).bool()
    assert named(weights, sememes) == {
        "r_precision": pytest.approx((1 + 0 + 1 / 2) / 3),  # a code of weight 0 names nothing
        "right_codes": 3 / 5,
        "without_codes": pytest.approx(1 / 3),
        "codes_per_word": pytest.approx(5 / 3),
    }
    drawn = drawn_sememes(300, 20, torch.Generator().manual_seed(0))
    assert set(drawn.sum(dim=1).tolist()) == {1, 2, 3, 4}
    counts = drawn.sum(dim=0)
    assert int(counts[0]) > int(counts[10]) > 0


def test_codes_of_random_words_name_sememes_where_a_term_asks_for_it() -> None:
    sizes = {"n_words": 20, "d_model": 16, "n_codes": 30}
    rows = pd.DataFrame(toy_codes([3, 4], **sizes, steps=60, lr=3e-3)["runs"])
    assert len(rows) == len(SETTINGS) * 2 * 2
    after = rows[rows["step"] == 60].set_index(["setting", "seed"])["r_precision"]
    for seed in (3, 4):
        assert after["eq. 4 and right sememes", seed] > after["eq. 4", seed] + 0.2
    before = rows[rows["step"] == 0].set_index(["setting", "seed"])
    with_norm = ["eq. 4, first term", "eq. 4", "eq. 4 and right sememes"]
    for name in with_norm[1:]:  # the same words and weights
        assert before.loc[(name, 3)].equals(before.loc[(with_norm[0], 3)])


def test_answers_to_unseen_pairs_are_told_apart_by_what_they_add() -> None:
    task = ic.complexity.AnchorTask()
    assert sorted(seen_sums(task)) == [-16, -7, -4, -3, -1, 2, 3, 6, 10]  # eq. 2, by hand
    found = shares([-10, -10, -10, -16, -7, -4, 10, -9], task)
    assert found == {"right": 3 / 8, "nearest_sums": 2 / 8, "other_sums": 2 / 8, "else": 1 / 8}
    assert shares([-10], task)["right"] == 1


def test_a_seen_sum_that_is_right_counts_as_right() -> None:
    task = replace(ic.complexity.AnchorTask(), anchors={"a": 5, "b": 1, "c": -2, "d": 4})
    assert shares([2, -1, 3, 10], task) == {
        "right": 0.25, "nearest_sums": 0.5, "other_sums": 0.25, "else": 0.0
    }  # fmt: skip


@pytest.mark.parametrize("d", SHIFTS)
def test_the_unseen_sum_is_seen_where_it_is_said_to_be(d: int) -> None:
    shifts = {"a": 5, "b": 1, "c": -2, "d": d}
    unseen = {("c", "d"), ("d", "c")}
    seen = {shifts[i] + shifts[j] for i in "abcd" for j in "abcd" if (i, j) not in unseen}
    assert seen_sums(task_of(d)) == seen
    assert (d - 2 in seen) == (d in (4, 8))


def test_diagrams_are_compared_cell_by_cell() -> None:
    places = {"init_rate": [0.4, 0.5, 0.8, 0.9], "weight_decay": [0.01] * 4}
    first = pd.DataFrame({**places, "phase": ["1", "2", "3", "3"], "agree": [1.0, 2 / 3, 1.0, 1.0]})
    second = first.assign(phase=["1", "3", "2c", "3"]).drop(index=3)
    assert phase_diagram.agreement(first, second) == {
        "same": [1, 3], "same_off_boundaries": [1, 2]
    }  # fmt: skip


def test_gains_by_layer_by_hand() -> None:
    """Two seeds, three layers: gains 4, 2, 0 and 6, 3, 3."""
    gains = {0: (4.0, 2.0, 0.0), 1: (6.0, 3.0, 3.0)}
    rows = [
        {"metric": "cap", "pooling": pooling, "seed": seed, "layer": layer} | run
        for seed, of_seed in gains.items()
        for layer, gain in enumerate(of_seed)
        for pooling in ("average", "mean")
        for run in (
            {"version": "ft", "value": 50.0 + seed},
            {"version": "carma", "value": 50.0 + seed + gain * (pooling == "average")},
        )
    ]
    found = gain_by_layer(pd.DataFrame(rows))
    assert {name: one["difference"] for name, one in found.items()} == pytest.approx(
        {"mean": (2 + 4) / 2, "slope": (-2 - 1.5) / 2, "early_minus_late": (4 + 3) / 2}
    )
    assert found["slope"]["standard_error"] == pytest.approx(0.25)
    assert found["mean"]["n"] == 2


def test_a_comparison_can_be_measured_a_few_models_at_a_time() -> None:
    """Two models, then one of them again and a third: differences are of all three to the first."""

    def accuracy(**right: Sequence[int]) -> pd.DataFrame:
        rows = [
            {"model": model, "seed": seed, "split": "test", "kind": "", "n_right": n, "n": 10}
            for model, of_model in right.items()
            for seed, n in enumerate(of_model)
        ]
        return pd.DataFrame(rows)

    def tables(**right: Sequence[int]) -> dict[str, pd.DataFrame]:
        found = accuracy(**right)
        return {"runs": found[["model", "seed"]], "accuracy": found}

    config = {"task": "scan-jump", "epochs": 24, "seeds": [0, 1], "models": ["transformer", "lrf"]}
    first = tables(transformer=[4, 6], lrf=[5, 9])
    before = {"config": config, **{name: plain_rows(rows) for name, rows in first.items()}}
    then = tables(lrf=[6, 8], deeper=[1, 2])
    joined = with_known(then, {**config, "models": ["lrf", "deeper"]}, before, ["model"])
    pd.testing.assert_frame_equal(
        joined["accuracy"], accuracy(transformer=[4, 6], lrf=[6, 8], deeper=[1, 2])
    )
    again = tables(transformer=[7, 8])
    again["depths"] = again["runs"].assign(depth=0.5)  # the file has no such table
    joined_again = with_known(again, {**config, "models": ["transformer"]}, before, ["model"])
    pd.testing.assert_frame_equal(  # settings stay in their places
        joined_again["accuracy"], accuracy(transformer=[7, 8], lrf=[5, 9])
    )
    assert joined_again["depths"]["model"].tolist() == ["transformer", "transformer"]
    found = over_seeds(joined["accuracy"], "generalise")
    assert [(row["model"], row["difference"]) for row in found["differences"]] == [
        ("lrf", 0.2), ("deeper", -0.35)
    ]  # fmt: skip
    assert [(row["model"], row["other"]) for row in found["pairs"]] == [
        ("lrf", "transformer"), ("deeper", "transformer"), ("deeper", "lrf")
    ]  # fmt: skip
    later = {name: rows.assign(seed=rows["seed"] + 1) for name, rows in first.items()}
    seeds = with_known(later, {**config, "seeds": [1, 2]}, before, ["model"])
    assert seeds["accuracy"].set_index(["model", "seed"])["n_right"].to_dict() == {
        ("transformer", 0): 4, ("lrf", 0): 5,
        ("transformer", 1): 4, ("transformer", 2): 6, ("lrf", 1): 5, ("lrf", 2): 9,
    }  # fmt: skip
    of_one = {name: rows[rows["model"] == "lrf"] for name, rows in later.items()}
    unequal = with_known(of_one, {**config, "seeds": [1, 2]}, before, ["model"])["accuracy"]
    assert unequal.query("model == 'lrf'")["seed"].tolist() == [0, 1, 2]
    for row in (over_seeds(unequal, "generalise")[of][0] for of in ("differences", "pairs")):
        assert row["difference"] == pytest.approx((0.5 - 0.4 + 0.5 - 0.6) / 2)  # of seeds 0 and 1
        assert row.get("n_seeds", row.get("n")) == 2
    others = {name: rows.assign(seed=rows["seed"] + 1) for name, rows in then.items()}
    for tables_of, other in ((then, {"epochs": 12}), (others, {"seeds": [1, 2]})):
        alone = with_known(tables_of, {**config, **other}, before, ["model"])
        pd.testing.assert_frame_equal(alone["accuracy"], tables_of["accuracy"])
    pd.testing.assert_frame_equal(with_known(then, config, {}, ["model"])["runs"], then["runs"])
    chosen = {name: rows.iloc[1:] for name, rows in then.items()}  # an index with a gap
    kept = with_known(chosen, {**config, "models": ["lrf", "deeper"]}, before, ["model"])
    assert len(kept["runs"]) == len(chosen["runs"]) + 3  # of the file: transformer, a seed of lrf
    again["depths"] = again["depths"].iloc[1:]
    of_gap = with_known(again, {**config, "models": ["transformer"]}, before, ["model"])
    assert of_gap["depths"]["depth"].tolist() == [0.5]


def test_steps_to_fit_are_by_tens_where_all_runs_have_them() -> None:
    place = {"init_rate": 0.5, "weight_decay": 0.01, "size": 7}
    runs = [{**place, "seed": seed, "steps_to_fit": 100.0} for seed in (0, 1)]
    fits = [{**place, "seed": seed, "by_step": 10.0 * seed} for seed in (1, 0)]
    for rows, steps in ((fits, [0.0, 10.0]), (fits[1:], [100.0] * 2), ([], [100.0] * 2)):
        assert runs_of({"runs": runs, "fits": rows})["steps_to_fit"].tolist() == steps


def test_more_sizes_of_a_task_join_what_was_kept_of_it() -> None:
    """What the study says of its runs today agrees with the file but for what varies, so that a
    later call adds to it."""
    asked = TaskPhasesOptions(seeds=5, sizes=[100])
    task = ic.load_sequences("scan-turn-left")
    config = measure._grid(task, [0.5], [0.01], asked).config
    before = read("task_phases_scan_turn_left")
    run = before["runs"][0] | {"size": 100, "init_rate": 0.5, "weight_decay": 0.01}
    row = before["accuracy"][0] | {"size": 100, "init_rate": 0.5, "weight_decay": 0.01}
    tables = {
        "runs": pd.DataFrame([run | {"seed": seed} for seed in range(5)]),
        "accuracy": pd.DataFrame([row | {"seed": seed} for seed in range(5)]),
    }
    config = sequence_outcomes.kept_config(config)
    joined = with_known(tables, config, before, sequence_outcomes.AXES["task_phases"])
    assert len(joined["runs"]) == len(before["runs"]) + 5
    assert len(joined["accuracy"]) == len(before["accuracy"]) + 5


def test_what_heads_read_is_averaged_over_kinds_by_their_tokens() -> None:
    place = {"model": "lrf", "split": "test", "stack": "encoder", "head": 0}
    kinds = [{**place, "kind": kind, "n": n} for kind, n in (("a", 1), ("b", 3))]
    reads = [
        {**one, "layer": 1, "earlier": earlier, "weight": abs(earlier - weight)}
        for one, weight in zip(kinds, (0.8, 0.4), strict=True)
        for earlier in (0, 1)
    ]
    entropies = [
        {**one, "layer": layer, "entropy": value * layer, "share": value if layer else None}
        for layer in (0, 1)
        for one, value in zip(kinds, (0.1, 0.5), strict=True)
    ]
    frames = {"entropies": pd.DataFrame(entropies).astype({"share": float})}
    found = fusion_outcomes.over_kinds(SimpleNamespace(reads=pd.DataFrame(reads), frames=frames))
    assert found["reads"]["weight"].tolist() == pytest.approx([0.5, 0.5])  # (.8 + 3 * .4) / 4
    assert found["entropies"]["entropy"].tolist() == pytest.approx([0, 0.4])
    assert found["entropies"]["share"].tolist() == pytest.approx([math.nan, 0.4], nan_ok=True)


def test_a_table_of_sequences_shows_curves_where_they_were_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = read("generalise_scan_jump")
    none = found | {"curve": []}
    found["curve"] = [
        {"model": model, "seed": seed, "step": step, "split": split, "accuracy": seed / 4, "n": 4}
        for model, seed, step, split in product("ab", (0, 1), (0, 1000), ("train", "test"))
    ]
    monkeypatch.setattr(measured, "read", lambda name: found)
    assert generalise_results.curves("")[1] == [
        ["0", "12.5 / 12.5", "12.5 / 12.5"],
        ["1,000", "12.5 / 12.5", "12.5 / 12.5"],
    ]
    monkeypatch.setattr(measured, "read", lambda name: none)
    assert generalise_results.curves("") is None


def codes() -> ic.cat.Codes:
    """Two seeds of one model, two blocks, three codes of the last one."""
    made: dict[str, list[dict[str, object]]] = {
        name: [] for name in ("words", "sememes", "consistency", "phrases")
    }
    for seed in (0, 1):
        run = {"model": "cat", "seed": seed}
        for code, weights in enumerate(([3.0, 0.5], [2.0, 1.0], [4.0])):
            for rank, weight in enumerate(weights, start=1):
                place = {"layer": 1, "code": code, "sememe": "abc"[code], "rank": rank}
                word = {"word": f"w{code}{rank}", "weight": weight, "n": 2}
                made["words"].append({**run, **place, **word})
        for source, word in product(("codes", "commonest", "permuted"), ("x", "y")):
            values = dict.fromkeys(("r_precision", "precision", "recall"), 0.5 * (word == "x"))
            about = {"source": source, "side": "held_out", "word": word, "n": 3, "n_sememes": 1}
            made["sememes"].append({**run, **about, **values})
        for layer, vector in product((0, 1), ("codes", "cont")):
            auc = 0.6 + 0.1 * layer + 0.2 * seed * (vector == "codes")
            place = {"question": "words", "layer": layer, "vector": vector}
            over = 0.2 * seed * (vector == "codes")
            ends = {"low": 0.5, "high": 0.9, "over_cont": over, "over_low": over, "over_high": over}
            cell = {"same": 0.9, "other": 0.1, "auc": auc, **ends, "n": 20}
            made["consistency"].append({**run, **place, **cell})
        names = [f"{of}{one}" for of in ("", "other_") for one in ("cosine", "jaccard", "cont")]
        values = {name: (i + seed) / 10 for i, name in enumerate(names)}
        phrase = {"layer": 0, "phrase": "a b", "position": 1, "word": "a"}
        made["phrases"] += [
            {**run, **phrase, **values},
            {**run, **phrase, **values, "position": 2, "word": "b"},
        ]
    tables = {name: pd.DataFrame(rows) for name, rows in made.items()}
    config = {"models": ["cat"], "seeds": [0, 1], "data": "0", "wordnet": False}
    return ic.cat.Codes.from_rows(tables, config)


def test_what_codes_stand_for_is_kept_and_tabulated(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(ChartFigure, "save", lambda figure, path: drawn.append(path.name))
    monkeypatch.setattr(ic.cat.Codes, "load", lambda folder: codes())
    kept = outcomes.measured(outcomes.settings("codes_small"), Path())
    monkeypatch.setattr(measured, "read", {"codes_tiny": kept}.__getitem__)
    assert drawn == ["codes_sememes_small.png", "codes_consistency_small.png"]
    _, sememes = encoder_results.named_sememes("codes_tiny")
    assert sememes[0] == [
        "cat", "held out", "codes", "0.250 (0.250–0.250)", "0.000–0.500", "2"
    ]  # fmt: skip
    assert encoder_results.words_again("codes_tiny", "senses")[1] == []
    _, again = encoder_results.words_again("codes_tiny", "words")
    assert again[1] == [
        "cat", "1", "0.800 (0.700–0.900)", "0.700 (0.700–0.700)", "+0.100 (+0.000 to +0.200)", "20"
    ]  # fmt: skip
    heads, phrases = encoder_results.words_of_phrases("codes_tiny")
    assert dict(zip(heads, phrases[0], strict=True))["jaccard: other"] == "0.450 (0.400–0.500)"
    _, shared = encoder_results.shared_codes("codes_tiny")
    assert shared == [["cat", "a", "w01, w02"], ["cat", "b", "w11, w12"]]  # c has one word alone
    for part in tables.CODES.values():
        assert len(tables.fragment(part("codes_tiny")).splitlines()) >= 4


def test_results_of_codes_become_tables_once_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.of_codes() == {}
    (tmp_path / "codes_cat.json").touch()
    assert set(tables.of_codes()) == {f"codes_cat_{part}.md" for part in tables.CODES}


def test_correlations_that_do_not_exist_are_counted() -> None:
    place = {"model": "cat", "layer": 0}
    runs = [pd.DataFrame([{**place, "pearson": one}]) for one in (0.25, math.nan, 0.75)]
    (row,) = cat_pooled.over_seeds(runs, ["model", "layer"], ["pearson"]).to_dict("records")
    assert row == {
        **place, "measure": "pearson", "mean": 0.5, "smallest": 0.25, "largest": 0.75, "n_seeds": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    ("distribution", "name"), [("uniform", "concept_graphs"), ("normal", "concept_graphs_normal")]
)
def test_each_distribution_of_initial_weights_has_a_file_and_pictures(
    distribution: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(ChartFigure, "save", lambda figure, path: drawn.append(path.name))
    config = {**concepts.CONFIG, "distribution": distribution}
    graphs = ic.complexity.ConceptGraphs.from_runs(concepts.frames(), config)
    monkeypatch.setattr(ic.complexity.ConceptGraphs, "load", lambda folder: graphs)
    run = outcomes.settings(name)
    assert ("--distribution normal" in run["calls"][0]) == (distribution == "normal")
    kept = outcomes.measured(run, Path())
    assert {"runs", "accuracy", "judge", "summary", "failure"} < kept.keys()
    assert not {"curve", "examples"} & kept.keys()
    assert drawn == [f"{name}_{figure}.png" for figure in ("accuracy", "curve", "images")]


def test_steps_are_drawn_from_what_was_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps where all seeds of a setting fit their training data; no perplexity of one size."""
    drawn = {}
    monkeypatch.setattr(ChartFigure, "save", lambda own, path: drawn.update({path.name: own}))
    name = "task_phases_scan_turn_left"
    sequence_outcomes.draw(name)
    (panel,) = drawn[f"{name}_steps.png"].chart.panels
    steps = {line.label: [*line.y, *line.low, *line.high] for line in panel.lines}
    for setting, rate in (("γ 0.5, wd 0.01", 0.5), ("γ 0.7, wd 0.1", 0.7)):
        runs = [run for run in read(name)["runs"] if run["init_rate"] == rate]
        own = [
            [run["steps_to_fit"] for run in runs if run["size"] == size]
            for size in sorted({run["size"] for run in runs})
        ]
        means = [sum(one) / len(one) for one in own]
        assert steps[setting] == pytest.approx([*means, *map(min, own), *map(max, own)])
    drawn.clear()
    sequence_outcomes.draw("text_phases_text")
    assert drawn == {}


def exposed_result(times: int, of: str, epochs: int, right: int) -> ic.lrf.Generalisation:
    """On COGS, of two seeds; the second gets two more right."""
    rights = {"transformer": [(right, 2 * right), (right + 2, 2 * right)]}
    report = {} if times == 1 else {"exposures": times, "exposures_of": of}
    config = {
        **generalise.CONFIG, "study": "generalise", "task": f"cogs, {times}", "epochs": epochs,
        "data_report": report, "models": ["transformer"], "seeds": [0, 1],
        **({} if times == 1 else {"steps_per_epoch": 2}),  # of four steps
    }  # fmt: skip
    return ic.lrf.Generalisation.from_runs(generalise.frames(rights), config)


def test_generalisation_is_placed_by_how_often_a_line_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [(1, "tested", 16, 0), (20, "tested", 2, 6), (20, "others", 2, 1)]
    results = [exposed_result(*each) for each in asked]
    folders = [each.save(tmp_path / str(i)) for i, each in enumerate(results)]
    kept = exposures.measured(*folders)
    seen = [(row["seen"], row["exposures_of"], row["seed"]) for row in kept["runs"]]
    assert seen == [
        (16, "tested", 0), (16, "tested", 1), (40, "tested", 0), (40, "tested", 1),
        (2, "others", 0), (2, "others", 1),
    ]  # fmt: skip
    rows = {row["seen"]: row for row in kept["summary"] if row["kind"] == "all"}
    assert rows[40]["mean"] == pytest.approx((18 / 40 + 20 / 40) / 2, abs=1e-6)
    assert [row["n_right"] for row in kept["accuracy"] if row["seen"] == 2] == [1, 2, 3, 2]
    assert "step_seconds" not in kept["runs"][0]
    assert {row["step"] for row in kept["curve_ends"]} == {4}

    (tmp_path / "made.json").write_text(json.dumps(kept))
    monkeypatch.setattr(exposures, "RESULTS", tmp_path)
    pictures = {}
    monkeypatch.setattr(ChartFigure, "save", lambda own, path: pictures.update({path.name: own}))
    exposures.draw("made")
    chart = pictures["made.png"].chart
    assert chart.categories == ["2", "16", "40"]
    lines = {line.label: (line.x, line.y) for line in chart.panels[0].lines}
    assert lines["transformer"] == ([2.0], [pytest.approx(rows[40]["mean"], abs=1e-6)])
    assert set(lines) == {
        "transformer", "transformer, nothing repeated", "transformer, others repeated"
    }  # fmt: skip
    once = exposed_result(1, "tested", 2, 0).save(tmp_path / "as many epochs")
    (tmp_path / "made.json").write_text(json.dumps(exposures.measured(*folders[1:], once)))
    exposures.draw("made")
    chart = pictures["made.png"].chart
    assert {line.label: line.x for line in chart.panels[0].lines} == {
        "transformer": [0.0, 1.0], "transformer, others repeated": [0.0],
    }  # fmt: skip

    other = replace(results[1], config={**results[1].config, "d_model": 99})
    with pytest.raises(SystemExit, match="not of one comparison"):
        exposures.measured(folders[0], other.save(tmp_path / "other"))
    scan = replace(results[0], config={**results[0].config, "task": "scan-jump"})
    with pytest.raises(SystemExit, match="scan-jump: how often it was seen is not known"):
        exposures.measured(scan.save(tmp_path / "scan"))


def test_fits_by_step_and_ceilings_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two folders, and drawn in the place of the ends of epochs."""
    folders = []
    for decay in task_phases.DECAYS:
        made = {
            name: frame[frame["weight_decay"] == decay]
            for name, frame in task_phases.frames().items()
        }
        made["curve"] = made["curve"].assign(split="train")
        steps = made["runs"][[*KEY]].assign(step=10, loss=lambda runs: 0.05 + runs["seed"])
        made["losses"] = pd.concat([steps, steps.assign(step=20, loss=0.1)], ignore_index=True)
        counts = {"split": "gen", "kind": "", "n_known": 4, "n": 10}
        made["ceilings"] = pd.DataFrame([{"size": size, **counts} for size in task_phases.SIZES])
        config = {**task_phases.CONFIG, "study": "task_phases", "weight_decays": [decay]}
        found = ic.complexity.TaskPhases.from_runs(made, config)
        folders.append(found.save(tmp_path / str(decay)))
    kept = sequence_outcomes.measured(*folders)
    assert len(kept["fits"]) == len(kept["runs"]) == 16
    for row in kept["fits"]:
        assert (row["by_step"], row["train"], row["fitted"]) == (10 + 10 * row["seed"], 0.5, 0)
    assert kept["ceilings"] == [{"size": size, **counts} for size in task_phases.SIZES]
    assert {row["steps_to_fit"] for row in kept["runs"]} != {10, 20}
    (tmp_path / "made.json").write_text(json.dumps(kept))
    monkeypatch.setattr(sequence_outcomes, "RESULTS_FOLDER", tmp_path)
    drawn = {}
    monkeypatch.setattr(ChartFigure, "save", lambda own, path: drawn.update({path.name: own}))
    sequence_outcomes.draw("made")
    (panel,) = drawn["made_steps.png"].chart.panels
    assert {(*line.y, *line.low, *line.high) for line in panel.lines} == {(15, 15, 10, 10, 20, 20)}
    rates = kept["config"]["init_rates"]
    fewer = [row for row in kept["accuracy"] if row["seed"] == 0 or row["init_rate"] == rates[0]]
    kept |= over_seeds(pd.DataFrame(fewer), "task_phases")
    (tmp_path / "made.json").write_text(json.dumps(kept))
    sequence_outcomes.draw("made")  # settings with one seed stay out
    chart = drawn["made_accuracy.png"].chart
    assert "2 seeds" in chart.subtitle
    assert all(f"γ {rates[0]:g}" in line.label for panel in chart.panels for line in panel.lines)


def test_what_was_not_measured_is_none() -> None:
    frame = pd.DataFrame({"x": [0.1234567, math.nan], "n": [1, 2]})
    assert plain_rows(frame) == [{"x": 0.123457, "n": 1}, {"x": None, "n": 2}]
    spread = spread_of(pd.DataFrame({"k": [1, 1, 2], "v": [1.0, 3.0, 5.0]}), ["k"])
    assert spread.to_dict("list") == {
        "k": [1, 2], "v_mean": [2.0, 5.0], "v_min": [1.0, 5.0], "v_max": [3.0, 5.0]
    }  # fmt: skip


def test_shares_are_written_as_the_figures_round_them() -> None:
    told = {0.165: ".16", 0.235: ".24", 0.9949: ".99", 1.0: "1.00", -0.02: "−.02", -0.004: ".00"}
    assert {value: share(value) for value in told} == told


def test_a_table_of_a_page_is_pivoted_as_it_is_declared() -> None:
    rows = pd.DataFrame(
        [
            {"model": "a", "seed": 0, "split": "test", "right": 0.25, "change": -0.5},
            {"model": "a", "seed": 1, "split": "test", "right": 0.75, "change": 0.25},
            {"model": "a", "seed": 0, "split": "gen", "right": -0.5, "change": None},
            {"model": "b", "seed": 0, "split": "gen", "right": 1.0, "change": None},
        ]
    )
    cells = measured.over(rows, ["model", "split"])
    by, columns = {"": "`{model}`"}, {"{split}, %": "{right:.0points}", "change": "{change:+.2f}"}
    heads, texts = measured.pivot(cells, by, ["split"], columns)
    assert heads == ["", "test, %", "change", "gen, %"]  # of gen no change is known
    assert texts[0] == ["`a`", "50 (25–75)", "−0.12 (−0.50 to +0.25)", "−50"]
    assert texts[1] == ["`b`", "–", "–", "100"]
    assert measured.markdown(["x"], [["-1.5 (−2–3)"]]).endswith("| −1.5 (−2 to 3) |\n")
    with pytest.raises(ValueError, match=r"two rows for \('`a`',\) and \('test', '{split}, %'\)"):
        measured.pivot(rows, by, ["split"], columns)


def test_losses_that_rise_again_are_counted() -> None:
    places = {"init_rate": 0.4, "weight_decay": [1.0] * 6 + [0.1] * 3, "seed": [1] * 3 + [2] * 6}
    step = {"step": [300, 100, 200] * 3}
    losses = [0.9, 1.0, 0.4, 0.7, 1.0, 0.4, math.nan, math.nan, 1.0]  # at 300, 100 and 200
    history = pd.DataFrame({**places, **step, "train_loss": losses})
    assert phase_diagram.risen(history) == {"0.1": [0, 1], "1": [1, 2]}


def test_what_comes_first_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(3, 1), (3, 1), (2, 2), (1, 3), (5, None), (None, 4), (None, None)]
    runs = [{"reasons": reasons, "condenses": condenses} for reasons, condenses in pairs]
    monkeypatch.setattr(measured, "read", lambda name: {"onsets": runs})
    _, rows = phase_results.onsets()
    # Of 4 × 4 pairs, those that condense at 1, 1, 2 and 3 come before 3, 3 and 2 of the others.
    assert rows[0][1:] == ["7", "4", "2", f"{100 * (3 + 3 + 2 + 0) / 16:.0f}", "1", "1", "1", "1"]


@pytest.mark.parametrize(
    "name",
    [*map("phase_diagram_{}".format, ("pre", "pre_unclipped", "post")), "phase_samples_post"],
)
def test_the_phases_of_the_pages_are_those_of_the_rule(name: str) -> None:
    found = read(name)
    cells = found["cells"] + found.get("again", {"cells": []})["cells"]
    phases = [phase_of(*(cell[name] for name in SHARES)) for cell in cells]
    assert phases == [cell["phase"] for cell in cells]
    assert ("0" in phases) == name.startswith("phase_diagram")  # the grid has starts too large
    for cell in cells:
        if cell["phase"] == "0" and cell["train_high"] < 0.9:
            assert cell["agree"] == 1
        if cell["phase"] != "0" and cell["train_low"] < 0.9:
            assert cell["agree"] < 1


def test_delays_are_of_a_seed_against_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = {(0.5, 0): [20, 30], (0.5, 1): [25, 28], (0.8, 0): [10, 10], (0.8, 1): [15, None]}
    runs = [
        {"init_rate": rate, "n_layers": 2, "violations": n, "seed": seed, "loss_epochs": value}
        for (rate, n), each in epochs.items()
        for seed, value in enumerate(each)
    ]
    monkeypatch.setattr(measured, "read", lambda name: {"runs": runs[::-1]})
    _, rows = speed_results.delays("fitting_speed")
    assert rows == [["0.5", "2", "1", "+1.5 (−2.0 to +5.0)", "+6%", "1 of 2"]]  # 0.8: one never did


def test_works_are_timed_turn_about_and_compared_within_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, order = [0.0], []

    def work(name: str, seconds: list[float]) -> None:
        order.append(name)
        clock[0] += seconds.pop(0)

    monkeypatch.setattr(common.time, "process_time", lambda: clock[0])
    theirs, ours = [9.0, 4.0, 6.0, 2.0], [9.0, 2.0, 1.0, 2.0]
    works = {"theirs": lambda: work("theirs", theirs), "ours": lambda: work("ours", ours)}
    found = authors.turns(works, 3)
    assert order == ["theirs", "ours"] * 4
    assert (found["turns"], found["theirs_s"], found["ours_s"]) == (3, 4.0, 2.0)
    assert (found["theirs_ratio"], found["theirs_ratio_range"]) == (2.0, [1.0, 6.0])


def test_transplants_over_models_by_hand() -> None:
    place = {"layer": 0, "pooling": "mean", "vector": "transplant"}
    frames = [
        pd.DataFrame(
            [
                {
                    **place,
                    "expected_accuracy": expected,
                    "expected_low": 0.0,
                    "expected_high": 1.0,
                    "answer_accuracy": 0.1,
                    "remembered": remembered,
                    "n": 40,
                }
            ]
        )
        for expected, remembered in ((0.5, 0.2), (0.9, 0.4), (0.1, 0.0))
    ]
    (row,) = over_models(frames).to_dict("records")
    assert row["expected_accuracy"] == pytest.approx(0.5)
    assert (row["expected_low"], row["expected_high"]) == (0.1, 0.9)
    assert (row["answer_low"], row["answer_high"]) == (0.1, 0.1)
    assert row["remembered"] == pytest.approx(0.2)
    assert (row["remembered_low"], row["remembered_high"]) == (0.0, 0.4)
    assert (row["n"], row["n_models"]) == (40, 3)
    assert over_models(frames[:1]) is frames[0]


def test_tables_of_exposures_and_entanglement_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {"mean": 0.2, "smallest": 0.1, "largest": 0.3, "n_seeds": 3}
    place = {"split": "gen", "kind": "all", "model": "lrf", **shares}
    summary = [
        {**place, "seen": 160, "exposures": 20, "exposures_of": "tested"},
        {**place, "seen": 7.97, "exposures": 20, "exposures_of": "others"},
        {**place, "seen": 8, "exposures": 1, "exposures_of": "tested"},
        {**place, "seen": 8, "exposures": 1, "exposures_of": "tested", "kind": "prim"},
    ]
    probes = [
        {"model": "lrf", "stack": "decoder", "layer": 2, "probe": probe, "seed": seed}
        | {"within": within, "across": within - less}
        for probe, within, less in (("role", 0.9, 0.1), ("word", 0.8, 0.3))
        for seed in (0, 1)
    ]
    found = {"summary": summary, "entanglement": probes}
    monkeypatch.setattr(measured, "read", lambda _: found)
    assert [row[:3] for row in generalise_results.exposures("")[1]] == [
        ["8", "nothing", "20.0 (10.0–30.0)"],
        ["160", "tested, × 20", "20.0 (10.0–30.0)"],
        ["8", "others, × 20", "20.0 (10.0–30.0)"],
    ]
    heads, (row,) = generalise_results.entangled("")
    assert heads[3:] == ["role", "across", "entanglement", "word", "across", "entanglement"]
    assert [cell[:4] for cell in row[3:]] == ["0.90", "0.80", "0.10", "0.80", "0.50", "0.30"]


def test_ends_of_watched_models_are_paired_by_the_seeds_that_both_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = math.nan
    of = {"bert": ([1.0, 2, 3], [4.0, 6, 8]), "cat": ([1.0, 1, 1], [5.0, 9, missing])}
    rows = [
        {"model": model, "seed": seed, "step": step, "measure": "agreement", "value": value}
        for model, both in of.items()
        for step, values in zip((0, 8), both, strict=True)
        for seed, value in enumerate(values)
    ]
    never = [{**row, "measure": "other", "value": missing} for row in rows]
    found = last_differences(pd.DataFrame([*rows, *never]), ("bert", "cat"))
    two = found.iloc[1]  # 5 - 4 and 9 - 6: mean 2, standard error 1, t of 1 degree of freedom
    assert (two["n"], two["start"], two["end"], two["difference"]) == (2, 1, 7, 2)
    assert (two["ci_low"], two["ci_high"]) == pytest.approx((2 - 12.7062, 2 + 12.7062), abs=1e-3)
    assert found.iloc[[0, 2, 3]]["difference"].isna().all()
    last = ends(pd.DataFrame(rows)).query("model == 'cat' and at == 'end'").dropna()
    assert dict(zip(last["seed"], last["value"], strict=True)) == {0: 5, 1: 9}

    monkeypatch.setattr(measured, "read", lambda _: {"differences": plain_rows(found)})
    heads, table = watch_results.ends("made")
    assert heads == ["", "bert", "cat", "cat − bert"]
    assert table[0] == [
        "agreement",
        "2.000 → 6.000",
        "1.000 → 7.000",
        "+2.000 (−10.706 to +14.706)",
    ]
    assert table[1][1:] == ["– → –", "– → –", "–"]


def test_sections_are_kept_stopped_and_gone_on_with(tmp_path: Path) -> None:
    """Of five sections one holds; what failed, hung or died is told apart, with what it had
    measured; measured again, also where processes cannot fork, is what had not finished."""
    found = outcome_of("tests.sections_of_a_benchmark", tmp_path)
    first, second = (found[when]["sections"] for when in ("first", "second"))
    assert {name: (one["state"], len(one["rows"])) for name, one in first.items()} == {
        "holds": ("finished", 2),
        "fails": ("finished", 1),
        "raises": ("failed", 1),
        "hangs": ("stopped", 1),
        "dies": ("failed", 1),
    }
    assert found["first"]["gpu"] == "one"
    assert first["raises"]["error"].endswith("ValueError: as planned\n")
    assert first["hangs"]["error"] == "took over 1 s"
    assert first["hangs"]["seconds"] == 1
    assert first["dies"]["error"] == "its process ended: -11"
    assert found["child ended"]  # which a section had begun
    assert second == first | {"raises": second["raises"]}
    assert (second["raises"]["state"], len(second["raises"]["rows"])) == ("finished", 2)
    assert found["begun"] == [*first, "holds"]
    assert found["status"] == [
        1,
        1,  # a failed check stays one
        0,
        1,  # no time was left
        1,  # the file is of another GPU
    ]


def test_a_blocks_multiplications_are_those_of_its_matrices() -> None:
    """At each position those of the weights, and d_model for each key in each of two products."""
    ends = {"bos_token_id": 0, "eos_token_id": 0, "vocab_size": 60}
    gpt2 = carma.random_model("gpt2-small", "cpu", n_embd=16, n_layer=2, n_head=2, **ends)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    width = {"hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 2}
    llama = carma.random_model("smollm2-135m", "cpu", **width, **heads, **ends)
    for model, before, end in (
        (gpt2, 3 * 16**2, 9 * 16**2),
        (llama, 16 * 16 + 2 * 16 * 8, 16 * 16 + 3 * 16 * 40),
    ):
        cost, weights = cap_sweep.BlockCost.of(model), before + end
        assert (cost.dense, cost.spared(3)) == (weights, 2 * end)
        assert cost(3) == 3 * weights + 2 * 3 * 3 * 16
        assert cost(3, 5) == 3 * weights + 2 * 3 * 5 * 16


@pytest.mark.gpu_dry
def test_all_that_is_measured_of_a_gpu_runs_in_small_on_a_cpu(tmp_path: Path) -> None:
    """But for the tests marked gpu, which are only counted here."""
    names = [name for name in gpu.SECTIONS if name != "tests"]
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--only", *names],
        capture_output=True,
        text=True,
        cwd=gpu.ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert (found["gpu"], found["dry"]) == (None, True)
    assert found["versions"]["transformer-lens"]
    sections = found["sections"]
    assert list(sections) == names
    assert {one["state"] for one in sections.values()} == {"finished"}
    rows = sections["agreement"]["rows"]
    measured = Counter(row["model"] for row in rows)
    assert measured == {"GPT-2": 15, "BERT": 9, "T5": 14}
    assert all(row["apart"]["cpu float32"] <= gpu.FLOAT32 for row in rows)
    assert all(row["apart"]["cpu bfloat16"] > row["apart"]["cpu float32"] for row in rows)
    assert sections["audit"]["rows"][0]["ok"]


@pytest.mark.parametrize(
    ("there", "held"),
    [
        ([1.0, 2.0], True),
        ([1.0, 2.02], False),
        ([1.0, math.nan], False),
        ("RuntimeError: on another device", False),
    ],
)
def test_another_number_on_the_other_device_is_a_failed_check(
    there: list[float] | str, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcomes(weights: torch.nn.Linear, *_: object) -> dict[str, torch.Tensor | str]:
        of = there if weights.weight.is_meta else [1.0, 2.0]
        if isinstance(of, str):
            return {"logits": of}
        rounding = 0.01 if weights.weight.dtype == torch.bfloat16 else 0.0
        return {"logits": torch.tensor(of) + rounding}

    monkeypatch.setattr(gpu, "_models", lambda *_: {"one": lambda: torch.nn.Linear(2, 2)})
    monkeypatch.setattr(gpu, "_outcomes", outcomes)
    (row,) = gpu.agreement(gpu.Setting("meta", True))
    assert row["ok"] is held
    assert set(row["apart"]) == {
        "cpu float32", "meta float32", "cpu bfloat16", "meta bfloat16"
    }  # fmt: skip


def test_without_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device: --dry runs all of it on the CPU"):
        gpu.about(gpu.Setting("cuda", False))


def test_tests_marked_gpu_are_found() -> None:
    files = gpu.marked_files()
    assert {"tests/test_gpu.py", "tests/probes/test_rank_gpu.py"} <= set(files)


def test_what_a_machine_without_a_network_is_brought_is_pinned() -> None:
    """What transformer-lens and the library need, but for what such a machine has."""
    made = (gpu.ROOT / "Makefile").read_text(encoding="utf-8")
    (listed,) = re.findall(r"CARRIED := ((?:.*\\\n)*.*)", made)
    carried = {canonicalize_name(name) for name in listed.replace("\\", "").split()}
    pins = (gpu.ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert carried <= {canonicalize_name(line.partition("==")[0]) for line in pins}
    there = {
        *("accelerate", "einops", "filelock", "huggingface-hub", "jaxtyping", "jinja2"),
        *(
            "lazy-loader",
            "markupsafe",
            "matplotlib",
            "numpy",
            "packaging",
            "pandas",
            "pillow",
            "protobuf",
            "pyarrow",
            "pyyaml",  # which huggingface-hub needs
            "rich",
        ),
        *("safetensors", "scikit-learn", "scipy", "sentencepiece", "tokenizers", "torch", "tqdm"),
        "typing-extensions",
    }
    not_run = {"wandb", "transformers-stream-generator"}  # that transformer-lens never imports here
    for package in ("interp-compose", "transformer-lens"):
        needed = [Requirement(line) for line in requires(package) or ()]
        names = {
            canonicalize_name(one.name)
            for one in needed
            if one.marker is None or one.marker.evaluate({"extra": ""})
        }
        assert names - carried - there - not_run == set()


def test_gains_of_settings_are_over_plain_fine_tuning_of_the_seed() -> None:
    values = {("ft", 0): 50, ("one", 0): 53, ("two", 0): 49, ("ft", 1): 60, ("one", 1): 62}
    rows = pd.DataFrame(
        [
            {"setting": setting, "seed": seed, "claim": claim, "value": value * times}
            for (setting, seed), value in values.items()
            for claim, times in (("cap", 1), ("accuracy", 10))
        ]
    )
    found = carma_search.gains(rows).set_index(["setting", "seed", "claim"])["gain"].to_dict()
    expected = {("one", 0): 3, ("two", 0): -1, ("one", 1): 2}
    assert found == {
        (*place, claim): gain * times
        for place, gain in expected.items()
        for claim, times in (("cap", 1), ("accuracy", 10))
    }
