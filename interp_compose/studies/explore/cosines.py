"""How alike an encoder finds two texts, under what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose.errors import InputError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling_sweep import with_controls
from interp_compose.models.embed import EmbeddingReader, check_first, embedding_reader
from interp_compose.models.lens_model import LensModel
from interp_compose.models.ready import check_ids, check_model, check_prompts
from interp_compose.studies.core.inputs import PromptBatch
from interp_compose.studies.explore.next_tokens import CONTROLS, POOLINGS
from interp_compose.studies.explore.state import ExplorerState, check_state
from interp_compose.studies.explore.words import POOLS, ClickedText, plain
from interp_compose.studies.similarity.measure import (
    PreparedSimilarity,
    PreparedText,
    PreparedTexts,
)
from interp_compose.studies.similarity.result import NONE, SimilarityCurve
from interp_compose.tasks.pairs import Pair
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts
from interp_compose.types import Example

SEED = 42


@dataclass(frozen=True, eq=False)
class TwoTexts:
    """Two texts, ready to run.

    Attributes:
        state: with the units of both filled in.
        texts: in words.
        prompts: in the units that are pooled.
        reading: how an embedding is read.
    """

    model: LensModel
    state: ExplorerState
    texts: tuple[ClickedText, ClickedText]
    prompts: tuple[TokenizedPrompt, TokenizedPrompt]
    reading: EmbeddingReader

    @classmethod
    def of(
        cls, model: LensModel, state: ExplorerState, text: ClickedText, second: ClickedText
    ) -> TwoTexts:
        """Everything is checked here, before anything is run.

        Raises:
            InputError: what cannot be.
        """
        check_model(model)
        units = text.units(model) if state.units is None else state.units
        others = second.units(model) if state.second_units is None else state.second_units
        state = replace(state, units=units, second_units=others)
        check_state(state, text.n_words, second.n_words, model.n_layers)
        model.require("hidden", *(POOLS if units or others else ()))
        if state.transplant is not None:
            raise InputError("a transplant between texts of an encoder: choose units instead")
        if state.answer is not None or state.target:
            raise InputError("an encoder answers nothing: leave answer and target out")
        reading = embedding_reader(model, "model")
        prompts = tuple(
            tokenize_prompts(
                model.tokenizer,
                [Example(one.prompt.text, "", spans=tuple(one.span(unit) for unit in ranges))],
                unit="span",
            )[0]
            for one, ranges in ((text, units), (second, others))
        )
        check_first(reading, prompts, model.name)
        names = ("the text", "the second text")
        try:
            check_prompts(model, prompts, names.__getitem__, collapse="Use a shorter text.")
            check_ids(model, max(int(prompt.ids.max()) for prompt in prompts))
        except InputError as error:
            raise type(error)(plain(error)) from error
        return cls(model, state, (text, second), (prompts[0], prompts[1]), reading)

    @cached_property
    def batches(self) -> tuple[PromptBatch, PromptBatch]:
        one, two = (PromptBatch.of([prompt], self.model.device) for prompt in self.prompts)
        return one, two

    @property
    def pools(self) -> bool:
        return any(prompt.affected for prompt in self.prompts)

    @contextmanager
    def knocked_out(self, index: int) -> Iterator[None]:
        """Words of one text, and heads, for the length of a ``with`` block."""
        state = self.state
        words = (state.knocked_out, state.second_knocked_out)[index]
        with ExitStack() as blocks:
            if words:
                keys = torch.from_numpy(self.texts[index].tokens(words))[None].to(self.model.device)
                blocks.enter_context(mask_attention(self.model, keys=keys))
            if state.heads:
                blocks.enter_context(ablate(self.model, heads=list(state.heads)))
            yield

    def embedded(self, index: int, pooling: tuple[int, Any] | None) -> Float[Tensor, "d_model"]:
        """One text, with its units pooled at a layer in a way, or not."""
        model, batch, prompt = self.model, self.batches[index], self.prompts[index]
        if pooling is None or not prompt.affected:
            hidden = model.encode(batch.tokens, attention_mask=batch.mask)
            return self.reading(hidden, batch.mask, batch.special)[0]
        groups = torch.from_numpy(prompt.groups)[None].to(model.device)
        with pool_at(model, pooling[0], groups, pooling[1]) as record:
            hidden = model.encode(batch.tokens, attention_mask=batch.mask)
        layout = record.layout
        assert layout is not None, "the call was made above"
        # [1 group]: 1 where a position holds a special token
        special = torch.zeros_like(layout.mask).scatter_reduce_(
            1, layout.of_token.clamp(min=0), batch.special, reduce="amax", include_self=True
        )
        return self.reading(hidden, layout.mask, special)[0]

    def cosine(self, pooling: tuple[int, Any] | None, *, clean: bool = False) -> float:
        """Of the two embeddings, in float64; ``clean``: nothing is knocked out."""
        vectors = []
        for index in (0, 1):
            if clean:
                vectors.append(self.embedded(index, pooling))
                continue
            with self.knocked_out(index):
                vectors.append(self.embedded(index, pooling))
        one, two = (
            torch.nn.functional.normalize(vector.double(), dim=0, eps=0.0) for vector in vectors
        )
        value = float((one * two).sum())
        if value != value:
            raise InputError("there is no cosine: an embedding is zero, NaN or infinite")
        return min(max(value, -1.0), 1.0)

    def curve(self, layers: Sequence[int]) -> pd.DataFrame:
        """The cosine at each of these layers: columns layer, pooling, value."""
        if not self.pools:
            return pd.DataFrame({"layer": [], "pooling": [], "value": []})
        state = self.state
        if state.knocked_out or state.second_knocked_out or state.heads:
            ways = [how for how in (*POOLINGS, *CONTROLS) if how != "shuffled"]
            rows = [(layer, how, self.cosine((layer, how))) for layer in layers for how in ways]
            return pd.DataFrame(rows, columns=["layer", "pooling", "value"])
        texts = [PreparedText(i, prompt) for i, prompt in enumerate(self.prompts)]
        pair = Pair(texts[0].prompt.text, texts[1].prompt.text, score=0.0)
        prepared = PreparedSimilarity(
            kind=SimilarityCurve,
            model=self.model,
            config={},
            batches=[],
            items=[],
            seed=SEED,
            reading=self.reading,
            layers=layers,
            poolings=with_controls({name: name for name in POOLINGS}, CONTROLS),
        )
        rows_of = prepared.rows([PreparedTexts(0, pair, texts[0], texts[1])])
        rows_of = rows_of[rows_of["pooling"] != NONE].rename(columns={"cosine": "value"})
        return rows_of[["layer", "pooling", "value"]].reset_index(drop=True)

    def values(self) -> dict[str, Any]:
        """The cosine, clean and under all that was chosen."""
        state = self.state
        clean = self.cosine(None, clean=True)
        now = self.cosine((state.layer, state.how))
        return {
            "asked": None,
            "measure": "cosine of the two texts",
            "numbers": [["Cosine", clean, now, 4]],
            "probability": None,
            "top": [],
            "flat": self.cosine(None),
            "highest": None,
            "pools": self.pools,
        }
