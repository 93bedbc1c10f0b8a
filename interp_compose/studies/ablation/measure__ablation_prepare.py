"""From examples to cells: which words, heads or blocks are knocked out in which example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.types import Example, HookedModel
from interp_compose.errors import InputError
from interp_compose.studies.core.inputs import Prepared, prepare
from interp_compose.text.label_set import VOCABULARY, checked_labels, stacked
from interp_compose.tensors__padding import pad_left


@dataclass(frozen=True)
class Batch:
    """Examples side by side, padded on the left, so that all predict at position -1."""

    items: Sequence[Prepared]
    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    answers: Int[Tensor, "batch"]
    candidates: Int[Tensor, "batch label"] | None


def prepare_any(
    model: HookedModel,
    examples: Iterable[Example | Mapping[str, Any] | str],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
    answers: str | Sequence[str] = VOCABULARY,
) -> tuple[list[Prepared], bool]:
    """Examples with their answers, or bare texts, which have none yet; and whether they are bare.

    Raises:
        InputError: some texts and some examples; bare texts with a list of labels; see
            :func:`.prepared.prepare` for what else.
    """
    rows: list[Any] = list(examples)
    bare = [isinstance(row, str) for row in rows]
    if any(bare) and not all(bare):
        raise InputError(
            f"example {bare.index(not bare[0])} is of another kind than example 0; expected texts "
            "alone, or examples with their answers alone."
        )
    if any(bare) and checked_labels(answers) is not None:
        raise InputError(
            "bare texts have no answers of their own, so labels mean nothing for them; give "
            "examples with prompt and answer, or leave answers out."
        )
    items = prepare(
        model,
        [Example(text, "") for text in rows] if any(bare) else rows,
        unit=unit,
        labels=labels,
        height=height,
        parser=parser,
        answered=not any(bare),
        answers=answers,
    )
    return items, any(bare)


@torch.no_grad()
def with_predictions(model: HookedModel, items: Sequence[Prepared]) -> list[Prepared]:
    """One batch, the answers being the tokens that the untouched model predicts in it."""
    batch = as_batch(items, model.device)
    logits = model.forward(batch.tokens, attention_mask=batch.mask, read="last")
    out = []
    for item, answer in zip(items, logits[:, -1].argmax(dim=1).tolist(), strict=True):
        example = replace(item.example, answer=model.tokenizer.decode([answer]))
        out.append(replace(item, example=example, answer_id=answer))
    return out


def words_of(item: Prepared) -> list[int]:
    """The units that another position comes after: those whose knocking out can change anything."""
    groups = item.prompt.groups
    return [unit for unit in range(item.prompt.n_groups) if groups[-1] != unit]


def into_batches(items: Sequence[Prepared], size: int) -> list[list[Prepared]]:
    """Examples of like length together; always the same way."""
    ordered = sorted(items, key=lambda item: (item.n_tokens, item.index))
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def as_batch(items: Sequence[Prepared], device: torch.device) -> Batch:
    """Pad on the left and move to ``device``."""
    tokens, mask, _ = pad_left(
        [item.prompt.ids for item in items], [item.prompt.groups < 0 for item in items]
    )
    answers = torch.tensor([item.answer_id for item in items])
    candidates = stacked([item.candidates for item in items])
    return Batch(
        items,
        tokens.to(device),
        mask.to(device),
        answers.to(device),
        None if candidates is None else candidates.to(device),
    )
