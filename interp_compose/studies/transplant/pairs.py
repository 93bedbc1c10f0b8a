"""Pairs, checked and tokenized: where their phrases lie, and which tokens their answers are.

Everything that is wrong with a pair is refused here, before any work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from interp_compose.errors import AnswerError, InputError, InterventionError, SpanError
from interp_compose.interventions.transplants import Places
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.core.bad_examples import sound
from interp_compose.studies.core.inputs import Batch, Prepared, prepare_all
from interp_compose.studies.core.options import OnBad, PromptOptions
from interp_compose.tasks.transplants import TransplantPair, read_transplants
from interp_compose.types import Example, Span

Row = tuple[str, str, Span | None]
"""A prompt, its answer, and a phrase of it."""
REMEDY: Final = "Use shorter prompts."


@dataclass(frozen=True)
class PreparedPair:
    """One pair, ready to run.

    Attributes:
        index: its place in the user's list.
        pair: as the user gave it.
        source, target, expected, composed: the prompts with their answers; ``expected`` is the
            target with the expected answer, ``composed`` None where it is not known.
        source_phrase, target_phrase: which tokens the phrases are.
        remembered: the token of the source's own answer; -1 where it is not known.
        donor: the index of the pair whose source phrase is this one's random phrase; -1 for none.
    """

    index: int
    pair: TransplantPair
    source: Prepared
    target: Prepared
    expected: Prepared
    composed: Prepared | None
    source_phrase: Bool[np.ndarray, "source_pos"]
    target_phrase: Bool[np.ndarray, "target_pos"]
    remembered: int = -1
    donor: int = -1

    @property
    def differs(self) -> bool:
        """Whether the phrases have different tokens."""
        return self.moved != tuple(self.target.prompt.ids[self.target_phrase].tolist())

    @property
    def moved(self) -> tuple[int, ...]:
        """The tokens of the source's phrase."""
        return tuple(self.source.prompt.ids[self.source_phrase].tolist())


def prepare_pairs(
    model: LensModel,
    pairs: Iterable[TransplantPair | Mapping[str, Any]],
    *,
    seed: int,
    controls: bool,
    on_bad: OnBad = "refuse",
) -> tuple[list[PreparedPair], dict[str, int]]:
    """Check and tokenize every pair, and choose the random phrase of each; and, with ``"skip"``,
    how many pairs were left out for what of them.

    Raises:
        InputError: no pair; an answer of several tokens; an expected answer that is the untouched
            one; a phrase that is empty, cuts a token, or holds the position that predicts; see
            :func:`.inputs.prepare_all` for what else is refused.
        InterventionError: the phrases of every pair have the same tokens.
    """
    rows = list(pairs)
    prepared, skipped = sound(rows, partial(_prepared, model), on_bad, "pairs")
    if not any(one.differs for one in prepared):
        raise InterventionError(
            f"transplants would change nothing: in each of the {len(prepared)} pairs the source's "
            f"phrase is the target's, {prepared[0].pair.source_phrase!r} in the first. Give pairs "
            "with different phrases."
        )
    return (with_donors(prepared, seed) if controls else prepared), skipped


def _prepared(
    model: LensModel, pairs: Sequence[TransplantPair | Mapping[str, Any]]
) -> list[PreparedPair]:
    read = read_transplants(pairs)
    source = _prompts(model, [(one.source, "", one.source_span) for one in read], "source")
    target = _prompts(
        model, [(one.target, one.answer, one.target_span) for one in read], "target", "answer"
    )
    expected = _prompts(
        model, [(one.target, one.expected, one.target_span) for one in read], "target", "expected"
    )
    known = [i for i, one in enumerate(read) if one.composed]
    texts: list[Row] = [(read[i].composed, read[i].expected, None) for i in known]
    composed = dict(zip(known, _prompts(model, texts, "composed", "expected"), strict=True))
    known = [i for i, one in enumerate(read) if one.source_answer]
    texts = [(read[i].target, read[i].source_answer, read[i].target_span) for i in known]
    remembered = dict(zip(known, _prompts(model, texts, "target", "source_answer"), strict=True))
    prepared = []
    for i, one in enumerate(read):
        others = {"answer": target[i]}
        if i in remembered:
            others["source_answer"] = remembered[i]
        for name, other in others.items():
            if expected[i].answer_ids == other.answer_ids:
                raise AnswerError(
                    f"pair {i}: the expected answer {one.expected!r} is the token of its {name}, "
                    "so that no prediction could tell the two apart; give another answer, or "
                    "leave the pair out"
                )
        prepared.append(
            PreparedPair(
                i,
                one,
                source[i],
                target[i],
                expected[i],
                composed.get(i),
                _phrase(source[i], one.source_span),
                _phrase(target[i], one.target_span),
                remembered[i].answer_ids[0] if i in remembered else -1,
            )
        )
        _refuse_prediction(prepared[-1])
    return prepared


