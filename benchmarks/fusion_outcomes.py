"""Keeps what was found inside: ``python -m benchmarks.fusion_outcomes out/fusion length``.

The folder is one that ``interp-compose fusion`` wrote; its tables of probes, forgetting and cuts go
into ``results/fusion_{name}.json``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import interp_compose as ic
from benchmarks.common import machine, plain_rows, write


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="written by interp-compose fusion")
    parser.add_argument("name", help="of the task, in the file's name")
    options = parser.parse_args(arguments)
    found = ic.Fusion.load(options.folder)
    tables = {name: plain_rows(found.frames[name]) for name in ("probes", "read_back", "cuts")}
    config = {key: value for key, value in found.config.items() if key != "data"}
    write(f"fusion_{options.name}", {"machine": machine(), "config": config, **tables})
    print(found.summary())


if __name__ == "__main__":
    main()
