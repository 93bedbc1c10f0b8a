"""What every study's result promises: tables are checked, and it returns from disk as it was."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import interp_compose as ic
from interp_compose.errors import (
    CorruptFileError,
    InputError,
    LayerError,
    MissingDataError,
    OptionError,
)
from interp_compose.papers.complexity.studies.fitting_speed.result import FittingSpeed
from interp_compose.papers.complexity.studies.mechanism.result import Mechanism
from interp_compose.papers.complexity.studies.phases.result import PhaseDiagram
from interp_compose.runs.result import Result
from interp_compose.studies.ablation import result as ablation
from interp_compose.studies.cap import result as cap
from interp_compose.studies.core.examples import PREDICTIONS, TOKENS
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.similarity import result as similarity
from interp_compose.studies.weights.result import ComplexityReport
from tests.papers.carma.studies import carma_tables
from tests.papers.cat.studies import test_encoders as of_encoders, test_pretrain as of_pretrain
from tests.papers.complexity.studies import (
    test_concept_graphs as of_concept_graphs,
    test_speed_result as of_speed,
    test_task_phases as of_task_phases,
    test_text_phases as of_text_phases,
)
from tests.papers.lrf.studies import test_fusion as of_fusion, test_generalise as of_generalise
from tests.studies import (
    test_ablation_result as of_ablation,
    test_cap_curve_result as of_cap,
    test_similarity_result as of_similarity,
    test_transplant as of_transplants,
)

Frames = dict[str, pd.DataFrame]


class Entry(NamedTuple):
    """Where a user hands a study's frames in."""

    tables: tuple[Table, ...]
    frames: Callable[[], Frames]
    made: Callable[[Frames], StudyResult]


def rows_of(tables: tuple[Table, ...]) -> Frames:
    """Three rows of each table, all different."""
    values: dict[str, Callable[[int], Any]] = {
        "int64": lambda i: i,
        "float64": lambda i: i / 4,
        "bool": lambda i: True,
        "str": lambda i: f"{i}",
    }
    return {
        table.name: table.of(
            [{name: values[kind](i) for name, kind in table.columns.items()} for i in range(3)]
        )
        for table in tables
    }


def texts() -> Frames:
    return {"predictions": rows_of((PREDICTIONS,))["predictions"]}


def cap_frames() -> Frames:
    clean = of_cap.make_clean()
    tokens = rows_of((TOKENS,))
    return {"outcomes": of_cap.make_outcomes(clean), "clean": clean, **tokens, **texts()}


def ablation_frames() -> Frames:
    cells = of_ablation.make_cells()
    outcomes = of_ablation.make_outcomes(cells)
    return {"outcomes": outcomes, "clean": of_ablation.make_clean(), "cells": cells, **texts()}


def similarity_frames() -> Frames:
    pairs = of_similarity.make_pairs()
    return {"cosines": of_similarity.make_cosines(pairs), "pairs": pairs}


