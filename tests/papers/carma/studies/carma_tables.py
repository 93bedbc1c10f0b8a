"""Tables of a comparison that never ran, with answers known beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from interp_compose.papers.carma.report import measures_table
from interp_compose.papers.carma.result import Comparison

N, N_LAYERS, STEPS = 1000, 3, 40
RATES, POOLINGS = (0.25, 0.4), ("mean", "max", "sum")
NOISE = (3, -2, 0, 1, -2)  # examples, of one seed: what all versions share
WOBBLE = (1, -1, 2, 0, -2)  # examples: what CARMA has besides
CONFIG: dict[str, Any] = {
    "model": "tiny",
    "task": "mini-idm",
    "seeds": [0, 1, 2, 3, 4],
    "carma": {"weight": 0.2, "mi_weight": 0.5, "layers": [0, 2], "temperature": 0.1},
    "train": {"learning_rate": 6e-5, "batch_size": 16, "bf16": False, "stop": None},
}


def make_tables(
    *,
    seeds: Sequence[int] = range(5),
    versions: Sequence[str] = ("original", "ft", "carma"),
    gain: Mapping[str, int] | None = None,
    kept: float = 0.8,
    stuck: Sequence[int] = (),
    prompt: str = "the shore of a sea is called a",
) -> dict[str, pd.DataFrame]:
    """``gain``: examples that CARMA has more right, by metric (accuracy, cap, synonyms).

    ``kept``: the share still right after replacement; ``stuck``: seeds of FT that have not
    converged.
    """
    gain = dict.fromkeys(("accuracy", "cap", "synonyms"), 0) | dict(gain or {})
    rows: dict[str, list[dict[str, Any]]] = {}

    def add(table: str, **row: Any) -> None:
        rows.setdefault(table, []).append(row)

    for seed in seeds:
        for version in versions:
            run = {"version": version, "seed": seed}
            own = NOISE[seed % 5] if version != "original" else 0
            more = WOBBLE[seed % 5] if version == "carma" else 0
            better = gain if version == "carma" else dict.fromkeys(gain, 0)
            right = 200 if version == "original" else 600 + own + better["accuracy"] + more
            add("accuracy", **run, n_correct=right, n=N, n_distinct=40)
            for layer in range(N_LAYERS):
                for i, pooling in enumerate(POOLINGS):
                    count = 100 * (layer + 1) + 10 * i + own + better["cap"] + more
                    where = {"layer": layer, "depth": layer / (N_LAYERS - 1), "pooling": pooling}
                    add("cap", **run, **where, n_correct=count, n=N)
            for rate in RATES:
                both = round(500 * kept) + own + better["synonyms"] + more
                counts = {"n_before": 500, "n_after": both + 7, "n_both": both}
                add("synonyms", **run, rate=rate, n=N, n_test=N, **counts)
            for layer in range(N_LAYERS):
                cosine = (0.9 if version == "carma" else 0.6) + (own + more) / 1000
                cosines = {"same_word_cosine": cosine, "different_word_cosine": 1 - cosine}
                add("representations", **run, layer=layer, **cosines, stable_rank=4.0 + own)
            if version != "original":
                late = version == "ft" and seed in stuck
                cost = 1.0 if version == "ft" else 1.1 + seed / 100
                add(
                    "training",
                    **run,
                    **{"steps": STEPS, "seconds": 60 * cost, "step_seconds": cost},
                    **{"first_loss": 5.0, "last_loss": 0.5, "validation_accuracy": 0.6},
                    **{"converged": not late, "why": "loss still falling" if late else ""},
                    stopped_early=False,
                )
                for step in range(STEPS):
                    losses = {"loss": 5.0 / (step + 1), "task_loss": 4.0 / (step + 1) + own / 99}
                    extra = 1.0 if version == "carma" else np.nan
                    add("history", **run, step=step, **losses, mi=extra, stability=extra)
        for rate in RATES:
            for example in range(3 if rate < 0.3 else 4):  # fewer words at the lower rate
                swap = {"position": 1, "original": "shore", "replacement": "coast"}
                texts = {"prompt": prompt, "replaced": prompt.replace("shore", "coast")}
                at = {"rate": rate, "seed": seed, "example": example}
                add("replacements", **at, **texts, **swap, similarity=0.75)
            for example in range(5):  # of 8 words; only the first prompts have one with a synonym
                n = int(example < (3 if rate < 0.3 else 4))
                counts = {"n_words": 8, "n_eligible": n, "n_wanted": int(8 * rate)}
                add("doses", rate=rate, seed=seed, example=example, **counts, n_replaced=n)
    training = pd.DataFrame(columns=["version", "seed"])
    return {"training": training, "history": training} | {
        name: pd.DataFrame(table) for name, table in rows.items()
    }


def compare(**changes: Any) -> Comparison:
    return Comparison.from_runs(make_tables(**changes), CONFIG)


def pick(frame: pd.DataFrame, **cells: Any) -> dict[str, Any]:
    for column, value in cells.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.to_dict("records")[0]


def cells(comparison: Comparison, metric: str) -> str:
    """A table's text, its tags left out."""
    return " ".join(re.sub("<[^>]*>", " ", measures_table(comparison, metric)).split())


def against_ft(comparison: Comparison, metric: str, **cells: Any) -> dict[str, Any]:
    return pick(comparison.differences, first="carma", second="ft", metric=metric, **cells)
