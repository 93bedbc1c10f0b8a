"""``cap_curve``: measure what pooling at each layer leaves of a model's accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.checks import check_numbers, check_pooling
from interp_compose.errors import CapabilityError, InterventionError, NonFiniteError, OptionError
from interp_compose.interventions.pool_at import needs
from interp_compose.interventions.pooling import PooledLayout, shuffled_groups
from interp_compose.interventions.pooling_sweep import MODES, protocols_of, sweep
from interp_compose.interventions.select import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import (
    batch_of_lengths,
    chunk_tokens,
    fitting_batch,
    weights_digest,
)
from interp_compose.runs.batches import batch_by_batch
from interp_compose.studies.cap.result import CONTROLS, POOLINGS, CapCurve
from interp_compose.studies.core.inputs import Prepared, examples_digest, outcome_of, prepare
from interp_compose.tensors import pad_left
from interp_compose.text.label_set import VOCABULARY, stacked
from interp_compose.types import Example


@dataclass(frozen=True)
class CapPlan:
    """A run whose input has been checked: nothing in it is left to be refused.

    ``config`` is what the result will say of itself, weights and examples by their SHA-256.
    """

    model: LensModel
    items: Sequence[Prepared]
    batches: Sequence[Sequence[Prepared]]
    protocols: Sequence[str]
    layers: Sequence[int]
    mode: str
    renumber: bool
    seed: int
    config: Mapping[str, Any]


def plan_cap(
    model: LensModel,
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
    """The arguments are :func:`.measure.cap_curve`'s, and so is what they raise."""
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
        longest = max(item.n_pooled if mode == "collapse" else item.n_tokens for item in items)
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


@dataclass(frozen=True)
class Batch:
    """Examples side by side, padded on the left, so that all predict at position -1."""

    items: Sequence[Prepared]
    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    units: PooledLayout
    shuffled: PooledLayout
    answers: Int[Tensor, "batch"]
    candidates: Int[Tensor, "batch label"] | None


def into_batches(items: Sequence[Prepared], size: int) -> list[list[Prepared]]:
    """Examples of like length together, what pooling cannot change apart; always the same way."""
    ordered = sorted(items, key=lambda it: (it.affected, it.n_pooled, it.n_tokens, it.index))
    n_plain = sum(not item.affected for item in ordered)
    parts = ordered[:n_plain], ordered[n_plain:]
    return [part[at : at + size] for part in parts for at in range(0, len(part), size)]


def as_batch(items: Sequence[Prepared], device: torch.device, *, seed: int) -> Batch:
    """Pad on the left and move to ``device``; one copy per tensor."""
    prompts = [item.prompt for item in items]
    tokens, mask, _ = pad_left(
        [prompt.ids for prompt in prompts], [prompt.groups < 0 for prompt in prompts]
    )
    groups, shuffled = np.full(tokens.shape, -1), np.full(tokens.shape, -1)
    for row, item in enumerate(items):
        own = item.prompt.groups
        groups[row, -len(own) :] = own
        shuffled[row, -len(own) :] = shuffled_groups(own.tolist(), seed=seed, example=item.index)
    candidates = stacked([item.candidates for item in items])
    return Batch(
        items,
        tokens.to(device),
        mask.to(device),
        PooledLayout.from_groups(torch.from_numpy(groups), mask).to(device),
        PooledLayout.from_groups(torch.from_numpy(shuffled), mask).to(device),
        torch.tensor([item.answer_id for item in items]).to(device),
        None if candidates is None else candidates.to(device),
    )


CLEAN = -1  # the layer number under which a batch's clean outcomes are stored


