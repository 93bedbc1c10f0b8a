"""One number per run and measure, and what they come to over seeds (CARMA, eqs 11 to 14)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.stats.seeds import (
    coefficient_of_variation,
    coefficient_of_variation_interval,
    mean_interval,
    normalised_improvement,
)

AVERAGE: Final = "average"
PLACE: Final = ["metric", "rate", "layer", "depth", "pooling"]
DOSE: Final = ("n_words", "n_eligible", "n_wanted", "n_replaced")
STEP_PLACES: Final = 24
KINDS: Final[dict[str, Any]] = {"rate": float, "layer": "Int64", "depth": float, "value": float}
REPRESENTATIONS: Final = ("same_word_cosine", "different_word_cosine", "stable_rank")


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dictionaries by column."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def seed_values(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every measure of every run, one number per row.

    Columns: metric; rate, layer, depth and pooling, where the metric has them (else NaN, and ""
    for pooling); version; seed; value. Metrics: "accuracy" (per cent, eq. 11); "cap" (accuracy in
    per cent under pooling at a layer; the pooling "average" is the mean over the protocols);
    "consist_syn" (per cent, eq. 12; NaN where nothing was right before); "same_word_cosine",
    "different_word_cosine" and "stable_rank" of the residual that enters a layer.
    """
    accuracy, cap, synonyms = tables["accuracy"], tables["cap"], tables["synonyms"]
    accuracy = accuracy.assign(metric="accuracy", value=100 * accuracy["n_correct"] / accuracy["n"])
    cap = cap.assign(metric="cap", value=100 * cap["n_correct"] / cap["n"])
    average = cap.groupby(["metric", "version", "seed", "layer", "depth"], sort=False)["value"]
    right_before = synonyms["n_before"].where(synonyms["n_before"] > 0)
    layers = tables["representations"]
    deepest = max(layers["layer"].max(), 1) if len(layers) else 1
    measured = layers.assign(depth=layers["layer"] / deepest)
    parts = [
        accuracy,
        average.mean().reset_index().assign(pooling=AVERAGE),
        cap,
        synonyms.assign(metric="consist_syn", value=100 * synonyms["n_both"] / right_before),
        *(measured.assign(metric=name, value=measured[name]) for name in REPRESENTATIONS),
    ]
    return pd.concat([_part(frame) for frame in parts], ignore_index=True)


def dose_summary(doses: pd.DataFrame) -> pd.DataFrame:
    """What the synonym replacement asked for and what it reached, one row per rate.

    Args:
        doses: one row per rate, seed and test prompt; columns rate, n_words, n_eligible, n_wanted,
            n_replaced.

    Returns:
        Columns: rate; n_prompts (over all seeds); words, eligible, wanted and replaced (means per
        prompt); dose (mean of replaced / words per prompt, a share) and dose_of_changed (the same
        over the prompts in which a word was replaced, which are those that ConsistSyn counts);
        reached (share of prompts in which as many words were replaced as were wanted).
    """
    dose = doses["n_replaced"] / doses["n_words"].clip(lower=1)
    table = doses.assign(
        dose=dose,
        dose_of_changed=dose.where(doses["n_replaced"] > 0),
        reached=(doses["n_replaced"] == doses["n_wanted"]).astype(float),
    )
    groups = table.groupby("rate", sort=True)
    means = groups[[*DOSE, "dose", "dose_of_changed", "reached"]].mean()
    means = means.rename(columns={name: name.removeprefix("n_") for name in DOSE})
    means.insert(0, "n_prompts", groups.size())
    return means.reset_index()


