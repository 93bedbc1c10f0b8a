"""How long the whole study takes: the model as it is, fine-tuned, and fine-tuned with CARMA.

One seed of ``mini-base`` on ``mini-idm`` with every evaluation (accuracy, CAP curves, consistency
under synonyms at two rates), report and figures written, from the command's own entry point::

    python -m benchmarks.carma_study --threads 2
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.common import machine, seconds, spread, write
from interp_compose.papers.carma.measure import run
from interp_compose.papers.carma.options import CarmaCommand, CompareSettings
from interp_compose.studies.core.options import Output, WholeTask


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="mini-idm", choices=("mini-idm", "mini-sst"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    whole: list[float] = []
    trained: dict[str, list[float]] = {"ft": [], "carma": []}
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            study = CarmaCommand(
                task=WholeTask(task=options.task),
                study=CompareSettings(seeds=(1,)),
                output=Output(out=Path(folder), quiet=True),
            )
            results: list[Any] = []
            whole.append(seconds(lambda study=study, into=results: into.append(run(study))))
            training = results[0].frames["training"].set_index("version")["seconds"]
            for version, times in trained.items():
                times.append(float(training[version]))
        print(f"{whole[-1]:.0f} s, of it training {trained['ft'][-1]:.0f} + "
              f"{trained['carma'][-1]:.0f} s", flush=True)  # fmt: skip
    write(
        f"carma_study_{options.task.replace('-', '_')}",
        {
            "machine": machine(),
            "task": options.task,
            "threads": options.threads,
            "repeats": options.repeats,
            "seconds": {"median": median(whole), "range": spread(whole)},
            "training_seconds": {
                version: {"median": median(times), "range": spread(times)}
                for version, times in trained.items()
            },
        },
    )


if __name__ == "__main__":
    main()
