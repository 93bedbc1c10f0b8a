"""What a CAP sweep costs, in clean forward passes.

``--quick`` measures the main figures alone. A GPT-2-small shape with random weights, 12 start
layers, poolings mean, max and sum, on WordNet definitions in the inverse dictionary's prompt: a
batch of 16 of like length, as in a long run, or as many tokens in texts as long as said. In one
run, turn about:

clean
    one forward pass over the same batches with logits at every position: the unit of cost;
sweep
    ``cap_curve``'s own engine, everything from tensors on the device to outcomes;
whole
    the same without the clean run's keys and values: streams run from their first position on;
hooked
    36 forward passes, each with one hook that pools one layer in one way.

On one thread of a CPU, times are processor time. The *floor* is the sweep's operation count over
the clean pass's, by multiplications: every block that a stream has to go through, from its first
unit of several tokens on (or, ``whole``, from the start), without padding; logits at the last
position only, and so (but ``whole``) what follows the pattern in the last block. What is above it
is padding, pooling, copies and calls. It is a count and no law of time: a sweep's calls are larger
than a clean pass's, and larger products run faster, so that a ratio a little below 1 is possible.
The goal needs fewer operations than there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.common import (
    FASTER,
    Ratio,
    byte_level,
    gpu,
    in_a_process,
    load_texts,
    machine,
    middle_and_range,
    peak_bytes,
    quotients,
    ranged,
    spread,
    turns,
)
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.cap.measure import PreparedCap, batches_of
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.cap.result import CapCurve
from interp_compose.studies.core.inputs import PreparedExample, PromptBatch, prepare_all
from interp_compose.types import Example

OPTIONS = CapOptions(controls=False)
POOLINGS: Final[Mapping[str, Any]] = {name: name for name in OPTIONS.pooling}
D_VOCAB = 50257
BATCH = 16
FLOOR = "floor_in_clean_passes"


def benchmark(
    device: str = "cpu", examples: int = 16, repeats: int = 5, threads: int = 1, quick: bool = False
) -> dict[str, Any]:
    """``cap_sweep_{device}``. One thread: a busy second core then changes little."""
    texts = load_texts(4000)[1]
    tokenizer = byte_level(texts, 4000, bos=True)
    model = gpt2(12, tokenizer, device)
    items = middle(prepared(model, texts[:400]), examples)
    rows: list[dict[str, Any]] = []
    for dtype in ["float32"] if device == "cpu" else ["float32", "bfloat16"]:
        model = gpt2(12, tokenizer, device, dtype)
        rows.append({"dtype": dtype, **compare(model, items, repeats, hooked=True)})
    result: dict[str, Any] = {"threads": threads, "main": rows}
    if not quick:
        result["layers"] = [
            {
                "layers": n,
                **compare(gpt2(n, tokenizer, device), items[:8], repeats, hooked=False),
            }
            for n in (4, 12, 24)
        ]
        model = gpt2(12, tokenizer, device)
        result["length"] = [
            {
                "length": n,
                **compare(model, of_length(model, texts, n), repeats, hooked=False),
            }
            for n in (16, 64, 256)
        ]
        result["peak_memory_mib"] = {
            what: in_a_process(peak, what, device, examples) for what in ("clean", "sweep")
        }
    return {f"cap_sweep_{device}": {**result, **gpu(device), **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    clean, rows = "clean", []
    for row in content["main"]:
        of = f"12 layers, {row['dtype']}"
        cost, floor = (row["sweep_in_clean_passes"], row["spread"]), row[FLOOR]
        rows.append(Ratio(f"sweep, {of}", *cost, peer=clean, floor=floor, goal=7.5))
        peer = f"hooked, which is {row['hooked_in_clean_passes']:.1f} times as long as clean"
        rows.append(Ratio(f"sweep, {of}", *ranged(row, "hooked_over_sweep"), FASTER, peer))
        cost, floor = (row["whole_in_clean_passes"], row["whole_spread"]), row["whole_floor"]
        rows.append(Ratio(f"whole, {of}", *cost, peer=clean, floor=floor))
    for part, unit in (("layers", "layers"), ("length", "tokens")):
        for row in content.get(part, ()):
            cost, floor = (row["sweep_in_clean_passes"], row["spread"]), row[FLOOR]
            what = f"sweep, {row[part]} {unit}"
            rows.append(Ratio(what, *cost, peer=clean, floor=floor))
    for what, mib in content.get("peak_memory_mib", {}).items():
        rows.append(Ratio(f"peak memory beyond the model, {what}, 12 layers", mib, None, "MiB"))
    return rows


def compare(
    model: LensModel, items: Sequence[PreparedExample], repeats: int, *, hooked: bool
) -> dict[str, Any]:
    """Medians of several turns; ratios are medians of the turns' own ratios."""
    layers = list(range(model.n_layers))
    parts = batches_of(items, BATCH)
    batches = [PromptBatch.of([item.prompt for item in part], model.device) for part in parts]

    def clean() -> None:
        for batch in batches:
            model(batch.tokens, attention_mask=batch.mask)

    def sweep() -> None:
        for part in parts:
            of_layers(model, layers).rows(part)

    def one_by_one() -> None:
        for batch, part in zip(batches, parts, strict=True):
            hooked_passes(model, batch, part, layers)

    def whole() -> None:
        with patch.object(LensModel, "continues", False):
            sweep()

    works: dict[str, Callable[[], None]] = {"clean": clean, "sweep": sweep}
    if hooked:
        works["whole"] = whole
        works["hooked"] = one_by_one
    model.require("resume", "positions", "edit_resid")
    with torch.no_grad():
        times = turns(works, repeats, model.device.type, core=torch.get_num_threads() == 1)
    cost = quotients(times["sweep"], times["clean"])
    floor = operations(model, items)
    row = {
        "examples": len(items),
        "affected": sum(item.affected for item in items),
        "tokens_per_example": sum(item.n_tokens for item in items) / len(items),
        "slots_per_example": sum(item.n_pooled for item in items) / len(items),
        "repeats": repeats,
        "clean_s": median(times["clean"]),
        "sweep_s": median(times["sweep"]),
        "sweep_in_clean_passes": median(cost),
        "spread": spread(cost),
        FLOOR: floor,
        "over_floor": median(cost) / floor,
    }
    if hooked:
        in_whole = quotients(times["whole"], times["clean"])
        row |= {
            "whole_in_clean_passes": median(in_whole),
            "whole_spread": spread(in_whole),
            "whole_floor": operations(model, items, whole=True),
            "hooked_in_clean_passes": median(quotients(times["hooked"], times["clean"])),
            **middle_and_range("hooked_over_sweep", quotients(times["hooked"], times["sweep"])),
        }
    return row


