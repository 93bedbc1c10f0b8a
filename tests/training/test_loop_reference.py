"""The loop against one written out on the Hugging Face model: no batching, no hooks, no padding.

Every example goes through the model alone, losses are sums in the open, and AdamW and the learning
rate are written out from their formulas.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import GPT2LMHeadModel

from interp_compose.models.load import load_model
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import TrainingExample
from interp_compose.training.order import BatchOrder
from tests.training.runs import BASE, hugging_face, made_up, shared, train

# Hugging Face's last hidden state is after the final norm: stability stays a layer below.
CARMA = CarmaConfig(
    weight=0.4, mi_weight=0.5, stability_weight=0.7, layers=(1, 2), stability_layers=(1, 1)
)

CONFIG = TrainConfig(
    lr=2e-3,
    epochs=2,
    batch_size=6,
    warmup_steps=500,
    schedule="linear",
    weight_decay=0.1,
    clip=0.5,
    seed=3,
)
OTHER = replace(
    CONFIG,
    batch_tokens=40,
    max_steps=6,
    schedule="inverse_sqrt",
    label_smoothing=0.2,
    beta1=0.8,
    beta2=0.95,
    decay_vectors=False,
)
N = 20
STEPS = 8  # ceil(20 / 6) = 4 batches an epoch, two epochs; so warm-up is 8 // 10 = 0 steps


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / (a.norm() * b.norm())


def reference_losses(
    model: GPT2LMHeadModel, batch: list[TrainingExample], carma: CarmaConfig, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Task loss, mutual information (eq. 16) and stability (eq. 6) of one batch, pair by pair."""
    assert carma.layers is not None
    assert carma.stability_layers is not None
    first, last = carma.layers
    lowest, highest = carma.stability_layers
    task, information, states = [], [], []
    for item in batch:
        out = model(torch.tensor(item.ids)[None], output_hidden_states=True)
        logs = torch.log_softmax(out.logits[0, -1], 0)
        task.append(-(1 - smoothing) * logs[item.answer] - smoothing * logs.mean())
        hidden = [layer[0] for layer in out.hidden_states]
        states.append([layer[torch.tensor(item.words) >= 0] for layer in hidden])
        n = len(item.words)
        for k in range(first, last + 1):
            for i in range(n):
                if item.words[i] < 0:
                    continue
                others = [j for j in range(n) if j != i and item.words[j] >= 0]
                scores = {j: cosine(hidden[k][i], hidden[k][j]) / carma.temperature for j in others}
                positive = [scores[j] for j in others if item.words[j] == item.words[i]]
                if not positive or len(positive) == len(others):
                    continue
                everyone = torch.stack(list(scores.values())).logsumexp(0)
                information.append(everyone - torch.stack(positive).logsumexp(0))
    stability = torch.zeros(())
    for k in range(lowest, highest + 1):
        here = torch.cat([layers[k] for layers in states])
        above = torch.cat([layers[k + 1] for layers in states])
        moved = ((above - here) ** 2).sum(1).mean()
        size = (here**2).sum(1).mean() + (above**2).sum(1).mean()
        stability = stability + moved / (size + 1e-8)
    return torch.stack(task).mean(), torch.stack(information).mean(), stability


