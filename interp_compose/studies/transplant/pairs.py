"""Pairs, checked and tokenized: where their phrases lie, and which tokens their answers are.

Everything that is wrong with a pair is refused here, before any work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.errors import AnswerError, InputError, InterventionError, SpanError
from interp_compose.interventions.transplants import Places
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.core.bad_examples import sound
from interp_compose.studies.core.inputs import PreparedExample, PromptBatch, prepare_all
from interp_compose.studies.core.options import AnswerOptions, OnBad
from interp_compose.tasks.transplants import TransplantPair, TransplantRow, read_transplants
from interp_compose.types import Example, Span

Row = tuple[str, str, Span | None]
"""A prompt, its answer, and a phrase of it."""
ANSWERS: Final = {"expected": "expected", "untouched": "answer", "remembered": "source_answer"}
"""The answers that a prompt is compared with, and what a pair calls them."""
REMEDY: Final = "Use shorter prompts."


@dataclass(frozen=True)
class Answered:
    """A prompt with each answer, the tokens of which but the last are run behind it.

    ``expected`` is what the composed sentence would mean, ``untouched`` the target's answer, and
    ``remembered`` the source's, None where that is not known.
    """

    expected: PreparedExample
    untouched: PreparedExample
    remembered: PreparedExample | None

    @property
    def answers(self) -> dict[str, PreparedExample]:
        """By name, those that are known."""
        named = {name: getattr(self, name) for name in ANSWERS}
        return {name: one for name, one in named.items() if one is not None}

    @property
    def rows(self) -> dict[tuple[int, ...], PreparedExample]:
        """What has to be run, by what follows the prompt; one row where all answers are tokens."""
        return {one.answer_ids[:-1]: one for one in self.answers.values()}


@dataclass(frozen=True)
class PreparedPair:
    """One pair, ready to run.

    Attributes:
        index: its place in the user's list.
        pair: as the user gave it.
        source, target, composed: the prompts; ``composed`` is None where it is not known.
        source_phrase, target_phrase: which tokens the phrases are.
        donor: the index of the pair whose source phrase is this one's random phrase; -1 for none.
    """

    index: int
    pair: TransplantPair
    source: PreparedExample
    target: Answered
    composed: Answered | None
    source_phrase: Bool[np.ndarray, "source_pos"]
    target_phrase: Bool[np.ndarray, "target_pos"]
    donor: int = -1

    @property
    def differs(self) -> bool:
        """Whether the phrases have different tokens."""
        return self.moved != self.replaced

    @property
    def moved(self) -> tuple[int, ...]:
        """The tokens of the source's phrase."""
        return tuple(_tokens(self.source)[self.source_phrase].tolist())

    @property
    def replaced(self) -> tuple[int, ...]:
        """The tokens of the target's phrase."""
        return tuple(_tokens(self.target.expected)[self.target_phrase].tolist())

    @property
    def longest(self) -> PreparedExample:
        """The target with the answer of the most tokens."""
        return max(self.target.answers.values(), key=lambda one: len(one.answer_ids))


@dataclass(frozen=True)
class AnswerRow:
    """A row of a batch: a pair's target, or its composed prompt, and some of its answers' tokens
    behind it."""

    pair: PreparedPair
    row: PreparedExample


def runs_of(pairs: Sequence[PreparedPair], *, composed: bool = False) -> list[AnswerRow]:
    """Every row that has to be run for the answers of these pairs' targets, or composed prompts."""
    prompts = [(pair, pair.composed if composed else pair.target) for pair in pairs]
    return [AnswerRow(pair, row) for pair, one in prompts if one for row in one.rows.values()]


def prepare_pairs(
    model: LensModel,
    pairs: Iterable[TransplantRow],
    *,
    seed: int,
    controls: bool,
    several: bool,
    on_bad: OnBad = "refuse",
) -> tuple[list[PreparedPair], dict[str, int]]:
    """Check and tokenize every pair, and choose the random phrase of each; and, with ``"skip"``,
    how many pairs were left out for what of them.

    Raises:
        InputError: no pair; an answer of several tokens, unless ``several``; an expected answer
            that no prediction could tell from another one; a phrase that is empty, cuts a token, or
            holds the position that predicts; see :func:`.inputs.prepare_all` for what else is
            refused.
        InterventionError: the phrases of every pair have the same tokens.
    """
    rows = list(pairs)
    prepared, skipped = sound(rows, partial(_prepared, model, several=several), on_bad, "pairs")
    if not any(one.differs for one in prepared):
        raise InterventionError(
            f"transplants would change nothing: in each of the {len(prepared)} pairs the source's "
            f"phrase is the target's, {prepared[0].pair.source_phrase!r} in the first. Give pairs "
            "with different phrases."
        )
    return (with_donors(prepared, seed) if controls else prepared), skipped


