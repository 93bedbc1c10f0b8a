"""What a CAP sweep costs, in clean forward passes.

Run with ``python -m benchmarks.cap_sweep`` (``--device cuda`` on a GPU; ``--quick`` for a look).
A GPT-2-small shape with random weights, 12 start layers, poolings mean, max and sum, on WordNet
definitions in the inverse dictionary's prompt: a batch of 16 of like length, as in a long run. In
one run, turn about:

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
unit of several tokens on (or, ``whole``, from the start), without padding, and logits at the last
position only. What is above it is padding, pooling, copies and calls. It is a count and no law of
time: a sweep's calls are larger than a clean pass's, and larger products run faster, so that a
ratio a little below 1 is possible.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.common import (
    byte_level,
    core_seconds,
    load_texts,
    machine,
    peak_bytes,
    seconds,
    spread,
    write,
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


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/cap_sweep_{device}.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--examples", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch, on the CPU")
    parser.add_argument("--quick", action="store_true", help="the main figure only")
    parser.add_argument("--peak", choices=["clean", "sweep"], help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)  # one: a busy second core then changes little
    texts = load_texts(4000)[1]
    tokenizer = byte_level(texts, 4000, bos=True)
    model = gpt2(12, tokenizer, args.device)
    items = middle(prepared(model, texts[:400]), args.examples)
    if args.peak:
        print(peak_mib(model, items, args.peak))
        return
    dtypes = ["float32"] if args.device == "cpu" else ["float32", "bfloat16"]
    result: dict[str, Any] = {"threads": torch.get_num_threads(), "main": []}
    for dtype in dtypes:
        model = gpt2(12, tokenizer, args.device, dtype)
        row = {"dtype": dtype, **compare(model, items, args.repeats, hooked=True)}
        result["main"].append(row)
        show(f"WordNet definitions, 12 layers, {dtype}", row)
    if not args.quick:
        result["layers"] = [
            growth(gpt2(n, tokenizer, args.device), items[:8], args.repeats, layers=n)
            for n in (4, 12, 24)
        ]
        model = gpt2(12, tokenizer, args.device)
        result["length"] = [
            growth(model, of_length(model, texts, length), args.repeats, length=length)
            for length in (16, 64, 256)
        ]
        result["peak_memory_mib"] = {what: peak(what, args) for what in ("clean", "sweep")}
        print("peak memory beyond the model, MiB:", result["peak_memory_mib"])
    if args.device != "cpu":
        result["gpu"] = torch.cuda.get_device_name(args.device)
    write(f"cap_sweep_{torch.device(args.device).type}", {**result, **machine()})


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
    times: dict[str, list[float]] = {name: [] for name in works}
    model.require("resume", "positions", "edit_resid")
    clock = core_seconds if on_one_core(model.device) else seconds
    with torch.no_grad():
        for turn in range(repeats + 1):
            for name, work in works.items():
                if turn == 0 and name == "hooked":
                    continue
                taken = clock(lambda work=work: synchronised(work, model.device))
                if turn:  # the first one warms up
                    times[name].append(taken)
    cost = [s / c for s, c in zip(times["sweep"], times["clean"], strict=True)]
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
        "floor_in_clean_passes": floor,
        "over_floor": median(cost) / floor,
    }
    if hooked:
        in_whole = [w / c for w, c in zip(times["whole"], times["clean"], strict=True)]
        row |= {
            "whole_in_clean_passes": median(in_whole),
            "whole_spread": spread(in_whole),
            "whole_floor": operations(model, items, whole=True),
        }
        ratios = [h / s for h, s in zip(times["hooked"], times["sweep"], strict=True)]
        in_clean = [h / c for h, c in zip(times["hooked"], times["clean"], strict=True)]
        row |= {
            "hooked_in_clean_passes": median(in_clean),
            "hooked_over_sweep": median(ratios),
            "hooked_over_sweep_range": spread(ratios),
        }
    return row


def on_one_core(device: torch.device) -> bool:
    """Whether processor time is the time that the work takes."""
    return device.type == "cpu" and torch.get_num_threads() == 1


def synchronised(work: Callable[[], None], device: torch.device) -> None:
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def hooked_passes(
    model: LensModel, batch: PromptBatch, items: Sequence[PreparedExample], layers: Sequence[int]
) -> None:
    """The obvious way: one full forward pass per layer and pooling."""
    units = batch.layout([item.prompt.groups for item in items]).of_token
    for layer in layers:
        for how in POOLINGS:
            with pool_at(model, layer, units, how, mode="broadcast"):
                model(batch.tokens, attention_mask=batch.mask)


def block(model: LensModel, length: int, keys: int | None = None) -> float:
    """Multiplications of a block that runs on ``length`` positions, which attend to ``keys``; its
    MLP is four times as wide as the residual, as GPT-2's is."""
    dense = 12 * model.d_model**2
    return length * dense + 2 * length * (length if keys is None else keys) * model.d_model


def operations(model: LensModel, items: Sequence[PreparedExample], *, whole: bool = False) -> float:
    """Multiplications of a sweep over those of a clean pass, from the lengths alone."""
    n_layers = model.n_layers

    unembed = model.d_model * model.d_vocab
    clean = sum(n_layers * block(model, it.n_tokens) + it.n_tokens * unembed for it in items)
    kept = sum(n_layers * block(model, it.n_tokens) + unembed for it in items)
    streams_blocks = len(POOLINGS) * n_layers * (n_layers + 1) / 2
    pooled = sum(
        streams_blocks * block(model, it.n_pooled - (0 if whole else n_before(it)), it.n_pooled)
        + len(POOLINGS) * n_layers * unembed
        for it in items
        if it.affected
    )
    return (kept + pooled) / clean


def n_before(item: PreparedExample) -> int:
    """Tokens before the first unit of several."""
    several = np.flatnonzero(item.prompt.group_sizes() > 1)
    return int(np.flatnonzero(np.isin(item.prompt.groups, several))[0])


def growth(
    model: LensModel, items: Sequence[PreparedExample], repeats: int, **what: int
) -> dict[str, Any]:
    row = {**what, **compare(model, items, repeats, hooked=False)}
    show(", ".join(f"{name} {value}" for name, value in what.items()), row)
    return row


def show(title: str, row: dict[str, Any]) -> None:
    hooked = ""
    if "hooked_over_sweep" in row:
        hooked = (
            f"; whole {row['whole_in_clean_passes']:.2f}, floor {row['whole_floor']:.2f}; "
            f"hooked {row['hooked_in_clean_passes']:.1f}, "
            f"{row['hooked_over_sweep']:.2f} times the sweep"
        )
    print(
        f"{title}: {row['sweep_in_clean_passes']:.2f} clean passes "
        f"({row['spread'][0]:.2f} to {row['spread'][1]:.2f}), floor "
        f"{row['floor_in_clean_passes']:.2f}, ratio {row['over_floor']:.2f}{hooked}",
        flush=True,
    )


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


def peak(what: str, args: argparse.Namespace) -> float:
    """Peak memory of one kind of pass, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.cap_sweep", "--peak", what]
    command += ["--device", args.device, "--examples", str(args.examples)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(printed.split()[-1])


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


def of_layers(model: LensModel, layers: Sequence[int]) -> PreparedCap:
    """The study's own pass over a batch, everything from tokens to outcomes."""
    measured: Any = {"options": OPTIONS, "layers": layers, "poolings": POOLINGS, "items": ()}
    return PreparedCap(kind=CapCurve, model=model, config={}, batches=(), **measured)


if __name__ == "__main__":
    main()
