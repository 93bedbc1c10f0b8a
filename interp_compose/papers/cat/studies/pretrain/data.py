"""A text as sentences of tokens, with the tokenizer that its training part made and the annotations
of its words; kept once beside the runs, where they map it."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Bool

from interp_compose.errors import CorruptFileError, InputError, OptionError
from interp_compose.papers.cat.studies.pretrain.options import TextOptions
from interp_compose.papers.cat.tasks.sememes import Sememes, place_of
from interp_compose.papers.cat.text.wordpiece import WordPieceTokenizer, continuing
from interp_compose.papers.cat.training.sentences import Lexicon, Sentences
from interp_compose.runs.checksums import SUMS, check_sums, digest_of, digests_of, write_sums
from interp_compose.runs.files import (
    atomic_write,
    file_sha256,
    json_bytes,
    read_json,
    temporary_folder,
)
from interp_compose.tasks.corpus import (
    digest_of_words,
    plain_of,
    read_documents,
    text_files,
)

DATA: Final = "data"
"""The folder, beside the runs'."""
ABOUT: Final = "about.json"
PARTS: Final = ("train", "held_out")
SIDES: Final = ("guiding", "held_out")
"""Of annotated words."""
AT_ONCE: Final = 1000
"""Documents that are split into tokens at one time."""


@dataclass(frozen=True, eq=False)
class PretrainingData:
    """Both parts, the tokenizer, and the annotations of words that guide and of words held out
    (None: there are none)."""

    tokenizer: WordPieceTokenizer
    train: Sentences
    held_out: Sentences
    guiding: Sememes | None
    held_out_words: Sememes | None
    report: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DataOptions(TextOptions):
    """How a text becomes data, checked."""

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise OptionError(
                f"held_out={self.held_out!r}: expected a share between 0 and 1, such as 0.02"
            )


def prepared(
    source: Path,
    sememes: Sememes | None,
    options: DataOptions,
    out: Path,
    *,
    n_ctx: int,
    given: WordPieceTokenizer | None = None,
) -> tuple[str, dict[str, Any]]:
    """The digest of the data of a text in the folder of a sweep, made where they are missing, and
    what a result says of them; with the tokenizer that is ``given``, or one that the training part
    makes.

    The text is read from the disk three times, and no more than the digests of its documents, and
    the starts of its sentences, are held in memory. A document that occurs again is left out; by
    the SHA-256 of its words it is in the training part or held out, whatever others there are. What
    is refused is refused before anything is written.

    Raises:
        MissingDataError, DataFormatError: as :func:`.corpus.load_text`.
        InputError: a part without a document; no training document with two neighbouring sentences
            that fit into ``n_ctx`` tokens; no annotated word of the vocabulary, on either side.
        OptionError: a share that is not between 0 and 1, or a vocabulary that the training part
            does not support.
        CorruptFileError: the data are there, and were altered.
    """
    split = None if sememes is None else _words_split(sememes, options.held_out_words)
    files = [file_sha256(path) for path in text_files(source)]
    words = None if sememes is None else [list(sememes.names), sorted(sememes.words.items())]
    made_by = vars(options) | ({} if given is None else {"tokenizer": given.saved()})
    digest = digest_of([files, made_by, words])
    folder = out / DATA / digest
    if folder.exists():
        _check_pairs(source, options, kept(out, digest).tokenizer, n_ctx)
    else:
        tokenizer, counts = _tokenizer_of(source, options, given)
        _check_pairs(source, options, tokenizer, n_ctx)
        counts |= _annotated(tokenizer, split)
        with temporary_folder(folder.parent) as temporary:
            _make(source, options, tokenizer, counts, split, temporary)
            try:
                os.replace(temporary, folder)
            except OSError:
                if not folder.exists():  # another call has made the same in the meantime
                    raise
    return digest, kept(out, digest).report


