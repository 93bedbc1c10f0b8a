"""What is measured of a model between steps: accuracy, and measures of its residual streams."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from interp_compose.models.lens_model import LensModel
from interp_compose.probes.rank import stable_rank
from interp_compose.probes.word_cosines import CosineSums, word_cosine_sums
from interp_compose.text.label_set import predicted
from interp_compose.training.data import TrainingExample, collate, in_order
from interp_compose.training.processes import Processes

STILL_FALLING = 0.1
"""Relative fall of the training loss, from one tenth of the run to the next, that is too much."""
FITTED = 0.05
"""Loss (nats) below which a further fall means nothing: every answer has 95 % of the mass."""


def convergence(steps: pd.DataFrame, evaluations: pd.DataFrame) -> tuple[bool, str]:
    """(converged, why not).

    Two signs of a run that was stopped too early are looked for, each beyond two standard errors:
    the mean training loss of the last tenth of the steps is more than 10 % below that of the tenth
    before (and above 0.05 nats); or the last validation accuracy is above all those of the third
    quarter of the run. Fewer than 20 steps never count as converged, and neither sign is looked for
    where it could not be seen: accuracy needs three evaluations, one of them in that quarter. A
    learning rate that falls to zero hides both, and so does a plateau: no sign is no proof.

    Args:
        steps: a history's ``steps``; ``task_loss`` in nats.
        evaluations: a history's ``evaluations``.
    """
    reasons = [_loss_falls(steps["task_loss"].to_numpy(float)), _accuracy_rises(evaluations)]
    why_not = [reason for reason in reasons if reason]
    return not why_not, "; ".join(why_not)


def _loss_falls(losses: npt.NDArray[np.float64]) -> str:
    tenth = len(losses) // 10
    if tenth < 2:
        return f"{len(losses)} steps are too few to come to rest"
    last, before = losses[-tenth:], losses[-2 * tenth : -tenth]
    fall = before.mean() - last.mean()
    # of the difference of two means
    error = math.sqrt((before.var(ddof=1) + last.var(ddof=1)) / tenth)
    if last.mean() > FITTED and fall > 2 * error and fall > STILL_FALLING * before.mean():
        return f"the training loss was still falling ({before.mean():.3f} to {last.mean():.3f})"
    return ""


def _accuracy_rises(evaluations: pd.DataFrame) -> str:
    if len(evaluations) < 3:
        return ""
    step, accuracy = evaluations["step"].to_numpy(), evaluations["accuracy"].to_numpy(float)
    earlier = accuracy[(step >= step[-1] / 2) & (step <= 0.75 * step[-1])]  # the third quarter
    if not len(earlier):
        return ""
    best, last, n = earlier.max(), accuracy[-1], evaluations["n"].iloc[-1]
    # As if independent; the examples are the same, so that it is rather too large.
    error = math.sqrt((best * (1 - best) + last * (1 - last)) / n)
    if last - best > 2 * error:
        return f"validation accuracy was still rising ({best:.3f} to {last:.3f})"
    return ""


EVALUATION_BATCH = 64
PROBED = 128
"""Prompts on which representations are measured: enough for means, too few to be felt."""


@torch.no_grad()
def evaluate(
    model: LensModel, items: Sequence[TrainingExample], processes: Processes
) -> dict[str, float | int]:
    """Exact match of the answer among the examples' candidates, and the mean loss in nats.

    Several processes share the examples out.
    """
    # every count-th, so that no process has more than one example more
    mine = list(items)[processes.index :: processes.count]
    right, loss = answered(model, mine)
    sums = torch.stack([right.double().sum(), loss.double().sum()])
    processes.sum_([sums])
    accuracy, mean_loss = (sums / len(items)).tolist()
    return {"accuracy": accuracy, "loss": mean_loss, "n": len(items)}


@torch.no_grad()
def answered(
    model: LensModel, items: Sequence[TrainingExample]
) -> tuple[Bool[Tensor, "example"], Float[Tensor, "example"]]:
    """For each example, in the order given: whether its answer is the most likely of its candidates
    (of the whole vocabulary where it has none), and the answer's loss in nats over the vocabulary,
    which is what is trained."""
    right = torch.zeros(len(items), dtype=torch.bool, device=model.device)
    loss = torch.zeros(len(items), dtype=model.dtype, device=model.device)
    for places in in_order(items, EVALUATION_BATCH):
        batch = collate([items[i] for i in places]).to(model.device)
        logits, _ = model.capture(batch.tokens, [], attention_mask=batch.mask, read="last")
        last = logits[:, -1]  # [batch d_vocab]
        right[places] = predicted(last, batch.candidates) == batch.answers
        loss[places] = cross_entropy(last, batch.answers, reduction="none")
    return right, loss


@torch.no_grad()
def representations(
    model: LensModel, items: Sequence[TrainingExample]
) -> list[dict[str, float | int | None]]:
    """Per layer, of the residual that enters it, over the first :data:`PROBED` prompts.

    ``same_word_cosine`` and ``different_word_cosine`` are means over pairs of tokens of one text
    (None without such a pair); ``stable_rank`` is that of all token vectors, BOS left out.
    """
    names = [f"blocks.{layer}.hook_resid_pre" for layer in range(model.n_layers)]
    sums: list[CosineSums] = []
    tokens: list[Float[Tensor, "layer token d_model"]] = []
    probed = list(items)[:PROBED]
    for places in in_order(probed, EVALUATION_BATCH):
        batch = collate([probed[i] for i in places]).to(model.device)
        _, activations = model.capture(batch.tokens, names, attention_mask=batch.mask, read="last")
        resid = torch.stack([activations[name] for name in names])  # [layer batch pos d_model]
        sums.append(word_cosine_sums(resid, batch.word_ids))
        tokens.append(resid[:, batch.word_ids >= 0])  # [layer token d_model]
    ranks = stable_rank(torch.cat(tokens, dim=1)).tolist()  # of [token d_model], by layer
    same = _mean([one.same for one in sums], [one.same_pairs for one in sums])
    different = _mean([one.different for one in sums], [one.different_pairs for one in sums])
    return [
        {
            "layer": layer,
            "same_word_cosine": same[layer] if same else None,
            "different_word_cosine": different[layer] if different else None,
            "stable_rank": ranks[layer],
        }
        for layer in range(model.n_layers)
    ]


def _mean(sums: Sequence[Tensor], pairs: Sequence[Tensor]) -> list[float]:
    """Means by layer over several batches; empty without a single pair."""
    n = int(torch.stack(list(pairs)).sum())
    if n == 0:
        return []
    means: list[float] = (torch.stack(list(sums)).double().sum(dim=0) / n).tolist()  # [layer]
    return means
