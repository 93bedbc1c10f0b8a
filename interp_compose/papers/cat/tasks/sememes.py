"""Words and the sememes that they are made of, in HowNet's scheme. ``load_sememes``."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interp_compose._public import public, short
from interp_compose.errors import DataFormatError, InputError, MissingDataError, OptionError
from interp_compose.runs.files import reading

ANNOTATIONS: Final = "hownet.txt"
DICTIONARY: Final = "en2zh_dict.txt"
NAMES: Final = "sememe_1400_EnZh.txt"


@public
@dataclass(frozen=True, eq=False)
class Sememes:
    """Annotations of words.

    ``names`` are the sememes, by their numbers; ``words`` says of each annotated word which it has.

    Raises:
        InputError: no sememe, one named twice; no word, one that is no single word, or one with a
            sememe that there is not, or without any.
    """

    names: tuple[str, ...]
    words: Mapping[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        if len(set(self.names)) < max(1, len(self.names)):
            raise InputError(
                f"names holds {len(self.names)} sememes, {len(set(self.names))} different ones: "
                "expected one or more, each once"
            )
        if not self.words:
            raise InputError("words is empty: expected at least one annotated word")
        for word, sememes in self.words.items():
            if word.split() != [word]:
                raise InputError(f"{short(word)} is no single word, of which a text's words are")
            beyond = [one for one in sememes if not 0 <= one < len(self.names)]
            if beyond or not sememes:
                raise InputError(
                    f"{short(word)} has the sememes {short(sememes)}: expected at least one, from "
                    f"0 to {len(self.names) - 1}"
                )

    @classmethod
    def of(cls, words: Mapping[str, Sequence[str]]) -> Sememes:
        """Annotations as names: ``{"ram": ["sheep", "male"]}``. Sememes are numbered as they are
        first named; one that a word has twice counts once.

        Raises:
            InputError: as of the class.
        """
        names = list(dict.fromkeys(name for sememes in words.values() for name in sememes))
        if not names:
            raise InputError(
                f"the sememes {short(dict(words))} name none: expected words, and one sememe or "
                "more of each, such as {'ram': ['sheep', 'male']}"
            )
        numbers = {name: number for number, name in enumerate(names)}
        return cls(
            tuple(names),
            {
                word: tuple(sorted({numbers[name] for name in sememes}))
                for word, sememes in words.items()
            },
        )

    def split(self, share: float) -> tuple[Sememes, Sememes]:
        """The words that guide, and those held out: about this share, by the words' SHA-256, so
        that a word is on the same side whatever others there are.

        Raises:
            OptionError: a share outside (0, 1), or one that leaves a side without words.
        """
        if not 0 < share < 1:
            raise OptionError(f"share={share!r}: expected a number between 0 and 1, such as 0.1")
        held = {word for word in self.words if place_of(word) < share}
        sides = [
            {word: sememes for word, sememes in self.words.items() if (word in held) == is_held}
            for is_held in (False, True)
        ]
        if not all(sides):
            raise OptionError(
                f"share={share!r} of {len(self.words)} words leaves one of the two sides empty"
            )
        guiding, held_out = (Sememes(self.names, side) for side in sides)
        return guiding, held_out


def place_of(word: str) -> float:
    """A word's place between 0 and 1, by the word alone."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") / 2**64


@public
def load_sememes(folder: str | Path) -> Sememes:
    """Annotations of English words, from a folder in HowNet's scheme.

    ``hownet.txt`` has a Chinese word, a tab and its sememes, separated by blanks, a line;
    ``en2zh_dict.txt`` an English word, a tab and its translations, separated by ``/``;
    ``sememe_1400_EnZh.txt`` a sememe's English name, ``|`` and the sememe. An English word, in
    lower case, has the sememes of all its translations together: so it is in CAT, which supervises
    a word whatever its sense. Entries of several words are left out.

    Raises:
        MissingDataError: a file is not there.
        DataFormatError: a line of another form, or a sememe without a name; names it.
    """
    folder = Path(folder)
    named: dict[str, str] = {}
    for where, line in _lines(folder / NAMES):
        english, bar, chinese = line.partition("|")
        if not bar or not english or not chinese or chinese in named:
            raise DataFormatError(
                f"{where} is {short(line)}: expected a sememe's English name, a bar, and the "
                "sememe, each sememe once"
            )
        named[chinese] = english
    number = {chinese: i for i, chinese in enumerate(named)}
    annotated: dict[str, set[int]] = {}
    for where, word, sememes in _pairs(folder / ANNOTATIONS, None):
        for one in sememes:
            if one not in number:
                raise DataFormatError(
                    f"{where} has the sememe {short(one)}, which {NAMES} does not name; get both "
                    "files from one release"
                )
        annotated.setdefault(word, set()).update(number[one] for one in sememes)
    words: dict[str, set[int]] = {}
    for _, word, translations in _pairs(folder / DICTIONARY, "/"):
        word_sememes = set().union(*(annotated.get(one, ()) for one in translations))
        if word_sememes and len(word.split()) == 1:
            words.setdefault(word.lower(), set()).update(word_sememes)
    if not words:
        raise DataFormatError(
            f"no word of {DICTIONARY} has a translation that {ANNOTATIONS} annotates; get both "
            "files from one release"
        )
    return Sememes(
        _distinct(named.values()), {word: tuple(sorted(numbers)) for word, numbers in words.items()}
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """English names, of which a few mean several sememes: those get a number."""
    out: dict[str, None] = {}
    for name in names:
        numbered = (f"{name} {i}" for i in itertools.count(2))
        out[next(one for one in itertools.chain([name], numbered) if one not in out)] = None
    return tuple(out)


def _pairs(path: Path, between: str | None) -> Iterator[tuple[str, str, list[str]]]:
    """Where a line is, its entry, and what belongs to it."""
    for where, line in _lines(path):
        entry, tab, rest = line.partition("\t")
        entry, parts = entry.strip(), [one.strip() for one in rest.split(between) if one.strip()]
        if not tab or not entry or "\t" in rest or not parts:
            raise DataFormatError(
                f"{where} is {short(line)}: expected an entry, one tab, and what belongs to it"
            )
        yield where, entry, parts


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    if not path.is_file():
        raise MissingDataError(
            f"there is no {path}; expected a folder with {ANNOTATIONS}, {DICTIONARY} and {NAMES}"
        )
    try:
        with reading(path):
            text = path.read_text(encoding="utf-8-sig")
    except ValueError as error:
        raise DataFormatError(f"{path} is no UTF-8 text ({error}); get it again") from error
    for i, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {i} of {path}", line.strip()
