"""What a CAP curve of a real language model holds in memory, and how long it takes, in clean passes
with logits at every position.

SmolLM2-135M (30 layers × 576, 49,152 tokens in its vocabulary) on ``agreement``, subjects pooled in
every way and with controls: the largest batch at the default batch size. The model is a file that
its user gets (docs/real-model.md); without it nothing is measured, and it is said so. For 13
start layers and for all:

clean
    one forward pass of the library's over the batch, with logits at every position;
curve
    ``cap_curve``'s own pass over it, from token ids to rows.

*Live* is the most bytes that tensors hold at once beyond the weights (:class:`LiveTensors`), which
is the same in every run; *resident* is by how much the process grew while it ran, in the same call.
Times are processor time on one thread, and of all start layers that of the one counted call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.common import (
    LiveTensors,
    Ratio,
    core_seconds,
    in_a_process,
    machine,
    middle_and_range,
    peak_bytes,
    quotients,
    ranged,
    turns,
)
from interp_compose.models.load import load_model
from interp_compose.studies.cap.measure import prepare_cap
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.core.inputs import PromptBatch
from interp_compose.tasks.load import load_task

MODEL: Final = "out/models/SmolLM2-135M-Instruct.Q4_1.gguf"
LAYERS: Final = (0, 2, 4, 6, 8, 10, 12, 15, 18, 21, 24, 27, 29)
"""Start layers of docs/real-model.md."""
LLAMAS: Final[dict[str, dict[str, int]]] = {
    "few key heads": {"num_key_value_heads": 2, "num_hidden_layers": 8, "vocab_size": 1000},
    "a large vocabulary": {"num_hidden_layers": 4, "vocab_size": 50_000},
}
MIB: Final = 2**20


def benchmark(
    model: str = MODEL, repeats: int = 3, threads: int = 1, quick: bool = False
) -> dict[str, Any]:
    """``cap_memory_cpu``. ``--quick`` leaves out all start layers."""
    if not Path(model).exists():
        print(
            f"cap_memory        skipped: no model {model} (docs/real-model.md says how to get it)"
        )
        return {}
    rows = [in_a_process(measured, model, LAYERS, repeats)]
    if not quick:
        rows.append(in_a_process(measured, model, None, 0))
    return {"cap_memory_cpu": {"threads": threads, "rows": rows, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = []
    for row in content["rows"]:
        of = f"{row['layers']} start layers, {row['poolings']} poolings"
        for what in ("live", "resident"):
            held = f"{what}, {of}: {row[f'curve_{what}_mib']:.0f} MiB, "
            held += f"{row[f'{what}_in_weights']:.2f} of the weights ({row['weights_mib']:.0f} MiB)"
            peer = f"clean ({row[f'clean_{what}_mib']:.0f} MiB)"
            over = ranged(row, f"{what}_in_clean_passes")
            rows.append(Ratio(held, *over, "times as much as", peer, goal=1.5))
        over, peer = ranged(row, "seconds_in_clean_passes"), f"clean ({row['clean_s']:.1f} s)"
        n, length = row["batch"]
        rows.append(Ratio(f"curve, {of}, {n} × {length} tokens", *over, peer=peer))
    return rows


@torch.no_grad()
def measured(path: str, layers: tuple[int, ...] | None, repeats: int) -> dict[str, Any]:
    """A row, of a process that has done nothing else; ``repeats`` turns of time."""
    torch.set_num_threads(1)
    model = load_model(path)
    task = load_task("agreement", model)
    options: dict[str, Any] = {"unit": "span", "answers": task.labels}
    prepared = prepare_cap(model, task.test, CapOptions(layers=layers, **options))
    part = max(prepared.batches, key=len)
    batch = PromptBatch.of([item.prompt for item in part], model.device)

    def clean() -> None:
        model(batch.tokens, attention_mask=batch.mask)

    def curve() -> None:
        prepared.rows(part)

    model(batch.tokens[:1, -4:], attention_mask=batch.mask[:1, -4:])
    weights = sum(weight.nbytes for weight in model.parameters())
    row: dict[str, Any] = {
        "layers": len(prepared.layers),
        "poolings": len(prepared.poolings),
        "batch": list(batch.tokens.shape),
        "weights_mib": round(weights / MIB, 1),
    }
    for name, work in (("clean", clean), ("curve", curve)):
        live, resident, seconds = held(work)
        row |= {
            f"{name}_live_mib": round(live / MIB, 1),
            f"{name}_resident_mib": round(resident / MIB, 1),
            f"{name}_s": seconds,
        }
    for what in ("live", "resident"):
        peak = row[f"curve_{what}_mib"]
        row[f"{what}_in_clean_passes"] = peak / row[f"clean_{what}_mib"]
        row[f"{what}_in_weights"] = peak / row["weights_mib"]
    row["seconds_in_clean_passes"] = row["curve_s"] / row["clean_s"]
    if repeats:
        times = turns({"clean": clean, "curve": curve}, repeats, core=True, warm=0)
        over = quotients(times["curve"], times["clean"])
        row |= {f"{name}_s": median(taken) for name, taken in times.items()}
        row |= {"repeats": repeats, **middle_and_range("seconds_in_clean_passes", over)}
    return row


@torch.no_grad()
def expected_benchmark(threads: int = 1) -> dict[str, Any]:
    """``cap_expected_cpu``: mini-idm, and small Llamas with its tokenizer, on its texts."""
    mini, rows = load_model("mini-idm"), []
    models = {"mini-idm": mini}
    for name, shape in LLAMAS.items():
        config = LlamaConfig(hidden_size=64, intermediate_size=128, num_attention_heads=4, **shape)
        models[name] = load_model(LlamaForCausalLM(config).eval(), tokenizer=mini.tokenizer)
    modes: tuple[Any, ...] = ("collapse", "broadcast")
    for (name, model), mode in product(models.items(), modes):
        over = []
        for size in (4, 16, 64):
            options = CapOptions(mode=mode, batch_size=size)
            prepared = prepare_cap(model, load_task("mini-idm", model).test[::9], options)
            prepared.rows(prepared.batches[0])  # what is computed once only is no batch's
            for part in prepared.batches:
                over.append(
                    (prepared.expected_bytes(part) or 0) / held(partial(prepared.rows, part))[0]
                )
        of = {"of": f"{name}, {mode}", "batches": len(over)}
        rows.append(of | middle_and_range("expected_in_live", over))
    return {"cap_expected_cpu": {"threads": threads, "rows": rows, **machine()}}


def expected_ratios(content: dict[str, Any]) -> list[Ratio]:
    """What a CAP sweep is estimated to hold (`enough_memory.py`) over what its tensors held, in
    batches of 4, 16 and 64 texts: the median batch, the smallest and the largest ratio."""
    return [
        Ratio(row["of"], *ranged(row, "expected_in_live"), "times", "what tensors held")
        for row in content["rows"]
    ]


def held(work: Callable[[], object]) -> tuple[int, int, float]:
    """Bytes of tensors and of the process that a call holds at most, and its seconds."""
    live = LiveTensors()
    seconds = 0.0

    def counted() -> None:
        nonlocal seconds
        with live:
            seconds = core_seconds(work)

    resident = peak_bytes(counted, "cpu")
    return live.peak, resident, seconds
