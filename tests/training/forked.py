"""Training in forked processes, which may be killed; a script that leaves an ``out.json``.

One process imports everything, trains undisturbed, and forks children that go on from there, so
that killings take seconds.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors.torch import load_file, save_file

from interp_compose.errors import NonFiniteError
from interp_compose.models.lens_model import LensModel
from interp_compose.runs import checkpoint
from interp_compose.training import objectives
from interp_compose.training.history import read_history
from tests.forking import fork, wait
from tests.training.runs import BASE, CARMA, tiny, train

LONG = replace(
    BASE, epochs=4, accumulate=2, evaluate_every=5, checkpoint_every=2, patience=20, seed=5
)
DRAWN = replace(CARMA, negatives=2)
KILLS = 6
STEPS = 16
"""Of a long run."""


def save_weights(model: LensModel, path: Path) -> None:
    kept = {str(i): w.detach().clone().contiguous() for i, w in enumerate(model.parameters())}
    save_file(kept, path)


def run_long(folder: Path) -> None:
    trained, history = train(MODEL, LONG, carma=DRAWN, folder=folder / "run")
    save_weights(trained, folder / "weights.safetensors")
    frame = history.frame.drop(columns="seconds")
    rows = [frame, history.evaluations, history.representations]
    (folder / "history.json").write_text(json.dumps([t.to_csv(index=False) for t in rows]))


def was_killed(pid: int) -> bool:
    code = wait(pid)
    if code > 0:
        raise SystemExit(f"a child failed with {code}")
    return code < 0


def compare(folder: Path, undisturbed: Path) -> dict[str, Any]:
    """What a run that was disturbed left, held against the one that was not."""
    there = load_file(folder / "weights.safetensors")
    expected = load_file(undisturbed / "weights.safetensors")
    rows = (folder / "run/history.jsonl").read_text().splitlines()
    keys = [(row["table"], row["step"], row.get("layer")) for row in (json.loads(r) for r in rows)]
    checkpoints = sorted(p.name[:13] for p in (folder / "run/checkpoints").glob("step_*"))
    return {
        "same weights": all(torch.equal(there[name], expected[name]) for name in expected),
        "same history": (folder / "history.json").read_text()
        == (undisturbed / "history.json").read_text(),
        "rows doubled": len(keys) - len(set(keys)),
        "rows": len(keys),
        "checkpoints": checkpoints,
        "left over": [str(p) for p in folder.rglob("*.tmp")] + [str(p) for p in folder.rglob(".*")],
    }


def steps_of(run: Path) -> int:
    """How many steps its history has, -1 where there is none yet."""
    file = run / "run/history.jsonl"
    return len(read_history(file)["steps"]) if file.exists() else -1


def killed_at_random(folder: Path, undisturbed: Path, seconds: float) -> list[dict[str, Any]]:
    """Runs killed until there were :data:`KILLS` killings; each is resumed until it is done.

    The step is drawn among the next ones, and the moment in it: by the clock alone, a busy machine
    would have all of them in the same step.
    """
    rng = random.Random(0)
    killings, finished = 0, []
    while killings < KILLS:
        here = folder / f"random{len(finished)}"
        here.mkdir()
        steps = []
        while True:
            pid = fork(lambda here=here: run_long(here))
            done = max(steps_of(here), 0)
            if killings < KILLS and done < STEPS - 1:
                step = rng.randint(done, min(done + 5, STEPS - 1))
                late = time.monotonic() + 60
                while steps_of(here) < step and time.monotonic() < late:
                    time.sleep(0.001)
                time.sleep(rng.uniform(0, 2) * seconds / STEPS)
                os.kill(pid, signal.SIGKILL)
            if not was_killed(pid):
                break
            killings += 1
            steps.append(steps_of(here))
        finished.append({**compare(here, undisturbed), "killed after": steps})
    return finished


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(moment: str, step: int) -> None:
    """From here on, this process dies at a moment of the saving of a step."""
    write, save = checkpoint.write_safetensors, safetensors.torch.save_file
    sync, rename, remove = os.fsync, os.replace, checkpoint.remove
    marker = f"step_{step:08d}"
    saving = [False]

    def write_not(tensors: Any, folder: Path, name: Callable[[str], str], **options: Any) -> Any:
        saving[0] = marker in name("")
        if saving[0] and moment == "before anything is written":
            die()
        return write(tensors, folder, name, **options)

    def save_half(tensors: Any, path: Path, metadata: Any = None) -> None:
        if saving[0] and moment == "safetensors' own file is there":
            Path(path).with_name(".tmpEIgr1p").write_bytes(b"half")
            die()
        save(tensors, path, metadata)
        if saving[0] and moment == "half written":
            os.truncate(path, path.stat().st_size // 2)
            die()

    def sync_not(handle: int) -> None:
        if saving[0] and moment == "before it is synced":
            die()
        sync(handle)

    def rename_not(source: Any, target: Any) -> None:
        if marker in str(target) and moment == "before it is renamed":
            die()
        rename(source, target)
        if marker in str(target) and moment == "just renamed":
            die()

    def remove_not(path: Path) -> None:
        if saving[0] and moment == "before older ones go":
            die()
        remove(path)

    checkpoint.write_safetensors, safetensors.torch.save_file = write_not, save_half
    os.fsync, os.replace, checkpoint.remove = sync_not, rename_not, remove_not


MOMENTS = (
    "before anything is written",
    "safetensors' own file is there",
    "half written",
    "before it is synced",
    "before it is renamed",
    "just renamed",
    "before older ones go",
)


def killed_in_a_save(folder: Path, undisturbed: Path) -> dict[str, dict[str, Any]]:
    """A run that was killed before it saved step 10 goes on, and is killed while it saves it."""
    out = {}
    before = folder / "before"
    before.mkdir()

    def disturbed(moment: str, here: Path) -> None:
        die_at(moment, 10)
        run_long(here)

    killed = was_killed(fork(lambda: disturbed(MOMENTS[0], before)))
    for moment in MOMENTS:
        here = folder / moment.replace(" ", "_")
        shutil.copytree(before, here)
        if moment != MOMENTS[0]:
            killed = was_killed(fork(lambda m=moment, here=here: disturbed(m, here)))
        names = sorted(p.name[:13] for p in (here / "run/checkpoints").glob("step_*"))
        was_killed(fork(lambda here=here: run_long(here)))
        out[moment] = {"killed": killed, "at hand": names, **compare(here, undisturbed)}
    return out


# ---- two processes -------------------------------------------------------------------------

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "carma": {"carma": CARMA},
    "a last batch of one": {"carma": CARMA, "n": 19},
    "fewer validation examples than processes": {"validation": 1},
}


def in_two(folder: Path) -> dict[str, Any]:
    """Each case on two processes with whole parts, and on one with two parts."""
    for name, case in CASES.items():
        trained, history = train(MODEL, replace(BASE, accumulate=2), **case)
        save_weights(trained, folder / f"one {name}.safetensors")
        (folder / f"one {name}.json").write_text(history.frame.to_json())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [fork(lambda rank=rank: one_of_two(folder, rank, port)) for rank in range(2)]
    for pid in children:
        was_killed(pid)
    out: dict[str, Any] = {}
    for name in CASES:
        one, *two = (load_file(folder / f"{who} {name}.safetensors") for who in ("one", 0, 1))
        frames = [json.loads((folder / f"{who} {name}.json").read_text()) for who in ("one", 0, 1)]
        losses = [list(frame["loss"].values()) for frame in frames]
        out[name] = {
            "apart": max(float((one[i] - two[0][i]).abs().max()) for i in one),
            "between": max(float((two[1][i] - two[0][i]).abs().max()) for i in one),
            "loss apart": max(abs(a - b) for a, b in zip(*losses[:2], strict=True)),
            "loss between": max(abs(a - b) for a, b in zip(*losses[1:], strict=True)),
        }
    out["files"] = [
        sorted(p.name for p in (folder / f"files{rank}").rglob("*") if p.is_file())
        for rank in range(2)
    ]
    out["broken"] = [(folder / f"broken {rank}").read_text() for rank in range(2)]
    return out


def one_of_two(folder: Path, rank: int, port: int) -> None:
    os.environ.update(
        WORLD_SIZE="2",
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        LOCAL_WORLD_SIZE="2",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        ACCELERATE_USE_CPU="true",
    )
    for name, case in CASES.items():
        # A folder each, so that what a process writes is seen.
        trained, history = train(MODEL, BASE, folder=folder / f"files{rank}" / name, **case)
        save_weights(trained, folder / f"{rank} {name}.safetensors")
        (folder / f"{rank} {name}.json").write_text(history.frame.to_json())
    if rank == 1:  # one process alone meets a NaN, and both must stop
        real = torch.nn.functional.cross_entropy
        objectives.cross_entropy = lambda *args, **options: real(*args, **options) * math.nan
    try:
        train(MODEL, BASE)
    except NonFiniteError as broken:
        (folder / f"broken {rank}").write_text(str(broken))


def main(folder: Path) -> None:
    global MODEL
    torch.set_num_threads(1)
    os.fsync = lambda handle: None  # a killed process loses nothing that a kernel has
    warnings.simplefilter("error", UserWarning)
    MODEL = tiny()
    undisturbed = folder / "undisturbed"
    undisturbed.mkdir()
    train(MODEL, replace(BASE, epochs=1))  # warm
    started = time.perf_counter()
    run_long(undisturbed)
    seconds = time.perf_counter() - started
    two = folder / "two"
    two.mkdir()
    out = {
        "seconds": seconds,
        "undisturbed": compare(undisturbed, undisturbed),
        "random": killed_at_random(folder, undisturbed, seconds),
        "saving": killed_in_a_save(folder, undisturbed),
        "two": in_two(two),
    }
    (folder / "out.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
