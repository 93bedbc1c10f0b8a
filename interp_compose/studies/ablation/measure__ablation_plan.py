"""What an ablation run will do, settled and checked before any of it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from interp_compose.types import Example, HookedModel
from interp_compose.errors import CapabilityError, InterventionError, OptionError
from interp_compose.interventions.ablation_sweep import REACH
from interp_compose.interventions.mask_attention import MODES
from interp_compose.interventions.ablate__reference import HOW
from interp_compose.interventions.select import resolve_layers
from interp_compose.studies.ablation.result import ALL_WORDS
from interp_compose.studies.ablation.measure__ablation_prepare import (
    into_batches,
    prepare_any,
    with_predictions,
    words_of,
)
from interp_compose.models.memory import batch_of_lengths, fitting_batch, weights_digest
from interp_compose.checks__options import check_numbers
from interp_compose.studies.core.inputs import Prepared, examples_digest
from interp_compose.text.label_set import VOCABULARY
from interp_compose.text.tagging import Tagger, tagger_of, unit_tags

PARTS: Final = {"layers": ("attn", "mlp"), "attn": ("attn",), "mlp": ("mlp",)}
WHAT: Final = ("words", "heads", *PARTS)
NEEDS: Final = {
    "words": "mask_attention",
    "heads": "edit_z",
    **dict.fromkeys(PARTS, "drop_parts"),
}


@dataclass(frozen=True)
class AblationPlan:
    """A run whose input has been checked: nothing in it is left to be refused.

    ``tags`` are each example's units' tags, for ``what="words"``; ``config`` is what the result
    will say of itself.
    """

    model: HookedModel
    items: Sequence[Prepared]
    batches: Sequence[Sequence[Prepared]]
    what: str
    layers: Sequence[int]
    reach: str
    mode: str
    how: str
    seed: int
    tags: Mapping[int, Sequence[str]]
    config: Mapping[str, Any]


def plan_ablation(
    model: HookedModel,
    examples: Iterable[Example | Mapping[str, Any] | str],
    *,
    what: str,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
    tagger: Any,
    reach: str | None,
    mode: str,
    how: str,
    layers: Sequence[int | float] | None,
    batch_size: int | None,
    seed: int,
    task: str,
    answers: str | Sequence[str] = VOCABULARY,
) -> AblationPlan:
    """The arguments are :func:`.ablation_measure.ablation_curve`'s, and so is what they raise."""
    check_numbers(seed, batch_size)
    reach = _checked(what, unit, tagger, reach, mode, how)
    if model.bidirectional:
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) is an encoder and predicts no next token; use "
            "mask_attention and model.encode instead."
        )
    chosen = resolve_layers(layers, model.n_layers)
    named = None if tagger is None else tagger_of(tagger)
    items, bare = prepare_any(
        model, examples, unit=unit, labels=labels, height=height, parser=parser, answers=answers
    )
    model.require("resume", NEEDS[what])
    if what == "words" and not any(words_of(item) for item in items):
        raise InterventionError(
            f"none of the {len(items)} examples has a {unit} before its last token, so there is "
            "nothing to knock out. Use longer prompts."
        )
    tags = {} if named is None else _tags(items, named)
    batch_size = batch_of_lengths(model, [item.n_tokens for item in items], batch_size)
    if batch_size is None:
        longest = max(item.n_tokens for item in items)
        cells = {"words": max(len(words_of(item)) for item in items), "heads": model.n_heads}
        batch_size = fitting_batch(model, (len(chosen) + 1) * max(1, cells.get(what, 1)), longest)
    batches = into_batches(items, int(batch_size))
    if bare:
        batches = [with_predictions(model, part) for part in batches]
        items = sorted(chain.from_iterable(batches), key=lambda item: item.index)
    config = {
        "study": "ablation",
        "model": model.name,
        "architecture": model.architecture,
        "task": task,
        "what": what,
        "reach": reach,
        "mode": mode if what == "words" else None,
        "how": how if what == "heads" else None,
        "unit": unit if what == "words" else None,
        "labels": sorted(labels) if labels else None,
        "height": height,
        "parser": parser,
        "tagger": _name_of(tagger),
        "layers": chosen,
        "n_layers": model.n_layers,
        "n_heads": model.n_heads,
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
    return AblationPlan(
        model, items, batches, what, chosen, reach, mode, how, int(seed), tags, config
    )


def _checked(what: str, unit: str, tagger: Any, reach: str | None, mode: str, how: str) -> str:
    """``reach``, or what is usual for ``what``; words that belong to another ``what`` refused."""
    for name, value, known in (
        ("what", what, WHAT),
        ("mode", mode, MODES),
        ("how", how, HOW),
        ("reach", reach, (*REACH, None)),
    ):
        if value not in known:
            raise OptionError(
                f"unknown {name}={value!r}: expected one of {', '.join(map(str, known))}"
            )
    for name, value, usual, belongs in (
        ("mode", mode, "exclude", "words"),
        ("unit", unit, "word", "words"),
        ("tagger", tagger, None, "words"),
        ("how", how, "zero", "heads"),
    ):
        if what != belongs and value != usual:
            raise OptionError(
                f"{name}={value!r} has no meaning for what={what!r}, only for {belongs!r}: leave "
                "it out"
            )
    if what == "heads" and reach not in (None, "at"):
        raise OptionError(
            f"reach={reach!r} has no meaning for what='heads', whose heads belong to one layer: "
            "leave it out"
        )
    return reach or ("from" if what == "words" else "at")


def _tags(items: Sequence[Prepared], tagger: Tagger) -> dict[int, list[str]]:
    tags = {item.index: unit_tags(item.prompt, tagger) for item in items}
    if any(ALL_WORDS in of_example for of_example in tags.values()):
        raise OptionError(
            f"the tagger gave the tag {ALL_WORDS!r}, which is the name of all of them together; "
            "give another"
        )
    return tags


def _name_of(tagger: Any) -> str | None:
    if tagger is None or isinstance(tagger, str):
        return tagger
    meta = getattr(tagger, "meta", None)
    if isinstance(meta, dict):
        return f"{meta.get('lang', '')}_{meta.get('name', '')} {meta.get('version', '')}"
    return str(getattr(tagger, "__qualname__", type(tagger).__qualname__))
