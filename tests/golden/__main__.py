"""Every command at small sizes, and a comparison of what two states of the code made of it.

    python -m tests.golden run before
    python -m tests.golden run after
    python -m tests.golden compare before after

Tables and weights are compared bit for bit, figures as plotly's JSON and as pixels, results and
histories as JSON. Both runs must be made on one machine, with as many threads.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pandas as pd

CAP: Final = "cap --limit 24 --device cpu"
MINI_SST: Final = "--model mini-base --task mini-sst"
RUNS: Final = "--samples 200 --steps 50 --batch-size 50 --where here"

COMMANDS: Final[dict[str, str]] = {
    "cap": f"{CAP} --model mini-idm --task mini-idm",
    "cap-broadcast": f"{CAP} {MINI_SST} --mode broadcast --unit constituent --height 2",
    "cap-labels": f"{CAP} {MINI_SST} --answers labels --unit constituent "
    "--labels 3 4 --layers 0 1.0",
    "cap-own": f"{CAP} --model inputs/Llama --task inputs/own.jsonl --renumber --no-controls "
    "--pooling sum --batch-size 3 --dtype bfloat16",
    "cap-pretoken": f"{CAP} --model inputs/GPT-2 --task inputs/own.jsonl --unit pretoken --seed 7",
    "ablate-words": "ablate --limit 12 --model mini-idm --task mini-idm --tagger kind",
    "ablate-zero": "ablate --limit 8 --model mini-idm --task mini-idm --mode zero --reach at",
    "ablate-until": f"ablate --limit 8 {MINI_SST} --reach until --answers labels "
    "--unit constituent",
    "ablate-heads": "ablate --limit 12 --model mini-idm --task mini-idm --what heads --how mean",
    "ablate-resample": f"ablate --limit 12 {MINI_SST} --what heads --how resample --layers 1",
    "ablate-layers": "ablate --limit 12 --model mini-idm --task mini-idm --what layers",
    "ablate-mlp": "ablate --limit 12 --model inputs/GPT-2 --task inputs/own.jsonl --what mlp",
    "similarity": "similarity --model inputs/BERT --task inputs/pairs.tsv",
    "similarity-word": "similarity --model inputs/BERT --task inputs/pairs.tsv --unit word "
    "--embedding cls --pooling max --no-controls",
    "similarity-decoder": "similarity --model mini-base --task inputs/pairs.tsv --unit word",
    "carma": "carma --model mini-idm --task mini-idm --limit 24 --seeds 2 --max-steps 20 "
    "--batch-size 8 --layers 0 2",
    "carma-labels": f"carma {MINI_SST} --limit 24 --seeds 2 --max-steps 10 --batch-size 8 "
    "--answers labels --negatives 5 --accumulate 2 --patience 1 --weight 0.4",
    "weights": "weights --model mini-base --heads",
    "phases": f"phases --gammas 0.4,0.8 --weight-decays 0.01,0.1 --seeds 2 {RUNS}",
    "phases-post": f"phases --gammas 0.5,0.9 --weight-decays 0.01 --seeds 1 --norm post {RUNS}",
    "mechanism": "mechanism --runs phases --gammas 0.4,0.8",
    "mechanism-post": "mechanism --runs phases-post --gammas 0.5,0.9 --draw 3",
    "speed": "speed --gammas 0.5,0.8 --depths 2,3 --violations 0,1 --seeds 2 --samples 200 "
    "--steps 60 --evaluate-every 10 --where here",
}
TIMED: Final = re.compile(r'seconds|as long as|overhead|ratio$|<td class="name">(FT|CARMA)</td>')
"""In names, or in lines of text, of what differs between two runs of the same code."""
MODULES: Final = {"work", "runs"}
"""Names of what says which module did the work of a sweep's runs, and so how these are called."""


