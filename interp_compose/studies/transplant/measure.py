"""``transplant``: what a phrase's vector carries from one prompt into another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Final

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.checks import check_limit, check_numbers, drawn, sample_note
from interp_compose.errors import CapabilityError
from interp_compose.interventions.pool_at import needs
from interp_compose.interventions.pooling import How, OwnPooling, own_poolings, poolings_of
from interp_compose.interventions.streams import Shared, StreamSweep, capture_kept, resumed
from interp_compose.interventions.transplants import VECTORS, Vector, entering
from interp_compose.models.base import Streams
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.enough_memory import least_bytes
from interp_compose.models.layers import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import chunk_tokens
from interp_compose.studies.core.command import carried_out, check_shard, loaded
from interp_compose.studies.core.data import HasTest
from interp_compose.studies.core.inputs import (
    CLEAN,
    PromptBatch,
    answer_lengths_of,
    batch_size_of,
    check_decoder,
    counts_of,
    into_batches,
    predictions_of,
)
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.study import Prepared, config_of, measured, prepared_of
from interp_compose.studies.transplant.answers import Answers
from interp_compose.studies.transplant.options import TransplantCommand, TransplantOptions
from interp_compose.studies.transplant.pairs import (
    PreparedPair,
    directions,
    pairs_digest,
    places_of,
    prepare_pairs,
    runs_of,
)
from interp_compose.studies.transplant.result import PAIRS, RUNS, Transplants
from interp_compose.tasks.rows import Tables
from interp_compose.tasks.table import function_of, row_of
from interp_compose.tasks.transplants import TransplantRow, check_pairs, load_transplants

TARGET, COMPOSED = RUNS
TEXTS: Final = (
    "source",
    "source_phrase",
    "target",
    "target_phrase",
    "expected",
    "answer",
    "composed",
    "source_answer",
)
"""What the table of pairs has from the user."""


@keywords(TransplantOptions)
def transplant(
    model: LensModel,
    pairs: Iterable[TransplantRow] | HasTest | Tables,
    options: TransplantOptions,
) -> Transplants:
    """Phrase transplants: a vector of one prompt's phrase in the place of another prompt's.

    For each layer ℓ and pooling, the tokens of the source's phrase are pooled into one vector in
    the residual that enters block ℓ of the source's clean run. The target's phrase becomes one
    position, that of its last token, which holds this vector; the model runs on, and the prediction
    at the last position is compared with the *expected* answer, what the composed sentence would
    mean, with the *untouched* one, the target's own, and, where it is known, with the source's own,
    which would have been *remembered*. Controls put three other vectors in that
    place: the target's own phrase, pooled as it is in constituent-aware pooling (CARMA, appendix
    C.1); another pair's source phrase; a random direction.

    Args:
        model: from :func:`load_model`, in evaluation mode.
        pairs: from :func:`load_transplants`, or a table or a list, of dictionaries with
            ``source``, ``source_span``, ``target``, ``target_span``, ``expected``, ``answer`` and,
            where it is known, ``composed`` and ``source_answer``, or of tuples in this order.
        options: every option.

    Returns:
        A :class:`Transplants` with ``.frame``, ``.outcomes``, ``.clean``, ``.plot()``, ``.save()``.

    Raises:
        InputError: before any work, with the pair, the value and the remedy.
        InterventionError: the phrases of every pair are the same, or no vector differs from the
            target's own.
        CapabilityError: an encoder or an encoder–decoder; a probe shows that the model does not
            honour what this needs.
        TrainingModeError, NonFiniteError: see their names.
    """
    prepared = prepared_of(prepare_transplant, model, pairs, options)
    return measured(prepared, progress=options.progress, resume=options.resume)


def run(command: TransplantCommand) -> Transplants | str:
    """The command ``interp-compose transplant``."""
    source, options = command.pairs, command.study
    check_limit(source.limit)
    check_shard(command.output)
    check_pairs(source.task)
    model = loaded(command.model)
    row = row_of("transplants", source.task)
    if row is not None and row.tokenizer and model.tokenizer is None:
        model.tokenizer = function_of(row.tokenizer)()
    pairs = load_transplants(
        source.task, model, seed=options.seed, multi_token_answers=options.multi_token_answers
    )
    sample = sample_note(source.limit, options.seed, n=len(pairs))
    pairs = drawn(pairs, source.limit, options.seed)
    options = replace(options, task=f"{Path(source.task).name}{sample}")
    return carried_out(prepare_transplant(model, pairs, options), command.output)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTransplant(Prepared[Transplants]):
    """Pairs, and what is done to each of them.

    Attributes:
        items: the pairs.
        options: of the transplants.
        layers: at which a phrase is replaced, ascending.
        poolings: by name.
        vectors: what replaces a phrase.
    """

    items: Sequence[PreparedPair]
    options: TransplantOptions
    layers: Sequence[int]
    poolings: Mapping[str, How | OwnPooling]
    vectors: Sequence[Vector]

    def least_bytes(self, pairs: Sequence[PreparedPair]) -> int:
        """Of the clean passes over targets and sources, or of what is read of the streams."""
        length = max(pair.longest.n_tokens for pair in pairs)
        both = length + max(pair.source.n_tokens for pair in pairs)
        n_streams = len(self.layers) * len(pairs) * len(self.poolings) * len(self.vectors)
        return least_bytes(
            self.model,
            len(pairs),
            length,
            captured=len(self.layers) * len(pairs) * both,
            positions=n_streams,  # each runs on one or more
            n_read=1,
            kept=self.model.continues,
        )

    def rows(self, pairs: Sequence[PreparedPair]) -> pd.DataFrame:
        """One batch's outcomes, the clean ones under layer ``CLEAN``, their run as the vector."""
        model, options, layers = self.model, self.options, self.layers
        poolings, vectors = self.poolings, self.vectors
        by_index = {item.index: item for item in self.items}
        runs = runs_of(pairs)
        run_pairs = [run.pair for run in runs]
        donors = [by_index[pair.donor] for pair in run_pairs] if options.controls else []
        targets = PromptBatch.of([run.row.prompt for run in runs], model.device)
        sources = PromptBatch.of(
            [pair.source.prompt for pair in (*run_pairs, *donors)], model.device
        )
        answers = Answers.of(runs, model.device)
        names = {layer: f"blocks.{layer}.hook_resid_pre" for layer in layers}
        hooks = list(names.values())
        logits, resid, kept = capture_kept(
            model, targets.tokens, hooks, targets.mask, read=answers.read
        )
        _, source_resid = model.capture(
            sources.tokens, hooks, attention_mask=sources.mask, read="last"
        )
        parts = [answers.rows(answers.outcomes(logits), [(CLEAN, "", TARGET)])]
        known = [pair for pair in pairs if pair.composed is not None]
        if known:
            parts.append(_composed(model, known))
        places = places_of(runs, donors, targets, sources)
        direction = directions(run_pairs, model.d_model, options.seed, logits)

        kinds = len(poolings) * len(vectors)
        layout = places.layout
        positions = layout.positions(model.positions(targets.tokens, targets.mask))
        example = torch.arange(len(runs), device=model.device).repeat(kinds)
        last = layout.n_positions - answers.n_read
        first = places.phrase[example].clamp(max=last)  # before a phrase nothing is replaced
        streams = StreamSweep(
            model,
            layout.mask.repeat(kinds, 1),
            positions.repeat(kinds, 1),
            layers,
            max_tokens=chunk_tokens(model, layout.n_positions, logits=answers.n_read),
            shared=None if kept is None else Shared(kept, example, layout.of_token[example], first),
        )
        for layer in layers:
            target, source = resid.pop(names[layer]), source_resid.pop(names[layer])
            entry = entering(target, source, places, poolings, vectors, direction, layer)
            streams.enter(layer, entry)

        def finish(
            streams: Streams, layer: int, row: Int[Tensor, "stream"]
        ) -> Float[Tensor, "stream width"]:
            logits = resumed(model, streams, layer, read=answers.read)
            return answers.outcomes(logits, row % len(runs))

        outcomes = streams.read(finish)
        cells = [(layer, how, name) for layer in layers for how in poolings for name in vectors]
        parts.append(answers.rows(outcomes.flatten(0, 1), cells))
        return pd.concat(parts, ignore_index=True)

    def result(self, rows: pd.DataFrame) -> Transplants:
        """Outcomes, the clean model's in a table of their own."""
        is_clean = rows["layer"] == CLEAN
        clean = rows[is_clean].drop(columns=["layer", "pooling"]).rename(columns={"vector": "run"})
        texts = {
            token: self.model.tokenizer.decode([token])
            for token in set(clean["prediction"].tolist())
        }
        clean["prediction_text"] = clean["prediction"].map(texts)
        pairs = [
            {
                **{name: getattr(item.pair, name) for name in TEXTS},
                "pair": item.index,
                "type": item.pair.target_type,
                "donor": item.donor,
                "n_source": int(item.source_phrase.sum()),
                "n_target": int(item.target_phrase.sum()),
            }
            for item in self.items
        ]
        return Transplants.from_outcomes(
            rows[~is_clean],
            clean,
            PAIRS.of(pairs),
            self.config,
            n_layers=self.model.n_layers,
            predictions=predictions_of(self.model, rows[~is_clean]),
        )


