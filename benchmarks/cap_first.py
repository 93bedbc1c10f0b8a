"""What the first CAP curve of a model costs over the same curve again, in clean passes.

The difference is above all proofs of what the model honours, which are of no batch's size.
SmolLM2-135M, a file that its user gets (docs/real-model.md), freshly loaded each turn; a curve of
one layer on 8 prompts of ``agreement``. The clean pass is of 8 prompts of 15 tokens, the last of
these. Processor time on one thread.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.cap_memory import MODEL
from benchmarks.common import Ratio, core_seconds, machine, middle_and_range, ranged
from interp_compose.models.load import load_model
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.tasks.load import load_task


@torch.no_grad()
def benchmark(model: str = MODEL, repeats: int = 5, threads: int = 1) -> dict[str, Any]:
    """``cap_first_cpu``: a curve of one layer, on 8 prompts of ``agreement``."""
    if not Path(model).exists():
        print(f"cap_first         skipped: no model {model}")
        return {}
    over, seconds = [], []
    for _ in range(repeats + 1):  # the first turn imports what a study needs
        loaded = load_model(model)
        examples = load_task("agreement", loaded).test[:8]
        encoded = loaded.tokenizer([each.prompt for each in examples], padding=True)
        tokens = torch.tensor(encoded["input_ids"])[:, -15:]
        curve = partial(
            cap_curve, loaded, examples, layers=[8], pooling="mean", unit="span", progress=False
        )
        loaded(tokens)
        clean = median(core_seconds(partial(loaded, tokens)) for _ in range(5))
        over.append((core_seconds(curve) - core_seconds(curve)) / clean)
        seconds.append(clean)
    content = {"threads": threads, "repeats": repeats, "clean_s": median(seconds[1:])}
    return {"cap_first_cpu": content | middle_and_range("more_than_second", over[1:]) | machine()}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    more, peer = ranged(content, "more_than_second"), f"clean ({content['clean_s']:.2f} s)"
    return [Ratio("the first curve less the second", *more, peer=peer, goal=3)]
