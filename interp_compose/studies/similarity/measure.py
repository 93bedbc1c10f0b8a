"""``similarity_curve``: what pooling at each layer leaves of a model's agreement with people."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from zlib import crc32

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.checks import check_limit, check_numbers, drawn, sample_note
from interp_compose.errors import InputError, InterventionError, NonFiniteError, OptionError
from interp_compose.interventions.control_spans import shuffled_groups
from interp_compose.interventions.pooling import (
    How,
    OwnPooling,
    PooledLayout,
    own_poolings,
    pool_groups,
    poolings_of,
)
from interp_compose.interventions.pooling_sweep import sweep, with_controls, with_layouts
from interp_compose.interventions.streams import resumed
from interp_compose.models.base import Streams
from interp_compose.models.embed import EmbeddingReader, check_first, embedding_reader
from interp_compose.models.enough_memory import least_bytes
from interp_compose.models.layers import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import chunk_tokens, fitting_batch
from interp_compose.models.ready import check_ids, check_model, check_prompts
from interp_compose.stats.agreement import rounding
from interp_compose.studies.core.bad_examples import sound
from interp_compose.studies.core.command import carried_out, check_shard, loaded
from interp_compose.studies.core.data import HasTest
from interp_compose.studies.core.inputs import PromptBatch, counts_of, into_batches
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.study import Prepared, config_of, measured, prepared_of
from interp_compose.studies.similarity.options import SimilarityCommand, SimilarityOptions
from interp_compose.studies.similarity.result import (
    ALL,
    FEWEST,
    NONE,
    SimilarityCurve,
    controls_of,
    subsets_of,
)
from interp_compose.tasks.load import load_pairs
from interp_compose.tasks.pairs import Pair, PairRow, read_pairs
from interp_compose.tasks.rows import Tables
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts
from interp_compose.types import Example

MAX_PAIRS = 256  # in a batch; the more, the fewer texts are run twice
NEEDS = ("resume", "positions", "hidden")


@keywords(SimilarityOptions)
def similarity_curve(
    model: LensModel, pairs: Iterable[PairRow] | HasTest | Tables, options: SimilarityOptions
) -> SimilarityCurve:
    """Agreement with human judgements after pooling at each layer.

    For each start layer ℓ and pooling, the tokens of every unit of a text are pooled into one
    vector in the residual that enters block ℓ (CAP: CARMA, appendix C.1), the model runs on
    with the shortened sequence, and the text's embedding is read from the last hidden state. Of an
    encoder, ``layers`` may name n_layers as well: the last hidden state itself is pooled. The
    cosine of a pair's two embeddings is then held against what people say of the pair: Pearson
    correlation with a score (CAT, section 5.2.1 and appendix C.1, on BiRD) and Spearman's, area
    under the ROC curve for labels 0 and 1.

    Args:
        model: from :func:`load_model`, in evaluation mode; an encoder or a decoder.
        pairs: a task, a table or a list, of dictionaries with ``text1``, ``text2``, and ``score``
            or ``label``, or of tuples (text1, text2, score); ``subset`` names a group to be
            measured on its own, ``tree1`` and ``tree2`` are bracketings. Mirror pairs ("water
            body", "body water") always form a subset of their own where there are three or more.
        options: every option.

    Returns:
        A :class:`SimilarityCurve` with ``.frame``, ``.by_layer``, ``.outcomes``, ``.clean``,
        ``.plot()``, ``.save()``.

    Raises:
        InputError: before any work, with the row, the value and the remedy.
        InterventionError: no text has a unit of several tokens, or pooling changed no cosine.
        CapabilityError: a probe shows that the model does not honour what this needs.
        TrainingModeError, NonFiniteError: see their names.
    """
    prepared = prepared_of(prepare_similarity, model, pairs, options)
    return measured(prepared, progress=options.progress, resume=options.resume)


def run(command: SimilarityCommand) -> SimilarityCurve | str:
    """The command ``interp-compose similarity``: results (Parquet, CSV), figures as HTML and PNG.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
        InputError, ModelError, MissingDataError: before work starts; nothing is written.
    """
    source = command.task
    check_limit(source.limit)
    check_shard(command.output)
    task = load_pairs(source.task, data_dir=source.data_dir)
    split = task.split(source.split)
    if not split:
        raise OptionError(
            f"split {source.split!r} of {source.task!r} holds no pairs; a file of your own is all "
            "test split: leave --split out"
        )
    seed = command.study.seed
    pairs = drawn(split, source.limit, seed)
    sample = sample_note(source.limit, seed, n=len(split))
    options = replace(command.study, task=f"{task.name} ({source.split}{sample})")
    model = _read_at(loaded(command.model), command.model.output)
    return carried_out(prepare_similarity(model, pairs, options), command.output)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSimilarity(Prepared[SimilarityCurve]):
    """Pairs, and what is done to each of them.

    Attributes:
        items: the pairs.
        seed: of the shuffled control.
        reading: how a text's embedding is read.
        layers: start layers, ascending.
        poolings: by name, controls included.
    """

    items: Sequence[PreparedTexts]
    seed: int
    reading: EmbeddingReader
    layers: Sequence[int]
    poolings: Mapping[str, How | OwnPooling]

    def least_bytes(self, pairs: Sequence[PreparedTexts]) -> int:
        """Of the clean pass, whose residuals stay, and of the streams."""
        texts = {text.index: text.prompt for item in pairs for text in (item.first, item.second)}
        length = max(len(prompt.ids) for prompt in texts.values())
        captured = self.model.n_layers * len(texts) * length
        pooled = [prompt.n_pooled for prompt in texts.values() if prompt.affected]
        cells = len(self.layers) * len(self.poolings)
        return least_bytes(
            self.model,
            len(texts),
            length,
            captured=captured,
            stays=True,
            positions=cells * sum(pooled),
            together=(cells * len(pooled), cells * sum(pooled)),
        )

    def rows(self, pairs: Sequence[PreparedTexts]) -> pd.DataFrame:
        """One batch's cosines: the clean ones at every layer, then every cell of the sweep."""
        model, reading, layers = self.model, self.reading, self.layers
        poolings = self.poolings
        texts = list(
            {text.index: text for item in pairs for text in (item.first, item.second)}.values()
        )  # each once
        batch = PromptBatch.of([text.prompt for text in texts], model.device)
        n_layers = model.n_layers
        names = [f"blocks.{layer}.hook_resid_pre" for layer in range(n_layers)]
        hidden, resid = model.capture(batch.tokens, names, attention_mask=batch.mask, read="hidden")
        clean = torch.stack(
            [reading(resid[name], batch.mask, batch.special).to(model.device) for name in names]
            + [reading(hidden, batch.mask, batch.special)]
        )  # [layer text d_model], one layer more than there are blocks
        cosines = _cosines(pairs, texts, clean)
        clean_rows = _rows(pairs, cosines, [NONE], list(range(n_layers + 1)))

        # Indices made on the CPU: a mask on a GPU would wait for it at every use.
        rows = [row for row, text in enumerate(texts) if text.prompt.affected]
        affected = torch.tensor(rows, dtype=torch.long).to(hidden.device)
        pooled = clean[-1].repeat(len(layers), len(poolings), 1, 1)
        if rows:
            units = batch.layout([text.prompt.groups for text in texts])
            spans = {}
            if "shuffled" in poolings:
                shuffled = batch.layout([_shuffled(text, self.seed) for text in texts])
                spans["shuffled"] = shuffled.rows(affected)
            special = _special_slots(batch, units)[affected]

            def finish(
                streams: Streams, layer: int, row: Int[Tensor, "stream"]
            ) -> Float[Tensor, "stream d_model"]:
                final = resumed(model, streams, layer, read="hidden")
                return reading(final, streams.mask, special[row])

            ways = with_layouts(poolings, units.rows(affected), spans)
            into_blocks = [layer for layer in layers if layer < n_layers]
            if into_blocks:
                pooled[: len(into_blocks), :, affected] = sweep(
                    model,
                    lambda layer: resid[names[layer]][affected.to(resid[names[layer]].device)],
                    batch.mask[affected],
                    model.positions(batch.tokens, batch.mask)[affected],
                    ways,
                    into_blocks,
                    finish,
                    max_tokens=chunk_tokens(model, units.n_positions, logits=0),
                )
            if n_layers in layers:  # the last, as layers ascend; no block runs after it
                for number, way in enumerate(ways):
                    of_token, n_positions = way.layout.of_token, way.layout.n_positions
                    final = pool_groups(hidden[affected], of_token, way.how, n_groups=n_positions)
                    pooled[-1, number, affected] = reading(final, way.layout.mask, special)
        pooled_cosines = _cosines(pairs, texts, pooled.flatten(0, 1))
        unaffected = [row for row, item in enumerate(pairs) if not item.affected]
        pooled_cosines[:, unaffected] = cosines[-1:, unaffected]  # the clean cosine, bit for bit
        pooled_rows = _rows(pairs, pooled_cosines, list(poolings), layers)
        return pd.concat([clean_rows, pooled_rows], ignore_index=True)

    def result(self, cosines: pd.DataFrame) -> SimilarityCurve:
        """The curve; refused where a cosine is none, or where pooling moved none."""
        _check_finite(cosines)
        _check_landed(cosines, self.items, self.config)
        return SimilarityCurve.from_outcomes(
            cosines, pair_rows(self.items), self.config, n_layers=self.model.n_layers
        )


def prepare_similarity(
    model: LensModel, pairs: Iterable[PairRow], options: SimilarityOptions
) -> PreparedSimilarity:
    """Check everything that a curve of agreement needs, before any of it is measured.

    Raises:
        InputError, InterventionError, CapabilityError: as :func:`similarity_curve`.
    """
    check_numbers(options.seed, options.batch_size)
    chosen_poolings = poolings_of(options.pooling, model)
    layers = resolve_layers(options.layers, model.n_layers, after_last=model.bidirectional)
    reading = embedding_reader(model, options.embedding)
    if model.n_layers in layers and reading.how == "cls":
        raise InterventionError(
            f"layer {model.n_layers} is after the last block, and the embedding is read from the "
            "first token, which is never pooled: nothing would change. Leave this layer out, or "
            'choose embedding="mean".'
        )
    rows = [*(read_pairs(pairs) if isinstance(pairs, str | Path) else pairs)]
    items, skipped = sound(
        rows, lambda some: prepare_pairs(model, some, options), options.on_bad, "pairs"
    )
    prompts = [text.prompt for item in items for text in (item.first, item.second)]
    check_first(reading, prompts, model.name)
    kind = "label" if items[0].pair.score is None else "score"
    _check_subsets(pair_rows(items), kind)
    model.require(*NEEDS)
    if not any(item.affected for item in items):
        whole = options.unit == "text"
        remedy = "Give longer texts." if whole else 'unit="text" pools whole texts.'
        raise InterventionError(
            f"pooling would change none of the {len(items)} pairs: every {options.unit} is a "
            f"single token of this tokenizer. {remedy}"
        )
    poolings = with_controls(chosen_poolings, controls_of(options.unit) if options.controls else ())
    size = options.batch_size
    if size is None:
        longest = max(max(len(prompt.ids), prompt.n_pooled) for prompt in prompts)
        size = fitting_batch(model, 2 * len(layers) * len(poolings), longest, MAX_PAIRS)
    config = config_of(
        "similarity",
        model,
        options,
        layers=layers,
        pooling=list(chosen_poolings),
        batch_size=size,
        kind=kind,
        reading=str(reading),
        n_pairs=len(items),
        pairs_sha256=_pairs_digest(items),
        **counts_of(skipped, ()),
    )
    return PreparedSimilarity(
        kind=SimilarityCurve,
        model=model,
        config=config,
        batches=batches_of(items, size),
        unversioned=own_poolings(chosen_poolings),
        items=items,
        seed=options.seed,
        reading=reading,
        layers=layers,
        poolings=poolings,
    )


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


def _pairs_digest(items: Sequence[PreparedTexts]) -> str:
    """Of everything the run reads: texts, judgements, subsets, token ids and units."""
    digest = hashlib.sha256()
    for item in items:
        row: list[Any] = [asdict(item.pair)]
        for text in (item.first, item.second):
            row += [text.prompt.ids.tolist(), text.prompt.groups.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class PreparedText:
    """One distinct text, ready to run: its place among the texts, tokens and units."""

    index: int
    prompt: TokenizedPrompt


@dataclass(frozen=True)
class PreparedTexts:
    """Two texts, what people say of them, and the pair's place in the user's list."""

    index: int
    pair: Pair
    first: PreparedText
    second: PreparedText

    @property
    def affected(self) -> bool:
        return self.first.prompt.affected or self.second.prompt.affected

    @property
    def target(self) -> float:
        """The score or the label."""
        given = self.pair.label if self.pair.score is None else self.pair.score
        return float(given)  # type: ignore[arg-type]  # read_pairs refuses a pair without either


def prepare_pairs(
    model: LensModel,
    pairs: Iterable[PairRow],
    options: SimilarityOptions,
) -> list[PreparedTexts]:
    """Check the pairs, and tokenize and align every distinct text once.

    Raises:
        InputError: see :func:`.pairs.read_pairs` and :func:`tokenize_prompts`.
        PromptError: a text longer than the model's context (or its window of local attention).
        TrainingModeError: the model is in training mode.
    """
    choice = options.labels, options.height, options.parser
    if options.unit != "constituent" and choice != (None, None, None):
        raise OptionError(
            f"labels, height and parser choose constituents and mean nothing for unit "
            f'{options.unit!r}; leave them out, or pass unit="constituent"'
        )
    check_model(model)
    checked = read_pairs(pairs)
    places: dict[tuple[str, str | None], str] = {}
    for row, pair in enumerate(checked, start=1):
        places.setdefault((pair.text1, pair.tree1), f"text1 of row {row}")
        places.setdefault((pair.text2, pair.tree2), f"text2 of row {row}")
    texts = _tokenize(model, places, options)
    return [
        PreparedTexts(index, pair, texts[pair.text1, pair.tree1], texts[pair.text2, pair.tree2])
        for index, pair in enumerate(checked)
    ]


def _tokenize(
    model: LensModel,
    places: Mapping[tuple[str, str | None], str],
    options: SimilarityOptions,
) -> dict[tuple[str, str | None], PreparedText]:
    names = list(places.values())
    examples = [
        Example(text, "", spans=((0, len(text)),) if options.unit == "text" else None, tree=tree)
        for text, tree in places
    ]
    try:
        prompts = tokenize_prompts(
            model.tokenizer,
            examples,
            unit="span" if options.unit == "text" else options.unit,
            labels=options.labels,
            height=options.height,
            parser=options.parser,
        )
    except InputError as error:  # it counts the distinct texts; the user knows rows of pairs
        message = re.sub(r"^example (\d+)", lambda number: names[int(number[1])], str(error))
        raise type(error)(message) from error
    check_prompts(model, prompts, names.__getitem__, collapse="Give shorter texts.")
    check_ids(model, max(int(prompt.ids.max()) for prompt in prompts))
    return {
        key: PreparedText(index, prompt)
        for index, (key, prompt) in enumerate(zip(places, prompts, strict=True))
    }


def pair_rows(pairs: Sequence[PreparedTexts]) -> pd.DataFrame:
    """What is known of every pair apart from the model."""
    return pd.DataFrame(
        {
            "pair": [item.index for item in pairs],
            "text1": [item.pair.text1 for item in pairs],
            "text2": [item.pair.text2 for item in pairs],
            "target": [item.target for item in pairs],
            "subset": [item.pair.subset or "" for item in pairs],
            "mirror": [item.pair.is_mirror for item in pairs],
            "affected": [item.affected for item in pairs],
            "n_tokens1": [len(item.first.prompt.ids) for item in pairs],
            "n_tokens2": [len(item.second.prompt.ids) for item in pairs],
            "n_groups1": [item.first.prompt.n_groups for item in pairs],
            "n_groups2": [item.second.prompt.n_groups for item in pairs],
        }
    )


def batches_of(pairs: Sequence[PreparedTexts], size: int) -> list[list[PreparedTexts]]:
    """Pairs of like length together, and among these the ones that share a text."""

    def lengths(item: PreparedTexts) -> tuple[int, int, int, int]:
        slots = max(item.first.prompt.n_pooled, item.second.prompt.n_pooled)
        tokens = max(len(item.first.prompt.ids), len(item.second.prompt.ids))
        return slots, tokens, item.first.index, item.index

    return into_batches(pairs, size, lengths)


def _shuffled(text: PreparedText, seed: int) -> list[int]:
    """Spans of the same sizes at random places, drawn by the text itself: the list around it
    changes nothing."""
    key = crc32(text.prompt.text.encode())
    return shuffled_groups(text.prompt.groups.tolist(), seed=seed, example=key, keep_last=False)


def _special_slots(batch: PromptBatch, units: PooledLayout) -> Int[Tensor, "batch group"]:
    """1 where a slot holds a special token."""
    return torch.zeros_like(units.mask).scatter_reduce_(
        1, units.of_token.clamp(min=0), batch.special, reduce="amax", include_self=True
    )


def _cosines(
    pairs: Sequence[PreparedTexts],
    texts: Sequence[PreparedText],
    embeddings: Float[Tensor, "cell text d_model"],
) -> Float[Tensor, "cell pair"]:
    """Of every pair in every cell, worked out in float64; 0/0 is NaN."""
    place = {text.index: row for row, text in enumerate(texts)}
    first = [place[item.first.index] for item in pairs]
    second = [place[item.second.index] for item in pairs]
    unit = torch.nn.functional.normalize(embeddings.double(), dim=-1, eps=0.0)
    return (unit[:, first] * unit[:, second]).sum(dim=-1).clamp(-1.0, 1.0)


def _rows(
    pairs: Sequence[PreparedTexts],
    cosines: Float[Tensor, "cell pair"],
    poolings: Sequence[str],
    layers: Sequence[int],
) -> pd.DataFrame:
    """One row per pair and cell, a cell being a layer and a pooling."""
    n = len(pairs)
    return pd.DataFrame(
        {
            "pair": [item.index for item in pairs] * (len(layers) * len(poolings)),
            "layer": [layer for layer in layers for _ in range(len(poolings) * n)],
            "pooling": [name for _ in layers for name in poolings for _ in range(n)],
            "cosine": cosines.flatten().cpu().numpy(),
        }
    )


def _check_finite(cosines: pd.DataFrame) -> None:
    broken = cosines[~cosines["cosine"].between(-1.0, 1.0)]
    if len(broken):
        ordered = broken.assign(after=broken["pooling"] != NONE)
        first = ordered.sort_values(["after", "pair", "layer"], kind="stable").iloc[0]
        condition = "without any intervention"
        if first["pooling"] != NONE:
            condition = f"after {first['pooling']} pooling"
        raise NonFiniteError(
            f"the pair of row {first['pair'] + 1} has no cosine at layer {first['layer']} "
            f"{condition} ({len(broken)} of all results): an embedding is zero, NaN or infinite. "
            "Load the model in float32, and check its weights."
        )


def _check_landed(
    cosines: pd.DataFrame, items: Sequence[PreparedTexts], config: Mapping[str, Any]
) -> None:
    """Refuse a cell in which pooling moved none of the pairs that it affects (but by rounding)."""
    affected = {item.index for item in items if item.affected}
    rows = cosines[cosines["pair"].isin(affected)]
    clean_rows = rows[(rows["pooling"] == NONE) & (rows["layer"] == config["n_layers"])]
    clean = clean_rows.set_index("pair")["cosine"]
    pooled = rows[rows["pooling"] != NONE]
    # A mean over units' sums has the direction of that over tokens; the result notes it.
    if str(config["reading"]).startswith("mean"):
        pooled = pooled[(pooled["pooling"] != "sum") | (pooled["layer"] != config["n_layers"])]
    moved = pooled.assign(moved=(pooled["cosine"] - pooled["pair"].map(clean)).abs())
    largest = moved.groupby(["layer", "pooling"])["moved"].max()
    unmoved = largest[largest <= rounding(config["dtype"])].index.tolist()
    if unmoved:
        layer, name = unmoved[0]
        raise InterventionError(
            f"{name} pooling at layer {layer} changed no cosine, although {len(affected)} pairs "
            "have units of several tokens. Check that the layer's input depends on the tokens, and "
            "that the embedding is read from some that are pooled."
        )


@runtime_checkable
class HasOutputs(Protocol):
    """An encoder whose last block has several representations."""

    def with_output(self, output: Any) -> LensModel: ...


def _read_at(model: LensModel, output: str | None) -> LensModel:
    """The model with the output that is asked for."""
    if output is None:
        return model
    if not isinstance(model, HasOutputs):
        raise OptionError(
            f"output={output!r}: {model.name!r} is no encoder that composes words of codes, and "
            "has one output; leave this out"
        )
    chosen: LensModel = model.with_output(output)
    return chosen
