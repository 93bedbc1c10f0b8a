"""Lines of exposure of COGS, shown more often: counts line by line, the control, refusals."""

from __future__ import annotations

from collections import Counter

import pytest

from interp_compose.errors import OptionError
from interp_compose.papers.lrf.tasks.exposures import exposure_lines, with_exposures
from interp_compose.tasks.sequences import SequencePair, SequenceTask

LINES = (
    ("a b c", "A B", "in_distribution"),
    ("cat", "A", "primitive"),
    ("a b", "A B C D E", "in_distribution"),
    ("Lina slept", "B Lina", "exposure_example_subj_proper"),
    ("a", "A", "in_distribution"),
    ("b", "B", "in_distribution"),
    ("c", "C C", "in_distribution"),
    ("the exposure", "of primitive", "in_distribution"),
)
TASK = SequenceTask(
    "cogs",
    {
        "train": tuple(SequencePair(*line) for line in LINES),
        "gen": (SequencePair("cat slept", "B cat", "primitive_to_subj"),),
    },
    {"source": "made", "train_all": len(LINES), "gen_with_unseen_tokens": 1},
)


@pytest.mark.parametrize("exposures", [2, 5])
def test_each_line_of_exposure_is_there_so_often_and_others_once(exposures: int) -> None:
    """Counted line by line; what was there stays where it was."""
    repeated = with_exposures(TASK, exposures, "tested")
    train = repeated.splits["train"]
    assert train[: len(LINES)] == TASK.splits["train"]
    counts = Counter(train)
    for source, target, kind in LINES:
        is_exposure = kind in ("primitive", "exposure_example_subj_proper")
        assert counts[SequencePair(source, target, kind)] == (exposures if is_exposure else 1)
    assert repeated.splits["gen"] == TASK.splits["gen"]
    assert repeated.name == f"cogs, {exposures} exposures"
    expected = {"exposures": exposures, "exposures_of": "tested", "train_repeated": 2}
    expected |= {"train_all": 8 + 2 * (exposures - 1), "gen_with_unseen_tokens": 1}
    assert {name: repeated.report[name] for name in expected} == expected


def test_one_exposure_is_the_task_itself() -> None:
    assert with_exposures(TASK, 1, "tested") is TASK


def test_the_control_repeats_as_many_others_of_about_the_same_lengths() -> None:
    """Tokens of both sides: 2 of the word alone, as "a" and "b" have; 4 of the example, as "the
    exposure" has."""
    control = with_exposures(TASK, 3, "others")
    counts = Counter(pair.source for pair in control.splits["train"])
    assert counts["cat"] == counts["Lina slept"] == 1
    assert counts["the exposure"] == 3
    assert sorted((counts["a"], counts["b"])) == [1, 3]
    assert len(control.splits["train"]) == len(with_exposures(TASK, 3, "tested").splits["train"])
    assert control.report["exposures_of"] == "others"
    assert control.name == "cogs, 3 exposures of others"
    again = with_exposures(TASK, 3, "others")
    assert again.splits == control.splits  # drawn in the same way for every run


def test_where_no_line_of_that_length_is_left_the_nearest_is_taken() -> None:
    lines = [*LINES[1:4], LINES[0]]  # of 2, 7, 4 and 5 tokens; the first and the third are tested
    task = SequenceTask("cogs", {"train": tuple(SequencePair(*line) for line in lines)}, {})
    counts = Counter(pair.source for pair in with_exposures(task, 2, "others").splits["train"])
    assert counts == {"cat": 1, "Lina slept": 1, "a b c": 2, "a b": 2}


@pytest.mark.parametrize("exposures", [0, -3, 1001])
def test_numbers_that_cannot_be(exposures: int) -> None:
    with pytest.raises(OptionError, match=f"exposures={exposures}: expected a whole number, 1 to"):
        with_exposures(TASK, exposures, "tested")


def test_what_has_no_such_lines_is_refused() -> None:
    plain = SequenceTask("scan-jump", {"train": (SequencePair("a", "A"),)}, {})
    with pytest.raises(
        OptionError, match="'scan-jump', whose training split has no line of a kind"
    ):
        with_exposures(plain, 2, "tested")
    with pytest.raises(OptionError, match="exposures_of='others' with exposures=1, which repeats"):
        with_exposures(TASK, 1, "others")
    few = SequenceTask("cogs", {"train": TASK.splits["train"][1:4]}, {})
    with pytest.raises(OptionError, match="expected at least 2 other lines, .* has 1"):
        with_exposures(few, 2, "others")


def test_lines_of_exposure_are_known_by_their_kind_alone() -> None:
    assert exposure_lines(TASK.splits["train"]) == [1, 3]
