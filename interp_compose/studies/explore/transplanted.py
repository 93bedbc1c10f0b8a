"""A phrase's vector of the second text in the place of a phrase of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import CapabilityError, SpanError
from interp_compose.interventions.pooling import PooledLayout
from interp_compose.interventions.streams import StreamSweep, resumed
from interp_compose.interventions.transplants import Places, Vector, entering
from interp_compose.models.base import Streams
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import chunk_tokens
from interp_compose.models.ready import check_prompts
from interp_compose.studies.core.inputs import AnswerTargets, PreparedExample, PromptBatch
from interp_compose.studies.explore.state import Range
from interp_compose.studies.explore.words import ClickedText
from interp_compose.types import Read

VECTORS: Final[tuple[Vector, ...]] = ("transplant", "own", "random direction")
"""The transplant, and its controls that one pair of texts has: the phrase's own vector, pooled, and
a random direction of the transplant's norm."""
SEED: Final = (42, 0)
"""Of the direction: that of :func:`.pairs.directions` for a first pair, by default."""


@dataclass(frozen=True, eq=False)
class MovedPhrase:
    """Two texts and a phrase of each.

    Attributes:
        target, source: as batches of one.
        places: of the phrases.
    """

    model: LensModel
    target: PromptBatch
    source: PromptBatch
    places: Places

    @classmethod
    def of(
        cls,
        model: LensModel,
        item: PreparedExample,
        text: ClickedText,
        second: ClickedText,
        phrases: tuple[Range, Range],
    ) -> MovedPhrase:
        """Raises CapabilityError for an encoder–decoder, SpanError for a phrase that holds the
        token from which the answer is predicted."""
        if len(model.stacks) > 1:
            raise CapabilityError(
                f"{model.name!r} reads two texts, and a transplant has a place in one"
            )
        model.require("resume", "positions")
        check_prompts(model, [second.prompt], lambda index: "the second text", collapse=None)
        taken = second.tokens([*range(*phrases[0])])  # [source pos]
        replaced = np.flatnonzero(text.tokens([*range(*phrases[1])]))  # token positions
        if replaced[-1] == item.n_before - 1:
            raise SpanError(
                f"the phrase {text.phrase(phrases[1])!r} holds the last token of the text, from "
                "which the answer is predicted; choose another phrase"
            )
        target = PromptBatch.of([item.prompt], model.device)
        source = PromptBatch.of([second.prompt], model.device)
        layout = target.layout([item.prompt.groups])
        device = model.device
        ids = text.prompt.ids[replaced].tolist()
        differs = second.prompt.ids[taken].tolist() != ids
        places = Places(
            layout,
            layout.of_token[:, replaced[0]],
            torch.from_numpy(np.where(taken, 0, -1))[None].to(device),
            torch.tensor([differs]).to(device),
        )
        return cls(model, target, source, places)

    @property
    def layout(self) -> PooledLayout:
        return self.places.layout

    def _streams(self, layers: Sequence[int], how: Any, n_read: int) -> StreamSweep:
        """At each layer, a stream for each of :data:`VECTORS`."""
        model, target, source = self.model, self.target, self.source
        names = [f"blocks.{layer}.hook_resid_pre" for layer in layers]
        _, resid = model.capture(target.tokens, names, attention_mask=target.mask, read="last")
        _, given = model.capture(source.tokens, names, attention_mask=source.mask, read="last")
        direction = np.random.default_rng(SEED).standard_normal(model.d_model)
        random = torch.from_numpy(direction)[None].to(model.device, torch.float32)  # [1 d_model]
        positions = self.layout.positions(model.positions(target.tokens, target.mask))
        streams = StreamSweep(
            model,
            self.layout.mask.repeat(len(VECTORS), 1),
            positions.repeat(len(VECTORS), 1),
            layers,
            max_tokens=chunk_tokens(model, self.layout.n_positions, logits=n_read),
        )
        for layer, name in zip(layers, names, strict=True):
            poolings = {how: how}
            streams.enter(
                layer,
                entering(resid[name], given[name], self.places, poolings, VECTORS, random, layer),
            )
        return streams

    def logits(
        self, layers: Sequence[int], how: Any, read: Read
    ) -> Float[Tensor, "layer vector answer d_vocab"]:
        """At the positions that ``read`` names."""
        n_read = read if isinstance(read, int) else 1

        def finish(streams: Streams, layer: int, row: Int[Tensor, "stream"]) -> Tensor:
            out: Tensor = resumed(self.model, streams, layer, read=read)
            return out[:, -n_read:]

        return self._streams(layers, how, n_read).read(finish)

    def curve(self, layers: Sequence[int], how: Any, targets: AnswerTargets) -> pd.DataFrame:
        """log P of the answer: columns layer, pooling (the name of a vector), value."""

        def finish(streams: Streams, layer: int, row: Int[Tensor, "stream"]) -> Tensor:
            logits = resumed(self.model, streams, layer, read=targets.read)
            return targets.outcomes(logits, torch.zeros_like(row))[:, 1]

        values = self._streams(layers, how, targets.n_read).read(finish)  # [layer vector]
        rows = [
            (layer, name, float(values[i, j]))
            for i, layer in enumerate(layers)
            for j, name in enumerate(VECTORS)
        ]
        return pd.DataFrame(rows, columns=["layer", "pooling", "value"])
