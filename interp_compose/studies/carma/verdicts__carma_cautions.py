"""What a reader must know before believing a comparison's figures."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pandas as pd

from interp_compose.studies.carma.differences import not_converged, saturated_rates

if TYPE_CHECKING:
    from interp_compose.studies.carma.result import Comparison

CHANGED_ENOUGH: Final = 0.9  # of the prompts: no caution


def cautions(comparison: Comparison) -> list[str]:
    """What a reader must know before believing a figure: runs unfinished, sets too easy, …"""
    training = comparison.frames["training"]
    found = [f"{text}." for text in not_converged(training, reasons=True).values()]
    found += _one_token(comparison.frames["accuracy"])
    found += [f"{text}." for text in counted_prompts(comparison, below=CHANGED_ENOUGH)]
    found += _same_replacements(comparison.frames["replacements"])
    easy = saturated_rates(comparison.frame)
    if easy:
        found.append(
            f"ConsistSyn is saturated at {easy}: this set does not discriminate "
            "(every version above 95 %)."
        )
    if len(set(comparison.frames["accuracy"]["seed"])) < 2:
        found.append("One seed: nothing is said about differences; run at least 5.")
    return found


def counted_prompts(comparison: Comparison, *, below: float = 1.0) -> list[str]:
    """For each rate how many prompts ConsistSyn counts, where it is a smaller share than that."""
    said = []
    synonyms = comparison.frames["synonyms"]
    for rate in sorted(set(synonyms["rate"])):
        rows = synonyms[synonyms["rate"] == rate]
        n, n_test = (int(number) for number in rows.sort_values("n")[["n", "n_test"]].iloc[0])
        if n < below * n_test:
            said.append(
                f"At {100 * rate:g} %, ConsistSyn counts the {n} of {n_test} prompts in which a "
                "word was replaced (smallest over seeds)"
            )
    return said


def _one_token(accuracy: pd.DataFrame) -> list[str]:
    """Versions that give the same answer to everything; the original is one model, not runs."""
    several = accuracy[accuracy["n"] > 1]
    said = []
    for version, rows in several.groupby("version", sort=False):
        stuck = int((rows["n_distinct"] == 1).sum())
        if stuck and version == "original":
            said.append("The original answers every prompt with the same token.")
        elif stuck:
            runs = f"{stuck} of {len(rows)} {version} runs"
            said.append(f"{runs} answer every prompt with the same token.")
    return said


def _same_replacements(replacements: pd.DataFrame) -> list[str]:
    """Rates at which the very same words were replaced: no second observation."""
    columns = ["seed", "example", "position", "replacement"]
    words: dict[float, frozenset[tuple[object, ...]]] = {}
    for rate in replacements["rate"].unique().tolist():
        rows = replacements.loc[replacements["rate"] == rate, columns]
        words[float(rate)] = frozenset(rows.itertuples(index=False, name=None))
    return [
        f"At {100 * low:g} % and {100 * high:g} % the same words were replaced "
        f"({len(words[low])} words, over all seeds): these texts have too few words that can be, "
        "and the two rates are one observation."
        for low, high in pairwise(sorted(words))
        if words[low] == words[high]
    ]
