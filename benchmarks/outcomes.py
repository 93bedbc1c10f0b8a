"""Results of runs at our scale, for the pages' tables: ``python -m benchmarks.outcomes NAME …``.

A run is a file ``benchmarks/runs/NAME.toml``; what it measures goes into ``results/NAME.json``,
pictures into ``docs/images``. ``--out`` is the folder of all runs' folders: it takes the place of
``out/`` wherever a file names a folder. What lies there already is not done again. ``--redraw``
draws the pictures of a result file again, and does nothing else.

after
    runs of which the calls come first;
calls
    commands, which leave their results in folders;
results
    by a name, the class of a command's result (below ``ic``) and its folder;
frames
    by a name in the file, what is kept of the results: an attribute as ``codes.frame``, or where it
    needs more, ``of`` (one attribute or several), ``by`` (a function of this folder) and
    ``without`` (columns, or keys of a dict, that are dropped). Columns of seconds are dropped
    always, since other work on the machine lengthens them;
work
    instead or as well, a function that returns what is kept, of ``folders`` and ``options``;
pictures
    by a file's name, a figure of a result as ``codes.codes_sememes``;
draw
    a function that draws further pictures of the file that was written;
machine
    "top": the machine is described at the top of the file, not under ``machine``; "none": nowhere.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import pandas as pd

from benchmarks.common import IMAGES, machine, plain_rows, write
from interp_compose import cli
from interp_compose.settings import read_toml

RUNS: Final = Path(__file__).parent / "runs"
TIMES: Final = ("seconds", "step_seconds")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = sorted(path.stem for path in RUNS.glob("*.toml"))
    parser.add_argument("names", nargs="+", metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--redraw", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.names:
        run = settings(name)
        if not options.redraw:
            for call in calls(run):
                print(call, flush=True)
                cli.main([placed(word, options.out) for word in shlex.split(call)[1:]])
            if kept := measured(run, options.out):
                places = {"top": machine(), "none": {}}
                write(name, {**kept, **places.get(run.get("machine"), {"machine": machine()})})
        if "draw" in run:
            function(run["draw"])(name)


def settings(name: str) -> dict[str, Any]:
    """What the file of a run states."""
    return read_toml(RUNS / f"{name}.toml")


def calls(run: Mapping[str, Any]) -> Iterator[str]:
    """The run's commands, those of the runs before it first."""
    for name in run.get("after", ()):
        yield from calls(settings(name))
    yield from run.get("calls", ())


def placed(word: str, out: Path) -> str:
    """A word of a command, its folder in ``out``."""
    return str(out / word.removeprefix("out/")) if word.startswith("out/") else word


def function(name: str) -> Callable[..., Any]:
    """A function of this folder, named as ``module:function``."""
    resolved: Callable[..., Any] = resolve_name(f"benchmarks.{name}")
    return resolved


def measured(run: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """What is kept of a run whose commands are done; its results' pictures are drawn."""
    results = {
        result: resolve_name(f"interp_compose:{kind}").load(placed(folder, out))
        for result, (kind, folder) in run.get("results", {}).items()
    }
    for result in results.values():
        print(result.summary())
    kept = {key: frame(results, source) for key, source in run.get("frames", {}).items()}
    if "work" in run:
        folders = [Path(placed(folder, out)) for folder in run.get("folders", ())]
        kept |= function(run["work"])(*folders, **run.get("options", {})) or {}
    for picture, source in run.get("pictures", {}).items():
        result, figure = source.split(".")
        results[result].figures()[figure].save(IMAGES / f"{picture}.png")
    return kept


def frame(results: Mapping[str, Any], source: str | Mapping[str, Any]) -> Any:
    """What one entry of ``frames`` names."""
    if isinstance(source, str):
        source = {"of": source}
    paths = [source["of"]] if isinstance(source["of"], str) else source["of"]
    values = [at(results, path) for path in paths]
    value = function(source["by"])(*values) if "by" in source else values[0]
    dropped = source.get("without", [])
    if isinstance(value, pd.DataFrame):
        return plain_rows(value.drop(columns=[*TIMES, *dropped], errors="ignore"))
    if isinstance(value, Mapping):
        return {key: each for key, each in value.items() if key not in dropped}
    return value


def at(results: Mapping[str, Any], path: str) -> Any:
    """An attribute or an entry, as ``codes.frames.words`` names it."""
    value: Any = results
    for name in path.split("."):
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value


if __name__ == "__main__":
    main()
