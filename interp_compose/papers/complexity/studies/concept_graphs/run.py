"""One training run: a conditional diffusion model at an init rate, and what it generates."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import UInt8
from safetensors.torch import save

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.grid.decoder_run import complexity_of
from interp_compose.papers.complexity.models.concept_unet import (
    ConceptUNet,
    as_signal,
    check_unet,
    generated,
    noise_schedule,
)
from interp_compose.papers.complexity.models.init import init_module, module_scales
from interp_compose.papers.complexity.studies.concept_graphs.options import ImageTraining
from interp_compose.papers.complexity.tasks.concept_images import (
    NODES,
    bits_of,
    checked_nodes,
    concept_images,
)
from interp_compose.papers.complexity.tasks.concept_judge import judge
from interp_compose.papers.complexity.training.images import Denoising
from interp_compose.papers.shared.grid.sequence_run import trained
from interp_compose.plots.images import png_of
from interp_compose.runs.checkpoint import clear_together
from interp_compose.runs.files import atomic_write, json_bytes
from interp_compose.studies.core.grid import RESULT
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import trains

WORK: Final = "concept_graphs"
"""What a sweep calls these runs."""
GRID: Final = ("init_rate", "seed")
"""What tells them apart."""
IMAGES: Final = "images.npz"
"""Everything that was generated: ``images`` [node, image, y, x, channel] and ``nodes``."""
WEIGHTS: Final = "model.safetensors"
N_SHOWN: Final = 3
"""Images of each node that the result itself keeps."""
CURVE_KINDS: Final = ("all", "shape")
"""What the learning curve counts."""
TRAINING: Final = [
    each.name for each in fields(ImageTraining) if each.name in TrainConfig.__dataclass_fields__
]


@public
@dataclass(frozen=True, kw_only=True)
class ConceptRun(ImageTraining):
    """Everything that decides a run."""

    channels: Sequence[int] = ImageTraining.channels  # type: ignore[assignment]
    """As those of :class:`ImageTraining`; a list where it was read from a file."""
    train_nodes: Sequence[str]
    """Whose images it sees."""
    init_rate: float
    """γ."""
    seed: int = 0
    """Of images, initialisation, order and noise; runs that differ in γ alone share them."""

    @property
    def train_config(self) -> TrainConfig:
        """Adam (AdamW without decay), its gradients not clipped.

        Raises:
            OptionError: a number that cannot be.
        """
        settings = {name: getattr(self, name) for name in TRAINING}
        config = TrainConfig(
            **settings, weight_decay=0.0, clip=None, schedule="linear", seed=self.seed
        )
        interval = max(1, -(-config.total_steps(self.samples) // self.n_looks))
        return replace(config, evaluate_every=interval)

    def check(self) -> None:
        """Refuse what cannot be trained, before anything is."""
        checked_nodes(self.train_nodes)
        least_of = {"n_steps": 2, "sample_steps": 1, "n_images": 1, "n_looks": 1, "n_curve": 1}
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise OptionError(f"{name}={getattr(self, name)!r}: expected {least} or more")
        if self.sample_steps > self.n_steps:
            raise OptionError(
                f"sample_steps={self.sample_steps}: expected at most n_steps={self.n_steps}"
            )
        if self.samples < len(self.train_nodes):
            raise OptionError(
                f"samples={self.samples}: expected at least one of each of the "
                f"{len(self.train_nodes)} training nodes"
            )
        _ = self.train_config
        check_unet(self.channels, self.pixels)
        with torch.device("meta"):
            module_scales(ConceptUNet(self.channels), self.init_rate)


@trains
def train(config: Mapping[str, Any], folder: Path) -> None:
    """History, weights, generated images and what they show into a run's folder."""
    run = ConceptRun(**config)
    images, bits = concept_images(run.train_nodes, run.samples, run.pixels, run.seed)
    model = ConceptUNet(run.channels)
    init_module(model, run.init_rate, seed=run.seed, distribution=run.distribution)
    schedule = noise_schedule(run.n_steps, run.predicts)

    def made(n: int) -> dict[str, UInt8[np.ndarray, "image y x channel"]]:
        return {node: _generated(run, model, schedule, node, n) for node in NODES}

    def curve() -> list[dict[str, Any]]:
        rows = counted(made(run.n_curve), run.train_nodes)
        return [row for row in rows if row["kind"] in CURVE_KINDS]

    objective = Denoising(
        as_signal(torch.from_numpy(images)), torch.from_numpy(bits), schedule, curve
    )
    history = trained(model, objective, run.train_config, folder)
    final_images = made(run.n_images)
    record = {
        "run": asdict(run),
        **history,
        "inside": inside(model),
        "accuracy": counted(final_images, run.train_nodes),
        "examples": examples(final_images),
    }
    weights = {name: weight.cpu().contiguous() for name, weight in model.state_dict().items()}
    atomic_write(folder / WEIGHTS, save(weights))
    stacked = np.stack(list(final_images.values()))
    atomic_write(
        folder / IMAGES,
        lambda file: np.savez_compressed(file, images=stacked, nodes=np.array(NODES)),
    )
    atomic_write(folder / RESULT, json_bytes(record))
    clear_together([folder])


def inside(model: ConceptUNet) -> dict[str, float | None]:
    """Stable rank and condensation of the first convolution of the first residual block, each
    output channel a neuron (complexity control looks at the first layer's W_Q, which a U-Net
    without attention lacks)."""
    weight = model.unet.down_blocks[0].resnets[0].conv1.weight
    return complexity_of(weight.detach().flatten(1).cpu())


def _generated(
    run: ConceptRun, model: ConceptUNet, schedule: Any, node: str, n: int
) -> UInt8[np.ndarray, "image y x channel"]:
    """Images of a node, those of every γ from the same noise."""
    bits = torch.from_numpy(np.repeat(bits_of([node]), n, axis=0))
    made = generated(
        model, bits, run.pixels, schedule=schedule, n_steps=run.sample_steps, seed=run.seed
    )
    return (255 * made).round().byte().permute(0, 2, 3, 1).numpy()


Made = Mapping[str, UInt8[np.ndarray, "image y x channel"]]


def counted(made: Made, train_nodes: Sequence[str]) -> list[dict[str, Any]]:
    """What images of each node show, as rows of the result's tables."""
    rows = []
    for node, images in made.items():
        right = judge(images.transpose(0, 3, 1, 2) / 255).right(node)
        place = {"node": node, "trained": node in train_nodes}
        rows += [
            {**place, "kind": kind, "n_right": count, "n": len(images)}
            for kind, count in right.items()
        ]
    return rows


def examples(made: Made) -> list[dict[str, Any]]:
    """The first images of each node as PNGs."""
    return [
        {"node": node, "image": i, "png": b64encode(png_of(image)).decode()}
        for node, images in made.items()
        for i, image in enumerate(images[:N_SHOWN])
    ]
