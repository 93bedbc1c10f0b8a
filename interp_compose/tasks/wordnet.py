"""WordNet's words, definitions and examples, found through NLTK and read from its files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nltk

from interp_compose.errors import DataFormatError, MissingDataError

_PLACES = ("corpora/wordnet", "corpora/wordnet.zip/wordnet/")
_FILES = {"data.noun": "1", "data.verb": "2", "data.adj": "35", "data.adv": "4"}  # part of speech
_EXAMPLE = re.compile(r'"[^"]*"?')
_WORD = re.compile(r"[^\W_]+")
_VERSION = re.compile(r"WordNet (\d[\d.]*) Copyright")


@dataclass(frozen=True)
class Sense:
    """A word, one definition of it, and how often WordNet's texts use the word in this sense."""

    word: str
    definition: str
    count: int


@dataclass(frozen=True)
class SenseExample:
    """A text in which a word occurs in the sense of a synset (the part of speech, and the place in
    its file)."""

    word: str
    synset: str
    text: str


def wordnet_senses(data_dir: str | Path | None = None) -> list[Sense]:
    """Every lemma of every synset, in WordNet's order, with the synset's definition.

    WordNet is looked for where NLTK looks (the environment variable ``NLTK_DATA`` among it), or in
    ``data_dir``, a folder laid out as NLTK's data is. Read directly, since building NLTK's synset
    objects takes ten times as long; a test holds the two against each other.

    Raises ``MissingDataError`` if it is not there, ``DataFormatError`` if a line is garbled.
    """
    with _data_path(data_dir):
        root = _find(data_dir)
        counts = {}
        for number, line in _lines(root, "index.sense"):
            key, offset, _, count = _fields(root, "index.sense", number, line, 4)
            word, _, rest = key.partition("%")
            counts[word, rest[:1], offset] = int(count)
        return [
            Sense(word, definition, sum(counts.get((word.lower(), p, start), 0) for p in positions))
            for name, positions in _FILES.items()
            for word, gloss, start in _synsets(root, name)
            for definition in [_EXAMPLE.sub("", gloss).strip("; \n")]
        ]


def wordnet_version(data_dir: str | Path | None = None) -> str:
    """The version that WordNet's licence states, like "3.0"; found as by :func:`wordnet_senses`."""
    with _data_path(data_dir):
        lines = [line for _, line in _lines(_find(data_dir), "data.adj")]
    stated = _VERSION.search("\n".join(lines))
    return stated[1] if stated else "of no stated version"


def wordnet_examples(data_dir: str | Path | None = None) -> list[SenseExample]:
    """The examples of every synset in which one of its words, a single one, occurs as WordNet
    spells it but for case, in WordNet's order; a text once for a word and synset.

    Found, and refused, as :func:`wordnet_senses` has it.
    """
    examples: dict[SenseExample, None] = {}
    with _data_path(data_dir):
        root = _find(data_dir)
        for name in _FILES:
            kind = name.removeprefix("data.")
            for word, gloss, offset in _synsets(root, name):
                for text in _EXAMPLE.findall(gloss):
                    if word.lower() in _WORD.findall(text.lower()):
                        text = text.strip('" ')
                        examples[SenseExample(word.lower(), f"{kind} {offset}", text)] = None
    return list(examples)


def _synsets(root: Any, name: str) -> Iterator[tuple[str, str, str]]:
    """``(word, gloss, offset)`` of every lemma in a ``data`` file.

    A line reads: offset, lexicographer's file, part of speech, number of words (hexadecimal),
    word and number for each, pointers, ``|``, gloss: a definition, and quoted examples. An
    adjective's word may end in its position, like ``(a)``.
    """
    for number, line in _lines(root, name):
        if line.startswith("  "):  # the licence
            continue
        columns, bar, gloss = line.partition("|")
        fields = _fields(root, name, number, columns, 6)
        try:
            n_words = int(fields[3], 16)
        except ValueError:
            n_words = 0
        if not bar or not n_words or len(fields) < 4 + 2 * n_words:
            raise _garbled(root, name, number, line)
        for word in fields[4 : 4 + 2 * n_words : 2]:
            yield re.sub(r"\(\w+\)$", "", word), gloss, fields[0]


def _lines(root: Any, name: str) -> Iterator[tuple[int, str]]:
    try:
        stream = root.join(name).open(encoding="utf-8")
    except OSError as missing:
        raise MissingDataError(
            f"WordNet in {root} has no {name}. Get it again with: "
            "python -m nltk.downloader --force wordnet"
        ) from missing
    with stream:
        text = stream.read()
    yield from enumerate(text.splitlines(), start=1)


def _fields(root: Any, name: str, number: int, line: str, at_least: int) -> list[str]:
    fields: list[str] = line.split()
    if len(fields) < at_least:
        raise _garbled(root, name, number, line)
    return fields


def _garbled(root: Any, name: str, number: int, line: str) -> DataFormatError:
    return DataFormatError(
        f"{root.join(name)}, line {number} is no line of a WordNet database: {line[:60]!r}. "
        "Get it again with: python -m nltk.downloader --force wordnet"
    )


def _find(data_dir: str | Path | None) -> Any:
    for place in _PLACES:
        try:
            return nltk.data.find(place)
        except LookupError:
            continue
    where = str(data_dir) if data_dir is not None else "NLTK_DATA or NLTK's own folders"
    aim = f" -d {data_dir}" if data_dir is not None else ""
    raise MissingDataError(
        f"WordNet is not in {where} (looked for {_PLACES[0]}). Get it with: "
        f"python -m nltk.downloader{aim} wordnet"
    )


@contextmanager
def _data_path(data_dir: str | Path | None) -> Iterator[None]:
    """NLTK reads nothing outside its data path: ``data_dir`` alone is that path for a while."""
    before = list(nltk.data.path)
    if data_dir is not None:
        nltk.data.path[:] = [str(Path(data_dir).resolve())]
    try:
        yield
    finally:
        nltk.data.path[:] = before


def wordnet_reader(data_dir: str | Path | None = None) -> Any:
    """NLTK's reader of WordNet, found as :func:`wordnet_senses` finds it.

    It reads on demand, so that ``data_dir`` stays on NLTK's data path.

    Raises ``MissingDataError`` if WordNet is not there.
    """
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    with _data_path(data_dir):
        root = _find(data_dir)
    if data_dir is not None and str(Path(data_dir).resolve()) not in nltk.data.path:
        nltk.data.path.insert(0, str(Path(data_dir).resolve()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The multilingual functions are not available")
        return WordNetCorpusReader(root, omw_reader=None)
