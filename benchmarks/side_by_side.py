"""Small decoders on a task as one program, compared with one at a time.

Turn about, on the same batches of SCAN: a training step of the default decoder alone, and one of
several of them side by side (:mod:`.training.side_by_side`). For a GPU; on a CPU there is little to
gain.
"""

from __future__ import annotations

from statistics import median
from typing import Any, Final

import torch

import interp_compose as ic
from benchmarks.common import FASTER, Ratio, gpu, machine, quotients, spread, turns
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import ContinuedBatch, TargetSequence
from interp_compose.papers.shared.training.side_by_side import SideBySide, SideBySideTrainer
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, trains

NUMBERS: Final = (4, 12, 36)
CONFIG: Final = TrainConfig(batch_tokens=2048, epochs=100, lr=1e-4)
STEPS: Final = 10


def benchmark(device: str = "cpu", repeats: int = 7) -> dict[str, Any]:
    """``side_by_side_{device}``."""
    data = SequenceData.of(ic.load_sequences("scan-turn-left").splits, one_sequence=True)
    content: dict[str, Any] = {"device": device, "threads": 1, "repeats": repeats}
    for n in NUMBERS:
        content[str(n)] = measured(n, data, repeats, device)
    content |= {**gpu(device), "machine": machine()}
    return {f"side_by_side_{device}": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    return [
        Ratio(
            *(f"a step of {n}", content[str(n)]["speedup"], content[str(n)]["range"]),
            *(FASTER, f"{n} steps one after another"),
        )
        for n in NUMBERS
    ]


@trains
def measured(
    n: int, data: SequenceData, repeats: int, device: str, steps: int = STEPS
) -> dict[str, Any]:
    """How much less time a step of ``n`` models takes than ``n`` single steps; medians of times of
    ``steps`` steps."""
    shape = DecoderConfig(
        d_vocab=len(data.source), n_ctx=data.longest_pair + 1, n_heads=4, d_mlp=256
    )
    models = [SmallDecoder(shape) for _ in range(n + 1)]
    for i, model in enumerate(models):
        init_weights(model, 0.5, seed=i)
        model.to(device)
    objective = TargetSequence(data.splits["train"], BOS, batches=ContinuedBatch)
    alone = Trainer(models.pop(), objective, CONFIG)
    shared = SideBySide(objective, n, CONFIG.seed, torch.device(device))
    many = SideBySideTrainer(models, [0.01] * n, shared, CONFIG)
    works = {"alone": alone.train_step, "together": many.train_step}
    times = turns(works, repeats, device, times=steps)
    ratios = [n * each for each in quotients(times["alone"], times["together"])]
    return {
        "alone_seconds": median(times["alone"]),
        "together_seconds": median(times["together"]),
        "speedup": median(ratios),
        "range": spread(ratios),
    }
