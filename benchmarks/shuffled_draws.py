"""Is pooling words better than pooling other spans? The control ``shuffled`` over several draws.

On ``mini-idm``, in points of accuracy: ``mean`` minus ``last``; minus ``shuffled`` of the first
seed, with p (McNemar, Holm over layers); and minus ``shuffled`` averaged for each prompt over the
seeds, with a percentile bootstrap over prompts (95 %)::

    python -m benchmarks.shuffled_draws
"""

from __future__ import annotations

from typing import Final

import numpy as np

import interp_compose as ic
from benchmarks.common import machine, write
from interp_compose.stats.intervals import bootstrap_interval

SEEDS: Final = (42, 1, 2, 3, 4)


def main() -> None:
    """Measure, print, and write ``results/shuffled_draws.json``."""
    model = ic.load_model("mini-idm")
    task = ic.load_task("mini-idm", model)
    curves = [ic.cap_curve(model, task, pooling="mean", controls=True, seed=seed) for seed in SEEDS]
    right = [
        one.outcomes.pivot(index="example", columns=["pooling", "layer"], values="correct")
        for one in curves
    ]
    mean = right[0]["mean"]
    apart = mean.to_numpy(float) - np.mean([one["shuffled"].to_numpy(float) for one in right], 0)
    low, high = bootstrap_interval(apart)
    pairs = {name: curves[0].differences("mean", name) for name in ("last", "shuffled")}
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
    write(
        "shuffled_draws",
        {"machine": machine(), "seeds": list(SEEDS), "n": len(mean), "table": rows},
    )
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
