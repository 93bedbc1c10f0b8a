"""A text as it is clicked: its words, each with its tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Bool

from interp_compose.errors import InputError, PromptError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.ready import check_tokenizer
from interp_compose.studies.explore.state import Range
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts
from interp_compose.types import Span

POOLS: Final = ("resume", "positions")
"""The capabilities that a collapse relies on."""


@dataclass(frozen=True, eq=False)
class ClickedText:
    """A text in words, as ``unit="word"`` has them.

    Attributes:
        prompt: its tokens.
        pieces: of each word, the text of each of its tokens.
    """

    prompt: TokenizedPrompt
    pieces: Sequence[Sequence[str]]

    @classmethod
    def of(cls, model: LensModel, text: str) -> ClickedText:
        """Raises InputError for a model without a tokenizer, PromptError for an empty text."""
        check_tokenizer(model)
        if not text.strip():
            raise PromptError("there is no text: type one, or pick one")
        try:
            prompt = tokenize_prompts(model.tokenizer, [text])[0]
        except InputError as error:
            raise type(error)(plain(error)) from error
        pieces: list[list[str]] = [[] for _ in range(prompt.n_groups)]
        for token, group, (low, high) in zip(
            prompt.ids.tolist(), prompt.groups.tolist(), prompt.offsets.tolist(), strict=True
        ):
            if group >= 0:
                piece = text[low:high]
                decoded = str(model.tokenizer.decode([token]))
                pieces[group].append(piece.strip() or decoded.strip() or piece)  # blanks alone
        return cls(prompt, pieces)

    @property
    def n_words(self) -> int:
        return self.prompt.n_groups

    def units(self, model: LensModel) -> tuple[Range, ...]:
        """Each word of several tokens; none where the model cannot be pooled."""
        if not all(model.capabilities[name].held for name in POOLS):
            return ()
        return tuple((i, i + 1) for i, pieces in enumerate(self.pieces) if len(pieces) > 1)

    def span(self, words: Range) -> Span:
        """Characters of a phrase, the blank before it included, as of a unit ``"word"``."""
        ends = self.prompt.offsets[self.tokens([*range(*words)])]  # [token 2]
        return int(ends[:, 0].min()), int(ends[:, 1].max())

    def phrase(self, words: Range) -> str:
        """The text of a phrase."""
        return self.prompt.text[slice(*self.span(words))].strip()

    def tokens(self, words: Iterable[int]) -> Bool[np.ndarray, "pos"]:
        """True at the tokens of these words."""
        return np.isin(self.prompt.groups, list(words))

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"text": self.prompt.group_text(i), "pieces": list(pieces)}
            for i, pieces in enumerate(self.pieces)
        ]


def plain(error: BaseException) -> str:
    """A message of one example, without its number."""
    text = str(error)
    for begin in ("example 0: its ", "example 0: ", "text 0: ", "example 0 "):
        if text.startswith(begin):
            return ("the " if begin.endswith("its ") else "") + text.removeprefix(begin)
    return text.replace("example 0", "the text")
