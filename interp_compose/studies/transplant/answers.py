"""What the model answers: outcomes of the expected and of the untouched answer, as rows, and
whether the source's own was remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.studies.core.inputs import Prepared, Targets, outcome_rows
from interp_compose.studies.transplant.pairs import PreparedPair

PLACE: Final = ("layer", "pooling", "vector")
Cell = tuple[int, str, str]
"""Layer, pooling, and what replaced the phrase."""


@dataclass(frozen=True)
class Answers:
    """The answers of each row of a batch."""

    expected: Targets
    untouched: Targets
    pairs: Sequence[PreparedPair]

    @classmethod
    def of(
        cls, pairs: Sequence[PreparedPair], expected: Sequence[Prepared], device: torch.device
    ) -> Answers:
        """On ``device``; ``expected`` are prompts, whose answers are expected."""
        untouched = [pair.target for pair in pairs]
        return cls(Targets.of(expected, device), Targets.of(untouched, device), pairs)

    def outcomes(
        self, logits: Float[Tensor, "stream pos d_vocab"], rows: Int[Tensor, "stream"] | None = None
    ) -> Float[Tensor, "stream 8"]:
        """:meth:`.inputs.Targets.outcomes` of the expected answer, then of the untouched one."""
        both = [one.outcomes(logits, rows) for one in (self.expected, self.untouched)]
        return torch.cat(both, dim=1)

    def rows(self, outcomes: Float[Tensor, "rows 8"], cells: Sequence[Cell]) -> pd.DataFrame:
        """One row each: of every cell, every pair."""
        pairs = [pair.index for pair in self.pairs]
        place: dict[str, Sequence[Any]] = {"example": pairs * len(cells)}
        for i, name in enumerate(PLACE):
            place[name] = [cell[i] for cell in cells for _ in pairs]
        after = (
            "with the vector {0.vector!r} ({0.pooling}) in the phrase's place at layer {0.layer}"
        )
        expected = outcome_rows(outcomes[:, :4], place, after)
        untouched = outcome_rows(outcomes[:, 4:], place, after)
        rows = expected.rename(columns={"example": "pair"})
        for name, one, frame in (
            ("expected", self.expected, expected),
            ("answer", self.untouched, untouched),
        ):
            wanted = one.answers[:, 0].cpu().repeat(len(cells)).numpy()
            rows[f"{name}_right"] = rows["prediction"].to_numpy() == wanted
            rows[f"{name}_logprob"] = frame["target_logprob"]
            rows[f"{name}_rank"] = frame["target_rank"]
        own = [pair.remembered for pair in self.pairs] * len(cells)
        rows["remembered"] = rows["prediction"].to_numpy() == own
        return rows.drop(columns=["target_logprob", "target_rank"])
