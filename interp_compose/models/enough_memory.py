"""Whether memory suffices: what is free, and what weights and a batch hold at least.

Only what is certain to be held is refused, so that nothing is that would have run: a batch takes up
to :data:`MOST_OF_LEAST` times as much. What a CAP sweep is expected to take (:func:`sweep_bytes`)
warns, and proposes a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import ceil
from pathlib import Path
from typing import Any, Final

import torch

from interp_compose.errors import NotEnoughMemoryError, warn
from interp_compose.models.base import BaseModel
from interp_compose.models.memory import chunk_tokens
from interp_compose.models.model_files import without_weights

MOST_OF_LEAST: Final = 4
"""How many times :func:`least_bytes` a batch was measured to hold at most."""
MOST_OF_FREE: Final = 0.6
"""Which share of the free memory an estimate may fill: at its lowest it is that share of what is
held."""
EXPECTED: Final = (0.6, 1.5)
"""The smallest and largest share of what tensors held that :func:`sweep_bytes` came to, rounded
away from 1, on texts of many lengths: of ``mini-idm``, the lowest, of a Llama with few key heads
and of one with a large vocabulary, the highest (``benchmarks/results/cap_expected_cpu.json``)."""
PROC: Final = Path("/proc")
GROUPS: Final = Path("/sys/fs/cgroup")
LIMIT_AND_USE: Final = {
    "": ("memory.max", "memory.current"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}
"""Files of a control group, of the second version and of the first."""


def available_bytes(device: torch.device) -> int | None:
    """Bytes that can still be taken; None where that cannot be known (a CPU without
    Linux, or with another ``/proc``).

    On CUDA what the driver has free, and what PyTorch has reserved and does not use; on Linux what
    the system or a control group of this process leaves, caches of files and free swap included.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    if device.type != "cpu" or not (PROC / "meminfo").exists():
        return None
    try:
        rows = [line.split() for line in (PROC / "meminfo").read_text().splitlines()]
        kilobytes = {row[0].rstrip(":"): int(row[1]) for row in rows}
        free = kilobytes["MemAvailable"] * 1024
        left = max(0, min([free, *_left_in_groups()]))
    except (OSError, ValueError, KeyError, IndexError):  # written in another way
        return None
    return left + kilobytes.get("SwapFree", 0) * 1024


def _left_in_groups() -> Iterator[int]:
    """What each control group of this process, and each above it, has left, caches of files
    included."""
    # Lines like "4:memory:/user/job" (first version) and "0::/user/job" (second).
    for line in (PROC / "self" / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for kind in LIMIT_AND_USE.keys() & controllers.split(","):
            root = GROUPS / kind
            group = root / path.lstrip("/")
            for folder in (group, *group.parents):
                if not folder.is_relative_to(root):
                    break
                try:
                    limit, used = (int((folder / one).read_text()) for one in LIMIT_AND_USE[kind])
                    rows = (
                        row.split() for row in (folder / "memory.stat").read_text().splitlines()
                    )
                    entries = {name: int(value) for name, value in rows}
                except (OSError, ValueError):  # another container's, or the limit is "max"
                    continue
                files = (f"{'total_' * bool(kind)}{one}_file" for one in ("active", "inactive"))
                yield limit - used + sum(entries.get(name, 0) for name in files)


def free_bytes(devices: Iterable[torch.device]) -> int | None:
    """:func:`available_bytes` of several devices together."""
    free = [available_bytes(device) for device in devices]
    return None if None in free else sum(filter(None, free))


def check_available(
    needed: int,
    devices: Sequence[torch.device],
    what: str,
    remedy: str,
    *,
    expected: int | None = None,
) -> None:
    """Refuse ``what`` ("a batch of …") if ``needed`` bytes are more than can be taken, and warn
    where what it is ``expected`` to take is.

    Raises:
        NotEnoughMemoryError: with both numbers and the remedy.
        UserWarning: likewise.
    """
    free = free_bytes(devices)
    if free is None or max(needed, expected or 0) <= free:
        return
    estimate = f"is estimated to take {_gib(expected or 0)}"
    least = f"needs at least {_gib(needed)}" + f" and {estimate}" * bool(expected)
    message = (
        f"{what} {least if needed > free else estimate} of memory, and {_gib(free)} are free "
        f"({', '.join(map(str, devices))}): {remedy}."
    )
    if needed > free:
        raise NotEnoughMemoryError(message)
    warn(message)


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.3g} GiB ({n_bytes:,} bytes)"


