"""One explicit training loop for the shipped models, in plain torch, on one core."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

IGNORED = -100

Row = list[int]
"""Token ids of one line; every token but the first, BOS, is predicted."""


def train(
    model: nn.Module,
    rows: Sequence[Row],
    *,
    steps: int,
    batch_size: int,
    lr: float,
    seed: int,
    label: str,
    quiet: bool = False,
) -> float:
    """AdamW with warm-up and cosine decay on next-token cross-entropy; the mean loss of the end.

    ``lr`` is the peak; weight decay 0.1 on matrices, gradients clipped to norm 1.
    """
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=lr,
        betas=(0.9, 0.98),
    )
    warm_up = max(1, steps // 20)
    model.train()
    last: list[float] = []
    bar = tqdm(batches(rows, steps, batch_size, seed), total=steps, desc=label, disable=quiet)
    for step, (tokens, targets) in enumerate(bar):
        cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = lr * min(
            (step + 1) / warm_up, cosine
        )
        loss = next_token_loss(model, tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last = [*last[-49:], loss.item()]
        if step % 20 == 0:
            bar.set_postfix(loss=f"{last[-1]:.3f}")
    model.eval()
    return sum(last) / len(last)


def next_token_loss(
    model: Any, tokens: Int[Tensor, "batch pos"], targets: Int[Tensor, "batch pos"]
) -> Tensor:
    """Cross-entropy over the targets that are not ignored; a scalar."""
    hidden = model.transformer(tokens).last_hidden_state[:, :-1]
    wanted = targets[:, 1:]
    chosen = wanted != IGNORED
    return cross_entropy(model.lm_head(hidden[chosen]), wanted[chosen])


def batches(
    rows: Sequence[Row], steps: int, batch_size: int, seed: int
) -> Iterator[tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]]:
    """``steps`` batches, epoch after epoch, each epoch shuffled anew; padded on the right.

    Padding needs no mask: attention is causal, and its targets are ignored.
    """
    generator = torch.Generator().manual_seed(seed)
    plan: list[list[int]] = []
    for _ in range(steps):
        plan = plan or _epoch(rows, batch_size, generator)
        chosen = [rows[i] for i in plan.pop()]
        width = max(map(len, chosen))
        tokens = torch.zeros(len(chosen), width, dtype=torch.long)
        targets = torch.full((len(chosen), width), IGNORED)
        for line, ids in enumerate(chosen):
            tokens[line, : len(ids)] = torch.tensor(ids)
            targets[line, 1 : len(ids)] = torch.tensor(ids[1:])
        yield tokens, targets


def _epoch(rows: Sequence[Row], batch_size: int, generator: torch.Generator) -> list[list[int]]:
    """Every row once, in batches of about equal length: half of the padding is saved."""
    order = torch.randperm(len(rows), generator=generator).tolist()
    pool = 16 * batch_size
    pools = [
        sorted(order[i : i + pool], key=lambda row: len(rows[row]))
        for i in range(0, len(order), pool)
    ]
    cut = [one[i : i + batch_size] for one in pools for i in range(0, len(one), batch_size)]
    return [cut[i] for i in torch.randperm(len(cut), generator=generator).tolist()]


@torch.no_grad()
def accuracy(model: Any, rows: Sequence[Row], batch_size: int = 256) -> float:
    """Share of rows whose last token is the model's first choice, over the whole vocabulary."""
    model.eval()
    right = 0
    for start in range(0, len(rows), batch_size):
        chosen = rows[start : start + batch_size]
        width = max(map(len, chosen))
        tokens = torch.tensor([ids + [0] * (width - len(ids)) for ids in chosen])
        last = torch.tensor([len(ids) - 2 for ids in chosen])
        hidden = model.transformer(tokens).last_hidden_state[torch.arange(len(chosen)), last]
        wanted = torch.tensor([ids[-1] for ids in chosen])
        right += int((model.lm_head(hidden).argmax(-1) == wanted).sum())
    return right / len(rows)
