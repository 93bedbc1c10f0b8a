"""Which tests ``make test`` leaves to ``make test-long``: functions of one case that take long, and
of several the cases after the first that take as long. Measured on an otherwise idle machine:

    $ .venv/bin/python -m pytest -n 2 -p tests.long -m "not docs and not gpu_dry"
    $ .venv/bin/python -m tests.long

The first writes to ``out/seconds/`` what each test took of the processor, processes that it started
included; the second writes ``tests/long.json`` from it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator, Iterable
from itertools import accumulate
from pathlib import Path
from typing import Final

import pytest

TABLE: Final = Path(__file__).with_name("long.json")
SECONDS: Final = Path("out/seconds")
MOST: Final = 0.5
"""Seconds that the cases of a function may take together in ``make test``."""


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark as long what the table does not keep."""
    kept = json.loads(TABLE.read_text("utf-8"))
    for item in items:
        function = _function(item.nodeid)
        if function in kept:
            kept[function] -= 1
            if kept[function] < 0:
                item.add_marker(pytest.mark.long)


def _function(node: str) -> str:
    return node.partition("[")[0]


def _processor() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write what a test took."""
    before = _processor()
    try:
        return (yield)
    finally:
        SECONDS.mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        with (SECONDS / f"{worker}.tsv").open("a", encoding="utf-8") as file:
            file.write(f"{_processor() - before:.2f}\t{item.nodeid}\n")


def _kept(lines: Iterable[str]) -> dict[str, int]:
    """Of functions that take more than that, how many cases take less."""
    cases: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        seconds, node = line.split("\t")
        cases[_function(node)].append(float(seconds))
    return {
        function: max(int(len(took) > 1), sum(total <= MOST for total in accumulate(took)))
        for function, took in sorted(cases.items())
        if sum(took) > MOST
    }


if __name__ == "__main__":
    lines = [
        line for file in SECONDS.glob("*.tsv") for line in file.read_text("utf-8").splitlines()
    ]
    TABLE.write_text(json.dumps(_kept(lines), indent=0) + "\n", encoding="utf-8")
