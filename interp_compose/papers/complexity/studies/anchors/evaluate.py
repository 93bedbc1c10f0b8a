"""What is measured of a model on anchor functions while it learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.papers.complexity.grid.decoder_run import complexity_of
from interp_compose.papers.complexity.tasks.anchors import AnchorData, AnchorTask
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.training.parallel import ParallelTrainer


def sets_of(
    task: AnchorTask, samples: int, n_test: int, seed: Callable[[str], int]
) -> dict[str, AnchorData]:
    """Training data, the first ``n_test`` of it, and as many test sequences of each kind.

    ``swapped`` are the unseen ones with their anchors in the other order. Without unseen chains,
    there are neither.
    """
    train = task.sample("train", samples, seed=seed("train"))
    sets = {
        "train": train,
        "seen": train[: min(n_test, samples)],
        "id": task.sample("id", n_test, seed=seed("id")),
    }
    if task.unseen:
        sets["ood"] = task.sample("ood", n_test, seed=seed("ood"))
        sets["swapped"] = task.swapped(sets["ood"])
    return sets


Tensors = tuple[Int[Tensor, "run sample pos"], Int[Tensor, "run sample"]]
"""Tokens of every run, and the targets that follow."""


def stacked(runs: Sequence[Mapping[str, AnchorData]], device: str) -> dict[str, Tensors]:
    """Each set of all runs."""
    return {
        name: (
            torch.stack([sets[name].tokens for sets in runs]).to(device),
            torch.stack([sets[name].targets for sets in runs]).to(device),
        )
        for name in runs[0]
    }


class Evaluation:
    """Accuracies, commutativity and complexity of every model that is trained."""

    SHARES: Final = {"seen": "train", "id": "id", "ood": "ood"}

    def __init__(self, sets: Mapping[str, Tensors]) -> None:
        self.sets = sets

    def __call__(self, trainer: ParallelTrainer) -> list[dict[str, Any]]:
        predictions = {
            name: trainer.predict(tokens)
            for name, (tokens, _) in self.sets.items()
            if name != "train"
        }
        shares = {
            measure: (predictions[name] == self.sets[name][1]).double().mean(1).tolist()
            for name, measure in self.SHARES.items()
            if name in predictions
        }
        if "swapped" in predictions:
            commutativity = (predictions["ood"] == predictions["swapped"]).double().mean(1)
            shares["commutativity"] = commutativity.tolist()
        trainer.copy_to_models()
        return [
            {**{name: values[i] for name, values in shares.items()}, **_complexity(model)}
            for i, model in enumerate(trainer.models)
        ]


def query_neurons(model: SmallDecoder) -> Float[Tensor, "neuron d_model"]:
    """W_Q of the first layer, heads merged: a row is a neuron's input weights."""
    neurons: Tensor = model.W_Q[0].detach().mT.flatten(0, 1)
    return neurons


def _complexity(model: Any) -> dict[str, float | None]:
    W_Q = query_neurons(model)
    if not bool(W_Q.isfinite().all()):
        return {"stable_rank": None, "mean_abs_cosine": None}
    return complexity_of(W_Q)
