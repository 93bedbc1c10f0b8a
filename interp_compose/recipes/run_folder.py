"""The folder a run writes to, looked at before the run starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interp_compose._files import plain_json
from interp_compose.errors import CorruptFileError, InputError, MissingDataError
from interp_compose.results import Result


def refuse_other_run(out: Path, config: Mapping[str, Any]) -> None:
    """Before any work: hours of it must not vanish because two runs were given one folder."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose a folder for --out.")
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


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:12]}…"
