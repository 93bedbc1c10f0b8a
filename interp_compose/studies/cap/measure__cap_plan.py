"""What a CAP run will do, settled and checked before any of it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interp_compose.types import Example, HookedModel
from interp_compose.errors import CapabilityError, InterventionError, OptionError
from interp_compose.interventions.pooling_sweep import MODES
from interp_compose.interventions.pool_at import needs
from interp_compose.interventions.select import resolve_layers
from interp_compose.models.memory import batch_of_lengths, fitting_batch, weights_digest
from interp_compose.studies.cap.result import CONTROLS, POOLINGS
from interp_compose.studies.cap.measure__cap_prepare import into_batches
from interp_compose.checks__options import check_numbers, check_pooling
from interp_compose.studies.core.inputs import Prepared, examples_digest, prepare
from interp_compose.text.label_set import VOCABULARY


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
    answers: str | Sequence[str] = VOCABULARY,
) -> CapPlan:
    """The arguments are :func:`.cap_measure.cap_curve`'s, and so is what they raise."""
    check_numbers(seed, batch_size)
    check_pooling(pooling, POOLINGS)
    _check_mode(mode, renumber)
    if model.bidirectional:
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) is an encoder and predicts no next token; "
            "measure it with similarity_curve instead."
        )
    starts = resolve_layers(layers, model.n_layers)
    items = prepare(
        model,
        examples,
        unit=unit,
        labels=labels,
        height=height,
        parser=parser,
        answers=answers,
        collapse="Use mode='broadcast', or shorter prompts." if mode == "collapse" else None,
    )
    model.require("resume", *needs(mode, renumber))
    if not any(item.affected for item in items):
        raise InterventionError(
            f"pooling would change none of the {len(items)} examples: every {unit} is a single "
            'token of this tokenizer. Choose larger units (unit="phrase", or spans of your own).'
        )
    protocols = [*pooling, *(CONTROLS if controls else ())]
    batch_size = batch_of_lengths(model, [item.n_tokens for item in items], batch_size)
    if batch_size is None:
        longest = max(item.n_slots if mode == "collapse" else item.n_tokens for item in items)
        batch_size = fitting_batch(model, len(starts) * len(protocols), longest)
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
        "answers": answers if isinstance(answers, str) else list(answers),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "n_examples": len(items),
        "examples_sha256": examples_digest(items),
        "active_hooks": list(model.active_hooks),
        "weights_sha256": weights_digest(model),
    }
    batches = into_batches(items, int(batch_size))
    return CapPlan(model, items, batches, protocols, starts, mode, renumber, int(seed), config)


def _check_mode(mode: str, renumber: bool) -> None:
    if mode not in MODES:
        raise OptionError(f"unknown mode {mode!r}: expected one of {', '.join(MODES)}")
    if renumber and mode != "collapse":
        raise OptionError("renumber=True has no meaning for mode='broadcast': leave it out")
