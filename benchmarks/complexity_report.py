"""What ``complexity_report`` costs, and a look of ``ic.watch``, in optimiser steps.

Random weights in a known shape, every matrix and every head (where other work runs, too, set
``OMP_WAIT_POLICY=PASSIVE``: threads that wait would spin); on a GPU also ``--shape llama-7b --dtype
bfloat16``.

*Report* is the time of one call, SHA-256 of the weights included. *Extra memory* (on a GPU) is the
highest allocation during the call beyond what lay there before, over the size of the weights: a
copy of the model would be 1.

*Look* is one measurement of a tracker (all matrices of all blocks, warm-started), *step* one
optimiser step of plain fine-tuning: ``mini-base`` on ``mini-idm``, as it suggests itself, in the
same run. *Share* is a look over 50 steps, by the medians. Each look is of the weights 50
steps after the last.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import interp_compose as ic
from benchmarks.common import Ratio, gpu, machine, middle_and_range, ranged, seconds
from interp_compose.models.lens_model import LensModel
from interp_compose.training.finetune import encode_examples
from interp_compose.training.loop import Trainer
from interp_compose.training.objectives import AnswerToken

EVERY = 50
SHAPES = {
    "gpt2-small": lambda: GPT2LMHeadModel(GPT2Config()),
    "llama-7b": lambda: LlamaForCausalLM(LlamaConfig()),  # its defaults are the 7B shape
}


def benchmark(
    device: str = "cpu",
    shape: str = "gpt2-small",
    dtype: str = "float32",
    threads: int = 2,
    repeats: int = 3,
    looks: int = 5,
) -> dict[str, Any]:
    """``complexity_report_{device}``; without the tracker where there are no ``looks``."""
    row = report(random_model(shape, torch.device(device), getattr(torch, dtype)), repeats)
    about = {"shape": shape, "dtype": dtype, "device": device, "threads": threads}
    content = {**about, "repeats": repeats, **row, **gpu(device), **machine()}
    if looks:
        content["tracker"] = tracker(device, looks)
    return {f"complexity_report_{device}": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    of = f"{content['shape']}, {content['matrices']} matrices, {content['rows']:,} rows"
    goal = 10 if content["shape"] == "gpt2-small" and content["device"] == "cpu" else None
    rows = [Ratio(f"report, {of}", *ranged(content, "report_s"), "s", goal=goal)]
    if "extra_over_weights" in content:
        extra = *ranged(content, "extra_over_weights"), "times the weights"
        rows.append(Ratio(f"extra memory, {of}", *extra))
    if "tracker" in content:
        row = content["tracker"]
        steps = row["every"] * row["step_s"]
        share = row["share_of_steps"], [each / steps for each in row["look_s_range"]]
        rows.append(Ratio(f"look at {row['model']}", *share, peer=f"{row['every']} steps"))
    return rows


def random_model(shape: str, device: torch.device, dtype: torch.dtype) -> LensModel:
    """Gaussian weights, written where they are to lie: nothing is initialised twice."""
    with torch.device("meta"):
        source: nn.Module = SHAPES[shape]()
    source = source.to(dtype).to_empty(device=device).eval()
    source.tie_weights()
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in source.parameters():
            weight.normal_(std=0.02)
    return ic.load_model(source)


def report(model: LensModel, repeats: int) -> dict[str, Any]:
    """Times of whole calls, and what they needed of a GPU's memory."""
    reports: list[Any] = []
    sizes = [weight.numel() * weight.element_size() for weight in model.parameters()]
    on_gpu = model.device.type == "cuda"
    before = torch.cuda.memory_allocated(model.device) if on_gpu else 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(model.device)
    times = [
        seconds(lambda: reports.append(ic.complexity_report(model, progress=False)))
        for _ in range(repeats)
    ]
    row: dict[str, Any] = {
        "matrices": len(reports[-1].merged),
        "rows": len(reports[-1].frame),
        "weights_bytes": sum(sizes),
        **middle_and_range("report_s", times),
    }
    if on_gpu:
        extra = torch.cuda.max_memory_allocated(model.device) - before
        row |= {"extra_bytes": extra, "extra_over_weights": extra / sum(sizes)}
    return row


def tracker(device: str, looks: int) -> dict[str, Any]:
    """A look every 50 steps of fine-tuning the shipped model."""
    model = ic.load_model("mini-base", device=device)
    task = ic.load_task("mini-idm", model)
    items = encode_examples(model, task.train, unit="word", which="train")
    size = sum(weight.numel() for weight in model.parameters())
    config = replace(ic.TrainConfig.suggested(size), epochs=EVERY * looks)
    trainer = Trainer(model, AnswerToken(items, []), config)
    watching = ic.watch(trainer.model, every=EVERY, budget=None)
    watching.look(0)  # from a random start
    step_times, look_times = [], []
    for at in range(looks):
        for _ in range(EVERY):
            step_times.append(seconds(trainer.train_step))
        look_times.append(seconds(lambda at=at: watching.look(EVERY * (at + 1))))
    share = median(look_times) / (EVERY * median(step_times))
    return {
        "model": "mini-base",
        "batch_size": config.batch_size,
        "every": EVERY,
        "looks": looks,
        "step_s": median(step_times),
        **middle_and_range("look_s", look_times),
        "share_of_steps": share,
    }
