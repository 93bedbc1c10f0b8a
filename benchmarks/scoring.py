"""How long it takes to score COGS' generalisation set; ``--data-dir`` is the folder of COGS.

All 21,000 sequences by exact match, with a model of the shape that ``generalise`` trains (its
weights are random: time does not depend on them).
"""

from __future__ import annotations

from statistics import median

import torch

import interp_compose as ic
from benchmarks.common import Measured, Ratio, machine, seconds, spread
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import SmallSeq2Seq
from interp_compose.papers.lrf.studies.generalise.measure import SequenceRun
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import exact_match


def benchmark(
    device: str = "cpu",
    data_dir: str = "cogs",
    repeats: int = 3,
    threads: int = torch.get_num_threads(),
) -> Measured:
    """``scoring_{device}``."""
    data = SequenceData.of(ic.load_sequences("cogs", data_dir=data_dir).splits)
    pairs = data.splits["gen"]
    times = {}
    for name in ("transformer", "lrf"):
        model = SmallSeq2Seq(SequenceRun(data="", model=name).model_config(data)).eval()
        init_xavier(model, seed=0)
        model.to(device)
        taken = [
            seconds(lambda model=model: exact_match(model, pairs, BOS)) for _ in range(repeats)
        ]
        times[name] = {"seconds": median(taken), "range": spread(taken)}
    content = {"sequences": len(pairs), "threads": threads, **times, **machine()}
    ratios = [
        Ratio(f"{name}, {len(pairs):,} sequences", *each.values(), unit="s")
        for name, each in times.items()
    ]
    return Measured({f"scoring_{device}": content}, ratios)
