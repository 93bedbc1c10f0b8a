"""Generates ``_generated/cap_help.txt``: what ``interp-compose cap --help`` prints.

Run with ``python -m docs.command_line``.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from interp_compose.cli import main as interp_compose

HELP = Path(__file__).parent / "_generated" / "cap_help.txt"


def cap_help() -> str:
    """The help text, 80 columns wide."""
    os.environ["COLUMNS"] = "80"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        interp_compose(["cap", "--help"])
    return printed.getvalue().rstrip() + "\n"


def main() -> None:
    """Write the help text."""
    HELP.parent.mkdir(exist_ok=True)
    text = cap_help()
    temporary = HELP.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, HELP)
    print(text)


if __name__ == "__main__":
    main()
