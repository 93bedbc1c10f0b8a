"""What transplants cost a cell, in hooked forward passes.

GPT-2 small's shape with random weights; pairs of WordNet definitions in the inverse dictionary's
prompt: a batch of 16 targets of like length and as many sources, the phrase of each its first word
of several tokens. A *cell* is one layer, pooling and vector: 12 × 3 × 4, the three controls
included. In one run, turn about:

study
    ``transplant``'s own passes, everything from tokens to outcomes, the clean runs of sources and
    targets among them;
hooked
    for every layer one forward pass of the targets, with logits at every position, under one hook
    that writes a vector at the phrase's place: what one cell costs that way, not counting how it
    got its vector.

On one thread of a CPU, times are processor time. The *floor* is the operation count of a cell over
that of a hooked pass, by multiplications, as in ``benchmarks.cap_sweep``; the goal needs fewer than
there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.cap_sweep import BATCH, BlockCost, gpt2, prepared
from benchmarks.common import Ratio, byte_level, gpu, load_texts, machine, spread, turns
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.core.inputs import PreparedExample, PromptBatch
from interp_compose.studies.transplant.measure import PreparedTransplant, prepare_transplant
from interp_compose.studies.transplant.options import TransplantOptions
from interp_compose.tasks.transplants import TransplantPair


def benchmark(device: str = "cpu", repeats: int = 5, threads: int = 1) -> dict[str, Any]:
    """``transplant_sweep_{device}``."""
    texts = load_texts(4000)[1]
    model = gpt2(12, byte_level(texts, 4000, bos=True), device)
    pairs = pairs_of(prepared(model, texts[:400]))
    work = prepare_transplant(model, pairs, TransplantOptions(batch_size=BATCH))
    row = compare(model, work, repeats)
    return {f"transplant_sweep_{device}": {**row, **gpu(device), "threads": threads, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    cost, floor = (content["cell_in_hooked_passes"], content["spread"]), content["floor"]
    what = f"study, each of {content['cells']} cells"
    return [Ratio(what, *cost, peer="hooked, one pass", floor=floor, goal=0.25)]


def pairs_of(items: Sequence[PreparedExample]) -> list[TransplantPair]:
    """The ``BATCH`` in the middle by length as targets, those behind them as sources."""
    affected = sorted(
        (item for item in items if item.affected),
        key=lambda item: (item.n_pooled, item.n_tokens, item.index),
    )
    start = len(affected) // 2 - BATCH // 2
    targets, sources = affected[start : start + BATCH], affected[start + BATCH : start + 2 * BATCH]
    return [
        TransplantPair(
            source.prompt.text,
            first_word(source),
            target.prompt.text,
            first_word(target),
            "a",
            "b",
        )
        for source, target in zip(sources, targets, strict=True)
    ]


def first_word(item: PreparedExample) -> tuple[int, int]:
    """The characters of the first word of several tokens."""
    groups = item.prompt.groups
    unit = int(np.flatnonzero(item.prompt.group_sizes() > 1)[0])
    begin, end = item.prompt.offsets[groups == unit].T
    text = item.prompt.text[begin.min() : end.max()]
    return int(begin.min()) + len(text) - len(text.lstrip()), int(end.max())


def compare(model: LensModel, work: PreparedTransplant, repeats: int) -> dict[str, Any]:
    """Medians of several turns; ratios are medians of the turns' own ratios."""
    (pairs,) = work.batches
    batch = PromptBatch.of([pair.target.expected.prompt for pair in pairs], model.device)
    width = batch.tokens.shape[1]
    places = torch.tensor(
        [
            width - len(pair.target_phrase) + int(pair.target_phrase.nonzero()[0][-1])
            for pair in pairs
        ],
        device=model.device,
    )
    vectors = torch.randn(len(pairs), model.d_model).to(model.device, model.dtype)
    rows = torch.arange(len(pairs), device=model.device)

    def put(resid: Tensor, hook: Any) -> Tensor:
        out = resid.clone()
        out[rows, places] = vectors
        return out

    def hooked() -> None:
        for layer in range(model.n_layers):
            hooks = [(f"blocks.{layer}.hook_resid_pre", put)]
            model.run_with_hooks(batch.tokens, hooks, attention_mask=batch.mask)

    cells = model.n_layers * 3 * 4
    passes = {"study": lambda: work.rows(pairs), "hooked": hooked}
    with torch.no_grad():
        times = turns(passes, repeats, model.device.type, core=torch.get_num_threads() == 1)
    each = zip(times["study"], times["hooked"], strict=True)
    cost = [(study / cells) / (passed / model.n_layers) for study, passed in each]
    return {
        "pairs": len(pairs),
        "tokens_per_target": sum(pair.target.expected.n_tokens for pair in pairs) / len(pairs),
        "positions_per_target": sum(pair.target.expected.n_pooled for pair in pairs) / len(pairs),
        "cells": cells,
        "repeats": repeats,
        "study_s": median(times["study"]),
        "hooked_s": median(times["hooked"]),
        "cell_in_hooked_passes": median(cost),
        "spread": spread(cost),
        "floor": floor(model, pairs),
    }


def floor(model: LensModel, pairs: Sequence[Any]) -> float:
    """Multiplications of a cell over those of a hooked pass, from the lengths alone."""
    n_layers, unembed, block = model.n_layers, model.d_model * model.d_vocab, BlockCost.of(model)
    cells = 12 * n_layers
    streams = 12 * n_layers * (n_layers + 1) / 2
    hooked = clean = swept = 0.0
    for pair in pairs:
        target, before = pair.target.expected, int(pair.target_phrase.nonzero()[0][0])
        once = n_layers * block(target.n_tokens)
        hooked += once + target.n_tokens * unembed
        clean += once + 2 * n_layers * block(pair.source.n_tokens)
        # nothing before the phrase is run
        n_run = target.n_pooled - before
        swept += streams * block(n_run, target.n_pooled)
        swept += cells * (unembed - block.spared(n_run))
    return float((swept + clean) / cells / hooked)
