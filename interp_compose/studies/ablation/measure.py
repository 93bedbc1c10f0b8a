"""``ablation_curve``: knock out words, heads or blocks, and see what is left of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.checks import check_numbers
from interp_compose.errors import InputError, InterventionError, LayerError, OptionError
from interp_compose.interventions.ablation_sweep import (
    Ablation,
    AttentionKnockout,
    HeadAblation,
    SublayerAblation,
    ablation_sweep,
)
from interp_compose.models.enough_memory import least_bytes
from interp_compose.models.layers import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import chunk_tokens
from interp_compose.models.texts import output_tokenizer
from interp_compose.studies.ablation.options import AblationCommand, AblationOptions
from interp_compose.studies.ablation.result import ALL_WORDS, AblationCurve
from interp_compose.studies.core.command import run_on_task
from interp_compose.studies.core.data import HasTest
from interp_compose.studies.core.inputs import (
    CLEAN,
    AnswerTargets,
    PreparedExample,
    PromptBatch,
    answer_lengths_of,
    batch_size_of,
    check_decoder,
    counts_of,
    examples_digest,
    into_batches,
    outcome_rows,
    predictions_of,
    prepare,
    split_clean,
    texts_of_example,
)
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.study import Prepared, config_of, measured, prepared_of
from interp_compose.tasks.examples import ExampleRow
from interp_compose.tasks.rows import Tables
from interp_compose.text.label_set import VOCABULARY, checked_answers
from interp_compose.text.tagging import Tagger, tagger_of, unit_tags
from interp_compose.types import Example

PARTS: Final = {
    "layers": ("attn", "cross_attn", "mlp"),
    "attn": ("attn",),
    "cross_attn": ("cross_attn",),
    "mlp": ("mlp",),
}
NEEDS: Final = {
    "words": "mask_attention",
    "heads": "edit_z",
    **dict.fromkeys(PARTS, "drop_parts"),
}


REFERENCE: Final = 64
"""Examples whose activations replace those of an ablated head."""
UNCHANGED: Final = 1e-5
"""Nats that rounding alone may move a log-probability in float32."""


@keywords(AblationOptions)
def ablation_curve(
    model: LensModel,
    examples: Iterable[ExampleRow | str] | HasTest | Tables,
    options: AblationOptions,
) -> AblationCurve:
    """Knock out one thing at a time, at each layer, and follow the answer.

    ``what="words"``: later positions cannot attend to a word's tokens (:func:`mask_attention`;
    complexity control, section V), each word in turn. ``"heads"``: a head's output is replaced
    (:func:`ablate`), each head in turn. ``"layers"``, ``"attn"``, ``"mlp"``: a block, its attention
    or its MLP adds nothing to the residual (:func:`mask_residual`), at every position.

    In an encoder–decoder no other position can attend to the word, whether later or not; heads of a
    decoder's layer are those of self- and of cross-attention with the same number; ``"attn"`` is
    self-attention, and ``"cross_attn"`` the decoder's cross-attention.

    Args:
        model: from :func:`load_model`, in evaluation mode.
        examples: a task, a table or a list, as :func:`cap_curve` takes them; or bare texts,
            whose answer is the token that the clean model predicts: all are right at first.
        options: every option.

    Returns:
        An :class:`AblationCurve` with ``.frame``, ``.outcomes``, ``.clean``, ``.plot()``,
        ``.heatmap()``, ``.save()``.

    Raises:
        InputError: before any work, with the value and the remedy.
        CapabilityError: a probe shows that the model does not honour what this needs.
        InterventionError: there is no word to knock out, or no knockout changed any number.
        TrainingModeError, NonFiniteError: see their names.
    """
    prepared = prepared_of(prepare_ablation, model, examples, options)
    return measured(prepared, progress=options.progress, resume=options.resume)


def run(command: AblationCommand) -> AblationCurve | str:
    """The command ``interp-compose ablate``."""
    return run_on_task(command, prepare_ablation)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedAblation(Prepared[AblationCurve]):
    """Examples, and what is knocked out of each of them.

    Attributes:
        items: the examples.
        options: of the curve, ``reach`` stated.
        layers: of the knockouts, ascending.
        references: what replaces the output of heads.
        tags: of each example's words, where a tagger was given.
    """

    items: Sequence[PreparedExample]
    options: AblationOptions
    layers: Sequence[int]
    references: References
    tags: Mapping[int, list[str]]

    def least_bytes(self, items: Sequence[PreparedExample]) -> int:
        """Of the clean pass, or of a stream for each cell."""
        length, what = max(item.n_tokens for item in items), self.options.what
        n_layers = 1 if self.options.reach == "until" else len(self.layers)
        cells = len(items) * (self.model.n_heads if what == "heads" else 1)
        if what == "words":
            cells = sum(len(words_of(item, self.options.unit)) for item in items)
        return least_bytes(
            self.model,
            len(items),
            length,
            captured=n_layers * len(items) * length if cells else 0,
            positions=n_layers * cells * length,
            together=(n_layers * cells, n_layers * cells * length),
            n_read=max(len(item.answer_ids) for item in items),
        )

    def rows(self, items: Sequence[PreparedExample]) -> pd.DataFrame:
        """One batch's outcomes, the clean ones under layer ``CLEAN``."""
        model, options, layers = self.model, self.options, self.layers
        batch = PromptBatch.of([item.prompt for item in items], model.device)
        targets = AnswerTargets.of(items, model.device)
        knockout, units = _knockout(model, items, batch, options, self.references)
        starts = [0] if options.reach == "until" else layers
        names = [f"blocks.{layer}.hook_resid_pre" for layer in starts] if units else []
        logits, resid = model.capture(
            batch.tokens, names, attention_mask=batch.mask, read=targets.read
        )
        index = [item.index for item in items]
        frames = [_rows(targets.outcomes(logits), [CLEAN], index, [0] * len(items))]
        if units:
            outcomes = ablation_sweep(
                model,
                lambda layer: resid.pop(f"blocks.{layer}.hook_resid_pre"),
                batch.mask,
                model.positions(batch.tokens, batch.mask),
                knockout,
                layers,
                targets.outcomes,
                reach=str(options.reach),
                max_tokens=chunk_tokens(model, batch.tokens.shape[1], logits=targets.n_read),
                read=targets.read,
            )
            examples = [index[row] for row in knockout.row.tolist()]
            frames.append(_rows(outcomes.flatten(0, 1), layers, examples, units))
        return pd.concat(frames, ignore_index=True)

    def result(self, rows: pd.DataFrame) -> AblationCurve:
        """The curve; refused where no knockout moved any log-probability."""
        outcomes, clean = split_clean(
            rows, self.model, self.items, ["layer", "unit"], self.options.answers
        )
        clean_logprob = outcomes["example"].map(clean.set_index("example")["target_logprob"])
        if bool(((outcomes["target_logprob"] - clean_logprob).abs() <= UNCHANGED).all()):
            raise InterventionError(
                f"what={self.options.what!r} changed nothing: none of {len(outcomes)} outcomes "
                f"differs from the clean model's by more than {UNCHANGED} nats. Check that the "
                "model's answers depend on what was knocked out."
            )
        cells = _cells(self.items, self.tags, self.options, self.model.n_heads)
        clean = clean.drop(columns=["affected", "n_groups"])
        return AblationCurve.from_outcomes(
            outcomes,
            clean,
            cells,
            self.config,
            n_layers=self.model.n_layers,
            predictions=predictions_of(self.model, outcomes),
        )


