"""The weights of a model with those of a new model of the same config: run ``weights_smollm2``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

import interp_compose as ic
from benchmarks.common import plain_rows

KEPT = (
    *("layer", "matrix", "rows", "cols", "stable_rank", "random_stable_rank", "effective_rank"),
    *("mean_abs_cosine", "random_abs_cosine", "n_directions", "largest_direction", "compared"),
    "tied_to",
)


def measured(*, model: str, seed: int) -> dict[str, Any]:
    """Every matrix of a GGUF file, heads merged, and of a model with random weights."""
    file = Path(model)
    config = transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    torch.manual_seed(seed)
    twin = ic.load_model(transformers.AutoModelForCausalLM.from_config(config).eval())
    models = {"trained": ic.load_model(model), "random": twin}
    reports = {name: ic.complexity_report(lens, heads=False) for name, lens in models.items()}
    for report in reports.values():
        print(report.summary())
    return {
        "model": file.name,
        "seed": seed,
        "initializer_range": config.initializer_range,
        "left_out": reports["trained"].config["left_out"],
        **{name: plain_rows(report.frame[[*KEPT]]) for name, report in reports.items()},
    }
