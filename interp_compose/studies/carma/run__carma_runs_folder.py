"""The folder of a comparison's runs: whose they are is written down before the first one starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interp_compose.runs.files import (
    atomic_write,
    check_writable,
    differences,
    json_bytes,
    make_folder,
    named,
    plain_json,
    read_json,
    remove,
)
from interp_compose.errors import CorruptFileError, InputError, OutputError
from interp_compose.runs.result import PACKAGES, environment_versions

OWNER = "comparison.json"
RUN_NAME = re.compile(r"original|(ft|carma)-seed\d+")


def make_runs_folder(folder: Path) -> None:
    """Make the folder for runs.

    Raises:
        InputError: it cannot be made, or nothing can be written there.
    """
    try:
        check_writable(make_folder(folder))
    except OutputError as refusal:
        why = getattr(refusal.__cause__, "strerror", None) or str(refusal.__cause__)
        raise InputError(
            f"{named(folder)} cannot be made a folder ({why}); choose another"
        ) from refusal


def claim_runs(folder: Path, config: Mapping[str, Any], *, overwrite: bool) -> None:
    """Make ``folder`` this comparison's, so that runs of two are never mixed.

    Seeds and versions may differ: a comparison with more of them goes on from the runs that are
    there. With ``overwrite``, another comparison's runs are deleted.

    Raises:
        InputError: ``folder`` holds another comparison's runs; with ``overwrite``, one is a link.
        CorruptFileError: there are runs, and nothing intact says whose.
    """
    versions = environment_versions()
    mine = {key: value for key, value in config.items() if key not in ("seeds", "versions")}
    mine = plain_json({**mine, "packages": {name: versions[name] for name in PACKAGES}}, "config")
    runs = [path for path in folder.iterdir() if path.is_dir() and RUN_NAME.fullmatch(path.name)]
    if runs:
        other = _other(folder, mine)
        if other is None:
            return
        if not overwrite:
            raise other
        links = [run for run in runs if run.is_symlink()]
        if links:
            raise InputError(
                f"{links[0]} is a link, and what it leads to is not deleted; remove the link, or "
                "choose another folder"
            )
        for run in runs:
            remove(run)
    atomic_write(folder / OWNER, json_bytes(mine))


def _other(folder: Path, mine: Mapping[str, Any]) -> InputError | CorruptFileError | None:
    """Why the runs in ``folder`` cannot be gone on from; None if they can."""
    remedy = "choose another folder, or start afresh: delete this one, or on the command line "
    remedy += "--overwrite it"
    try:
        theirs = read_json(folder / OWNER)
    except (OSError, CorruptFileError):
        return CorruptFileError(
            f"{folder / OWNER} is missing or damaged, so nobody knows which comparison the runs "
            f"beside it belong to; {remedy}"
        )
    if theirs == mine:
        return None
    return InputError(
        f"{folder} holds runs of another comparison: {differences(theirs, mine)}; {remedy}"
    )
