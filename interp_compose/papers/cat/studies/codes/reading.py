"""What codes say, in a sentence: whether they name a word's sememes better than each baseline does.

Paired by word, by the bootstrap's intervals, with Holm's correction over models and baselines.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Final

import pandas as pd

from interp_compose.studies.core.decided import LIES, PLAIN, Row, bootstrapped, changed, records

SUBJECT: Final = "The R-precision of codes on {side} words"
SIDES: Final = {"held_out": "held-out", "guiding": "guiding"}


def answers(differences: pd.DataFrame) -> list[str]:
    """The sentence that answers what is asked of codes, on the words that guided nothing, if any.

    Args:
        differences: as :attr:`.Codes.differences` has them.
    """
    rows = differences[differences["measure"] == "r_precision"]
    side = str(rows["side"].iloc[-1])
    rows = rows[rows["side"] == side].rename(
        columns={"words_low": "ci_low", "words_high": "ci_high"}
    )
    if (rows["ci_low"] < rows["ci_high"]).all():
        found = bootstrapped(rows)
    else:  # all words differ by the same, which leaves no spread
        found = records(rows.assign(ci_low=nan))
    return [
        changed(
            found,
            PLAIN,
            act=SUBJECT.format(side=SIDES[side]),
            what="that of its baseline",
            than="that of its baseline",
            places=_places,
            of="words",
            saying=LIES,
        )
    ]


def _places(rows: Sequence[Row]) -> str:
    """``for cat (commonest, permuted), cat-last (permuted)``."""
    others: dict[str, list[str]] = {}
    for row in rows:
        others.setdefault(row["model"], []).append(row["other"])
    return "for " + ", ".join(f"{model} ({', '.join(names)})" for model, names in others.items())
