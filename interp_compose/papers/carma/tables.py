"""What a comparison measured; :meth:`.Comparison.from_runs` explains the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd

from interp_compose.errors import InputError
from interp_compose.studies.cap.result import POOLINGS
from interp_compose.studies.core.tables import Table

LABELS: Final = {"original": "Original", "ft": "FT", "carma": "CARMA"}
"""The versions, and what texts and figures call them."""
VERSIONS: Final = tuple(LABELS)
TRAINED: Final = ("ft", "carma")
RATE: Final = "0 < rate <= 1"
EVERY_RUN: Final = (("version",), ("seed",))

SCHEMA: Final = (
    Table(
        "accuracy",
        "version str, seed int, n_correct int, n int, n_distinct int",
        key=("version", "seed"),
        complete=EVERY_RUN,
        known={"version": VERSIONS},
        rules=("0 <= n_correct <= n", "1 <= n_distinct <= n"),
    ),
    Table(
        "cap",
        "version str, seed int, layer int, depth float, pooling str, n_correct int, n int",
        key=("version", "seed", "layer", "pooling"),
        complete=(*EVERY_RUN, ("layer",), ("pooling",)),
        known={"version": VERSIONS, "pooling": POOLINGS},
        rules=("0 <= n_correct <= n", "n >= 1"),
    ),
    Table(
        "synonyms",
        "version str, seed int, rate float, n int, n_test int, n_before int, n_after int, "
        "n_both int",
        key=("version", "seed", "rate"),
        complete=(*EVERY_RUN, ("rate",)),
        known={"version": VERSIONS},
        rules=(
            RATE,
            "0 <= n_both <= n_before <= n",
            "n_both <= n_after <= n",
            "1 <= n <= n_test",
        ),
    ),
    Table(
        "training",
        "version str, seed int, steps int, seconds float, step_seconds float, first_loss float, "
        "last_loss float, validation_accuracy float null, converged bool, why str, "
        "stopped_early bool",
        key=("version", "seed"),
        complete=EVERY_RUN,
        known={"version": TRAINED},
        rules=("seconds > 0", "step_seconds > 0"),
        may_be_empty=True,
    ),
    Table(
        "representations",
        "version str, seed int, layer int, same_word_cosine float null, "
        "different_word_cosine float null, stable_rank float null",
        key=("version", "seed", "layer"),
        known={"version": VERSIONS},
        may_be_empty=True,
    ),
    Table(
        "replacements",
        "rate float, seed int, example int, prompt str, replaced str, position int, original str, "
        "replacement str, similarity float null",
        key=("rate", "seed", "example", "position"),
        rules=(RATE,),
        may_be_empty=True,
    ),
    Table(
        "doses",
        "rate float, seed int, example int, n_words int, n_eligible int, n_wanted int, "
        "n_replaced int",
        key=("rate", "seed", "example"),
        complete=(("rate",), ("seed",), ("example",)),
        rules=(
            RATE,
            "0 <= n_wanted <= n_words",
            "0 <= n_replaced <= n_wanted",
            "n_replaced <= n_eligible",
        ),
    ),
    Table(
        "history",
        "version str, seed int, step int, loss float, task_loss float, mi float null, "
        "stability float null",
        key=("version", "seed", "step"),
        known={"version": TRAINED},
        may_be_empty=True,
    ),
)
TABLES: Final = {table.name: table for table in SCHEMA}


def checked_tables(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """All of :data:`SCHEMA`, columns in order, versions and then the rest of the key ascending.

    Raises:
        InputError: a table is missing or foreign, or is not as described; tables that must be
            complete speak of other versions or seeds than ``accuracy``.
    """
    if set(tables) != set(TABLES):
        missing = [name for name in TABLES if name not in tables]
        foreign = [name for name in tables if name not in TABLES]
        raise InputError(
            f"the tables {missing} are missing and {foreign} are foreign; "
            f"expected {', '.join(TABLES)}"
        )
    accuracy = SCHEMA[0].ordered(tables["accuracy"])
    runs = {name: accuracy[name].drop_duplicates().tolist() for name in ("version", "seed")}
    checked = {"accuracy": accuracy}
    for table in SCHEMA[1:]:
        expected = {
            name: [value for value in values if value in table.known.get(name, values)]
            for name, values in runs.items()
            if table.complete and name in table.key
        }
        checked[table.name] = table.ordered(tables[table.name], expected)
    return checked
