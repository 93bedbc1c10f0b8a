"""``concept_graphs``: diffusion models over init rates, and whether they compose concepts."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
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
from interp_compose.papers.complexity.studies.concept_graphs.options import (
    ConceptGraphsCommand,
    ImageTraining,
)
from interp_compose.papers.complexity.studies.concept_graphs.result import (
    JUDGE,
    KEY,
    ConceptGraphs,
)
from interp_compose.papers.complexity.tasks.concept_images import (
    NODES,
    bits_of,
    checked_nodes,
    concept_images,
)
from interp_compose.papers.complexity.tasks.concept_judge import degraded, judge
from interp_compose.papers.complexity.training.images import Denoising
from interp_compose.papers.shared.grid.options import looking
from interp_compose.papers.shared.grid.sequence_run import trained
from interp_compose.papers.works import WORKS
from interp_compose.plots.images import png_of
from interp_compose.runs.checkpoint import clear_together
from interp_compose.runs.files import atomic_write, json_bytes
from interp_compose.runs.folder import SweepPlan
from interp_compose.studies.core.grid import RESULT, Grid, checked, numbers, seeds_of
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.training.config import Steps, TrainConfig
from interp_compose.training.loop import trains

WORK: Final = "concept_graphs"
IMAGES: Final = "images.npz"
"""Everything that was generated: ``images`` [node, image, y, x, channel] and ``nodes``."""
WEIGHTS: Final = "model.safetensors"
N_SHOWN: Final = 3
"""Images of each node that the result itself keeps."""
CURVE_KINDS: Final = ("all", "shape")
"""What the learning curve counts."""
N_JUDGED: Final = 125
"""Rendered images of each node on which the judge is tested."""
NOISE, BLUR = 0.05, 0.7
"""Deviations of the noise and of the blur (pixels) with which it is tested."""


@dataclass(frozen=True, kw_only=True)
class ConceptGraphsOptions(GridOptions):
    """What :func:`concept_graphs` takes by name."""

    train_nodes: str | Sequence[str] = "paper"
    """Nodes to train on: "paper", "code" (the same images), or nodes such as "010"."""
    run: ImageTraining | None = None
    """Images, U-Net, training and sampling of every run."""


@keywords(ConceptGraphsOptions)
def concept_graphs(
    init_rates: Sequence[float], out: str | os.PathLike[str], options: ConceptGraphsOptions
) -> ConceptGraphs:
    """Train a conditional diffusion model on images of some combinations of shape, size and colour
    for every init rate and seed, and measure what it generates for all eight (complexity control,
    section VII, Fig. 6; Okawa et al. 2023).

    Nothing is selected: the weights after the last step generate the images. What these show is
    measured by :func:`.concept_judge.judge`, whose own accuracy is in the
    result. The extra ``images`` (diffusers) has to be installed.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        init_rates: γ; a larger one is a smaller initialisation.
        out: folder for the runs: weights, histories and generated images.
        options: every option.

    Raises:
        MissingPackageError: diffusers is not installed.
        OptionError: a grid that is empty or repeats; nodes that do not exist, none or all of them;
            a U-Net, a rate or a number that cannot be.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    return _grid(init_rates, options).train(out, options)


def run(command: ConceptGraphsCommand) -> ConceptGraphs:
    """The command ``interp-compose concept-graphs``."""
    options = ConceptGraphsOptions(
        **vars(command.grid), train_nodes=command.train_nodes, run=command.run
    )
    return _grid(numbers(command.gammas, "gammas"), options).command(command.output, options)


def _grid(init_rates: Sequence[float], options: ConceptGraphsOptions) -> Grid[ConceptGraphs]:
    rates = checked(init_rates, "init_rates")
    shape = asdict(options.run or ImageTraining())
    shape |= {
        "channels": list(shape["channels"]),
        "train_nodes": list(checked_nodes(options.train_nodes)),
    }
    seeds = seeds_of(options)
    runs = [ConceptRun(**shape, init_rate=rate, seed=seed) for seed in seeds for rate in rates]
    for run in runs[: len(rates)]:
        run.check()
    return Grid(
        result=ConceptGraphs,
        plan=SweepPlan(WORK, [asdict(run) for run in runs], function=WORKS[WORK]),
        place=KEY,
        config={
            "study": WORK,
            "noise": NOISE,
            "blur": BLUR,
            **shape,
            "init_rates": sorted(rates),
            "seeds": list(seeds),
        },
        axes=("init_rates", "seeds"),
        frames={"judge": judged(shape["pixels"])},
    )


def judged(side: int) -> pd.DataFrame:
    """How often the judge is right about rendered images, with noise and blur, of each node."""
    rows = []
    for seed, node in enumerate(NODES):
        images, _ = concept_images([node], N_JUDGED, side, seed)
        right = judge(degraded(images, seed, noise=NOISE, blur=BLUR)).right(node)
        rows += [
            {"node": node, "kind": kind, "n_right": count, "n": N_JUDGED}
            for kind, count in right.items()
        ]
    return JUDGE.of(rows)


@public
@dataclass(frozen=True, kw_only=True)
class ConceptRun(ImageTraining):
    """The configuration of a run: its hash names the run's folder."""

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
        config = TrainConfig(
            **self.values_of(Steps),
            batch_size=self.batch_size,
            schedule="linear",
            weight_decay=0.0,
            clip=None,
            seed=self.seed,
        )
        return looking(config, config.total_steps(self.samples), self.n_looks)

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
