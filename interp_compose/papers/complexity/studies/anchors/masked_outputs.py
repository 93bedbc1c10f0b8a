"""Inside a model trained on anchor functions: outputs with a token masked (complexity control, V).

Masking the key leaves what the model makes of the anchors (Figs 4A and 4C); masking the second
anchor leaves what it makes of the key and the first one (Figs 4B and 4D). The paper masks after
the softmax (``mode="zero"``), which does not hide the token; ``mode="exclude"`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import InputError
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.models.lens_model import LensModel
from interp_compose.papers.complexity.probes.clusters import (
    block_contrast,
    silhouette,
    twin_distance,
)
from interp_compose.papers.complexity.tasks.anchors import AnchorTask

Mode = Literal["zero", "exclude"]
MODES: Final[tuple[Mode, ...]] = ("zero", "exclude")
KEY: Final = 2
"""Where the key stands in these sequences; anchors follow."""
PER_PAIR: Final = 50
VALUES: Final = 40
"""Different outcomes of the first anchor that are looked at (Fig. 4D)."""


@dataclass(frozen=True, eq=False)
class MaskedOutputs:
    """The last hidden state at the last position of some sequences, and what each belongs to."""

    outputs: Float[Tensor, "sample d_model"]
    labels: Int[Tensor, "sample"]
    """Index into ``task.chains`` where the key was masked, g(x; a₁) where the second anchor was."""
    keys: Int[Tensor, "sample"]
    first: Int[Tensor, "sample"]
    """Token id of the first anchor."""


def key_masked(
    model: LensModel, task: AnchorTask, *, mode: Mode = "exclude", seed: int = 0
) -> MaskedOutputs:
    """Outputs by pair of different anchors, the key knocked out for all in every layer (Fig. 4A):
    50 sequences with random keys and noise of each.

    Raises:
        InputError: the chains of the task are no pairs, or too long for the sequence.
    """
    _check(task)
    pairs = [i for i, chain in enumerate(task.chains) if chain[0] != chain[1]]
    random = torch.Generator().manual_seed(seed)
    chains = torch.tensor(pairs).repeat_interleave(PER_PAIR)
    low, high = task.numbers
    keys = torch.randint(low, high + 1, (len(chains),), generator=random)
    data = task.build(keys, chains, torch.full_like(keys, KEY), random)
    outputs = _outputs(model, data.tokens, KEY, mode)
    return MaskedOutputs(outputs, chains, keys, data.tokens[:, KEY + 1])


def second_anchor_masked(
    model: LensModel, task: AnchorTask, *, mode: Mode = "exclude", seed: int = 0
) -> MaskedOutputs:
    """Outputs by g(x; a₁), the second anchor knocked out for all in every layer (Fig. 4B): 40
    values, each from every first anchor, between the same noise.

    Raises:
        InputError: the chains of the task are no pairs; too few values that every anchor reaches.
    """
    _check(task)
    reached, common = _reached(task)
    start = (len(common) - min(VALUES, len(common))) // 2
    values = common[start : start + VALUES]
    names = list(task.anchors)
    keys = torch.tensor([reached[name][value] for value in values for name in names])
    labels = torch.tensor(values).repeat_interleave(len(names))
    chains = torch.tensor([task.chains.index((name, names[0])) for _ in values for name in names])
    random = torch.Generator().manual_seed(seed)
    data = task.build(keys, chains, torch.full_like(keys, KEY), random)
    tokens = data.tokens.clone()
    noise = [place for place in range(task.length) if not KEY <= place <= KEY + 2]
    tokens[:, noise] = tokens[:1, noise]
    outputs = _outputs(model, tokens, KEY + 2, mode)
    return MaskedOutputs(outputs, labels, keys, tokens[:, KEY + 1])


def circuit_numbers(
    model: LensModel, task: AnchorTask, *, mode: Mode = "exclude", seed: int = 0
) -> dict[str, float]:
    """What the two pictures show, as numbers.

    ``pair_silhouette``: how well outputs without the key tell pairs of anchors apart, in [-1, 1].
    ``twin_distance``: how far (a, b) lies from (b, a), over how far from the other pairs.
    ``anchor_contrast``: by how much the cosine of outputs without the second anchor is higher
    within one value of g(x; a₁) than between values.
    """
    pairs = key_masked(model, task, mode=mode, seed=seed)
    index = {chain: i for i, chain in enumerate(task.chains)}
    mirrored = [(index[c], index[c[::-1]]) for c in task.chains if c[0] < c[1]]
    single = second_anchor_masked(model, task, mode=mode, seed=seed)
    return {
        "pair_silhouette": silhouette(pairs.outputs, pairs.labels),
        "twin_distance": twin_distance(pairs.outputs, pairs.labels, mirrored),
        "anchor_contrast": block_contrast(single.outputs, single.labels),
    }


@torch.no_grad()
def _outputs(
    model: LensModel, tokens: Int[Tensor, "sample pos"], masked: int, mode: Mode
) -> Float[Tensor, "sample d_model"]:
    with mask_attention(model, keys=[masked], mode=mode):
        hidden = model.forward(tokens.to(model.device), read="hidden")
    return hidden[:, -1].cpu()


def check_pictures(task: AnchorTask) -> None:
    """Refuse a task of which the pictures, and their numbers, cannot be made.

    Raises:
        InputError: no pairs, a short sequence, fewer than three anchors, or too few values that
            every anchor reaches.
    """
    _check(task)
    if len(task.anchors) < 3:
        raise InputError(
            f"anchors {', '.join(task.anchors)}: expected three or more, so that the outputs of "
            "(a, b) and (b, a) can be compared with those of other pairs"
        )
    _reached(task)


def _reached(task: AnchorTask) -> tuple[dict[str, dict[int, int]], list[int]]:
    """By anchor, a key for each value of g(x; a); and the values that every anchor reaches."""
    low, high = task.numbers
    reached = {
        anchor: {_outcome(task, key, anchor): key for key in range(low, high + 1)}
        for anchor in task.anchors
    }
    common = sorted(set.intersection(*[set(values) for values in reached.values()]))
    if len(common) < 2:
        raise InputError(
            f"the anchors {', '.join(task.anchors)} reach {len(common)} common values from keys "
            f"{low} to {high}; expected at least 2: take more numbers"
        )
    return reached, common


def _outcome(task: AnchorTask, key: int, anchor: str) -> int:
    """g(x; a)."""
    operation = task.anchors[anchor]
    return operation(key) if callable(operation) else key + operation


def _check(task: AnchorTask) -> None:
    if task.n_anchors != 2 or task.length < KEY + 4:
        raise InputError(
            f"n_anchors={task.n_anchors}, length={task.length}: these pictures are of pairs of "
            f"anchors, in sequences of at least {KEY + 4} tokens"
        )
