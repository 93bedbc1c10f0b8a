"""What a CAP run will do, settled and checked before any of it is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch

from interp_compose._types import Example, HookedModel
from interp_compose.errors import InterventionError, LayerError, OptionError
from interp_compose.interventions.one_pass import MODES
from interp_compose.interventions.pool_at import needs
from interp_compose.recipes.cap_curve import CONTROLS, POOLINGS
from interp_compose.recipes.cap_prepare import Prepared, into_batches, prepare

MAX_BATCH = 64


@dataclass(frozen=True)
class CapPlan:
    """A run whose input has been checked: nothing in it is left to be refused.

    ``config`` is what the result will say of itself, weights and examples by their SHA-256.
    """

    model: HookedModel
    items: Sequence[Prepared]
    batches: Sequence[Sequence[Prepared]]
    protocols: Sequence[str]
    layers: Sequence[int]
    mode: str
    renumber: bool
    seed: int
    config: Mapping[str, Any]


def plan_cap(
    model: HookedModel,
    examples: Iterable[Example | Mapping[str, Any]],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
    pooling: Sequence[str],
    mode: str,
    layers: Sequence[int | float] | None,
    controls: bool,
    renumber: bool,
    batch_size: int | None,
    seed: int,
    task: str,
) -> CapPlan:
    """The arguments are :func:`.cap_measure.cap_curve`'s, and so is what they raise."""
    if not isinstance(model, HookedModel):
        raise OptionError(
            f"the model is a {type(model).__name__}; pass what load_model({model!r}) returns."
        )
    _check_options(pooling, mode, renumber, batch_size, seed)
    starts = resolve_layers(layers, model.n_layers)
    items = prepare(
        model, examples, unit=unit, labels=labels, height=height, parser=parser, mode=mode
    )
    model.require("resume", *needs(mode, renumber))
    if not any(item.affected for item in items):
        raise InterventionError(
            f"pooling would change none of the {len(items)} examples: every {unit} is a single "
            'token of this tokenizer. Choose larger units (unit="phrase", or spans of your own).'
        )
    protocols = [*pooling, *(CONTROLS if controls else ())]
    if batch_size is None:
        batch_size = _fitting_batch(model, items, len(starts) * len(protocols), mode)
    config = {
        "study": "cap",
        "model": model.name,
        "architecture": model.architecture,
        "task": task,
        "unit": unit,
        "labels": sorted(labels) if labels else None,
        "height": height,
        "parser": parser,
        "pooling": list(pooling),
        "controls": controls,
        "mode": mode,
        "layers": starts,
        "n_layers": model.n_layers,
        "renumber": renumber,
        "batch_size": int(batch_size),
        "seed": int(seed),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "n_examples": len(items),
        "examples_sha256": _examples_digest(items),
        "weights_sha256": _weights_digest(model),
    }
    batches = into_batches(items, int(batch_size))
    return CapPlan(model, items, batches, protocols, starts, mode, renumber, int(seed), config)


def resolve_layers(layers: Any, n_layers: int) -> list[int]:
    """Start layers in ascending order, each once; a float is a depth, 0.0 … 1.0, halves up.

    Raises:
        LayerError: outside the model, a depth outside 0 … 1, or none at all.
    """
    if layers is None:
        return list(range(n_layers))
    found: set[int] = set()
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise LayerError(f"layers={layers!r}: expected a sequence such as [0, 3] or [0.0, 0.5]")
    for layer in layers:
        expected = (
            f"expected 0 … {n_layers - 1} (0 pools the embeddings), or a depth between 0.0 and 1.0."
        )
        if isinstance(layer, bool) or not isinstance(layer, Real):
            raise LayerError(f"layer {layer!r} is a {type(layer).__name__}: {expected}")
        if isinstance(layer, Integral):
            whole = int(layer)
            if not 0 <= whole < n_layers:
                raise LayerError(f"layer {whole} is outside the model: {expected}")
            found.add(whole)
        else:
            depth = float(layer)
            if not 0.0 <= depth <= 1.0:
                raise LayerError(f"depth {depth} is outside 0.0 … 1.0: {expected}")
            found.add(int(depth * (n_layers - 1) + 0.5))
    if not found:
        raise LayerError("no layers: expected at least one, or None for all.")
    return sorted(found)


def _check_options(pooling: Any, mode: str, renumber: bool, batch_size: Any, seed: Any) -> None:
    if not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed={seed!r}: expected an integer, 0 or more")
    if not isinstance(pooling, list | tuple) or not pooling:
        raise OptionError(f"pooling={pooling!r}: expected a sequence such as {POOLINGS}")
    for name in pooling:
        if name not in POOLINGS:
            raise OptionError(f"unknown pooling {name!r}: expected some of {', '.join(POOLINGS)}")
    if len(set(pooling)) != len(pooling):
        raise OptionError(f"pooling={list(pooling)} names a protocol twice; name each once")
    if mode not in MODES:
        raise OptionError(f"unknown mode {mode!r}: expected one of {', '.join(MODES)}")
    if renumber and mode != "collapse":
        raise OptionError("renumber=True has no meaning for mode='broadcast': leave it out")
    if batch_size is not None and (not isinstance(batch_size, Integral) or batch_size < 1):
        raise OptionError(f"batch_size={batch_size!r}: expected an integer, 1 or more, or None")


def _fitting_batch(model: HookedModel, items: Sequence[Prepared], streams: int, mode: str) -> int:
    """Examples whose streams stay within a fixed budget: 1 GiB, or a tenth of the GPU."""
    budget = 2**30
    if model.device.type == "cuda":
        budget = torch.cuda.get_device_properties(model.device).total_memory // 10
    longest = max(item.n_slots if mode == "collapse" else item.n_tokens for item in items)
    each = streams * longest * model.d_model * model.dtype.itemsize
    return int(max(1, min(MAX_BATCH, budget // each)))


def _examples_digest(items: Sequence[Prepared]) -> str:
    """Of everything the run reads: texts, token ids, units, answers."""
    digest = hashlib.sha256()
    for item in items:
        row = [item.example.prompt, item.example.answer, item.answer_id]
        row += [item.prompt.ids.tolist(), item.prompt.groups.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


@torch.no_grad()
def _weights_digest(model: HookedModel) -> str:
    """Of every parameter's bytes, about a second a gigabyte; no two weights share a result."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(json.dumps([list(parameter.shape), str(parameter.dtype)]).encode())
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
