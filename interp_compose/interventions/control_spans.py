"""Spans for controls of pooling: units' sizes at other places, whose edges are not the words'.

Both controls permute the sizes of units inside each *stretch* of a text, that is tokens without a
special one (-1) between them. So the number of pooled positions and the special tokens stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from jaxtyping import Int

LEFT: Final = -1
RIGHT: Final = 1
STAY: Final = 0


def shuffled_groups(
    groups: Sequence[int], *, seed: int, example: int, keep_last: bool = True
) -> list[int]:
    """The same unit sizes at random places: pooling that ignores where words begin and end.

    Specials (-1) stay where they are, and units on their side of them; with ``keep_last``, the last
    unit as well, from which a model predicts the next token. Seeded by ``(seed, example)``, so that
    an example is shuffled alike in any batch.
    """
    generator = np.random.default_rng([seed, example])
    return _with_sizes(groups, generator.permutation, keep_last)


def straddled_groups(
    groups: Sequence[int], *, left_first: bool, keep_last: bool = True
) -> list[int]:
    """The same unit sizes in the same order, but one token off, so that each span of several tokens
    crosses an edge of a unit.

    A *run* is one unit of several tokens, or several side by side. It changes places with the unit
    of one token to its left or to its right, of the same stretch: all its spans move by one token
    into that unit, and the token that the run leaves on its other side becomes a unit of one. A
    unit of one token gives way to one run at most. With ``keep_last`` the last unit of the text
    gives way to none and does not move, since the next token is predicted from it.

    Runs of a stretch go to the left and to the right in turn, the first to the left where
    ``left_first``. A run whose turn is not possible goes to the other side, and one that has no
    unit of one token to change places with stays: of all ways, one that moves the most units and,
    of these, lets the most runs go in turn.
    """
    return _with_sizes(groups, lambda sizes: _one_token_off(sizes, left_first), keep_last)


def on_sides(
    placed: Callable[..., list[int]], groups: Sequence[int], n_source: int | None
) -> list[int]:
    """``placed(groups, keep_last=…)`` of a text; of an encoder–decoder's row, of the source, whose
    last unit may move, and of the target each."""
    if n_source is None:
        return placed(groups, keep_last=True)
    source = placed(groups[:n_source], keep_last=False)
    target = placed(groups[n_source:], keep_last=True)
    n_units = max(source, default=-1) + 1
    return source + [unit if unit < 0 else unit + n_units for unit in target]


def n_several(groups: Sequence[int]) -> int:
    """How many units have several tokens."""
    return len(_spans(groups))


def n_moved(groups: Sequence[int], placed: Sequence[int]) -> int:
    """How many spans of several tokens of ``placed`` are no unit of ``groups``."""
    return len(_spans(placed) - _spans(groups))


def _spans(groups: Sequence[int]) -> set[tuple[int, int]]:
    """First token and number of tokens of each unit of several tokens."""
    ids = np.asarray(groups)
    _, first, sizes = np.unique(ids, return_index=True, return_counts=True)
    several = (sizes > 1) & (ids[first] >= 0)
    return {*zip(first[several].tolist(), sizes[several].tolist(), strict=True)}


Sizes = Int[np.ndarray, "unit"]


def _with_sizes(
    groups: Sequence[int], replaced: Callable[[Sizes], Sizes], keep_last: bool
) -> list[int]:
    """Units of other sizes: in each stretch those that ``replaced`` makes of its units'; with
    ``keep_last`` without the last unit of the text, which stays."""
    ids = np.asarray(groups)
    places = np.flatnonzero(ids >= 0)
    if places.size == 0:
        return list(groups)
    out, n_units = ids.copy(), 0
    # One stretch, but where a text has special tokens of its own.
    stretches = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    for stretch in stretches:
        sizes = np.bincount(ids[stretch] - ids[stretch].min())  # [unit]: tokens of each
        movable = len(sizes) - int(keep_last and stretch is stretches[-1])
        sizes[:movable] = replaced(sizes[:movable])
        out[stretch] = n_units + np.repeat(np.arange(len(sizes)), sizes)  # [token]: its unit
        n_units += len(sizes)
    return [int(unit) for unit in out]


def _one_token_off(sizes: Sizes, left_first: bool) -> Sizes:
    # 1. Runs, as indices of units: from the first to behind the last.
    several = np.concatenate([[0], sizes > 1, [0]])
    edges = np.flatnonzero(np.diff(several)).reshape(-1, 2).tolist()

    # 2. The best plan for the runs so far, by whether the last of them takes the unit to its right:
    #    units that move, runs that go in turn, each run's side (negated: ties to the left).
    plans: dict[bool, tuple[int, int, tuple[int, ...]]] = {False: (0, 0, ())}
    stop_before = 0
    for number, (start, stop) in enumerate(edges):
        in_turn = LEFT if (number % 2 == 0) == left_first else RIGHT
        longer: dict[bool, tuple[int, int, tuple[int, ...]]] = {}
        for taken, (units, turns, sides) in plans.items():
            possible = [STAY]
            if start - stop_before > taken:  # units of one token between this run and the last
                possible.append(LEFT)
            if stop < len(sizes):
                possible.append(RIGHT)
            for side in possible:
                n_units = 0 if side == STAY else stop - start
                plan = (units + n_units, turns + (side == in_turn), (*sides, -side))
                longer[side == RIGHT] = max(plan, longer.get(side == RIGHT, plan))
        plans, stop_before = longer, stop

    # 3. A run changes places with the unit of one token on its side.
    moved = sizes.copy()
    for (start, stop), negated in zip(edges, max(plans.values())[2], strict=True):
        if -negated == LEFT:
            moved[start - 1 : stop] = np.roll(sizes[start - 1 : stop], -1)
        elif -negated == RIGHT:
            moved[start : stop + 1] = np.roll(sizes[start : stop + 1], 1)
    return moved