def prepare_transplant(
    model: LensModel, pairs: Iterable[TransplantRow], options: TransplantOptions
) -> PreparedTransplant:
    """Check everything that transplants need, before any is measured.

    Raises:
        InputError, InterventionError, CapabilityError: as :func:`transplant`.
    """
    check_numbers(options.seed, options.batch_size)
    poolings = poolings_of(options.pooling, model)
    check_decoder(model, "measure it with similarity_curve")
    if isinstance(model, EncoderDecoderModel):
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) reads two texts, and a transplant has a place "
            "in one; give a decoder, or measure this model with cap_curve."
        )
    layers = resolve_layers(options.layers, model.n_layers)
    items, skipped = prepare_pairs(
        model,
        pairs,
        seed=options.seed,
        controls=options.controls,
        several=options.multi_token_answers,
        on_bad=options.on_bad,
    )
    model.require("resume", *needs("collapse", False))
    vectors: tuple[Vector, ...] = VECTORS if options.controls else ("transplant",)
    streams = len(layers) * len(poolings) * len(vectors)
    streams *= max(len(item.target.rows) for item in items)
    targets = [item.longest for item in items]
    size = batch_size_of(model, targets, options, streams, max(row.n_pooled for row in targets))
    answers = [row for item in items for row in (item.target.expected, item.target.untouched)]
    config = config_of(
        "transplant",
        model,
        options,
        layers=layers,
        pooling=list(poolings),
        batch_size=size,
        n_pairs=len(items),
        pairs_sha256=pairs_digest(items),
        **answer_lengths_of(answers, options),
        **counts_of(skipped, (astuple(item.pair) for item in items)),
    )
    return PreparedTransplant(
        kind=Transplants,
        model=model,
        config=config,
        batches=into_batches(
            items, size, lambda item: (item.longest.n_pooled, item.longest.n_tokens, item.index)
        ),
        unversioned=own_poolings(poolings),
        items=items,
        options=options,
        layers=layers,
        poolings=poolings,
        vectors=vectors,
    )


def _composed(model: LensModel, known: Sequence[PreparedPair]) -> pd.DataFrame:
    """Outcomes of the clean model on the prompts in which the phrase is exchanged as text."""
    runs = runs_of(known, composed=True)
    batch = PromptBatch.of([run.row.prompt for run in runs], model.device)
    answers = Answers.of(runs, model.device, composed=True)
    logits = model.forward(batch.tokens, attention_mask=batch.mask, read=answers.read)
    return answers.rows(answers.outcomes(logits), [(CLEAN, "", COMPOSED)])