def _prompts(
    model: LensModel,
    rows: Sequence[Row],
    which: str,
    answer: str | None = None,
) -> list[Prepared]:
    """Prompts, their answers and, as units, their phrases."""
    examples = [Example(text, told, (span,) if span else ()) for text, told, span in rows]
    if not examples:
        return []
    with _told(f"the {which} prompts" + (f" with their key {answer!r}" if answer else "")):
        asked = PromptOptions(unit="span")
        remedy = REMEDY if which == "target" else None  # the others keep their length
        return prepare_all(model, examples, asked, collapse=remedy, answered=answer is not None)


@contextmanager
def _told(which: str) -> Iterator[None]:
    """Messages say which of a pair's prompts they count."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"of {which}, {error}") from error


def _phrase(prompt: Prepared, span: Span) -> Bool[np.ndarray, "pos"]:
    """The tokens of a phrase: the unit of its first character that is not blank. A last token that
    :func:`.inputs.prepare` has set apart belongs to it."""
    tokens, text = prompt.prompt, prompt.example.prompt[slice(*span)]
    first = span[0] + len(text) - len(text.lstrip())
    covers = (tokens.offsets[:, 0] <= first) & (first < tokens.offsets[:, 1])
    members = np.isin(tokens.groups, tokens.groups[covers & (tokens.groups >= 0)])
    members[-1] |= tokens.groups[-1] >= 0 and tokens.offsets[-1, 0] < span[1]
    return members


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
    out = []
    for i, one in enumerate(pairs):
        own = {moved[i], tuple(one.target.prompt.ids[one.target_phrase].tolist())}
        order = np.random.default_rng([seed, one.index]).permutation(len(pairs)).tolist()
        donor = next(
            (
                j
                for j in order
                if moved[j] not in own and pairs[j].pair.source_type == one.pair.source_type
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
        out.append(replace(one, donor=pairs[donor].index))
    return out


def pairs_digest(pairs: Sequence[PreparedPair]) -> str:
    """Of everything the run reads: texts, tokens, phrases, answers."""
    digest = hashlib.sha256()
    for one in pairs:
        row: list[Any] = [*one.target.answer_ids, *one.expected.answer_ids]
        row += [one.remembered, one.donor]
        for prompt in filter(None, (one.source, one.target, one.composed)):
            row += [prompt.example.prompt, prompt.prompt.ids.tolist()]
        row += [one.source_phrase.tolist(), one.target_phrase.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


def places_of(
    pairs: Sequence[PreparedPair],
    donors: Sequence[PreparedPair],
    targets: Batch,
    sources: Batch,
) -> Places:
    """Where the phrases of a batch lie; the sources of ``donors`` stand behind the pairs' own."""
    layout = targets.layout([one.target.prompt.groups for one in pairs])
    phrase = np.full(tuple(sources.tokens.shape), -1)
    for row, one in enumerate((*pairs, *donors)):
        phrase[row, -len(one.source_phrase) :][one.source_phrase] = 0
    device, width = targets.tokens.device, targets.tokens.shape[1]
    first = [width - len(one.target_phrase) + int(one.target_phrase.argmax()) for one in pairs]
    return Places(
        layout,
        layout.of_token.gather(1, torch.tensor(first).to(device)[:, None])[:, 0],
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
