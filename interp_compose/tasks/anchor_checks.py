"""What an :class:`.anchors.AnchorTask` is given: its values, refused by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.checks import is_whole
from interp_compose.errors import InputError, OptionError

Operation = int | Callable[[int], int]
"""A number to add, or any function of a whole number."""
Chain = tuple[str, ...]

LARGEST: Final = 2**31 - 1
"""The largest token id."""
MOST_TARGETS: Final = 2_000_000
"""A task keeps a table of them, one for each chain and key."""


def at_least(least: int, name: str, value: int, why: str = "") -> None:
    """``OptionError`` unless ``least`` or more (``why``)."""
    if value < least:
        bound = f"{least} or more" + (f" ({why})" if why else "")
        raise OptionError(f"{name}={value!r}: expected a whole number, {bound}")


def whole_tensor(
    name: str, values: Int[Tensor, "sample"], low: int, high: int
) -> Int[Tensor, "sample"]:
    """``InputError`` unless all are from ``low`` to ``high``."""
    taken = values.to(device="cpu", dtype=torch.int64)
    wrong = taken[(taken < low) | (taken > high)]
    if len(wrong):
        raise InputError(f"{name} hold {int(wrong[0])}: expected numbers from {low} to {high}")
    return taken


def applied(operation: Operation, value: int, name: str | Chain) -> int:
    """What an operation makes of a value; ``InputError`` unless that is a whole number."""
    if not callable(operation):
        return value + operation
    try:
        result = operation(value)
    except Exception as error:
        raise InputError(
            f"the operation of {name!r} raises {type(error).__name__} for {value} ({error}): "
            "expected a function of a whole number"
        ) from error
    if not is_whole(result):
        raise InputError(
            f"the operation of {name!r} makes {result!r} of {value}: expected a whole number"
        )
    return int(result)


def check_bounds(name: str, given: tuple[int, int], above: int) -> None:
    """``OptionError`` unless the tokens of a range are above the anchors'."""
    if not above < given[0] <= given[1] <= LARGEST:
        raise OptionError(
            f"{name}={given!r}: expected the smallest and the largest, the smallest above {above}, "
            "the last anchor's token id, the largest below 2³¹"
        )


def check_chain(what: str, chain: Chain, anchors: Mapping[str, Operation], n_anchors: int) -> None:
    """``OptionError`` unless ``chain`` has as many known anchors."""
    if len(chain) != n_anchors or not all(one in anchors for one in chain):
        raise OptionError(
            f"{what} names {chain!r}: expected a tuple of {n_anchors} of the anchors "
            f"{', '.join(anchors)}"
        )


def check_chains(
    what: str, given: tuple[Chain, ...], anchors: Mapping[str, Operation], n_anchors: int
) -> None:
    """Known chains, each named once, and not all there are; else ``OptionError``."""
    for chain in given:
        check_chain(what, chain, anchors, n_anchors)
    if len(set(given)) < len(given):
        raise OptionError(f"{what}={given!r} names a chain twice: name it once")
    if len(given) == len(anchors) ** n_anchors:
        raise OptionError(f"{what}={given!r} leaves no chain to train on: take one out")


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


def check_width(tokens: Int[Tensor, "sample pos"], length: int) -> None:
    """``InputError`` for another length's tokens."""
    width = tokens.shape[1]
    if width != length:
        raise InputError(
            f"sequences have {width} tokens: expected the task's {length}; pass the task that they "
            "were sampled from"
        )
