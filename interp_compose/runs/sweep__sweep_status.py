"""A sweep as a table: what is done, running, failed and missing."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import MissingDataError
from interp_compose.runs.folder import SWEEP, Plan, Run, read_sweep

OWN_COLUMNS = ("index", "hash", "state", "seconds")


@public
def sweep_status(out: str | os.PathLike[str]) -> pd.DataFrame:
    """One row per configuration that the sweep in ``out`` was ever asked for, in that order.

    Columns: ``index``; ``hash``, which is the folder's name under ``runs/``; ``state``, one of
    "done", "damaged" (done, and a file was altered or lost since: every file is read for it),
    "failed", "running" and "missing"; ``seconds`` of runs that are done, else NaN; and what the
    configurations hold, under its own name, or as ``config.<name>`` where that is one of the
    columns above. May be called while the sweep is going on.

    Raises:
        MissingDataError: the folder holds no sweep.
        CorruptFileError: its ``sweep.json`` was damaged.
    """
    out = Path(out).absolute()
    about = read_sweep(out)
    if about is None:
        raise MissingDataError(f"{out / SWEEP} is missing; expected the folder of a sweep")
    runs = Plan(about["work"], about["configs"], None).runs(out)
    rows = [
        {"index": index, "hash": run.name, "state": _state(run), "seconds": run.seconds}
        | {f"config.{k}" if k in OWN_COLUMNS else k: value for k, value in run.config.items()}
        for index, run in enumerate(runs)
    ]
    return pd.DataFrame(rows).astype({"seconds": float})


def _state(run: Run) -> str:
    if run.is_done:
        return "damaged" if run.damage() else "done"
    if run.is_held:
        return "running"
    return "failed" if run.has_failed else "missing"