@public
def cap_curve(
    model: LensModel,
    examples: Iterable[Example | Mapping[str, Any]],
    *,
    unit: str = "word",
    labels: frozenset[str] | None = None,
    height: int | None = None,
    parser: str | None = None,
    pooling: Sequence[str] = POOLINGS,
    mode: str = "collapse",
    layers: Sequence[int | float] | None = None,
    controls: bool = True,
    renumber: bool = False,
    batch_size: int | None = None,
    seed: int = 42,
    answers: str | Sequence[str] = "vocabulary",
    task: str = "",
    progress: bool = True,
    resume: str | Path | None = None,
) -> CapCurve:
    """Layer-wise CAP curve: accuracy after pooling at each layer (CARMA, section 5.1, C.1).

    For each start layer ℓ and protocol, the tokens of every unit are pooled into one vector in
    the residual that enters block ℓ, the model runs on with the shortened sequence, and the
    prediction at the last position is compared with the answer, by default over the whole
    vocabulary.
    BOS, padding and the prediction position are never pooled.

    Args:
        model: from :func:`load_model`, in evaluation mode.
        examples: a task's, or dictionaries with ``prompt``, ``answer`` and, where the unit needs
            them, ``spans`` or ``tree``.
        unit: ``"word"``, ``"pretoken"``, ``"phrase"`` or ``"span"`` (:mod:`.text.units`).
        labels, height, parser: which phrases; see :func:`.text.units.tokenize_prompts`.
        pooling: any of ``"mean"``, ``"max"``, ``"sum"``.
        mode: ``"collapse"`` (the sequence becomes its units) or ``"broadcast"`` (length kept,
            every token of a unit gets the pooled vector).
        layers: integers 0 … n_layers-1, or depths as floats from 0.0 to 1.0; all by default.
        controls: add ``"last"`` (keep each unit's last token, drop the others: deletion without
            pooling) and ``"shuffled"`` (mean over spans of the same sizes at random places:
            pooling without words).
        renumber: after a collapse, rotary positions 0, 1, 2, … instead of each unit's last
            token's.
        batch_size: examples per batch; by default what fits a fixed memory budget.
        seed: of the shuffled control.
        answers: what the prediction is chosen among: ``"vocabulary"`` (eq. 9), or a list of labels
            (eq. 10), such as ``task.labels`` of a sentiment task. With labels, ranks and
            log-probabilities are those among them.
        task: a name for the figure's title.
        progress: show a bar.
        resume: folder in which finished batches are kept until the end, so that an interrupted
            call, made again, goes on and ends in the same result.

    Returns:
        A :class:`CapCurve` with ``.frame``, ``.outcomes``, ``.clean``, ``.plot()``, ``.save()``.

    Raises:
        InputError: before any work, with the example, the value and the remedy.
        InterventionError: not one example has a unit of several tokens.
        CapabilityError: a probe shows that the model does not honour what this needs.
        TrainingModeError, NonFiniteError: see their names.
    """
    plan = plan_cap(
        model,
        examples,
        unit=unit,
        labels=labels,
        height=height,
        parser=parser,
        pooling=pooling,
        mode=mode,
        layers=layers,
        controls=controls,
        renumber=renumber,
        batch_size=batch_size,
        seed=seed,
        answers=answers,
        task=task,
    )
    return measure(plan, progress=progress, resume=resume)


def measure(
    plan: CapPlan,
    *,
    progress: bool = True,
    resume: str | Path | None = None,
    start_afresh: bool = False,
    keep: Callable[[CapCurve], object] = lambda curve: None,
) -> CapCurve:
    """Run a plan, batch by batch. With ``start_afresh``, batches of another run are discarded.

    ``keep`` is given the result before the finished batches are deleted.
    """

    def compute(part: Sequence[Prepared]) -> pd.DataFrame:
        return _measure(
            plan.model,
            as_batch(part, plan.model.device, seed=plan.seed),
            plan.protocols,
            plan.layers,
            mode=plan.mode,
            renumber=plan.renumber,
        )

    with batch_by_batch(
        plan.batches,
        compute,
        plan.config,
        title=f"CAP {plan.model.name}",
        progress=progress,
        resume=resume,
        unversioned=plan.model.unversioned_hooks,
        start_afresh=start_afresh,
    ) as raw:
        curve = CapCurve.from_outcomes(
            *_tables(raw, plan), plan.config, n_layers=plan.model.n_layers
        )
        keep(curve)
        return curve