def hooked_passes(
    model: LensModel, batch: PromptBatch, items: Sequence[PreparedExample], layers: Sequence[int]
) -> None:
    """The obvious way: one full forward pass per layer and pooling."""
    units = batch.layout([item.prompt.groups for item in items]).of_token
    for layer in layers:
        for how in POOLINGS:
            with pool_at(model, layer, units, how, mode="broadcast"):
                model(batch.tokens, attention_mask=batch.mask)


class BlockCost(NamedTuple):
    """Multiplications of a block.

    Attributes:
        dense: at each position, attention's pattern left out.
        d_model: of each position and key, both products of the pattern take as many.
        end: of ``dense``, what follows the pattern.
    """

    dense: float
    d_model: int
    end: float

    def __call__(self, length: int, keys: int | None = None) -> float:
        """It runs on ``length`` positions, which attend to ``keys``."""
        return length * (self.dense + 2 * (length if keys is None else keys) * self.d_model)

    def spared(self, length: int) -> float:
        """What of the last one is not run where the last position alone is read."""
        return (length - 1) * self.end

    @classmethod
    def of(cls, model: LensModel) -> BlockCost:
        """Counted in a pass of one token."""
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, 1, dtype=torch.long, device=model.device))
        counted = counter.get_total_flops() / 2 - model.d_model * model.d_vocab
        last = model.lens.blocks[-1]
        weights = [*last.attn.o.parameters(), *last.mlp.parameters()]
        end = sum(weight.numel() for weight in weights if weight.dim() == 2)
        return cls(counted / model.n_layers - 2 * model.d_model, model.d_model, end)


