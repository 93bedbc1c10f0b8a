"""Complexity of weights while a BERT, and the same with CAT's codes, are pre-trained: run
``cat_watched``.

At each evaluation of ``pretrain`` the mean stable rank and condensation of the matrices that both
have, and agreement with people on BiRD with words pooled at each layer. BiRD is read from
``INTERP_COMPOSE_TEST_DATA``. Kept are means over seeds by step, accuracy on masked words beside
them, and differences to the BERT after the last step, paired by seed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pandas as pd

import interp_compose as ic
from benchmarks.watching import OF_WEIGHTS, kept_of, looks_of, watched
from interp_compose.papers.cat.models.bert import SmallEncoder
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.pretrain import measure
from interp_compose.papers.cat.studies.pretrain.data import kept
from interp_compose.papers.cat.training.pretraining import Pretraining

AGREEMENT: Final = "agreement"
MATRICES: Final = ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")


def train(config: Mapping[str, Any], folder: Path) -> None:
    """One run of the study, watched."""
    tokenizer = kept(folder.parents[1], config["data"]).tokenizer

    def named(model: SmallEncoder) -> SmallEncoderModel:
        return SmallEncoderModel.with_tokenizer(model, tokenizer, name=config["model"])

    bird = Path(os.environ["INTERP_COMPOSE_TEST_DATA"], "bird")
    pairs = ic.load_pairs("bird", data_dir=bird).test
    measures = (*OF_WEIGHTS, AGREEMENT)
    with watched(Pretraining, folder, named, measures=measures, pairs=pairs):
        measure.train(config, folder)


def of(layer: int) -> str:
    """How a row of agreement is called."""
    return "not pooled" if layer < 0 else f"pooled at layer {layer}"


def measured(
    folder: Path, data: str, sememes: str, models: Sequence[str], seeds: int, max_steps: int
) -> dict[str, Any]:
    """Pre-train all, watched."""
    with patch.object(measure, "TRAIN", "benchmarks.cat_watched:train"):
        trained = ic.cat.pretrain(
            data,
            models,
            folder,
            sememes=ic.cat.load_sememes(sememes),
            seeds=seeds,
            run=replace(ic.cat.EncoderTraining(), max_steps=max_steps),
            where="workers",
        )
    curve = trained.frames["curve"]
    right = curve[curve["output"] == "cont"].rename(columns={"masked_accuracy": "value"})
    right = right[["model", "seed", "step", "value"]].assign(measure="masked words")
    looks = pd.concat(looks_of(folder))
    people = looks[looks["of"].str.startswith("pearson")]
    people = people.assign(measure=[f"BiRD, {of(layer)}" for layer in people["layer"]])
    config = {name: trained.config[name] for name in ("seeds", "max_steps", "n_layers", "d_model")}
    return {"config": config, **kept_of(folder, MATRICES, models, [right, people])}
