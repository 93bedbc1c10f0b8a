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
from benchmarks.common import machine, spread, write
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
    end = model.n_layers - 1
    kinds: Mapping[str, CarmaConfig | None] = {
        "plain": None,
        "paper's layers (1-3)": CarmaConfig(layers=(1, 3)),
        "recommended layers (a third of the depth)": CarmaConfig(),
        "all layers": CarmaConfig(layers=(1, end)),
        "all layers, 5 negatives": CarmaConfig(layers=(1, end), negatives=5),
    }
    times = measure(model, kinds, options.turns, options.precision)
    plain = times["plain"]
    ratios = {
        name: [one / other for one, other in zip(of_kind, plain, strict=True)]
        for name, of_kind in times.items()
        if name != "plain"
    }
    result = {
        "machine": machine() | {"device": device_name(options.device)},
        "shape": options.shape,
        "precision": options.precision,
        "threads": options.threads,
        "batch": BATCH,
        "tokens": LENGTH,
        "turns": options.turns,
        "plain_step_seconds": {"median": median(plain), "range": spread(plain)},
        "overhead": {
            name: {"median": median(of_kind), "range": spread(of_kind)}
            for name, of_kind in ratios.items()
        },
    }
    kind = "cpu" if options.device == "cpu" else "cuda"
    write(f"carma_{options.shape}_{kind}_{options.precision}", result)
    print(f"plain step: {median(plain):.3f} s ({min(plain):.3f} to {max(plain):.3f})")
    for name, of_kind in ratios.items():
        print(f"{name}: {median(of_kind):.3f} ({min(of_kind):.3f} to {max(of_kind):.3f})")


def measure(
    model: LensModel, kinds: Mapping[str, CarmaConfig | None], turns: int, precision: Any
) -> dict[str, list[float]]:
    """Seconds of each step, by kind; one turn of warming up is left out."""
    items = examples(BATCH, model.d_vocab)
    config = TrainConfig(batch_size=BATCH, epochs=turns + 1, precision=precision)
    trainers = {
        name: Trainer(
            model,
            AnswerToken(items, ())
            if carma is None
            else Carma(items, (), config=carma.resolved(model.n_layers), n_layers=model.n_layers),
            config,
        )
        for name, carma in kinds.items()
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(turns + 1):
        for name, trainer in trainers.items():
            row = trainer.train_step()
            if turn:
                times[name].append(float(row["seconds"]))
    return times


def examples(n: int, d_vocab: int) -> list[TrainingExample]:
    """Prompts of :data:`LENGTH` tokens: BOS, then words of one to three tokens."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n):
        words = np.repeat(np.arange(LENGTH), rng.integers(1, 4, LENGTH))[: LENGTH - 1]
        ids = rng.integers(0, d_vocab, LENGTH)
        found.append(TrainingExample(ids, np.append(-1, words), int(rng.integers(d_vocab))))
    return found


def random_model(shape: str, device: str) -> LensModel:
    """A model of this shape, whose weights were never trained."""
    torch.manual_seed(0)
    if shape == "gpt2-small":
        return ic.load_model(GPT2LMHeadModel(GPT2Config()).to(device))
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
