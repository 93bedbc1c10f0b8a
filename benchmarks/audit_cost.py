"""What an audit takes, in seconds of one core.

GPT-2 small's shape with 4 layers and random weights; ``audit`` and ``audit --quick``, turn about,
loading included, which compares the model with its own forward pass; imports, 4 s, left out.
Seconds are those in which the process ran, whatever else the machine does; it has one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.common import Ratio, machine, spread
from benchmarks.watch_cost import clock_of
from interp_compose.studies.audit.measure import audit

N_LAYERS: Final = 4
KINDS: Final = ("audit", "quick")


def benchmark(repeats: int = 3) -> dict[str, Any]:
    """``audit_cost_cpu``."""
    row = cost(repeats, "cpu")
    return {"audit_cost_cpu": {**row, "n_layers": N_LAYERS, "threads": 1, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    of = f"{content['hook_points']} hook points"
    names = {"audit": f"`audit`, {of}", "quick": f"`audit --quick`, {of}"}
    return [
        Ratio(names[kind], content[f"{kind}_s"], content[f"{kind}_spread"], "s") for kind in KINDS
    ]


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
            audited = audit(model, quick=name == "quick", progress=False)
            seconds.append(clock() - start)
            hook_points = max(hook_points, int((audited.frame["check"] == "fires").sum()))
            findings = max(findings, len(audited.findings))
    return {
        "repeats": repeats,
        "hook_points": hook_points,
        "findings": findings,
        **{f"{name}_s": median(seconds) for name, seconds in taken.items()},
        **{f"{name}_spread": spread(seconds) for name, seconds in taken.items()},
    }
