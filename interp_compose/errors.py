"""Every exception this library raises on purpose, and how it warns.

A message says what came, what was expected, and what to do next.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from types import FrameType

LONGEST = 500
LONGEST_LINE = 350
"""Characters of a message, and of a line where it lists several."""
WORD = 20
"""Characters of a word that is left out whole where a message is cut."""
MOST = 20
"""Problems that one message lists."""
MOST_ALIKE = 3
"""Of them, those that differ in numbers alone; of others like them the numbers are listed."""
_OWN_CODE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_INSTALLED = (
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    *("<frozen", "<@beartype"),
)
"""What file names begin with where code is not the user's: Python's own, installed packages', and
what beartype writes around functions."""


def shortened(text: str, limit: int = LONGEST) -> str:
    """At most ``limit`` characters: a value repeated in the middle gives way, whole words of it
    where there are words."""
    if len(text) <= limit:
        return text
    end = limit // 3
    before, after = text[: limit - end - 3], text[-end:]
    first, last = after.find(" "), before.rfind(" ")
    before = before[:last] if len(before) - last < WORD else before
    after = after[first + 1 :] if 0 <= first < WORD else after
    return f"{before} … {after}"


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """Like "; did you mean 'layers'?", or an empty text where nothing known is near."""
    near = get_close_matches(word, list(known), most, cutoff=0.6)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def first_line(error: BaseException, limit: int = 160) -> str:
    """What an error of another package says first; its kind, where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:limit]


def warn(message: str) -> None:
    """A ``UserWarning`` at the user's line: the nearest caller outside this package, and outside
    Python's library and installed packages where there is one."""
    callers = list(_callers(sys._getframe(1)))
    outside = [at for at in callers if not at.f_code.co_filename.startswith(_OWN_CODE)] or callers
    users = [at for at in outside if not at.f_code.co_filename.startswith(_INSTALLED)] or outside
    frame = users[0]
    warnings.warn_explicit(
        message,
        UserWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it, the nearest first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


class InterpComposeError(Exception):
    """Base of all errors raised on purpose. A longer message is shortened in its middle."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shortened(str(message)))


class InputError(InterpComposeError, ValueError):
    """A value was refused before any work started."""


def together(problems: Sequence[InputError], n: int, what: str, remedy: str) -> InputError:
    """The one problem, or one error that lists the first of them in at most 20 lines, a line each;
    of those that differ in numbers alone three, and the numbers of others.

    Args:
        problems: at least one; of ``n`` rows, which are ``what`` in the plural.
        remedy: what to do about them.

    Returns:
        Of the class of the problems, where they have one.
    """
    if len(problems) == 1:
        return problems[0]
    kinds = {type(problem) for problem in problems}
    alike: dict[str, list[str]] = {}
    for problem in problems:
        text = " ".join(str(problem).split())
        alike.setdefault(re.sub(r"\d+", "", text), []).append(text)
    listed: list[tuple[str, int]] = []  # a line, and how many problems it names
    for texts in alike.values():
        listed += [(text, 1) for text in texts[:MOST_ALIKE]]
        if others := _numbers(texts)[MOST_ALIKE:MOST]:
            listed.append((f"likewise {', '.join(others)}", len(others)))
    more = len(problems) - sum(named for _, named in listed[:MOST])
    lines = [f"{len(problems)} of {n} {what} cannot be used; {remedy}:"]
    lines += [shortened(text, LONGEST_LINE) for text, _ in listed[:MOST]]
    error = kinds.pop()() if len(kinds) == 1 else InputError()
    error.args = ("\n".join([*lines, *([f"and {more} more"] if more else [])]),)
    return error


def _numbers(texts: Sequence[str]) -> list[str]:
    """Of each of several texts that differ in numbers alone, the first one that differs; an empty
    list where none does."""
    columns = zip(*(re.findall(r"\d+", text) for text in texts), strict=True)
    return next(([*column] for column in columns if len({*column}) > 1), [])


class PromptError(InputError):
    """A prompt is empty or does not fit into the model's context."""


class AnswerError(InputError):
    """An answer is not one token after its prompt or, where it may be several, is none."""


class LayerError(InputError):
    """A layer lies outside the model."""


class HeadError(InputError):
    """A head or a neuron lies outside its layer."""


class PositionError(InputError):
    """A position lies beyond the sequence or in its padding."""


class OptionError(InputError):
    """An argument is not of its type, or an option was given a word it does not know."""


class SpanError(InputError):
    """Spans overlap, are empty, or leave the text."""


class AlignmentError(InputError):
    """Tokens could not be matched to the text with certainty."""


class DataFormatError(InputError):
    """A row of a data file or of a list of examples is garbled."""


class ModelError(InterpComposeError, RuntimeError):
    """The model cannot do what was asked."""


class CapabilityError(ModelError):
    """A probe on a few tokens showed that the model does not honour a request."""


class TrainingModeError(ModelError):
    """The model is in training mode, in which dropout, where it has any, randomises numbers."""


class NonFiniteError(ModelError):
    """NaN or infinite values appeared in logits or activations."""


class ModelInUseError(ModelError):
    """Another thread or asyncio task is inside a call of the model or a block on it."""


class DeviceError(ModelError):
    """A device was asked for that this machine does not have."""


class NotEnoughMemoryError(InterpComposeError, MemoryError):
    """Weights or a batch need more memory than is free; refused before any work started."""


class InterventionError(InterpComposeError, RuntimeError):
    """An intervention did not fire, or changed nothing where it should have."""


class MissingDataError(InterpComposeError, FileNotFoundError):
    """A data set is not where it was looked for."""


class MissingPackageError(InterpComposeError, ImportError):
    """An optional package is needed and not installed."""


class CorruptFileError(InterpComposeError, OSError):
    """A file is truncated, altered, or not in the expected format."""


class OutputError(InterpComposeError, OSError):
    """A folder or a file cannot be written: the disk is full or read-only, a name cannot be, or
    another process is writing there."""
