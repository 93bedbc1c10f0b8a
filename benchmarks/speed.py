"""How fast the library is, and what one would else use: ``python -m benchmarks.speed NAME …``.

Each benchmark runs in a process of its own, by default all of them but those of :data:`NEED_DATA`,
and compares works turn about in one run; its files go to ``results/``, what its ``ratios`` read in
them to the terminal (and by ``python -m docs.tables`` to ``speed.md``). Options are those of the
``benchmark`` functions that are chosen; each takes those that it has. ``--quick`` is for a look:
less is measured, and nothing written.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pkgutil import resolve_name
from typing import Any, Final

import torch

from benchmarks.common import Ratio, in_a_process, machine, write

BENCHMARKS: Final[Mapping[str, str]] = {
    name: f"benchmarks.{name}:"
    for name in (
        *("cap_sweep", "alignment", "losses", "decoding", "carma", "carma_study", "circuits"),
        *("transplant_sweep", "audit_cost", "watch_cost", "panel_minutes", "stable_rank"),
        *("complexity_report", "phases", "seq2seq", "encoder_steps", "decoder_steps"),
        *("side_by_side", "generation", "similarity", "scoring", "cap_memory", "cap_first"),
        "explore_clicks",
    )
} | {
    "encoder_memory": "benchmarks.encoder_steps:memory_",
    "cap_expected": "benchmarks.cap_memory:expected_",
}
"""By name: whose ``benchmark`` measures, and whose ``ratios`` read its files."""
NEED_DATA: Final = ("scoring",)
"""Which an option has to name."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    words = sys.argv[1:] if arguments is None else arguments
    given = list(takewhile(lambda word: not word.startswith("-"), words))
    names = given or [name for name in BENCHMARKS if name not in NEED_DATA]
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name, default in {key: each for one in names for key, each in taken(one).items()}.items():
        kind: dict[str, Any] = {"type": type(default)}
        if isinstance(default, bool):
            kind = {"action": "store_true", "default": None}
        elif isinstance(default, tuple):
            kind = {"type": type(default[0]), "nargs": "+"}
        parser.add_argument(f"--{name.replace('_', '-')}", **kind)
    options = vars(parser.parse_args(arguments))
    print(f"On {machine()['cpu']}:")
    for name in names:
        chosen = {key: options[key] for key in taken(name) if options[key] is not None}
        for row in in_a_process(run, name, chosen):
            over, goal = row.against()
            more = f"; over its floor {over}" * bool(over) + f"; goal {goal}" * bool(goal)
            print(f"{name}: {row.what}: {row.measured()}{more}", flush=True)


def function(name: str, what: str = "benchmark") -> Callable[..., Any]:
    """What measures, or ``ratios``."""
    resolved: Callable[..., Any] = resolve_name(BENCHMARKS[name] + what)
    return resolved


def taken(name: str) -> dict[str, Any]:
    """Options of a benchmark, with their defaults."""
    parameters = inspect.signature(function(name)).parameters.values()
    return {each.name: each.default for each in parameters}


def run(name: str, options: Mapping[str, Any]) -> list[Ratio]:
    """Measure, and write."""
    options = {**taken(name), **options}
    torch.set_num_threads(options.get("threads", 1))
    rows = []
    for file, content in function(name)(**options).items():
        if not options.get("quick"):
            write(file, content)
        rows += function(name, "ratios")(json.loads(json.dumps(content)))
    return rows


if __name__ == "__main__":
    main()
