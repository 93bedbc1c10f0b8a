"""Tensors that several packages need: positions, padding, seeds, pairs of tokens."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import handle_torch_function, has_torch_function_unary

from interp_compose.errors import DeviceError, InputError, LayerError, OptionError, first_line


def check_device(device: str | int | torch.device) -> None:
    """Refuse a device that cannot hold a number here: torch knows the names of many that its build
    or the machine does not have, and fails in as many ways.

    Raises:
        DeviceError: names those that there are.
    """
    try:
        torch.ones(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError) as refusal:
        devices = [
            f"{torch.accelerator.current_accelerator()}:{i}"
            for i in range(torch.accelerator.device_count())
        ]
        raise DeviceError(
            f"device {str(device)!r} cannot be used by this PyTorch ({torch.__version__}) on this "
            f"machine ({_why_not(device, refusal)}): expected one of {', '.join(['cpu', *devices])}"
        ) from refusal


def _why_not(device: str | int | torch.device, refusal: BaseException) -> str:
    """Why there is no such device: of CUDA the build, what hides the GPUs, or the driver."""
    if not str(device).startswith("cuda"):
        return first_line(refusal, 50)
    if torch.version.cuda is None:
        return "it was built without CUDA; install a build for your GPU from pytorch.org"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU; unset it, or name one in it"
    # "The NVIDIA driver on your system is too old (found version …). Please update …"
    only = f"; CUDA_VISIBLE_DEVICES={visible!r}" if visible else ""
    return f"it is built for CUDA {torch.version.cuda}: {first_line(refusal)}{only}"


def devices_of(weights: Iterable[Tensor]) -> list[torch.device]:
    """Where they lie, each device once, by name."""
    return sorted({weight.device for weight in weights}, key=str)


def word_pairs(
    word_ids: Int[Tensor, "batch pos"],
) -> tuple[Bool[Tensor, "batch pos pos"], Bool[Tensor, "batch pos pos"]]:
    """Ordered pairs of distinct tokens: of the same word, and of different words of a row."""
    valid = word_ids >= 0
    both = valid.unsqueeze(2) & valid.unsqueeze(1)
    same = both & (word_ids.unsqueeze(2) == word_ids.unsqueeze(1))
    different = both ^ same
    same.diagonal(dim1=1, dim2=2).fill_(False)  # no token is its own partner
    return same, different


FEW: Final = 16
"""Along rows of fewer entries torch's softmax is not vectorised on a CPU."""


def softmax_over_keys(
    scores: Float[Tensor, "*batch query key"],
) -> Float[Tensor, "*batch query key"]:
    """``scores.softmax(dim=-1)``; of few keys on a CPU several times as fast, computed across
    rows. A ``TorchFunctionMode`` sees one call of this function."""
    if has_torch_function_unary(scores):
        overridden: Tensor = handle_torch_function(softmax_over_keys, (scores,), scores)
        return overridden
    if scores.shape[-1] >= FEW or scores.device.type != "cpu":
        return scores.softmax(dim=-1)
    return scores.movedim(-1, 0).contiguous().softmax(dim=0).movedim(0, -1)


def cosines(
    resid: Float[Tensor, "layer batch pos d_model"], valid: Bool[Tensor, "batch pos"]
) -> Float[Tensor, "layer batch pos pos"]:
    """Cosines of all pairs of positions of a row, by layer.

    A position that is not valid counts as a zero vector, whatever stands there. A zero vector has
    the cosine 0 with everything, itself included, and the gradient 0. To be called under
    :func:`full_precision`.
    """
    vectors = resid.masked_fill(~valid.unsqueeze(-1), 0)
    unit: Tensor = _Unit.apply(vectors.flatten(0, 1))  # layer·batch pos d_model
    products: Tensor = torch.bmm(unit, unit.transpose(1, 2))
    return products.view(resid.shape[:3] + valid.shape[1:])


