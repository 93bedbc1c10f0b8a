"""What an audit takes, in seconds of one core.

Run with ``python -m benchmarks.audit_cost``. GPT-2 small's shape with 4 layers and random weights;
``audit`` and ``audit --quick``, turn about, loading included, which compares the model with its own
forward pass. Seconds are those in which the process ran, whatever else the machine does; it has one
thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.common import machine, spread, write
from benchmarks.watch_cost import clock_of
from interp_compose.studies.audit.measure import audit

N_LAYERS: Final = 4
KINDS: Final = ("audit", "quick")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/audit_cost_cpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    row = cost(args.repeats, "cpu")
    print(f"{row['audit_s']:.1f} s of one core, with --quick {row['quick_s']:.1f} s")
    write("audit_cost_cpu", {**row, "n_layers": N_LAYERS, "threads": 1, **machine()})


def cost(
    repeats: int, device: str, kinds: Sequence[str] = KINDS, **settings: int
) -> dict[str, Any]:
    """Medians, smallest and largest; ``settings`` are the config's."""
    clock = clock_of(device)
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    hook_points, findings = 0, 0
    for _ in range(repeats):
        for name, seconds in taken.items():
            torch.manual_seed(0)
            config = GPT2Config(**{"n_layer": N_LAYERS, **settings})
            model = GPT2LMHeadModel(config).eval().to(device)
            start = clock()
            found = audit(model, quick=name == "quick", progress=False)
            seconds.append(clock() - start)
            hook_points = max(hook_points, int((found.frame["check"] == "fires").sum()))
            findings = max(findings, len(found.findings))
    return {
        "repeats": repeats,
        "hook_points": hook_points,
        "findings": findings,
        **{f"{name}_s": median(seconds) for name, seconds in taken.items()},
        **{f"{name}_spread": spread(seconds) for name, seconds in taken.items()},
    }


if __name__ == "__main__":
    main()
