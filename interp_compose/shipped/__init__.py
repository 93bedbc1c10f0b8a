"""The models that come with the package: names and folders. Nothing is loaded here."""

from __future__ import annotations

from pathlib import Path

from interp_compose.errors import OptionError

_HERE = Path(__file__).resolve().parent

SHIPPED: dict[str, Path] = {name: _HERE / name for name in ("mini-base", "mini-idm")}
"""Shipped model → its folder, in Hugging Face's format, checksums in ``SHA256SUMS``."""


def shipped_folder(name: str) -> Path:
    """The folder of a shipped model; ``OptionError`` for another name."""
    if name not in SHIPPED:
        raise OptionError(f"no model {name!r} is shipped; choose one of {', '.join(SHIPPED)}")
    return SHIPPED[name]
