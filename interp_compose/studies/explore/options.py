"""What can be asked of a page of one's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from interp_compose.studies.core.options import Part, StartModel


@dataclass(frozen=True, kw_only=True)
class ExploredModel(StartModel):
    """Where the model comes from."""

    model: str = "mini-idm"
    """Hub name, folder, or shipped model, of GPT-2's architecture and with a byte-level BPE
    tokenizer; up to about 3.7 million weights."""


@dataclass(frozen=True, kw_only=True)
class ExploreCommand:
    """Write a page on which a small decoder runs in the browser: pool words and phrases, knock
    words out, and see what becomes of the answer. In a notebook, ic.explore(model) does it for any
    model."""

    model: Part[ExploredModel] = field(default_factory=ExploredModel)
    text: tuple[str, ...] = ("a young feline",)
    """Texts to pick from; the first is shown."""
    template: str = '{} is called a "'
    """The prompt around a text, which is typed without it; {} for none."""
    out: Path = Path("out/explore.html")
    """File to write."""
    overwrite: bool = False
    """Replace that file."""
