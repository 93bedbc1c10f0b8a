"""Is pooling words better than pooling other spans? The control ``shuffled`` over several draws,
and the other controls: run ``shuffled_draws``.

In points of accuracy: ``mean`` minus each control, ``shuffled`` of the first seed, with p (McNemar,
Holm over layers); and minus ``shuffled`` averaged for each prompt over the seeds, with a
bootstrap over prompts (95 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import interp_compose as ic
from interp_compose.stats.intervals import bootstrap_interval
from interp_compose.studies.cap.result import CONTROLS


def measured(model: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Of a shipped model on its task."""
    lens = ic.load_model(model)
    task = ic.load_task(model, lens)
    curves = [ic.cap_curve(lens, task, pooling="mean", controls=True, seed=seed) for seed in seeds]
    right = [
        curve.outcomes.pivot(index="example", columns=["pooling", "layer"], values="correct")
        for curve in curves
    ]
    mean = right[0]["mean"]
    apart = mean.to_numpy(float) - np.mean([each["shuffled"].to_numpy(float) for each in right], 0)
    low, high = bootstrap_interval(apart)
    pairs = {name: curves[0].differences("mean", name) for name in CONTROLS}
    rows = [
        {
            "layer": int(layer),
            **{
                f"{name}_{key}": float(pairs[name].loc[at, key])
                for name in pairs
                for key in ("difference", "ci_low", "ci_high", "p_holm")
            },
            "draws_difference": float(apart[:, at].mean()),
            "draws_ci_low": float(low[at]),
            "draws_ci_high": float(high[at]),
        }
        for at, layer in enumerate(mean.columns)
    ]
    print(*rows, sep="\n")
    straddling = curves[0].config["straddling"]
    return {"seeds": list(seeds), "n": len(mean), "straddling": straddling, "table": rows}
