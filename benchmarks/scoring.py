"""How long it takes to score COGS' generalisation set: ``python -m benchmarks.scoring cogs/``.

All 21,000 sequences by exact match, with a model of the shape that ``generalise`` trains (its
weights are random: time does not depend on them). Writes ``results/scoring_{device}.json``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median

import torch

import interp_compose as ic
from benchmarks.common import machine, seconds, spread, write
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import SmallSeq2Seq
from interp_compose.papers.lrf.studies.generalise.measure import SequenceRun
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import exact_match


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir", help="the folder of COGS")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = SequenceData.of(ic.load_sequences("cogs", data_dir=options.data_dir).splits)
    pairs = data.splits["gen"]
    times = {}
    for name in ("transformer", "lrf"):
        model = SmallSeq2Seq(SequenceRun(data="", model=name).model_config(data)).eval()
        init_xavier(model, seed=0)
        model.to(device)
        found = [
            seconds(lambda model=model: exact_match(model, pairs, BOS))
            for _ in range(options.repeats)
        ]
        times[name] = {"seconds": median(found), "range": spread(found)}
        print(f"{name}: {len(pairs):,} sequences in {median(found):.0f} s {spread(found)}")
    about = {"sequences": len(pairs), "threads": torch.get_num_threads()}
    write(f"scoring_{device}", {**about, **times, **machine()})


if __name__ == "__main__":
    main()
