"""What an encoder–decoder reads of an example: the prompt as its source, and how the target begins.

The target begins with the model's own start tokens, and goes on with the example's ``target``, if
it has one; the answer is the token that follows. Both are one row of tokens, see
:mod:`interp_compose.models.encoder_decoder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from interp_compose.text.units import TokenizedPrompt, Unit, tokenize_prompts
from interp_compose.types import Example


class TargetTokenizer:
    """A tokenizer as it encodes targets, without special tokens; one that has a
    ``target_tokenizer`` leaves them to that."""

    def __init__(self, tokenizer: Any) -> None:
        for_targets = getattr(tokenizer, "target_tokenizer", None)
        self._tokenizer = tokenizer if for_targets is None else for_targets
        self._keyword = "text_target" if for_targets is None else "text"

    def __call__(self, texts: Sequence[str], **options: Any) -> Any:
        return self._tokenizer(**{self._keyword: list(texts)}, add_special_tokens=False, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def target_starts(
    tokenizer: TargetTokenizer, examples: Sequence[Example], unit: Unit
) -> list[TokenizedPrompt]:
    """The examples' targets in units: words, where ``unit`` belongs to the prompt alone."""
    written = [example.target for example in examples if example.target]
    in_units = iter(
        tokenize_prompts(tokenizer, written, unit=unit if unit == "pretoken" else "word")
        if written
        else ()
    )
    nothing = np.zeros(0, dtype=np.int64)
    empty = TokenizedPrompt("", nothing, nothing, nothing.reshape(0, 2))
    return [next(in_units) if example.target else empty for example in examples]


def source_and_target(
    source: TokenizedPrompt, target: TokenizedPrompt, suffix: Sequence[int], offset: int
) -> TokenizedPrompt:
    """One row of a source, the start tokens ``suffix`` (ids of the joint vocabulary), and how the
    target goes on, whose ids are moved up by ``offset``."""
    shift = len(source.text) + 1
    groups = np.where(target.groups < 0, -1, target.groups + source.n_groups)
    starts = np.array(suffix, dtype=np.int64)
    marks = np.full(len(starts), -1)
    whole = replace(
        source,
        text=f"{source.text}\n{target.text}" if target.text else source.text,
        ids=np.concatenate([source.ids, starts, target.ids + offset]),
        groups=np.concatenate([source.groups, marks, groups]),
        offsets=np.concatenate(
            [source.offsets, np.zeros((len(starts), 2), dtype=np.int64), target.offsets + shift]
        ),
        n_source=len(source.ids),
    )
    return whole.with_last_apart()
