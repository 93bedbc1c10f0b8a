"""The folder a run writes to, looked at before the run starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interp_compose._files import plain_json
from interp_compose.errors import CorruptFileError, InputError, MissingDataError
from interp_compose.plots.export import save_html, save_png
from interp_compose.plots.interactive import ChartFigure
from interp_compose.results import Result


def check_folder(out: Path, config: Mapping[str, Any], *, overwrite: bool) -> None:
    """Before any work: hours of it must not vanish because two runs were given one folder.

    Raises:
        InputError: ``out`` is a file or, unless ``overwrite``, holds another run's result.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose a folder for --out.")
    if overwrite:
        return
    try:
        earlier = Result.load(out).config
    except MissingDataError:
        return
    except CorruptFileError as damaged:
        raise InputError(f"{damaged} Replace it with --overwrite.") from damaged
    here = plain_json(config, "config")
    differing = [name for name in here if earlier.get(name) != here[name]]
    if differing:
        name = differing[0]
        raise InputError(
            f"{out} holds the result of another run ({name} is {_short(earlier.get(name))} there, "
            f"{_short(here[name])} here). Choose another --out, or replace it with --overwrite."
        )


def write_figures(out: Path, figures: Mapping[str, ChartFigure], known: Sequence[str]) -> None:
    """Each figure as a page and as a picture; of those ``known``, one not drawn now is deleted."""
    for name in known:
        if name not in figures:
            (out / f"{name}.html").unlink(missing_ok=True)
            (out / f"{name}.png").unlink(missing_ok=True)
    for name, figure in figures.items():
        save_html(figure, out / f"{name}.html")
        save_png(figure, out / f"{name}.png")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:12]}…"
