"""A user's text to model: documents in a training part and a held-out one. ``load_text``."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from interp_compose._public import public, short
from interp_compose.errors import DataFormatError, InputError, MissingDataError, OptionError
from interp_compose.tasks.shown_task import ShownTask

Documents = Literal["blank-line", "file"]
SUFFIXES: Final = (".txt", ".txt.gz")
"""Endings of the files of a folder that are read."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class TextCorpus(ShownTask):
    """Documents to train a language model on, and others to measure it on.

    ``report`` counts documents and bytes of both parts (``train_documents``, ``held_out_bytes``, …;
    bytes of UTF-8), and what was left out.

    Raises:
        InputError: a part without documents; a document that is blank, or in both parts.
    """

    name: str
    train: tuple[str, ...]
    held_out: tuple[str, ...]
    report: Mapping[str, int | str | float]

    def _splits(self) -> Mapping[str, tuple[str, ...]]:
        return {"train": self.train, "held_out": self.held_out}

    def __post_init__(self) -> None:
        for part, documents in (("train", self.train), ("held_out", self.held_out)):
            if not documents:
                raise InputError(f"the part {part!r} of the text {self.name!r} has no documents")
            for place, document in enumerate(documents):
                if not document.strip():
                    raise InputError(f"document {place} of the part {part!r} is blank")
        trained = set(map(plain_of, self.train))
        for document in self.held_out:
            if plain_of(document) in trained:
                raise InputError(
                    f"the held-out document {short(document)} is in the training part too; take it "
                    "out of one of the two"
                )


@public
def load_text(
    source: str | Path, *, documents: Documents = "blank-line", held_out: float = 0.05
) -> TextCorpus:
    """The text of a file, or of a folder's ``.txt`` and ``.txt.gz`` files (those of its folders
    too), split by document.

    A document that occurs again, white space aside, is left out. The others are put in the order
    of the SHA-256 of their words, which is random and depends on nothing else: the first are held
    out, the training part follows.

    Args:
        source: UTF-8 text; compressed where the name ends in ``.gz``.
        documents: are separated by blank lines, or each file is one.
        held_out: the share of documents that is held out, rounded; at least one.

    Raises:
        MissingDataError: there is no such file, or no text file in the folder.
        DataFormatError: a file that is empty or no UTF-8 text; names it.
        OptionError: a share that is not between 0 and 1.
        InputError: fewer than two different documents.
    """
    if not 0 < held_out < 1:
        raise OptionError(f"held_out={held_out!r}: expected a share between 0 and 1, such as 0.05")
    source = Path(source)
    files = text_files(source)
    every = list(read_documents(source, documents))
    different = {plain_of(document): document for document in reversed(every)}
    if len(different) < 2:
        times = f" ({len(every)} times)" if len(every) > 1 else ""
        raise InputError(
            f"{source} holds one document{times} with documents={documents!r}, which cannot be "
            "split; expected two or more different ones (separated by blank lines, or by files)"
        )
    ordered = [different[key] for key in sorted(different, key=digest_of_words)]
    n = min(max(1, round(held_out * len(ordered))), len(ordered) - 1)
    parts = {"train": tuple(ordered[n:]), "held_out": tuple(ordered[:n])}
    report: dict[str, int | str | float] = {"files": len(files), "documents": documents}
    report["left_out_as_repeated"] = len(every) - len(ordered)
    for part, texts in parts.items():
        report[f"{part}_documents"] = len(texts)
        report[f"{part}_bytes"] = n_bytes(texts)
    return TextCorpus(source.resolve().name.partition(".")[0], **parts, report=report)


def n_bytes(texts: tuple[str, ...]) -> int:
    """The size of the texts in UTF-8."""
    return sum(len(text.encode()) for text in texts)


def read_documents(source: str | Path, documents: Documents = "blank-line") -> Iterator[str]:
    """The documents of a file, or of a folder's ``.txt`` and ``.txt.gz`` files, one after another;
    not more than one is in memory. Lines end in a newline alone, and no document is blank.

    Raises:
        MissingDataError, DataFormatError: as :func:`load_text`.
    """
    for path in text_files(Path(source)):
        yield from _documents(path, documents)


def text_files(source: Path) -> list[Path]:
    """The files of a text, in their order.

    Raises:
        MissingDataError: there is no such file, or no text file in the folder.
    """
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise MissingDataError(f"there is no {source}; expected a text file, or a folder of them")
    files = [
        path
        for path in source.rglob("*")
        if path.name.lower().endswith(SUFFIXES) and path.name[0] != "." and path.is_file()
    ]
    if not files:
        raise MissingDataError(
            f"the folder {source} holds no text file; expected names that end in "
            f"{' or '.join(SUFFIXES)}"
        )
    return sorted(files)


def _documents(path: Path, documents: Documents) -> Iterator[str]:
    whole, empty = documents == "file", True
    lines: list[str] = []
    for line in chain(_lines(path), [""]):
        if whole or line.strip():
            lines.append(line)
            continue
        if lines:
            empty = False
            yield "\n".join(lines).strip()
        lines = []
    if whole and any(map(str.strip, lines)):
        empty = False
        yield "\n".join(lines).strip()
    if empty:
        raise DataFormatError(f"{path} is empty; leave it out")


def _lines(path: Path) -> Iterator[str]:
    """The lines without their ends; a ``.gz`` is unpacked."""
    kind = gzip.open if path.suffix.lower() == ".gz" else open
    place = 0
    try:
        with kind(path, "rt", encoding="utf-8-sig", newline=None) as file:
            for line in file:
                if "\0" in line:
                    raise DataFormatError(
                        f"{path} has a NUL byte (at character {place + line.index(chr(0))}), as "
                        "binary files have; leave it out"
                    )
                place += len(line)
                yield line.removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataFormatError(
            f"{path} is no UTF-8 text ({error}); save it as UTF-8, or leave it out"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        if kind is open:
            raise
        raise DataFormatError(f"{path} cannot be decompressed ({error}); get it again") from error


def plain_of(document: str) -> str:
    """Its words, with one blank between them."""
    return " ".join(document.split())


def digest_of_words(plain: str) -> bytes:
    """What a document's place among others depends on."""
    return hashlib.sha256(plain.encode()).digest()
