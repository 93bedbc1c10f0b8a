"""How long it takes to make the generated tasks: ``python -m benchmarks.generation``.

1,000,000 sums of ``addition``, with the square held out, and 100,000 examples of ``prontoqa``.
Processor seconds (one core), which other work on the machine lengthens less than it does the
clock's. Writes ``results/generation.json``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from time import process_time

import interp_compose as ic
from benchmarks.common import machine, spread, write

TASKS = {
    "addition": ic.complexity.addition,
    "prontoqa": lambda: ic.complexity.prontoqa(longer=0, n_train=90_000, n_test=10_000),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    found = {}
    for name, make in TASKS.items():
        times = []
        for _ in range(options.repeats):
            start = process_time()
            task = make()
            times.append(process_time() - start)
            pairs = sum(map(len, task.splits.values()))
            del task  # so that the next one is not made beside it
        found[name] = {"pairs": pairs, "seconds": median(times), "range": spread(times)}
        print(f"{name}: {pairs:,} pairs in {median(times):.1f} s {spread(times)}")
    write("generation", {**found, **machine()})


if __name__ == "__main__":
    main()