GRID = {"weight_decay": 0.01, "seed": 0, "norm": "pre", "n_layers": 2, "d_model": 8, "clip": 1.0}
ENTRIES = {
    "cap": Entry(
        cap.CapCurve.SCHEMA,
        cap_frames,
        lambda t: cap.CapCurve.from_outcomes(**t, config=of_cap.CONFIG, n_layers=of_cap.N_LAYERS),
    ),
    "ablation": Entry(
        ablation.AblationCurve.SCHEMA,
        ablation_frames,
        lambda t: of_ablation.make_curve(**t),
    ),
    "transplants": Entry(
        ic.Transplants.SCHEMA,
        lambda: {**of_transplants.frames(), **texts()},
        lambda t: ic.Transplants.from_outcomes(**t, config=of_transplants.CONFIG, n_layers=2),
    ),
    "similarity": Entry(
        (similarity.COSINES, similarity.PAIRS),
        similarity_frames,
        lambda t: similarity.SimilarityCurve.from_outcomes(
            **t, config=of_similarity.CONFIG, n_layers=of_similarity.N_LAYERS
        ),
    ),
    "carma": Entry(
        ic.carma.Comparison.SCHEMA,
        carma_tables.make_tables,
        lambda t: ic.carma.Comparison.from_runs(t, carma_tables.CONFIG),
    ),
    "speed": Entry(
        FittingSpeed.SCHEMA,
        lambda: dict(zip(("runs", "pairs", "samples"), of_speed.tables(), strict=True)),
        lambda t: FittingSpeed.from_runs(t, of_speed.CONFIG),
    ),
    "phases": Entry(
        PhaseDiagram.SCHEMA,
        lambda: rows_of(PhaseDiagram.SCHEMA),
        lambda t: PhaseDiagram.from_runs(t, GRID),
    ),
    "mechanism": Entry(
        Mechanism.SCHEMA,
        lambda: rows_of(Mechanism.SCHEMA),
        lambda t: Mechanism.from_rows(t, GRID),
    ),
    "generalise": Entry(
        ic.lrf.Generalisation.SCHEMA,
        lambda: of_generalise.frames(of_generalise.RIGHTS),
        lambda t: ic.lrf.Generalisation.from_runs(t, of_generalise.CONFIG),
    ),
    "task_phases": Entry(
        ic.complexity.TaskPhases.SCHEMA,
        of_task_phases.whole_frames,
        lambda t: ic.complexity.TaskPhases.from_runs(t, of_task_phases.CONFIG),
    ),
    "concept_graphs": Entry(
        ic.complexity.ConceptGraphs.SCHEMA,
        of_concept_graphs.frames,
        lambda t: ic.complexity.ConceptGraphs.from_runs(t, of_concept_graphs.CONFIG),
    ),
    "text_phases": Entry(
        ic.complexity.TextPhases.SCHEMA,
        of_text_phases.frames,
        lambda t: ic.complexity.TextPhases.from_runs(t, of_text_phases.CONFIG),
    ),
    "fusion": Entry(
        ic.lrf.Fusion.SCHEMA,
        of_fusion.frames,
        lambda t: ic.lrf.Fusion.from_rows(t, of_fusion.CONFIG),
    ),
    "pretrain": Entry(
        ic.cat.Pretrained.SCHEMA,
        of_pretrain.frames,
        lambda t: ic.cat.Pretrained.from_runs(t, of_pretrain.CONFIG),
    ),
    "encoders": Entry(
        ic.cat.EncoderScores.SCHEMA,
        of_encoders.frames,
        lambda t: ic.cat.EncoderScores.from_rows(t, of_encoders.CONFIG),
    ),
    "weights": Entry(
        ComplexityReport.SCHEMA,
        lambda: rows_of(ComplexityReport.SCHEMA),
        lambda t: ComplexityReport.from_rows(t["matrices"], {"model": "tiny", "n_layers": 3}),
    ),
}


ENTRIES = {
    study: entry._replace(frames=functools.cache(entry.frames)) for study, entry in ENTRIES.items()
}  # made once; tests change copies


@functools.cache
def made(study: str) -> StudyResult:
    """A result of each study, made once."""
    return ENTRIES[study].made(ENTRIES[study].frames())


# ---- what is refused of every table ---------------------------------------------------------


