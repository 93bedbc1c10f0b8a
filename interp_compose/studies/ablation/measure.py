"""``ablation_curve``: knock out words, heads or blocks, and see what is left of the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.checks import check_numbers
from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterventionError,
    NonFiniteError,
    OptionError,
)
from interp_compose.interventions.ablate import HOW
from interp_compose.interventions.ablation_sweep import (
    REACH,
    Ablation,
    AttentionKnockout,
    HeadAblation,
    SublayerAblation,
    ablation_sweep,
)
from interp_compose.interventions.mask_attention import MODES
from interp_compose.interventions.select import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import (
    batch_of_lengths,
    chunk_tokens,
    fitting_batch,
    weights_digest,
)
from interp_compose.runs.batches import batch_by_batch
from interp_compose.studies.ablation.result import ALL_WORDS, AblationCurve
from interp_compose.studies.core.inputs import Prepared, examples_digest, outcome_of, prepare
from interp_compose.tensors import pad_left
from interp_compose.text.label_set import VOCABULARY, checked_labels, stacked
from interp_compose.text.tagging import Tagger, tagger_of, unit_tags
from interp_compose.types import Example

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

    model: LensModel
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
    model: LensModel,
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
    """The arguments are :func:`.measure.ablation_curve`'s, and so is what they raise."""
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


@dataclass(frozen=True)
class Batch:
    """Examples side by side, padded on the left, so that all predict at position -1."""

    items: Sequence[Prepared]
    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    answers: Int[Tensor, "batch"]
    candidates: Int[Tensor, "batch label"] | None


def prepare_any(
    model: LensModel,
    examples: Iterable[Example | Mapping[str, Any] | str],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
    answers: str | Sequence[str] = VOCABULARY,
) -> tuple[list[Prepared], bool]:
    """Examples with their answers, or bare texts, which have none yet; and whether they are bare.

    Raises:
        InputError: some texts and some examples; bare texts with a list of labels; see
            :func:`.prepared.prepare` for what else.
    """
    rows: list[Any] = list(examples)
    bare = [isinstance(row, str) for row in rows]
    if any(bare) and not all(bare):
        raise InputError(
            f"example {bare.index(not bare[0])} is of another kind than example 0; expected texts "
            "alone, or examples with their answers alone."
        )
    if any(bare) and checked_labels(answers) is not None:
        raise InputError(
            "bare texts have no answers of their own, so labels mean nothing for them; give "
            "examples with prompt and answer, or leave answers out."
        )
    items = prepare(
        model,
        [Example(text, "") for text in rows] if any(bare) else rows,
        unit=unit,
        labels=labels,
        height=height,
        parser=parser,
        answered=not any(bare),
        answers=answers,
    )
    return items, any(bare)


@torch.no_grad()
def with_predictions(model: LensModel, items: Sequence[Prepared]) -> list[Prepared]:
    """One batch, the answers being the tokens that the untouched model predicts in it."""
    batch = as_batch(items, model.device)
    logits = model.forward(batch.tokens, attention_mask=batch.mask, read="last")
    out = []
    for item, answer in zip(items, logits[:, -1].argmax(dim=1).tolist(), strict=True):
        example = replace(item.example, answer=model.tokenizer.decode([answer]))
        out.append(replace(item, example=example, answer_id=answer))
    return out


def words_of(item: Prepared) -> list[int]:
    """The units that another position comes after: those whose knocking out can change anything."""
    groups = item.prompt.groups
    return [unit for unit in range(item.prompt.n_groups) if groups[-1] != unit]


def into_batches(items: Sequence[Prepared], size: int) -> list[list[Prepared]]:
    """Examples of like length together; always the same way."""
    ordered = sorted(items, key=lambda item: (item.n_tokens, item.index))
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def as_batch(items: Sequence[Prepared], device: torch.device) -> Batch:
    """Pad on the left and move to ``device``."""
    tokens, mask, _ = pad_left(
        [item.prompt.ids for item in items], [item.prompt.groups < 0 for item in items]
    )
    answers = torch.tensor([item.answer_id for item in items])
    candidates = stacked([item.candidates for item in items])
    return Batch(
        items,
        tokens.to(device),
        mask.to(device),
        answers.to(device),
        None if candidates is None else candidates.to(device),
    )


CLEAN = -1  # the layer under which a batch's clean outcomes are stored
REFERENCE = 64  # examples whose activations stand in for those of an ablated head
UNCHANGED = 1e-5  # nats that rounding alone may move a log-probability in float32


@public
def ablation_curve(
    model: LensModel,
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
            :func:`.text.units.tokenize_prompts`.
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
    """Run a plan, batch by batch; see :func:`.cap.measure.measure` for the arguments."""
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

        outcomes = ablation_sweep(
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
) -> tuple[Ablation, list[int]]:
    """The batch's cells, and the unit (word, head; 0 for a block) of each."""
    device = batch.tokens.device
    if plan.what in PARTS:
        rows = torch.arange(len(batch.items), device=device)
        return SublayerAblation(rows, PARTS[plan.what]), [0] * len(batch.items)
    if plan.what == "heads":
        n_heads = plan.model.n_heads
        rows = torch.arange(len(batch.items), device=device).repeat_interleave(n_heads)
        heads = torch.arange(n_heads, device=device).repeat(len(batch.items))
        return HeadAblation(rows, heads, _instead(plan, pool, batch)), heads.tolist()
    width = batch.tokens.shape[1]
    cells = [(row, unit) for row, item in enumerate(batch.items) for unit in words_of(item)]
    keys = np.zeros((len(cells), width), dtype=bool)
    queries = np.zeros_like(keys)
    for cell, (row, unit) in enumerate(cells):
        groups = batch.items[row].prompt.groups
        at = np.flatnonzero(groups == unit) + width - len(groups)
        keys[cell, at] = True
        queries[cell, at[-1] + 1 :] = True
    knockout = AttentionKnockout(
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
