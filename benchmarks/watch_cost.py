"""What a watcher at its default budget takes of a training.

``mini-base`` is fine-tuned on ``mini-idm``, not watched and watched by three sets of measures, turn
about, in one process with one thread, as often as there are sets, so that each comes first, second,
… once; a look is due at every 10 of 300 steps. Seconds are those in which the process ran, whatever
else the machine does, and they are the watcher's clock as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final
from unittest.mock import patch

import interp_compose as ic
from benchmarks.common import Ratio, machine, spread, wait
from interp_compose.studies.watch.options import WatchOptions

EVERY: Final = 10
COMPLEXITY_AND_CAP: Final = ("stable_rank", "mean_abs_cosine", "cap")
SETS: Final[Mapping[str, tuple[Sequence[str], int]]] = {
    "not watched": ((), 0),
    "weights": (WatchOptions().measures, 0),
    "16 prompts": (COMPLEXITY_AND_CAP, 16),
    "200 prompts": (COMPLEXITY_AND_CAP, 200),
}
"""Measures, and how many prompts of the validation split they read."""


def benchmark(repeats: int = len(SETS), steps: int = 300) -> dict[str, Any]:
    """``watch_cost_cpu``."""
    result = cost(repeats, steps, "cpu", SETS)
    about = {"model": "mini-base", "task": "mini-idm", "budget": WatchOptions().budget}
    about |= {"every": EVERY, "steps": steps, "repeats": repeats, "threads": 1}
    return {"watch_cost_cpu": {**about, **result, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    plain = f"not watched ({content['sets'][0]['whole_s']:.1f} s)"
    return [
        Ratio(
            f"watched: {', '.join(row['measures'])}"
            + (f" on {row['n_prompts']} prompts" if row["n_prompts"] else ""),
            row["ratio"],
            row["ratio_spread"],
            peer=plain,
        )
        for row in content["sets"][1:]
    ]


def cost(
    repeats: int,
    steps: int,
    device: str,
    sets: Mapping[str, tuple[Sequence[str], int]],
    examples: int | None = None,
) -> dict[str, Any]:
    """Medians, smallest and largest, of each set: looks taken and skipped, seconds of a look, looks
    over training (W / T), all calls of the watcher over training, and the seconds of the whole over
    those of the unwatched training of the same turn. ``examples`` of each split, or all."""
    clock = clock_of(device)
    model = ic.load_model("mini-base", device=device)
    task = ic.load_task("mini-idm", model)[:examples]

    def trained(n_steps: int, measures: Sequence[Any], n_prompts: int) -> ic.Watcher | None:
        watcher = None
        if measures:
            options: Any = {"every": EVERY, "clock": clock}
            if n_prompts:
                options["examples"] = task.validation[:n_prompts]
            watcher = ic.watch(model, measures=measures, **options)
        config = ic.TrainConfig(max_steps=n_steps)
        ic.finetune(model, task, config=config, track=watcher, progress=False)
        return watcher

    for asked in sets.values():
        trained(2, *asked)  # what the first call alone does, imports among it
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in sets}
    for turn in range(repeats):
        first = turn % len(sets)
        for name in [*sets][first:] + [*sets][:first]:
            with calls_timed(clock) as calls:
                start = clock()
                watcher = trained(steps, *sets[name])
                whole = clock() - start
            looks = {} if watcher is None else _of_looks(watcher, calls)
            turns[name].append({"whole_s": whole} | looks)
    rows = []
    for name, own in turns.items():
        for one, plain in zip(own, turns["not watched"], strict=True):
            one["ratio"] = one["whole_s"] / plain["whole_s"]
        figures = {key: [one[key] for one in own] for key in own[0]}
        row: dict[str, Any] = {"measures": list(sets[name][0]), "n_prompts": sets[name][1]}
        row |= {key: median(values) for key, values in figures.items()}
        rows.append(row | {f"{key}_spread": spread(values) for key, values in figures.items()})
    return {"sets": rows}


def clock_of(device: str) -> Callable[[], float]:
    """Of the process on a CPU, so that other work on it does not count; with a GPU of the wall,
    once the GPU has done what it was given."""

    def clock() -> float:
        wait(device)
        return perf_counter()

    return clock if device == "cuda" else process_time


@contextmanager
def calls_timed(clock: Callable[[], float]) -> Iterator[list[float]]:
    """Within, the seconds of each call of a watcher are added to the list."""
    seconds: list[float] = []
    call: Callable[..., None] = ic.Watcher.__call__

    def timed(self: ic.Watcher, step: Any) -> None:
        start = clock()
        call(self, step)
        seconds.append(clock() - start)

    with patch.object(ic.Watcher, "__call__", timed):
        yield seconds


def _of_looks(watcher: ic.Watcher, calls: Sequence[float]) -> dict[str, float]:
    looks = watcher.looks
    training = float(looks["training_seconds"].iloc[-1])
    watching = float(looks["watching_seconds"].iloc[-1])
    return {
        "taken": int(looks["taken"].sum()),
        "skipped": int((~looks["taken"]).sum()),
        "look_s": float(looks.loc[looks["taken"], "seconds"].median()),
        "share": watching / training,
        "share_of_calls": sum(calls) / (training + watching - sum(calls)),
    }
