"""The numbers that CARMA prints for its seven models, to be set beside one's own."""

from __future__ import annotations

from importlib import resources
from typing import Final

import pandas as pd

from interp_compose.studies.core.tables import Table
from interp_compose.tasks.prompts import PAPER_MODELS

PRINTED: Final = Table(
    "paper",
    "table int, label str, task str, version str, rate float null, metric str, printed str, "
    "value float, note str",
)
NAMES_IN_PAPER: Final = {"idm": "idm", "sst": "sc", "sc": "sc"}
"""Our tasks on the paper's data, and what the paper calls them. The shipped miniatures are other
data, and have no counterpart."""


def paper_numbers() -> pd.DataFrame:
    """Tables 1, 4, 5, 6 and 7 of CARMA, one row per printed number.

    Columns: table; label, as in :data:`~interp_compose.tasks.prompts.PAPER_MODELS`; hub_name;
    task ("idm" or "sc"); version ("original", "ft" or "carma"); rate, the share of words that are
    replaced (NaN for training times); metric: "consist_syn" (per cent), "cv", "minutes" (of
    training) or "overhead" (CARMA's minutes over plain fine-tuning's); printed, the characters of
    the table; value, their number, brought to per cent where a ConsistSyn is printed as a fraction
    and otherwise as it stands; note, what is visibly wrong with it ("" if nothing is).
    """
    text = resources.files("interp_compose.shipped").joinpath("carma_paper.csv")
    with text.open(encoding="utf-8") as file:
        rates = {"rate": [""]}
        frame = pd.read_csv(file, dtype=PRINTED.columns, keep_default_na=False, na_values=rates)
    hub_names = {model.label: model.hub_name for model in PAPER_MODELS}
    frame.insert(2, "hub_name", frame["label"].map(hub_names))
    return frame


def paper_numbers_for(model_name: str, task: str, n_layers: int | None = None) -> pd.DataFrame:
    """The rows of :func:`paper_numbers` for one model and task; none if the paper has none.

    Args:
        model_name: a name on the hub or the paper's label, in any case; of a folder, or of a name
            with an organisation, the last part is enough. A name says nothing about the weights.
        task: "idm", "sst" or "sc".
        n_layers: where given, the paper's model must have as many.
    """
    frame = paper_numbers()
    short_name = _last_part(model_name)
    labels = {
        model.label
        for model in PAPER_MODELS
        if short_name in (model.label.lower(), _last_part(model.hub_name))
        and n_layers in (None, model.n_layers)
    }
    rows = frame["label"].isin(labels) & (frame["task"] == NAMES_IN_PAPER.get(task))
    return frame[rows].reset_index(drop=True)


def _last_part(name: str) -> str:
    """Of "meta-llama/Llama-3.2-1B" or "/models/Llama-3.2-1B/": "llama-3.2-1b"."""
    return name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].lower()
