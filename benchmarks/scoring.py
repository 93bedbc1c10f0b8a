"""How long it takes to score COGS' generalisation set; ``--data-dir`` is the folder of COGS.

All 21,000 sequences by exact match, with a model of the shape that ``generalise`` trains (its
weights are random: time does not depend on them).
"""

from __future__ import annotations

from statistics import median
from typing import Any, Final

import interp_compose as ic
from benchmarks.common import Ratio, gpu, machine, seconds, spread
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import SmallSeq2Seq
from interp_compose.papers.lrf.studies.generalise.measure import SequenceRun
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import exact_match

MODELS: Final = ("transformer", "lrf")


def benchmark(
    device: str = "cpu",
    data_dir: str = "cogs",
    repeats: int = 3,
    threads: int = 2,
) -> dict[str, Any]:
    """``scoring_{device}``."""
    data = SequenceData.of(ic.load_sequences("cogs", data_dir=data_dir).splits)
    pairs = data.splits["gen"]
    times = {}
    for name in MODELS:
        model = SmallSeq2Seq(SequenceRun(data="", model=name).model_config(data)).eval()
        init_xavier(model, seed=0)
        model.to(device)
        taken = [
            seconds(lambda model=model: exact_match(model, pairs, BOS)) for _ in range(repeats)
        ]
        times[name] = {"seconds": median(taken), "range": spread(taken)}
    about = {"sequences": len(pairs), "threads": threads, "repeats": repeats, **gpu(device)}
    return {f"scoring_{device}": {**about, **times, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    return [
        Ratio(f"{name}, {content['sequences']:,} sequences", row["seconds"], row["range"], "s")
        for name, row in ((name, content[name]) for name in MODELS)
    ]
