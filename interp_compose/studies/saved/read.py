"""A saved result of whatever study."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from interp_compose._public import public
from interp_compose.errors import InputError
from interp_compose.runs.files import read_json
from interp_compose.runs.result import RESULT, Result
from interp_compose.studies.core.result import StudyResult


@public
def load_result(folder: str | os.PathLike[str]) -> StudyResult:
    """The result that a folder holds, of the study that wrote it: a :class:`CapCurve`, …

    Args:
        folder: that a command wrote to, or a result's ``save``.

    Example::

        curve = ic.load_result("out/cap")
        curve.frame, curve.plot()

    Raises:
        MissingDataError: the folder holds no result.
        CorruptFileError: a file was altered.
        InputError: the result is no study's.
    """
    Result.load(folder)  # every file is checked
    name = read_json(Path(folder) / RESULT)["study"]
    if name == Result.__name__:
        raise InputError(
            f"{folder} holds tables that are no study's result (interp-compose compare writes "
            "such); read them with pandas, or with interp_compose.runs.result.Result.load"
        )
    library = import_module("interp_compose")
    places = (library, *(getattr(library, paper) for paper in library.PAPERS))
    kind = next((getattr(place, name) for place in places if name in place.__all__), None)
    if not isinstance(kind, type) or not issubclass(kind, StudyResult):
        raise InputError(f"{folder} holds a {name}, which no study of this version makes")
    return kind.load(folder)