def broken_anyhow(table: Table, frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Breaches that any table can have: what they are, the frame, and what is said of it."""
    first, name = next(iter(table.columns)), table.name
    yield "lacks a column", frame.drop(columns=first), rf"{name} lacks the columns \['{first}'\]"
    yield "has another", frame.assign(other=0), rf"{name} .* has the foreign columns \['other'\]"
    for column, dtype in table.columns.items():
        wrong = frame.assign(**{column: 0.5 if dtype == "int64" else 1})
        yield "a type", wrong, rf"{name}\.{column} has the type .*; expected {dtype}"
    for column in (c for c, dtype in table.columns.items() if dtype == "float64"):
        values = np.where(np.arange(len(frame)) == 1, np.inf, frame[column])
        yield "infinite", frame.assign(**{column: values}), rf"{name}\.{column} is inf in row 1"
        if column not in table.null:
            values = np.where(np.arange(len(frame)) == 1, np.nan, frame[column])
            yield "NaN", frame.assign(**{column: values}), rf"{name}\.{column} is nan in row 1"
    if table.key:
        key = ", ".join(f"{column} {frame[column].iloc[1]}" for column in table.key)
        doubled = pd.concat([frame, frame.iloc[[1]]])
        yield "a row twice", doubled, f"{name} has {key} more than once"
    if not table.may_be_empty:
        yield "empty", frame.iloc[:0], f"{name} has no rows; expected at least one"


@pytest.mark.parametrize("study", ENTRIES)
def test_a_frame_that_is_not_such_a_table_is_refused(study: str) -> None:
    """By the table; and by the result, which checks each table, for the first breach of each."""
    entry = ENTRIES[study]
    for table in entry.tables:
        frames = entry.frames()
        breaches = list(broken_anyhow(table, frames[table.name]))
        for what, frame, message in breaches:
            with pytest.raises(InputError, match=message):
                print(study, table.name, what, table.check(frame))
        what, frame, message = breaches[0]
        with pytest.raises(InputError, match=message):
            print(study, table.name, what, entry.made({**frames, table.name: frame}))


def put(column: str, value: Any, row: int = 0) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """One value of a table, replaced."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.copy()
        frame.loc[frame.index[row], column] = value
        return frame

    return change


def without(row: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.drop(index=frame.index[row])


def only(query: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.query(query)


def of_rows(query: str, column: str, value: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A column's values in some of the rows, replaced."""
    return lambda frame: frame.assign(
        **{column: frame[column].where(~frame.eval(query, engine="python"), value)}
    )


ONE = "expected one for every combination"
CELL = "pair == 4 and layer == 2 and pooling == 'mean'"
REFUSED: dict[str, list[tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str]]] = {
    "encoders": [
        ("scores", put("value", 1.5), "value 1.5 in row 0; expected not"),
        ("scores", put("n_cut", 41), "n 40, n_cut 41 in row 0; expected 0 <= n_cut <= n"),
        ("scores", put("output", "both"), "has the output 'both'; expected cont, comp, mix"),
        ("scores", put("metric", "bleu"), "has the metric 'bleu'; expected pearson, spearman, auc"),
        ("scores", without(0), f"metric pearson .1 missing.; {ONE}"),
    ],
    "fusion": [
        ("reads", put("earlier", 1), "earlier 1 in row 0; expected 0 <= earlier <= layer"),
        ("cuts", put("n_right", 41), "n_right 41, n 40 in row 0; expected 0 <= n_right <= n"),
        ("cuts", put("stack", "middle"), "has the stack 'middle'; expected encoder, decoder"),
        ("probes", put("probe", "tense"), "has the probe 'tense'; expected word, role"),
        ("read_back", put("r2", 1.5), "r2 1.5 in row 0; expected r2 <= 1"),
        ("cap", put("spans", "words"), "has the spans 'words'; expected phrases, shuffled"),
    ],
    "generalise": [
        ("accuracy", put("n_right", 11), "n_right 11, n 10 in row 0; expected 0 <= n_right <= n"),
        (
            "accuracy",
            without(0),
            f"seed 0, split gen, kind x .1 missing.; {ONE}",
        ),
        ("runs", without(0), f"model transformer, seed 0 .1 missing.; {ONE}"),
        ("curve", put("accuracy", 1.5), "accuracy 1.5 in row 0; expected 0 <= accuracy <= 1"),
    ],
    "task_phases": [
        ("accuracy", put("n_right", 11), "n_right 11, n 10 in row 0; expected 0 <= n_right <= n"),
        ("accuracy", without(0), f"size 3, seed 0, split gen, kind  .1 missing.; {ONE}"),
        ("runs", without(0), f"size 3, seed 0 .1 missing.; {ONE}"),
        ("curve", put("accuracy", 1.5), "accuracy 1.5 in row 0; expected 0 <= accuracy <= 1"),
    ],
    "concept_graphs": [
        ("accuracy", put("n_right", 11), "n_right 11, n 10 in row 0; expected 0 <= n_right <= n"),
        ("accuracy", put("node", "012"), "has the node '012'; expected 000, 001"),
        ("accuracy", put("kind", "hue"), "has the kind 'hue'; expected all, shape"),
        ("accuracy", without(0), f"init_rate 0.3, seed 0, node 000, kind all .1 missing.; {ONE}"),
        ("curve", without(0), f"seed 0, step 0, node 000, kind all .1 missing.; {ONE}"),
        ("examples", without(0), f"seed 0, node 000, image 0 .1 missing.; {ONE}"),
        ("judge", without(0), f"judge has no row for node 000, kind all .1 missing.; {ONE}"),
    ],
    "text_phases": [
        ("held_out", put("loss", -0.1), "loss -0.1 in row 0; expected loss >= 0"),
        ("held_out", without(0), f"size 30, seed 0 .1 missing.; {ONE}"),
        ("curve", put("split", "test"), "has the split 'test'; expected held-out, train"),
        ("curve", without(0), f"step 0, split held-out .1 missing.; {ONE}"),
    ],
    "pretrain": [
        ("runs", put("n_parameters", 0), "n_parameters 0 in row 0; expected n_parameters > 0"),
        ("runs", without(0), f"model bert, seed 0 .1 missing.; {ONE}"),
        ("held_out", put("masked_accuracy", 1.5), "expected 0 <= masked_accuracy <= 1"),
        ("held_out", put("n_masked", 0), "n_masked 0 in row 0; expected n_masked > 0"),
        ("held_out", put("output", "sum"), "the output 'sum'; expected cont, comp, mix"),
        ("held_out", without(-1), f"model cat, seed 2, output mix .1 missing.; {ONE}"),
        ("curve", put("masked_loss", -0.1), "masked_loss -0.1 in row 0; expected masked_loss >= 0"),
        ("curve", without(0), f"model bert, seed 0, step 0, output cont .1 missing.; {ONE}"),
        (
            "codes",
            put("dead_codes", 8),
            "n_codes 7, dead_codes 8 in row 0; expected 0 <= dead_codes",
        ),
        ("codes", put("codes_per_word", 7.5), "expected 0 <= codes_per_word <= n_codes"),
        ("codes", without(0), f"model cat, seed 0, layer 0 .1 missing.; {ONE}"),
        ("terms", put("value", -0.1), "value -0.1 in row 0; expected value >= 0"),
        ("terms", without(0), f"model bert, seed 0, step 2, term masked .1 missing.; {ONE}"),
        ("codes_curve", put("without_codes", 1.5), "expected 0 <= without_codes <= 1"),
        ("codes_curve", without(0), f"seed 0, step 0, layer 0 .1 missing.; {ONE}"),
    ],
    "cap": [
        ("outcomes", put("target_rank", 0), "target_rank 0 in row 0; expected target_rank >= 1"),
        ("clean", put("target_rank", 0), "clean has target_rank 0 in row 0"),
        ("outcomes", put("layer", 5), "has the layer 5; expected 0 … 4"),
        ("outcomes", put("layer", -1), "has the layer -1; expected 0 … 4"),
        ("outcomes", put("pooling", "median"), "has the pooling 'median'; expected mean, max, sum"),
        (
            "outcomes",
            without(0),
            f"example 0, layer 0, pooling mean .1 missing.; {ONE}",
        ),
        ("outcomes", only("example != 2"), "no row for example 2, layer 0, .* .21 missing.; exp"),
        ("clean", without(6), "outcomes has the example 6; expected 0, 1, 2, 3, 4, 5"),
        *(
            ("outcomes", of_rows("example == 3", column, value), f"{column} {value}, but clean has")
            for column, value in (("prediction", 99), ("target_rank", 77), ("target_logprob", -9.0))
        ),
    ],
    "ablation": [
        ("outcomes", put("target_rank", 0), "target_rank 0 in row 0; expected target_rank >= 1"),
        ("clean", put("target_rank", 0), "clean has target_rank 0 in row 0"),
        ("outcomes", put("layer", 5), "has the layer 5; expected 0 … 4"),
        ("outcomes", put("layer", -1), "has the layer -1; expected 0 … 4"),
        ("outcomes", without(4), f"no row for example 2, layer 0, unit 0 .1 missing.; {ONE}"),
        ("clean", without(0), "outcomes has the example 0; expected 1, 2"),
        ("cells", without(4), "example 2, unit 0, which cells has not; expected a row for each"),
        ("cells", put("example", -1), "which cells has not; .* or rows of example -1 alone"),
        ("cells", put("group", "any word"), "cells has the group 'any word' beside others"),
    ],
    "similarity": [
        ("cosines", put("pooling", "median"), "has the pooling 'median'; expected mean, max"),
        ("cosines", of_rows(CELL, "layer", 4), "outcomes has the layer 4; expected 0 … 3"),
        ("cosines", only(f"not ({CELL})"), f"pair 4, layer 2, pooling mean .1 missing.; {ONE}"),
        ("pairs", without(4), "cosines has the pair 4; expected 0, 1, 2, 3, 5"),
        ("cosines", only("pooling == 'none'"), "outcomes has no rows; expected at least one"),
        (
            "cosines",
            only("pooling != 'none' or layer != 1"),
            f"layer_cosines has no row for pair 0, layer 1 .11 missing.; {ONE}",
        ),
        ("cosines", put("cosine", 1.0000001), "cosine 1.0000001 in row 0; expected -1 <= cosine"),
        ("cosines", put("cosine", -1.5), "cosine -1.5 in row 0"),
        ("pairs", put("subset", "all"), r"pairs has subset all in row 0; expected subset not in"),
        ("pairs", put("subset", "mirror"), "pairs has subset mirror in row 0"),
        (
            "cosines",
            of_rows("pair == 5 and pooling == 'last'", "cosine", 0.5),
            "outcomes has pair 5, layer 0, pooling last, cosine 0.5, but clean has",
        ),
    ],
    "carma": [
        ("accuracy", put("n_correct", 1001), "n_correct 1001, n 1000 in row 0; expected 0 <= n_co"),
        ("accuracy", put("n_distinct", 0), "n_distinct 0 in row 0; expected 1 <= n_distinct <= n"),
        ("accuracy", put("n_distinct", 1001), "n 1000, n_distinct 1001 in row 0"),
        ("cap", put("n_correct", -1), "cap has n_correct -1, n 1000"),
        ("cap", put("pooling", "last"), "has the pooling 'last'; expected mean, max, sum"),
        ("cap", put("version", "lora"), "cap has the version 'lora'; expected original, ft, carma"),
        (
            "synonyms",
            put("n_both", 501),
            "n_both 501 in row 0; expected",
        ),
        ("synonyms", put("n_before", 1001), "n 1000, n_before 1001"),
        ("synonyms", put("n", 1001), "n 1001, n_test 1000 in row 0; expected 1 <= n <= n_test"),
        ("synonyms", put("n", 0), "synonyms has n 0"),
        ("synonyms", put("rate", 25.0), "rate 25.0 in row 0; expected 0 < rate <= 1"),
        ("training", put("version", "original"), "has the version 'original'; expected ft, carma"),
        ("training", put("step_seconds", 0.0), "step_seconds 0.0 in row 0"),
        ("accuracy", without(-1), f"accuracy has no row for version carma, seed 4 .*; {ONE}"),
        ("cap", without(-1), "no row for version carma, seed 4, layer 2, pooling sum"),
        ("synonyms", without(-1), "no row for version carma, seed 4, rate 0.4"),
        ("synonyms", only("seed < 4"), "no row for version original, seed 4, rate 0.25"),
        ("training", only("version == 'ft'"), "training has no row for version carma, seed 0"),
        ("accuracy", only("seed < 4"), "has the seed 4; expected 0, 1, 2, 3"),
    ],
}


@pytest.mark.parametrize(
    ("study", "name", "change", "message"),
    [(study, *case) for study, cases in REFUSED.items() for case in cases],
)
def test_frames_that_contradict_themselves_are_refused(
    study: str, name: str, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    errors = {"has the layer": LayerError, "has the pooling": OptionError}
    expected = next((error for words, error in errors.items() if words in message), InputError)
    entry = ENTRIES[study]
    frames = entry.frames()
    with pytest.raises(InputError, match=message) as refusal:
        entry.made({**frames, name: change(frames[name])})
    assert type(refusal.value) is expected


def codes_frames() -> Frames:
    """Three seeds, two words, and sources that differ."""
    rows = [
        ("cat", seed, source, "held_out", word, 3, 2, right + seed / 10, 0.5, 0.5)
        for seed in range(3)
        for source, right in (("codes", 0.6), ("commonest", 0.3), ("permuted", 0.1))
        for word in ("one", "other")
    ]
    tables = {table.name: table.of([]) for table in ic.cat.Codes.SCHEMA}
    sememes = next(table for table in ic.cat.Codes.SCHEMA if table.name == "sememes")
    found = [dict(zip(sememes.columns, row, strict=True)) for row in rows]
    return {**tables, "sememes": sememes.of(found)}


@pytest.mark.parametrize("study", [*ENTRIES, "codes"])
def test_sentences_of_a_report_hold_numbers_of_the_tables(study: str) -> None:
    if study == "codes":
        result: StudyResult = ic.cat.Codes.from_rows(codes_frames(), {"seeds": [0, 1, 2]})
    else:
        result = made(study)
    said = result.sentences()
    assert len(said) in (2, 3, 4, 5) or study == "carma"  # whose verdicts are all said
    assert all(one.endswith(".") for one in said)
    text = " ".join(said).replace("\N{MINUS SIGN}", "-")
    assert "nan" not in text
    known = np.concatenate(
        [frame.select_dtypes("number").to_numpy(float).ravel() for frame in result.frames.values()]
    )
    known = np.concatenate([known, 100 * known])
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", text)]
    assert any(np.nanmin(np.abs(known - number)) < 0.051 for number in numbers), text


@pytest.mark.parametrize(
    "study", ["generalise", "task_phases", "concept_graphs", "text_phases", "pretrain", "encoders"]
)
def test_figures_of_one_seed_tell_of_no_spread_over_seeds(study: str) -> None:
    told = {}
    for seeds in ([0], [0, 1, 2]):
        result = replace(made(study), config={**made(study).config, "seeds": seeds})
        charts = [figure.chart for figure in result.figures().values()]
        told[len(seeds)] = " · ".join(chart.subtitle for chart in charts if chart is not None)
    assert "1 seed: no spread" in told[1]
    assert "seeds" in told[3]
    assert not re.search("seeds|bands:|smallest", told[1])


def test_a_comparison_needs_every_table_and_no_other() -> None:
    frames = dict(ENTRIES["carma"].frames())
    del frames["cap"]
    with pytest.raises(InputError, match=r"\['cap'\] are missing and \['caps'\] are foreign"):
        ENTRIES["carma"].made({**frames, "caps": pd.DataFrame()})


# ---- on disk --------------------------------------------------------------------------------


@pytest.mark.parametrize("study", ENTRIES)
def test_a_result_returns_from_disk_as_it_was(study: str, tmp_path: Path) -> None:
    result = made(study)
    assert set(result.frames) == set(type(result).TABLES)
    for loaded in (type(result).load(result.save(tmp_path)), Result.load(tmp_path)):
        assert (loaded.config, loaded.versions) == (result.config, result.versions)
        assert list(loaded.frames) == list(result.frames)
        for name, frame in result.frames.items():
            pd.testing.assert_frame_equal(loaded.frames[name], frame, check_exact=True)
    again = type(result).load(tmp_path)
    assert again.summary() == result.summary()
    if study not in ("phases", "mechanism", "weights"):  # whose rows here are no model's
        assert {name: figure.to_json() for name, figure in again.figures().items()} == {
            name: figure.to_json() for name, figure in result.figures().items()
        }
    other = FittingSpeed if study == "cap" else cap.CapCurve
    with pytest.raises(
        InputError,
        match=f"class {type(result).__name__}, not {other.__name__}; load it with ic.load_result",
    ):
        other.load(tmp_path)


@pytest.mark.parametrize("study", ENTRIES)
def test_a_result_that_was_damaged_is_refused(study: str, tmp_path: Path) -> None:
    result = made(study)
    result.save(tmp_path)
    table = type(result).SCHEMA[-1].name
    for name in (f"{table}.parquet", f"{table}.csv", "result.json"):
        data = (tmp_path / name).read_bytes()
        for other in (data[:-2] + b"xx", None):
            (tmp_path / name).unlink()
            if other is not None:
                (tmp_path / name).write_bytes(other)
            with pytest.raises(CorruptFileError, match=name):
                type(result).load(tmp_path)
        (tmp_path / name).write_bytes(data)
    type(result).load(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(MissingDataError, match="holds no result"):
        type(result).load(tmp_path)


@pytest.mark.parametrize("study", ENTRIES)
def test_tables_on_disk_are_checked_as_a_users(study: str, tmp_path: Path) -> None:
    """A folder that another version wrote is whole, but its tables may be others."""
    result = made(study)
    for table in (type(result).SCHEMA[0], type(result).SCHEMA[-1]):
        frame = result.frames[table.name].assign(other=0)
        Mutated = type(type(result).__name__, (Result,), {})
        frames = {**result.frames, table.name: frame}
        Mutated(config=result.config, frames=frames, versions={}).save(tmp_path, overwrite=True)
        with pytest.raises(InputError, match=rf"{table.name} .* foreign columns \['other'\]"):
            type(result).load(tmp_path)


def test_numbers_may_lack_only_where_that_means_something() -> None:
    frames = {name: frame.copy() for name, frame in ENTRIES["carma"].frames().items()}
    frames["training"].loc[0, "validation_accuracy"] = math.nan
    frames["representations"]["same_word_cosine"] = np.nan
    frames["representations"]["different_word_cosine"] = None
    comparison = ENTRIES["carma"].made(frames)
    assert comparison.frames["training"]["validation_accuracy"].isna().sum() == 1
    assert "representations" not in comparison.figures()


@pytest.mark.parametrize("study", ["cap", "ablation", "similarity", "carma"])
def test_the_order_of_rows_and_columns_does_not_matter(study: str) -> None:
    entry = ENTRIES[study]
    shuffled = {
        name: frame.sample(frac=1, random_state=3)[sorted(frame.columns)]
        for name, frame in entry.frames().items()
    }
    one, other = entry.made(entry.frames()), entry.made(shuffled)
    for name, frame in one.frames.items():
        pd.testing.assert_frame_equal(frame, other.frames[name], check_exact=True)


def test_completion_shows_what_a_user_calls() -> None:
    shown = {name for name in dir(cap.CapCurve({}, {}, {})) if not name.startswith("_")}
    assert {"summary", "frame", "figures", "save", "load", "report", "plot"} <= shown
    assert not {"SCHEMA", "TABLES", "FIGURES", "files", "exit_status"} & shown
