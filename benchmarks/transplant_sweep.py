"""What transplants cost a cell, in hooked forward passes.

Run with ``python -m benchmarks.transplant_sweep`` (``--device cuda`` on a GPU). GPT-2 small's shape
with random weights; pairs of WordNet definitions in the inverse dictionary's prompt: a batch of 16
targets of like length and as many sources, the phrase of each its first word of several tokens. A
*cell* is one layer, pooling and vector: 12 × 3 × 4, the three controls included. In one run, turn
about:

study
    ``transplant``'s own passes, everything from tokens to outcomes, the clean runs of sources and
    targets among them;
hooked
    for every layer one forward pass of the targets, with logits at every position, under one hook
    that writes a vector at the phrase's place: what one cell costs that way, not counting how it
    got its vector.

On one thread of a CPU, times are processor time. The *floor* is the operation count of a cell over
that of a hooked pass, by multiplications, as in ``benchmarks.cap_sweep``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.cap_sweep import (
    BATCH,
    block,
    gpt2,
    on_one_core,
    prepared,
    synchronised,
)
from benchmarks.common import (
    byte_level,
    core_seconds,
    load_texts,
    machine,
    seconds,
    spread,
    write,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.core.inputs import PreparedExample, PromptBatch
from interp_compose.studies.transplant.measure import PreparedTransplant, prepare_transplant
from interp_compose.studies.transplant.options import TransplantOptions
from interp_compose.tasks.transplants import TransplantPair


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/transplant_sweep_{device}.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch, on the CPU")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    texts = load_texts(4000)[1]
    tokenizer = byte_level(texts, 4000, bos=True)
    model = gpt2(12, tokenizer, args.device)
    pairs = pairs_of(prepared(model, texts[:400]))
    work = prepare_transplant(model, pairs, TransplantOptions(batch_size=BATCH))
    row = compare(model, work, args.repeats)
    print(
        f"{row['cells']} cells: {row['cell_in_hooked_passes']:.3f} hooked passes each "
        f"({row['spread'][0]:.3f} to {row['spread'][1]:.3f}), floor {row['floor']:.3f}"
    )
    if args.device != "cpu":
        row["gpu"] = torch.cuda.get_device_name(args.device)
    about = {"threads": torch.get_num_threads(), **machine()}
    write(f"transplant_sweep_{torch.device(args.device).type}", {**row, **about})


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
    times: dict[str, list[float]] = {name: [] for name in passes}
    clock = core_seconds if on_one_core(model.device) else seconds
    with torch.no_grad():
        for turn in range(repeats + 1):
            for name, one in passes.items():
                taken = clock(lambda one=one: synchronised(one, model.device))
                if turn:  # the first one warms up
                    times[name].append(taken)
    turns = zip(times["study"], times["hooked"], strict=True)
    cost = [(study / cells) / (one / model.n_layers) for study, one in turns]
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
    n_layers, unembed = model.n_layers, model.d_model * model.d_vocab
    cells = 12 * n_layers
    streams = 12 * n_layers * (n_layers + 1) / 2
    hooked = clean = swept = 0.0
    for pair in pairs:
        target, before = pair.target.expected, int(pair.target_phrase.nonzero()[0][0])
        once = n_layers * block(model, target.n_tokens)
        hooked += once + target.n_tokens * unembed
        clean += once + 2 * n_layers * block(model, pair.source.n_tokens)
        # nothing before the phrase is run
        swept += streams * block(model, target.n_pooled - before, target.n_pooled)
        swept += cells * unembed
    return float((swept + clean) / cells / hooked)


if __name__ == "__main__":
    main()
