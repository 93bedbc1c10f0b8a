"""The words of a sequence-to-sequence task, and their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from interp_compose._public import short
from interp_compose.errors import InputError

PAD, BOS, EOS = 0, 1, 2
SPECIALS: Final = ("<pad>", "<bos>", "<eos>")


@dataclass(frozen=True)
class Vocabulary:
    """Words with the ids 3, 4, …; before them ``<pad>`` is 0, ``<bos>`` 1 and ``<eos>`` 2.

    Raises:
        InputError: a word twice, with white space inside, or one of the three.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        for word in self.words:
            if word in SPECIALS or word.split() != [word]:
                raise InputError(
                    f"{word!r} cannot be a word of the data: a word has no white space, and "
                    f"{', '.join(SPECIALS)} stand for padding, start and end"
                )
        for word, times in Counter(self.words).items():
            if times > 1:
                raise InputError(f"{word!r} is a word of the vocabulary {times} times; keep one")

    @classmethod
    def of(cls, sequences: Iterable[str]) -> Vocabulary:
        """Every word of the sequences, sorted."""
        return cls(tuple(sorted({word for text in sequences for word in text.split()})))

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.words)

    @cached_property
    def _id_of(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words, start=len(SPECIALS))}

    def ids(self, text: str) -> list[int]:
        """The ids of a text's words, without ``<bos>`` and ``<eos>``.

        Raises:
            InputError: no words, or one that the vocabulary does not have.
        """
        words = text.split()
        if not words:
            raise InputError(f"the text {text!r} has no words")
        try:
            return [self._id_of[word] for word in words]
        except KeyError as error:
            raise InputError(
                f"{error.args[0]!r} in {short(text)} is not among the {len(self.words)} words of "
                "the vocabulary; make the vocabulary of all splits that are used, or take data of "
                "the task that it was made of"
            ) from None

    def text(self, ids: Iterable[int]) -> str:
        """The words of ids up to the first ``<eos>``, which is left out; other specials are not.

        Raises:
            InputError: an id that the vocabulary does not have.
        """
        words = []
        for i in ids:
            if not 0 <= i < len(self):
                raise InputError(f"id {i} lies outside a vocabulary of {len(self)}")
            if i == EOS:
                break
            words.append(SPECIALS[i] if i < len(SPECIALS) else self.words[i - len(SPECIALS)])
        return " ".join(words)
