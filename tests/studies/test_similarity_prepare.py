"""What is refused before any work: the row, the value, the remedy, and no call of the model."""

from __future__ import annotations

from typing import Any

import pytest

import interp_compose as ic
from interp_compose.errors import (
    AlignmentError,
    DataFormatError,
    InputError,
    OptionError,
    PromptError,
    SpanError,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.similarity.measure import (
    prepare_pairs,
    similarity_curve,
)
from interp_compose.studies.similarity.options import SimilarityOptions
from tests import architectures
from tests.studies import similarity_reference as slow
from tests.studies.test_study_refusals import nothing_runs


@pytest.fixture(scope="module")
def fresh() -> LensModel:
    """An encoder that has never run: its capabilities are not proven yet."""
    return slow.wrapped("BERT")


@pytest.fixture(scope="module")
def decoder() -> LensModel:
    return slow.wrapped("GPT-2")


def refused(
    model: Any, error: type[Exception], message: str, rows: Any = slow.ROWS, **options: Any
) -> str:
    """The message of the error, which is of exactly this type."""
    with nothing_runs(), pytest.raises(error, match=message) as told:
        similarity_curve(model, rows, progress=False, **options)
    assert type(told.value) is error
    return str(told.value)


# ---- rows -------------------------------------------------------------------------------

GOOD = [
    {"text1": "wooden house", "text2": "small sea", "score": 0.1},
    {"text1": "not alive", "text2": "small sea", "score": 0.2},
    {"text1": "a house", "text2": "a sea", "score": 0.3},
]


def test_a_bad_row_is_named(fresh: LensModel) -> None:
    row = {"text1": "a b", "text2": "c d"}
    refused(fresh, DataFormatError, "row 4 has no score and no label; give a score", [*GOOD, row])


def test_lists_from_which_nothing_follows(fresh: LensModel) -> None:
    refused(fresh, DataFormatError, "the list of pairs is empty", [])
    refused(fresh, InputError, r"the list holds 2 pair\(s\), from which no correl", GOOD[:2])
    alike = [{**row, "score": 0.25} for row in GOOD]
    refused(fresh, InputError, "all 3 pairs of the list have the score 0.25: there is", alike)
    labels = [{"text1": r["text1"], "text2": r["text2"], "label": 1} for r in GOOD]
    refused(fresh, InputError, "all 3 pairs of the list have the label 1", labels)


def test_subsets_from_which_nothing_follows(fresh: LensModel) -> None:
    rows = [*slow.ROWS[:3], {**slow.ROWS[3], "subset": "long"}, {**slow.ROWS[5], "subset": "long"}]
    rows = [{**row, "subset": "long" if row.get("subset") == "long" else None} for row in rows]
    refused(
        fresh,
        InputError,
        r"the subset 'long' holds 2 pair\(s\), .*first is row 4\), or take the subset's name away",
        rows,
    )
    alike = [*GOOD, *({**row, "text2": "x", "score": 0.5, "subset": "flat"} for row in GOOD)]
    refused(fresh, InputError, "all 3 pairs of the subset 'flat' have the score 0.5", alike)


@pytest.mark.parametrize("place", ["text1", "text2"])
def test_a_text_longer_than_the_context_is_named(fresh: LensModel, place: str) -> None:
    row = {"text1": "a b", "text2": "c d", "score": 1.0, place: "small sea " * 40}
    told = refused(fresh, PromptError, f"{place} of row 4 has 82 tokens", [*GOOD, row])
    assert "reads 61: 'small sea small sea" in told


def test_a_text_as_long_as_robertas_context_is_read() -> None:
    roberta = slow.wrapped("RoBERTa")  # 61 rows of positions, the first is padding's
    row = {"text1": "sea " * 58, "text2": "c d", "score": 1.0}
    assert len(prepared(roberta, [*GOOD, row])) == 4
    row["text1"] += "sea"
    refused(roberta, PromptError, "text1 of row 4 has 61 tokens .* reads 60", [*GOOD, row])


def test_a_text_beyond_local_attention_is_named() -> None:
    model = load_model(architectures.build("Gemma 2"), tokenizer=slow.tokenizer_for("GPT-2"))
    model.window = 5
    refused(model, PromptError, "text1 of row 1 has 6 tokens and .* look back 5 tokens")


def test_half_a_surrogate_pair_is_named(fresh: LensModel) -> None:
    row = {"text1": "a b", "text2": "c \ud800", "score": 1.0}
    refused(fresh, PromptError, "^text2 of row 4: ", [*GOOD, row])


# ---- options ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"unit": "span"}, OptionError, "unit='span'; expected"),
        ({"unit": "phrase"}, OptionError, "'phrase' is 'text' now"),
        ({"embedding": "max"}, OptionError, "embedding='max'; .*'mean', 'cls', 'last', 'model'"),
        ({"embedding": "last"}, OptionError, 'embedding="last" is for decoders, and'),
        ({"labels": frozenset({"NP"}), "unit": "word"}, OptionError, "pass unit=.constituent"),
        ({"height": 0, "unit": "constituent", "parser": "spacy"}, OptionError, "height 0 chooses"),
        ({"parser": "none", "unit": "constituent"}, OptionError, "none"),
    ],
)
def test_a_bad_option_is_named(
    fresh: LensModel, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    refused(fresh, error, message, **options)


def test_the_first_token_of_a_decoder_is_no_embedding(decoder: LensModel) -> None:
    refused(
        decoder,
        OptionError,
        'embedding="cls" .*a decoder, .*attends to nothing of the text; choose "mean" or "last"',
        embedding="cls",
    )


# ---- constituents -----------------------------------------------------------------------


def test_constituents_need_trees_or_a_parser(fresh: LensModel) -> None:
    told = refused(
        fresh, SpanError, 'text1 of row 1 has no tree, from which unit="constituent"',
        unit="constituent",
    )  # fmt: skip
    assert "example" not in told
    assert 'unit="text"' not in told
    rows = slow.trees()
    del rows[3]["tree2"]  # its text2 has a tree in row 5, and that is another text then
    told = refused(fresh, SpanError, "text2 of row 4 has no tree", rows, unit="constituent")
    assert "example" not in told


def test_a_tree_of_another_text_is_named_by_row(fresh: LensModel) -> None:
    rows = slow.trees()
    rows[2] = {**rows[2], "tree2": "(NP (JJ green) (NN house))"}
    told = refused(
        fresh, AlignmentError, "^text2 of row 3: the tree's leaf 'green'", rows, unit="constituent"
    )
    assert "example" not in told
    rows[2] = {**rows[2], "tree2": "(NP (JJ wooden"}
    refused(fresh, DataFormatError, "^text2 of row 3: the tree", rows, unit="constituent")


def test_a_text_that_says_example_is_quoted_as_it_is(fresh: LensModel) -> None:
    rows = slow.trees()
    rows[0] = {**rows[0], "text1": "see example 99", "tree1": "(NP (DT see) (NN instance))"}
    told = refused(fresh, AlignmentError, "^text1 of row 1: ", rows, unit="constituent")
    assert "'see example 99'" in told


def test_labels_that_choose_nothing_are_refused(fresh: LensModel) -> None:
    refused(
        fresh,
        SpanError,
        r"labels=\['ZZ'\].*choose no constituent",
        slow.trees(),
        unit="constituent",
        labels=frozenset({"ZZ"}),
    )


# ---- what is prepared -------------------------------------------------------------------


def prepared(model: LensModel, rows: Any = slow.ROWS, unit: str = "text") -> Any:
    return prepare_pairs(model, rows, SimilarityOptions(unit=unit))  # type: ignore[arg-type]


def test_three_mirrors_judged_alike_are_measured_but_are_no_subset(decoder: LensModel) -> None:
    rows = [{**row, "subset": None} for row in slow.ROWS]
    rows = [{**row, "score": 0.5} for row in rows[:3]] + rows[3:]
    curve = similarity_curve(decoder, rows, layers=[0], controls=False, progress=False)
    assert set(curve.frame["subset"]) == {"all"}
    assert "3 mirror pairs: too few, or judged alike, for a subset." in curve.summary()
    assert set(curve.figures()) == {"similarity_curve", "similarity_by_layer"}
    with pytest.raises(InputError, match="no mirror pairs"):
        curve.plot_order()
    assert isinstance(curve, ic.SimilarityCurve)
