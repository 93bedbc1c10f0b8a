"""Are the models of ``docs/real-model.md`` what they claim to be? Runs ``audits_real``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import interp_compose as ic
from benchmarks.common import plain_rows


def measured(*folders: Path, models: dict[str, str]) -> dict[str, Any]:
    """Of each model, by its name, how many checks have which status, and those that do not hold;
    ``folders`` keep what is done."""
    kept: dict[str, Any] = {}
    for folder, (name, path) in zip(folders, models.items(), strict=True):
        if not (folder / "result.json").exists():
            ic.audit(path).save(folder)
        audit = ic.Audit.load(folder)
        print(audit.summary())
        checks = audit.frame
        kept[name] = {
            "counts": checks["status"].value_counts().to_dict(),
            "others": plain_rows(checks[checks["status"] != "holds"]),
        }
    return kept