def _part(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of :func:`seed_values`, those that the frame lacks without a value."""
    gaps: dict[str, Any] = {"rate": math.nan, "layer": pd.NA, "depth": math.nan, "pooling": ""}
    full = frame.assign(**{name: gap for name, gap in gaps.items() if name not in frame})
    return full[[*PLACE, "version", "seed", "value"]].astype(KINDS)


def improvements(values: pd.DataFrame) -> pd.DataFrame:
    """Normalised improvement (eq. 14) of each version's ConsistSyn over another's, seed by seed.

    Rows as in :func:`seed_values`; the metric is "improvement_over_ft" or
    "improvement_over_original", the value per cent (NaN over a ConsistSyn of 0).
    """
    syn = values[values["metric"] == "consist_syn"]
    parts = []
    for version, baseline in (("carma", "ft"), ("carma", "original"), ("ft", "original")):
        first, second = (syn[syn["version"] == name] for name in (version, baseline))
        both = first.merge(second[["rate", "seed", "value"]], on=["rate", "seed"], how="inner")
        change = [
            normalised_improvement(float(mine), float(theirs))
            for mine, theirs in zip(both["value_x"], both["value_y"], strict=True)
        ]
        both = both.assign(metric=f"improvement_over_{baseline}", value=change)
        parts.append(both[list(values.columns)])
    return pd.concat(parts, ignore_index=True)


def summary_table(values: pd.DataFrame) -> pd.DataFrame:
    """One row per version and measure, over seeds.

    Columns: version; metric, rate, layer, depth, pooling as in :func:`seed_values`, and besides
    "consist_syn_cv" (coefficient of variation of ConsistSyn, eq. 13, with its own interval) and
    the metrics of :func:`improvements`; mean over seeds; sd (of seeds, n - 1); ci_low and ci_high,
    its 95 % interval (Student's t; NaN for one seed, and for a CV of 0); n_seeds. Seeds without a
    value (NaN) do not count.
    """
    rows: list[dict[str, Any]] = []
    everything = pd.concat([values, improvements(values)], ignore_index=True)
    for place, group in everything.groupby([*PLACE, "version"], sort=False, dropna=False):
        about = dict(zip([*PLACE, "version"], place, strict=True))
        numbers = group["value"].dropna().to_numpy(float)
        rows.append(about | _over_seeds(numbers))
        if about["metric"] == "consist_syn":
            rows.append(about | {"metric": "consist_syn_cv"} | _variation(numbers))
    frame = pd.DataFrame(rows).astype({name: KINDS[name] for name in ("rate", "layer", "depth")})
    ends = ["mean", "sd", "ci_low", "ci_high", "n_seeds"]
    return frame[["version", *PLACE, *ends]].reset_index(drop=True)


def training_curve(history: pd.DataFrame) -> pd.DataFrame:
    """The task's loss over the steps, averaged around some twenty places and then over seeds.

    Columns: version, step (mean of those around the place), mean, sd, ci_low, ci_high, n_seeds.
    """
    edges = np.linspace(history["step"].min(), history["step"].max() + 1, STEP_PLACES + 1)
    place = np.digitize(history["step"], edges)
    rows = []
    for (version, _), near in history.groupby(["version", place], sort=False):
        by_seed = near.groupby("seed")["task_loss"].mean().to_numpy(float)
        rows.append({"version": version, "step": near["step"].mean()} | _over_seeds(by_seed))
    return pd.DataFrame(rows)


def _over_seeds(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float | int]:
    n = len(numbers)
    low, high = mean_interval(numbers) if n else (math.nan, math.nan)
    return {
        "mean": float(numbers.mean()) if n else math.nan,
        "sd": float(numbers.std(ddof=1)) if n > 1 else math.nan,
        "ci_low": low,
        "ci_high": high,
        "n_seeds": n,
    }


def _variation(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float | int]:
    n = len(numbers)
    cv = coefficient_of_variation(numbers) if n else math.nan
    spread = n > 1 and numbers.min() < numbers.max()  # without one, nothing to make an interval of
    low, high = coefficient_of_variation_interval(numbers) if spread else (math.nan, math.nan)
    return {
        "mean": cv,
        "sd": math.nan,
        "ci_low": low,
        "ci_high": high,
        "n_seeds": n,
    }
