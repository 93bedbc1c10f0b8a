"""The settings of complexity control's figures, as far as text and released code give them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, TypeVar

from interp_compose.papers.complexity.studies.anchors.options import RunSize
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun

Paper = Literal["fig3", "fig3-code", "fig4", "fig8"]


@dataclass(frozen=True)
class Preset:
    """A run and the grid it belongs to."""

    run: PhaseRun
    axes: dict[str, tuple[float, ...]]
    """By the names that the command line has for them."""
    seeds: int
    first_seed: int = 1

    @property
    def listed(self) -> dict[str, Any]:
        """The axes as the command line takes them."""
        return {name: ",".join(f"{v:g}" for v in values) for name, values in self.axes.items()}


Shape = TypeVar("Shape", bound=RunSize)


def shape_of(run: PhaseRun, shape: type[Shape]) -> Shape:
    """What the command line can ask of a run."""
    return shape(**{each.name: getattr(run, each.name) for each in fields(shape)})


def _epochs(epochs: int, samples: int, batch_size: int) -> int:
    return epochs * -(-samples // batch_size)


FIG3_AXES: Final = {
    "gammas": (0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8),
    "weight_decays": (0.0, 0.01, 0.1, 1.0),
}
GPT2_SHAPE: Final = PhaseRun(
    n_layers=10,
    n_heads=10,
    d_model=640,
    d_head=64,
    d_mlp=1280,
    d_vocab=201,
    batch_size=2048,
)
FIG3: Final = replace(
    GPT2_SHAPE,
    samples=900_000,
    steps=_epochs(210, 900_000, 2048),
    warmup_steps=_epochs(10, 900_000, 2048),
    lr=1.5e-4,
    evaluate_every=_epochs(5, 900_000, 2048),
    checkpoint_every=_epochs(5, 900_000, 2048),
)
"""Appendix A: 210 epochs, warm-up over 10 to 15 × 1e-5, cosine over 200 to 1e-5.

All 900,000 samples are trained on here. The released generator makes 708,750 training sequences of
such a size, and tests on the others."""
FIG3_CODE: Final = replace(
    GPT2_SHAPE,
    norm="query",
    fan_in="d_model",
    scale_writers=True,
    modulus="code",
    samples=157_500,
    steps=_epochs(1050, 157_500, 2048),
    warmup_steps=_epochs(50, 157_500, 2048),
    lr=3e-5,
    evaluate_every=_epochs(30, 157_500, 2048),
    checkpoint_every=_epochs(30, 157_500, 2048),
)
"""The released script: 1050 epochs of 157,500 samples, warm-up over 50 to 3 × 1e-5.

It drops an epoch's last, smaller batch: 76 steps an epoch, 79,800 in all, where there are 77 and
80,850 here. Its biases start as torch's default has them, here at zero; its OOD keys are those of
training, here any."""
FIG4: Final = replace(
    FIG3,
    norm="post",
    n_layers=2,
    n_heads=1,
    d_model=400,
    d_head=200,
    d_mlp=1200,
    act="relu",
    biases="unembed",
)
"""Figs 4, 5A and 5B: two post-LN layers of one head, the rest as Fig. 3."""
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
FIG8_AXES: Final = {"gammas": (0.5, 0.8), "depths": (2, 3, 4), "violations": (0, 1, 5)}
PRESETS: Final[dict[Paper, Preset]] = {
    "fig3": Preset(FIG3, FIG3_AXES, seeds=3),
    "fig3-code": Preset(FIG3_CODE, FIG3_AXES, seeds=3),
    "fig4": Preset(FIG4, {"gammas": (0.2, 0.5, 0.8), "weight_decays": (0.01,)}, seeds=3),
    "fig8": Preset(FIG8, FIG8_AXES, seeds=9),
}
