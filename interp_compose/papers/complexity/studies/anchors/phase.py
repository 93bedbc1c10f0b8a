"""Which phase a model is in (complexity control, section IV), and a grid's cells from its runs."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.errors import InputError
from interp_compose.papers.complexity.studies.anchors.masked_outputs import check_pictures
from interp_compose.papers.complexity.tasks.anchors import AnchorTask

FITS_TRAIN: Final = 0.9
FITS_ID: Final = 0.9
REASONS: Final = 0.5
COMMUTES: Final = 0.7
PHASES: Final = {
    "0": "not fitted: training accuracy below 0.9, no phase of the paper's",
    "1": "memorises",
    "2": "learns pairs, each by itself",
    "2c": "learns pairs, in either order",
    "3": "reasons",
}
SHARES: Final = ("train", "id", "ood", "commutativity")
"""What the phase is decided by."""
MEASURES: Final = (*SHARES, "stable_rank", "mean_abs_cosine")


def phase_of(train: float, id: float, ood: float, commutativity: float) -> str:
    """The phase by the paper's rule: ``"1"``, ``"2"``, ``"2c"`` (with commutativity) or ``"3"``;
    ``"0"`` for a model that has not fitted its training data.

    Not fitted where training accuracy is below 0.9: such a model has memorised nothing yet, and the
    paper's phases, which are of trained models, do not name it. Else phase 1 where ID accuracy is
    below 0.9; else phase 3 where OOD accuracy exceeds 0.5 (Fig. 5C); else phase 2, with
    commutativity where at least 0.7 of the unseen inputs keep their prediction when their anchors
    change places (Fig. 3B).

    Raises:
        InputError: a share outside 0 … 1.
    """
    shares = {"train": train, "id": id, "ood": ood, "commutativity": commutativity}
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise InputError(f"{name}={share!r}: expected a share between 0 and 1")
    if train < FITS_TRAIN:
        return "0"
    if id < FITS_ID:
        return "1"
    if ood > REASONS:
        return "3"
    return "2c" if commutativity >= COMMUTES else "2"


def check_phases(task: AnchorTask) -> None:
    """Refuse a task of whose models the phases say nothing.

    Raises:
        InputError: chains that are no pairs; no unseen pair, or one that is trained on in the
            other order, that is one anchor twice, or whose target breaks the rule.
    """
    check_pictures(task)  # which are of pairs
    if not task.unseen:
        raise InputError(
            "task.unseen is empty: phases depend on pairs that training does not show; name some, "
            "in both orders, as in unseen=(('c', 'd'), ('d', 'c'))"
        )
    for chain in task.unseen:
        if chain == chain[::-1]:
            raise InputError(
                f"task.unseen names {chain!r}: its prediction stays when its anchors change places "
                "whatever the model does, and tells nothing of commutativity; name pairs of "
                "different anchors"
            )
        if chain[::-1] not in task.unseen:
            raise InputError(
                f"task.unseen names {chain!r}, and training shows {chain[::-1]!r}: in phase 3 a "
                "model composes anchors that never occurred together; name both orders"
            )
        if chain in task.violations:
            raise InputError(
                f"task.violations name {chain!r}, which is unseen: its target cannot be learned "
                "from other pairs; leave it out of one of them"
            )


def phase_name(phase: str) -> str:
    """Like "phase 2c", "phase 3?" or "not fitted?", of a phase with its mark."""
    return phase.replace("0", "not fitted") if phase.startswith("0") else f"phase {phase}"


def with_phases(runs: pd.DataFrame | None) -> pd.DataFrame:
    """Runs, or opened models, with the ``phase`` that :func:`phase_of` gives each by itself; ``""``
    where it diverged. A phase that they have already is not read: an older file's may be by another
    rule.

    Raises:
        InputError: a share outside 0 … 1, or none.
    """
    is_number = pd.api.types.is_numeric_dtype
    if runs is None or not all(name in runs and is_number(runs[name]) for name in SHARES):
        raise InputError(f"no table of runs: expected one with the numbers {', '.join(SHARES)}")
    sound = runs["finite"] if "finite" in runs else [True] * len(runs)
    shares = zip(*(runs[name].astype(float) for name in SHARES), sound, strict=True)
    phases = [phase_of(*numbers) if is_sound else "" for *numbers, is_sound in shares]
    return runs.assign(phase=pd.Series(phases, runs.index, "str"))


def doubt_of(agree: float) -> str:
    """``"?"`` where not every seed by itself is in the phase of the means, ``"??"`` where fewer
    than half are; ``agree`` is their share, NaN where all diverged."""
    return "??" if agree < 0.5 else "?" if agree < 1 else ""


def cells_of(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per init rate and weight decay: means over seeds, their range, and the phase.

    ``n`` counts the seeds, ``diverged`` those whose weights became NaN or infinite; these are left
    out of the means. ``phase`` is that of the means, as in the paper, and ``agree`` the share of
    seeds that are in it by themselves, put as a mark in ``doubt``, see :func:`doubt_of`; a cell all
    of whose runs diverged has the phase ``""``.
    """
    rows = []
    for (rate, decay), all_runs in with_phases(runs).groupby(
        ["init_rate", "weight_decay"], sort=True
    ):
        sound = all_runs[all_runs["finite"]]
        row: dict[str, Any] = {
            "init_rate": rate,
            "weight_decay": decay,
            "n": len(all_runs),
            "diverged": len(all_runs) - len(sound),
            "phase": "",
            "agree": math.nan,
        }
        for name in MEASURES:
            values = sound[name].to_numpy(float)
            stats = (values.mean(), values.min(), values.max()) if len(values) else [math.nan] * 3
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), map(float, stats), strict=True))
        if len(sound):
            row["phase"] = phase_of(*(float(sound[name].mean()) for name in SHARES))
            row["agree"] = float(np.mean(sound["phase"] == row["phase"]))
        row["doubt"] = doubt_of(float(row["agree"]))
        rows.append(row)
    return pd.DataFrame(rows)


def onsets_of(history: pd.DataFrame) -> pd.DataFrame:
    """The first step of each run at which it reasons, and at which W_Q has half condensed."""
    rows = []
    for place, run in history.groupby(["init_rate", "weight_decay", "seed"], sort=True):
        run = run.sort_values("step")
        step, rank = run["step"].to_numpy(float), run["stable_rank"].to_numpy(float)
        fell = rank[-1] < rank[0] / 2  # False where it diverged
        half = rank <= (rank[0] + rank[-1]) / 2
        rows.append(
            {
                **dict(zip(("init_rate", "weight_decay", "seed"), place, strict=True)),
                "reasons": _first(step, run["ood"].to_numpy(float) > REASONS),
                "condenses": _first(step, half) if fell else math.nan,
            }
        )
    return pd.DataFrame(rows)


def _first(step: np.ndarray, holds: np.ndarray) -> float:
    return float(step[holds][0]) if holds.any() else math.nan
