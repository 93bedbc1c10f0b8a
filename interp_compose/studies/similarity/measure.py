"""``similarity_curve``: what pooling at each layer leaves of a model's agreement with people."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.checks import check_numbers, check_pooling
from interp_compose.errors import InputError, InterventionError, NonFiniteError, OptionError
from interp_compose.interventions.pooling import PooledLayout, shuffled_groups
from interp_compose.interventions.pooling_sweep import protocols_of, sweep
from interp_compose.interventions.select import resolve_layers
from interp_compose.models.embed import EmbeddingReader, check_first, embedding_reader
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import chunk_tokens, fitting_batch, weights_digest
from interp_compose.models.ready import check_ids, check_model, check_prompts
from interp_compose.runs.batches import batch_by_batch
from interp_compose.studies.similarity.result import (
    ALL,
    FEWEST,
    NONE,
    POOLINGS,
    SimilarityCurve,
    controls_of,
    rounding,
    subsets_of,
)
from interp_compose.tasks.pairs import Pair, read_pairs
from interp_compose.tensors import pad_left
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts
from interp_compose.types import Example

MAX_PAIRS = 256  # in a batch; the more, the fewer texts are run twice
NEEDS = ("resume", "positions", "hidden")


@dataclass(frozen=True)
class SimilarityPlan:
    """A run whose input has been checked: nothing in it is left to be refused.

    ``config`` is what the result will say of itself, weights and pairs by their SHA-256.
    """

    model: LensModel
    pairs: Sequence[PreparedPair]
    batches: Sequence[Sequence[PreparedPair]]
    protocols: Sequence[str]
    layers: Sequence[int]
    reading: EmbeddingReader
    seed: int
    config: Mapping[str, Any]


def plan_similarity(
    model: LensModel,
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
    """The arguments are :func:`.measure.similarity_curve`'s, and so is what they
    raise."""
    check_numbers(seed, batch_size)
    check_pooling(pooling, POOLINGS)
    starts = resolve_layers(layers, model.n_layers)
    reading = embedding_reader(model, embedding)
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
        longest = max(max(len(prompt.ids), prompt.n_pooled) for prompt in prompts)
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


UNITS = ("phrase", "word", "constituent")


@dataclass(frozen=True)
class Text:
    """One distinct text, ready to run: its place among the texts, tokens and units."""

    index: int
    prompt: TokenizedPrompt


@dataclass(frozen=True)
class PreparedPair:
    """Two texts, what people say of them, and the pair's place in the user's list."""

    index: int
    pair: Pair
    first: Text
    second: Text

    @property
    def affected(self) -> bool:
        return self.first.prompt.affected or self.second.prompt.affected

    @property
    def target(self) -> float:
        """The score or the label."""
        given = self.pair.label if self.pair.score is None else self.pair.score
        return float(given)  # type: ignore[arg-type]  # read_pairs refuses a pair without either


@dataclass(frozen=True)
class Batch:
    """The distinct texts of some pairs side by side, padded on the left."""

    pairs: Sequence[PreparedPair]
    texts: Sequence[Text]
    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    special: Int[Tensor, "batch pos"]
    units: PooledLayout
    shuffled: PooledLayout

    def special_slots(self) -> Int[Tensor, "batch group"]:
        """1 where a slot holds a special token."""
        slots = torch.zeros_like(self.units.mask)
        return slots.scatter_reduce_(
            1, self.units.of_token.clamp(min=0), self.special, reduce="amax", include_self=True
        )


def prepare_pairs(
    model: LensModel,
    pairs: Iterable[Pair | Mapping[str, Any]],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
) -> list[PreparedPair]:
    """Check the pairs, and tokenize and align every distinct text once.

    Raises:
        InputError: see :func:`.pairs.read_pairs` and :func:`tokenize_prompts`.
        PromptError: a text longer than the model's context (or its window of local attention).
        TrainingModeError: the model is in training mode.
    """
    if unit not in UNITS:
        raise OptionError(f"unknown unit {unit!r}: expected one of {', '.join(UNITS)}")
    if unit != "constituent" and (labels, height, parser) != (None, None, None):
        raise OptionError(
            f"labels, height and parser choose constituents and mean nothing for unit {unit!r}; "
            'leave them out, or pass unit="constituent"'
        )
    check_model(model)
    checked = read_pairs(pairs)
    where: dict[tuple[str, str | None], str] = {}
    for row, pair in enumerate(checked, start=1):
        where.setdefault((pair.text1, pair.tree1), f"text1 of row {row}")
        where.setdefault((pair.text2, pair.tree2), f"text2 of row {row}")
    texts = _tokenize(model, where, unit=unit, labels=labels, height=height, parser=parser)
    return [
        PreparedPair(index, pair, texts[pair.text1, pair.tree1], texts[pair.text2, pair.tree2])
        for index, pair in enumerate(checked)
    ]


def _tokenize(
    model: LensModel,
    where: Mapping[tuple[str, str | None], str],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
) -> dict[tuple[str, str | None], Text]:
    names = list(where.values())
    examples = [
        Example(text, "", spans=((0, len(text)),) if unit == "phrase" else None, tree=tree)
        for text, tree in where
    ]
    try:
        prompts = tokenize_prompts(
            model.tokenizer,
            examples,
            unit={"phrase": "span", "word": "word", "constituent": "phrase"}[unit],
            labels=labels,
            height=height,
            parser=parser,
        )
    except InputError as error:  # it counts the distinct texts; the user knows rows of pairs
        told = re.sub(r"^example (\d+)", lambda found: names[int(found[1])], str(error))
        raise type(error)(told.replace('unit="phrase"', f'unit="{unit}"')) from error
    check_prompts(model, prompts, names.__getitem__, collapse="Give shorter texts.")
    check_ids(model, max(int(prompt.ids.max()) for prompt in prompts))
    return {
        key: Text(index, prompt)
        for index, (key, prompt) in enumerate(zip(where, prompts, strict=True))
    }


def about(pairs: Sequence[PreparedPair]) -> pd.DataFrame:
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


def into_batches(pairs: Sequence[PreparedPair], size: int) -> list[list[PreparedPair]]:
    """Pairs of like length together, and among these the ones that share a text."""

    def key(item: PreparedPair) -> tuple[int, int, int, int]:
        slots = max(item.first.prompt.n_pooled, item.second.prompt.n_pooled)
        tokens = max(len(item.first.prompt.ids), len(item.second.prompt.ids))
        return slots, tokens, item.first.index, item.index

    ordered = sorted(pairs, key=key)
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def as_batch(pairs: Sequence[PreparedPair], device: torch.device, *, seed: int) -> Batch:
    """Each text once; one copy per tensor."""
    texts = list(
        {text.index: text for item in pairs for text in (item.first, item.second)}.values()
    )
    tokens, mask, special = pad_left(
        [text.prompt.ids for text in texts], [text.prompt.groups < 0 for text in texts]
    )
    groups, shuffled = np.full(tokens.shape, -1), np.full(tokens.shape, -1)
    for row, text in enumerate(texts):
        own = text.prompt.groups
        groups[row, -len(own) :] = own
        shuffled[row, -len(own) :] = shuffled_groups(
            own.tolist(), seed=seed, example=crc32(text.prompt.text.encode()), keep_last=False
        )  # by the text itself: the list around it changes nothing
    return Batch(
        pairs,
        texts,
        tokens.to(device),
        mask.to(device),
        special.to(device),
        PooledLayout.from_groups(torch.from_numpy(groups), mask).to(device),
        PooledLayout.from_groups(torch.from_numpy(shuffled), mask).to(device),
    )


@public
def similarity_curve(
    model: LensModel,
    pairs: Iterable[Pair | Mapping[str, Any]],
    *,
    unit: str = "phrase",
    labels: frozenset[str] | None = None,
    height: int | None = None,
    parser: str | None = None,
    pooling: Sequence[str] = POOLINGS,
    layers: Sequence[int | float] | None = None,
    controls: bool = True,
    embedding: str = "mean",
    batch_size: int | None = None,
    seed: int = 42,
    task: str = "",
    progress: bool = True,
    resume: str | Path | None = None,
) -> SimilarityCurve:
    """Agreement with human judgements after pooling at each layer.

    For each start layer ℓ and protocol, the tokens of every unit of a text are pooled into one
    vector in the residual that enters block ℓ (CAP: CARMA, appendix C.1), the model runs on
    with the shortened sequence, and the text's embedding is read from the last hidden state. The
    cosine of a pair's two embeddings is then held against what people say of the pair: Pearson
    and Spearman correlation with a score (CAT, section 4, on BiRD), area under the ROC curve
    for labels 0 and 1.

    Args:
        model: from :func:`load_model`, in evaluation mode; an encoder or a decoder.
        pairs: a task's, or dictionaries with ``text1``, ``text2``, and ``score`` or ``label``;
            ``subset`` names a group to be measured on its own, ``tree1`` and ``tree2`` are
            bracketings. Mirror pairs ("water body", "body water") always form a subset of their
            own where there are three or more.
        unit: ``"phrase"`` (the whole text becomes one vector), ``"word"``, or ``"constituent"``
            (what :func:`cap_curve` calls a phrase). Special tokens stay as they are.
        labels, height, parser: which constituents; see :func:`.text.units.tokenize_prompts`.
        pooling: any of ``"mean"``, ``"max"``, ``"sum"``.
        layers: integers 0 … n_layers-1, or depths as floats from 0.0 to 1.0; all by default.
        controls: add ``"last"`` and ``"first"`` (keep one token of each unit, drop the others:
            deletion without pooling) and, for words and constituents, ``"shuffled"`` (mean over
            spans of the same sizes at random places).
        embedding: ``"mean"``, ``"cls"`` (encoders), ``"last"`` (decoders) or ``"model"`` (what a
            sentence-transformers folder states); see :func:`.embedding.embedding_reader`.
        batch_size: pairs per batch; by default what fits a fixed memory budget.
        seed: of the shuffled control.
        task: a name for the figure's title.
        progress: show a bar.
        resume: folder in which finished batches are kept until the end, so that an interrupted
            call, made again, goes on and ends in the same result.

    Returns:
        A :class:`SimilarityCurve` with ``.frame``, ``.by_layer``, ``.outcomes``, ``.clean``,
        ``.plot()``, ``.save()``.

    Raises:
        InputError: before any work, with the row, the value and the remedy.
        InterventionError: no text has a unit of several tokens, or pooling changed no cosine.
        CapabilityError: a probe shows that the model does not honour what this needs.
        TrainingModeError, NonFiniteError: see their names.
    """
    plan = plan_similarity(
        model,
        pairs,
        unit=unit,
        labels=labels,
        height=height,
        parser=parser,
        pooling=pooling,
        layers=layers,
        controls=controls,
        embedding=embedding,
        batch_size=batch_size,
        seed=seed,
        task=task,
    )
    return measure(plan, progress=progress, resume=resume)


def measure(
    plan: SimilarityPlan,
    *,
    progress: bool = True,
    resume: str | Path | None = None,
    start_afresh: bool = False,
    keep: Callable[[SimilarityCurve], object] = lambda curve: None,
) -> SimilarityCurve:
    """Run a plan, batch by batch. With ``start_afresh``, batches of another run are discarded.

    ``keep`` is given the result before the finished batches are deleted.
    """
    with batch_by_batch(
        plan.batches,
        lambda part: _measure(plan, as_batch(part, plan.model.device, seed=plan.seed)),
        plan.config,
        title=f"similarity {plan.model.name}",
        progress=progress,
        resume=resume,
        unversioned=plan.model.unversioned_hooks,
        start_afresh=start_afresh,
    ) as cosines:
        _check_finite(cosines)
        _check_landed(cosines, plan)
        curve = SimilarityCurve.from_outcomes(
            cosines, about(plan.pairs), plan.config, n_layers=plan.model.n_layers
        )
        keep(curve)
        return curve


@torch.no_grad()
def _measure(plan: SimilarityPlan, batch: Batch) -> pd.DataFrame:
    """One batch's cosines: the model untouched at every layer, then every cell of the sweep."""
    model, reading = plan.model, plan.reading
    n_layers = model.n_layers
    names = [f"blocks.{layer}.hook_resid_pre" for layer in range(n_layers)]
    hidden, resid = model.capture(batch.tokens, names, attention_mask=batch.mask, read="hidden")
    clean = torch.stack(
        [reading(resid[name], batch.mask, batch.special) for name in names]
        + [reading(hidden, batch.mask, batch.special)]
    )  # [layer text d_model], one layer more than there are blocks
    cosines = _cosines(batch, clean)
    untouched = _rows(batch, cosines, [NONE], list(range(n_layers + 1)))

    # Indices made on the CPU: a mask on a GPU would wait for it at every use.
    rows = [row for row, text in enumerate(batch.texts) if text.prompt.affected]
    affected = torch.tensor(rows, dtype=torch.long).to(hidden.device)
    pooled = clean[-1].repeat(len(plan.layers), len(plan.protocols), 1, 1)
    if rows:
        special = batch.special_slots()[affected]

        def finish(
            stream: Float[Tensor, "stream pos d_model"],
            layer: int,
            mask: Int[Tensor, "stream pos"],
            positions: Int[Tensor, "stream pos"],
            row: Int[Tensor, "stream"],
        ) -> Float[Tensor, "stream d_model"]:
            final = model.resume(
                stream, layer, attention_mask=mask, position_ids=positions, read="hidden"
            )
            return reading(final, mask, special[row])

        units, shuffled = batch.units.rows(affected), batch.shuffled.rows(affected)
        pooled[:, :, affected] = sweep(
            model,
            lambda layer: resid[names[layer]][affected],
            batch.mask[affected],
            protocols_of(plan.protocols, units, shuffled),
            plan.layers,
            finish,
            max_tokens=chunk_tokens(model, units.n_positions, logits=False),
        )
    after = _cosines(batch, pooled.flatten(0, 1))
    plain = [row for row, item in enumerate(batch.pairs) if not item.affected]
    after[:, plain] = cosines[-1:, plain]  # nothing to pool: the clean cosine, bit for bit
    return pd.concat(
        [untouched, _rows(batch, after, list(plan.protocols), list(plan.layers))],
        ignore_index=True,
    )


