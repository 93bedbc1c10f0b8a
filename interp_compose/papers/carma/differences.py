"""Versions compared seed by seed, and the words that follow from the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd

from interp_compose.stats.seeds import (
    SATURATED,
    coefficient_of_variation,
    coefficient_of_variation_interval,
    holm,
    is_saturated,
    mean_interval,
    normalised_improvement,
    paired_difference,
)
from interp_compose.studies.core.text import decimal
from interp_compose.training.figures import nearby

AVERAGE: Final = "average"
PLACE: Final = ["metric", "rate", "layer", "depth", "pooling"]
DOSE: Final = ("n_words", "n_eligible", "n_wanted", "n_replaced")
OVER_SEEDS: Final = ("mean", "sd", "ci_low", "ci_high", "n_seeds")
PLACE_TYPES: Final[dict[str, Any]] = {"rate": float, "layer": "Int64", "depth": float}
REPRESENTATIONS: Final = ("same_word_cosine", "different_word_cosine", "stable_rank")


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dictionaries by column."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def seed_values(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every measure of every run, one number per row.

    Columns: metric; rate, layer, depth and pooling, where the metric has them (else NaN, and ""
    for pooling); version; seed; value. Metrics: "accuracy" (per cent, eq. 11); "cap" (accuracy in
    per cent under pooling at a layer; the pooling "average" is the mean over the others);
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
    table = frame.assign(**{name: gap for name, gap in gaps.items() if name not in frame})
    return table[[*PLACE, "version", "seed", "value"]].astype({**PLACE_TYPES, "value": float})


def improvements(values: pd.DataFrame) -> pd.DataFrame:
    """Normalised improvement (eq. 14) of each version's ConsistSyn over another's, seed by seed.

    Rows as in :func:`seed_values`; the metric is "improvement_over_ft" or
    "improvement_over_original", the value per cent (NaN over a ConsistSyn of 0).
    """
    syn = values[values["metric"] == "consist_syn"]
    parts = []
    for version, baseline in (("carma", "ft"), ("carma", "original"), ("ft", "original")):
        first, second = (syn[syn["version"] == name] for name in (version, baseline))
        merged = first.merge(second[["rate", "seed", "value"]], on=["rate", "seed"], how="inner")
        change = [
            normalised_improvement(float(consistency), float(reference))
            for consistency, reference in zip(merged["value_x"], merged["value_y"], strict=True)
        ]
        merged = merged.assign(metric=f"improvement_over_{baseline}", value=change)
        parts.append(merged[list(values.columns)])
    return pd.concat(parts, ignore_index=True)


def summary_table(values: pd.DataFrame) -> pd.DataFrame:
    """One row per version and measure, over seeds: :attr:`.Comparison.frame`.

    sd is that of seeds (n - 1); the interval is Student's t (NaN for one seed), and for a
    coefficient of variation (eq. 13) its own (NaN for one of 0). Seeds without a value (NaN) do
    not count.
    """
    rows: list[dict[str, Any]] = []
    everything = pd.concat([values, improvements(values)], ignore_index=True)
    for place, group in everything.groupby([*PLACE, "version"], sort=False, dropna=False):
        labels = dict(zip([*PLACE, "version"], place, strict=True))
        numbers = group["value"].dropna().to_numpy(float)
        rows.append(labels | _over_seeds(numbers))
        if labels["metric"] == "consist_syn":
            rows.append(labels | {"metric": "consist_syn_cv"} | _variation(numbers))
    return pd.DataFrame(rows, columns=["version", *PLACE, *OVER_SEEDS]).astype(PLACE_TYPES)


def training_curve(history: pd.DataFrame) -> pd.DataFrame:
    """The task's loss over the steps, averaged around some twenty places and then over seeds.

    Columns: version, step (mean of those around the place), mean, sd, ci_low, ci_high, n_seeds.
    """
    place = nearby(history["step"])
    rows = []
    for (version, _), window in history.groupby(["version", place], sort=False):
        by_seed = window.groupby("seed")["task_loss"].mean().to_numpy(float)
        rows.append({"version": version, "step": window["step"].mean()} | _over_seeds(by_seed))
    return pd.DataFrame(rows)


def _over_seeds(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float | int]:
    n = len(numbers)
    low, high = mean_interval(numbers) if n else (math.nan, math.nan)
    mean = float(numbers.mean()) if n else math.nan
    sd = float(numbers.std(ddof=1)) if n > 1 else math.nan
    return dict(zip(OVER_SEEDS, (mean, sd, low, high, n), strict=True))


def _variation(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float | int]:
    n = len(numbers)
    cv = coefficient_of_variation(numbers) if n else math.nan
    spread = n > 1 and numbers.min() < numbers.max()  # without one, nothing to make an interval of
    low, high = coefficient_of_variation_interval(numbers) if spread else (math.nan, math.nan)
    return dict(zip(OVER_SEEDS, (cv, math.nan, low, high, n), strict=True))


PAIR: Final = ("first", "second")
PAIRS: Final = (("carma", "ft"), ("ft", "original"), ("carma", "original"))
LEVEL: Final = 0.05
TOO_EASY: Final = (
    f"saturated (both versions above {SATURATED:.0f} %): this set does not discriminate"
)
KINDS: Final = {
    "higher": "CARMA higher",
    "lower": "CARMA lower",
    "hint": "hint only",
    "none": "no difference established",
    "one seed": "one seed: no statement",
    "undefined": "undefined",
}
"""The kinds of verdict on CARMA minus plain fine-tuning, in few words."""


def differences_table(values: pd.DataFrame, training: pd.DataFrame) -> pd.DataFrame:
    """Each measure of one version minus the other's, paired by seed.

    Args:
        values: :func:`~interp_compose.papers.carma.differences.seed_values`.
        training: who has converged; columns version, converged, why.

    Returns:
        One row per pair of versions and measure. Columns: first, second; metric, rate, layer,
        depth, pooling; mean_first, mean_second; difference (first - second; percentage points for
        accuracies and ConsistSyn); standard_error, ci_low, ci_high (95 %) and p of a paired t test
        over n_seeds seeds (ci_low, ci_high and p NaN where all seeds differ by the same: there is
        no spread to test against); family, within which p_holm is corrected for n_compared
        comparisons (Holm): "headline" (accuracy, CAP averaged over poolings at each layer,
        ConsistSyn at each rate), "protocols" (CAP per pooling), "representations", each for one
        pair of versions; rates of ConsistSyn with the same numbers in every seed are one
        comparison, and a p that is NaN is none; verdict; caveat ("" if there is none).
    """
    rows = []
    for first, second in PAIRS:
        for place, group in values.groupby(PLACE, sort=False, dropna=False):
            labels = dict(zip(PLACE, place, strict=True))
            by_seed = group.pivot(index="seed", columns="version", values="value")
            if first not in by_seed or second not in by_seed:
                continue
            pairs = by_seed[[first, second]].dropna()
            # rates with the same ConsistSyn in every seed replaced alike: one observation
            numbers = pairs.to_dict() if labels["metric"] == "consist_syn" else place
            rows.append(
                {"first": first, "second": second}
                | labels
                | _paired(pairs)
                | {"family": _family(labels), "observation": str(numbers)}
            )
    frame = pd.DataFrame(rows, columns=[*_COLUMNS, "observation"]).astype(_TYPES)
    frame["n_compared"] = 0
    for _, family in frame.groupby(["first", "second", "family"], sort=False):
        corrected = _holm(family)
        frame.loc[family.index, "p_holm"] = family["observation"].map(corrected)
        frame.loc[family.index, "n_compared"] = len(corrected)
    frame = frame[_COLUMNS]
    frame["verdict"] = [verdict(row).sentence for row in records(frame)]
    unfinished = not_converged(training)
    frame["caveat"] = [
        "; ".join(
            filter(None, [own_caveat(row), *(unfinished.get(row[name], "") for name in PAIR)])
        )
        for row in records(frame)
    ]
    return frame.astype(dict.fromkeys(_TEXTS, "str"))


class Verdict(NamedTuple):
    """What the numbers of a comparison allow to be said: of which kind, and in words."""

    kind: Literal["undefined", "one seed", "none", "hint", "higher", "lower"]
    sentence: str


def verdict(row: Mapping[str, Any]) -> Verdict:
    """Of a row of :func:`differences_table`, before its caveat."""
    if not row["n_seeds"]:
        never_right = row["metric"] == "consist_syn"
        why = ": no prompt was right before" if never_right else ""
        return Verdict("undefined", KINDS["undefined"] + why)
    if row["n_seeds"] < 2:
        return Verdict("one seed", KINDS["one seed"])
    higher: Literal["higher", "lower"] = "higher" if row["difference"] > 0 else "lower"
    finding = f"{row['first']} {higher} by {_size(row)}"
    if row["standard_error"] == 0 and row["difference"] != 0:
        why = "all seeds differ by the same, no spread to test against"
        return Verdict("hint", f"hint only, {why}: {finding}")
    if not row["p"] < LEVEL:  # NaN: the versions do not differ in any seed
        return Verdict("none", KINDS["none"])
    if not row["p_holm"] < LEVEL:
        why = f"does not survive correction for {row['n_compared']} comparisons"
        return Verdict("hint", f"hint only, {why}: {finding}")
    return Verdict(higher, finding)


def not_converged(training: pd.DataFrame, *, reasons: bool = False) -> dict[str, str]:
    """For each version with runs that have not converged: how many, and, if asked for, why."""
    sentences = {}
    for version, runs in training.groupby("version", sort=False):
        stuck = runs[~runs["converged"]]
        if len(stuck):
            why = list(dict.fromkeys(text for text in stuck["why"] if text))[:3]
            sentences[str(version)] = (
                f"{len(stuck)} of {len(runs)} {version} runs had visibly not converged"
                + (f": {'; '.join(why)}" if reasons and why else "")
            )
    return sentences


def own_caveat(row: Mapping[str, Any]) -> str:
    """Of a row's numbers, whatever the trainings were: a set that is saturated for both versions.
    ``""`` if there is none."""
    means = [row[f"mean_{name}"] for name in PAIR]
    return TOO_EASY if row["metric"] == "consist_syn" and is_saturated(means) else ""


def with_reference(summary: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """The summary's rows with ``compared_with``, plain fine-tuning or else the original;
    ``reference``, its number; and ``low`` and ``high``, which end the interval of the difference to
    it, paired by seed; of two seeds, whose interval says next to nothing, their differences.
    NaN for itself, and where all seeds differ by the same."""
    reference = "ft" if "ft" in set(summary["version"]) else "original"
    rows = differences[(differences[list(PAIR)] == reference).any(axis=1)]
    sign = (rows["second"] == reference).map({True: 1, False: -1})  # to version − reference
    low, high = rows["ci_low"], rows["ci_high"]
    if rows["n_seeds"].max() == 2:
        low, high = (rows["difference"] + side * rows["standard_error"] for side in (-1, 1))
    ends = pd.concat([sign * low, sign * high], axis=1)
    rows = rows.assign(
        version=rows["first"].where(sign > 0, rows["second"]),
        change=sign * rows["difference"],
        low=ends.min(axis=1),
        high=ends.max(axis=1),
    )
    table = summary.merge(rows[["version", *PLACE, "change", "low", "high"]], how="left")
    return table.assign(reference=table["mean"] - table.pop("change"), compared_with=reference)


def against_ft(differences: pd.DataFrame, metric: str, pooling: str = "") -> pd.DataFrame:
    """The rows of CARMA minus plain fine-tuning."""
    rows = differences[(differences["first"] == "carma") & (differences["second"] == "ft")]
    return rows[(rows["metric"] == metric) & (rows["pooling"] == pooling)]


def percent(rate: Any) -> str:
    """A share, like "25 %"."""
    return f"{100 * rate:g} %"


def saturated_rates(summary: pd.DataFrame) -> str:
    """Like "25 %, 40 %": where every version whose ConsistSyn is defined is above 95 %."""
    rows = summary[(summary["metric"] == "consist_syn") & summary["mean"].notna()]
    return ", ".join(
        percent(rate)
        for rate, means in rows.groupby("rate")["mean"]
        if is_saturated(means.tolist())
    )


_TESTED: Final = ("mean_first", "mean_second", "difference", "standard_error", "ci_low", "ci_high")
_TYPES: Final = PLACE_TYPES | dict.fromkeys((*_TESTED, "p", "p_holm"), float)
_TEXTS: Final = ("first", "second", "metric", "pooling", "family", "verdict", "caveat")
_COLUMNS: Final = [
    *("first", "second", *PLACE, *_TESTED, "n_seeds", "p", "p_holm"),
    *("n_compared", "family", "verdict", "caveat"),
]


def _paired(by_seed: pd.DataFrame) -> dict[str, float | int]:
    """The paired difference of two columns, [seeds]."""
    first, second = by_seed.to_numpy(float).T
    n = len(by_seed)
    if n > 1:
        test = paired_difference(first, second)
        names = (*_TESTED, "p") if test.standard_error else _TESTED[:4]  # no test, no interval
        return {"n_seeds": n} | {name: getattr(test, name) for name in names}
    means = {"mean_first": first.mean(), "mean_second": second.mean()} if n else {}
    difference = means["mean_first"] - means["mean_second"] if n else math.nan
    return {"n_seeds": n, **means, "difference": difference}


def _family(labels: Mapping[str, Any]) -> str:
    if labels["metric"] in REPRESENTATIONS:
        return "representations"
    return "protocols" if labels["pooling"] not in ("", AVERAGE) else "headline"


def _holm(family: pd.DataFrame) -> dict[str, float]:
    """Corrected p by observation, for the tests that were made; where p is NaN, none was."""
    tested = family[family["p"].notna()].drop_duplicates("observation")
    corrected = holm(tested["p"].to_numpy(float)) if len(tested) else ()
    return dict(zip(tested["observation"], corrected, strict=True))


def _size(row: Mapping[str, Any]) -> str:
    """Like "2.10 points (SE 0.30, 5 seeds)"; representations have no unit."""
    digits, unit = (3, "") if row["metric"] in REPRESENTATIONS else (2, " points")
    size, error = decimal(abs(row["difference"]), digits), decimal(row["standard_error"], digits)
    return f"{size}{unit} (SE {error}, {row['n_seeds']} seeds)"
