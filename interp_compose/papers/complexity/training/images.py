"""Denoising images whose concept variables are given: the objective of a diffusion model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import mse_loss

from interp_compose.training.objectives import Row

ImageBatch = tuple[Float[Tensor, "image channel y x"], Int[Tensor, "image attribute"]]


@dataclass(frozen=True, eq=False)
class Denoising:
    """Mean squared error of the noise that was added, at a step drawn for each image (Ho et al.
    2020, eq. 14), or of the velocity, where that is what the schedule takes.

    ``images`` are what is noised (:func:`.concept_unet.as_signal`); ``schedule`` is a scheduler of
    diffusers.
    """

    images: Float[Tensor, "image channel y x"]
    bits: Int[Tensor, "image attribute"]
    schedule: Any
    curve: Callable[[], Sequence[Row]] = tuple
    """What the model generates at a point of the learning curve, as rows."""

    terms: ClassVar[Mapping[str, str]] = {"task_loss": "the squared error"}
    sums: ClassVar[Sequence[str]] = ("task_loss",)

    @property
    def lengths(self) -> list[int]:
        return [1] * len(self.images)

    def collate(self, indices: Int[np.ndarray, "image"]) -> ImageBatch:
        chosen = torch.from_numpy(np.asarray(indices))
        return self.images[chosen], self.bits[chosen]

    def sizes(self, batch: ImageBatch) -> tuple[int, ...]:
        return (len(batch[0]),)

    def loss(
        self, model: Any, batch: ImageBatch, shares: Sequence[float], seed: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        images, bits = batch
        random = torch.Generator().manual_seed(seed)
        noise = torch.randn(images.shape, generator=random)
        steps = torch.randint(
            self.schedule.config.num_train_timesteps, (len(images),), generator=random
        )
        noisy = self.schedule.add_noise(images, noise, steps)
        device = next(model.parameters()).device
        predicted = model(noisy.to(device), steps.to(device), bits.to(device))
        target = noise
        if self.schedule.config.prediction_type == "v_prediction":
            target = self.schedule.get_velocity(images, noise, steps)
        loss = mse_loss(predicted, target.to(device)) * shares[0]
        return loss, [loss.detach()]

    def row(self, sums: Mapping[str, float], n: int) -> Row:
        return {"task_loss": sums["task_loss"], "n": n}

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        """What :attr:`curve` finds."""
        return {"curve": self.curve()}
