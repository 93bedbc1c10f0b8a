"""What a similarity curve says, in a sentence: where pooling changes how well cosines follow
people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interp_compose.studies.core.decided import PLAIN, Row, bootstrapped, changed

if TYPE_CHECKING:
    from interp_compose.studies.similarity.result import SimilarityCurve

NAMES: Final = {"pearson": "Pearson's r", "spearman": "Spearman's ρ", "auc": "the ROC area"}
CHANCE: Final = {"auc": 0.5}
"""The value of cosines that say nothing, where that is not 0."""


def answers(curve: SimilarityCurve) -> list[str]:
    """The sentence that answers what the curve asks."""
    metric, subset = curve.metrics[0], curve.frame["subset"].iloc[0]
    rows = curve.frame[curve.frame["subset"] == subset]
    pooling = str(rows["pooling"].iloc[0])
    unit = str(curve.config.get("unit") or "unit")
    low, high = (float(rows[f"clean_{metric}_{end}"].iloc[0]) for end in ("low", "high"))
    if low <= CHANCE.get(metric, 0.0) <= high:
        return [
            f"Whether pooling {unit}s changes {NAMES[metric]} with people cannot be told: without "
            f"it the 95 % interval, {PLAIN.number(low)} to {PLAIN.number(high)}, holds "
            f"chance, {CHANCE.get(metric, 0.0):g}."
        ]
    act, what = f"Pooling {unit}s by {pooling}", f"{NAMES[metric]} with people"
    return [changed(differences(curve), PLAIN, act=act, what=what, of="pairs")]


def differences(curve: SimilarityCurve) -> list[Row]:
    """The first pooling's agreement less the clean model's, at each layer of the first subset."""
    metric = curve.metrics[0]
    first = curve.frame[["subset", "pooling"]].iloc[0]
    frame = curve.frame[(curve.frame[["subset", "pooling"]] == first).all(axis=1)]
    columns = {f"{metric}_diff": "difference"}
    columns |= {f"{metric}_diff_{end}": f"ci_{end}" for end in ("low", "high")}
    return bootstrapped(frame[["layer", "n", *columns]].rename(columns=columns))
