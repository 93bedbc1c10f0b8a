"""``benchmarks/speed.md``: what ``benchmarks.speed`` measured, from its files."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any, Final

from benchmarks.speed import BENCHMARKS, function, taken
from docs.measured import RESULTS, markdown, read

OPENING: Final = """# Speed and memory

Written by `python -m docs.tables` from files in `benchmarks/results/`: what each benchmark is, and
for each of its files the command that measures it again, the machine, and medians of turns with the
smallest and the largest, or "one run". A ratio is of works that were timed turn about in one run.
float32 unless said otherwise; machines were shared. `make bench` measures most again, in hours; a
comment in the Makefile says which need data that are not shipped.
"""
STATED: Final = ("device", "shape", "dtype", "precision", "task", "threads", "repeats", "draws")
"""Options that files state, under the same names."""
HEADS: Final = ("", "median (smallest–largest)", "over its floor", "goal")


def page() -> str:
    """A section for each benchmark, with a table for each of its files."""
    parts = [OPENING]
    for name, files in kept().items():
        ratios = function(name, "ratios")
        parts.append(f"## {name}\n\n{described(ratios)}\n")
        if not files:
            parts.append(f"`python -m benchmarks.speed {name}`: not measured yet.\n")
        for file in files:
            contents = read(file)
            cells = [(row.what, row.measured(), *row.against()) for row in ratios(contents)]
            columns = [cell for cell in zip(HEADS, *cells, strict=True) if any(cell[1:])]
            heads, *rows = map(list, zip(*columns, strict=True))
            parts += [heading(name, file, contents), markdown(heads, rows)]
    return "\n".join(parts)


def kept() -> dict[str, list[str]]:
    """Files of each benchmark: those that begin with its name and are of no run."""
    runs = {path.stem for path in RESULTS.with_name("runs").glob("*.toml")}
    files: dict[str, list[str]] = {name: [] for name in BENCHMARKS}
    for file in sorted({path.stem for path in RESULTS.glob("*.json")} - runs):
        if names := [name for name in BENCHMARKS if file.startswith(name)]:
            files[max(names, key=len)].append(file)
    return files


def described(ratios: Callable[..., Any]) -> str:
    """The docstring of a benchmark, its terms as a list."""
    text = inspect.getdoc(ratios) or inspect.getdoc(inspect.getmodule(ratios)) or ""
    text = re.sub(r":\w+:`\.?([^`]+)`", r"`\1`", text).replace("``", "`")
    terms = re.compile(r"^(\S.*)\n((?:    .*\n?)+)", re.MULTILINE)
    return terms.sub(lambda term: f"- *{term[1]}*: {' '.join(term[2].split())}\n", text).strip()


def heading(name: str, file: str, contents: dict[str, Any]) -> str:
    """The command that writes a file, by the options that it states, and where it did."""
    about = {"threads": 1, "device": "cpu", **contents, **contents.get("machine", {})}
    gpu = about.get("gpu") or (about["device"] if about["device"] not in ("cpu", "cuda") else "")
    about["device"] = "cuda" if gpu else "cpu"
    turns = re.search(r'"(?:repeats|turns)": (\d+)', json.dumps(contents))
    if turns:
        about["repeats"] = int(turns[1])
    command = f"python -m benchmarks.speed {name}" + "".join(
        f" --{option} {about[option]}"
        for option, default in taken(name).items()
        if option in STATED and about.get(option, default) != default
    )
    threads = about["threads"]
    on = [gpu or about["cpu"], "1 thread" if threads == 1 else f"{threads} threads"]
    on += [f"turns: {turns[1]}"] if turns else []
    torch = about["versions"]["torch"].partition("+")[0]
    return f"`{command}`\n({', '.join(on)}; torch {torch}; `{file}.json`):\n"
