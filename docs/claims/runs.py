"""The runs that test claims, of ``docs/claims/runs.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docs import measured
from interp_compose.settings import read_toml


@dataclass(frozen=True)
class Run:
    """What claims are tested by: its file, its command, and what it trains or measures."""

    file: str
    command: str
    text: str

    def tell(self) -> str:
        """The text with the file's numbers: also ``seeds``, and ``n``, how many a list has."""
        content = measured.read(self.file)
        rows = (row for table in content.values() if isinstance(table, list) for row in table)
        of_rows = {row["seed"] for row in rows if isinstance(row, dict) and "seed" in row}
        seeds = sorted(content.get("config", {}).get("seeds", of_rows))
        n = {name: len(value) for name, value in content.items() if isinstance(value, list | dict)}
        names: dict[str, Any] = {"n": {**n, "seeds": len(seeds)}}
        if seeds:
            names["seeds"] = f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
            names["each_seed"] = " and ".join(map(str, seeds))
        return self.text.format(**{**content, **names})


def _runs() -> dict[str, Run]:
    stated = read_toml(Path(__file__).with_suffix(".toml"))
    texts = {name: shared["text"] for name, shared in stated["shared"].items()}
    return {
        name: Run(run["file"], run["command"], run.get("text") or texts[run["use"]])
        for name, run in stated["runs"].items()
    }


RUNS: Final = _runs()
