"""Sphinx: ``make docs``. Nothing is fetched and no notebook is executed here."""

from __future__ import annotations

from typing import Any

import interp_compose

project = "interp_compose"
author = "The interp_compose developers"
copyright = "The interp_compose developers"
version = release = interp_compose.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build", "_generated"]
source_suffix = {".md": "myst-nb"}

nb_execution_mode = "off"
myst_enable_extensions = ["deflist"]  # formulas are plain text: MathJax would be fetched
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_use_ivar = True  # else a dataclass's fields are described twice

html_theme = "furo"
html_title = f"interp_compose {release}"
html_copy_source = False
html_show_sphinx = False


def setup(app: Any) -> None:
    """Colons in a field's description stay: Napoleon takes the text before one as a type."""

    def begin_on_a_new_line(
        app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
    ) -> None:
        if what in ("attribute", "data"):
            lines.insert(0, "")

    app.connect("autodoc-process-docstring", begin_on_a_new_line, priority=400)
