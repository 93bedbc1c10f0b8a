"""What opened models say, in a sentence: in which the embeddings of numbers are in order.

Numbers a step apart are nearer than in random orders, by the share of orders in which they are as
near (:class:`.StepOrder`), with Holm's correction over all models and steps. What else is measured
inside is of single models, and not tested.
"""

from __future__ import annotations

from typing import Final

import pandas as pd

from interp_compose.papers.complexity.studies.anchors.phase import phase_name
from interp_compose.stats.seeds import holm
from interp_compose.studies.core.decided import LEVEL, raised
from interp_compose.studies.core.text import counted, decimal, probability

WHAT: Final = "embeddings of numbers a step apart are nearer than in random orders"


def answers(models: pd.DataFrame, orders: pd.DataFrame) -> list[str]:
    """The sentence that answers what is tested of the opened models; none without an order.

    Args:
        models, orders: as :attr:`.Mechanism.frame` and :attr:`.Mechanism.orders` have them.
    """
    if orders.empty:
        return []
    corrected = orders.assign(p_holm=holm(orders["distance_p"].tolist()))
    phases = models.set_index("init_rate")["phase"]
    parts, others = [], []
    for rate, steps in corrected.groupby("init_rate", sort=False):
        name = f"γ {rate:g} ({phase_name(phases[rate])})"
        near = steps[steps["p_holm"] < LEVEL]
        if len(near):
            count = f"{len(near)} of {counted(len(steps), 'steps')}"
            parts.append(f"at {name} for {count}, nearest {_step(near, 'distance')}")
        else:
            others.append(name)
    tests = f"p by Holm over {counted(len(corrected), 'tests')}"
    if not parts:
        least = _step(corrected, "p_holm")
        return [
            f"That {WHAT} is not established at {', '.join(others)}: the smallest p is that of "
            f"{least}; {tests}."
        ]
    text = f"{raised(WHAT)} {'; '.join(parts)}"
    text += f"; it is not established at {', '.join(others)}" if others else ""
    return [f"{text}; {tests}."]


def _step(orders: pd.DataFrame, by: str) -> str:
    """Of the smallest value: ``3 apart (0.62 of the distance in random orders, p 0.015)``."""
    (least,) = orders.nsmallest(1, by).to_dict("records")
    share, p = decimal(least["distance"], 2), probability(least["p_holm"], 3)
    return f"{least['step']} apart ({share} of the distance in random orders, p {p})"
