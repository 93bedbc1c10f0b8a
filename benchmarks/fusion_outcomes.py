"""Keeps what was found inside: ``python -m benchmarks.fusion_outcomes length out/fusion-*``.

The folders are those that ``interp-compose fusion`` wrote of one comparison, each of another seed;
their tables of probes, forgetting, cuts, pooling and kinds of tokens go into
``results/fusion_{name}.json``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import interp_compose as ic
from benchmarks.common import machine, plain_rows, write

TABLES: Final = ("probes", "read_back", "cuts", "cap", "tokens")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="of the task, in the file's name")
    parser.add_argument("folders", nargs="+", help="written by interp-compose fusion")
    options = parser.parse_args(arguments)
    tables: dict[str, list[object]] = {name: [] for name in TABLES}
    configs = []
    for folder in options.folders:
        found = ic.Fusion.load(folder)
        configs.append({key: each for key, each in found.config.items() if key != "data"})
        seed = configs[-1].pop("seed")
        for name, rows in tables.items():
            rows += [{"seed": seed, **row} for row in plain_rows(found.frames[name])]
    if any(config != configs[0] for config in configs):
        raise SystemExit("the folders are not of one comparison: their configs differ")
    write(f"fusion_{options.name}", {"machine": machine(), "config": configs[0], **tables})


if __name__ == "__main__":
    main()
