"""SCAN: commands and the actions they mean, generated from the grammar; its published splits.

Lake and Baroni 2018, "Generalization without Systematicity" (ICML): the phrase-structure grammar
and the interpretation function are those of the paper's supplement. Loula, Baroni and Lake 2018
write ``addprim_jump`` and ``addprim_turn_left`` for the two splits in which a primitive is trained
alone.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from interp_compose.errors import DataFormatError, OptionError
from interp_compose.tasks.published import named
from interp_compose.tasks.rows import data_files, numbered_lines
from interp_compose.tasks.sequences import (
    SequencePair,
    SequenceTask,
    check_counts,
    report_of,
)

PRIMITIVES: Final = ("walk", "look", "run", "jump")
DIRECTIONS: Final = ("left", "right")
LENGTH: Final = "scan-length"
CUTOFF: Final = 22
"""Actions of the longest target in the published training split ``length``."""
PRIMITIVE_SHARE: Final = 10
"""The primitive of an addprim split is one in so many of the training pairs."""
LONGEST: Final = 48
"""Actions of the longest target."""
SIMPLE_TEST: Final = 4182
"""Pairs of the test split ``simple``, published or drawn."""
ADDPRIM: Final = {"scan-jump": "jump", "scan-turn-left": "turn left"}
FILES: Final = {
    "scan-simple": "simple",
    LENGTH: "length",
    "scan-jump": "addprim_jump",
    "scan-turn-left": "addprim_turn_left",
}

Pairs = list[SequencePair]


def commands() -> Iterator[tuple[str, str]]:
    """All 20,910 commands with their actions: C → S and S | S after S | S."""
    sentences = list(_sentences())
    yield from sentences
    for first, first_actions in sentences:
        for second, second_actions in sentences:
            yield f"{first} and {second}", f"{first_actions} {second_actions}"
            yield f"{first} after {second}", f"{second_actions} {first_actions}"


def _sentences() -> Iterator[tuple[str, str]]:
    """S → V | V twice | V thrice."""
    for phrase, actions in _verb_phrases():
        yield phrase, actions
        yield f"{phrase} twice", " ".join([actions] * 2)
        yield f"{phrase} thrice", " ".join([actions] * 3)


def _verb_phrases() -> Iterator[tuple[str, str]]:
    """V → D[1] opposite D[2] | D[1] around D[2] | D | U, where D → U left | turn left | …"""
    for verb in (*PRIMITIVES, "turn"):
        action = "" if verb == "turn" else f" I_{verb.upper()}"
        if action:
            yield verb, action.strip()
        for direction in DIRECTIONS:
            turn = f"I_TURN_{direction.upper()}"
            yield f"{verb} {direction}", f"{turn}{action}"
            yield f"{verb} opposite {direction}", f"{turn} {turn}{action}"
            yield f"{verb} around {direction}", " ".join([f"{turn}{action}"] * 4)


def scan(name: str, data_dir: str | Path | None, seed: int | None) -> SequenceTask:
    """A split of SCAN; :func:`.sequences.load_sequences` documents the arguments."""
    cutoff = _cutoff(name)
    everything = list(_everything())
    report: dict[str, int | str | float] = {"commands": len(everything)}
    source = "generated"
    if cutoff is not None:
        report["cutoff"] = cutoff
        splits = _parted(everything, lambda pair: len(pair.target.split()) > cutoff)
    elif name in ADDPRIM:
        report["train_primitive"], splits = _addprim(everything, ADDPRIM[name])
    elif seed is not None:
        source = f"generated; split drawn with seed {seed}"
        test_pairs = set(random.Random(seed).sample(everything, SIMPLE_TEST))
        splits = _parted(everything, lambda pair: pair in test_pairs)
    else:
        splits = {}
    if data_dir is not None or not splits:
        drawn_once, source = not splits, f"SCAN in {data_dir}"
        splits = _published(name, data_dir, splits, everything)
        if drawn_once:
            name, source = named(name, "SCAN", data_dir, {"test": splits["test"]})
    parts = {split: tuple(pairs) for split, pairs in splits.items()}
    return SequenceTask(name, parts, {**report_of(source, parts), **report})


@cache
def _everything() -> tuple[SequencePair, ...]:
    return tuple(SequencePair(*both) for both in commands())


def _cutoff(name: str) -> int | None:
    """Actions of the longest training target in a split by length; None for other splits."""
    if name == LENGTH:
        return CUTOFF
    if not name.startswith(f"{LENGTH}-"):
        return None
    digits = name.removeprefix(f"{LENGTH}-")
    if not re.fullmatch("[1-9][0-9]?", digits) or int(digits) >= LONGEST:
        raise OptionError(
            f"task {name!r}: expected {LENGTH}-1 … {LENGTH}-{LONGEST - 1}; the number is that of "
            f"the actions of the longest training target, and the longest of all has {LONGEST}"
        )
    return int(digits)


def _parted(pairs: Pairs, is_test: Callable[[SequencePair], bool]) -> dict[str, Pairs]:
    splits: dict[str, Pairs] = {"train": [], "test": []}
    for pair in pairs:
        splits["test" if is_test(pair) else "train"].append(pair)
    return splits


def _addprim(everything: Pairs, primitive: str) -> tuple[int, dict[str, Pairs]]:
    """How often the primitive is repeated, and the splits: it alone is trained on."""
    splits = _parted(everything, lambda pair: f" {primitive} " in f" {pair.source} ")
    (primitive_pair,) = (pair for pair in splits["test"] if pair.source == primitive)
    splits["test"].remove(primitive_pair)
    repeats = len(splits["train"]) // (PRIMITIVE_SHARE - 1)
    splits["train"] += [primitive_pair] * repeats
    return repeats, splits


def _published(
    name: str, data_dir: str | Path | None, expected: dict[str, Pairs], everything: Pairs
) -> dict[str, Pairs]:
    """The splits of the public files in their order, once they agree with the grammar."""
    if name not in FILES:
        raise OptionError(
            f"task {name!r} is generated and has no public files; leave "
            f"data_dir={str(data_dir)!r} out"
        )
    files = [f"tasks_{split}_{FILES[name]}.txt" for split in ("train", "test")]
    paths = data_files(
        name,
        data_dir,
        files,
        needs="the published random split (or a seed, to draw another)",
        hint="get the files from https://github.com/brendenlake/SCAN and pass the folder with "
        f"{' and '.join(files)} as data_dir (--data-dir)",
    )
    train, test = (_read(path) for path in paths)
    if expected:
        _check_same(paths[0], train, expected["train"])
        _check_same(paths[1], test, expected["test"])
    else:
        _check_same(paths[0].parent, train + test, everything)
        sizes = {paths[0].name: len(everything) - SIMPLE_TEST, paths[1].name: SIMPLE_TEST}
        by_file = {path.name: pairs for path, pairs in zip(paths, (train, test), strict=True)}
        check_counts("SCAN", paths[0].parent, by_file, sizes)
    return {"train": train, "test": test}


def _read(path: Path) -> Pairs:
    pairs = []
    for number, line in numbered_lines(path):
        parts = re.fullmatch(r"IN: (.+) OUT: (.+)", line.strip())
        if not parts:
            raise DataFormatError(
                f"{path}, line {number} is not a command with its actions: {line[:80]!r}; expected "
                "'IN: turn left OUT: I_TURN_LEFT'. Get the file again"
            )
        pairs.append(SequencePair(*parts.groups()))
    return pairs


def _check_same(where: Path, pairs: Pairs, expected: Sequence[SequencePair]) -> None:
    """``DataFormatError`` unless the pairs are the expected ones, each as often."""
    for verb, differing in (
        ("has", Counter(pairs) - Counter(expected)),
        ("lacks", Counter(expected) - Counter(pairs)),
    ):
        if differing:
            pair = next(iter(differing))
            raise DataFormatError(
                f"{where} {verb} {differing.total()} pairs against SCAN's grammar and its "
                f"published split ({len(pairs)} pairs where {len(expected)} are expected), such as "
                f"{pair.source!r} → {pair.target!r}; get the files again"
            )