def main(argv: Sequence[str] | None = None) -> None:
    """``run`` or ``compare``; exit status 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parts = parser.add_subparsers(dest="part", required=True)
    running = parts.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--only", nargs="*", choices=list(COMMANDS))
    comparing = parts.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args(argv)
    if options.part == "run":
        run(options.out, options.only or list(COMMANDS))
    else:
        differences = list(compare(options.before, options.after))
        print("\n".join(differences) or "equal")
        raise SystemExit(bool(differences))


def run(out: Path, names: Sequence[str]) -> None:
    """Every command in a folder of its own below ``out``, its printed text beside its files."""
    import torch

    from interp_compose import cli

    torch.set_num_threads(1)
    out.mkdir(parents=True)  # files of an earlier run would be taken for this one's
    os.chdir(out)
    _inputs(Path("inputs"))
    for name in names:
        print(name, file=sys.stderr)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            cli.main([*COMMANDS[name].split(), "--out", name])
        Path(name, "printed.txt").write_text(printed.getvalue(), encoding="utf-8")


def _inputs(folder: Path) -> None:
    from tests import architectures
    from tests.studies.conftest import TEXTS, splitting_tokenizer
    from tests.studies.similarity_reference import ROWS, bert_tokenizer

    folder.mkdir(exist_ok=True)
    for name in ("GPT-2", "Llama", "BERT"):
        architectures.build(name).save_pretrained(folder / name)
        tokenizer = bert_tokenizer() if name == "BERT" else splitting_tokenizer()
        tokenizer.save_pretrained(folder / name)
    rows = [
        {"prompt": f'{text} "', "answer": own} for text, own in zip(TEXTS, "abcde", strict=True)
    ]
    lines = [json.dumps(row) for row in rows]
    (folder / "own.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    cells = [[r["text1"], r["text2"], str(r["score"]), r.get("subset") or ""] for r in ROWS]
    text = "\n".join("\t".join(row) for row in [["text1", "text2", "score", "subset"], *cells])
    (folder / "pairs.tsv").write_text(text + "\n", encoding="utf-8")


def compare(before: Path, after: Path) -> Iterator[str]:
    """What differs, a line each."""
    ours, theirs = _files(before), _files(after)
    for name in sorted({*ours, *theirs}):
        if name not in ours or name not in theirs:
            yield f"{name}: only {'before' if name in ours else 'after'}"
            continue
        one, other = ours[name], theirs[name]
        if one.suffix in READERS:
            try:
                found = list(_differing(READERS[one.suffix](one), READERS[other.suffix](other)))
            except Exception as error:  # noqa: BLE001  named, and the others go on
                found = [f" {type(error).__name__}: {error}"]
            yield from (f"{name}{where}" for where in found[:5])


def _files(root: Path) -> dict[str, Path]:
    """By name. Runs of a sweep are called by their options, for the names of their folders hold the
    module that did the work as well."""
    found = {}
    for path in root.rglob("*"):
        if path.is_dir() or path.name == "manifest.json" or path.parent.name == "plans":
            continue  # digests of the others
        name = path.relative_to(root).as_posix()
        for folder in path.parents:
            if folder.parent.name == "runs" and (folder / "config.json").exists():
                asked = json.loads((folder / "config.json").read_text(encoding="utf-8"))["config"]
                digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
                name = name.replace(folder.name, digest[:16])
        found[name] = path
    return found


def _differing(one: Any, other: Any, where: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=str):
            if TIMED.search(str(key)) or key in MODULES:
                continue
            if key in one and key in other:
                yield from _differing(one[key], other[key], f"{where}.{key}")
            else:
                yield f"{where}.{key}: only {'before' if key in one else 'after'}"
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from _differing(*pair, f"{where}[{index}]")
    elif isinstance(one, pd.DataFrame):
        kept = [[name for name in frame if not TIMED.search(name)] for frame in (one, other)]
        pd.testing.assert_frame_equal(one[kept[0]], other[kept[1]], check_exact=True)
    elif one != other and not (one != one and other != other):  # NaN
        yield f"{where}: {str(one)[:60]!r} before, {str(other)[:60]!r} after"


def _weights(path: Path) -> dict[str, str]:
    from safetensors.torch import load_file

    return {
        name: f"{weight.dtype} {list(weight.shape)} {hash(weight.numpy().tobytes())}"
        for name, weight in load_file(path).items()
    }


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _page(path: Path) -> list[Any]:
    """A page's figures as plotly reads them, and its text."""
    text = path.read_text(encoding="utf-8")
    found, places = [], [match.end() for match in re.finditer(r"Plotly\.newPlot\(", text)]
    for place in places:
        start = text.index("[", place)
        data, end = json.JSONDecoder().raw_decode(text, start)
        layout, _ = json.JSONDecoder().raw_decode(text, text.index("{", end))
        found.append({"data": data, "layout": layout})
    body = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    body = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "id", body)
    assert found or "<table" in body, f"{path} shows neither a figure nor a table"
    return [*found, _untimed(body)]


def _untimed(text: str) -> list[str]:
    return [line for line in text.splitlines() if not TIMED.search(line)]


READERS: Final[dict[str, Callable[[Path], Any]]] = {
    ".parquet": pd.read_parquet,
    ".csv": partial(pd.read_csv, dtype=str),
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".jsonl": _lines,
    ".safetensors": _weights,
    ".html": _page,
    ".png": lambda path: path.read_bytes(),
    ".txt": lambda path: _untimed(path.read_text(encoding="utf-8")),
}

if __name__ == "__main__":
    main()
