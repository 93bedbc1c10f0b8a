"""Versions: this library's, and of what decides the numbers in this process or in gathered runs."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any

__version__ = "0.1.0"
PACKAGES = ("interp_compose", "torch", "transformers", "transformer_lens")


def environment_versions() -> dict[str, str]:
    """Versions of the packages that decide the numbers, of Python, and the platform's name.

    Nothing is imported for it; a package that is not installed is ``"not installed"``.
    """
    versions = {package: _installed(package) for package in PACKAGES}
    return versions | {"python": platform.python_version(), "platform": platform.platform()}


@cache  # of what this process has imported, though another should be installed meanwhile
def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def gathered_versions(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The versions that several runs were made with, each named in ``runs``.

    Where all agree, theirs. Else what differs is "mixed: " and every version there is, "unknown"
    among them where a run does not say, and ``"runs"`` holds each run's own by its name.
    """
    names = list(dict.fromkeys(name for versions in runs.values() for name in versions))
    gathered: dict[str, Any] = {}
    for name in names:
        distinct = sorted({str(versions.get(name, "unknown")) for versions in runs.values()})
        gathered[name] = distinct[0] if len(distinct) == 1 else f"mixed: {', '.join(distinct)}"
    if any(dict(versions) != gathered for versions in runs.values()):
        gathered["runs"] = {name: dict(versions) for name, versions in runs.items()}
    return gathered


def mixed_versions(versions: Mapping[str, Any]) -> str:
    """A warning where the packages of :func:`gathered_versions` differ; else an empty text."""
    mixed = [
        f"{name} {versions[name].removeprefix('mixed: ')}"
        for name in (*PACKAGES, "python")
        if str(versions.get(name, "")).startswith("mixed: ")
    ]
    if not mixed:
        return ""
    return f"runs were made with several versions: {'; '.join(mixed)} (which: result.json)"