def operations(model: LensModel, items: Sequence[PreparedExample], *, whole: bool = False) -> float:
    """Multiplications of a sweep over those of a clean pass, from the lengths alone."""
    n_layers, block = model.n_layers, BlockCost.of(model)
    unembed = model.d_model * model.d_vocab
    clean = sum(n_layers * block(it.n_tokens) + it.n_tokens * unembed for it in items)
    kept = sum(n_layers * block(it.n_tokens) + unembed for it in items)
    streams_blocks = len(POOLINGS) * n_layers * (n_layers + 1) / 2
    n_streams = len(POOLINGS) * n_layers
    pooled = sum(
        streams_blocks * block(n_run(it, whole=whole), it.n_pooled)
        + n_streams * (unembed - (0 if whole else block.spared(n_run(it))))
        for it in items
        if it.affected
    )
    return (kept + pooled) / clean


def n_run(item: PreparedExample, *, whole: bool = False) -> int:
    """Positions of a stream, from the first unit of several tokens on or ``whole``."""
    return item.n_pooled - (0 if whole else item.prompt.n_before_change)


def prepared(model: LensModel, texts: Sequence[str]) -> list[PreparedExample]:
    examples = [Example(text, "a") for text in texts]
    return prepare_all(model, examples, OPTIONS)


def middle(items: Sequence[PreparedExample], n: int) -> list[PreparedExample]:
    """The ``n`` in the middle by length: such as a long run's batches hold, one beside its like."""
    ordered = sorted(items, key=lambda item: (item.n_pooled, item.n_tokens, item.index))
    start = (len(ordered) - n) // 2
    return ordered[start : start + n]


def of_length(model: LensModel, texts: Sequence[str], length: int) -> list[PreparedExample]:
    """Prompts of just under ``length`` tokens, 256 tokens in all."""
    words = " ".join(texts).split()
    out: list[str] = []
    while len(out) < 256 // length:
        prompt: list[str] = []
        while len(model.tokenizer(" ".join(prompt) + ' "').input_ids) < length - 2:
            prompt.append(words.pop())
        out.append(" ".join(prompt) + ' "')
    return prepared(model, out)


def gpt2(
    n_layers: int, tokenizer: Any, device: str, dtype: str = "float32", **shape: int
) -> LensModel:
    """GPT-2 small's shape but for ``shape``, with random weights."""
    torch.manual_seed(0)
    shape = {"n_layer": n_layers, "vocab_size": D_VOCAB, **shape}
    config = GPT2Config(**shape, bos_token_id=0, eos_token_id=0)
    hf_model = GPT2LMHeadModel(config).eval().to(device, getattr(torch, dtype))
    return load_model(hf_model, tokenizer=tokenizer)


@torch.no_grad()
def peak_mib(model: LensModel, items: Sequence[PreparedExample], what: str) -> float:
    """What a clean pass or a sweep of one batch holds at most, beyond the model."""
    layers = list(range(model.n_layers))
    model.require("resume", "positions")
    part = batches_of(items, BATCH)[-1]
    batch = PromptBatch.of([item.prompt for item in part], model.device)
    model(batch.tokens[:1, -4:], attention_mask=batch.mask[:1, -4:])

    def run() -> None:
        if what == "clean":
            model(batch.tokens, attention_mask=batch.mask)
        else:
            of_layers(model, layers).rows(part)

    return round(peak_bytes(run, model.device.type) / 2**20, 1)


def peak(what: str, device: str, examples: int) -> float:
    """The peak of GPT-2 small's shape, for a process that has done nothing else."""
    torch.set_num_threads(1)
    texts = load_texts(4000)[1]
    model = gpt2(12, byte_level(texts, 4000, bos=True), device)
    return peak_mib(model, middle(prepared(model, texts[:400]), examples), what)


def of_layers(model: LensModel, layers: Sequence[int]) -> PreparedCap:
    """The study's own pass over a batch, everything from tokens to outcomes."""
    measured: Any = {"options": OPTIONS, "layers": layers, "poolings": POOLINGS, "items": ()}
    return PreparedCap(kind=CapCurve, model=model, config={}, batches=(), **measured)
