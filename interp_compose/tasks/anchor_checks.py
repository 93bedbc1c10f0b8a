"""What an :class:`.anchors.AnchorTask` is given: refused by name, or taken over.

Whole numbers of numpy become Python's own, lists tuples, and mappings are copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose._whole import is_whole
from interp_compose.errors import InputError, OptionError

Operation = int | Callable[[int], int]
"""A number to add, or any function of a whole number."""
Chain = tuple[str, ...]

LARGEST: Final = 2**31 - 1
"""The largest token id."""
MOST_TARGETS: Final = 2_000_000
"""A task keeps a table of them, one for each chain and key."""


def whole(name: str, value: Any, least: int | None = None, why: str = "") -> int:
    """``OptionError`` unless a whole number, ``least`` or more (``why``)."""
    if not is_whole(value) or (least is not None and value < least):
        bound = "" if least is None else f", {least} or more" + (f" ({why})" if why else "")
        raise OptionError(f"{name}={value!r}: expected a whole number{bound}")
    return int(value)


def whole_tensor(name: str, values: Any, low: int, high: int) -> Int[Tensor, "sample"]:
    """``InputError`` unless a row of whole numbers from ``low`` to ``high``."""
    if not isinstance(values, Tensor) or values.ndim != 1:
        raise InputError(f"{name} are {values!r}: expected a tensor with one axis")
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise InputError(f"{name} are of {values.dtype}: expected whole numbers, such as int64")
    taken = values.to(device="cpu", dtype=torch.int64)
    wrong = taken[(taken < low) | (taken > high)]
    if len(wrong):
        raise InputError(f"{name} hold {int(wrong[0])}: expected numbers from {low} to {high}")
    return taken


def operations(name: str, given: Any) -> dict[Any, Operation]:
    """A copy of a mapping to operations; ``OptionError`` for anything else."""
    if not isinstance(given, Mapping):
        raise OptionError(f"{name}={given!r}: expected a mapping to operations")
    for key, operation in given.items():
        if not is_whole(operation) and not callable(operation):
            raise OptionError(
                f"the operation of {key!r} is {operation!r}: expected a whole number to add, or a "
                "function of a whole number"
            )
    return {key: one if callable(one) else int(one) for key, one in given.items()}


def applied(operation: Operation, value: int, name: str | Chain) -> int:
    """What an operation makes of a value; ``InputError`` unless that is a whole number."""
    if not callable(operation):
        return value + operation
    result = operation(value)
    if not is_whole(result):
        raise InputError(
            f"the operation of {name!r} makes {result!r} of {value}: expected a whole number"
        )
    return int(result)


def bounds(name: str, given: Any, above: int) -> tuple[int, int]:
    """The smallest and the largest token of a range; ``OptionError`` unless above the anchors'."""
    pair = isinstance(given, tuple | list) and len(given) == 2 and all(map(is_whole, given))
    if not pair or not above < given[0] <= given[1] <= LARGEST:
        raise OptionError(
            f"{name}={given!r}: expected the smallest and the largest, the smallest above {above}, "
            "the last anchor's token id, the largest below 2³¹"
        )
    return int(given[0]), int(given[1])


def check_chain(what: str, chain: Any, anchors: Mapping[str, Operation], n_anchors: int) -> None:
    """``OptionError`` unless ``chain`` is a tuple of as many known anchors."""
    fits = isinstance(chain, tuple) and len(chain) == n_anchors
    if not fits or not all(isinstance(one, str) and one in anchors for one in chain):
        raise OptionError(
            f"{what} names {chain!r}: expected a tuple of {n_anchors} of the anchors "
            f"{', '.join(anchors)}"
        )


def chains(
    what: str, given: Any, anchors: Mapping[str, Operation], n_anchors: int
) -> tuple[Chain, ...]:
    """Known chains, each named once, and not all there are; else ``OptionError``."""
    if not isinstance(given, tuple | list):
        raise OptionError(f"{what}={given!r}: expected a tuple of chains, such as (('c', 'd'),)")
    for chain in given:
        check_chain(what, chain, anchors, n_anchors)
    if len(set(given)) < len(given):
        raise OptionError(f"{what}={given!r} names a chain twice: name it once")
    if len(given) == len(anchors) ** n_anchors:
        raise OptionError(f"{what}={given!r} leaves no chain to train on: take one out")
    return tuple(given)


def check_size(n_names: int, n_anchors: int, numbers: tuple[int, int]) -> None:
    """``OptionError`` for more targets than a task keeps a table of."""
    n_keys = numbers[1] + 1 - numbers[0]
    if n_names ** min(n_anchors, 64) * n_keys > MOST_TARGETS:
        raise OptionError(
            f"n_anchors={n_anchors} of {n_names} anchors, with {n_keys} keys, have more than "
            f"{MOST_TARGETS} targets: chain fewer, or take fewer anchors or numbers"
        )


def check_split(numbers: tuple[int, int], remainders: int, n_positions: int) -> None:
    """``InputError`` unless every position has keys for training and for test."""
    n_keys = numbers[1] + 1 - numbers[0]
    leaving = Counter(key % remainders for key in range(numbers[0], numbers[1] + 1))
    for position in range(n_positions):
        if leaving[position] in (0, n_keys):
            missing = "test" if leaving[position] == 0 else "training"
            raise InputError(
                f"numbers={numbers!r} leave no {missing} key for position {position} (a key x is a "
                f"test key there if x mod {remainders} = {position}, else a training key): take "
                "more numbers, or another length"
            )


def check_data(data: Any, kind: Any, length: int) -> None:
    """``OptionError`` unless ``data`` is of a kind; ``InputError`` for another length's tokens."""
    if not isinstance(data, kind):
        raise OptionError(f"the data are a {type(data).__name__}: expected those of task.sample")
    width = data.tokens.shape[1]
    if width != length:
        raise InputError(
            f"sequences have {width} tokens: expected the task's {length}; pass the task that they "
            "were sampled from"
        )
