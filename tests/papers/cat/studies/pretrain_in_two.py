"""Encoders pre-trained by two processes and by one; a script that leaves an ``out.json``."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import accelerate.utils  # noqa: F401  once, for both children
import torch

import interp_compose as ic
from interp_compose.errors import OptionError
from interp_compose.papers.cat.models.init import init_bert
from interp_compose.papers.cat.studies.pretrain import measure as run_file
from tests.forking import fork, wait
from tests.papers.cat.studies.test_pretrain import DOCUMENTS, TINY, study

RUN = replace(TINY, revive_after=2)


def dying(model: Any, *, seed: int) -> None:
    """Random weights, with two codes that are like no word."""
    init_bert(model, seed=seed)
    if model.cfg.composition != "none":
        model.blocks[0].composition.codebook.data[[1, 3]] = 0


def plain(found: ic.cat.Pretrained) -> dict[str, Any]:
    tables = {name: found.frames[name] for name in ("runs", "held_out", "codes_curve")}
    return {name: frame.to_dict("records") for name, frame in tables.items()}


def one_of_two(text: Path, folder: Path, rank: int, port: int) -> None:
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    os.environ.update({name: str(number) for name, number in names.items()})
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ["ACCELERATE_USE_CPU"] = "true"
    refused = ""
    try:
        study(text, folder / "two", where="workers", run=RUN)
    except OptionError as error:
        refused = str(error)
    found = study(text, folder / "two", ["cat"], run=RUN, seeds=1)
    said = {**plain(found), "refused": refused}
    try:
        study(text, folder / "broken", ["bert"], run=replace(RUN, lr=1e30), seeds=1)
    except ic.errors.InterpComposeError as error:
        said["broken"] = f"{type(error).__name__}: {error}"
    (folder / f"{rank}.json").write_text(json.dumps(said))


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    run_file.init_bert = dying  # type: ignore[assignment]
    text = folder / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    one = study(text, folder / "one", ["cat"], run=replace(RUN, accumulate=2), seeds=1)
    children = [fork(lambda rank=rank: one_of_two(text, folder, rank, port)) for rank in range(2)]
    codes = [wait(pid) for pid in children]
    said = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
    out = {"codes": codes, "one": plain(one), "two": said}
    (folder / "out.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
