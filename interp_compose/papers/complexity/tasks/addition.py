"""Addition with a square held out: is the rule learned, or the cases (complexity control, VII)?

After Hu et al. (2024), "Case-based or rule-based": a + b with both in a range of numbers, of which
all pairs in a square, such as 400 ≤ a, b ≤ 600, are kept from training. A model that looks up
similar cases has none in the middle of the square.
"""

from __future__ import annotations

import random
import re
from itertools import product
from typing import Final

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.tasks.sequences import (
    SequencePair,
    SequenceTask,
    generated_pair,
    making_many,
)

N_BLOCKS: Final = 10
"""A side of the square is so many blocks."""
N_OUTSIDE = 10_000
"""Pairs outside the square that are kept from training as well."""
MOST = 9_999
"""The largest number to add: all pairs are made."""
LARGEST: Final = 999
"""The paper's largest number."""


def named_addition(name: str) -> SequenceTask:
    """``"addition"``, ``"addition-reversed"``, or either with the largest number, as in
    ``"addition-99"``."""
    number = name.rpartition("-")[2]
    largest = int(number) if number.isdecimal() else LARGEST
    is_reversed = name.startswith("addition-reversed")
    return addition(largest=largest, square=square_of(largest), reverse=is_reversed)


@public
@making_many()
def addition(
    *,
    largest: int = LARGEST,
    square: tuple[int, int] = (400, 600),
    reverse: bool = False,
    seed: int = 0,
) -> SequenceTask:
    """Every sum of two numbers from 0 to ``largest``, in digits: ``1 2 + 3 4 5 =`` and ``3 5 7``.

    The splits are ``"train"``, ``"outside"`` (pairs outside the square, kept from training: a
    hundredth of them, 10,000 at most) and ``"inside"`` (all pairs in the square). The kind of a
    pair inside is its block of the square, such as ``"400-420 + 581-600"``: ten by ten of them.

    Args:
        largest: number to add.
        square: the smallest and the largest number of the pairs that are held out, both ends in.
        reverse: write the sum's lowest digit first.
        seed: draws the pairs that are outside and held out.

    Raises:
        OptionError: a square that is empty, outside the range, or all of it.
    """
    low, high = square
    if not 1 <= largest <= MOST:
        raise OptionError(f"largest={largest!r}: expected a whole number from 1 to {MOST}")
    if not 0 <= low <= high <= largest or high - low == largest:
        raise OptionError(
            f"square={square!r}: expected two numbers from 0 to largest={largest}, the smaller one "
            "first, and not the whole range"
        )
    spaced = [" ".join(str(number)) for number in range(2 * largest + 1)]
    sums = [text[::-1] for text in spaced] if reverse else spaced

    def pair(a: int, b: int, kind: str = "") -> SequencePair:
        return generated_pair(f"{spaced[a]} + {spaced[b]} =", sums[a + b], kind)

    held_out = range(low, high + 1)
    block = _blocks(held_out)
    inside = [pair(a, b, f"{block[a]} + {block[b]}") for a, b in product(held_out, repeat=2)]
    others = [
        pair(a, b)
        for a, b in product(range(largest + 1), repeat=2)
        if not (low <= a <= high and low <= b <= high)
    ]
    random.Random(seed).shuffle(others)
    n_outside = min(N_OUTSIDE, max(1, len(others) // 100))
    splits = {"train": others[n_outside:], "outside": others[:n_outside], "inside": inside}
    if not splits["train"]:
        raise OptionError(f"square={square!r} leaves no pair to train on; make it smaller")
    report: dict[str, int | str | float] = {"source": f"0 to {largest}, without {low} to {high}"}
    report |= {f"{split}_all": len(pairs) for split, pairs in splits.items()}
    name = f"addition{'-reversed' * reverse}{'' if largest == LARGEST else f'-{largest}'}"
    return SequenceTask(name, {split: tuple(pairs) for split, pairs in splits.items()}, report)


def square_of(largest: int) -> tuple[int, int]:
    """From two to three fifths of the range, as 400 to 600 are of 0 to 999."""
    return 2 * (largest + 1) // 5, 3 * (largest + 1) // 5


def _blocks(numbers: range) -> dict[int, str]:
    """The block of each number, like "400-420"; those in front are larger by one where they are not
    of one size."""
    size, larger = divmod(len(numbers), N_BLOCKS)
    named: dict[int, str] = {}
    first = numbers.start
    for i in range(min(N_BLOCKS, len(numbers))):
        end = first + size + (i < larger)
        named |= dict.fromkeys(range(first, end), f"{first}-{end - 1}")
        first = end
    return named


def block_of(kind: str) -> tuple[str, str] | None:
    """The blocks of a and b of a kind of pairs; None of a kind that is no block."""
    match = re.fullmatch(r"(\d+-\d+) \+ (\d+-\d+)", kind)
    return (match[1], match[2]) if match else None
