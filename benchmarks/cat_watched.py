"""Complexity of weights while a BERT, and the same with CAT's codes, are pre-trained.

The runs of ``interp-compose pretrain --models bert,cat-last``, and at each of their evaluations
the mean stable rank and condensation of the matrices that both have, and agreement with people on
BiRD with words pooled at each layer. BiRD is read from ``INTERP_COMPOSE_TEST_DATA``::

    python -m benchmarks.cat_watched --data-dir texts --sememes hownet --out out/pretrain

Writes ``results/cat_watched.json``: means over seeds by step, accuracy on masked words beside them,
and differences to the BERT after the last step, paired by seed; and a picture. The folder is one
that ``pretrain`` itself goes on with, and that ``encoders`` and ``codes`` open.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pandas as pd

import interp_compose as ic
from benchmarks.watching import OF_WEIGHTS, looks_of, matrix_means, watched, write_watched
from interp_compose.papers.cat.models.bert import SmallEncoder
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.pretrain import measure
from interp_compose.papers.cat.studies.pretrain.data import kept
from interp_compose.papers.cat.training.pretraining import Pretraining

AGREEMENT: Final = "agreement"
MODELS: Final = ("bert", "cat-last")
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, and write results and picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--sememes", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-steps", type=int, default=ic.cat.EncoderTraining().max_steps)
    options = parser.parse_args(arguments)
    with patch.object(measure, "TRAIN", "benchmarks.cat_watched:train"):
        found = ic.cat.pretrain(
            options.data_dir,
            MODELS,
            options.out,
            sememes=ic.cat.load_sememes(options.sememes),
            seeds=options.seeds,
            run=replace(ic.cat.EncoderTraining(), max_steps=options.max_steps),
            where="workers",
        )
    curve = found.frames["curve"]
    right = curve[curve["output"] == "cont"].rename(columns={"masked_accuracy": "value"})
    right = right[["model", "seed", "step", "value"]].assign(measure="masked words")
    looks = list(looks_of(options.out))
    people = pd.concat(looks)[lambda rows: rows["of"].str.startswith("pearson")]
    people = people.assign(measure=[f"BiRD, {of(layer)}" for layer in people["layer"]])
    frame = pd.concat([matrix_means(looks, MATRICES), right, people], ignore_index=True)
    about = {name: found.config[name] for name in ("seeds", "max_steps", "n_layers", "d_model")}
    write_watched("cat_watched", frame, MODELS, about)


if __name__ == "__main__":
    main()
