"""The figures of a saved result, drawn again."""

from __future__ import annotations

import math
from pathlib import Path

from interp_compose.errors import OptionError
from interp_compose.plots.canvas import Width
from interp_compose.plots.export import page_files, picture_bytes
from interp_compose.runs.checksums import listed
from interp_compose.runs.result import store
from interp_compose.studies.saved.options import PlotCommand
from interp_compose.studies.saved.read import load_result


def run(command: PlotCommand) -> str:
    """Draw, write beside the tables, and say what was written.

    The manifest lists the files, so that a later run knows them as the library's own.

    Raises:
        OptionError: no format, or no width that a figure can have.
        InputError: the study has no figures, or one of them has no room in this width; files of
            these names are a user's.
        MissingDataError, CorruptFileError: the folder holds no result, or one that was altered.
    """
    if not command.format:
        raise OptionError("--format: expected one or more of pdf, svg, png, html")
    width = width_of(command.width)
    result = load_result(command.folder)
    figures = result.figures()
    drawn: dict[str, bytes | str] = {}
    for kind in command.format:
        if kind == "html":
            drawn |= page_files(figures)
            continue
        for name, figure in figures.items():
            drawn[f"{name}.{kind}"] = picture_bytes(figure, kind, width=width)
    saved = {name: digests[-1] for name, digests in listed(command.folder).items()}
    tables = result._files()
    kept: dict[str, bytes | str] = {name: sha for name, sha in saved.items() if name not in tables}
    store(result, command.folder, kept | drawn, overwrite=command.overwrite)
    return f"written to {Path(command.folder)}/: {', '.join(drawn) or 'nothing: it has no figures'}"


def width_of(text: str | None) -> Width | None:
    """A width as the command line gives it."""
    if text is None:
        return None
    if text in ("column", "page"):
        return "column" if text == "column" else "page"
    try:
        inches = float(text)
    except ValueError:
        inches = math.nan
    if math.isnan(inches):
        raise OptionError(f"--width {text}: expected column, page or a number of inches")
    return inches
