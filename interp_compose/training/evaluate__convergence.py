"""Whether a training run had visibly come to rest when it ended."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

STILL_FALLING = 0.1
"""Relative fall of the training loss, from one tenth of the run to the next, that is too much."""
FITTED = 0.05
"""Loss (nats) below which a further fall means nothing: every answer has 95 % of the mass."""


def convergence(steps: pd.DataFrame, evaluations: pd.DataFrame) -> tuple[bool, str]:
    """(converged, why not).

    Two signs of a run that was stopped too early are looked for, each beyond two standard errors:
    the mean training loss of the last tenth of the steps is more than 10 % below that of the tenth
    before (and above 0.05 nats); or the last validation accuracy is above all those of the third
    quarter of the run. Fewer than 20 steps never count as converged, and neither sign is looked for
    where it could not be seen: accuracy needs three evaluations, one of them in that quarter. A
    learning rate that falls to zero hides both, and so does a plateau: no sign is no proof.

    Args:
        steps: a history's ``steps``; ``task_loss`` in nats.
        evaluations: a history's ``evaluations``.
    """
    reasons = [_loss_falls(steps["task_loss"].to_numpy(float)), _accuracy_rises(evaluations)]
    found = [reason for reason in reasons if reason]
    return not found, "; ".join(found)


def _loss_falls(losses: npt.NDArray[np.float64]) -> str:
    tenth = len(losses) // 10
    if tenth < 2:
        return f"{len(losses)} steps are too few to come to rest"
    last, before = losses[-tenth:], losses[-2 * tenth : -tenth]
    fall = before.mean() - last.mean()
    error = math.sqrt((before.var(ddof=1) + last.var(ddof=1)) / tenth)
    if last.mean() > FITTED and fall > 2 * error and fall > STILL_FALLING * before.mean():
        return f"the training loss was still falling ({before.mean():.3f} to {last.mean():.3f})"
    return ""


def _accuracy_rises(evaluations: pd.DataFrame) -> str:
    if len(evaluations) < 3:
        return ""
    step, accuracy = evaluations["step"].to_numpy(), evaluations["accuracy"].to_numpy(float)
    earlier = accuracy[(step >= step[-1] / 2) & (step <= 0.75 * step[-1])]
    if not len(earlier):
        return ""
    best, last, n = earlier.max(), accuracy[-1], evaluations["n"].iloc[-1]
    error = math.sqrt((best * (1 - best) + last * (1 - last)) / n)
    if last - best > 2 * error:
        return f"validation accuracy was still rising ({best:.3f} to {last:.3f})"
    return ""
