"""Writes ``docs/explore/model.js``, which the page *Try it in the browser* reads: the shipped
``mini-idm`` with its tokenizer, the words that it has read, and definitions to pick from. At build
time, for ``docs/conf.py``; it is not kept in the repository, which has the model already.

A script and not a file of JSON, since a page that was opened from a folder may read no other files.
``python -m docs.explore_page FILE`` writes the page alone, as one file.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
from markdown_it import MarkdownIt
from safetensors.numpy import load_file

from interp_compose.shipped import shipped_folder
from interp_compose.shipped.corpus import words_and_grammar
from interp_compose.studies import explore
from interp_compose.tasks.mini.idm import splits
from interp_compose.tasks.prompts import prompt_for

FOLDER: Final = Path(__file__).parent / "explore"
PAGE: Final = Path(explore.__file__).parent / "page"
STYLES: Final = """body {
  font: 16px/1.5 sans-serif; max-width: 52rem; margin: 1rem auto; padding: 0 1rem;
  --color-background-primary: #fff; --color-background-secondary: #f8f8f8;
  --color-background-border: #ddd;
  --color-foreground-primary: #222; --color-foreground-secondary: #666;
  --color-foreground-muted: #777; --color-foreground-border: #999;
  --font-stack--monospace: monospace;
}
"""
"""What the documentation's theme gives the page there."""
PLAIN: Final = re.compile("[A-Za-z]+|[0-9]+")
"""Words that are one word, and one pretoken of the tokenizer, wherever they stand."""


def exported() -> dict[str, Any]:
    """All that the page knows of the model. Weights are float32 in little-endian order, one tensor
    after the other, in base64."""
    folder = shipped_folder("mini-idm")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    bpe = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    tensors = {
        name.removeprefix("transformer."): np.ascontiguousarray(tensor, dtype="<f4")
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    read = {piece.strip() for part in words_and_grammar() for piece in part}
    return {
        "name": "mini-idm",
        "n_layers": config["n_layer"],
        "n_heads": config["n_head"],
        "n_ctx": config["n_positions"],
        "eps": config["layer_norm_epsilon"],
        "bos": config["bos_token_id"],
        "template": prompt_for(config["architectures"][0], "idm").template,
        "vocabulary": sorted(bpe["vocab"], key=bpe["vocab"].__getitem__),
        "merges": [" ".join(pair) for pair in bpe["merges"]],
        "words": sorted(word for word in read if PLAIN.fullmatch(word)),
        "definitions": [[one.text, one.answer] for one in splits()["test"]],
        "tensors": [[name, list(tensor.shape)] for name, tensor in tensors.items()],
        "weights": base64.b64encode(b"".join(each.tobytes() for each in tensors.values())).decode(),
    }


def write_model(folder: Path = FOLDER) -> None:
    """``model.js``, unless it is there as it would be written."""
    text = f"const MINI_IDM = {json.dumps(exported(), separators=(',', ':'))};\n"
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
    page = (PAGE / "page.html").read_text(encoding="utf-8")
    page = re.sub(r"<link [^>]*>", "", page)
    page = re.sub(r'<script src="_static/(.*?)"></script>', _inline, page)
    styles = STYLES + (PAGE / "explore.css").read_text(encoding="utf-8")
    above, below = map(MarkdownIt().render, (before, after))
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>CAP on mini-idm</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>\n{styles}</style>\n'
        f'<body data-theme="light">\n{above}{page}{below}</body></html>\n'
    )


def _inline(script: re.Match[str]) -> str:
    folder = FOLDER if script[1] == "model.js" else PAGE
    return "<script>\n" + (folder / script[1]).read_text(encoding="utf-8") + "</script>"


if __name__ == "__main__":
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(alone(), encoding="utf-8")
    print(f"written: {sys.argv[1]}")
