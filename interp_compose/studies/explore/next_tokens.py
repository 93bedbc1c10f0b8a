"""What a decoder, or an encoder–decoder, answers under what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.errors import InputError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling_sweep import with_controls
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.lens_model import LensModel
from interp_compose.models.texts import output_tokenizer
from interp_compose.studies.cap.measure import OTHER_SPANS, PreparedCap
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.cap.result import CapCurve
from interp_compose.studies.core.inputs import (
    CLEAN,
    AnswerTargets,
    PreparedExample,
    PromptBatch,
    prepare_all,
)
from interp_compose.studies.explore.state import ExplorerState, check_state
from interp_compose.studies.explore.transplanted import MovedPhrase
from interp_compose.studies.explore.words import POOLS, ClickedText, plain
from interp_compose.types import Example

POOLINGS: Final = ("mean", "max", "sum")
CONTROLS: Final = ("last", "first", "shuffled")
OPTIONS: Final = CapOptions(unit="span", multi_token_answers=True, pooling=POOLINGS, progress=False)
N_TOP: Final = 5
LONGEST_TARGET: Final = 40
"""Tokens that an encoder–decoder generates where no answer is given."""


@dataclass(frozen=True, eq=False)
class NextTokens:
    """One text and its answer, ready to run.

    Attributes:
        state: with ``units`` filled in.
        text, second: in words; ``second`` is None without a transplant's source.
        item: tokens, units and answer.
        answer: the answer's text.
    """

    model: LensModel
    state: ExplorerState
    text: ClickedText
    second: ClickedText | None
    item: PreparedExample
    answer: str

    @classmethod
    def of(
        cls,
        model: LensModel,
        state: ExplorerState,
        text: ClickedText,
        second: ClickedText | None,
    ) -> NextTokens:
        """Everything is checked here, before anything is run but what the clean model answers.

        Raises:
            InputError: what cannot be.
        """
        state = replace(state, units=text.units(model) if state.units is None else state.units)
        n_second = 0 if second is None else second.n_words
        check_state(state, text.n_words, n_second, model.n_layers)
        if state.units:
            model.require(*POOLS)
        moved = state.transplant
        units = state.units if moved is None else moved[1:]
        example = Example(
            state.text,
            state.answer or "",
            spans=tuple(text.span(unit) for unit in units or ()),
            target=state.target,
        )
        if state.answer is None:
            answer, item = _clean_answer(model, example)
        else:
            answer, item = state.answer, _prepared(model, example, answered=True)
        return cls(model, state, text, second, item, answer)

    @cached_property
    def batch(self) -> PromptBatch:
        return PromptBatch.of([self.item.prompt], self.model.device)

    @cached_property
    def targets(self) -> AnswerTargets:
        return AnswerTargets.of([self.item], self.model.device)

    @cached_property
    def groups(self) -> Int[Tensor, "1 pos"]:
        """The unit of each token."""
        return torch.from_numpy(self.item.prompt.groups)[None].to(self.model.device)

    @cached_property
    def keys(self) -> Bool[Tensor, "1 pos"]:
        """True at the tokens of words that are knocked out."""
        keys = torch.zeros_like(self.batch.tokens, dtype=torch.bool)
        of_text = torch.from_numpy(self.text.tokens(self.state.knocked_out))
        keys[0, : len(of_text)] = of_text  # behind the text come a target's and an answer's tokens
        return keys

    @property
    def pools(self) -> bool:
        """Whether some unit has several tokens, which pooling changes."""
        return self.item.affected

    @cached_property
    def moved(self) -> MovedPhrase | None:
        """The transplant, where one was chosen."""
        if self.state.transplant is None:
            return None
        assert self.second is not None, "check_state has refused a phrase of no text"
        return MovedPhrase.of(self.model, self.item, self.text, self.second, self.state.transplant)

    # ---- runs ----------------------------------------------------------------------------

    @contextmanager
    def knocked_out(self) -> Iterator[None]:
        """Words and heads, for the length of a ``with`` block."""
        with ExitStack() as blocks:
            if self.state.knocked_out:
                blocks.enter_context(mask_attention(self.model, keys=self.keys))
            if self.state.heads:
                blocks.enter_context(ablate(self.model, heads=list(self.state.heads)))
            yield

    def run(self) -> Float[Tensor, "1 answer d_vocab"]:
        """Logits at the positions that the answer's tokens are predicted from."""
        logits: Tensor = self.model.forward(
            self.batch.tokens, attention_mask=self.batch.mask, read=self.targets.read
        )
        return logits[:, -self.targets.n_read :]

    def pooled(
        self, layer: int, how: Any, groups: Int[Tensor, "1 pos"]
    ) -> Float[Tensor, "1 answer d_vocab"]:
        """The same, after pooling."""
        with pool_at(self.model, layer, groups, how):
            return self.run()

    def changed(self) -> Float[Tensor, "1 answer d_vocab"]:
        """The same, under all that was chosen."""
        state = self.state
        if self.moved is not None:
            # [1 vector answer d_vocab] -> of the transplant itself, the first vector
            return self.moved.logits([state.layer], state.how, self.targets.read)[0, :1]
        with self.knocked_out():
            if not self.pools:
                return self.run()
            return self.pooled(state.layer, state.how, self.groups)

    def curve(self, layers: Sequence[int]) -> pd.DataFrame:
        """log P of the answer at each of these layers: columns layer, pooling, value."""
        if self.moved is not None:
            return self.moved.curve(layers, self.state.how, self.targets)
        if not self.pools:
            return pd.DataFrame({"layer": [], "pooling": [], "value": []})
        with self.knocked_out():
            # A sweep runs on parts of the model, which these blocks are not made for.
            knocked_out = self.state.knocked_out or self.state.heads
            return self._one_by_one(layers) if knocked_out else self._swept(layers)

    def _swept(self, layers: Sequence[int]) -> pd.DataFrame:
        """As :func:`cap_curve` has it, of this one example."""
        prepared = PreparedCap(
            kind=CapCurve,
            model=self.model,
            config={},
            batches=[],
            items=[self.item],
            options=OPTIONS,
            layers=layers,
            poolings=with_controls({name: name for name in POOLINGS}, CONTROLS),
        )
        rows = prepared.rows([self.item])
        rows = rows[rows["layer"] != CLEAN].rename(columns={"target_logprob": "value"})
        return rows[["layer", "pooling", "value"]].reset_index(drop=True)

    def _one_by_one(self, layers: Sequence[int]) -> pd.DataFrame:
        """A call for each layer and pooling. Where words are knocked out there is no "shuffled":
        its spans join tokens that are with others that are not."""
        shuffled = OTHER_SPANS["shuffled"](self.item, OPTIONS.seed)
        others = {"shuffled": torch.tensor([shuffled], device=self.model.device)}
        ways = [
            how for how in (*POOLINGS, *CONTROLS) if how not in others or not self.state.knocked_out
        ]
        rows = []
        for layer in layers:
            for how in ways:
                groups, by = others.get(how, self.groups), "mean" if how in others else how
                rows.append((layer, how, self.outcome(self.pooled(layer, by, groups))[0]))
        return pd.DataFrame(rows, columns=["layer", "pooling", "value"])

    # ---- what is shown -------------------------------------------------------------------

    def outcome(self, logits: Float[Tensor, "1 answer d_vocab"]) -> tuple[float, int]:
        """The answer's log-probability and rank."""
        _, logprob, rank, finite = self.targets.outcomes(logits)[0].tolist()
        if not finite:
            raise InputError("the logits are not finite: load the model in float32")
        return logprob, int(rank)

    def values(self) -> dict[str, Any]:
        """Numbers and the most likely tokens, clean and under all that was chosen."""
        clean, now = self.run(), self.changed()
        flat = self.outcome(clean)[0]
        if self.state.knocked_out or self.state.heads:
            with self.knocked_out():
                flat = self.outcome(self.run())[0]
        (clean_logprob, clean_rank), (logprob, rank) = self.outcome(clean), self.outcome(now)
        probabilities = now[0, 0].double().softmax(dim=0)  # [d_vocab], after the prompt
        top = probabilities.topk(min(N_TOP, len(probabilities)))
        decode, first = output_tokenizer(self.model).decode, self.item.answer_ids[0]
        return {
            "asked": self.answer,
            "measure": f"log P({self.answer.strip() or repr(self.answer)})",
            "numbers": [
                ["Log-probability (nats)", clean_logprob, logprob, 4],
                ["Rank", clean_rank, rank, 0],
            ],
            "probability": [clean_logprob, logprob],
            "top": [
                [str(decode([token])), probability, token == first]
                for token, probability in zip(
                    top.indices.tolist(), top.values.tolist(), strict=True
                )
            ],
            "flat": flat,
            "highest": 0,
            "pools": self.pools or self.moved is not None,
        }


def _prepared(model: LensModel, example: Example, *, answered: bool) -> PreparedExample:
    try:
        return prepare_all(
            model, [example], OPTIONS, collapse="Use a shorter text.", answered=answered
        )[0]
    except InputError as error:
        raise type(error)(plain(error)) from error


def _clean_answer(model: LensModel, example: Example) -> tuple[str, PreparedExample]:
    """What the model answers when nothing acts on it: its most likely token; of an encoder–decoder
    the target that it generates."""
    item = _prepared(model, example, answered=False)
    if isinstance(model, EncoderDecoderModel) and not example.target:
        written = model.generate(example.prompt, LONGEST_TARGET)
        if written.strip():
            return written, _prepared(model, replace(example, answer=written), answered=True)
    batch = PromptBatch.of([item.prompt], model.device)
    logits = model.forward(batch.tokens, attention_mask=batch.mask, read="last")
    token = int(logits[0, -1].argmax())
    return str(output_tokenizer(model).decode([token])), replace(item, answer_ids=(token,))
