"""``ablation_curve``: knock out words, heads or blocks, and see what is left of the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.types import Example, HookedModel
from interp_compose.errors import InterventionError, NonFiniteError
from interp_compose.interventions.ablation_sweep import knock_sweep
from interp_compose.interventions.ablation_sweep__knockouts import HeadsOut, Knockout, PartsOut, WordsOut
from interp_compose.studies.ablation.result import ALL_WORDS, AblationCurve
from interp_compose.studies.ablation.measure__ablation_plan import PARTS, AblationPlan, plan_ablation
from interp_compose.studies.ablation.measure__ablation_prepare import Batch, as_batch, into_batches, words_of
from interp_compose.runs.batches import batch_by_batch
from interp_compose.models.memory import chunk_tokens
from interp_compose.studies.core.inputs__outcomes import outcome_of
from interp_compose.studies.core.inputs import Prepared

CLEAN = -1  # the layer under which a batch's clean outcomes are stored
REFERENCE = 64  # examples whose activations stand in for those of an ablated head
UNCHANGED = 1e-5  # nats that rounding alone may move a log-probability in float32


@public
def ablation_curve(
    model: HookedModel,
    examples: Iterable[Example | Mapping[str, Any] | str],
    *,
    what: str = "words",
    unit: str = "word",
    labels: frozenset[str] | None = None,
    height: int | None = None,
    parser: str | None = None,
    tagger: Any = None,
    reach: str | None = None,
    mode: str = "exclude",
    how: str = "zero",
    layers: Sequence[int | float] | None = None,
    batch_size: int | None = None,
    seed: int = 42,
    answers: str | Sequence[str] = "vocabulary",
    task: str = "",
    progress: bool = True,
    resume: str | Path | None = None,
) -> AblationCurve:
    """Knock out one thing at a time, at each layer, and follow the answer.

    ``what="words"``: later positions cannot attend to a word's tokens (:func:`mask_attention`;
    complexity control, section V), each word in turn. ``"heads"``: a head's output is replaced
    (:func:`ablate`), each head in turn. ``"layers"``, ``"attn"``, ``"mlp"``: a block, its attention
    or its MLP adds nothing to the residual (:func:`mask_residual`), at every position.

    Args:
        model: from :func:`load_model`, in evaluation mode.
        examples: a task's, dictionaries with ``prompt`` and ``answer``, or bare texts, whose answer
            is the token that the untouched model predicts: all of them are right at first.
        what: see above.
        unit, labels, height, parser: for words: what a word is; see
            :func:`.text.words.tokenize_prompts`.
        tagger: for words: tells kinds of words apart; ``"kind"``, a spaCy pipeline or its name, or
            a function (:func:`.text.tagging.tagger_of`).
        reach: the knockout at layer ℓ acts in ℓ and all layers above (``"from"``, usual for words),
            in ℓ alone (``"at"``, usual for all else), or in 0 … ℓ (``"until"``).
        mode: for words: ``"exclude"`` or ``"zero"``, see :func:`mask_attention`.
        how: for heads: ``"zero"``, or ``"mean"`` or ``"resample"`` over all tokens of at most 64
            of the examples, drawn by ``seed`` and run untouched. ``"resample"`` draws one of these
            tokens for each position of each example, the same one for all heads and layers.
        layers: numbers or depths; all by default.
        batch_size: examples per batch; by default what fits a fixed memory budget.
        seed: see ``how``.
        answers: what the prediction is chosen among: ``"vocabulary"``, or a list of labels (CARMA,
            eq. 10), such as ``task.labels``; then ranks and log-probabilities are those among
            them.
        task: a name for the figure's title.
        progress: show a bar.
        resume: folder in which finished batches are kept until the end, so that an interrupted
            call, made again, goes on and ends in the same result.

    Returns:
        An :class:`AblationCurve` with ``.frame``, ``.outcomes``, ``.clean``, ``.plot()``,
        ``.heatmap()``, ``.save()``.

    Raises:
        InputError: before any work, with the value and the remedy.
        CapabilityError: a probe shows that the model does not honour what this needs.
        InterventionError: there is no word to knock out, or no knockout changed any number.
        TrainingModeError, NonFiniteError: see their names.
    """
    plan = plan_ablation(
        model,
        examples,
        what=what,
        unit=unit,
        labels=labels,
        height=height,
        parser=parser,
        tagger=tagger,
        reach=reach,
        mode=mode,
        how=how,
        layers=layers,
        batch_size=batch_size,
        seed=seed,
        answers=answers,
        task=task,
    )
    return measure(plan, progress=progress, resume=resume)


def measure(
    plan: AblationPlan,
    *,
    progress: bool = True,
    resume: str | Path | None = None,
    start_afresh: bool = False,
    keep: Callable[[AblationCurve], object] = lambda curve: None,
) -> AblationCurve:
    """Run a plan, batch by batch; see :func:`.cap_measure.measure` for the arguments."""
    pool = _reference(plan) if plan.how != "zero" else {}
    with batch_by_batch(
        plan.batches,
        partial(_measure, plan, pool),
        plan.config,
        title=f"ablation {plan.model.name}",
        progress=progress,
        resume=resume,
        unversioned=plan.model.unversioned_hooks,
        start_afresh=start_afresh,
    ) as raw:
        curve = AblationCurve.from_outcomes(
            *_tables(raw, plan), plan.config, n_layers=plan.model.n_layers
        )
        keep(curve)
        return curve


@torch.no_grad()
def _measure(
    plan: AblationPlan, pool: Mapping[int, Tensor], items: Sequence[Prepared]
) -> pd.DataFrame:
    """One batch's outcomes, the clean ones under layer ``CLEAN``."""
    model, batch = plan.model, as_batch(items, plan.model.device)
    knockout, units = _knockout(plan, pool, batch)
    starts = [0] if plan.reach == "until" else list(plan.layers)
    names = [f"blocks.{layer}.hook_resid_pre" for layer in starts] if units else []
    logits, resid = model.capture(batch.tokens, names, attention_mask=batch.mask, read="last")
    clean = outcome_of(logits[:, -1], batch.answers, batch.candidates)
    index = [item.index for item in items]
    frames = [_rows(clean, [CLEAN], index, [0] * len(items))]
    if units:

        def outcome(
            logits: Float[Tensor, "cell pos d_vocab"], row: Int[Tensor, "cell"]
        ) -> Float[Tensor, "cell 4"]:
            candidates = None if batch.candidates is None else batch.candidates[row]
            return outcome_of(logits[:, -1], batch.answers[row], candidates)

        outcomes = knock_sweep(
            model,
            lambda layer: resid.pop(f"blocks.{layer}.hook_resid_pre"),
            batch.mask,
            knockout,
            plan.layers,
            outcome,
            reach=plan.reach,
            max_tokens=chunk_tokens(model, batch.tokens.shape[1], logits=True),
        )
        examples = [index[row] for row in knockout.row.tolist()]
        frames.append(_rows(outcomes.flatten(0, 1), plan.layers, examples, units))
    return pd.concat(frames, ignore_index=True)


