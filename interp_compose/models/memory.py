"""How much of a run fits into memory at once, and a digest of the weights it ran on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from interp_compose.models.base import BaseModel

MAX_BATCH = 64


def fitting_batch(model: BaseModel, streams: int, longest: int, most: int = MAX_BATCH) -> int:
    """Sequences of ``longest`` positions, each in so many streams, that stay within a fixed
    budget: 1 GiB, or a tenth of the GPU; never more than ``most``."""
    budget = 2**30
    if model.device.type == "cuda":
        budget = torch.cuda.get_device_properties(model.device).total_memory // 10
    each = streams * longest * model.d_model * model.dtype.itemsize
    return int(max(1, min(most, budget // each)))


def batch_of_lengths(
    model: BaseModel, lengths: Sequence[int], batch_size: int | None
) -> int | None:
    """``batch_size``, or 1 where it is None and texts would change each other's results.

    Raises:
        PromptError: a larger one where the model's rotary angles depend on the longest text of a
            batch and texts are on both sides of its original context; any text beyond it, where
            angles depend on what was read before.
    """
    limit = model.length_limit
    if limit is None or max(lengths) <= limit.tokens:
        return batch_size
    if batch_size is None and limit.kind == "longrope":
        return 1
    ends = torch.tensor([[min(lengths) - 1], [max(lengths) - 1]])
    if batch_size != 1 or limit.kind != "longrope":
        limit.check(ends, torch.ones_like(ends))
    return batch_size


def chunk_tokens(model: BaseModel, length: int, *, logits: int) -> int:
    """Tokens per block call: few enough for a CPU's caches, or for a twentieth of a GPU.

    A block holds about 32 vectors of width d_model per token at its peak and, where logits are
    read, a stream of ``length`` tokens ``logits`` rows of them, three times over in float32.
    """
    if model.device.type != "cuda":
        # Measured: 512 is best at a width of 768 with logits, 2048 to 4096 at 384 without.
        return max(256, (393216 if logits else 786432) // model.d_model)
    per_token = 32 * model.d_model * model.dtype.itemsize
    if logits:
        per_token += 12 * model.d_vocab * logits // length
    memory = torch.cuda.get_device_properties(model.device).total_memory // 20
    return int(max(2048, memory // per_token))


@torch.no_grad()
def weights_digest(model: BaseModel) -> str:
    """The SHA-256 of the bytes of every parameter and persistent buffer (about a second a gigabyte)
    and of the settings with which they are used, scales of adapters and which of them act included;
    it differs between any two models."""
    digest = hashlib.sha256(json.dumps(_settings(model), sort_keys=True, default=str).encode())
    for tensor in [*model.parameters(), *_persistent_buffers(model)]:
        digest.update(json.dumps([list(tensor.shape), str(tensor.dtype)]).encode())
        digest.update(tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _persistent_buffers(model: BaseModel) -> Iterator[torch.Tensor]:
    """Buffers that belong to the weights (``persistent``), each once."""
    lens = getattr(model, "lens", None)
    visited: set[int] = set()
    for root in (lens, getattr(lens, "original_model", None)):
        for part in root.modules() if isinstance(root, nn.Module) else ():
            for name, buffer in part._buffers.items():
                persistent = name not in part._non_persistent_buffers_set
                if buffer is not None and persistent and id(buffer) not in visited:
                    visited.add(id(buffer))
                    yield buffer


def _settings(model: BaseModel) -> dict[str, Any]:
    """The wrapped Hugging Face model's config, less names and versions, or a small decoder's; of
    other models nothing."""
    stated: dict[str, Any] | None = getattr(model, "settings", None)
    if stated is not None:
        return stated
    lens = getattr(model, "lens", None)
    config = getattr(getattr(lens, "original_model", None), "config", None)
    if config is None:
        return {}
    settings: dict[str, Any] = config.to_dict()
    names = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")
    settings = {key: value for key, value in settings.items() if key not in names}
    states = adapter_states(model)
    return settings | ({"states of adapters": states} if states else {})


def adapter_states(model: BaseModel) -> dict[str, Any]:
    """Each adapter's scales, and which adapters act or are merged: what no weight says."""
    lens: Any = getattr(model.lens, "original_model", model.lens)
    parts: Any = lens.named_modules()
    keys = ("scaling", "active_adapters", "disable_adapters", "merged_adapters")
    # Modules of peft's, and those that keep the scale of each adapter in a dictionary.
    return {
        name: [getattr(part, key, None) for key in keys]
        for name, part in parts
        if type(part).__module__.startswith("peft.") or isinstance(vars(part).get("scaling"), dict)
    }
