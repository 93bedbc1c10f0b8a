"""The grids of a phase diagram: numbers as they are written on a command line, and the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from interp_compose.errors import OptionError
from interp_compose.studies.anchors.run import PhaseRun

MOST: int = 10_000
"""Values of one grid: more are a slip of the pen."""


def numbers(text: str, name: str) -> list[float]:
    """``"0.3:1.0:0.1"``, from, to and step, both ends in; ``"0,0.01,1"``; or both, by commas.

    Raises:
        OptionError: no number, a step that never arrives, or an empty list; names the part.
    """
    found: list[float] = []
    for part in text.split(","):
        bounds = part.split(":")
        try:
            given = [float(bound) for bound in bounds]
        except ValueError as error:
            raise OptionError(
                f"{name}={text!r}: {part!r} is no number; expected e.g. 0.3:1.0:0.1 or 0,0.01,1"
            ) from error
        if len(given) == 1:
            found.append(given[0])
            continue
        if len(given) != 3 or not all(map(math.isfinite, given)):
            raise OptionError(f"{name}={text!r}: {part!r} is no from:to:step, such as 0.3:1.0:0.1")
        low, high, step = given
        count = (high - low) / step if step else -1.0
        if not -1e-9 <= count < MOST:
            raise OptionError(
                f"{name}={text!r}: {part!r} does not go from {low:g} to {high:g} by {step:g}"
            )
        found += [round(low + i * step, 10) for i in range(math.floor(count + 1e-9) + 1)]
    return found


def checked(values: Sequence[float | int], name: str) -> list[float]:
    """A grid's axis: finite numbers, none twice, at least one.

    Raises:
        OptionError: names the value.
    """
    if not values:
        raise OptionError(f"{name}={values!r}: expected numbers, at least one")
    if len(values) > MOST:
        raise OptionError(f"{name} holds {len(values)} values: expected at most {MOST}")
    for value in values:
        if not math.isfinite(value):
            raise OptionError(f"{name} holds {value!r}: expected finite numbers")
    axis = [float(value) for value in values]
    for one, other in pairwise(sorted(axis)):
        if one == other:
            raise OptionError(f"{name} holds {one:g} twice; each run is done once")
        if f"{one:g}" == f"{other:g}":
            raise OptionError(
                f"{name} holds {one!r} and {other!r}, which tables and figures both call {one:g}; "
                "take one of them"
            )
    return axis


def check_seeds(seeds: int, first_seed: int) -> None:
    """Refuse fewer than one seed, more than anybody means, and one below 0."""
    if not 1 <= seeds <= MOST:
        raise OptionError(f"seeds={seeds!r}: expected a whole number, 1 to {MOST}")
    if first_seed < 0:
        raise OptionError(f"first_seed={first_seed!r}: expected a whole number, 0 or more")


def runs_of(
    run: PhaseRun,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    seeds: int,
    first_seed: int,
) -> list[PhaseRun]:
    """Every run of a grid: ``run`` with another rate, weight decay and seed each.

    Raises:
        OptionError: an axis that is empty, repeats or is no numbers; fewer than one seed.
    """
    rates = checked(init_rates, "init_rates")
    decays = checked(weight_decays, "weight_decays")
    if min(decays) < 0:
        raise OptionError(f"weight_decays holds {min(decays):g}: expected 0 or more")
    check_seeds(seeds, first_seed)
    return [
        replace(run, init_rate=rate, weight_decay=decay, seed=seed)
        for seed in range(first_seed, first_seed + seeds)
        for decay in decays
        for rate in rates
    ]