def _prepared(
    model: LensModel,
    pairs: Sequence[TransplantRow],
    *,
    several: bool,
) -> list[PreparedPair]:
    checked = read_transplants(pairs)
    prompts = partial(_prompts, model, several=several)
    source = prompts([(one.source, "", one.source_span) for one in checked], "source")
    target = _answered(prompts, checked, "target", range(len(checked)))
    known = [i for i, one in enumerate(checked) if one.composed]
    composed = dict(zip(known, _answered(prompts, checked, "composed", known), strict=True))
    prepared = []
    for i, one in enumerate(checked):
        _check_apart(i, one, target[i])
        prepared.append(
            PreparedPair(
                i,
                one,
                source[i],
                target[i],
                composed.get(i),
                _phrase(source[i], one.source_span),
                _phrase(target[i].expected, one.target_span),
            )
        )
        _refuse_prediction(prepared[-1])
    return prepared


def _answered(
    prompts: Callable[..., list[PreparedExample]],
    pairs: Sequence[TransplantPair],
    which: str,
    chosen: Sequence[int],
) -> list[Answered]:
    """The targets or composed prompts of the ``chosen`` pairs, with every answer that is known."""
    by_name: dict[str, dict[int, PreparedExample]] = {}
    for name, key in ANSWERS.items():
        known = [i for i in chosen if getattr(pairs[i], key)]
        texts: list[Row] = [
            (
                getattr(pairs[i], which),
                getattr(pairs[i], key),
                pairs[i].target_span if which == "target" else None,
            )
            for i in known
        ]
        by_name[name] = dict(zip(known, prompts(texts, which, key), strict=True))
    expected, untouched, remembered = by_name.values()
    return [Answered(expected[i], untouched[i], remembered.get(i)) for i in chosen]


def _check_apart(index: int, pair: TransplantPair, target: Answered) -> None:
    """Refuse an expected answer that another one is, or begins with, or that begins with it."""
    expected = target.expected.answer_ids
    for name, other in target.answers.items():
        n = min(len(expected), len(other.answer_ids))
        if name != "expected" and expected[:n] == other.answer_ids[:n]:
            what = (
                "is the token of"
                if n == len(expected) == len(other.answer_ids) == 1
                else ("begins with the tokens of, or is the beginning of,")
            )
            raise AnswerError(
                f"pair {index}: the expected answer {pair.expected!r} {what} its {ANSWERS[name]}, "
                "so that no prediction could tell the two apart; give another answer, or leave the "
                "pair out"
            )


def _prompts(
    model: LensModel,
    rows: Sequence[Row],
    which: str,
    answer: str | None = None,
    *,
    several: bool,
) -> list[PreparedExample]:
    """Prompts, their answers and, as units, their phrases."""
    examples = [Example(text, reply, (span,) if span else ()) for text, reply, span in rows]
    if not examples:
        return []
    options = AnswerOptions(unit="span", multi_token_answers=several)
    remedy = REMEDY if which == "target" else None  # the others keep their length
    try:
        return prepare_all(model, examples, options, collapse=remedy, answered=answer is not None)
    except InputError as error:  # it says which of a pair's prompts it counts
        key = f" with their key {answer!r}" if answer else ""
        raise type(error)(f"of the {which} prompts{key}, {error}") from error


def _tokens(prompt: PreparedExample) -> Int[np.ndarray, "pos"]:
    """Those of the text alone, without an answer's."""
    return prompt.prompt.ids[: prompt.n_before]


