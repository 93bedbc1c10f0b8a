"""What a result over seeds shows of itself: one declaration of its columns and of its question,
which its summary, its sentences and its page read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from interp_compose.studies.core.decided import ACCURACY, PLAIN, Measure, apart
from interp_compose.studies.core.text import (
    LIMITS,
    Column,
    Summary,
    differences_told,
    listed,
    text_table,
)

FIRST: Final = "first"
"""The value that a column has in the first row."""
LAST: Final = "last"
"""The value that a column has in the last row."""
LARGEST: Final = "largest"
"""The largest value of a column."""


@dataclass(frozen=True)
class View:
    """The columns of a frame that has a row for each place, over seeds.

    Attributes:
        heading: the line above them, as a format of the first row's columns.
        place: the columns that tell rows apart, in this frame and in that of the differences.
        values: what was measured there.
        where: a query for the rows of both that are shown; empty: all.
        unit: of the differences, once multiplied by ``scale``.
        scale: what differences are multiplied by.
        digits: of the ends of their intervals.
    """

    heading: str
    place: tuple[Column, ...]
    values: tuple[Column, ...]
    where: str = ""
    unit: str = "points"
    scale: float = 100.0
    digits: int = 1

    def lines(self, frame: pd.DataFrame, **more: str) -> Summary:
        """The heading, of which ``more`` are parts, and a row for each of ``frame``."""
        rows = self._shown(frame)
        heading = self.heading.format_map({**rows.iloc[0], **more} if len(rows) else more)
        return [heading, "", text_table(rows, [*self.place, *self.values])]

    def differences(self, differences: pd.DataFrame) -> Summary:
        """A heading, and a row for each difference at these places."""
        rows = self._shown(differences)
        return differences_told(rows, self.place, self.unit, self.scale, self.digits)

    def _shown(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.query(self.where) if self.where else frame


@dataclass(frozen=True)
class StudyQuestion:
    """What a study asks, answered by the rows of one place and by the largest difference there.

    Attributes:
        text: the question, as a format of the columns of the first of these rows.
        by: the column that names what is compared; of encoders ``reading``, which is their model
            and output.
        at: the place: column -> its value, :data:`FIRST`, :data:`LAST` or :data:`LARGEST`;
            of the differences, those columns that they have.
        percent: whether values are shares.
        measure: of the differences, with the margin within which one is called none; of shares 5
            points.
        limits: what the numbers do not show.
    """

    text: str
    by: str
    at: Mapping[str, Any] = field(default_factory=dict)
    percent: bool = False
    measure: Measure = PLAIN
    limits: str = LIMITS

    def answer(self, frame: pd.DataFrame, differences: pd.DataFrame) -> list[str]:
        """The sentence that says whether a difference is established."""
        tested = _at(self._place(frame), differences)
        measure = ACCURACY if self.percent else self.measure
        return apart(tested, self.by, measure, differences)

    def sentences(self, frame: pd.DataFrame, differences: pd.DataFrame) -> list[str]:
        """The answer, the question with its numbers, and what they do not show."""
        place = self._place(frame)
        if self.by not in frame:
            frame = frame.assign(**{self.by: frame["model"] + " " + frame["output"]})
        rows = _at(place, frame)
        question = self.text.format_map(rows.iloc[0])
        return [
            *self.answer(frame, differences),
            f"Asked: {question}; {listed(rows, self.by, percent=self.percent)}.",
            self.limits,
        ]

    def _place(self, frame: pd.DataFrame) -> dict[str, Any]:
        """The columns of :attr:`at` and their values in this frame."""
        kinds = {
            FIRST: lambda column: column.iloc[0],
            LAST: lambda column: column.iloc[-1],
            LARGEST: lambda column: column.max(),
        }
        return {
            name: kinds[value](frame[name]) if value in kinds else value
            for name, value in self.at.items()
        }


def _at(place: Mapping[str, Any], frame: pd.DataFrame) -> pd.DataFrame:
    for name, value in place.items():
        frame = frame[frame[name] == value] if name in frame else frame
    return frame
