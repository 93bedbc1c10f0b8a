"""Why words become one vector where every block composes: run ``every_block``.

Kept is what was measured while the first seed of ``cat`` trained: the contextual vectors' masked
words, and how alike a block's composed vectors are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import interp_compose as ic
from benchmarks.common import plain_rows

SETTINGS: Final = (
    *("code_norm", "guided", "sparsity", "reconstruction", "sufficiency", "nuance"),
    *("max_steps", "warmup_steps", "lr"),
)


def measured(*folders: Path) -> dict[str, Any]:
    """Of each result of ``pretrain``."""
    runs = []
    for folder in folders:
        pretrained = ic.cat.Pretrained.load(folder)
        curve, codes = (
            rows[(rows["model"] == "cat") & (rows["seed"] == 0)].drop(columns=["model", "seed"])
            for rows in (pretrained.frames["curve"], pretrained.frames["codes_curve"])
        )
        right = curve.loc[curve["output"] == "cont", ["step", "masked_accuracy"]]
        settings = {name: pretrained.config[name] for name in SETTINGS}
        runs.append({**settings, "curve": plain_rows(right), "codes": plain_rows(codes)})
        print(pretrained.summary())
    return {"runs": runs}
