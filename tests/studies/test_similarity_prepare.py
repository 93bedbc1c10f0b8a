"""What is refused before any work: the row, the value, the remedy, and no call of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import interp_compose as ic
from interp_compose.errors import (
    AlignmentError,
    DataFormatError,
    InputError,
    LayerError,
    OptionError,
    PromptError,
    SpanError,
    TrainingModeError,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.core.inputs import Batch
from interp_compose.studies.similarity.measure import (
    _special_slots,
    batches_of,
    prepare_pairs,
    similarity_curve,
)
from interp_compose.studies.similarity.options import SimilarityOptions
from tests import architectures
from tests.studies import similarity_reference as slow


@pytest.fixture(scope="module")
def fresh() -> LensModel:
    """An encoder that has never run: its capabilities are not proven yet."""
    return slow.wrapped("BERT")


@pytest.fixture(scope="module")
def decoder() -> LensModel:
    return slow.wrapped("GPT-2")


@contextmanager
def nothing_runs() -> Iterator[None]:
    """No module of any model is called, not even by a probe."""

    def refuse(module: torch.nn.Module, args: Any) -> None:
        raise AssertionError(f"{type(module).__name__} was called")

    handle = torch.nn.modules.module.register_module_forward_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


def refused(
    model: Any, error: type[Exception], message: str, rows: Any = slow.ROWS, **options: Any
) -> str:
    """The message of the error, which is of exactly this type."""
    with nothing_runs(), pytest.raises(error, match=message) as told:
        similarity_curve(model, rows, progress=False, **options)
    assert type(told.value) is error
    return str(told.value)


def test_the_guard_of_these_tests_sees_a_call(fresh: LensModel) -> None:
    other = slow.wrapped("BERT")
    with nothing_runs(), pytest.raises(AssertionError, match="was called"):
        similarity_curve(other, slow.ROWS, progress=False)


# ---- rows -------------------------------------------------------------------------------

GOOD = [
    {"text1": "wooden house", "text2": "small sea", "score": 0.1},
    {"text1": "not alive", "text2": "small sea", "score": 0.2},
    {"text1": "a house", "text2": "a sea", "score": 0.3},
]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text1": "a b", "text2": "c d"}, "row 4 has no score and no label; give a score"),
        ({"text1": "a b", "text2": "c d", "score": float("nan")}, "row 4 has nan as its score"),
        ({"text1": "a b", "text2": "c d", "score": "high"}, "row 4 has 'high' as its score"),
        ({"text1": "a b", "text2": "c d", "score": float("inf")}, "row 4 has inf as its score"),
        ({"text1": "a b", "text2": "c d", "score": True}, "row 4 has True as its score"),
        ({"text1": "a b", "text2": "c d", "label": 1}, "row 4 has a label where row 1 has a score"),
        ({"text1": "", "text2": "c d", "score": 1}, "row 4 has '' as its text1"),
        ({"text1": "a b", "text2": " \n", "score": 1}, r"row 4 has ' \\n' as its text2"),
        ({"text1": "a b", "score": 1}, "row 4 has no text2"),
        ({"text1": "a b", "text2": b"c", "score": 1}, "row 4 has b'c' as its text2"),
        (
            {"text1": "not alive", "text2": "small sea", "score": 0.9},
            "row 4 repeats row 2: 'not alive' and 'small sea'; keep one",
        ),
        ({"text1": "a", "text2": "b", "score": 1, "subset": "mirror"}, "row 4 .*another name"),
        ({"text1": "a", "text2": "b", "score": 1, "scor": 2}, "row 4 .*unknown key 'scor'"),
    ],
)
def test_a_bad_row_is_named(fresh: LensModel, row: Any, message: str) -> None:
    refused(fresh, DataFormatError, message, [*GOOD, row])


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


def test_a_tokenizer_of_another_model_is_named() -> None:
    model = load_model(architectures.build("BERT"), tokenizer=slow.bert_tokenizer(120))
    model.d_vocab = 60
    refused(model, InputError, r"the tokenizer gives token \d+ and 'BertForMaskedLM' knows 60")


def test_half_a_surrogate_pair_is_named(fresh: LensModel) -> None:
    row = {"text1": "a b", "text2": "c \ud800", "score": 1.0}
    refused(fresh, PromptError, "^text2 of row 4: ", [*GOOD, row])


# ---- options ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"unit": "sentence"}, OptionError, "one of 'text', 'word', 'constituent'$"),
        ({"unit": "span"}, OptionError, "unit='span'; expected"),
        ({"unit": "phrase"}, OptionError, "'phrase' is 'text' now"),
        ({"pooling": ("median",)}, OptionError, r"pooling\[0\]='median'; .*'mean', 'max', 'sum'"),
        ({"pooling": ("last",)}, OptionError, r"pooling\[0\]='last'; expected"),
        ({"pooling": "mean"}, OptionError, "expected a sequence"),
        ({"pooling": ()}, OptionError, "expected a sequence"),
        ({"pooling": ("mean", "mean")}, OptionError, "twice"),
        ({"layers": [3]}, LayerError, "layer 3 is outside the model: expected 0 … 2"),
        ({"layers": [-1]}, LayerError, "layer -1"),
        ({"layers": [1.5]}, LayerError, "depth 1.5"),
        ({"layers": []}, LayerError, "no layers"),
        ({"embedding": "max"}, OptionError, "embedding='max'; .*'mean', 'cls', 'last', 'model'"),
        ({"embedding": "last"}, OptionError, 'embedding="last" is for decoders, and'),
        ({"seed": -1}, OptionError, "seed=-1"),
        ({"batch_size": 0}, OptionError, "batch_size=0"),
        ({"labels": frozenset({"NP"}), "unit": "word"}, OptionError, "labels, height and parser"),
        ({"height": 2}, OptionError, "labels, height and parser"),
        ({"height": 0, "unit": "constituent", "parser": "spacy"}, OptionError, "height 0 chooses"),
        ({"parser": "none", "unit": "constituent"}, OptionError, "none"),
    ],
)
def test_a_bad_option_is_named(
    fresh: LensModel, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    refused(fresh, error, message, **options)


@pytest.mark.parametrize("unit", ["text", "word"])
def test_options_of_constituents_point_to_constituents(fresh: LensModel, unit: str) -> None:
    refused(
        fresh,
        OptionError,
        f"mean nothing for unit '{unit}'; leave them out, or pass unit=\"constituent\"",
        unit=unit,
        labels=frozenset({"NP"}),
    )


def test_the_first_token_of_a_decoder_is_no_embedding(decoder: LensModel) -> None:
    refused(
        decoder,
        OptionError,
        'embedding="cls" .*a decoder, .*attends to nothing of the text; choose "mean" or "last"',
        embedding="cls",
    )


def test_a_models_name_is_no_model() -> None:
    with pytest.raises(Exception, match="model"):  # beartype's; without it, an OptionError
        similarity_curve("all-MiniLM", slow.ROWS)  # type: ignore[arg-type]


def test_a_model_in_training_mode_is_refused() -> None:
    model = load_model(architectures.build("BERT").train(), tokenizer=slow.bert_tokenizer())
    refused(model, TrainingModeError, r"call model\.eval\(\) first")


def test_a_model_without_a_tokenizer_is_refused() -> None:
    refused(load_model(architectures.build("BERT")), InputError, "came without a tokenizer")


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


def test_each_text_is_prepared_once(fresh: LensModel) -> None:
    items = prepared(fresh)
    by_text: dict[str, set[int]] = {}
    for item in items:
        by_text.setdefault(item.pair.text1, set()).add(id(item.first))
        by_text.setdefault(item.pair.text2, set()).add(id(item.second))
    assert all(len(found) == 1 for found in by_text.values())
    assert items[0].first is items[4].first
    assert [item.index for item in items] == list(range(len(slow.ROWS)))


@pytest.mark.parametrize("size", [1, 2, 4, 64])
def test_batches_hold_every_pair_once_and_every_text_once(fresh: LensModel, size: int) -> None:
    items = prepared(fresh)
    batches = batches_of(items, size)
    assert sorted(i.index for batch in batches for i in batch) == list(range(len(items)))
    assert all(len(batch) <= size for batch in batches)


def test_special_tokens_have_slots_of_their_own(fresh: LensModel) -> None:
    texts = [item.first for item in prepared(fresh)]
    batch = Batch.of([text.prompt for text in texts], torch.device("cpu"))
    units = batch.layout([text.prompt.groups for text in texts])
    for row, text in enumerate(texts):
        ids = text.prompt.ids.tolist()
        assert batch.tokens[row, batch.mask[row].bool()].tolist() == ids
        assert batch.mask[row].tolist() == sorted(batch.mask[row].tolist())  # padding on the left
        assert units.mask[row].sum().item() == text.prompt.n_pooled == 3  # [CLS], the text, [SEP]
        filled = _special_slots(batch, units)[row][units.mask[row].bool()]
        assert filled.tolist() == [1, 0, 1]


def test_three_mirrors_judged_alike_are_measured_but_are_no_subset(decoder: LensModel) -> None:
    rows = [{**row, "subset": None} for row in slow.ROWS]
    rows = [{**row, "score": 0.5} for row in rows[:3]] + rows[3:]
    curve = similarity_curve(decoder, rows, layers=[0], controls=False, progress=False)
    assert set(curve.frame["subset"]) == {"all"}
    assert "3 mirror pair(s): too few, or judged alike, for a subset." in curve.summary()
    assert set(curve.figures()) == {"similarity_curve", "similarity_by_layer"}
    with pytest.raises(InputError, match="no mirror pairs"):
        curve.plot_order()
    assert isinstance(curve, ic.SimilarityCurve)
