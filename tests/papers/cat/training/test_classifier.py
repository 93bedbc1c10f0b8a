"""Classifiers: weights after some steps against gradients and AdamW by hand, in float64; scores;
validation; metrics by their formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import NonFiniteError, OptionError
from interp_compose.papers.cat.stats.classified import classified
from interp_compose.papers.cat.training.classifier import (
    Classification,
    ClassifierHead,
    Targets,
    predictions,
)
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, run_training

# ---- metrics --------------------------------------------------------------------------------

PREDICTED = np.array([1.0, 0, 1, 1, 0, 0, 1, 0])
TARGET = np.array([1.0, 0, 0, 1, 1, 0, 0, 0])
TP, TN, FP, FN = 2, 3, 2, 1


def test_metrics_of_classes_are_their_formulas() -> None:
    assert classified("accuracy", PREDICTED, TARGET) == (TP + TN) / 8
    assert classified("f1", PREDICTED, TARGET) == pytest.approx(2 * TP / (2 * TP + FP + FN))
    expected = (TP * TN - FP * FN) / math.sqrt((TP + FP) * (TP + FN) * (TN + FP) * (TN + FN))
    assert classified("matthews", PREDICTED, TARGET) == pytest.approx(expected)
    nothing = np.zeros(8)
    assert classified("matthews", nothing, TARGET) == 0
    assert classified("f1", nothing, TARGET) == 0


def test_metrics_of_scores_are_their_formulas() -> None:
    x, y = np.array([0.1, 3.0, 0.4, 0.5, 9.0]), np.array([1.0, 2.0, 2.5, 4.0, 5.0])
    ranks = np.array([1.0, 4, 2, 3, 5]), np.array([1.0, 2, 3, 4, 5])
    for metric, (a, b) in {"pearson": (x, y), "spearman": ranks}.items():
        u, v = a - a.mean(), b - b.mean()
        expected = (u @ v) / math.sqrt((u @ u) * (v @ v))
        assert classified(metric, x, y) == pytest.approx(expected)
    assert math.isnan(classified("pearson", np.ones(5), y))
    assert math.isnan(classified("spearman", x[:1], y[:1]))
    with pytest.raises(OptionError, match="metric='auc': expected one of accuracy, matthews"):
        classified("auc", x, y)


# ---- training -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    values: Float[np.ndarray, "row d"]

    @property
    def lengths(self) -> list[int]:
        return [1 + i % 3 for i in range(len(self.values))]

    def batch(self, indices: Int[np.ndarray, "_"]) -> tuple[Tensor]:
        return (torch.from_numpy(self.values[indices].astype(np.float32)),)


N, D = 11, 3
DRAWN = np.random.default_rng(5)
VALUES = DRAWN.normal(size=(N, D))
CLASSES = np.array([0.0, 2, 1, 1, 0, 2, 2, 1, 0, 0, 1])
SCORES = 3 + 2 * DRAWN.normal(size=N)
CONFIG = TrainConfig(epochs=3, lr=0.05, batch_size=4, decay_vectors=False, clip=0.5, seed=7)


def by_hand(head: ClassifierHead, target: Float[np.ndarray, "row"], n_classes: int) -> list[Any]:
    """Weights after AdamW on shuffled batches, gradients by the chain rule, all in float64."""
    W1, b1 = (one.detach().double().numpy().copy() for one in head.hidden.parameters())
    W2, b2 = (one.detach().double().numpy().copy() for one in head.out.parameters())
    weights = [W1, b1, W2, b2]
    first, second = ([np.zeros_like(one) for one in weights] for _ in range(2))
    total, step = 3 * math.ceil(N / 4), 0
    for epoch in range(3):
        order = np.random.default_rng([7, epoch]).permutation(N)
        for start in range(0, N, 4):
            rows = order[start : start + 4]
            x = VALUES[rows]
            before = x @ W1.T + b1
            hidden = np.maximum(before, 0)
            out = hidden @ W2.T + b2
            if n_classes:
                shares = np.exp(out - out.max(axis=1, keepdims=True))
                shares /= shares.sum(axis=1, keepdims=True)
                shares[np.arange(len(rows)), target[rows].astype(int)] -= 1
                d_out = shares / len(rows)
            else:
                d_out = 2 * (out - target[rows][:, None]) / len(rows)
            d_hidden = (d_out @ W2) * (before > 0)
            gradients = [d_hidden.T @ x, d_hidden.sum(0), d_out.T @ hidden, d_out.sum(0)]
            norm = math.sqrt(sum((one**2).sum() for one in gradients))
            warmup = min(500, total // 10)
            done = (step - warmup) / (total - warmup)
            lr = 0.05 * (step + 1) / warmup if step < warmup else 0.05 * (1 - done)
            step += 1
            for i, gradient in enumerate(gradients):
                gradient = gradient * min(1, 0.5 / (norm + 1e-6))
                if weights[i].ndim > 1:
                    weights[i] *= 1 - lr * 0.01
                first[i] = 0.9 * first[i] + 0.1 * gradient
                second[i] = 0.999 * second[i] + 0.001 * gradient**2
                mean, square = first[i] / (1 - 0.9**step), second[i] / (1 - 0.999**step)
                weights[i] -= lr * mean / (np.sqrt(square) + 1e-8)
    return weights


@pytest.mark.parametrize("n_classes", [3, 0])
def test_weights_after_training_are_those_by_hand(n_classes: int) -> None:
    target = CLASSES if n_classes else SCORES
    targets = Targets.of(n_classes, target)
    assert targets.width == (n_classes or 1)
    head = ClassifierHead(D, targets.width, seed=3)
    scaled = target if n_classes else (target - target.mean()) / target.std()
    expected = by_hand(head, scaled, n_classes)
    objective = Classification(Rows(VALUES), target, targets)
    run_training(Trainer(head, objective, CONFIG), progress=False)
    for found, wanted in zip(head.parameters(), expected, strict=True):
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=2e-4, atol=2e-5)
    W1, b1, W2, b2 = expected
    out = np.maximum(VALUES @ W1.T + b1, 0) @ W2.T + b2
    wanted = out.argmax(axis=1) if n_classes else out[:, 0] * target.std() + target.mean()
    found_all = predictions(head, Rows(VALUES), targets)
    np.testing.assert_allclose(found_all, wanted, rtol=1e-3, atol=1e-3)


def test_the_seed_alone_decides_the_first_weights() -> None:
    torch.manual_seed(1)
    first = ClassifierHead(D, 2, seed=4)
    torch.manual_seed(2)
    for seed, same in ((4, True), (5, False)):
        other = ClassifierHead(D, 2, seed=seed)
        assert torch.equal(first.hidden.weight, other.hidden.weight) is same


def test_validation_chooses_the_weights() -> None:
    """Where the classes of validation are the others, the untrained weights or early ones win."""
    target = (VALUES[:, 0] > 0).astype(float)
    objective = Classification(
        Rows(VALUES), target, Targets(2), validation=(Rows(VALUES), 1 - target)
    )
    config = TrainConfig(epochs=9, lr=0.05, batch_size=4, patience=99)
    head = ClassifierHead(D, 2, seed=0)
    trainer = Trainer(head, objective, config)
    run_training(trainer, progress=False)
    seen = [row["accuracy"] for row in trainer.recorder.rows if row["table"] == "evaluations"]
    assert len(seen) == 10
    kept = classified("accuracy", predictions(head, Rows(VALUES), Targets(2)), 1 - target)
    assert kept == max(seen) > seen[-1]


def test_predictions_that_are_one_count_least_in_validation() -> None:
    targets = Targets.of(0, SCORES)
    objective = Classification(
        Rows(VALUES), SCORES, targets, "pearson", validation=(Rows(0 * VALUES), SCORES)
    )
    head = ClassifierHead(D, 1, seed=0)
    rows = objective.evaluate(Trainer(head, objective, CONFIG))
    assert rows == {"evaluations": [{"accuracy": -1.0, "n": N}]}
    assert Targets.of(0, np.full(4, 2.0)) == Targets(0, 2.0, 1.0)


def test_outputs_that_are_not_finite_are_refused() -> None:
    head = ClassifierHead(D, 2, seed=0)
    with torch.no_grad():
        head.out.bias.fill_(math.inf)
    with pytest.raises(NonFiniteError, match="outputs of the classifier are NaN or infinite"):
        predictions(head, Rows(VALUES), Targets(2))


def test_parts_of_a_batch_add_up() -> None:
    objective = Classification(Rows(VALUES), CLASSES, Targets(3))
    head = ClassifierHead(D, 3, seed=0)
    whole = objective.collate(np.arange(7))
    parts: Sequence[Any] = [objective.collate(np.arange(2)), objective.collate(np.arange(2, 7))]
    sizes = [objective.sizes(part)[0] for part in parts]
    assert sizes == [2, 5]
    total = sum(
        objective.loss(head, part, [n / 7], 0)[0] for part, n in zip(parts, sizes, strict=True)
    )
    torch.testing.assert_close(total, objective.loss(head, whole, [1.0], 0)[0])