def rows_that_fit(
    expected: Callable[[int], int], n_rows: int, devices: Sequence[torch.device]
) -> int:
    """How many of a batch's rows are expected to take no more than :data:`MOST_OF_FREE` of what is
    free, as all fewer rows are; 0 where one row is not, or where that is not known."""
    free = free_bytes(devices)
    if free is None:
        return 0
    fitting = takewhile(lambda n: expected(n) <= MOST_OF_FREE * free, range(1, n_rows + 1))
    return max(fitting, default=0)


def least_bytes(
    model: BaseModel,
    rows: int,
    length: int,
    *,
    captured: int,
    stays: bool = False,
    positions: int = 0,
    together: tuple[int, int] = (0, 0),
    n_read: int = 0,
    kept: bool = False,
) -> int:
    """Bytes that a batch ``[rows length]`` holds at least, beyond the weights.

    Args:
        captured: positions × layers whose residuals a clean pass keeps.
        stays: whether they are held to the end.
        positions: that the streams of all start layers hold, summed.
        together: of streams that run on in the same calls, how many, and their positions.
        n_read: positions of each row and stream whose logits are read.
        kept: whether the clean run's keys and values are held throughout.
    """
    width, cfg = model.d_model, model.lens.cfg
    # While their outcomes are found, logits are held twice (isfinite takes their absolute values).
    logits = 2 * n_read * model.d_vocab
    # 1. A clean pass: residuals so far, and the logits at its end or what its last block holds.
    in_block = rows * length * _per_position(model, float(length))
    clean = captured * width + max(rows * logits, in_block)
    # 2. Streams, when all have joined [stream pos d_model], and a chunk of them that runs on: all
    # chunks are of about one size, at least half of the largest that may be.
    joined = positions * width + (captured * width if stays else 0)
    n_together, n_positions = together
    if n_together:
        most = chunk_tokens(model, length, logits=n_read) / 2
        of_chunk = min(most, n_positions) * _per_position(model, n_positions / n_together)
        joined += int(max(of_chunk, min(max(1.0, most / length), n_together) * logits))
    # 3. Keys and values of all layers through both: [row head pos d_head] each.
    n_heads = getattr(cfg, "n_key_value_heads", None) or model.n_heads
    cache = 2 * model.n_layers * rows * length * n_heads * _d_head(model) if kept else 0
    return int(cache + max(clean, joined)) * model.dtype.itemsize


