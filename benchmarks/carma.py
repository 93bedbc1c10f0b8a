"""What CARMA costs over plain fine-tuning: the time of an optimiser step, in one run, and of a
forward pass after it.

GPT-2 small's shape with random weights, batches of 16 prompts of 20 tokens (words of one to three).
Each turn takes one step of each kind, plain fine-tuning among them, on the same weights and the
same batch; a ratio is the median over turns of (CARMA's step / the plain step of its turn). The
paper reports 1.8 (IDM) and 7.6 (SC) for this model. ``--precision bfloat16`` is for a GPU,
``--shape`` is one of three.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import interp_compose as ic
from benchmarks.common import Ratio, machine, median_and_range, quotients, turns
from interp_compose.models.copying import copy_model
from interp_compose.models.lens_model import LensModel
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import TrainingExample
from interp_compose.training.loop import Trainer
from interp_compose.training.objectives import AnswerToken, Carma

BATCH, LENGTH = 16, 20


def benchmark(
    device: str = "cpu",
    shape: str = "gpt2-small",
    precision: str = "float32",
    repeats: int = 7,
    threads: int = 1,
) -> dict[str, Any]:
    """``carma_{shape}_{device}_{precision}``."""
    costs = overheads(random_model(shape, device), repeats, precision)
    on = "cpu" if device == "cpu" else torch.cuda.get_device_name()
    content = {
        "machine": machine() | {"device": on},
        "shape": shape,
        "precision": precision,
        "threads": threads,
        "batch": BATCH,
        "tokens": LENGTH,
        "turns": repeats,
        **costs,
    }
    return {f"carma_{shape}_{device}_{precision}": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    plain = f"a plain step ({content['plain_step_seconds']['median']:.2g} s)"
    of = f"{content['shape']}, {content['precision']}"
    steps = [
        Ratio(f"CARMA's step, {name}: {of}", *each.values(), peer=plain)
        for name, each in content["overhead"].items()
    ]
    if "inference" not in content:  # measured before this was
        return steps
    after = Ratio(
        f"a forward pass of a model that CARMA tuned: {of}",
        *content["inference"].values(),
        peer="one of a model that plain fine-tuning tuned",
    )
    return [*steps, after]


def overheads(model: LensModel, repeats: int, precision: Any) -> dict[str, Any]:
    """The plain step, CARMA's over it, and a forward pass after it; one turn of warming up is left
    out."""
    after = inference(model, repeats, precision)
    steps = {name: one.train_step for name, one in trainers(model, repeats + 1, precision).items()}
    times = turns(steps, repeats, model.device.type)
    plain = times.pop("plain")
    overhead = {name: median_and_range(quotients(of, plain)) for name, of in times.items()}
    return {"plain_step_seconds": median_and_range(plain), "overhead": overhead, "inference": after}


def inference(model: LensModel, repeats: int, precision: Any) -> dict[str, Any]:
    """A forward pass after a step of CARMA over one after a plain step, of the batch trained on."""
    ids = np.stack([item.ids for item in examples(BATCH, model.d_vocab)])
    batch = torch.from_numpy(ids).to(model.device)
    forwards = {}
    for name in ("plain", "paper's layers (1-3)"):
        tuned = copy_model(model)
        trainers(tuned, 1, precision)[name].train_step()
        forwards[name] = partial(tuned.forward, batch)
    with torch.inference_mode():
        plain, carma = turns(forwards, repeats, model.device.type, core=True).values()
    return median_and_range(quotients(carma, plain))


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
    rows = []
    for _ in range(n):
        words = np.repeat(np.arange(LENGTH), rng.integers(1, 4, LENGTH))[: LENGTH - 1]
        ids = rng.integers(0, d_vocab, LENGTH)
        rows.append(TrainingExample(ids, np.append(-1, words), int(rng.integers(d_vocab))))
    return rows


LLAMAS: Final[Mapping[str, Mapping[str, int]]] = {
    "llama-3.2-1b": {
        "vocab_size": 128256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "smollm2-135m": {
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    },
}
"""Shapes with tied embeddings."""


def random_model(
    shape: str, device: str, dtype: str = "float32", tokenizer: Any = None, **settings: int
) -> LensModel:
    """A model of this shape, never trained; ``settings`` are of its config."""
    torch.manual_seed(0)
    if shape == "gpt2-small":
        model: Any = GPT2LMHeadModel(GPT2Config(**settings))
    elif shape in LLAMAS:
        sizes = {**LLAMAS[shape], **settings}
        model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=True))
    else:
        raise SystemExit(f"no shape {shape}; there are gpt2-small, {', '.join(LLAMAS)}")
    model = model.eval().to(device, getattr(torch, dtype))
    return ic.load_model(model, tokenizer=tokenizer)
