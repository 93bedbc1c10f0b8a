"""Why words become one vector where every block composes: ``python -m benchmarks.every_block``.

Its folders are those of ``interp-compose pretrain`` with ``cat`` among the models, and with other
weights of the losses or another norm of codes' sums. What is measured while the first seed trains,
the contextual vectors' masked words and how alike a block's composed vectors are, goes into
``results/every_block.json``, the last folder's picture of codes into ``docs/images``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import interp_compose as ic
from benchmarks.common import IMAGES, machine, plain_rows, write

SETTINGS: Final = (
    *("code_norm", "guided", "sparsity", "reconstruction", "sufficiency", "nuance"),
    *("max_steps", "warmup_steps", "lr"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the result and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pretrained", nargs="+", help="each written by interp-compose pretrain")
    runs = []
    for folder in parser.parse_args(arguments).pretrained:
        found = ic.cat.Pretrained.load(folder)
        curve, codes = (
            rows[(rows["model"] == "cat") & (rows["seed"] == 0)].drop(columns=["model", "seed"])
            for rows in (found.frames["curve"], found.frames["codes_curve"])
        )
        right = curve.loc[curve["output"] == "cont", ["step", "masked_accuracy"]]
        settings = {name: found.config[name] for name in SETTINGS}
        runs.append({**settings, "curve": plain_rows(right), "codes": plain_rows(codes)})
        print(found.summary())
    write("every_block", {"machine": machine(), "runs": runs})
    found.figures()["pretrain_codes"].save(IMAGES / "every_block_codes.png")


if __name__ == "__main__":
    main()
