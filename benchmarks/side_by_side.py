"""Small decoders on a task as one program, beside one at a time:
``python -m benchmarks.side_by_side``.

Turn about, on the same batches of SCAN: a training step of the default decoder alone, and one of
several of them side by side (:mod:`.training.side_by_side`). For a GPU; on a CPU
there is little to gain.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import torch

import interp_compose as ic
from benchmarks.common import machine, spread, timed, write
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/side_by_side_{device}.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args(arguments).repeats
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = SequenceData.of(ic.load_sequences("scan-turn-left").splits, one_sequence=True)
    result: dict[str, Any] = {"device": device, "threads": 1, "repeats": repeats}
    for n in NUMBERS:
        result[str(n)] = found = measured(n, data, repeats, device)
        print(f"{n} at once: {found['speedup']:.2f} times faster {found['range']}")
    if device == "cuda":
        result["gpu"] = torch.cuda.get_device_name()
    write(f"side_by_side_{device}", {**result, "machine": machine()})


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
    times = [
        tuple(timed(trainer.train_step, steps, device) for trainer in (alone, many))
        for _ in range(repeats + 1)
    ][1:]
    ratios = [n * one / together for one, together in times]
    return {
        "alone_seconds": median(one for one, _ in times),
        "together_seconds": median(together for _, together in times),
        "speedup": median(ratios),
        "range": spread(ratios),
    }


if __name__ == "__main__":
    main()
