"""What a row of logits says of its answer; every study of accuracies counts alike."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def outcome_of(
    logits: Float[Tensor, "stream d_vocab"], answers: Int[Tensor, "stream"]
) -> Float[Tensor, "stream 4"]:
    """Prediction, the answer's log-probability (nats) and rank, and whether all was finite.

    Rank 1 is the prediction: 1 + the number of tokens with a larger logit, or with the same one
    and a smaller id (in half precision ties are common, and argmax takes the smallest id).
    """
    logits = logits.float()
    target = logits.gather(1, answers[:, None])
    logprob = target[:, 0] - logits.logsumexp(dim=1)
    before = torch.arange(logits.shape[1], device=logits.device) < answers[:, None]
    rank = ((logits > target) | ((logits == target) & before)).sum(dim=1) + 1
    finite = logits.isfinite().all(dim=1)
    return torch.stack([logits.argmax(dim=1).float(), logprob, rank.float(), finite.float()], dim=1)
