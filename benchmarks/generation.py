"""How long it takes to make the generated tasks.

1,000,000 sums of ``addition``, with the square held out, and 100,000 examples of ``prontoqa``.
Processor seconds (one core), which other work on the machine lengthens less than it does the
clock's.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import interp_compose as ic
from benchmarks.common import Ratio, core_seconds, machine, spread

TASKS = {
    "addition": ic.complexity.addition,
    "prontoqa": lambda: ic.complexity.prontoqa(longer=0, n_train=90_000, n_test=10_000),
}


def benchmark(repeats: int = 5) -> dict[str, Any]:
    """``generation``."""
    content: dict[str, Any] = {"repeats": repeats}
    for name, make in TASKS.items():
        times: list[float] = []
        for _ in range(repeats):
            made: list[ic.SequenceTask] = []  # the next one is not made beside it
            times.append(core_seconds(lambda make=make, into=made: into.append(make())))
            pairs = sum(map(len, made[0].splits.values()))
        content[name] = {"pairs": pairs, "seconds": median(times), "range": spread(times)}
    return {"generation": {**content, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = {name: content[name] for name in TASKS}
    return [
        Ratio(f"`{name}`, {row['pairs']:,} pairs", row["seconds"], row["range"], "s")
        for name, row in rows.items()
    ]
