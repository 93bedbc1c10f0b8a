"""What can be asked of the codes of encoders that `pretrain` trained."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interp_compose.studies.core.options import ApiOnly, Output, Part


@dataclass(frozen=True, kw_only=True)
class CodesOptions:
    """Which models are opened, and how much is measured."""

    models: ApiOnly[Sequence[str] | None] = None
    """Those to open, in this order; None: all that are finished and have codes."""
    phrases: ApiOnly[Sequence[str] | None] = None
    """Phrases of two words, whose codes are compared with those of the words alone; None: none."""
    wordnet: ApiOnly[str | os.PathLike[str] | None] = None
    """A folder laid out as NLTK's data is, for examples of a word's senses; None: where NLTK looks
    (NLTK_DATA), and no senses where it finds no WordNet."""
    n_passages: int = 2000
    """Held-out passages that are read, at most."""
    least: int = 2
    """Occurrences that a word needs to be counted."""
    n_words: int = 5
    """Words that are listed of each code, at most: the heaviest."""
    k: int = 5
    """Codes of a word of which precision and recall are computed, beside R-precision."""
    progress: ApiOnly[bool] = True
    """Show a bar."""


@dataclass(frozen=True, kw_only=True)
class CodesCommand:
    """Encoders that `interp-compose pretrain` trained, from the inside: which words share a code,
    which sememes the last block's codes stand for, whether a word has the same codes in other
    contexts, and what a phrase's codes have of its words' (CAT)."""

    runs: Path
    """The folder that was --out of `interp-compose pretrain`."""
    models: str | None = None
    """Those to open, by commas; by default all that are finished and have codes."""
    phrases: Path | None = None
    """Phrases of two words: a folder with BiRD.txt, or a text file with a phrase a line."""
    wordnet: Path | None = None
    """A folder laid out as NLTK's data is, for examples of a word's senses; by default where NLTK
    looks (NLTK_DATA), and no senses where it finds no WordNet."""
    study: Part[CodesOptions] = field(default_factory=CodesOptions)
    output: Part[Output] = field(default_factory=Output)
