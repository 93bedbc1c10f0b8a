"""What ``complexity_report`` costs, and a look of ``ic.watch`` beside an optimiser step.

Random weights in a known shape, every matrix and every head (where other work runs beside it, set
``OMP_WAIT_POLICY=PASSIVE``: threads that wait would spin)::

    python -m benchmarks.complexity_report
    python -m benchmarks.complexity_report --shape llama-7b --device cuda --dtype bfloat16

*Report* is the time of one call, SHA-256 of the weights included. *Extra memory* (on a GPU) is the
highest allocation during the call beyond what lay there before, over the size of the weights: a
copy of the model would be 1.

*Look* is one measurement of a tracker (all matrices of all blocks, warm-started), *step* one
optimiser step of plain fine-tuning: ``mini-base`` on ``mini-idm``, as it suggests itself, in the
same run. *Share* is a look over 50 steps, by the medians. Each look is of the weights 50
steps after the last.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import interp_compose as ic
from benchmarks.common import machine, seconds, spread, write
from interp_compose.models.lens_model import LensModel
from interp_compose.training.finetune import encode_examples
from interp_compose.training.loop import Trainer
from interp_compose.training.objectives import AnswerToken

EVERY = 50
SHAPES = {
    "gpt2-small": lambda: GPT2LMHeadModel(GPT2Config()),
    "llama-7b": lambda: LlamaForCausalLM(LlamaConfig()),  # its defaults are the 7B shape
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/complexity_report_{device}.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="gpt2-small", choices=tuple(SHAPES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=2, help="of torch, on the CPU")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--looks", type=int, default=5, help="of the tracker; 0 leaves it out")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    model = random_model(options.shape, device, getattr(torch, options.dtype))
    result: dict[str, Any] = {
        "shape": options.shape,
        "dtype": options.dtype,
        "device": device.type,
        "threads": torch.get_num_threads(),
        **report(model, options.turns),
    }
    print(line(result), flush=True)
    del model
    if options.looks:
        result["tracker"] = tracker(device, options.looks)
        print(tracker_line(result["tracker"]))
    if device.type == "cuda":
        result["gpu"] = torch.cuda.get_device_name(device)
    write(f"complexity_report_{device.type}", {**result, **machine()})


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


def report(model: LensModel, turns: int) -> dict[str, Any]:
    """Times of whole calls, and what they needed of a GPU's memory."""
    found: list[Any] = []
    sizes = [weight.numel() * weight.element_size() for weight in model.parameters()]
    on_gpu = model.device.type == "cuda"
    before = torch.cuda.memory_allocated(model.device) if on_gpu else 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(model.device)
    times = [
        seconds(lambda: found.append(ic.complexity_report(model, progress=False)))
        for _ in range(turns)
    ]
    frame = found[-1].frame
    row: dict[str, Any] = {
        "matrices": len(found[-1].merged),
        "rows": len(frame),
        "weights_bytes": sum(sizes),
        "report_s": median(times),
        "report_s_range": spread(times),
    }
    if on_gpu:
        extra = torch.cuda.max_memory_allocated(model.device) - before
        row |= {"extra_bytes": extra, "extra_over_weights": extra / sum(sizes)}
    return row


def tracker(device: torch.device, looks: int) -> dict[str, Any]:
    """A look every 50 steps of fine-tuning the shipped model."""
    model = ic.load_model("mini-base", device=str(device))
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
        "look_s": median(look_times),
        "look_s_range": spread(look_times),
        "share_of_steps": share,
    }


def line(row: dict[str, Any]) -> str:
    """The report, for the terminal."""
    text = (
        f"{row['shape']} on {row['device']} in {row['dtype']}, {row['threads']} threads: "
        f"{row['matrices']} matrices, {row['rows']} rows in {row['report_s']:.1f} s "
        f"[{row['report_s_range'][0]:.1f}, {row['report_s_range'][1]:.1f}]"
    )
    if "extra_over_weights" in row:
        text += f"; extra memory {row['extra_over_weights']:.3f} of the weights'"
    return text


def tracker_line(row: dict[str, Any]) -> str:
    """The tracker, for the terminal."""
    look, step = 1e3 * row["look_s"], 1e3 * row["step_s"]
    return (
        f"{row['model']}: a look {look:.1f} ms, a step {step:.1f} ms; "
        f"one look every {row['every']} steps is {100 * row['share_of_steps']:.2f} % of them"
    )


if __name__ == "__main__":
    main()
