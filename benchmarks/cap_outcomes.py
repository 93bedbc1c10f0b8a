"""What is kept of a CAP curve: runs ``cap_*``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

import interp_compose as ic
from benchmarks.common import plain_rows


def by_example(
    outcomes: pd.DataFrame, place: Sequence[str] = ("layer", "pooling")
) -> list[dict[str, Any]]:
    """Of each ``place``, by example in their order: whether it is right (a digit each), the
    log-probability of its answer (nats), and the token that is predicted."""
    ordered = outcomes.sort_values("example", kind="stable")
    return [
        {
            **dict(zip(place, values, strict=True)),
            "correct": "".join(map(str, rows["correct"].astype(int))),
            "prediction": rows["prediction"].tolist(),
            "target_logprob": rows["target_logprob"].round(4).tolist(),
        }
        for values, rows in ordered.groupby(list(place), sort=False)
    ]


def without_prompts(clean: pd.DataFrame) -> list[dict[str, Any]]:
    """The clean model's answers to texts that are not to be distributed."""
    return plain_rows(clean.drop(columns="prompt"))


def answers_given(clean: pd.DataFrame) -> list[dict[str, Any]]:
    """How many examples of each answer the clean model gives each prediction."""
    counts = clean.groupby(["answer", "prediction_text"]).size()
    return plain_rows(counts.rename("n").reset_index())


def controls(curve: ic.CapCurve) -> list[dict[str, Any]]:
    """``mean`` minus each control, by layer, with ``against`` for the control's name."""
    frames = [
        curve.differences("mean", control).assign(against=control)
        for control in ("last", "first", "straddling", "shuffled")
        if control in set(curve.frame["pooling"])
    ]
    return plain_rows(pd.concat(frames))
