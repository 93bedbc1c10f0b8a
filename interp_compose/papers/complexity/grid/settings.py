"""Decoders over init rates, weight decays, sizes of the training set and seeds: what tables and
figures of such a grid have in common."""

from __future__ import annotations

from typing import Final

import pandas as pd

from interp_compose.studies.core.tables import Table

KEY: Final = ("init_rate", "weight_decay", "size", "seed")
"""What tells runs apart."""
SETTING: Final = ("setting", "init_rate", "weight_decay", "size")
"""What tells cells of the grid apart, in frames with the column ``setting``."""
AXES: Final = {
    "init_rates": "init_rate",
    "weight_decays": "weight_decay",
    "sizes": "size",
    "seeds": "seed",
}
"""What the result calls the axes of its grid, and the fields of a run that they vary."""
PLACE: Final = "init_rate float null, weight_decay float, size int, seed int"
"""The init rate is NaN where the model was given."""
EACH: Final = tuple((axis,) for axis in KEY)
RUNS: Final = Table(
    "runs",
    f"{PLACE}, n_parameters int, steps int, step_seconds float, first_loss float, "
    "last_loss float, stable_rank float, mean_abs_cosine float null",  # NaN of one neuron
    key=KEY,
    complete=EACH,
    rules=("n_parameters > 0", "steps > 0", "step_seconds > 0"),
)
WITH_STEPS: Final = (*EACH[:2], ("size", "step"), *EACH[3:])
"""Groups that are complete in a table over training: sizes differ in their steps."""


def with_settings(frame: pd.DataFrame) -> pd.DataFrame:
    """With a column that names init rate and weight decay together, like "γ 0.5, wd 0.01"."""
    names = [
        f"{'fine-tuned' if pd.isna(rate) else f'γ {rate:g}'}, wd {decay:g}"
        for rate, decay in zip(frame["init_rate"], frame["weight_decay"], strict=True)
    ]
    return frame.assign(setting=names)
