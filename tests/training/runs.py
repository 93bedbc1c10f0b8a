"""A tiny model and made-up examples that need no tokenizer, for tests of the training loop."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import TrainingExample
from interp_compose.training.finetune import Finetuned, finetune_on

D_VOCAB = 23
CARMA = CarmaConfig(weight=0.4, mi_weight=0.5, stability_weight=0.7, layers=(1, 2))
BASE = TrainConfig(lr=3e-3, epochs=2, batch_size=6, warmup_steps=2, schedule="cosine")


def hugging_face(*, seed: int = 0, dropout: float = 0.1) -> GPT2LMHeadModel:
    """A GPT-2 of three layers, every axis its own prime or product of small ones."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=D_VOCAB,
        n_positions=17,
        n_embd=14,
        n_layer=3,
        n_head=2,
        n_inner=19,
        initializer_range=0.3,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).eval()


def tiny(*, seed: int = 0, dropout: float = 0.1) -> LensModel:
    """The same behind this library's surface, always under one name."""
    return load_model(hugging_face(seed=seed, dropout=dropout))


@cache
def shared(*, dropout: float = 0.1) -> LensModel:
    """:func:`tiny` for all trainings, which work on a copy: what it can do is proven once."""
    return tiny(dropout=dropout)


def made_up(n: int, *, seed: int = 0) -> list[TrainingExample]:
    """Texts of 4 to 11 tokens, BOS first, in words of one to three tokens.

    The answer is a function of the last token, so that there is something to learn.
    """
    rng = np.random.default_rng(seed)
    items = []
    for _ in range(n):
        sizes = [int(size) for size in rng.integers(1, 4, size=rng.integers(2, 5))]
        words = [-1, *(word for word, size in enumerate(sizes) for _ in range(size))]
        ids = np.array([0, *rng.integers(1, D_VOCAB, size=len(words) - 1)])
        items.append(TrainingExample(ids, np.array(words), int(ids[-1] % 5)))
    return items


def train(
    model: LensModel,
    config: TrainConfig = BASE,
    *,
    carma: CarmaConfig | None = None,
    n: int = 20,
    validation: int = 7,
    folder: Path | None = None,
) -> Finetuned:
    """A run on made-up examples: 20 of them are four batches an epoch, the last one of two."""
    return finetune_on(
        model,
        made_up(n),
        made_up(validation, seed=1),
        "made-up",
        carma=carma,
        config=config,
        folder=folder,
        progress=False,
    )


@cache
def undisturbed(
    config: TrainConfig = BASE, carma: CarmaConfig | None = None, *, dropout: float = 0.1
) -> Finetuned:
    """A run as it is without any interruption, for all tests that compare with it."""
    return train(shared(dropout=dropout), config, carma=carma)


def weights(model: LensModel) -> dict[str, torch.Tensor]:
    """A copy of every weight by name."""
    return {name: weight.detach().clone() for name, weight in model.lens.named_parameters()}


def largest_difference(one: LensModel, other: LensModel) -> float:
    """Over all weights of two models of one kind but the keys' biases.

    Softmax is blind to those: their gradient is rounding, which AdamW scales up to full steps.
    """
    others = weights(other)
    return max(
        float((weight.double() - others[name].double()).abs().max())
        for name, weight in weights(one).items()
        if not ("attn.k." in name and name.endswith("bias"))
    )


def same_weights(one: LensModel, other: LensModel) -> bool:
    """To the bit."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)
