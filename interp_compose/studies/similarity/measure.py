"""``similarity_curve``: what pooling at each layer leaves of a model's agreement with people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.types import HookedModel
from interp_compose.errors import InterventionError, NonFiniteError
from interp_compose.interventions.pooling_sweep import protocols_of, sweep
from interp_compose.runs.batches import batch_by_batch
from interp_compose.models.memory import chunk_tokens
from interp_compose.studies.similarity.result__similarity_agreement import rounding
from interp_compose.studies.similarity.result import SimilarityCurve
from interp_compose.studies.similarity.measure__similarity_plan import SimilarityPlan, plan_similarity
from interp_compose.studies.similarity.measure__similarity_prepare import Batch, about, as_batch
from interp_compose.studies.similarity.result__similarity_tables import NONE, POOLINGS
from interp_compose.tasks.pairs import Pair


@public
def similarity_curve(
    model: HookedModel,
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
        labels, height, parser: which constituents; see :func:`.text.words.tokenize_prompts`.
        pooling: any of ``"mean"``, ``"max"``, ``"sum"``.
        layers: integers 0 … n_layers-1, or depths as floats from 0.0 to 1.0; all by default.
        controls: add ``"last"`` and ``"first"`` (keep one token of each unit, drop the others:
            deletion without pooling) and, for words and constituents, ``"shuffled"`` (mean over
            spans of the same sizes at random places).
        embedding: ``"mean"``, ``"cls"`` (encoders), ``"last"`` (decoders) or ``"model"`` (what a
            sentence-transformers folder states); see :func:`.embedding.reading_of`.
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
            max_tokens=chunk_tokens(model, units.n_slots, logits=False),
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
