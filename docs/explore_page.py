"""Writes ``docs/explore/model.js``, which the page *Try it in the browser* reads: the shipped
``mini-idm`` with its tokenizer, the words that it has read, and definitions to pick from. At build
time, for ``docs/conf.py``; it is not kept in the repository, which has the model already.

A script and not a file of JSON, since a page that was opened from a folder may read no other files.
``python -m docs.explore_page FILE`` writes the page alone, as one file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt

from interp_compose.models.load import load_model
from interp_compose.shipped.corpus import words_and_grammar
from interp_compose.studies.explore import export
from interp_compose.tasks.mini.idm import splits
from interp_compose.tasks.prompts import prompt_for

FOLDER: Final = Path(__file__).parent / "explore"
PLAIN: Final = re.compile("[A-Za-z]+|[0-9]+")
"""Words that are one word, and one pretoken of the tokenizer, wherever they stand."""


def exported() -> dict[str, Any]:
    """All that the page knows of the model."""
    model = load_model("mini-idm", device="cpu")
    read = {piece.strip() for part in words_and_grammar() for piece in part}
    definitions = [(one.text, one.answer) for one in splits()["test"]]
    words = sorted(word for word in read if PLAIN.fullmatch(word))
    template = prompt_for(model.architecture, "idm").template
    known = export.exported(model, definitions, template=template, words=words)
    return {**known, "first": "a young feline"}


def write_model(folder: Path = FOLDER) -> None:
    """``model.js``, unless it is there as it would be written."""
    text = export.script(exported())
    folder.mkdir(exist_ok=True)
    path = folder / "model.js"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def alone() -> str:
    """The page as one file, styles and scripts within, and no link to other pages."""
    write_model()
    text = (FOLDER.parent / "explore.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    text = re.sub(r"^%.*$", "", text.partition("\n## ")[0], flags=re.MULTILINE)
    text = re.sub(r"\{py:obj\}", "", text)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    before, after = re.split(r"```.*?```", text, maxsplit=1, flags=re.DOTALL)
    above, below = map(MarkdownIt().render, (before, after))
    model = (FOLDER / "model.js").read_text(encoding="utf-8")
    return export.page("CAP on mini-idm", model, above=above, below=below)


if __name__ == "__main__":
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(alone(), encoding="utf-8")
    print(f"written: {sys.argv[1]}")
