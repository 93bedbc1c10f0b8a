"""The tables an ablation hands over, checked before anything is computed from them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from interp_compose.errors import InputError, LayerError
from tests.studies.test_ablation_result import make_cells, make_clean, make_curve, make_outcomes


def refused(message: str, kind: type = InputError, **changes: Any) -> None:
    with pytest.raises(kind, match=message):
        make_curve(**changes)


def test_columns_are_exactly_the_ones_expected() -> None:
    outcomes, clean, cells = make_outcomes(make_cells()), make_clean(), make_cells()
    refused(r"outcomes lacks the columns \['unit'\]", outcomes=outcomes.drop(columns="unit"))
    refused(r"clean lacks the columns \['answer'\]", clean=clean.drop(columns="answer"))
    renamed = cells.rename(columns={"group": "kind"})
    refused(r"cells lacks the columns \['group'\] and has .*\['kind'\]", cells=renamed)
    refused(r"outcomes\.correct has the type int64", outcomes=outcomes.astype({"correct": int}))
    refused(r"cells\.unit has the type str", cells=cells.astype({"unit": str}))


def tampered() -> Iterator[tuple[str, Any, str, type]]:
    """A table, what is done to it, what is said of it."""
    yield "outcomes", lambda t: t.iloc[:0], "outcomes has no rows", InputError
    yield "clean", lambda t: t.iloc[:0], "clean has no rows", InputError
    yield "cells", lambda t: t.iloc[:0], "cells has no rows", InputError
    yield (
        "outcomes",
        lambda t: pd.concat([t, t.iloc[[4]]]),
        r"outcomes has example 2, layer 0, unit 0 more than once; expected one row each",
        InputError,
    )
    yield "clean", lambda t: pd.concat([t, t.iloc[[3]]]), "has example 3 more than once", InputError
    yield (
        "cells",
        lambda t: pd.concat([t, t.iloc[[3]]]),
        "cells has example 1, unit 0 more than once",
        InputError,
    )
    yield "clean", lambda t: t.iloc[1:], "outcomes has example 0, which clean has not", InputError
    yield (
        "cells",
        lambda t: t.iloc[[*range(4), *range(5, 15)]],
        "outcomes has example 2, unit 0, which cells has not; expected a row for each",
        InputError,
    )
    yield (
        "cells",
        lambda t: t.assign(example=[-1, *t["example"][1:]]),
        "example 0, unit 0, which cells has not; .* or rows of example -1 alone",
        InputError,
    )
    yield (
        "outcomes",
        lambda t: t.drop(index=4),
        "outcomes has example 2, unit 0 at 2 of 3 layers; expected every cell at every layer",
        InputError,
    )
    yield "outcomes", lambda t: t.assign(layer=t["layer"] + 1), "layer 5, but .* 0 … 4", LayerError
    yield "outcomes", lambda t: t.assign(layer=t["layer"] - 1), "has layer -1, but", LayerError
    yield (
        "outcomes",
        lambda t: t.assign(target_rank=0),
        "outcomes.target_rank is 0 in row 0; expected a rank, 1 for the most likely",
        InputError,
    )
    yield "clean", lambda t: t.assign(target_rank=0), "clean.target_rank is 0 in row 0", InputError
    yield (
        "outcomes",
        lambda t: t.assign(target_logprob=math.nan),
        r"outcomes\.target_logprob is nan in row 0",
        InputError,
    )
    yield (
        "cells",
        lambda t: t.assign(group=["all words", *t["group"][1:]]),
        "cells has the group 'all words' beside others",
        InputError,
    )


@pytest.mark.parametrize(("name", "change", "message", "kind"), list(tampered()))
def test_tables_that_do_not_belong_together_are_refused(
    name: str, change: Any, message: str, kind: type
) -> None:
    tables = {"clean": make_clean(), "cells": make_cells(), "outcomes": make_outcomes(make_cells())}
    refused(message, kind, **{name: change(tables[name])})
