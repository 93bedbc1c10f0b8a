"""Generates ``_generated/audits.md``: what an audit finds of each architecture.

Run with ``python -m docs.audits``; with names, the rows of these architectures alone are written
again. Each architecture of ``tests/architectures.py`` is built with random weights and audited;
nothing is downloaded. It takes some fifteen minutes of one core.

With transformer-lens 3.9 installed (``make test-tl3`` makes such an environment), the table is
``_generated/audits_hooked.md``, of the ``HookedTransformer`` that 3.9 converts each architecture
into; it takes two minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from docs import hooked
from docs.measured import Table
from interp_compose.errors import CapabilityError
from interp_compose.models.capabilities import MEANING
from interp_compose.models.load import load_model
from interp_compose.models.own_forward import OwnForward
from interp_compose.studies.audit.measure import audit
from interp_compose.studies.audit.result import Audit
from tests import architectures

TABLE = Path(__file__).parent / "_generated" / "audits.md"
HOOKED_TABLE = TABLE.with_name("audits_hooked.md")
HOOKED = version("transformer-lens") < "4"
"""Whether the table is of HookedTransformer."""
LAYER = r"((?:en|de)coder_)?blocks[.][0-9]+[.]"
NATIVE = "TransformerLens' own decoder"
COLUMNS = ("wrong", "discarded", "silent")
CAPABILITIES = TABLE.with_name("capabilities.md")
REASONS = (
    "no class of transformers: another name, with the adapter of an architecture of the table",
    "no class of transformers: code from the hub, or weights of TransformerLens' own",
    "of text: not tried",
    "of sound alone, with heads for other tasks: not tried (without the heads: refused)",
    "of images or sound beside text: not tried",
)
"""Why an architecture that TransformerLens names has no row."""


def row(name: str) -> list[str]:
    """Build one architecture and audit it."""
    if HOOKED:
        return row_of_hooked(name)
    native = name == "native"
    model = architectures.build_native() if native else architectures.build(name)
    shown = NATIVE if native else name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = audit(model, progress=False)
    if len(result.frame) == 1:
        other = "its own forward pass in transformers" in result.frame["detail"].item()
        return without_audit(shown, "refused: other numbers" if other else "refused")
    return of_audit(shown, result)


def row_of_hooked(name: str) -> list[str]:
    """Convert one architecture, hold its logits against the module's own, and audit it."""
    if name in hooked.NOT_BUILT:
        return without_audit(name, hooked.NOT_BUILT[name])
    module, model = hooked.build(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            OwnForward.of(module).check(load_model(model), load_model)
        except CapabilityError:
            return without_audit(name, "other numbers")
        return of_audit(name, audit(model, progress=False))


def without_audit(shown: str, reason: str) -> list[str]:
    """The row of an architecture of which no hook point was tried."""
    return [shown, reason, *["–"] * len(COLUMNS)]


def of_audit(shown: str, result: Audit) -> list[str]:
    """The row of an audit."""
    n_points = (result.frame["check"] == "fires").sum()  # other checks may use an alias
    return [shown, str(n_points), *(cell(result.frame, status) for status in COLUMNS)]


def cell(frame: pd.DataFrame, status: str) -> str:
    """What has a status: of the model by its check, hook points without the numbers of layers."""
    rows = frame[frame["status"] == status]
    if status == "silent":
        return str(len(rows))
    named = [
        f"`{re.sub(LAYER, lambda match: match[1] or '', name)}`" if name else check
        for name, check in zip(rows["name"], rows["check"], strict=True)
        if name or check not in MEANING.values()  # which the table of capabilities says
    ]
    return ", ".join(dict.fromkeys(named)) or "–"


def table(rows: Sequence[Sequence[str]]) -> str:
    """The page fragment."""
    heads = ["", "hook points", "wrong", "edits discarded", "never fire"]
    lines = [
        "<!-- written by `python -m docs.audits`; do not edit -->",
        "",
        f"Run with transformer-lens {version('transformer-lens')}, transformers "
        f"{version('transformers')}, torch {version('torch').partition('+')[0]}, eager attention, "
        f"float32, random weights, {architectures.N_LAYERS} layers.",
        "",
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
        *("| " + " | ".join(cells) + " |" for cells in rows),
    ]
    return "\n".join(lines) + "\n"


def written(path: Path = TABLE) -> dict[str, list[str]]:
    """The rows of the fragment, by architecture; none where it is still to be written."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    return {cells[0]: cells for cells in rows}


def without_row() -> Table:
    """Heads and rows: the classes that TransformerLens names and the table does not, by reason."""
    import transformers
    from transformer_lens.factories.architecture_adapter_factory import (
        SUPPORTED_ARCHITECTURES as SUPPORTED,
    )

    classes = {cells[-1].strip("`") for cells in written(CAPABILITIES).values()}
    classes |= {"TransformerLensNative", *(kind for kind, *_ in architectures.AUDITED.values())}
    adapters = {SUPPORTED.get(name) for name in classes}
    by_reason: dict[str, list[str]] = {reason: [] for reason in REASONS}
    for name in sorted(SUPPORTED.keys() - classes):
        kind = getattr(transformers, name, None)
        reads = getattr(kind, "input_modalities", "text")
        if kind is None:
            reason = REASONS[0] if SUPPORTED[name] in adapters else REASONS[1]
        else:
            reason = REASONS[{"text": 2, "audio": 3}.get(reads, 4)]
        by_reason[reason].append(f"`{name}`")
    return ["why", "", "classes"], [
        [reason, str(len(names)), ", ".join(names)] for reason, names in by_reason.items() if names
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Audit architectures and write the table, after each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="of architectures; by default all")
    names = (*architectures.BUILDERS, "native", *architectures.LISTED, *architectures.AUDITED)
    if HOOKED:
        known = (*hooked.CONVERTED, *hooked.NOT_BUILT)
        names = tuple(name for name in names if name in known)
    path = HOOKED_TABLE if HOOKED else TABLE
    rows = written(path)
    for name in parser.parse_args(argv).names or names:
        rows[NATIVE if name == "native" else name] = cells = row(name)
        print(" | ".join(cells), flush=True)
        shown = [NATIVE if name == "native" else name for name in names]
        temporary = path.with_suffix(".tmp")
        temporary.write_text(
            table([rows[each] for each in shown if each in rows]), encoding="utf-8"
        )
        os.replace(temporary, path)


if __name__ == "__main__":
    main()
