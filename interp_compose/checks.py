"""Refusals of options that several studies share, and what they take from the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from numbers import Integral
from random import Random
from typing import Any, Final, TypeVar

from interp_compose.errors import InputError, MissingPackageError, OptionError
from interp_compose.runs.result import Result

T = TypeVar("T")
R = TypeVar("R", bound=Result)


def check_package(module: str, extra: str) -> None:
    """Refuse to begin what needs a package that is not installed; ``extra`` brings it."""
    if find_spec(module) is None:
        raise MissingPackageError(
            f"{module} is not installed; get it with: pip install 'interp-compose[{extra}]'"
        )


def check_numbers(seed: int, batch_size: int | None) -> None:
    """Refuse a seed below 0 and a batch of less than one."""
    if seed < 0:
        raise OptionError(f"seed={seed!r}: expected an integer, 0 or more")
    if batch_size is not None and batch_size < 1:
        raise OptionError(f"batch_size={batch_size!r}: expected an integer, 1 or more, or None")


def check_limit(limit: int | None) -> None:
    """Refuse to measure on less than one example."""
    if limit is not None and limit < 1:
        raise OptionError(f"limit={limit}: expected at least 1 example, or leave it out")


def check_names(option: str, given: Sequence[str], known: Iterable[str]) -> None:
    """Refuse no name at all, one that is not known, and one that comes twice."""
    known = list(known)
    if not given or set(given) - set(known) or len({*given}) < len(given):
        raise OptionError(
            f"{option}={list(given)!r}: expected one or more of {', '.join(known)}, each once"
        )


def check_unread(option: str, given: Any, default: Any, **instead: str) -> None:
    """Refuse fields of ``given`` that have another value than in ``default``, and that a study sets
    itself: by name, those that are asked for ``instead`` of them."""
    for name, other in instead.items():
        value = getattr(given, name)
        if value != getattr(default, name):
            raise OptionError(f"{option}.{name}={value!r} is not read here: give {other} instead")


TELLING: Final = ("weights_sha256", "task", "unit", "mode", "seed", "layers", "n_examples")
"""Settings that tell results of models of one name apart."""


def labelled(curves: Mapping[str, R] | Sequence[R]) -> dict[str, R]:
    """Results by label: those of a list by their models' names, and by the first settings in which
    those of one name differ; numbered where none does.

    Raises:
        InputError: no results.
    """
    if not curves:
        raise InputError("there is nothing to compare; pass at least one curve, {label: curve}")
    if isinstance(curves, Mapping):
        for label in curves:
            if not (label.strip() and label.isprintable()):
                raise InputError(
                    f"label {label!r}: expected a word or a few, such as 'GPT-2, tuned'"
                )
        return dict(curves)
    names = [str(curve.config.get("model", "model")) for curve in curves]
    for key in TELLING:
        values = [curve.config.get(key) for curve in curves]
        for name in {name for name in names if names.count(name) > 1}:
            same = [i for i, one in enumerate(names) if one == name]
            if len({str(values[i]) for i in same}) > 1:
                for i in same:
                    value = values[i]
                    shown = " ".join(map(str, value)) if isinstance(value, list) else value
                    note = (shown or "own examples") if key == "task" else f"{key} {shown}"
                    note = f"weights {str(value)[:6]}" if key == TELLING[0] else note
                    names[i] = f"{name}, {note}"
    return {
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})": curve
        for i, (name, curve) in enumerate(zip(names, curves, strict=True))
    }


def drawn(examples: Sequence[T], limit: int | None, seed: int = 0) -> tuple[T, ...]:
    """So many examples at most, drawn at random, in their order: the first of a file are no sample
    of it (SST's are sorted by label).

    Raises:
        OptionError: a limit below 1.
    """
    check_limit(limit)
    if limit is None:
        return tuple(examples)
    chosen = Random(seed).sample(range(len(examples)), min(limit, len(examples)))
    return tuple(examples[i] for i in sorted(chosen))


def sample_note(limit: int | None, seed: int = 0, *, n: int | None = None) -> str:
    """Like ", 20 of 285, drawn at random with seed 0", behind a name, of ``n`` examples or of each
    split; an empty text of all of them."""
    if limit is None or (n is not None and limit >= n):
        return ""
    which = f"{limit:,} of {n:,}" if n is not None else f"at most {limit:,} of each split"
    return f", {which}, drawn at random with seed {seed}"


def is_whole(value: Any) -> bool:
    """An integer of Python's or numpy's, and no boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool)
