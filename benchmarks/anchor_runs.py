"""Small decoders on anchor functions of a kind that a phase diagram's options do not reach.

A run leaves one file, its last look and what else is measured of it; see :func:`keep`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import interp_compose as ic
from interp_compose.papers.complexity.studies.anchors.run import Evaluation, sets_of, stacked
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.training.parallel import NextOfSequence, ParallelTrainer
from interp_compose.runs.files import atomic_write, json_bytes, read_json
from interp_compose.training.loop import run_training

LAST: Final = "last.json"
SHARES: Final = ("train", "id", "ood", "commutativity")
"""Of a last look, what decides its phase."""


def last_look(
    run: ic.complexity.PhaseRun,
    task: ic.complexity.AnchorTask,
    model: SmallDecoder,
    watchers: Iterable[ic.Watcher] = (),
) -> dict[str, Any]:
    """Train the model on the task as a phase diagram does; its last row. Watchers are called at
    each of its evaluations."""
    sets = stacked([sets_of(task, run.samples, run.n_test, run.stream)], "cpu")
    evaluation = Evaluation(sets)

    def measure(trainer: ParallelTrainer) -> list[dict[str, Any]]:
        for watcher in watchers:
            watcher(trainer.step)
        return evaluation(trainer)

    objective = NextOfSequence(*sets["train"], (run.stream("order"),), measure)
    trainer = ParallelTrainer([model], [run.weight_decay], objective, run.train_config())
    run_training(trainer, progress=False)
    return trainer.rows[0][-1]


def keep(folder: Path, measured: Mapping[str, Any]) -> None:
    """What a run leaves."""
    atomic_write(folder / LAST, json_bytes(measured))


def finished(work: str, configs: Sequence[Mapping[str, Any]], out: Path) -> list[dict[str, Any]]:
    """What each run left; trained in worker processes where it is missing."""
    sweep = ic.run_sweep(work, configs, out, where="workers")
    if sweep.failed:
        raise SystemExit(f"failed: {sweep.failed}")
    return [read_json(folder / LAST) for folder in sweep.folders]
