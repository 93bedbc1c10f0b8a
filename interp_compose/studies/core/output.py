"""The folder a command writes to: looked at before work starts, locked, and written at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interp_compose.errors import CorruptFileError, InputError, MissingDataError, OutputError
from interp_compose.plots.export import page_files, picture_bytes
from interp_compose.runs.files import (
    check_writable,
    differences,
    disk,
    locked,
    make_folder,
    named,
    plain_json,
)
from interp_compose.runs.result import WAIT, Result, check_names, store
from interp_compose.studies.core.report import report_page
from interp_compose.studies.core.result import REPORT, StudyResult


@contextmanager
def held_folder(
    out: Path, kind: type[StudyResult], config: Mapping[str, Any], *, overwrite: bool
) -> Iterator[None]:
    """``out`` is this process's alone inside the block; :func:`check_folder` comes first.

    Raises:
        InputError: as :func:`check_folder`.
        OutputError: another process is writing there.
    """
    _make(out)
    with locked(out):
        check_folder(out, kind, config, overwrite=overwrite)
        yield


def check_folder(
    out: Path,
    kind: type[StudyResult],
    config: Mapping[str, Any],
    *,
    overwrite: bool,
    grows: Sequence[str] = (),
) -> None:
    """Before any work: hours of it must not vanish because two runs were given one folder.

    Args:
        kind: of the result to be written there.
        config: of the run; what an earlier result there says otherwise is refused.
        grows: what an earlier result may say otherwise.

    Raises:
        InputError: ``out`` is a file, cannot be written to or, unless ``overwrite``, holds another
            run's result, or files that this library did not write and that would be replaced.
    """
    _make(out)
    try:
        check_writable(out)
    except OutputError as refusal:
        raise InputError(f"{refusal}.") from refusal
    if not overwrite:
        try:
            earlier = Result.load(out).config
        except MissingDataError:
            earlier = {}
        except CorruptFileError as damaged:
            raise InputError(f"{damaged}. Or replace it with --overwrite.") from damaged
        here = {key: one for key, one in plain_json(config, "config").items() if key not in grows}
        differing = differences({name: earlier[name] for name in here if name in earlier}, here)
        if differing and earlier.get("study") != here.get("study"):
            differing = differences(earlier.get("study"), here.get("study"), "study")
        if earlier and differing:
            raise InputError(
                f"{out} holds the result of another run: {differing}. Choose another --out, or "
                "replace it with --overwrite."
            )
    check_names(out, kind.files(), overwrite=overwrite)


def _make(out: Path) -> None:
    try:
        with disk(out):
            is_file = out.is_file()
        if not is_file:
            make_folder(out)
    except OutputError as refusal:
        why = getattr(refusal.__cause__, "strerror", None) or str(refusal.__cause__)
        raise InputError(f"{named(out)} cannot be made ({why}); choose another --out.") from refusal
    if is_file:
        raise InputError(f"{named(out)} is a file; choose a folder for --out.")


def check_larger(out: Path, grid: dict[str, Any]) -> None:
    """Tables and figures of a grid are replaced by those of a larger one alone.

    Raises:
        InputError: ``out`` holds the tables of a grid with values that this one lacks.
    """
    try:
        earlier = Result.load(out).config
    except MissingDataError:
        return
    for axis, values in grid.items():
        lost = sorted(set(earlier[axis]) - set(values))
        if lost:
            values_shown = (one if isinstance(one, str) else f"{one:g}" for one in lost)
            raise InputError(
                f"{out} holds tables of a grid with {axis} {', '.join(values_shown)}, "
                "which this one lacks; name them too, choose another --out, or replace the tables "
                "with --overwrite (runs stay)"
            )


def write_result(
    out: Path, result: StudyResult, *, overwrite: bool, grows: Sequence[str] = ()
) -> None:
    """The result's tables, each figure as a page and as a picture, and its report.

    What the manifest names of an earlier result goes: no table and no figure of it is left beside
    these.

    Raises:
        InputError: as :func:`check_folder`, for what has appeared in ``out`` in the meantime.
        OutputError: the folder cannot be written to.
    """
    others = drawn_files(result)
    with locked(out, wait=WAIT):
        check_folder(out, type(result), result.config, overwrite=overwrite, grows=grows)
        store(result, out, others, overwrite=overwrite, replaces=True)


def drawn_files(result: StudyResult) -> dict[str, bytes]:
    """Each figure as a page to explore and as a picture, what these pages share, and the report, by
    name."""
    figures = result.figures()
    pictures = {name: picture_bytes(figure) for name, figure in figures.items()}
    files = page_files(figures) | {f"{name}.png": png for name, png in pictures.items()}
    return {REPORT: report_page(result, figures, pictures).encode(), **files}