def _cosines(
    batch: Batch, embeddings: Float[Tensor, "cell text d_model"]
) -> Float[Tensor, "cell pair"]:
    """Of every pair in every cell, worked out in float64; 0/0 is NaN."""
    place = {text.index: row for row, text in enumerate(batch.texts)}
    first = [place[item.first.index] for item in batch.pairs]
    second = [place[item.second.index] for item in batch.pairs]
    unit = torch.nn.functional.normalize(embeddings.double(), dim=-1, eps=0.0)
    return (unit[:, first] * unit[:, second]).sum(dim=-1).clamp(-1.0, 1.0)


def _rows(
    batch: Batch, cosines: Float[Tensor, "cell pair"], protocols: list[str], layers: list[int]
) -> pd.DataFrame:
    """One row per pair and cell, a cell being a layer and a protocol."""
    n = len(batch.pairs)
    return pd.DataFrame(
        {
            "pair": [item.index for item in batch.pairs] * (len(layers) * len(protocols)),
            "layer": [layer for layer in layers for _ in range(len(protocols) * n)],
            "pooling": [name for _ in layers for name in protocols for _ in range(n)],
            "cosine": cosines.flatten().cpu().numpy(),
        }
    )


def _check_finite(cosines: pd.DataFrame) -> None:
    broken = cosines[~cosines["cosine"].between(-1.0, 1.0)]
    if len(broken):
        ordered = broken.assign(after=broken["pooling"] != NONE)
        first = ordered.sort_values(["after", "pair", "layer"], kind="stable").iloc[0]
        where = "without any intervention"
        if first["pooling"] != NONE:
            where = f"after {first['pooling']} pooling"
        raise NonFiniteError(
            f"the pair of row {first['pair'] + 1} has no cosine at layer {first['layer']} {where} "
            f"({len(broken)} of all results): an embedding is zero, NaN or infinite. Load the "
            "model in float32, and check its weights."
        )


def _check_landed(cosines: pd.DataFrame, plan: SimilarityPlan) -> None:
    """Refuse a cell in which pooling moved none of the pairs that it affects (but by rounding)."""
    affected = {item.index for item in plan.pairs if item.affected}
    rows = cosines[cosines["pair"].isin(affected)]
    untouched = rows[(rows["pooling"] == NONE) & (rows["layer"] == plan.model.n_layers)]
    clean = untouched.set_index("pair")["cosine"]
    pooled = rows[rows["pooling"] != NONE]
    moved = pooled.assign(moved=(pooled["cosine"] - pooled["pair"].map(clean)).abs())
    most = moved.groupby(["layer", "pooling"])["moved"].max()
    still = most[most <= rounding(plan.config["dtype"])].index.tolist()
    if still:
        layer, name = still[0]
        raise InterventionError(
            f"{name} pooling at layer {layer} changed no cosine, although {len(affected)} pairs "
            "have units of several tokens. Check that the layer's input depends on the tokens."
        )
