"""``cap_curve``: measure what pooling at each layer leaves of a model's accuracy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm.auto import tqdm

from interp_compose._types import Example, HookedModel
from interp_compose.errors import InterventionError, LayerError, NonFiniteError, OptionError
from interp_compose.interventions.one_pass import MODES, Protocol, sweep
from interp_compose.interventions.pool_at import needs
from interp_compose.recipes.cap_curve import CONTROLS, POOLINGS, CapCurve
from interp_compose.recipes.cap_prepare import Batch, Prepared, as_batch, into_batches, prepare
from interp_compose.results import BatchStore

CLEAN = -1  # the layer number under which a batch's clean outcomes are stored
MAX_BATCH = 64


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
    task: str = "",
    progress: bool = True,
    resume: str | Path | None = None,
) -> CapCurve:
    """Layer-wise CAP curve: accuracy after pooling at each layer (paper 000, section 5.1, C.1).

    For each start layer ℓ and protocol, the tokens of every unit are pooled into one vector in
    the residual that enters block ℓ, the model runs on with the shortened sequence, and the
    prediction at the last position is compared with the answer over the whole vocabulary.
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
    _check_options(pooling, mode, renumber, batch_size)
    starts = resolve_layers(layers, model.n_layers)
    items = prepare(
        model, examples, unit=unit, labels=labels, height=height, parser=parser, mode=mode
    )
    model.require("resume", *needs(mode, renumber))
    if not any(item.affected for item in items):
        raise InterventionError(
            f"pooling would change none of the {len(items)} examples: every {unit} is a single "
            'token of this tokenizer. Choose larger units (unit="phrase", or spans of your own).'
        )
    protocols = [*pooling, *(CONTROLS if controls else ())]
    if batch_size is None:
        batch_size = _fitting_batch(model, items, len(starts) * len(protocols), mode)
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
        "batch_size": batch_size,
        "seed": seed,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "n_examples": len(items),
        "examples_sha256": _examples_digest(items),
    }
    store = None
    if resume is not None:
        store = BatchStore(resume, {**config, "weights": _weights_digest(model)})
    done = store.done() if store else set()
    frames: list[pd.DataFrame] = []
    batches = into_batches(items, batch_size)
    for number, part in enumerate(
        tqdm(batches, desc=f"CAP {model.name}", unit="batch", disable=not progress)
    ):
        if store and number in done:
            frames.append(store.get(number))
            continue
        frame = _measure(
            model,
            as_batch(part, model.device, seed=seed),
            protocols,
            starts,
            mode=mode,
            renumber=renumber,
        )
        if store:
            store.put(number, frame)
        frames.append(frame)
    curve = CapCurve.from_outcomes(
        *_tables(pd.concat(frames, ignore_index=True), items, model, starts, protocols),
        config,
        n_layers=model.n_layers,
    )
    if store:
        store.clear()
    return curve


def resolve_layers(layers: Sequence[int | float] | None, n_layers: int) -> list[int]:
    """Start layers in ascending order, each once; a float is a depth, 0.0 … 1.0.

    Raises:
        LayerError: outside the model, a depth outside 0 … 1, or none at all.
    """
    if layers is None:
        return list(range(n_layers))
    found: set[int] = set()
    for layer in layers:
        if isinstance(layer, float):
            if not 0.0 <= layer <= 1.0:
                raise LayerError(f"depth {layer} is outside 0.0 … 1.0; for a layer pass an int")
            found.add(round(layer * (n_layers - 1)))
        elif isinstance(layer, bool) or not 0 <= layer < n_layers:
            raise LayerError(
                f"layer {layer!r} is outside the model: expected 0 … {n_layers - 1} (0 pools the "
                "embeddings), or a depth between 0.0 and 1.0."
            )
        else:
            found.add(int(layer))
    if not found:
        raise LayerError("no layers: expected at least one, or None for all.")
    return sorted(found)


