"""What the model answers: outcomes of the expected and of the untouched answer, as rows, and
whether the source's own was remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.studies.core.inputs import AnswerTargets, outcome_rows
from interp_compose.studies.transplant.pairs import ANSWERS, AnswerRow, PreparedPair
from interp_compose.types import Read

PLACE: Final = ("layer", "pooling", "vector")
Cell = tuple[int, str, str]
"""Layer, pooling, and what replaced the phrase."""


@dataclass(frozen=True)
class Answers:
    """The answers of each row of a batch.

    Attributes:
        pairs: those of the batch.
        targets: by name of the answer, its tokens in the rows that it is read from; -1 in others.
        row_of: by name, of each pair, in which row that is; -1 where the answer is not known.
    """

    pairs: Sequence[PreparedPair]
    targets: dict[str, AnswerTargets]
    row_of: dict[str, list[int]]

    @classmethod
    def of(
        cls, runs: Sequence[AnswerRow], device: torch.device, *, composed: bool = False
    ) -> Answers:
        """Of the pairs of these rows, on ``device``."""
        pairs = list({run.pair.index: run.pair for run in runs}.values())
        places = {(run.pair.index, run.row.answer_ids[:-1]): i for i, run in enumerate(runs)}
        prompts = [pair.composed if composed else pair.target for pair in pairs]
        by_pair = [one.answers for one in prompts if one is not None]
        longest = max(len(one.answer_ids) for answers in by_pair for one in answers.values())
        targets, row_of = {}, {}
        for name in ANSWERS:
            ids, rows = torch.full((len(runs), longest), -1), []
            for pair, answers in zip(pairs, by_pair, strict=True):
                if name not in answers:
                    rows.append(-1)
                    continue
                tokens = answers[name].answer_ids
                rows.append(places[pair.index, tokens[:-1]])
                ids[rows[-1], longest - len(tokens) :] = torch.tensor(tokens)
            if max(rows) >= 0:
                targets[name], row_of[name] = AnswerTargets(ids.to(device), None), rows
        return cls(pairs, targets, row_of)

    @property
    def n_read(self) -> int:
        """Last positions, at which tokens of answers are predicted."""
        return self.targets["expected"].n_read

    @property
    def read(self) -> Read:
        """Logits at these positions."""
        return self.targets["expected"].read

    def outcomes(
        self, logits: Float[Tensor, "stream pos d_vocab"], rows: Int[Tensor, "stream"] | None = None
    ) -> Float[Tensor, "stream width"]:
        """:meth:`.inputs.AnswerTargets.outcomes` of each answer, side by side."""
        each = [one.outcomes(logits, rows) for one in self.targets.values()]
        return torch.cat(each, dim=1)

    def rows(self, outcomes: Float[Tensor, "rows width"], cells: Sequence[Cell]) -> pd.DataFrame:
        """One row each: of every cell, every pair."""
        pairs = [pair.index for pair in self.pairs]
        place: dict[str, Sequence[Any]] = {"example": pairs * len(cells)}
        for i, name in enumerate(PLACE):
            place[name] = [cell[i] for cell in cells for _ in pairs]
        condition = (
            "with the vector {0.vector!r} ({0.pooling}) in the phrase's place at layer {0.layer}"
        )
        by_cell = outcomes.unflatten(0, (len(cells), -1))
        by_name = {
            name: outcome_rows(
                by_cell[:, rows, 4 * i : 4 * i + 4].flatten(0, 1).contiguous(), place, condition
            )
            for i, (name, rows) in enumerate(self.row_of.items())
        }
        rows = by_name["expected"].rename(columns={"example": "pair"})
        for column, name in (("expected", "expected"), ("answer", "untouched")):
            rows[f"{column}_right"] = by_name[name]["target_rank"] == 1
            rows[f"{column}_logprob"] = by_name[name]["target_logprob"]
            rows[f"{column}_rank"] = by_name[name]["target_rank"]
        rows["remembered"] = False
        if "remembered" in by_name:
            known = np.tile(np.array(self.row_of["remembered"]) >= 0, len(cells))
            rows["remembered"] = (by_name["remembered"]["target_rank"] == 1) & known
        return rows.drop(columns=["target_logprob", "target_rank"])