def prepare_ablation(
    model: LensModel, examples: Iterable[ExampleRow | str], options: AblationOptions
) -> PreparedAblation:
    """Check everything that knockouts need, before any is measured.

    Raises:
        InputError, InterventionError, CapabilityError: as :func:`ablation_curve`.
    """
    check_numbers(options.seed, options.batch_size)
    reach = _checked_reach(options)
    check_decoder(model, "use mask_attention and model.encode")
    layers = _layers(model, options)
    tagger = None if options.tagger is None else tagger_of(options.tagger)
    items, skipped, bare = prepare_any(model, examples, options)
    model.require("resume", NEEDS[options.what])
    if options.what == "words" and not any(words_of(item, options.unit) for item in items):
        raise InterventionError(
            f"none of the {len(items)} examples has a {options.unit} before its last token, so "
            "there is nothing to knock out. Use longer prompts."
        )
    if options.what == "words" and model.recurrent_target:
        with_target = next((item for item in items if item.example.target), None)
        if with_target is not None:
            raise InterventionError(
                f"example {with_target.index} begins its target with "
                f"{with_target.example.target!r}, and the decoder of {model.name!r} reads words of "
                "a target in a recurrent unit and not by attention, so that what='words' could "
                "knock out those of the source alone. Leave the examples' target out."
            )
    tags = {} if tagger is None else _tags(items, tagger)
    most_words = max(len(words_of(item, options.unit)) for item in items)
    cells = {"words": most_words, "heads": model.n_heads}
    streams = (len(layers) + 1) * max(1, cells.get(options.what, 1))
    longest = max(item.n_tokens for item in items)
    size = batch_size_of(model, items, options, streams, longest)
    batches = batches_of(items, size)
    if bare:
        batches = [with_predictions(model, part) for part in batches]
        items = sorted(chain.from_iterable(batches), key=lambda item: item.index)
    of_words = options.what == "words"
    config = config_of(
        "ablation",
        model,
        options,
        layers=layers,
        batch_size=size,
        reach=reach,
        mode=options.mode if of_words else None,
        how=options.how if options.what == "heads" else None,
        unit=options.unit if of_words else None,
        tagger=_name_of(options.tagger),
        n_heads=model.n_heads,
        n_examples=len(items),
        examples_sha256=examples_digest(items),
        **answer_lengths_of(items, options),
        **counts_of(skipped, map(texts_of_example, items)),
    )
    options = replace(options, reach=reach)
    return PreparedAblation(
        kind=AblationCurve,
        model=model,
        config=config,
        batches=batches,
        items=items,
        options=options,
        layers=layers,
        references=References(items, options, layers, size),
        tags=tags,
    )