@torch.no_grad()
def _measure(
    model: LensModel,
    batch: Batch,
    protocols: Sequence[str],
    layers: Sequence[int],
    *,
    mode: str,
    renumber: bool,
) -> pd.DataFrame:
    """One batch's outcomes, the clean ones under layer ``CLEAN``."""
    affected = any(item.affected for item in batch.items)
    names = [f"blocks.{layer}.hook_resid_pre" for layer in layers] if affected else []
    logits, resid = model.capture(batch.tokens, names, attention_mask=batch.mask, read="last")
    clean = outcome_of(logits[:, -1], batch.answers, batch.candidates)
    if not affected:
        return _rows(batch, clean.cpu(), ["clean"], [CLEAN])

    def finish(
        stream: Float[Tensor, "stream pos d_model"],
        layer: int,
        mask: Int[Tensor, "stream pos"],
        positions: Int[Tensor, "stream pos"],
        row: Int[Tensor, "stream"],
    ) -> Float[Tensor, "stream 4"]:
        final = model.resume(stream, layer, attention_mask=mask, position_ids=positions)
        candidates = None if batch.candidates is None else batch.candidates[row]
        return outcome_of(final[:, -1], batch.answers[row], candidates)

    pooled = sweep(
        model,
        lambda layer: resid.pop(f"blocks.{layer}.hook_resid_pre"),
        batch.mask,
        protocols_of(protocols, batch.units, batch.shuffled),
        layers,
        finish,
        mode=mode,
        renumber=renumber,
        max_tokens=chunk_tokens(model, batch.units.n_positions, logits=True),
    )
    return pd.concat(
        [
            _rows(batch, clean.cpu(), ["clean"], [CLEAN]),
            _rows(batch, pooled.flatten(0, 2).cpu(), list(protocols), list(layers)),
        ],
        ignore_index=True,
    )


def _rows(
    batch: Batch, outcome: Float[Tensor, "rows 4"], protocols: list[str], layers: list[int]
) -> pd.DataFrame:
    n = len(batch.items)
    frame = pd.DataFrame(
        {
            "example": [item.index for item in batch.items] * (len(layers) * len(protocols)),
            "layer": [layer for layer in layers for _ in range(len(protocols) * n)],
            "pooling": [name for _ in layers for name in protocols for _ in range(n)],
            "prediction": outcome[:, 0].long().numpy(),
            "target_logprob": outcome[:, 1].double().numpy(),
            "target_rank": outcome[:, 2].long().numpy(),
        }
    )
    broken = frame[(outcome[:, 3] == 0).numpy()]
    if len(broken):
        first = broken.iloc[0]
        where = "without any intervention"
        if first["layer"] != CLEAN:
            where = f"after {first['pooling']} pooling at layer {first['layer']}"
        raise NonFiniteError(
            f"example {first['example']} gives NaN or infinite logits {where} "
            f"({len(broken)} of {len(frame)} results in its batch). Load the model in float32, "
            "and check its weights."
        )
    return frame


def _tables(raw: pd.DataFrame, plan: CapPlan) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Outcomes of every example, and the clean table; what pooling cannot change is filled in."""
    items = plan.items
    answers = {item.index: item.answer_id for item in items}
    raw["correct"] = raw["prediction"] == raw["example"].map(answers)
    clean = raw[raw["layer"] == CLEAN].drop(columns=["layer", "pooling"])
    about = pd.DataFrame(
        {
            "example": [item.index for item in items],
            "prompt": [item.example.prompt for item in items],
            "answer": [item.example.answer for item in items],
            "affected": [item.affected for item in items],
            "n_tokens": [item.n_tokens for item in items],
            "n_groups": [item.prompt.n_groups for item in items],
        }
    )
    grid = pd.MultiIndex.from_product([plan.layers, plan.protocols], names=["layer", "pooling"])
    unchanged = clean[clean["example"].isin(about.loc[~about["affected"], "example"])]
    filled = unchanged.merge(grid.to_frame(index=False), how="cross")
    outcomes = pd.concat([raw[raw["layer"] != CLEAN], filled], ignore_index=True)
    # A batch of affected examples never holds unaffected ones: into_batches keeps them apart.
    clean = about.merge(clean, on="example")
    texts = {int(token): plan.model.tokenizer.decode([int(token)]) for token in clean["prediction"]}
    clean["prediction_text"] = clean["prediction"].map(texts)
    return outcomes, clean
