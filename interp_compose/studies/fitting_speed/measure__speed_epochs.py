"""When a run's data were fitted (complexity control, VIII): all, each pair, each sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from interp_compose.stats.agreement import agreement
from interp_compose.studies.anchors.run import PhaseRun
from interp_compose.studies.fitting_speed.measure__speed_run import FITS_LOSS, unpacked
from interp_compose.tasks.anchors import AnchorTask

FITS_PAIR: Final = 0.6
"""Accuracy at which a pair counts as learned (Fig. 8B)."""
GRID: Final = ("init_rate", "n_layers", "violations", "seed")
"""What tells the runs of one study apart."""


def tables_of(
    run: PhaseRun, rows: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]], pd.DataFrame]:
    """A run's row of ``runs``, its rows of ``pairs``, and those of ``samples``, from its history.

    ``samples`` is empty where no pair violates the rule. The columns are described at
    :class:`~.speed_result.FittingSpeed`.
    """
    task = run.task
    chains = task.sample("train", run.samples, seed=run.stream("train")).chains.numpy()
    right = np.stack([unpacked(row["right"], run.samples) for row in rows])
    epochs = np.array([row["step"] for row in rows]) / -(-run.samples // run.batch_size)
    place = {name: getattr(run, name) for name in GRID}
    late = lateness(right)
    violating = np.array([chain in task.violations for chain in task.chains])[chains]
    last = rows[-1]
    losses = np.array([math.inf if row["loss"] is None else row["loss"] for row in rows])
    of_run = {
        **place,
        "finite": last["finite"],
        "epochs": float(epochs[-1]),
        "accuracy": last["accuracy"],
        "loss": math.nan if last["loss"] is None else last["loss"],
        "accuracy_epochs": first_epoch(epochs, np.asarray(right.all(axis=1))),
        "loss_epochs": first_epoch(epochs, losses <= FITS_LOSS),
        "auc": auc_of(late, violating) if last["finite"] else math.nan,
    }
    touched = touched_pairs(task)
    of_pairs = [
        {
            **place,
            "pair": " ".join(chain),
            "violates": chain in task.violations,
            "touched": chain in touched,
            "epochs": first_epoch(epochs, _share(right[:, chains == i]) >= FITS_PAIR),
        }
        for i, chain in enumerate(task.chains)
    ]
    names = np.array([" ".join(chain) for chain in task.chains], dtype=object)
    kept = np.arange(run.samples if task.violations else 0)
    of_samples = pd.DataFrame(
        {
            **{name: np.full(len(kept), value) for name, value in place.items()},
            "sample": kept,
            "pair": names[chains[kept]],
            "violates": violating[kept],
            "lateness": late[kept],
        }
    )
    return of_run, of_pairs, of_samples


def first_epoch(epochs: Float[np.ndarray, "look"], holds: Bool[np.ndarray, "look"]) -> float:
    """The epoch of the first look at which something held; NaN where it never did."""
    return float(epochs[holds][0]) if holds.any() else math.nan


def lateness(right: Bool[np.ndarray, "look sample"]) -> Float[np.ndarray, "sample"]:
    """The share of looks before the one from which each sample stayed right: 0 for a sample that
    was right at every look, 1 for one that was wrong at the last.

    It is when a sample has converged, of which section VIII speaks. A sample that is right early
    and wrong again afterwards has not: at small initialisations this happens to those that break
    the rule while the others are learned. Hence not the share of wrong looks, nor the first right
    one.
    """
    n = len(right)
    last_wrong = np.where(right, -1, np.arange(n)[:, None]).max(axis=0)
    late: Float[np.ndarray, "sample"] = (last_wrong + 1) / n
    return late


def auc_of(late: Float[np.ndarray, "sample"], violating: Bool[np.ndarray, "sample"]) -> float:
    """P(a violating sample is later than another) + ½ P(as late): the area under the ROC curve.

    NaN where no sample violates the rule, or all of them do.
    """
    if violating.all() or not violating.any():
        return math.nan
    found = agreement(late[:, None], violating.astype(float), "auc", samples=1)
    return float(found.value[0])


def touched_pairs(task: AnchorTask) -> set[tuple[str, ...]]:
    """Pairs made of the anchors of one violating pair alone: for (a, b) these are (a, b), (b, a),
    (a, a) and (b, b), which Fig. 8B highlights."""
    return {chain for chain in task.chains for other in task.violations if set(chain) <= set(other)}


def _share(right: Bool[np.ndarray, "look some"]) -> Float[np.ndarray, "look"]:
    """Accuracy at each look; 0 of no sample."""
    share: Float[np.ndarray, "look"] = right.sum(axis=1) / max(right.shape[1], 1)
    return share
