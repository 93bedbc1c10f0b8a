"""Texts as calls of a model: tokenised by its own tokenizer, padded on the left, with a mask.

Ids are those of :func:`.encoding.encode`, as in every study, special tokens included. An
encoder–decoder reads a text as its source, and the target begins with the model's start tokens, so
that its last logits are of the target's first word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.errors import InputError
from interp_compose.models.base import BaseModel
from interp_compose.models.ready import check_ids, check_prompts, check_tokenizer
from interp_compose.tensors import pad_left
from interp_compose.text.alignment import lay_out, refuse_empty
from interp_compose.text.encoding import encode
from interp_compose.text.targets import TargetTokenizer
from interp_compose.types import Inputs


class Tokenized(NamedTuple):
    """A batch as a model runs it: token ids, and 1 at real ones, 0 at padding."""

    tokens: Int[Tensor, "batch pos"]
    attention_mask: Int[Tensor, "batch pos"]


@dataclass(frozen=True, eq=False)
class _Row:
    """A text and its token ids."""

    text: str
    ids: Int[np.ndarray, "pos"]


def tokenized(model: BaseModel, texts: str | Sequence[str]) -> Tokenized:
    """One row a text, on the model's device.

    Raises:
        InputError: a model without a tokenizer, or an encoder–decoder without start tokens; no
            texts; ids that the model does not have.
        PromptError: an empty text, or one longer than the model reads.
    """
    check_tokenizer(model)
    listed = [texts] if isinstance(texts, str) else list(texts)
    if not listed:
        raise InputError("no texts: expected a text, or a list of at least one.")
    with called_texts():
        refuse_empty(listed)
        encoded = encode(model.tokenizer, lay_out(listed).prompts, offsets=False)
    ends = np.cumsum(encoded.counts)[:-1]
    rows = [_Row(text, ids) for text, ids in zip(listed, np.split(encoded.ids, ends), strict=True)]
    check_prompts(model, rows, lambda index: f"text {index}", collapse=None)
    check_ids(model, int(encoded.ids.max(initial=0)))
    start = np.array(model.target_start, dtype=np.int64)
    ids = [np.concatenate([row.ids, start]) for row in rows]
    tokens, mask, _ = pad_left(ids, [np.zeros(len(row)) for row in ids])
    return Tokenized(tokens.to(model.device), mask.to(model.device))


def as_call(
    model: BaseModel, inputs: Inputs, attention_mask: Int[Tensor, "batch pos"] | None
) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"] | None]:
    """The ids and the mask of a call; texts make their own.

    Raises:
        InputError: texts, and a mask with them; see :func:`tokenized`.
    """
    if isinstance(inputs, Tensor):
        return inputs, attention_mask
    if attention_mask is not None:
        raise InputError(
            "texts came with an attention_mask, and texts make their own: leave it out, or pass "
            "token ids with it."
        )
    return tokenized(model, inputs)


@contextmanager
def called_texts() -> Iterator[None]:
    """Messages about an example speak of a text."""
    try:
        yield
    except InputError as error:
        raise type(error)(str(error).replace("example", "text", 1)) from error


def output_tokenizer(model: BaseModel) -> Any:
    """The tokenizer of what the model predicts: an encoder–decoder's, of its targets."""
    return TargetTokenizer(model.tokenizer) if len(model.stacks) > 1 else model.tokenizer


def texts_of(model: BaseModel, rows: Sequence[Int[Tensor, "_"]]) -> list[str]:
    """Ids that the model predicts as texts, without special tokens."""
    decode = output_tokenizer(model).decode
    plain: Any = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    return [decode(torch.as_tensor(row).tolist(), **plain) for row in rows]
