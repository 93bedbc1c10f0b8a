"""What a similarity run will do, settled and checked before any of it is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from interp_compose.types import HookedModel
from interp_compose.errors import InputError, InterventionError
from interp_compose.interventions.select import resolve_layers
from interp_compose.models.memory import fitting_batch, weights_digest
from interp_compose.models.embed import Reading, check_first, reading_of
from interp_compose.checks__options import check_numbers, check_pooling
from interp_compose.studies.similarity.measure__similarity_prepare import (
    PreparedPair,
    about,
    into_batches,
    prepare_pairs,
)
from interp_compose.studies.similarity.result__similarity_tables import (
    ALL,
    FEWEST,
    POOLINGS,
    controls_of,
    subsets_of,
)
from interp_compose.tasks.pairs import Pair

MAX_PAIRS = 256  # in a batch; the more, the fewer texts are run twice
NEEDS = ("resume", "positions", "hidden")


@dataclass(frozen=True)
class SimilarityPlan:
    """A run whose input has been checked: nothing in it is left to be refused.

    ``config`` is what the result will say of itself, weights and pairs by their SHA-256.
    """

    model: HookedModel
    pairs: Sequence[PreparedPair]
    batches: Sequence[Sequence[PreparedPair]]
    protocols: Sequence[str]
    layers: Sequence[int]
    reading: Reading
    seed: int
    config: Mapping[str, Any]


def plan_similarity(
    model: HookedModel,
    pairs: Iterable[Pair | Mapping[str, Any]],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
    pooling: Sequence[str],
    layers: Sequence[int | float] | None,
    controls: bool,
    embedding: str,
    batch_size: int | None,
    seed: int,
    task: str,
) -> SimilarityPlan:
    """The arguments are :func:`.similarity_measure.similarity_curve`'s, and so is what they
    raise."""
    check_numbers(seed, batch_size)
    check_pooling(pooling, POOLINGS)
    starts = resolve_layers(layers, model.n_layers)
    reading = reading_of(model, embedding)
    items = prepare_pairs(model, pairs, unit=unit, labels=labels, height=height, parser=parser)
    prompts = [text.prompt for item in items for text in (item.first, item.second)]
    check_first(reading, prompts, model.name)
    kind = "label" if items[0].pair.score is None else "score"
    _check_subsets(about(items), kind)
    model.require(*NEEDS)
    if not any(item.affected for item in items):
        raise InterventionError(
            f"pooling would change none of the {len(items)} pairs: every {unit} is a single "
            "token of this tokenizer. "
            + ("Give longer texts." if unit == "phrase" else 'unit="phrase" pools whole texts.')
        )
    protocols = [*pooling, *(controls_of(unit) if controls else ())]
    if batch_size is None:
        longest = max(max(len(prompt.ids), prompt.n_slots) for prompt in prompts)
        batch_size = fitting_batch(model, 2 * len(starts) * len(protocols), longest, MAX_PAIRS)
    config = {
        "study": "similarity",
        "model": model.name,
        "architecture": model.architecture,
        "task": task,
        "kind": kind,
        "unit": unit,
        "labels": sorted(labels) if labels else None,
        "height": height,
        "parser": parser,
        "embedding": embedding,
        "reading": str(reading),
        "pooling": list(pooling),
        "controls": controls,
        "layers": starts,
        "n_layers": model.n_layers,
        "batch_size": int(batch_size),
        "seed": int(seed),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "n_pairs": len(items),
        "pairs_sha256": _pairs_digest(items),
        "active_hooks": list(model.active_hooks),
        "weights_sha256": weights_digest(model),
    }
    batches = into_batches(items, int(batch_size))
    return SimilarityPlan(model, items, batches, protocols, starts, reading, int(seed), config)


def _check_subsets(pairs: pd.DataFrame, kind: str) -> None:
    """Refuse a list or subset from which no correlation (or area under the curve) follows."""
    for name, rows in subsets_of(pairs).items():
        what = "the list" if name == ALL else f"the subset {name!r}"
        targets = pairs["target"].to_numpy()[rows]
        if len(rows) < FEWEST:
            raise InputError(
                f"{what} holds {len(rows)} pair(s), from which no correlation follows: give at "
                f"least {FEWEST}"
                + (
                    "."
                    if name == ALL
                    else f" (the first is row {pairs['pair'][rows[0]] + 1}), or "
                    "take the subset's name away."
                )
            )
        if (targets == targets[0]).all():
            raise InputError(
                f"all {len(rows)} pairs of {what} have the {kind} {targets[0]:g}: there is "
                "nothing to agree with. Give pairs that people judge differently."
            )


def _pairs_digest(items: Sequence[PreparedPair]) -> str:
    """Of everything the run reads: texts, judgements, subsets, token ids and units."""
    digest = hashlib.sha256()
    for item in items:
        row: list[Any] = [asdict(item.pair)]
        for text in (item.first, item.second):
            row += [text.prompt.ids.tolist(), text.prompt.groups.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()
