"""``kill -9`` before every single file operation of what is written, or before half of them; a
script that leaves an ``out.json``.

One process imports everything and forks children. An audit hook sees each of Python's file
operations inside the job's folder; what safetensors does is Rust, so that its own temporary file is
made here by hand.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import safetensors.torch
import torch

from interp_compose.models.weights import save_weights
from interp_compose.papers.complexity.models.small_decoder import save_decoder, small_decoder
from interp_compose.papers.shared.models.decoder import DecoderConfig
from interp_compose.runs.batches import kept_batches
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.runs.files import file_sha256, remove, remove_stale
from interp_compose.runs.result import Result, store
from interp_compose.runs.sweep import run_sweep
from interp_compose.studies.core import output as run_folder
from interp_compose.studies.core.output import held_folder, write_result
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.watch.rows import LOOKS, MEASURED, Rows
from interp_compose.training.history import Recorder
from tests.forking import fork, wait

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
MODEL = small_decoder(
    DecoderConfig(d_vocab=5, n_ctx=4, n_layers=1, d_model=4, d_mlp=4), init_rate=0.5, seed=0
)


class Toy(StudyResult):
    """With one figure, which is drawn as :func:`main` says."""

    TABLES = ("outcomes", "clean")
    FIGURES = ("cap_curve",)

    def figures(self) -> dict[str, Any]:
        return {"cap_curve": None}


def study(folder: Path) -> None:
    """What cap, ablate and similarity do: batches, then tables and figures."""
    config = {"study": "cap", "seed": 1}

    def compute(part: int) -> pd.DataFrame:
        return pd.DataFrame({"example": [part], "text": [f"text {part}"]})

    with held_folder(folder, Toy, config, overwrite=False):
        batches = folder / "batches"
        with kept_batches(batches, config, (), start_afresh=False) as finished:
            frames = []
            for part in (0, 1):
                rows = finished.get(part)
                if rows is None:
                    rows = compute(part)
                    finished.put(part, rows)
                frames.append(rows)
            rows = pd.concat(frames, ignore_index=True)
            result = Toy(config, {"outcomes": rows, "clean": rows}, {"python": "3"})
            write_result(folder, result, overwrite=False)


def training(folder: Path) -> None:
    """What a run of carma does: history and checkpoints, then weights and tables."""
    checkpoints = CheckpointFolder(folder / "checkpoints", {"run": 1})
    recorder = Recorder(folder / "history.jsonl")
    remove_stale(folder / "checkpoints")
    found = checkpoints.latest()
    recorder.restart([] if found is None else list(found.note["rows"]))
    for step in range(1 if found is None else found.step + 1, 3):
        recorder.add("evaluations", {"step": step, "accuracy": 0.5, "loss": 1.0, "n": 2})
        checkpoints.save(step, {"weight": torch.full((3,), step)}, {"rows": recorder.rows})
    save_weights(MODEL, folder / "weights.safetensors")
    names = ("weights.safetensors", "weights.safetensors.sha256", "history.jsonl")
    others: dict[str, bytes | str] = {name: file_sha256(folder / name) for name in names}
    result = Result({"run": 1}, {"accuracy": pd.DataFrame({"n": [1]})}, {"python": "3"})
    store(result, folder, others, overwrite=True)
    checkpoints.clear()


def watching(folder: Path) -> None:
    """What a watcher does, told steps by a training that goes on where its file ends."""
    path = folder / "watched.jsonl"
    rows = Rows({"study": "watch"}, path)
    begun = len(Rows.read(path).looks) if path.exists() else 0
    rows.begin(begun)
    for step in range(begun, 4):
        look = dict.fromkeys(LOOKS.columns, 0.5) | {"step": step, "taken": True}
        cells = dict.fromkeys(MEASURED.columns, 0.5) | {"step": step, "of": "W_Q"}
        rows.add([cells | {"layer": layer} for layer in range(3)], look)
    assert len(Rows.read(path).looks) == 4


def decoder(folder: Path) -> None:
    """A model's folder, as runs of a phase diagram leave it."""
    remove(folder / "model")
    save_decoder(MODEL, folder / "model")


def work(config: dict[str, Any], folder: Path) -> None:
    """Of :func:`sweep`."""
    (folder / "result.json").write_text(json.dumps(config))


def sweep(folder: Path) -> None:
    """Two runs of a sweep."""
    configs = [{"n": 1}, {"n": 2}]
    run_sweep("tests.killed_writes:work", configs, folder, progress=False)


JOBS: dict[str, Callable[[Path], None]] = {
    "study": study,
    "training": training,
    "watching": watching,
    "decoder": decoder,
    "sweep": sweep,
}


HALVED = (training, sweep)


def counting(folder: Path, last: int | None, told: Path) -> None:
    """From here on, this process dies before its file operation number ``last``; without it, their
    number is written to ``told`` as it grows."""
    count = [0]
    inside = os.path.realpath(folder)

    def operation() -> None:
        if last is not None and count[0] == last:
            os.kill(os.getpid(), signal.SIGKILL)
        count[0] += 1
        if last is None:
            handle = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.write(handle, str(count[0]).encode())
            os.close(handle)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES and event != "open":
            return
        if event == "open" and (not isinstance(arguments[2], int) or not arguments[2] & 0o103):
            return  # not for writing
        path = arguments[0]
        if isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(inside):
            operation()

    save = safetensors.torch.save_file

    def save_file(tensors: Any, path: Any, metadata: Any = None) -> None:
        own = Path(path).with_name(".tmpEIgr1p")
        handle = os.open(own, os.O_WRONLY | os.O_CREAT)
        os.write(handle, b"half")
        os.close(handle)
        operation()
        os.unlink(own)
        save(tensors, path, metadata)
        operation()

    safetensors.torch.save_file = save_file
    sys.addaudithook(hook)


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 by name of every file, hidden ones too, but for what times and locks leave."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    varying = ("DONE", "lock", "log.txt", ".lock")
    return {
        name: "" if path.name in varying else file_sha256(path)
        for name, path in sorted(found.items())
    }


def enumerated(folder: Path, job: Callable[[Path], None]) -> dict[str, Any]:
    """The job killed before each of its operations and given again: what is not as it should be. Of
    the longest two, half of them, drawn at random."""
    told = folder / "operations"
    undisturbed = folder / "undisturbed"

    def counted() -> None:
        counting(undisturbed, None, told)
        job(undisturbed)

    assert wait(fork(counted)) == 0
    expected, operations = contents(undisturbed), int(told.read_text())
    wrong = {}
    each = range(operations)
    for last in random.Random(0).sample(each, operations // 2) if job in HALVED else each:
        here = folder / str(last)

        def disturbed(here: Path = here, last: int = last) -> None:
            counting(here, last, told)
            job(here)

        code = wait(fork(disturbed))
        job(here)
        found = contents(here)
        if code != -signal.SIGKILL or found != expected:
            names = {name for name in {*found, *expected} if found.get(name) != expected.get(name)}
            wrong[str(last)] = [str(code), *sorted(names)]
    return {"operations": operations, "wrong": wrong, "left": sorted(expected)}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    os.fsync = lambda file: None  # a killed process loses nothing that a kernel has
    run_folder.picture_bytes = lambda figure: b"drawn"
    run_folder.page_files = lambda figures: {f"{name}.html": b"drawn" for name in figures}
    run_folder.report_page = lambda *result: "a page"
    out = {}
    for name, job in JOBS.items():
        (folder / name).mkdir()
        out[name] = enumerated(folder / name, job)
    (folder / "out.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