def reference_run(config: TrainConfig, carma: CarmaConfig | None) -> tuple[GPT2LMHeadModel, list]:
    model = hugging_face(dropout=0.0)
    items = made_up(N)
    weights = list(model.parameters())
    first = [torch.zeros_like(w) for w in weights]
    second = [torch.zeros_like(w) for w in weights]
    rows = []
    step = 0
    lengths = [len(item.ids) for item in items]
    by_tokens = BatchOrder(lengths, config)
    for epoch in range(config.epochs):
        order = np.random.default_rng([config.seed, epoch]).permutation(N)
        batches = [order[at : at + config.batch_size] for at in range(0, N, config.batch_size)]
        if config.batch_tokens is not None:  # see test_data
            n = by_tokens.steps_per_epoch
            batches = [by_tokens.at(epoch * n + place) for place in range(n)]
        for indices in batches[: None if config.max_steps is None else config.max_steps - step]:
            batch = [items[i] for i in indices]
            task, mi, stability = reference_losses(
                model, batch, carma or CARMA, config.label_smoothing
            )
            loss = task
            if carma is not None:
                regularised = carma.mi_weight * mi + carma.stability_weight * stability
                loss = (1 - carma.weight) * task + carma.weight * regularised
            gradients = torch.autograd.grad(loss, weights)
            norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients))
            scale = min(1.0, config.clip / (norm + 1e-6))
            lr = config.lr * (1 - step / STEPS)
            if config.schedule == "inverse_sqrt":
                lr = config.lr / math.sqrt(step + 1)
            one, two = config.beta1, config.beta2
            rows.append((lr, loss.item(), task.item(), mi.item(), stability.item(), norm))
            step += 1
            with torch.no_grad():
                for w, g, m, v in zip(weights, gradients, first, second, strict=True):
                    m.mul_(one).add_((1 - one) * scale * g)
                    v.mul_(two).add_((1 - two) * (scale * g) ** 2)
                    if config.decay_vectors or w.ndim > 1:
                        w.mul_(1 - lr * config.weight_decay)
                    corrected = v / (1 - two**step)
                    w.sub_(lr * (m / (1 - one**step)) / (corrected.sqrt() + 1e-8))
    return model, rows


@pytest.mark.parametrize("config", [CONFIG, OTHER], ids=["default", "other"])
@pytest.mark.parametrize("carma", [None, CARMA], ids=["plain", "carma"])
def test_weights_and_history_agree_with_the_reference(
    carma: CarmaConfig | None, config: TrainConfig
) -> None:
    trained, history = train(shared(dropout=0.0), config, carma=carma, n=N)
    expected, rows = reference_run(config, carma)
    frame = history.frame
    assert len(frame) == len(rows) == (config.max_steps or STEPS)
    assert history.config["total_steps"] == len(rows)
    for name, column in zip(("lr", "loss", "task_loss"), zip(*rows, strict=True), strict=False):
        np.testing.assert_allclose(frame[name], column, rtol=2e-5, atol=1e-9)
    np.testing.assert_allclose(frame["grad_norm"], [row[5] for row in rows], rtol=2e-4)
    if carma is None:
        assert frame[["mi", "stability"]].isna().all(axis=None)
    else:
        np.testing.assert_allclose(frame["mi"], [row[3] for row in rows], rtol=1e-4)
        np.testing.assert_allclose(frame["stability"], [row[4] for row in rows], rtol=1e-4)
    assert (frame["grad_norm"] > CONFIG.clip).any()  # clipping acted

    # Wrapped, the reference has the same names; stale fused weights (qkv) are left as they came.
    wrapped = dict(load_model(expected).lens.named_parameters())
    compared = 0
    for name, weight in trained.lens.named_parameters():
        if "attn.qkv" in name or ("attn.k." in name and name.endswith("bias")):
            continue  # and keys' biases have gradients of mere rounding, see largest_difference
        compared += 1
        torch.testing.assert_close(weight, wrapped[name], rtol=0, atol=2e-5, msg=name)
    assert compared == 2 + 3 * 15 + 2


def test_hits_are_counted_on_the_batch() -> None:
    _, history = train(shared(dropout=0.0), replace(BASE, lr=1e-12, schedule="constant"))
    model, items = hugging_face(dropout=0.0), made_up(20)
    hit = [int(model(torch.tensor(x.ids)[None]).logits[0, -1].argmax()) == x.answer for x in items]
    for epoch in range(2):
        order = np.random.default_rng([0, epoch]).permutation(20)
        expected = [np.mean([hit[i] for i in order[at : at + 6]]) for at in range(0, 20, 6)]
        here = history.frame[history.frame["epoch"] == epoch]["accuracy"]
        np.testing.assert_allclose(here, expected)