class _Unit(torch.autograd.Function):
    """x / ‖x‖, and 0 with the gradient 0 for a zero vector.

    Its own gradient, (g − u ⟨u, g⟩) / ‖x‖, takes a third of the kernels that autograd would.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        norm.masked_fill_(norm == 0, math.inf)
        unit: Tensor = x / norm
        ctx.save_for_backward(unit, norm)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        unit, norm = ctx.saved_tensors
        along = (unit * grad).sum(-1, keepdim=True)
        across: Tensor = torch.addcmul(grad, unit, along, value=-1) / norm
        return across


def stack_layers(
    resid: Float[Tensor, "layer batch pos d_model"] | Sequence[Float[Tensor, "batch pos d_model"]],
    rows: Tensor,
    *,
    at_least: int,
) -> Float[Tensor, "layer batch pos d_model"]:
    """One tensor of all layers in float32 (float64 stays), checked against ``rows`` [batch pos].

    Raises:
        LayerError: fewer than ``at_least`` layers.
        InputError: shapes that disagree.
    """
    if len(resid) < at_least:
        raise LayerError(
            f"resid has {len(resid)} layers; expected {at_least} or more: capture the residual of "
            "each layer wanted (stability compares each with the next)"
        )
    if not isinstance(resid, Tensor):
        shapes = [tuple(layer.shape) for layer in resid]
        if len(set(shapes)) > 1:
            odd = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
            raise InputError(
                f"resid[{odd}] has the shape {shapes[odd]} and resid[0] {shapes[0]}; expected the "
                "residuals of one batch at several layers"
            )
        resid = torch.stack(list(resid))
    if resid.ndim != 4 or resid.shape[1:3] != rows.shape:
        raise InputError(
            f"resid has the shape {tuple(resid.shape)} for a batch of {tuple(rows.shape)} tokens; "
            "expected [layer, batch, pos, d_model], with the same batch and pos"
        )
    return resid.to(torch.float64 if resid.dtype == torch.float64 else torch.float32)


def full_precision(like: Tensor) -> torch.autocast:
    """A context in which autocast, where it is on, leaves products in their operands' dtype."""
    return torch.autocast(like.device.type, enabled=False)


def pad_left(
    ids: Sequence[Int[np.ndarray, "_"]], special: Sequence[Any]
) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
    """Token ids, mask and special-token marks of several texts, padded on the left with 0."""
    width = max(map(len, ids))
    tokens = np.zeros((len(ids), width), dtype=np.int64)
    mask, marks = np.zeros_like(tokens), np.zeros_like(tokens)
    for row, (row_ids, mark) in enumerate(zip(ids, special, strict=True)):
        columns = slice(width - len(row_ids), width)
        tokens[row, columns], mask[row, columns], marks[row, columns] = row_ids, 1, mark
    return torch.from_numpy(tokens), torch.from_numpy(mask), torch.from_numpy(marks)


def positions_from_mask(mask: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """Positions that count real tokens only, so that padding on either side changes nothing."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


def seeded(seed: int) -> torch.Generator:
    """A generator on the CPU.

    Raises:
        OptionError: a seed that is no number of 64 bits.
    """
    if not 0 <= seed < 2**64:
        raise OptionError(f"seed={seed}: expected an integer from 0 to 2^64 - 1")
    return torch.Generator().manual_seed(seed)


def check_autocast(device: torch.device, what: str) -> None:
    """Refuse to measure inside ``torch.autocast``, or with tensors made on the meta device.

    Raises:
        OptionError: either is on; ``what`` begins the message.
    """
    if torch.is_autocast_enabled(device.type):
        dtype = str(torch.get_autocast_dtype(device.type)).removeprefix("torch.")
        raise OptionError(
            f"{what} inside torch.autocast would be computed in {dtype}, whatever its dtype says. "
            "Leave that block first; for another precision load the model with dtype=…, or train "
            'with TrainConfig(precision="bfloat16").'
        )
    if torch.get_default_device().type == "meta":
        raise OptionError(f"{what} needs numbers, and torch's default device is meta; set another.")
