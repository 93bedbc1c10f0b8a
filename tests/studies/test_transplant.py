"""transplant end to end: pair by pair by hand, beside cap_curve, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from interp_compose.errors import (
    AlignmentError,
    AnswerError,
    CapabilityError,
    DataFormatError,
    InputError,
    InterventionError,
    LayerError,
    OptionError,
    PromptError,
    SpanError,
)
from interp_compose.interventions.transplants import VECTORS
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.studies.transplant.measure import transplant
from interp_compose.studies.transplant.result import Transplants
from interp_compose.tasks.transplants import TransplantPair
from interp_compose.types import Example
from tests.interventions.reference import pool
from tests.interventions.shared import shared
from tests.interventions.test_transplants import one_by_one

SHORE = 'the shore of a sea is called a "'
BAKES = 'someone who bakes bread "'
HOUSE = 'a small wooden house in the mountains "'
MOTHER = 'the mother of a father is called a "'


def pair(source: str, moved: str, target: str, replaced: str, answers: str) -> TransplantPair:
    def span(prompt: str, phrase: str) -> tuple[int, int]:
        return prompt.index(phrase), prompt.index(phrase) + len(phrase)

    ends = span(source, moved), span(target, replaced)
    composed = target.replace(replaced, moved, 1)
    return TransplantPair(source, ends[0], target, ends[1], *answers, composed=composed)


PAIRS = [
    replace(pair(SHORE, "shore", BAKES, "bread", "ab"), source_answer="g"),
    pair(BAKES, "bakes bread", MOTHER, "a father", "ca"),
    replace(pair(HOUSE, "small wooden", MOTHER, "called", "de"), composed=""),
    pair(MOTHER, "mother", HOUSE, "house", "fb"),
]


CONFIG = {"model": "tiny", "task": "mini-idm"}


def frames() -> dict[str, pd.DataFrame]:
    """Tables of two layers, two poolings and all vectors, written out; the transplant of layer 0 is
    right in two of three pairs."""
    texts = ("source", "source_phrase", "target", "target_phrase", "expected", "answer", "composed")
    pairs = [
        {"pair": i, **{name: f"{name} {i}" for name in texts}, "source_answer": f"g{i}"}
        | {"type": "head", "donor": (i + 1) % 3, "n_source": 2, "n_target": i + 1}
        for i in range(3)
    ]
    answered = {"prediction": 5, "remembered": False, "expected_logprob": -2.5, "expected_rank": 3}
    answered |= {"answer_logprob": -0.5, "answer_rank": 1}
    clean = [
        {"pair": i, "run": run, "prediction_text": "x", **answered}
        | {"expected_right": run == "composed", "answer_right": run == "target"}
        for i in range(3)
        for run in ("target", "composed")
    ]
    outcomes = [
        {"pair": i, "layer": layer, "pooling": how, "vector": name, **answered}
        | {
            "expected_right": name == "transplant" and not layer and i < 2,
            "answer_right": layer == 1,
        }
        for i in range(3)
        for layer in range(2)
        for how in ("mean", "max")
        for name in VECTORS
    ]
    rows = {"outcomes": outcomes, "clean": clean, "pairs": pairs}
    return {name: pd.DataFrame(table) for name, table in rows.items()}


def result() -> Transplants:
    return Transplants.from_outcomes(**frames(), config=CONFIG, n_layers=2)


def quiet(model: LensModel, pairs: Any = PAIRS, **options: Any) -> Transplants:
    return transplant(model, pairs, progress=False, **options)


@pytest.fixture(scope="module")
def found(model: LensModel) -> Transplants:
    return quiet(model, batch_size=3, seed=5)


def test_every_outcome_equals_hooks_one_by_one(model: LensModel, found: Transplants) -> None:
    assert_by_hand(model, found, PAIRS)


def test_a_blank_that_is_a_token_outside_the_phrase_stays_alone(model: LensModel) -> None:
    before, behind = 'the sum of 1 and eight "', 'eight of 3 and 4 "'
    pairs = [
        pair(BAKES, "bread", before, "eight", "ab"),
        pair(SHORE, "shore", behind, "eight", "cd"),
    ]
    for one in pairs:
        coded = model.tokenizer(one.target)["input_ids"]
        assert "Ġ" in model.tokenizer.convert_ids_to_tokens(coded)
    assert_by_hand(model, quiet(model, pairs, batch_size=1, seed=5), pairs)


@torch.no_grad()
def assert_by_hand(model: LensModel, found: Transplants, pairs: list[TransplantPair]) -> None:
    rows = found.outcomes.set_index(["pair", "layer", "pooling", "vector"])
    assert len(rows) == len(pairs) * model.n_layers * 3 * len(VECTORS)
    tokens, phrases = {}, {}
    for i, one in enumerate(pairs):
        for side in ("source", "target"):
            text, span = getattr(one, side), getattr(one, f"{side}_span")
            coded = model.tokenizer(text, return_offsets_mapping=True)
            tokens[side, i] = torch.tensor(coded["input_ids"])
            inside = [high >= span[0] and low < span[1] for low, high in coded["offset_mapping"]]
            inside[0] = False  # BOS; a blank belongs to what follows
            phrases[side, i] = [at for at, one_is in enumerate(inside) if one_is]
    donors = found.pairs["donor"].tolist()
    assert all(donor != i for i, donor in enumerate(donors))

    def vector(side: str, i: int, layer: int, how: str) -> torch.Tensor:
        row = tokens[side, i][None]
        resid = model.resid_pre(row, layer, attention_mask=torch.ones_like(row))
        return pool(resid[0, phrases[side, i]], how)

    for i, one in enumerate(pairs):
        expected, answer = model.tokenizer.convert_tokens_to_ids([one.expected, one.answer])
        drawn = torch.from_numpy(np.random.default_rng([5, i]).standard_normal(model.d_model))
        for layer in range(model.n_layers):
            for how in ("mean", "max", "sum"):
                moved = vector("source", i, layer, how)
                donor = vector("source", donors[i], layer, how)
                vectors = {
                    "transplant": moved,
                    "own": vector("target", i, layer, how),
                    "random phrase": donor * (moved.norm() / donor.norm()),
                    "random direction": drawn * (moved.norm() / drawn.norm()),
                }
                for name, one_vector in vectors.items():
                    where = tokens["target", i], phrases["target", i]
                    logits = one_by_one(model, where, one_vector, layer).double()
                    logprobs = logits.log_softmax(dim=0)
                    row = rows.loc[i, layer, how, name]
                    assert row["prediction"] == int(logits.argmax())
                    assert row["expected_logprob"] == pytest.approx(
                        float(logprobs[expected]), abs=2e-5
                    )
                    assert row["answer_logprob"] == pytest.approx(float(logprobs[answer]), abs=2e-5)
                    assert row["expected_rank"] == int((logits > logits[expected]).sum()) + 1
                    assert row["answer_rank"] == int((logits > logits[answer]).sum()) + 1
                    assert row["expected_right"] == (row["prediction"] == expected)
                    assert row["answer_right"] == (row["prediction"] == answer)
                    assert not row["remembered"]  # tested below


def test_the_own_phrase_is_a_cap_curve_of_that_one_unit(
    model: LensModel, found: Transplants
) -> None:
    examples = [Example(one.target, one.answer, spans=(one.target_span,)) for one in PAIRS]
    cap: Any = cap_curve(model, examples, unit="span", controls=False, progress=False)
    key = ["example", "layer", "pooling"]
    wanted = cap.outcomes.set_index(key)
    own = found.outcomes[found.outcomes["vector"] == "own"].rename(columns={"pair": "example"})
    own = own.set_index(key).loc[wanted.index]
    assert (own["prediction"] == wanted["prediction"]).all()
    assert own["answer_logprob"].to_numpy() == pytest.approx(
        wanted["target_logprob"].to_numpy(), rel=1e-6
    )
    clean = found.clean[found.clean["run"] == "target"]
    assert clean["answer_logprob"].tolist() == pytest.approx(
        cap.clean["target_logprob"].tolist(), abs=1e-6
    )


def test_composed_prompts_are_runs_of_their_own(model: LensModel, found: Transplants) -> None:
    composed = found.clean[found.clean["run"] == "composed"]
    assert composed["pair"].tolist() == [0, 1, 3]
    known = [PAIRS[i] for i in composed["pair"]]
    examples = [Example(one.composed, one.expected) for one in known]
    untouched: Any = cap_curve(model, examples, layers=[0], controls=False, progress=False)
    assert composed["expected_logprob"].tolist() == pytest.approx(
        untouched.clean["target_logprob"].tolist(), abs=1e-5
    )
    assert found.frame["n_composed"].unique().tolist() == [3]


def test_batches_and_controls_change_no_outcome(model: LensModel, found: Transplants) -> None:
    key = ["pair", "layer", "pooling", "vector"]
    whole = found.outcomes.set_index(key)
    single = quiet(model, batch_size=1, seed=5, layers=[1]).outcomes.set_index(key)
    few = quiet(model, controls=False, layers=[1]).outcomes.set_index(key)
    for other in (single, few):
        same = whole.loc[other.index]
        assert other["expected_logprob"].to_numpy() == pytest.approx(
            same["expected_logprob"].to_numpy(), abs=1e-5
        )
    assert set(few.index.get_level_values("vector")) == {"transplant"}
    changed = quiet(model, seed=6, layers=[1]).outcomes.set_index(key)
    moved = (
        changed["expected_logprob"] - whole.loc[changed.index, "expected_logprob"]
    ).abs() > 1e-4
    assert moved.groupby("vector").any().to_dict()["random direction"]
    assert not moved.groupby("vector").any()[["own", "transplant"]].any()


def test_the_table_counts_answers_with_their_intervals(found: Transplants) -> None:
    outcomes = found.outcomes.copy()
    first = (outcomes["vector"] == "transplant") & (outcomes["layer"] == 0)
    outcomes["expected_right"] = first & (outcomes["pair"] < 3)
    outcomes["answer_right"] = first & (outcomes["pair"] == 3)
    outcomes["remembered"] = ~first & (outcomes["pair"] == 0)
    clean = found.clean.assign(expected_right=False, answer_right=lambda rows: rows["pair"] != 0)
    made = Transplants.from_outcomes(outcomes, clean, found.pairs, {"model": "m"}, n_layers=3)
    row = made.frame.set_index(["layer", "pooling", "vector"]).loc[0, "max", "transplant"]
    assert row["expected_accuracy"] == 0.75
    assert row["answer_accuracy"] == 0.25
    z2 = 1.959964**2  # Wilson 1927, written out
    centre, half = (0.75 + z2 / 8) / (1 + z2 / 4), (z2 * (0.75 * 0.25 / 4 + z2 / 64)) ** 0.5
    assert row["expected_low"] == pytest.approx(centre - half / (1 + z2 / 4), abs=1e-6)
    assert row["expected_high"] == pytest.approx(centre + half / (1 + z2 / 4), abs=1e-6)
    assert (row["remembered"], row["n_remembered"], row["remembered_high"]) == (
        0,
        1,
        pytest.approx(z2 / (1 + z2)),
    )
    assert (
        made.frame.set_index(["layer", "pooling", "vector"]).loc[1, "max", "own"]["remembered"] == 1
    )
    assert (row["clean_answer"], row["clean_expected"], row["n"]) == (0.75, 0, 4)
    assert made.frame["depth"].unique().tolist() == [0, 0.5, 1]
    assert made.frame["vector"].unique().tolist() == list(VECTORS)
    lines = made.summary().splitlines()
    n = len(found.pairs)
    at = lines.index(f"accuracy of the target's own answer, {n} pairs")
    assert "target pooled" in lines[at + 1]
    row = made.frame.query("pooling == 'mean' and layer == 0 and vector == 'transplant'").iloc[0]
    ends = f"[{row['answer_low']:.3f}, {row['answer_high']:.3f}]"
    assert f"{row['answer_accuracy']:.3f} {ends}" in lines[at + 2]
    assert lines[-1].startswith(f"! {n} pairs, fewer than 30")
    with pytest.raises(InputError, match="no row for pair 3, layer 2, pooling sum"):
        Transplants.from_outcomes(outcomes[:-1], clean, found.pairs, {}, n_layers=3)
    with pytest.raises(InputError, match="no run 'target' of pair 0"):
        Transplants.from_outcomes(outcomes, clean[1:], found.pairs, {}, n_layers=3)
    both = outcomes.assign(expected_right=True, answer_right=True)
    with pytest.raises(InputError, match=r"outcomes has .* ~\(expected_right & answer_right\)"):
        Transplants.from_outcomes(both, clean, found.pairs, {}, n_layers=3)
    longer = {"answer_tokens": {"2": 8}}  # each answer from a run of its own
    Transplants.from_outcomes(both, clean, found.pairs, longer, n_layers=3)
    with pytest.raises(
        OptionError, match="answer='own': expected one of expected, untouched, remem"
    ):
        made.plot("own")


def test_a_result_is_read_back(found: Transplants, tmp_path: Any) -> None:
    found.save(tmp_path / "out")
    read = Transplants.load(tmp_path / "out")
    for name, frame in found.frames.items():
        pd.testing.assert_frame_equal(read.frames[name], frame)


ROW = {
    "source": SHORE,
    "source_span": (4, 9),
    "target": BAKES,
    "target_span": (18, 23),
    "expected": "a",
    "answer": "b",
}
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"source_span": (4, 4)},
        SpanError,
        r"pair 0: the span \(4, 4\) is empty or leaves its source",
    ),
    ({"target_span": (18, 99)}, SpanError, r"pair 0: the span \(18, 99\) is empty or leaves"),
    ({"target_span": (7, 8)}, SpanError, "holds only blanks"),
    ({"target_span": (18, 25)}, SpanError, "pair 0: .* 'bread \"' holds the last token"),
    ({"target_span": [18]}, DataFormatError, "pair 0 has .* as its target_span"),
    ({"expected": "b"}, AnswerError, "pair 0: the expected answer 'b' is the token of its answer"),
    ({"source_answer": "a"}, AnswerError, "pair 0: .* 'a' is the token of its source_answer"),
    ({"source_answer": "bcd"}, AnswerError, "of the target prompts with their key 'source_answer'"),
    (
        {"expected": "bcd"},
        AnswerError,
        "of the target prompts with their key 'expected', example 0",
    ),
    ({"answer": "bcd"}, AnswerError, "of the target prompts with their key 'answer', example 0"),
    ({"answer": ""}, DataFormatError, "pair 0 has '' as its answer"),
    ({"source_type": "NP"}, SpanError, "of the type 'NP' and the target's 'bread' of the type ''"),
    ({"span": 1}, DataFormatError, "pair 0 has the unknown key 'span'"),
    ({"target": None}, DataFormatError, "pair 0 has no target"),
    ({"composed": 3}, DataFormatError, "pair 0 has 3 as its composed"),
    (
        {"source": "the" + " sea" * 300, "source_span": (0, 3)},
        PromptError,
        "of the source prompts, example 0: its prompt",
    ),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD)
def test_bad_pairs_are_refused(
    model: LensModel, change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        quiet(model, [{**ROW, **change}, ROW], controls=False)


def test_bad_calls_are_refused(model: LensModel) -> None:
    with pytest.raises(DataFormatError, match="the list of pairs is empty"):
        quiet(model, [])
    with pytest.raises(OptionError, match=r"pooling=\[\]"):
        quiet(model, pooling=[])
    with pytest.raises(LayerError, match="layer 3"):
        quiet(model, layers=[3])
    with pytest.raises(
        InputError, match="pair 0: no other pair has a source phrase that is neither"
    ):
        quiet(model, PAIRS[:1])
    same = pair(BAKES, "bread", f"not {BAKES}", "bread", "ab")
    with pytest.raises(InterventionError, match="the source's phrase is the target's, 'bread'"):
        quiet(model, [same, replace(same, composed="")], controls=False)
    with pytest.raises(CapabilityError, match="is an encoder"):
        quiet(shared("BERT"))
    with pytest.raises(CapabilityError, match="reads two texts"):
        quiet(shared("T5"))


def test_an_edge_inside_a_token_is_refused(model: LensModel) -> None:
    tokens = model.tokenizer(BAKES, return_offsets_mapping=True)["offset_mapping"]
    low, high = next((low, high) for low, high in tokens if high - low > 2)
    with pytest.raises(AlignmentError, match="of the target prompts .* an edge of a span cuts"):
        quiet(model, [{**ROW, "target_span": (low, high - 1)}], controls=False)


def test_what_is_remembered_is_the_sources_own_answer(model: LensModel) -> None:
    """The prediction under each transplant, told as the source's own answer."""
    rows = [{**ROW, "expected": "f", "answer": "g"}, {**ROW, "source_span": (0, 3)}]
    first: Any = quiet(model, rows, controls=False, layers=[0], pooling=["mean"])
    predicted = model.tokenizer.convert_ids_to_tokens(int(first.outcomes["prediction"][0]))
    rows[0]["source_answer"] = predicted
    again: Any = quiet(model, rows, controls=False, layers=[0], pooling=["mean"])
    assert again.outcomes["remembered"].tolist() == [True, False]
    assert (again.frame["remembered"].tolist(), again.frame["n_remembered"].tolist()) == ([1], [1])
    assert set(again.figures()) == {"expected", "untouched", "remembered"}
    for figure in again.figures().values():
        (level, *_) = figure.chart.panels[0].levels
        assert level.label.startswith("clean target")
    assert again.frame["clean_remembered"].tolist() == [level.y] == [0]
    assert set(first.figures()) == {"expected", "untouched"}
    with pytest.raises(OptionError, match="expected one of expected, untouched$"):
        first.plot("remembered")
