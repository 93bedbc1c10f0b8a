"""The setting of complexity control's Fig. 8, as far as its text and its released code give it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from interp_compose.studies.anchors.presets import FIG4
from interp_compose.studies.anchors.run import PhaseRun

Paper = Literal["fig8"]


@dataclass(frozen=True)
class SpeedPreset:
    """A run and the grid it belongs to."""

    run: PhaseRun
    init_rates: tuple[float, ...]
    depths: tuple[int, ...]
    violations: tuple[int, ...]
    seeds: int
    first_seed: int


EPOCH: Final = -(-100_000 // 300)
FIG8: Final = replace(
    FIG4,
    samples=100_000,
    batch_size=300,
    steps=210 * EPOCH,
    warmup_steps=10 * EPOCH,
    lr=1e-4,
    checkpoint_every=5 * EPOCH,
)
"""Section VIII and appendix A; of the released code: batch, peak (10 × 1e-5), 10 epochs of warm-up.

All 100,000 samples are trained on here; the released generator makes 90,000 training sequences of
such a size. The code stops after 21 epochs. Here the schedule is appendix A's, warm-up and 200
epochs of cosine, and runs end once they are fitted."""
PRESETS: Final[dict[Paper, SpeedPreset]] = {
    "fig8": SpeedPreset(FIG8, (0.5, 0.8), (2, 3, 4), (0, 1, 5), seeds=9, first_seed=1)
}