def _check_options(
    pooling: Sequence[str], mode: str, renumber: bool, batch_size: int | None
) -> None:
    if isinstance(pooling, str) or not pooling:
        raise OptionError(f"pooling={pooling!r}: expected a sequence such as {POOLINGS}")
    for name in pooling:
        if name not in POOLINGS:
            raise OptionError(f"unknown pooling {name!r}: expected some of {', '.join(POOLINGS)}")
    if len(set(pooling)) != len(pooling):
        raise OptionError(f"pooling={list(pooling)} names a protocol twice; name each once")
    if mode not in MODES:
        raise OptionError(f"unknown mode {mode!r}: expected one of {', '.join(MODES)}")
    if renumber and mode != "collapse":
        raise OptionError("renumber=True has no meaning for mode='broadcast': leave it out")
    if batch_size is not None and batch_size < 1:
        raise OptionError(f"batch_size={batch_size}: expected at least 1, or None")


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
    logits, resid = model.capture(batch.tokens, names, attention_mask=batch.mask, last_only=True)
    clean = _outcome(logits[:, -1], batch.answers)
    if not affected:
        return _rows(batch, clean.cpu(), ["clean"], [CLEAN])

    plan = [
        Protocol(name, "mean", batch.shuffled)
        if name == "shuffled"
        else Protocol(name, name, batch.units)
        for name in protocols
    ]

    def finish(
        stream: Float[Tensor, "stream pos d_model"],
        layer: int,
        mask: Int[Tensor, "stream pos"],
        positions: Int[Tensor, "stream pos"],
        row: Int[Tensor, "stream"],
    ) -> Float[Tensor, "stream 4"]:
        final = model.resume(stream, layer, attention_mask=mask, position_ids=positions)
        return _outcome(final[:, -1], batch.answers[row])

    pooled = sweep(
        model,
        lambda layer: resid.pop(f"blocks.{layer}.hook_resid_pre"),
        batch.mask,
        plan,
        layers,
        finish,
        mode=mode,
        renumber=renumber,
        max_tokens=_chunk_tokens(model, batch.units.n_slots),
    )
    return pd.concat(
        [
            _rows(batch, clean.cpu(), ["clean"], [CLEAN]),
            _rows(batch, pooled.flatten(0, 2).cpu(), list(protocols), list(layers)),
        ],
        ignore_index=True,
    )


def _outcome(
    logits: Float[Tensor, "stream d_vocab"], answers: Int[Tensor, "stream"]
) -> Float[Tensor, "stream 4"]:
    """Prediction, the answer's log-probability (nats) and rank, and whether all was finite.

    Rank 1 is the most likely token: 1 + the number of tokens with a strictly larger logit.
    """
    logits = logits.float()
    target = logits.gather(1, answers[:, None])
    logprob = target[:, 0] - logits.logsumexp(dim=1)
    rank = (logits > target).sum(dim=1) + 1
    finite = logits.isfinite().all(dim=1)
    return torch.stack([logits.argmax(dim=1).float(), logprob, rank.float(), finite.float()], dim=1)


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


def _tables(
    raw: pd.DataFrame,
    items: Sequence[Prepared],
    model: HookedModel,
    layers: Sequence[int],
    protocols: Sequence[str],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Outcomes of every example, and the clean table; what pooling cannot change is filled in."""
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
    grid = pd.MultiIndex.from_product([layers, protocols], names=["layer", "pooling"])
    unchanged = clean[clean["example"].isin(about.loc[~about["affected"], "example"])]
    filled = unchanged.merge(grid.to_frame(index=False), how="cross")
    outcomes = pd.concat([raw[raw["layer"] != CLEAN], filled], ignore_index=True)
    # A batch of affected examples never holds unaffected ones: into_batches keeps them apart.
    clean = about.merge(clean, on="example")
    texts = {int(token): model.tokenizer.decode([int(token)]) for token in clean["prediction"]}
    clean["prediction_text"] = clean["prediction"].map(texts)
    return outcomes, clean


def _fitting_batch(model: HookedModel, items: Sequence[Prepared], streams: int, mode: str) -> int:
    """Examples whose streams stay within a fixed budget: 1 GiB, or a tenth of the GPU."""
    budget = 2**30
    if model.device.type == "cuda":
        budget = torch.cuda.get_device_properties(model.device).total_memory // 10
    longest = max(item.n_slots if mode == "collapse" else item.n_tokens for item in items)
    each = streams * longest * model.d_model * model.dtype.itemsize
    return int(max(1, min(MAX_BATCH, budget // each)))


def _chunk_tokens(model: HookedModel, length: int) -> int:
    """Tokens per block call: few enough for a CPU's caches, or for a twentieth of a GPU.

    A block holds about 32 vectors of width d_model per token at its peak, and a stream of
    ``length`` tokens one row of logits, three times over in float32.
    """
    if model.device.type != "cuda":
        return max(256, 393216 // model.d_model)  # measured: 512 is best at a width of 768
    per_token = 32 * model.d_model * model.dtype.itemsize + 12 * model.d_vocab // length
    memory = torch.cuda.get_device_properties(model.device).total_memory // 20
    return int(max(2048, memory // per_token))


def _examples_digest(items: Sequence[Prepared]) -> str:
    digest = hashlib.sha256()
    for item in items:
        row = [item.example.prompt, item.example.answer, item.prompt.groups.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


@torch.no_grad()
def _weights_digest(model: HookedModel) -> str:
    """Tells apart models of one name; sums, not bytes, so that it takes no copy of the weights."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        total = parameter.double().sum().item(), parameter.double().abs().sum().item()
        digest.update(json.dumps([list(parameter.shape), *total]).encode())
    return digest.hexdigest()