def _knockout(
    plan: AblationPlan, pool: Mapping[int, Tensor], batch: Batch
) -> tuple[Knockout, list[int]]:
    """The batch's cells, and the unit (word, head; 0 for a block) of each."""
    device = batch.tokens.device
    if plan.what in PARTS:
        rows = torch.arange(len(batch.items), device=device)
        return PartsOut(rows, PARTS[plan.what]), [0] * len(batch.items)
    if plan.what == "heads":
        n_heads = plan.model.n_heads
        rows = torch.arange(len(batch.items), device=device).repeat_interleave(n_heads)
        heads = torch.arange(n_heads, device=device).repeat(len(batch.items))
        return HeadsOut(rows, heads, _instead(plan, pool, batch)), heads.tolist()
    width = batch.tokens.shape[1]
    cells = [(row, unit) for row, item in enumerate(batch.items) for unit in words_of(item)]
    keys = np.zeros((len(cells), width), dtype=bool)
    queries = np.zeros_like(keys)
    for cell, (row, unit) in enumerate(cells):
        groups = batch.items[row].prompt.groups
        at = np.flatnonzero(groups == unit) + width - len(groups)
        keys[cell, at] = True
        queries[cell, at[-1] + 1 :] = True
    knockout = WordsOut(
        torch.tensor([row for row, _ in cells], dtype=torch.long, device=device),
        torch.from_numpy(keys).to(device),
        torch.from_numpy(queries).to(device),
        plan.mode == "exclude",
    )
    return knockout, [unit for _, unit in cells]


@torch.no_grad()
def _reference(plan: AblationPlan) -> dict[int, Float[Tensor, "token head d_head"]]:
    """By layer, what the heads give at every token of some of the examples."""
    n = len(plan.items)
    drawn = np.random.default_rng(plan.seed).permutation(n)[:REFERENCE].tolist()
    names = {layer: f"blocks.{layer}.attn.hook_z" for layer in plan.layers}
    z: dict[int, dict[int, Tensor]] = {layer: {} for layer in plan.layers}
    for part in into_batches([plan.items[i] for i in drawn], plan.config["batch_size"]):
        batch = as_batch(part, plan.model.device)
        _, found = plan.model.capture(
            batch.tokens, list(names.values()), attention_mask=batch.mask, read="last"
        )
        for row, item in enumerate(part):
            for layer, name in names.items():
                z[layer][item.index] = found[name][row, -item.n_tokens :]
    # In the examples' order: tokens are drawn by number, and batches may be of any size.
    return {layer: torch.cat([of[i] for i in sorted(of)]) for layer, of in z.items()}


