"""What a watcher at its default budget takes of a training.

Run with ``python -m benchmarks.watch_cost``. ``mini-base`` is fine-tuned on ``mini-idm``, not
watched and watched by three sets of measures, turn about, in one process with one thread; a look is
due at every 10 of 300 steps. Seconds are those in which the process ran, whatever else the machine
does, and they are the watcher's clock as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import median
from time import process_time
from typing import Any, Final

import torch

import interp_compose as ic
from benchmarks.common import core_seconds, machine, spread, write
from interp_compose.studies.watch.options import WatchOptions

EVERY: Final = 10
SETS: Final[Mapping[str, tuple[Sequence[str], int]]] = {
    "weights": (WatchOptions().measures, 0),
    "cap of 16": (("stable_rank", "mean_abs_cosine", "cap"), 16),
    "cap of 200": (("stable_rank", "mean_abs_cosine", "cap"), 200),
}
"""Measures, and the prompts of the validation split that they read."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/watch_cost_cpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    result = cost(args.repeats, args.steps)
    for row in result["sets"]:
        print(row)
    about = {"model": "mini-base", "task": "mini-idm", "budget": WatchOptions().budget}
    about |= {"every": EVERY, "steps": args.steps, "repeats": args.repeats, "threads": 1}
    write("watch_cost_cpu", {**about, **result, **machine()})


def cost(repeats: int, steps: int) -> dict[str, Any]:
    """Seconds of the unwatched trainings, and of each set of measures what its looks took and its
    trainings over the unwatched ones of the same turn."""
    model = ic.load_model("mini-base")
    task = ic.load_task("mini-idm", model)

    def trained(n_steps: int, measures: Sequence[str] = (), n_prompts: int = 0) -> Any:
        """Fine-tune, and give the looks."""
        watcher = None
        if measures:
            examples = {"examples": task.validation[:n_prompts]} if n_prompts else {}
            watcher = ic.watch(
                model, measures=measures, every=EVERY, clock=process_time, **examples
            )
        config = ic.TrainConfig(max_steps=n_steps)
        ic.finetune(model, task, config=config, track=watcher, progress=False)
        return watcher and watcher.looks

    unwatched: list[float] = []
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in SETS}
    for asked in ((), *SETS.values()):
        trained(2, *asked)  # what the first call alone does, imports among it
    for _ in range(repeats):
        unwatched.append(core_seconds(lambda: trained(steps)))
        for name, asked in SETS.items():
            start = process_time()
            looks = trained(steps, *asked)
            whole = process_time() - start
            last, own = looks.iloc[-1], looks.loc[looks["taken"], "seconds"]
            turns[name].append(
                {
                    "taken": int(looks["taken"].sum()),
                    "skipped": int((~looks["taken"]).sum()),
                    "look_s": float(own.median()),
                    "share": float(last["watching_seconds"] / last["training_seconds"]),
                    "ratio": whole / unwatched[-1],
                }
            )
    rows = [
        {
            "measures": list(SETS[name][0]),
            "n_prompts": SETS[name][1],
            **{key: median(turn[key] for turn in own) for key in own[0]},
            **{f"{key}_spread": spread([turn[key] for turn in own]) for key in own[0]},
        }
        for name, own in turns.items()
    ]
    plain = {"unwatched_s": median(unwatched), "unwatched_spread": spread(unwatched)}
    return {**plain, "sets": rows}


if __name__ == "__main__":
    main()
