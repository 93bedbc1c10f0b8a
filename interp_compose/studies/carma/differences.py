"""Versions compared seed by seed, and the words that follow from the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.stats.seeds import SATURATED, holm, is_saturated, paired_difference
from interp_compose.studies.core.text import decimal
from interp_compose.studies.carma.differences__carma_values import AVERAGE, PLACE, REPRESENTATIONS, records

PAIRS: Final = (("carma", "ft"), ("ft", "original"), ("carma", "original"))
LEVEL: Final = 0.05
TOO_EASY: Final = (
    f"saturated (both versions above {SATURATED:.0f} %): this set does not discriminate"
)
NOTHING: Final = "no difference established"
ONE_SEED: Final = "one seed: no statement"
UNDEFINED: Final = "undefined"
NEVER_RIGHT: Final = f"{UNDEFINED}: no prompt was right before"
STUCK: Final = "runs had visibly not converged"


def differences_table(values: pd.DataFrame, training: pd.DataFrame) -> pd.DataFrame:
    """Each measure of one version minus the other's, paired by seed.

    Args:
        values: :func:`~interp_compose.studies.carma.differences__carma_values.seed_values`.
        training: who has converged; columns version, converged, why.

    Returns:
        One row per pair of versions and measure. Columns: first, second; metric, rate, layer,
        depth, pooling; mean_first, mean_second; difference (first - second; percentage points for
        accuracies and ConsistSyn); standard_error, ci_low, ci_high (95 %) and p of a paired t test
        over n_seeds seeds (ci_low, ci_high and p NaN where all seeds differ by the same: there is
        no spread to test against); family, within which p_holm is corrected for n_compared
        comparisons (Holm): "headline" (accuracy, CAP averaged over protocols at each layer,
        ConsistSyn at each rate), "protocols" (CAP per protocol), "representations", each for one
        pair of versions; rates of ConsistSyn with the same numbers in every seed are one
        comparison, and a p that is NaN is none; verdict; caveat ("" if there is none).
    """
    rows = []
    for first, second in PAIRS:
        for place, group in values.groupby(PLACE, sort=False, dropna=False):
            about = dict(zip(PLACE, place, strict=True))
            by_seed = group.pivot(index="seed", columns="version", values="value")
            if first not in by_seed or second not in by_seed:
                continue
            both = by_seed[[first, second]].dropna()
            rows.append(
                {"first": first, "second": second}
                | about
                | _paired(both)
                | {"family": _family(about), "caveat": _caveat(about, both)}
                | {"observation": _observation(about, both)}
            )
    frame = pd.DataFrame(rows, columns=[*_COLUMNS, "observation"]).astype(_KINDS)
    frame["n_compared"] = 0
    for _, family in frame.groupby(["first", "second", "family"], sort=False):
        corrected = _holm(family)
        frame.loc[family.index, "p_holm"] = family["observation"].map(corrected)
        frame.loc[family.index, "n_compared"] = len(corrected)
    frame = frame[_COLUMNS]
    frame["verdict"] = [verdict(row) for row in records(frame)]
    unfinished = not_converged(training)
    frame["caveat"] = [
        "; ".join(filter(None, [caveat, *(unfinished.get(name, "") for name in pair)]))
        for caveat, *pair in zip(frame["caveat"], frame["first"], frame["second"], strict=True)
    ]
    return frame.astype(dict.fromkeys(_TEXTS, "str"))


def verdict(row: Mapping[str, Any]) -> str:
    """What the row of :func:`differences_table` allows to be said, before its caveat."""
    if not row["n_seeds"]:
        return NEVER_RIGHT if row["metric"] == "consist_syn" else UNDEFINED
    if row["n_seeds"] < 2:
        return ONE_SEED
    higher = "higher" if row["difference"] > 0 else "lower"
    finding = f"{row['first']} {higher} by {_size(row)}"
    if row["standard_error"] == 0 and row["difference"] != 0:
        return f"hint only, all seeds differ by the same, no spread to test against: {finding}"
    if not row["p"] < LEVEL:  # NaN: the versions do not differ in any seed
        return NOTHING
    if not row["p_holm"] < LEVEL:
        tests = f"{row['n_compared']} comparisons"
        return f"hint only, does not survive correction for {tests}: {finding}"
    return finding


def not_converged(training: pd.DataFrame, *, reasons: bool = False) -> dict[str, str]:
    """For each version with runs that have not converged: how many, and, if asked for, why."""
    sentences = {}
    for version, runs in training.groupby("version", sort=False):
        stuck = runs[~runs["converged"]]
        if len(stuck):
            why = list(dict.fromkeys(text for text in stuck["why"] if text))[:3]
            sentences[str(version)] = f"{len(stuck)} of {len(runs)} {version} {STUCK}" + (
                f": {'; '.join(why)}" if reasons and why else ""
            )
    return sentences


def without_convergence(caveat: str) -> str:
    """The caveat without the runs that have not converged, where those are told elsewhere."""
    return "; ".join(part for part in caveat.split("; ") if STUCK not in part)


def saturated_rates(summary: pd.DataFrame) -> str:
    """Like "25 %, 40 %": where every version whose ConsistSyn is defined is above 95 %."""
    rows = summary[(summary["metric"] == "consist_syn") & summary["mean"].notna()]
    return ", ".join(
        f"{100 * rate:g} %"
        for rate in sorted(set(rows["rate"]))
        if is_saturated(rows.loc[rows["rate"] == rate, "mean"].tolist())
    )


_COLUMNS: Final = [
    *("first", "second", *PLACE, "mean_first", "mean_second", "difference", "standard_error"),
    *("ci_low", "ci_high", "n_seeds", "p", "p_holm", "n_compared", "family", "verdict", "caveat"),
]
_FLOATS: Final = [
    *("rate", "depth", "mean_first", "mean_second", "difference", "standard_error"),
    *("ci_low", "ci_high", "p", "p_holm"),
]
_TEXTS: Final = ("first", "second", "metric", "pooling", "family", "verdict", "caveat")
_KINDS: Final[dict[str, Any]] = {"layer": "Int64"} | dict.fromkeys(_FLOATS, float)


def _paired(by_seed: pd.DataFrame) -> dict[str, float | int]:
    """The paired difference of two columns, [seeds]."""
    first, second = by_seed.to_numpy(float).T
    n = len(by_seed)
    if n > 1:
        found = paired_difference(first, second)
        names = ["mean_first", "mean_second", "difference", "standard_error"]
        if found.standard_error:  # else neither test nor interval
            names += ["ci_low", "ci_high", "p"]
        return {"n_seeds": n} | {name: getattr(found, name) for name in names}
    means = {"mean_first": first.mean(), "mean_second": second.mean()} if n else {}
    difference = means["mean_first"] - means["mean_second"] if n else math.nan
    return {"n_seeds": n, **means, "difference": difference}


def _family(about: Mapping[str, Any]) -> str:
    if about["metric"] in REPRESENTATIONS:
        return "representations"
    return "protocols" if about["pooling"] not in ("", AVERAGE) else "headline"


def _caveat(about: Mapping[str, Any], both: pd.DataFrame) -> str:
    """Of a set that is saturated for the two versions compared."""
    saturated = about["metric"] == "consist_syn" and is_saturated(both.mean().tolist())
    return TOO_EASY if saturated else ""


def _observation(about: Mapping[str, Any], both: pd.DataFrame) -> str:
    """The same for rates at which every seed has the same ConsistSyn: they replaced alike."""
    return str(both.to_dict() if about["metric"] == "consist_syn" else tuple(about.values()))


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
