"""Agreement of a language model with BiRD's judgements: run ``bird_smollm2``.

BiRD lies under ``INTERP_COMPOSE_TEST_DATA``. What the same study finds on all-MiniLM-L6-v2 is in
``similarity_bird.json``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import interp_compose as ic
from benchmarks.common import plain_rows


def measured(
    out: Path, *, model: str, embeddings: Sequence[str], layers: Sequence[int]
) -> dict[str, Any]:
    """By embedding of a text, the mean of its tokens or the last one: agreement where phrases are
    pooled, and of the residual of each layer as it is; cosines of each pair."""
    data = Path(os.environ["INTERP_COMPOSE_TEST_DATA"]) / "bird"
    lens = None
    by_embedding: dict[str, Any] = {}
    for embedding in embeddings:
        folder = out / embedding
        if not (folder / "result.json").exists():
            lens = lens or ic.load_model(model)
            curve = ic.similarity_curve(
                lens,
                ic.load_pairs("bird", data_dir=data).test,
                pooling="mean",
                layers=layers,
                embedding=embedding,
                task="bird",
                resume=folder,
            )
            curve.save(folder, overwrite=True)
        result = ic.SimilarityCurve.load(folder)
        print(result.summary())
        by_embedding[embedding] = {
            "config": result.config,
            "curve": plain_rows(result.frame),
            "by_layer": plain_rows(result.by_layer),
            "cosines": _by_pair(result),
        }
    pairs = result.clean[["text1", "text2", "target", "mirror"]]
    return {"pairs": pairs.to_dict("list"), **by_embedding}


def _by_pair(result: ic.SimilarityCurve) -> list[dict[str, Any]]:
    """Of each pair in their order, the cosine of the clean model and of each pooling at each
    layer."""
    clean = result.clean.assign(pooling="clean", layer=-1)
    every = pd.concat([clean, result.outcomes]).sort_values("pair", kind="stable")
    return [
        {"pooling": pooling, "layer": layer, "cosine": rows["cosine"].round(4).tolist()}
        for (pooling, layer), rows in every.groupby(["pooling", "layer"], sort=False)
    ]