def _phrase(prompt: PreparedExample, span: Span) -> Bool[np.ndarray, "pos"]:
    """The tokens of a phrase: the unit of its first character that is not blank. A last token that
    :func:`.inputs.prepare` has set apart belongs to it."""
    tokens, text = prompt.prompt, prompt.example.prompt[slice(*span)]
    start = span[0] + len(text) - len(text.lstrip())
    covers = (tokens.offsets[:, 0] <= start) & (start < tokens.offsets[:, 1])
    members = np.isin(tokens.groups, tokens.groups[covers & (tokens.groups >= 0)])
    last = prompt.n_before - 1
    members[last] |= tokens.groups[last] >= 0 and tokens.offsets[last, 0] < span[1]
    return members[: prompt.n_before]


def _refuse_prediction(prepared: PreparedPair) -> None:
    if prepared.target_phrase[-1]:
        pair = prepared.pair
        raise SpanError(
            f"pair {prepared.index}: the target's phrase {pair.target_phrase!r} holds the last "
            f"token of {pair.target!r}, from which the answer is predicted; end the prompt with at "
            "least one token more, or choose another phrase"
        )


def with_donors(pairs: Sequence[PreparedPair], seed: int) -> list[PreparedPair]:
    """Each pair with the index of another one, drawn at random, whose source phrase is of the same
    type and has other tokens than both of its own phrases. Seeded by ``(seed, index)``.

    Raises:
        InputError: there is none.
    """
    moved = [one.moved for one in pairs]
    prepared = []
    for i, one in enumerate(pairs):
        excluded = {moved[i], one.replaced}
        order = np.random.default_rng([seed, one.index]).permutation(len(pairs)).tolist()
        donor = next(
            (
                j
                for j in order
                if moved[j] not in excluded and pairs[j].pair.source_type == one.pair.source_type
            ),
            None,
        )
        if donor is None:
            kind = f" of the type {one.pair.source_type!r}" if one.pair.source_type else ""
            raise InputError(
                f"pair {one.index}: no other pair has a source phrase{kind} that is neither "
                f"{one.pair.source_phrase!r} nor {one.pair.target_phrase!r}, which the control "
                "'random phrase' takes; give more pairs, or pass controls=False"
            )
        prepared.append(replace(one, donor=pairs[donor].index))
    return prepared


def pairs_digest(pairs: Sequence[PreparedPair]) -> str:
    """Of everything the run reads: texts, tokens, phrases, answers."""
    digest = hashlib.sha256()
    for one in pairs:
        target, remembered = one.target, one.target.remembered
        row: list[Any] = [*target.untouched.answer_ids, *target.expected.answer_ids]
        row += [*((-1,) if remembered is None else remembered.answer_ids), one.donor]
        composed = [] if one.composed is None else [one.composed.expected]
        for prompt in (one.source, target.expected, *composed):
            row += [prompt.example.prompt, _tokens(prompt).tolist()]
        row += [one.source_phrase.tolist(), one.target_phrase.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


def places_of(
    runs: Sequence[AnswerRow],
    donors: Sequence[PreparedPair],
    targets: PromptBatch,
    sources: PromptBatch,
) -> Places:
    """Where the phrases of a batch lie; the sources of ``donors`` come behind the pairs' own."""
    layout = targets.layout([run.row.prompt.groups for run in runs])
    phrase = np.full(tuple(sources.tokens.shape), -1)
    pairs = [run.pair for run in runs]
    for row, one in enumerate((*pairs, *donors)):
        phrase[row, -len(one.source_phrase) :][one.source_phrase] = 0
    device, width = targets.tokens.device, targets.tokens.shape[1]
    starts = [width - run.row.n_tokens + int(run.pair.target_phrase.argmax()) for run in runs]
    return Places(
        layout,
        layout.of_token.gather(1, torch.tensor(starts).to(device)[:, None])[:, 0],
        torch.from_numpy(phrase).to(device),
        torch.tensor([one.differs for one in pairs]).to(device),
    )


def directions(
    pairs: Sequence[PreparedPair], d_model: int, seed: int, like: Tensor
) -> Float[Tensor, "pair d_model"]:
    """A Gaussian vector for each pair, the same in any batch, at every layer and of every pooling;
    seeded by ``(seed, index)``."""
    drawn = [np.random.default_rng([seed, one.index]).standard_normal(d_model) for one in pairs]
    return torch.from_numpy(np.stack(drawn)).to(like.device, torch.float32)
