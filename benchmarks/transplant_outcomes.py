"""What phrase transplants found, for the pages.

Run with ``python -m benchmarks.transplant_outcomes FOLDER``, a folder that ``interp-compose
transplant`` wrote: the table goes into ``results/transplants_{name}.json``, the figures of
``--figures`` into ``docs/images/``. ``--name`` is the model's by default; one that was loaded from
a folder should be given another.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import interp_compose as ic
from benchmarks.common import IMAGES, plain_rows, write


def main(argv: Sequence[str] | None = None) -> None:
    """Read, and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name")
    parser.add_argument("--figures", nargs="*", choices=ic.Transplants.FIGURES, default=())
    args = parser.parse_args(argv)
    found = ic.Transplants.load(args.folder)
    model = args.name or found.config["model"]
    name = model.replace("-", "_")
    types = found.pairs["type"].value_counts().to_dict()
    about = {key: found.config[key] for key in ("task", "n_pairs", "seed", "dtype")}
    table = plain_rows(found.frame)
    write(
        f"transplants_{name}",
        {"model": model, **about, "types": types, "table": table, **found.versions},
    )
    for figure in args.figures:
        shutil.copyfile(args.folder / f"{figure}.png", IMAGES / f"transplants_{name}_{figure}.png")


if __name__ == "__main__":
    main()
