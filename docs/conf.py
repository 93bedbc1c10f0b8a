"""Sphinx: ``make docs``. Nothing is fetched and no notebook is executed here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import interp_compose

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # for sphinx-build, too
sys.modules["ic"] = interp_compose  # public names are described as `ic.load_model`
for paper in interp_compose.PAPERS:
    sys.modules[f"ic.{paper}"] = getattr(interp_compose, paper)

from docs import explore_page, reference_pages  # noqa: E402

project = "interp_compose"
author = "The interp_compose developers"
copyright = "The interp_compose developers"
version = release = interp_compose.__version__

# Short names, such as ``tokens``, that attributes of several classes have, are not meant as links.
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_generated"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}

nb_execution_mode = "off"
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_use_ivar = True  # else a dataclass's fields are described twice
python_maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"interp_compose {release}"
html_static_path = ["explore", str(explore_page.export.PAGE)]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"  # MathJax would be fetched
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app: Any) -> None:
    """Pages and formulas that Sphinx does not make by itself.

    - Formulas are MathML, by docutils.
    - Colons in a field's description stay: Napoleon takes the text before one as a type.
    """
    reference_pages.write_reference(HERE / "reference")
    reference_pages.write_notebooks(HERE / "notebook")
    explore_page.write_model()

    def inline(translator: Any, node: nodes.math) -> None:
        translator.body.append(tex2mathml(node.astext()))
        raise nodes.SkipNode

    def block(translator: Any, node: nodes.math_block) -> None:
        formula = tex2mathml(node.astext(), as_block=True)
        translator.body.append(f'<div style="margin: 1em 0; overflow-x: auto">{formula}</div>')
        raise nodes.SkipNode

    def begin_on_a_new_line(
        app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
    ) -> None:
        if what in ("attribute", "data", "property"):
            lines[:0] = ["..", ""]  # an empty comment: an empty line alone would be skipped

    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("autodoc-process-docstring", begin_on_a_new_line, priority=400)