def _words_split(sememes: Sememes, share: float) -> tuple[Sememes, Sememes]:
    """Words that guide, and words held out.

    Raises:
        OptionError: a share that leaves none of either; says which share does not.
    """
    if not 0 < share < 1:
        raise OptionError(
            f"held_out_words={share!r}: expected a share between 0 and 1, such as 0.1, of the "
            "annotated words"
        )
    places = sorted(map(place_of, sememes.words))
    if places[0] < share <= places[-1]:
        return sememes.split(share)
    which, few = ("all", "smaller") if places[-1] < share else ("none", "larger")
    # Between the first word and the second, or, of all, between the last two.
    ends = places[:2] if which == "none" else places[-2:]
    remedy = f"a {few} share, such as {sum(ends) / 2:.3g}" if len(places) > 1 else "more words"
    raise OptionError(
        f"held_out_words={share:g} holds out {which} of the {len(places)} annotated words, chosen "
        f"by their SHA-256: expected some on either side; give {remedy}"
    )


@lru_cache(maxsize=1)
def kept(out: Path, digest: str) -> PretrainingData:
    """The data that :func:`prepared` wrote; tokens are mapped, not read.

    Raises:
        CorruptFileError: they are gone, or were altered.
    """
    folder = out / DATA / digest
    if not folder.is_dir():
        raise CorruptFileError(f"{folder} is missing, which has the data; call the study again")
    try:
        check_sums(folder / SUMS, [ABOUT])
    except CorruptFileError as damaged:
        raise CorruptFileError(
            f"{damaged} Or delete {folder}, and call the study again."
        ) from damaged
    record = read_json(folder / ABOUT)
    tokenizer = WordPieceTokenizer(json.dumps(record["tokenizer"]))
    parts = {part: _read(folder, part, _kind(tokenizer)) for part in PARTS}
    guiding, held_out_words = _sides(record["sememes"])
    return PretrainingData(
        tokenizer,
        parts["train"],
        parts["held_out"],
        guiding,
        held_out_words,
        record["report"],
    )


def _sides(kept_sememes: Mapping[str, Any] | None) -> tuple[Sememes | None, Sememes | None]:
    if kept_sememes is None:
        return None, None
    guiding, held_out = (
        Sememes(
            tuple(kept_sememes["names"]),
            {word: tuple(word_sememes) for word, word_sememes in kept_sememes[side].items()},
        )
        for side in SIDES
    )
    return guiding, held_out


def lexicon_of(tokenizer: WordPieceTokenizer, sememes: Sememes) -> Lexicon:
    """Annotated words by their tokens; those that are not one word of this vocabulary are left out.

    Raises:
        InputError: none is.
    """
    return Lexicon.of(sememes_by_tokens(tokenizer, sememes), len(sememes.names))


