"""Sequence tasks: splits that must not overlap."""

from __future__ import annotations

import pytest

from interp_compose.errors import DataFormatError, InputError, OptionError
from interp_compose.tasks.sequences import (
    SequencePair,
    SequenceTask,
    load_sequences,
)

A, B, C = SequencePair("a b", "x"), SequencePair("c", "y y"), SequencePair("d", "z", "np")


def test_a_split_is_found_by_its_name() -> None:
    task = SequenceTask("mine", {"train": (A, B), "gen": (C,)}, {})
    assert task.split("gen") == (C,)
    assert task.split("gen")[0].kind == "np"
    with pytest.raises(OptionError, match="split 'test' is unknown; .* 'mine' has train, gen"):
        task.split("test")


def test_a_task_needs_training_pairs_and_pairs_in_each_split() -> None:
    with pytest.raises(InputError, match="'mine' has the splits test; one of them has to be 'tr"):
        SequenceTask("mine", {"test": (A,)}, {})
    with pytest.raises(InputError, match="the split 'test' of the task 'mine' has no pairs"):
        SequenceTask("mine", {"train": (A,), "test": ()}, {})


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_pair_has_tokens_on_both_sides(side: str) -> None:
    for text in ("", " \t"):
        with pytest.raises(InputError, match=f"the {side} of a pair is .*at least one token"):
            SequencePair(**{"source": "a", "target": "b", side: text})


def test_a_source_of_the_training_split_is_counted_or_refused() -> None:
    splits = {"train": (A, B), "dev": (C,), "test": (C, SequencePair("c", "other"))}
    with pytest.raises(DataFormatError, match="1 of the 2 pairs of the split 'test' .*such as 'c'"):
        SequenceTask("mine", splits, {})
    assert SequenceTask("mine", splits, {"test_also_in_train": 1}).split("test")[1].source == "c"
    with pytest.raises(DataFormatError, match="1 of the 2 pairs of the split 'test'"):
        SequenceTask("mine", splits, {"test_also_in_train": 2})
    with pytest.raises(DataFormatError, match="counts pairs of the split 'dev' .*there are none"):
        SequenceTask("mine", splits, {"test_also_in_train": 1, "dev_also_in_train": 1})


def test_other_white_space_is_the_same_source() -> None:
    spaced = {"train": (SequencePair("a b", "x"),), "test": (SequencePair(" a  b", "y"),)}
    with pytest.raises(DataFormatError, match="1 of the 1 pairs of the split 'test'"):
        SequenceTask("mine", spaced, {})


def test_a_pair_that_results_could_not_name_or_write_is_refused() -> None:
    with pytest.raises(InputError, match="kind of a pair is 'all', by which results call all"):
        SequencePair("a", "b", "all")
    for sides in (("a \ud800", "b"), ("a", "b\udfff")):
        with pytest.raises(InputError, match="holds half of a surrogate pair"):
            SequencePair(*sides)
    assert SequencePair("a é漢🙂", "b").source == "a é漢🙂"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(OptionError, match="sequence task 'scan' is unknown; choose one of scan-si"):
        load_sequences("scan")
