"""``cap_curve``: measure what pooling at each layer leaves of a model's accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.types import Example, HookedModel
from interp_compose.errors import NonFiniteError
from interp_compose.interventions.pooling_sweep import protocols_of, sweep
from interp_compose.runs.batches import batch_by_batch
from interp_compose.models.memory import chunk_tokens
from interp_compose.studies.cap.result import POOLINGS, CapCurve
from interp_compose.studies.cap.measure__cap_plan import CapPlan, plan_cap
from interp_compose.studies.cap.measure__cap_prepare import Batch, as_batch
from interp_compose.studies.core.inputs__outcomes import outcome_of
from interp_compose.studies.core.inputs import Prepared

CLEAN = -1  # the layer number under which a batch's clean outcomes are stored


@public
def cap_curve(
    model: HookedModel,
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
        unit: ``"word"``, ``"pretoken"``, ``"phrase"`` or ``"span"`` (:mod:`.text.words`).
        labels, height, parser: which phrases; see :func:`.text.words.tokenize_prompts`.
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
    model: HookedModel,
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
        max_tokens=chunk_tokens(model, batch.units.n_slots, logits=True),
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
