"""A prompt's tokens and the units they belong to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True, eq=False)
class TokenizedPrompt:
    """A prompt's tokens and the unit each belongs to.

    ``ids`` are what the tokenizer gives, special tokens included; ``groups`` is -1 for these and
    else counts the units 0, 1, …, never decreasing; ``offsets`` are character ranges of ``text``,
    (0, 0) for specials.
    """

    text: str
    ids: Int[np.ndarray, "pos"]
    groups: Int[np.ndarray, "pos"]
    offsets: Int[np.ndarray, "pos 2"]

    @property
    def n_groups(self) -> int:
        """How many units the prompt has."""
        return int(self.groups.max()) + 1

    @property
    def n_slots(self) -> int:
        """Positions after a collapse: units and special tokens."""
        return self.n_groups + int((self.groups < 0).sum())

    @property
    def affected(self) -> bool:
        """Whether pooling changes anything: some unit has several tokens."""
        return bool((self.group_sizes() > 1).any())

    def group_text(self, i: int) -> str:
        """The text of unit ``i``, blanks around it taken off."""
        begin, end = self.offsets[self.groups == i].T
        return self.text[begin.min() : end.max()].strip()

    def group_sizes(self) -> Int[np.ndarray, "group"]:
        """How many tokens each unit has."""
        return np.bincount(self.groups[self.groups >= 0])

    def with_last_apart(self) -> TokenizedPrompt:
        """The same prompt with the token of its last position, where the answer is predicted, as
        a group of its own. Unchanged if it is one already, or is a special token.
        """
        last = self.groups[-1]
        if last < 0 or np.count_nonzero(self.groups == last) == 1:
            return self
        groups = self.groups.copy()
        groups[-1] = last + 1
        return replace(self, groups=groups)