def _layers(model: LensModel, options: AblationOptions) -> list[int]:
    """Layers of the knockouts; for cross-attention, those that have it."""
    layers = resolve_layers(options.layers, model.n_layers)
    if options.what != "cross_attn":
        return layers
    has_it = [layer for layer in layers if "cross_attn" in model.sublayers(layer)]
    if not has_it or (options.layers is not None and has_it != layers):
        lacking = sorted({*layers} - {*has_it})
        raise LayerError(
            f"what='cross_attn': layers {lacking} of {model.name!r} ({model.architecture}) have no "
            "cross-attention, which only the decoder of an encoder–decoder has."
        )
    return has_it


def _checked_reach(options: AblationOptions) -> Literal["from", "at", "until"]:
    """``reach``, or what is usual for ``what``; options that belong to another ``what`` refused."""
    what, reach = options.what, options.reach
    for name, value, usual, belongs in (
        ("mode", options.mode, "exclude", "words"),
        ("unit", options.unit, "word", "words"),
        ("tagger", options.tagger, None, "words"),
        ("how", options.how, "zero", "heads"),
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


def _tags(items: Sequence[PreparedExample], tagger: Tagger) -> dict[int, list[str]]:
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
    return f"{getattr(tagger, '__qualname__', type(tagger).__qualname__)}()"


def prepare_any(
    model: LensModel,
    examples: Iterable[ExampleRow | str],
    options: AblationOptions,
) -> tuple[list[PreparedExample], dict[str, int], bool]:
    """Examples with their answers, or bare texts, which have none yet; how many were left out, for
    what of them; and whether they are bare.

    Raises:
        InputError: some texts and some examples; bare texts with labels, foils or
            answers of several tokens; see :func:`.inputs.prepare` for what else.
    """
    rows: list[Any] = list(examples)
    bare = [isinstance(row, str) for row in rows]
    if any(bare) and not all(bare):
        raise InputError(
            f"example {bare.index(not bare[0])} is of another kind than example 0; expected texts "
            "alone, or examples with their answers alone."
        )
    if any(bare) and checked_answers(options.answers) != VOCABULARY:
        raise InputError(
            "bare texts have no answers of their own, so labels and foils mean nothing for "
            "them; give examples with prompt and answer, or leave answers out."
        )
    if any(bare) and options.multi_token_answers:
        raise InputError(
            "bare texts have no answers of their own, so multi_token_answers=True has no meaning "
            "for them; give examples with prompt and answer, or leave it out."
        )
    items, skipped = prepare(
        model,
        [Example(text, "") for text in rows] if any(bare) else rows,
        options,
        answered=not any(bare),
    )
    return items, skipped, any(bare)


@torch.no_grad()
def with_predictions(model: LensModel, items: Sequence[PreparedExample]) -> list[PreparedExample]:
    """One batch, the answers being the tokens that the clean model predicts in it."""
    batch = PromptBatch.of([item.prompt for item in items], model.device)
    logits = model.forward(batch.tokens, attention_mask=batch.mask, read="last")
    answered = []
    for item, answer in zip(items, logits[:, -1].argmax(dim=1).tolist(), strict=True):
        example = replace(item.example, answer=output_tokenizer(model).decode([answer]))
        answered.append(replace(item, example=example, answer_ids=(answer,)))
    return answered


def words_of(item: PreparedExample, unit: str) -> list[int]:
    """The units that another position of the prompt comes after: of an answer of one token, those
    whose knocking out can change anything. With ``unit="span"``, only the example's own spans."""
    prompt, last = item.prompt, item.prompt.groups[item.n_before - 1]
    groups = [group for group in range(prompt.n_groups) if last != group]
    return [group for group in groups if _in_span(item, group)] if unit == "span" else groups


def _in_span(item: PreparedExample, group: int) -> bool:
    """Whether the group's tokens share a character with a span of the example, blanks at the
    span's edges aside, which may be in the tokens around it."""
    prompt, spans = item.prompt, item.example.spans or ()
    starts, ends = prompt.offsets[prompt.groups == group].T
    texts = [(low, prompt.text[low:high]) for low, high in spans]
    inner = [
        (low + len(text) - len(text.lstrip()), low + len(text.rstrip())) for low, text in texts
    ]
    return any(bool(((starts < high) & (ends > low)).any()) for low, high in inner)


def batches_of(items: Sequence[PreparedExample], size: int) -> list[list[PreparedExample]]:
    """Examples of like length together; always the same way."""
    return into_batches(items, size, lambda item: (item.n_tokens, item.index))


def _knockout(
    model: LensModel,
    items: Sequence[PreparedExample],
    batch: PromptBatch,
    options: AblationOptions,
    references: References,
) -> tuple[Ablation, list[int]]:
    """The batch's cells, and the unit (word, head; 0 for a block) of each."""
    device = batch.tokens.device
    if options.what in PARTS:
        rows = torch.arange(len(items), device=device)
        return SublayerAblation(rows, PARTS[options.what]), [0] * len(items)
    if options.what == "heads":
        n_heads = model.n_heads
        rows = torch.arange(len(items), device=device).repeat_interleave(n_heads)
        heads = torch.arange(n_heads, device=device).repeat(len(items))
        outputs = references.replacements(model, items, batch)
        return HeadAblation(rows, heads, outputs), heads.tolist()
    width = batch.tokens.shape[1]
    cells = [(row, unit) for row, item in enumerate(items) for unit in words_of(item, options.unit)]
    keys = np.zeros((len(cells), width), dtype=bool)
    queries = np.zeros_like(keys)
    for cell, (row, unit) in enumerate(cells):
        groups = items[row].prompt.groups
        positions = np.flatnonzero(groups == unit) + width - len(groups)
        keys[cell, positions] = True
        if len(model.stacks) > 1:  # an encoder's words are attended to by earlier ones as well
            queries[cell] = ~keys[cell]
        else:
            queries[cell, positions[-1] + 1 :] = True
    knockout = AttentionKnockout(
        torch.tensor([row for row, _ in cells], dtype=torch.long, device=device),
        torch.from_numpy(keys).to(device),
        torch.from_numpy(queries).to(device),
        options.mode == "exclude",
    )
    return knockout, [unit for _, unit in cells]


class References:
    """What replaces the output of ablated heads: their outputs at all tokens of some examples."""

    def __init__(
        self,
        items: Sequence[PreparedExample],
        options: AblationOptions,
        layers: Sequence[int],
        batch_size: int,
    ) -> None:
        self.items, self.options = items, options
        self.layers, self.batch_size = layers, batch_size
        self._outputs: dict[str, Float[Tensor, "token head d_head"]] = {}

    def replacements(
        self, model: LensModel, items: Sequence[PreparedExample], batch: PromptBatch
    ) -> dict[str, Float[Tensor, "..."]]:
        """By hook point, for the examples of a batch: nothing for zeros, a mean [head d_head], or
        resampled outputs [batch pos head d_head]."""
        if self.options.how == "zero":
            return {}
        self._outputs = outputs = self._outputs or self._captured(model)
        if self.options.how == "mean":
            return {name: of_head.float().mean(dim=0) for name, of_head in outputs.items()}
        draws = {n: self._draws(items, batch, n) for n in {len(of) for of in outputs.values()}}
        return {
            name: of_head[draws[len(of_head)].to(of_head.device)]
            for name, of_head in outputs.items()
        }

    def _draws(
        self, items: Sequence[PreparedExample], batch: PromptBatch, n_tokens: int
    ) -> Int[Tensor, "batch pos"]:
        """A token of the references for each position."""
        draws = torch.zeros_like(batch.tokens, device="cpu")
        for row, item in enumerate(items):  # an example's draws are its own, in any batch
            generator = np.random.default_rng([self.options.seed, item.index])
            draws[row, -item.n_tokens :] = torch.from_numpy(
                generator.integers(n_tokens, size=item.n_tokens)
            )
        return draws.to(batch.tokens.device)

    def _captured(self, model: LensModel) -> dict[str, Float[Tensor, "token head d_head"]]:
        """By hook point, in the order of the examples: tokens are drawn by number, and batches may
        be of any size."""
        order = np.random.default_rng(self.options.seed).permutation(len(self.items))
        chosen = [self.items[i] for i in order[:REFERENCE].tolist()]
        sites = {
            f"{model.prefix(layer)}.{site.name}.hook_z": site.queries
            for layer in self.layers
            for site in model.attention_sites(layer)
        }
        z: dict[str, dict[int, Tensor]] = {name: {} for name in sites}
        for part in batches_of(chosen, self.batch_size):
            batch = PromptBatch.of([item.prompt for item in part], model.device)
            _, captured = model.capture_as_shown(
                batch.tokens, list(sites), attention_mask=batch.mask, read="last"
            )
            for name, side in sites.items():
                real = model.own_mask(batch.tokens, batch.mask, side)
                for row, item in enumerate(part):
                    here = real[row].to(captured[name].device)
                    z[name][item.index] = captured[name][row, here]
        return {name: torch.cat([parts[i] for i in sorted(parts)]) for name, parts in z.items()}


def _rows(
    outcomes: Float[Tensor, "rows 4"],
    layers: Sequence[int],
    examples: Sequence[int],
    units: Sequence[int],
) -> pd.DataFrame:
    place = {
        "example": list(examples) * len(layers),
        "layer": [layer for layer in layers for _ in examples],
        "unit": list(units) * len(layers),
    }
    return outcome_rows(outcomes, place, "ablated at layer {0.layer}")


def _cells(
    items: Sequence[PreparedExample],
    tags: Mapping[int, Sequence[str]],
    options: AblationOptions,
    n_heads: int,
) -> pd.DataFrame:
    """One row per example and unit: its text and its group in the summary."""
    what = options.what
    if what != "words":
        units = range(n_heads) if what == "heads" else [0]
        name = "block" if what == "layers" else what
        groups = [str(unit) if what == "heads" else name for unit in units]
        return pd.DataFrame({"example": -1, "unit": list(units), "text": groups, "group": groups})
    rows = [
        (item.index, unit, item.prompt.group_text(unit), tags.get(item.index))
        for item in items
        for unit in words_of(item, options.unit)
    ]
    return pd.DataFrame(
        {
            "example": [row[0] for row in rows],
            "unit": [row[1] for row in rows],
            "text": [row[2] for row in rows],
            "group": [row[3][row[1]] if row[3] else ALL_WORDS for row in rows],
        }
    )
