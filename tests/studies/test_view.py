"""A result's columns and question, declared once: what summary and sentences make of them."""

from __future__ import annotations

import math

import pandas as pd

from interp_compose.studies.core.text import Column
from interp_compose.studies.core.view import LARGEST, LAST, StudyQuestion, View

OVER_SEEDS = {"mean": 0.5, "smallest": 0.25, "largest": 0.75, "n": 40, "n_seeds": 3}
FRAME = pd.DataFrame(
    [
        {"setting": setting, "size": size, "kind": kind, **OVER_SEEDS}
        for setting in ("a", "b")
        for size in (2000, 500)
        for kind in ("all", "one")
    ]
)
TESTED = {"ci_low": -0.1, "ci_high": 0.3, "p": 0.2, "p_holm": 0.4}
DIFFERENCES = pd.DataFrame(
    [
        {"setting": "b", "other": "a", "size": size, "kind": "all", "difference": change, **TESTED}
        for size, change in ((2000, 0.1), (500, -0.9))
    ]
)


def test_a_view_shows_the_rows_and_columns_that_it_names() -> None:
    view = View(
        "{n} sequences",
        place=(Column("setting", "setting", "<8"), Column("size", "size", ">6")),
        values=(
            Column("right", "mean", ">7.1f", 100.0),
            Column("seeds", ("smallest", "largest"), ">16.1", 100.0),
        ),
        where="kind == 'all'",
    )
    assert "\n".join(map(str, view.lines(FRAME))).splitlines() == [
        "40 sequences",
        "",
        "setting   size  right           seeds",
        *(
            f"{setting:<8}{size:>6}   50.0    25.0 to 75.0"
            for setting in ("a", "b")
            for size in (2000, 500)
        ),
    ]
    blank, heading, _, table = view.differences(DIFFERENCES)
    assert blank == ""
    assert isinstance(heading, str)
    head, *lines = str(table).splitlines()
    assert heading.startswith("differences to a, paired by seed, in points")
    assert head.split() == ["setting", "size", "difference", "95", "%", "p", "(Holm)"]
    assert [line.split()[:3] for line in lines] == [["b", "2000", "+10.00"], ["b", "500", "−90.00"]]
    untested = DIFFERENCES.assign(p=math.nan)
    assert view.differences(untested) == []


def test_a_question_is_answered_at_its_place() -> None:
    at = {"size": LARGEST, "kind": "all"}
    question = StudyQuestion("which is right, of {size:,}", by="setting", at=at, limits="So far.")
    difference, asked, limits = question.sentences(FRAME, DIFFERENCES)
    assert asked == (
        "Asked: which is right, of 2,000; a: 0.500 (0.250 to 0.750 over 3 seeds); "
        "b: 0.500 (0.250 to 0.750 over 3 seeds)."
    )
    assert difference == (
        "No difference to a, paired by seed, is established: the largest, of b, is between 0.10 "
        "less and 0.30 more than a (95 %, p by Holm 0.4000)."
    )
    assert question.answer(FRAME, DIFFERENCES) == [difference]
    assert limits == "So far."
    last = StudyQuestion("of {size}", by="setting", at={"size": LAST, "kind": "all"}, percent=True)
    assert "between 10 points less and 30 more" in last.sentences(FRAME, DIFFERENCES)[0]
    assert last.sentences(FRAME, DIFFERENCES)[1].count("50.0 %") == 2


def test_encoders_are_named_by_their_model_and_output() -> None:
    frame = pd.DataFrame([{"model": "cat", "output": "comp", **OVER_SEEDS}])
    asked, limits = StudyQuestion("how", by="reading").sentences(frame, DIFFERENCES[:0])
    assert asked.startswith("Asked: how; cat comp: 0.500")
    assert "Seeds vary" in limits