def _d_head(model: BaseModel) -> int:
    return int(getattr(model.lens.cfg, "d_head", None) or model.d_model // model.n_heads)


def _per_position(model: BaseModel, n_keys: float) -> float:
    """Numbers that a block holds of each position at least: in attention two vectors, scores and
    pattern, in an MLP that is no mixture of experts neurons before and after their function."""
    if len(model.stacks) > 1:  # lengths of the two are not known
        return 0.0
    cfg, module = model.lens.cfg, getattr(model.lens, "original_model", None)
    settings = {**vars(cfg), **vars(getattr(module, "config", cfg))}
    experts = any("expert" in name and value for name, value in settings.items())
    neurons = 0 if experts else int(getattr(cfg, "d_mlp", None) or 0)
    in_mlp = float(model.d_model + 2 * neurons)
    return max(2 * model.d_model + 2 * model.n_heads * n_keys, in_mlp)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the memory of a decoder depends on; ``itemsize`` is bytes a number."""

    n_weights: int
    n_layers: int
    d_model: int
    n_heads: int
    n_key_heads: int
    d_head: int
    d_mlp: int
    gated: bool
    d_vocab: int
    itemsize: int

    @classmethod
    def of(cls, model: BaseModel) -> Shape:
        cfg = model.lens.cfg
        return cls(
            n_weights=sum(weight.numel() for weight in model.parameters()),
            n_layers=model.n_layers,
            d_model=model.d_model,
            n_heads=model.n_heads,
            n_key_heads=getattr(cfg, "n_key_value_heads", None) or model.n_heads,
            d_head=_d_head(model),
            d_mlp=int(getattr(cfg, "d_mlp", None) or 0),
            gated=bool(getattr(cfg, "gated_mlp", False)),
            d_vocab=model.d_vocab,
            itemsize=model.dtype.itemsize,
        )

    @property
    def weights(self) -> int:
        """Bytes of the weights."""
        return self.n_weights * self.itemsize

    def in_block(self, n_keys: int) -> int:
        """Numbers that eager attention and an MLP hold of each position at most, measured: vectors
        of width d_model, and scores and pattern, which half precision also has in float32; after
        attention its pattern stays while the MLP runs."""
        scores = (2 if self.itemsize > 2 else 5) * self.n_heads * n_keys
        neurons = (3 if self.gated else 4) * self.d_mlp
        in_mlp = 4 * self.d_model + neurons + self.n_heads * n_keys
        return max(7 * self.d_model + scores, in_mlp) + n_keys


def sweep_bytes(
    shape: Shape,
    rows: int,
    length: int,
    *,
    n_layers: int,
    ways: int,
    pooled: int,
    positions: int,
    together: tuple[int, int],
    max_tokens: int,
    n_read: int = 1,
    kept: bool = True,
) -> dict[str, int]:
    """An estimate of what a CAP sweep of a batch ``[rows length]`` holds at its peak, in bytes by
    part, beyond the weights: :data:`EXPECTED` times what tensors held, where it was measured.

    Args:
        n_layers: start layers, each of which has a clean residual and a group of streams; none
            where no row has anything to pool.
        ways: poolings and controls, each a stream of every row at every start layer.
        pooled: positions of a pooled row.
        positions: of the streams of one start layer, those that are run, summed.
        together: of these, the streams that run in the same calls, and their positions.
        max_tokens: streams × positions of one call (:func:`.memory.chunk_tokens`).
        n_read: positions of each stream whose logits are read.
        kept: whether streams go on from the clean run's keys and values.
    """
    size, d_model = shape.itemsize, shape.d_model
    # 1. [layer row pos d_model], kept of the clean run until streams leave at their layer.
    resid = n_layers * rows * length * d_model
    # 2. [layer row head pos d_head], keys and values of the clean run, held throughout.
    keys_of_one = 2 * shape.n_key_heads * shape.d_head  # of a position, in a layer
    keys = shape.n_layers * rows * length * keys_of_one if kept else 0
    # 3. [layer stream pos d_model], room for all streams from the first layer on; and, of one
    # layer, what is pooled in each way, once more side by side.
    streams = n_layers * positions * d_model
    entering = 2 * ways * rows * pooled * d_model
    # 4. Chunks of about one size: streams in a block, the keys before them gathered and joined by
    # their own, and [stream n_read d_vocab], of which float32 has two more as log-probabilities.
    run = together[1] / together[0]

    def chunk(n_positions: int) -> float:
        n = n_positions / ceil(n_positions / max(max_tokens, run))
        before = (2 * pooled - run) * keys_of_one if kept else 0
        logits = n_read * shape.d_vocab * (size + 8) / size
        return max(n * shape.in_block(pooled) + n / run * before, n / run * logits)

    phases: list[dict[str, float]] = [
        {"residuals": resid, "keys": keys, "block": rows * length * shape.in_block(length)}
    ]
    if n_layers:
        leaving = {
            "residuals": resid * (n_layers - 1) / n_layers,
            "block": max(entering, chunk(together[1])),
        }
        joined = {"keys": keys, "streams": streams, "block": chunk(n_layers * together[1])}
        phases += [{**joined, **leaving}, joined]
    largest = max(phases, key=lambda parts: sum(parts.values()))
    return {part: int(number * size) for part, number in largest.items()}


def check_weights(
    n_weights: int | None, name: str, held: Mapping[str, torch.dtype], remedy: str
) -> None:
    """Refuse to load weights for which there is no memory.

    Args:
        n_weights: how many; None where that is not known.
        held: the devices that will hold all of them, and as what.

    Raises:
        NotEnoughMemoryError: how many bytes are needed, and how many are free.
    """
    if n_weights is None:
        return
    for device, dtype in held.items():
        needed = n_weights * dtype.itemsize
        check_available(needed, [torch.device(device)], f"loading {name!r}", remedy)


def check_loading(config: Any, name: str, device: str, dtype: torch.dtype) -> None:
    """Refuse a checkpoint for whose weights, converted to ``dtype``, there is no memory.

    Raises:
        NotEnoughMemoryError: as :func:`check_weights`.
    """
    held = {} if device == "cpu" else {device: dtype}
    # A CPU converts weights one by one; those that stay as they are it maps from their file, and
    # gives them back where memory is short.
    if getattr(config, "dtype", None) not in (None, dtype):
        held["cpu"] = dtype
    if held:
        remedy = "take a smaller model"
        if dtype.itemsize > 2:
            remedy = f"load it with dtype='bfloat16', which takes two bytes a weight, or {remedy}"
        check_weights(n_weights_of(config), name, held, remedy)


def n_weights_of(config: Any) -> int | None:
    """Weights of the model that a config describes, without its head and without building it; None
    where transformers cannot lay it out so, or keeps weights packed (quantised ones)."""
    from transformers import AutoModel

    if config is None or getattr(config, "quantization_config", None) is not None:
        return None
    model = without_weights(config, AutoModel)
    return None if model is None else sum(int(weight.numel()) for weight in model.parameters())
