"""How long the whole study takes: the model as it is, fine-tuned, and fine-tuned with CARMA.

One seed of ``mini-base`` on a shipped task with every evaluation (accuracy, CAP curves, consistency
under synonyms at two rates), report and figures written, from the command's own entry point.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import Ratio, machine, median_and_range, seconds
from interp_compose.papers.carma.measure import run
from interp_compose.papers.carma.options import CarmaCommand, CompareSettings
from interp_compose.papers.carma.result import Comparison
from interp_compose.studies.core.options import Output, WholeTask


def benchmark(task: str = "mini-idm", repeats: int = 3, threads: int = 2) -> dict[str, Any]:
    """``carma_study_{task}``."""
    results: list[Comparison] = []
    whole: list[float] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            command = CarmaCommand(
                task=WholeTask(task=task),
                study=CompareSettings(seeds=(1,)),
                output=Output(out=Path(folder), quiet=True),
            )
            whole.append(seconds(lambda command=command: results.append(run(command))))
    training = [each.frames["training"].set_index("version")["seconds"] for each in results]
    trained = {name: [float(each[name]) for each in training] for name in ("ft", "carma")}
    content = {
        "machine": machine(),
        "task": task,
        "threads": threads,
        "repeats": repeats,
        "seconds": median_and_range(whole),
        "training_seconds": {name: median_and_range(times) for name, times in trained.items()},
    }
    return {f"carma_study_{task.replace('-', '_')}": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = {f"the whole study, {content['task']}": content["seconds"]}
    rows |= {f"of it training: {name}": each for name, each in content["training_seconds"].items()}
    return [Ratio(what, each["median"], each["range"], "s") for what, each in rows.items()]
