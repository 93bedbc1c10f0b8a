"""What can be asked of saved results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

Width = Annotated[str | None, tyro.conf.arg(metavar="column|page|INCHES")]


@dataclass(frozen=True, kw_only=True)
class PlotCommand:
    """Draw a saved result's figures again, into its folder: as PDF or SVG for a paper, as PNG, or
    as pages to explore."""

    folder: tyro.conf.Positional[Path]
    """Folder that a command, or save(), wrote a result to."""
    format: tuple[Literal["pdf", "svg", "png", "html"], ...] = ("pdf",)
    """One format or several."""
    width: Width = None
    """Of pictures: column (3.25 inches), page (6.75) or inches; by default as in a notebook."""
    overwrite: bool = False
    """Replace files of these names that no run of interp_compose wrote, or that changed since."""


@dataclass(frozen=True, kw_only=True)
class CompareCommand:
    """Several saved results of one study: their lines in one figure, their tables in one, and a
    page with both and with what differs between their settings."""

    folders: tyro.conf.Positional[tuple[Path, ...]]
    """Folders that commands, or save(), wrote results to; two or more."""
    labels: tuple[str, ...] = ()
    """A label for each; by default its model's name, or its folder's."""
    out: Path = Path("out/compare")
    """Folder to write to."""
    overwrite: bool = False
    """Replace another result in --out."""