def _instead(
    plan: AblationPlan, pool: Mapping[int, Tensor], batch: Batch
) -> dict[int, Float[Tensor, "..."]]:
    """What a head's output is replaced by, in each layer."""
    if plan.how == "zero":
        return {}
    if plan.how == "mean":
        return {layer: of_layer.float().mean(dim=0) for layer, of_layer in pool.items()}
    draws = torch.zeros_like(batch.tokens, device="cpu")
    n_tokens = len(next(iter(pool.values())))
    for row, item in enumerate(batch.items):  # an example's draws are its own, in any batch
        generator = np.random.default_rng([plan.seed, item.index])
        draws[row, -item.n_tokens :] = torch.from_numpy(
            generator.integers(n_tokens, size=item.n_tokens)
        )
    draws = draws.to(batch.tokens.device)
    return {layer: of_layer[draws] for layer, of_layer in pool.items()}


def _rows(
    outcome: Float[Tensor, "rows 4"],
    layers: Sequence[int],
    examples: Sequence[int],
    units: Sequence[int],
) -> pd.DataFrame:
    outcome = outcome.cpu()
    frame = pd.DataFrame(
        {
            "example": list(examples) * len(layers),
            "layer": [layer for layer in layers for _ in examples],
            "unit": list(units) * len(layers),
            "prediction": outcome[:, 0].long().numpy(),
            "target_logprob": outcome[:, 1].double().numpy(),
            "target_rank": outcome[:, 2].long().numpy(),
        }
    )
    broken = frame[(outcome[:, 3] == 0).numpy()]
    if len(broken):
        example, layer = broken[["example", "layer"]].iloc[0]
        where = "untouched" if layer == CLEAN else f"ablated at layer {layer}"
        raise NonFiniteError(
            f"example {example} gives NaN or infinite logits {where} ({len(broken)} of "
            f"{len(frame)} results in its batch). Load the model in float32, and check its weights."
        )
    return frame


def _tables(
    raw: pd.DataFrame, plan: AblationPlan
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Outcomes, the clean table, and what the cells are."""
    answers = {item.index: item.answer_id for item in plan.items}
    raw["correct"] = raw["prediction"] == raw["example"].map(answers)
    clean = raw[raw["layer"] == CLEAN].drop(columns=["layer", "unit"])
    outcomes = raw[raw["layer"] != CLEAN].reset_index(drop=True)
    about = pd.DataFrame(
        {
            "example": [item.index for item in plan.items],
            "prompt": [item.example.prompt for item in plan.items],
            "answer": [item.example.answer for item in plan.items],
            "n_tokens": [item.n_tokens for item in plan.items],
        }
    )
    clean = about.merge(clean, on="example")
    texts = {int(token): plan.model.tokenizer.decode([int(token)]) for token in clean["prediction"]}
    clean["prediction_text"] = clean["prediction"].map(texts)
    before = outcomes["example"].map(clean.set_index("example")["target_logprob"])
    if bool(((outcomes["target_logprob"] - before).abs() <= UNCHANGED).all()):
        raise InterventionError(
            f"what={plan.what!r} changed nothing: none of {len(outcomes)} outcomes differs from "
            f"the untouched model's by more than {UNCHANGED} nats. Check that the model's answers "
            "depend on what was knocked out."
        )
    return outcomes, clean, _cells(plan)


def _cells(plan: AblationPlan) -> pd.DataFrame:
    """One row per example and unit: its text and its group in the summary."""
    if plan.what != "words":
        units = range(plan.model.n_heads) if plan.what == "heads" else [0]
        name = "block" if plan.what == "layers" else plan.what
        groups = [str(unit) if plan.what == "heads" else name for unit in units]
        return pd.DataFrame({"example": -1, "unit": list(units), "text": groups, "group": groups})
    rows = [
        (item.index, unit, item.prompt.group_text(unit), plan.tags.get(item.index))
        for item in plan.items
        for unit in words_of(item)
    ]
    return pd.DataFrame(
        {
            "example": [row[0] for row in rows],
            "unit": [row[1] for row in rows],
            "text": [row[2] for row in rows],
            "group": [row[3][row[1]] if row[3] else ALL_WORDS for row in rows],
        }
    )
