"""Generates ``_generated/capabilities.md``: which architecture honours what.

Run with ``python -m docs.architectures``. Each architecture of ``tests/architectures.py`` is built
with random weights, loaded as any model is, and put to the probes of
:mod:`interp_compose.models.capabilities`. Nothing is downloaded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from interp_compose.errors import CapabilityError
from interp_compose.interventions.pool_at import needs
from interp_compose.models.capabilities import MEANING, Capabilities
from interp_compose.models.load import load_model
from interp_compose.studies.similarity.measure import NEEDS
from tests import architectures

TABLE = Path(__file__).parent / "_generated" / "capabilities.md"
NATIVE = "native"
NAMES = (*architectures.BUILDERS, NATIVE, *architectures.LISTED)

REASONS = {
    "edit is discarded": "edit discarded",
    "discards this edit": "edit discarded",
    "output moved by": "no effect",
    "ALiBi": "ALiBi",
    "attend to later": "reads later tokens",
    "end in a norm": "ends in a norm",
    "relative error": "wrong result",
}
"""Part of a probe's detail → what the table says; anything else is a call that was refused."""

POSITIONS = {"standard": "learned", "relative_positional_bias": "relative"}

STUDIES = {
    "`cap_curve`, collapse": ("resume", *needs("collapse", False)),
    "`cap_curve`, broadcast": ("resume", *needs("broadcast", False)),
    "`pool_at`, broadcast": needs("broadcast", False),
    "`similarity_curve`": NEEDS,
}


@dataclass(frozen=True)
class Row:
    """One architecture: what its positions are, a cell per study and probe, and its class."""

    name: str
    positions: str
    cells: tuple[str, ...]
    architecture: str

    def __str__(self) -> str:
        return "| " + " | ".join([self.name, self.positions, *self.cells, self.architecture]) + " |"


def row(name: str) -> Row:
    """Build one architecture and probe it."""
    model = architectures.build_native() if name == NATIVE else architectures.build(name)
    shown = "TransformerLens' own decoder" if name == NATIVE else name
    try:
        loaded = load_model(model)
    except CapabilityError as refusal:
        other = "its own forward pass in transformers" in str(refusal)
        cells = ("refused: other numbers" if other else "refused",) * (len(MEANING) + len(STUDIES))
        return Row(shown, "", cells, f"`{type(model).__name__}`")
    probed = loaded.capabilities
    outcomes = probed.probes
    studies = ["yes" if holds(probed, names) else "no" for names in STUDIES.values()]
    refused = ""
    if loaded.bidirectional:  # no next token to predict, whatever the probes say
        refused = "cap_curve"
    elif len(loaded.stacks) > 1:  # two texts, and an embedding is of one
        refused = "similarity_curve"
    studies = [
        "no" if refused and refused in study else word
        for study, word in zip(STUDIES, studies, strict=True)
    ]
    probes = [
        "yes" if outcomes[name].held else f"no: {reason(outcomes[name].detail)}" for name in MEANING
    ]
    kind = POSITIONS.get(loaded.position_kind, loaded.position_kind)
    return Row(shown, kind, (*studies, *probes), f"`{loaded.architecture}`")


def holds(probed: Capabilities, names: tuple[str, ...]) -> bool:
    """Whether everything that a study relies on was proven."""
    return all(probed[name].held for name in ("forward", *names))


def reason(detail: str) -> str:
    """The figure or the message that decided a probe, in two words."""
    return next((short for part, short in REASONS.items() if part in detail), "call refused")


def table(rows: list[Row]) -> str:
    """The page fragment: what was run, and a row per architecture."""
    heads = ["", "positions", *STUDIES, *(f"`{name}`" for name in MEANING), "class"]
    lines = [
        "<!-- written by `python -m docs.architectures`; do not edit -->",
        "",
        f"Run with transformer-lens {version('transformer-lens')}, transformers "
        f"{version('transformers')}, eager attention, float32, random weights, "
        f"{architectures.N_LAYERS} layers.",
        "",
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
        *map(str, rows),
        "",
        "What each probe tests:",
        "",
        *(f"- `{name}`: {meaning}." for name, meaning in MEANING.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Probe every architecture and write the table."""
    TABLE.parent.mkdir(exist_ok=True)
    text = table([row(name) for name in NAMES])
    temporary = TABLE.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, TABLE)
    print(text)


if __name__ == "__main__":
    main()
