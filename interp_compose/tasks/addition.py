"""Addition with a square held out: is the rule learned, or the cases (complexity control, VII)?

After Hu et al. (2024), "Case-based or rule-based": a + b with both in a range of numbers, of which
all pairs in a square, such as 400 ≤ a, b ≤ 600, are kept from training. A model that looks up
similar cases has none in the middle of the square.
"""

from __future__ import annotations

import random
from itertools import product

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.tasks.sequences import SequencePair, SequenceTask

N_OUTSIDE = 10_000
"""Pairs outside the square that are kept from training as well."""
MOST = 9_999
"""The largest number to add: all pairs are made."""


@public
def addition(
    *,
    largest: int = 999,
    square: tuple[int, int] = (400, 600),
    reverse: bool = False,
    seed: int = 0,
) -> SequenceTask:
    """Every sum of two numbers from 0 to ``largest``, in digits: ``1 2 + 3 4 5 =`` and ``3 5 7``.

    The splits are ``"train"``, ``"outside"`` (pairs outside the square, kept from training: a
    hundredth of them, 10,000 at most) and ``"inside"`` (all pairs in the square).

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

    def pair(a: int, b: int) -> SequencePair:
        return SequencePair(f"{spaced[a]} + {spaced[b]} =", sums[a + b])

    held_out = range(low, high + 1)
    inside = [pair(a, b) for a, b in product(held_out, repeat=2)]
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
    name = "addition-reversed" if reverse else "addition"
    return SequenceTask(name, {split: tuple(pairs) for split, pairs in splits.items()}, report)
