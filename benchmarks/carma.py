"""What CARMA costs beside plain fine-tuning: the time of an optimiser step, in one run.

GPT-2 small's shape with random weights, batches of 16 prompts of 20 tokens (words of one to three).
Each turn takes one step of each kind, plain fine-tuning among them, on the same weights and the
same batch; a ratio is the median over turns of (CARMA's step / the plain step of its turn). The
paper reports 1.8 (IDM) and 7.6 (SC) for this model. ``--device cuda`` also measures bfloat16, and
``--shape llama-3.2-1b`` the larger of the two shapes::

    python -m benchmarks.carma
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import interp_compose as ic
from benchmarks.common import machine, spread, timed, write
from interp_compose.models.lens_model import LensModel
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import TrainingExample
from interp_compose.training.loop import Trainer
from interp_compose.training.objectives import AnswerToken, Carma

BATCH, LENGTH = 16, 20


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shape", default="gpt2-small", choices=("gpt2-small", "llama-3.2-1b"))
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    model = random_model(options.shape, options.device)
    costs = overheads(model, options.turns, options.precision)
    result = {
        "machine": machine() | {"device": device_name(options.device)},
        "shape": options.shape,
        "precision": options.precision,
        "threads": options.threads,
        "batch": BATCH,
        "tokens": LENGTH,
        "turns": options.turns,
        **costs,
    }
    kind = "cpu" if options.device == "cpu" else "cuda"
    write(f"carma_{options.shape}_{kind}_{options.precision}", result)
    for name, cost in {"plain step, s": costs["plain_step_seconds"], **costs["overhead"]}.items():
        print(f"{name}: {cost['median']:.3f} ({cost['range'][0]:.3f} to {cost['range'][1]:.3f})")


def overheads(model: LensModel, turns: int, precision: Any) -> dict[str, Any]:
    """The plain step, and CARMA's over it; one turn of warming up is left out."""
    steps = {name: one.train_step for name, one in trainers(model, turns + 1, precision).items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, step in steps.items():
            taken = timed(step, 1, model.device.type)
            if turn:
                times[name].append(taken)
    plain = times.pop("plain")
    overhead = {}
    for name, of_kind in times.items():
        ratios = [one / other for one, other in zip(of_kind, plain, strict=True)]
        overhead[name] = {"median": median(ratios), "range": spread(ratios)}
    seconds = {"median": median(plain), "range": spread(plain)}
    return {"plain_step_seconds": seconds, "overhead": overhead}


def trainers(model: LensModel, steps: int, precision: Any) -> dict[str, Trainer[Any]]:
    """Of the same weights: plain fine-tuning, and kinds of CARMA."""
    end = model.n_layers - 1
    kinds: Mapping[str, CarmaConfig | None] = {
        "plain": None,
        "paper's layers (1-3)": CarmaConfig(layers=(1, 3)),
        "recommended layers (a third of the depth)": CarmaConfig(),
        "all layers": CarmaConfig(layers=(1, end)),
        "all layers, 5 negatives": CarmaConfig(layers=(1, end), negatives=5),
    }
    items = examples(BATCH, model.d_vocab)
    config = TrainConfig(batch_size=BATCH, epochs=steps, precision=precision)
    return {
        name: Trainer(
            model,
            AnswerToken(items, ())
            if carma is None
            else Carma(items, (), config=carma.resolved(model.n_layers), n_layers=model.n_layers),
            config,
        )
        for name, carma in kinds.items()
    }


def examples(n: int, d_vocab: int) -> list[TrainingExample]:
    """Prompts of :data:`LENGTH` tokens: BOS, then words of one to three tokens."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n):
        words = np.repeat(np.arange(LENGTH), rng.integers(1, 4, LENGTH))[: LENGTH - 1]
        ids = rng.integers(0, d_vocab, LENGTH)
        found.append(TrainingExample(ids, np.append(-1, words), int(rng.integers(d_vocab))))
    return found


def random_model(shape: str, device: str, **settings: int) -> LensModel:
    """A model of this shape, never trained; ``settings`` are of GPT-2's config."""
    torch.manual_seed(0)
    if shape == "gpt2-small":
        return ic.load_model(GPT2LMHeadModel(GPT2Config(**settings)).to(device))
    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        tie_word_embeddings=True,
    )
    return ic.load_model(LlamaForCausalLM(config).to(device))


def device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"


if __name__ == "__main__":
    main()
