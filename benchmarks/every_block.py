"""What becomes of codes where every block composes: ``python -m benchmarks.every_block out/every``.

The folder is that of ``interp-compose pretrain --models cat --seeds 1``. What is measured over
training, the contextual vectors' masked words and each block's codes, goes into
``results/every_block.json``, the picture of codes into ``docs/images``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import interp_compose as ic
from benchmarks.common import IMAGES, machine, plain_rows, write


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the result and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pretrained", help="written by interp-compose pretrain")
    found = ic.Pretrained.load(parser.parse_args(arguments).pretrained)
    known = {name: value for name, value in found.config.items() if name not in ("data", "model")}
    tables = ("held_out", "curve", "codes", "codes_curve")
    rows = {name: plain_rows(found.frames[name]) for name in tables}
    write("every_block", {"machine": machine(), "config": known, "notes": found.notes, **rows})
    found.figures()["pretrain_codes"].save(IMAGES / "every_block_codes.png")
    print(found.summary())


if __name__ == "__main__":
    main()