def sememes_by_tokens(
    tokenizer: WordPieceTokenizer, sememes: Sememes
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """The sememes of the words that are one word of this vocabulary, by the word's tokens."""
    goes_on, unknown = continuing(tokenizer), tokenizer.unk_token_id
    words = list(sememes.words)
    by_tokens: dict[tuple[int, ...], tuple[int, ...]] = {}
    for word, pieces in zip(words, tokenizer.pieces(words), strict=True):
        ids = tuple(pieces)
        if ids and unknown not in ids and not goes_on[ids[0]] and all(goes_on[i] for i in ids[1:]):
            by_tokens[ids] = sememes.words[word]
    return by_tokens


def _tokenizer_of(
    source: Path, options: DataOptions, given: WordPieceTokenizer | None
) -> tuple[WordPieceTokenizer, dict[str, int]]:
    """The one that is given, or that the training part makes; and how many documents there are."""
    counts = {f"{part}_documents": 0 for part in PARTS} | {"left_out_as_repeated": 0}
    if given is not None:
        for _ in _in_parts(source, options, counts):
            pass
        _check_parts(source, options, counts)
        return given, counts
    sentences = _TrainingSentences(source, options, counts)
    try:
        tokenizer = WordPieceTokenizer.trained(sentences, options.vocab_size)
    except OptionError as error:
        _check_parts(source, options, counts)  # without documents no vocabulary is supported
        if options.vocab_size != TextOptions.vocab_size:
            raise
        raise OptionError(
            f"{error}; {options.vocab_size} is what pretrain has where none is given (in the shell "
            "--vocab-size)"
        ) from error
    _check_parts(source, options, counts)
    return tokenizer, counts


@dataclass(frozen=True)
class _TrainingSentences:
    """Read from the disk whenever they are gone through; ``counts`` are of the last time."""

    source: Path
    options: DataOptions
    counts: dict[str, int]

    def __iter__(self) -> Iterator[str]:
        self.counts.update(dict.fromkeys(self.counts, 0))
        for part, document in _in_parts(self.source, self.options, self.counts):
            if part == "train":
                yield from document.split("\n")


def _check_parts(source: Path, options: DataOptions, counts: Mapping[str, int]) -> None:
    """That both have documents, of those that were read."""
    n = sum(counts.values())
    for part in PARTS:
        if n and not counts[f"{part}_documents"]:
            raise InputError(
                f"with held_out={options.held_out:g} the part {part!r} of {source} has no "
                f"document, of {n}; give more text, or another share"
            )


def _annotated(
    tokenizer: WordPieceTokenizer, split: tuple[Sememes, Sememes] | None
) -> dict[str, int]:
    """How many sememes there are, and annotated words of this vocabulary."""
    if split is None:
        return {}
    counts = {"sememes": len(split[0].names)}
    for name, side in zip(SIDES, split, strict=True):
        counts[f"{name}_words"] = len(lexicon_of(tokenizer, side).keys)
    return counts


def _check_pairs(
    source: Path, options: DataOptions, tokenizer: WordPieceTokenizer, n_ctx: int
) -> None:
    """That there is a next sentence to predict; the text is read up to the first."""
    for part, sentences in _tokens_of(source, options, tokenizer):
        lengths = [len(ids) for ids in sentences if ids]
        if part == "train" and any(one + next_ <= n_ctx - 3 for one, next_ in pairwise(lengths)):
            return
    raise InputError(
        f"no document of {source} has two sentences that fit into n_ctx={n_ctx} tokens together, "
        "so that there is no next sentence to predict; expected a sentence a line, and blank lines "
        "between documents"
    )


def _tokens_of(
    source: Path, options: DataOptions, tokenizer: WordPieceTokenizer
) -> Iterator[tuple[str, list[list[int]]]]:
    """The part of each document, and the tokens of its sentences."""
    documents = _in_parts(source, options, None)
    while batch := list(islice(documents, AT_ONCE)):
        lines = [[line for line in text.split("\n") if line.strip()] for _, text in batch]
        flat = [line for document in lines for line in document]
        encoded = iter(tokenizer.pieces(flat))
        for (part, _), document in zip(batch, lines, strict=True):
            yield part, list(islice(encoded, len(document)))


def _make(
    source: Path,
    options: DataOptions,
    tokenizer: WordPieceTokenizer,
    counts: Mapping[str, int],
    split: tuple[Sememes, Sememes] | None,
    folder: Path,
) -> None:
    report: dict[str, Any] = {**counts}
    writers = {part: _Writer(folder, part, _kind(tokenizer)) for part in PARTS}
    guiding = {} if split is None else sememes_by_tokens(tokenizer, split[0])
    goes_on, occurs = continuing(tokenizer), split is None
    for part, sentences in _tokens_of(source, options, tokenizer):
        writers[part].add(sentences)
        # Up to the first word that guides.
        if part == "train" and not occurs:
            occurs = any(not guiding.keys().isdisjoint(words_of(ids, goes_on)) for ids in sentences)
    for part, writer in writers.items():
        writer.finish()
        report |= {f"{part}_sentences": writer.n_sentences, f"{part}_tokens": writer.n_tokens}
        if not writer.n_tokens:
            raise InputError(f"the part {part!r} of {source} has no token; give more text")
    if split is not None and not occurs:
        word = next(iter(split[0].words))
        raise InputError(
            f"none of the {len(split[0].words)} annotated words that guide training, such as "
            f"{word!r}, occurs in the training text of {source}: sememes would teach nothing; "
            "annotate words of this text"
        )
    kept_sememes: dict[str, Any] | None = None
    if split is not None:
        sides = {name: dict(side.words) for name, side in zip(SIDES, split, strict=True)}
        kept_sememes = {"names": list(split[0].names), **sides}
    record = {"tokenizer": tokenizer.saved(), "sememes": kept_sememes, "report": report}
    atomic_write(folder / ABOUT, json_bytes(record))
    names = sorted(path.name for path in folder.iterdir())
    write_sums(folder / SUMS, digests_of(folder, names))


def _in_parts(
    source: Path, options: DataOptions, counts: dict[str, int] | None
) -> Iterator[tuple[str, str]]:
    """The part of each document, and its text; the first of equal ones alone."""
    seen: set[bytes] = set()
    for document in read_documents(source, options.documents):
        digest = digest_of_words(plain_of(document))
        if digest in seen:
            if counts is not None:
                counts["left_out_as_repeated"] += 1
            continue
        seen.add(digest)
        held = int.from_bytes(digest[:8], "big") / 2**64 < options.held_out
        part = PARTS[held]
        if counts is not None:
            counts[f"{part}_documents"] += 1
        yield part, document


def words_of(ids: Sequence[int], goes_on: Bool[np.ndarray, "token"]) -> Iterator[tuple[int, ...]]:
    """The tokens of each word of a sentence."""
    starts = [*(place for place, token in enumerate(ids) if not goes_on[token]), len(ids)]
    yield from (tuple(ids[start:end]) for start, end in pairwise(starts))


class _Writer:
    """Tokens to a file as they come; starts and documents at the end."""

    def __init__(self, folder: Path, part: str, kind: np.dtype[Any]) -> None:
        self.folder, self.part, self.kind = folder, part, kind
        self.file = (folder / f"{part}.tokens").open("wb")
        self.starts, self.documents = array("q", [0]), array("q", [0])
        self.n_tokens = 0

    @property
    def n_sentences(self) -> int:
        return len(self.starts) - 1

    def add(self, sentences: Iterable[list[int]]) -> None:
        """The sentences of one document, behind those before."""
        n_starts = len(self.starts)
        for ids in sentences:
            if ids:
                self.file.write(np.array(ids, dtype=self.kind).tobytes())
                self.n_tokens += len(ids)
                self.starts.append(self.n_tokens)
        if len(self.starts) > n_starts:
            self.documents.append(self.n_sentences)

    def finish(self) -> None:
        self.file.close()
        for name, values in (("starts", self.starts), ("documents", self.documents)):
            np.frombuffer(values, dtype=np.int64).astype("<i8").tofile(
                self.folder / f"{self.part}.{name}"
            )


def _kind(tokenizer: WordPieceTokenizer) -> np.dtype[Any]:
    return np.dtype("<u2" if len(tokenizer) <= 1 << 16 else "<i4")


def _read(folder: Path, part: str, kind: np.dtype[Any]) -> Sentences:
    kinds = {"tokens": kind, "starts": np.dtype("<i8"), "documents": np.dtype("<i8")}
    try:
        mapped = {
            name: np.memmap(folder / f"{part}.{name}", dtype=dtype, mode="r")
            for name, dtype in kinds.items()
        }
    except (OSError, ValueError) as error:
        raise CorruptFileError(
            f"{folder} cannot be read ({error}); call the study again"
        ) from error
    return Sentences(
        mapped["tokens"], np.asarray(mapped["starts"]), np.asarray(mapped["documents"])
    )
