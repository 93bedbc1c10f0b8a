"""How long it takes to make the generated tasks.

1,000,000 sums of ``addition``, with the square held out, and 100,000 examples of ``prontoqa``.
Processor seconds (one core), which other work on the machine lengthens less than it does the
clock's.
"""

from __future__ import annotations

from statistics import median

import interp_compose as ic
from benchmarks.common import Measured, Ratio, core_seconds, machine, spread

TASKS = {
    "addition": ic.complexity.addition,
    "prontoqa": lambda: ic.complexity.prontoqa(longer=0, n_train=90_000, n_test=10_000),
}


def benchmark(repeats: int = 5) -> Measured:
    """``generation``."""
    content, ratios = {}, []
    for name, make in TASKS.items():
        times: list[float] = []
        for _ in range(repeats):
            made: list[ic.SequenceTask] = []  # the next one is not made beside it
            times.append(core_seconds(lambda make=make, into=made: into.append(make())))
            pairs = sum(map(len, made[0].splits.values()))
        content[name] = {"pairs": pairs, "seconds": median(times), "range": spread(times)}
        ratios.append(Ratio(f"{name}, {pairs:,} pairs", median(times), spread(times), "s"))
    return Measured({"generation": {**content, **machine()}}, ratios)
