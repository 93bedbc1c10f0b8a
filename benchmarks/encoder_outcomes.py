"""What is kept of encoders that compose: runs ``encoders_*`` and ``codes_*``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

READ: Final = ("pearson", "accuracy", "specificity", "balanced_accuracy", "auc")
"""Measures of which the values of each seed are kept."""
SHOWN: Final = 12
"""Codes of which the words are kept."""


def judged(config: Mapping[str, Any]) -> dict[str, Any]:
    """How many texts of each task were judged, and how; not where they were read from."""
    counts = {
        task: {name: count for name, count in report.items() if name != "source"}
        for task, report in config["tasks"].items()
    }
    return {
        "tasks": counts,
        **{name: config[name] for name in ("limit", "tuned", "shares", "tuning")},
    }


def of_last_layer(rows: pd.DataFrame) -> pd.DataFrame:
    last: pd.DataFrame = rows[rows["layer"] == rows["layer"].max()]
    return last


def words_of_some_codes(words: pd.DataFrame) -> pd.DataFrame:
    """The words of each model's last block, of its first seed, of those codes whose lightest listed
    word is the heaviest: those that most surely have several words."""
    parts = []
    for _, of_model in words.groupby("model", sort=False):
        rows = of_last_layer(of_model[of_model["seed"] == of_model["seed"].min()])
        full = rows[rows["rank"] == rows["rank"].max()]
        codes = full.nlargest(SHOWN, "weight")["code"]
        parts.append(rows[rows["code"].isin(codes)])
    return pd.concat(parts) if parts else words


def sememes_by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each model and seed, side and source, the means over words."""
    place = ["model", "seed", "side", "source"]
    means = rows.groupby(place, sort=False)[["r_precision", "precision", "recall"]].mean()
    return means.reset_index()


def by_seed(scores: pd.DataFrame) -> pd.DataFrame:
    """Each seed's values of the measures that pages and verdicts read."""
    rows: pd.DataFrame = scores[scores["metric"].isin(READ)]
    return rows.drop(columns=["trained_on", "n_cut"])
