"""What a row of logits says of its answer; every study of accuracies counts alike."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.text.label_set import among, predicted


def outcome_of(
    logits: Float[Tensor, "stream d_vocab"],
    answers: Int[Tensor, "stream"],
    candidates: Int[Tensor, "stream label"] | None = None,
) -> Float[Tensor, "stream 4"]:
    """Prediction, the answer's log-probability (nats) and rank, and whether all was finite.

    Rank 1 is the prediction: 1 + the number of tokens with a larger logit, or with the same one
    and a smaller id (in half precision ties are common, and argmax takes the smallest id).

    With ``candidates`` (token ids, ascending, the answer among them) the prediction, the rank and
    the log-probability are those among these alone, the probabilities of the others left out (eq.
    10); whether all was finite is asked of the whole vocabulary.
    """
    finite = logits.isfinite().all(dim=1)
    prediction = predicted(logits, candidates)
    place = answers
    if candidates is not None:
        place = (candidates == answers[:, None]).int().argmax(dim=1)
    logits = among(logits, candidates).float()
    target = logits.gather(1, place[:, None])
    logprob = target[:, 0] - logits.logsumexp(dim=1)
    before = torch.arange(logits.shape[1], device=logits.device) < place[:, None]
    rank = ((logits > target) | ((logits == target) & before)).sum(dim=1) + 1
    return torch.stack([prediction.float(), logprob, rank.float(), finite.float()], dim=1)
