"""A small U-Net of diffusers that denoises images, given the values of their concept variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from interp_compose.checks import check_package
from interp_compose.errors import OptionError

Prediction = Literal["noise", "velocity"]
"""The noise ε in √ᾱ x + √(1 − ᾱ) ε, or √ᾱ ε − √(1 − ᾱ) x (Salimans and Ho 2022)."""
BETAS: Final = (1e-4, 0.02)
"""The noise schedule's first and last β, between which it is linear."""
N_CONCEPTS: Final = 3
GROUP: Final = 32
"""Channels of a group of a norm, at least, where a level has as many: the authors' are as many. Of
a few channels, a norm would take away the level of an image, and its background would be tinted."""


def diffusers() -> Any:
    """The package.

    Raises:
        MissingPackageError: it is not installed.
    """
    check_package("diffusers", "images")
    return import_module("diffusers")


class ConceptUNet(nn.Module):
    """diffusers' ``UNet2DModel`` without attention, GELU throughout, one residual block a level.

    Each variable, as one of two, goes through a layer of its own, GELU and another; their sum is
    added to the time embedding, which enters every residual block. (The authors multiply theirs
    into two layers of the upward path.)

    Args:
        channels: of each level; each but the first has half the pixels of the one before.
    """

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        package = diffusers()
        embeddings = import_module("diffusers.models.embeddings")
        n = len(channels)
        self.unet = package.UNet2DModel(
            block_out_channels=tuple(channels),
            down_block_types=("DownBlock2D",) * n,
            up_block_types=("UpBlock2D",) * n,
            layers_per_block=1,
            norm_num_groups=math.gcd(max(1, channels[0] // GROUP), *channels),
            act_fn="gelu",
            add_attention=False,
            class_embed_type="identity",
        )
        width = 4 * channels[0]  # of diffusers' time embedding
        self.concepts = nn.ModuleList(
            embeddings.TimestepEmbedding(2, width, act_fn="gelu") for _ in range(N_CONCEPTS)
        )
        # a fifth quicker on a CPU; torch's types lack the keyword
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(
        self,
        noisy: Float[Tensor, "image channel y x"],
        steps: Int[Tensor, "image"],
        bits: Int[Tensor, "image attribute"],
    ) -> Float[Tensor, "image channel y x"]:
        """What the model predicts of images as :func:`as_signal` makes them, after so many steps of
        the forward process."""
        values = one_hot(bits, 2).to(noisy.dtype)  # [image attribute 2]
        # [image 4·channels[0]]
        embedding = sum(embed(values[:, i]) for i, embed in enumerate(self.concepts))
        return self.unet(noisy, steps, class_labels=embedding).sample  # type: ignore[no-any-return]


def as_signal(images: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Images from 0 to 1 as they are noised and denoised: white is 0, black 2.

    So the background, most of an image, adds nothing to the noise, and no model has to learn its
    level; between -1 and 1, small models tint it.
    """
    return 2 * (1 - images)


def as_images(signal: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """What :func:`as_signal` was given, between 0 and 1."""
    return (1 - signal / 2).clamp(0, 1)


def noise_schedule(n_steps: int, predicts: Prediction = "noise") -> Any:
    """diffusers' ``DDIMScheduler`` of a linear schedule from β = 1e-4 to 0.02, for a model that
    predicts this."""
    first, last = BETAS
    return diffusers().DDIMScheduler(
        num_train_timesteps=n_steps, beta_start=first, beta_end=last, beta_schedule="linear",
        timestep_spacing="trailing", clip_sample_range=2.0,
        prediction_type={"noise": "epsilon", "velocity": "v_prediction"}[predicts],
    )  # fmt: skip


@torch.no_grad()
def generated(
    model: ConceptUNet,
    bits: Int[Tensor, "image attribute"],
    side: int,
    *,
    schedule: Any,
    n_steps: int,
    seed: int,
) -> Float[Tensor, "image channel y x"]:
    """Images from 0 to 1, by DDIM without added noise (Song et al. 2021), on the CPU.

    The noise they start from is decided by the seed alone.
    """
    # 1. From noise: [image channel y x].
    schedule.set_timesteps(n_steps)
    device = next(model.parameters()).device
    random = torch.Generator().manual_seed(seed)
    images = torch.randn((len(bits), 3, side, side), generator=random).to(device)
    bits = bits.to(device)
    # 2. From the noisiest step down: what the model predicts, then DDIM's x_{t-1} from it.
    for step in schedule.timesteps:
        noise = model(images, step.expand(len(bits)).to(device), bits)
        images = schedule.step(noise, step, images).prev_sample
    return as_images(images).cpu()


def check_unet(channels: Sequence[int], side: int) -> None:
    """Refuse a U-Net that cannot be.

    Raises:
        OptionError: no level, a width below 1, or more levels than halvings of the side.
    """
    if not channels or min(channels) < 1:
        raise OptionError(f"channels={tuple(channels)}: expected widths of 1 or more, at least one")
    if side % 2 ** (len(channels) - 1):
        raise OptionError(
            f"channels={tuple(channels)}: a side of {side} pixels cannot be halved "
            f"{len(channels) - 1} times; name fewer levels"
        )
