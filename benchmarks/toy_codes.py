"""What CAT's eq. 4 alone makes of codes, and a term for right sememes with it: run ``toy_codes``.

Words are fixed random vectors with one to four sememes each, the commonest by Zipf's law. Only the
codebook, W_Q and W_K are trained, by guided decomposition and nothing else, all words in each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmarks.common import plain_rows
from interp_compose.papers.cat.models.composition import CodeNorm, Composition
from interp_compose.papers.cat.models.init import BERT_SCALE
from interp_compose.papers.cat.training.pretraining import (
    guided_loss,
    guided_positive_loss,
    sparsity_loss,
)

SETTINGS: Final[Mapping[str, tuple[CodeNorm, Sequence[str]]]] = {
    "eq. 4, first term": ("rms", ("guided",)),
    "eq. 4": ("rms", ("guided", "sparsity")),
    "eq. 4 and right sememes": ("rms", ("guided", "sparsity", "guided_positive")),
    "eq. 4, without RMSNorm": ("none", ("guided", "sparsity")),
    "eq. 4 and right sememes, without RMSNorm": (
        "none",
        ("guided", "sparsity", "guided_positive"),
    ),
}
"""The norm of O, and the terms of the loss, each with the weight 1."""
MOST_SEMEMES: Final = 4


def measured(
    seeds: Sequence[int], n_words: int, d_model: int, n_codes: int, steps: int, lr: float
) -> dict[str, Any]:
    """Before the first step and after the last, of each setting and seed."""
    sizes = {"n_words": n_words, "d_model": d_model, "n_codes": n_codes}
    rows = []
    for setting, (norm, terms) in SETTINGS.items():
        for seed in seeds:
            for step, found in trained(norm, terms, seed, steps, lr, **sizes).items():
                rows.append({"setting": setting, "seed": seed, "step": step, **found})
            print(rows[-1], flush=True)
    settings = {
        name: {"code_norm": norm, "terms": list(terms)} for name, (norm, terms) in SETTINGS.items()
    }
    config = {**sizes, "steps": steps, "lr": lr, "most_sememes": MOST_SEMEMES}
    return {"config": config, "settings": settings, "runs": plain_rows(pd.DataFrame(rows))}


def trained(
    norm: CodeNorm,
    terms: Sequence[str],
    seed: int,
    steps: int,
    lr: float,
    *,
    n_words: int,
    d_model: int,
    n_codes: int,
) -> dict[int, dict[str, float]]:
    """What codes name, by the step; words, sememes and weights are those of the seed."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(n_words, d_model, generator=generator)
    sememes = drawn_sememes(n_words, n_codes, generator)
    model = Composition(d_model, n_codes, norm)
    for weight in model.parameters():  # as init_bert draws them
        draw = torch.randn(weight.shape, generator=generator)
        weight.data = draw * BERT_SCALE / d_model**0.5
    optimizer = torch.optim.Adam(model.parameters(), lr)
    share = torch.ones(1, n_words)  # each word counts once
    looks = {0: named(_weights(model, words), sememes)}
    for _ in range(steps):
        weights = _weights(model, words)  # [word code]
        parts = {
            "guided": guided_loss(weights, sememes),
            "sparsity": sparsity_loss([weights[None]], share),
        }
        if "guided_positive" in terms:
            parts["guided_positive"] = guided_positive_loss(model.cosines(words), sememes)
        optimizer.zero_grad()
        torch.stack([parts[name] for name in terms]).sum().backward()
        optimizer.step()
    looks[steps] = named(_weights(model, words), sememes)
    return looks


def drawn_sememes(n_words: int, n_codes: int, generator: torch.Generator) -> Bool[Tensor, "word _"]:
    """One to four different sememes of each word, the k-th commonest 1/k as likely as the first;
    every code stands for one."""
    likely = 1 / torch.arange(1, n_codes + 1, dtype=torch.float64)
    sememes = torch.zeros(n_words, n_codes, dtype=torch.bool)
    for row in sememes:
        n = int(torch.randint(1, MOST_SEMEMES + 1, (1,), generator=generator))
        row[torch.multinomial(likely, n, generator=generator)] = True
    return sememes


@torch.no_grad()
def named(
    weights: Float[Tensor, "word code"], sememes: Bool[Tensor, "word code"]
) -> dict[str, float]:
    """R-precision as :mod:`.codes.sememes` has it (codes of weight 0 name nothing), the share of
    right codes that have a weight, that of words without any code, and codes a word."""
    precision = []
    for row, right in zip(weights, sememes, strict=True):
        heaviest = row.argsort(descending=True)[: int(right.sum())]
        precision.append(float((right[heaviest] & (row[heaviest] > 0)).double().mean()))
    return {
        "r_precision": sum(precision) / len(precision),
        "right_codes": float((weights[sememes] > 0).double().mean()),
        "without_codes": float((weights == 0).all(dim=1).double().mean()),
        "codes_per_word": float((weights > 0).double().sum(dim=1).mean()),
    }


def _weights(model: Composition, words: Float[Tensor, "word d_model"]) -> Float[Tensor, "word _"]:
    weights: Tensor = model(words[None])[0][0]
    return weights
