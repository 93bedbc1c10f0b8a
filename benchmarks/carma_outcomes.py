"""Keeps what a comparison said: ``python -m benchmarks.carma_outcomes out/carma``.

The folder is one that ``interp-compose carma`` wrote; from its checked tables go the settings, the
means over seeds, and the paired differences with their verdicts into
``results/carma_{model}_{task}.json``. Times stay behind: ``benchmarks.carma`` measures those, side
by side on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence

import interp_compose as ic
from benchmarks.common import machine, write

TIMES = ["seconds", "step_seconds"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="written by interp-compose carma")
    options = parser.parse_args(arguments)
    comparison = ic.Comparison.load(options.folder)
    config = {key: value for key, value in comparison.config.items() if "sha256" not in key}
    config["model"] = str(config["model"]).rstrip("/").split("/")[-1]
    name = re.sub(r"\W+", "_", f"carma_{config['model']}_{config['task']}")
    write(
        name,
        {
            "machine": machine(),
            "config": config,
            "summary": _rows(comparison.frame),
            "differences": _rows(comparison.differences),
            "training": _rows(comparison.frames["training"].drop(columns=TIMES)),
        },
    )
    print(comparison.summary())


def _rows(frame: object) -> object:
    """Records in JSON's types; a gap is null."""
    return json.loads(frame.to_json(orient="records", double_precision=6))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
