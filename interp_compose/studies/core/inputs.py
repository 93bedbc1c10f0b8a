"""Examples and what becomes of them: checked, tokenized, batched, and their outcomes as rows.

Everything that is wrong with an example is refused here, before any work.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import (
    CapabilityError,
    InputError,
    NonFiniteError,
    OptionError,
    PromptError,
)
from interp_compose.interventions.pooling import PooledLayout
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import batch_of_lengths, fitting_batch
from interp_compose.models.ready import check_ids, check_model, check_prompts
from interp_compose.models.texts import output_tokenizer
from interp_compose.studies.core.bad_examples import sound
from interp_compose.studies.core.examples import PREDICTIONS, TOKENS
from interp_compose.studies.core.options import AnswerOptions, LongAnswers, Options, PromptOptions
from interp_compose.tasks.examples import ExampleRow, read_example
from interp_compose.tensors import pad_left
from interp_compose.text.answers import answer_tokens
from interp_compose.text.label_set import (
    FOIL,
    VOCABULARY,
    among,
    candidate_ids,
    checked_answers,
    predicted,
    stacked,
)
from interp_compose.text.targets import source_and_target, target_starts
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts
from interp_compose.types import Example, Read

T = TypeVar("T")
CLEAN = -1
"""The layer number of the clean run's outcomes, until they get a table of their own."""


def check_decoder(model: LensModel, instead: str) -> None:
    """Refuse an encoder; ``instead`` is what its user may call."""
    if model.bidirectional:
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) is an encoder and predicts no next token; "
            f"{instead} instead."
        )


@dataclass(frozen=True)
class PreparedExample:
    """One example, ready to run: its place in the user's list, tokens, units, answer."""

    index: int
    example: Example
    prompt: TokenizedPrompt
    """The prompt and, in no unit, all tokens of the answer but the last."""
    answer_ids: tuple[int, ...]
    candidates: Int[np.ndarray, "label"] | None = None
    """The tokens that the answer is chosen among, ascending; None: the whole vocabulary."""

    @property
    def n_tokens(self) -> int:
        return len(self.prompt.ids)

    @property
    def n_before(self) -> int:
        """Tokens before the answer's."""
        return self.n_tokens - len(self.answer_ids) + 1

    @property
    def n_pooled(self) -> int:
        return self.prompt.n_pooled

    @property
    def affected(self) -> bool:
        return self.prompt.affected


def prepare(
    model: LensModel,
    examples: Iterable[ExampleRow],
    options: PromptOptions,
    *,
    collapse: str | None = None,
    answered: bool = True,
    within: bool = False,
) -> tuple[list[PreparedExample], dict[str, int]]:
    """As :func:`prepare_all`; and, where ``options.on_bad`` is ``"skip"``, how many examples were
    left out for what of them.

    ``within`` another study, whose users have neither ``on_bad`` nor ``multi_token_answers``, no
    message names these.

    Raises:
        InputError: names every example that is bad, see :func:`.bad_examples.sound`.
        TrainingModeError: the model is in training mode.
    """
    return sound(
        list(examples),
        lambda rows: prepare_all(
            model, rows, options, within=within, collapse=collapse, answered=answered
        ),
        None if within else options.on_bad,
    )


def counts_of(skipped: Mapping[str, int], rows: Iterable[Hashable]) -> dict[str, Any]:
    """For a result's config: how many examples were left out, for what, and how many repeat an
    earlier one; nothing where none was, and none does."""
    every = list(rows)
    repeated = len(every) - len({*every})
    return ({"skipped": dict(skipped)} if skipped else {}) | (
        {"repeated": repeated} if repeated else {}
    )


def texts_of_example(item: PreparedExample) -> tuple[str, ...]:
    """What makes two examples the same."""
    return item.example.prompt, item.example.target, item.example.answer


def prepare_all(
    model: LensModel,
    examples: Iterable[ExampleRow],
    options: PromptOptions,
    *,
    within: bool = False,
    collapse: str | None = None,
    answered: bool = True,
) -> list[PreparedExample]:
    """Check, tokenize and align every example. The prompt's last token is a unit of its own. An
    answer of several tokens, if ``options`` allow it, is run behind the prompt but for its last
    token, since each of its tokens is predicted from those before it.

    Of an encoder–decoder, the prompt is the source, which the target's start tokens and the
    example's ``target`` follow (:mod:`.text.targets`); the answer is the target's next token.
    Without ``answered`` the answers are not read, and answer ids are (0,). ``collapse`` is the
    remedy for prompts that a collapse would stretch beyond the window of local attention, or None
    where nothing is shortened.

    Raises:
        InputError: no example at all; see :func:`tokenize_prompts` and
            :func:`answer_tokens` for what else is refused.
        OptionError: labels or foils, and answers of several tokens.
        PromptError: a prompt longer than the model's context, or, for a collapse, than the
            window of its local attention: a shorter sequence would let it look further back.
        TrainingModeError: the model is in training mode.
    """
    check_model(model)
    chosen_among = checked_answers(options.answers)
    several = None  # a user cannot allow them
    if isinstance(options, AnswerOptions) and not within:
        several = options.multi_token_answers
    if several and chosen_among != VOCABULARY:
        listed = repr(chosen_among) if isinstance(chosen_among, str) else list(chosen_among)
        what = "answers and foils" if isinstance(chosen_among, str) else "labels"
        raise OptionError(
            f"multi_token_answers=True, answers={listed}: {what} have to be one token each; leave "
            "one of the two out"
        )
    checked = [read_example(row, f"example {i}") for i, row in enumerate(examples)]
    if not checked:
        raise InputError("no examples: expected at least one prompt with its answer.")
    prompts = tokenize_prompts(
        model.tokenizer,
        checked,
        unit=options.unit,
        labels=options.labels,
        height=options.height,
        parser=options.parser,
    )
    check_prompts(
        model,
        prompts,
        lambda index: f"example {index}: its prompt",
        collapse=collapse,
    )
    highest = max(int(prompt.ids.max()) for prompt in prompts)
    tokenizer, before, contexts = output_tokenizer(model), checked, prompts  # what answers follow
    if isinstance(model, EncoderDecoderModel):
        before = [replace(example, prompt=example.target) for example in checked]
        contexts = target_starts(tokenizer, checked, options.unit)
    else:
        _refuse_targets(model, checked)
    candidates = candidate_ids(tokenizer, before, contexts, chosen_among)
    answers: list[tuple[int, ...]] = [(0,)] * len(prompts)
    if answered:
        answers = answer_tokens(tokenizer, before, contexts, several=several)
    highest_answer = 0 if candidates is None else int(candidates.max())
    check_ids(model, highest, max(highest_answer, *map(max, answers)))
    if isinstance(model, EncoderDecoderModel):
        rows = _with_targets(model, prompts, contexts, answers)
    else:
        rows = _with_answers(model, prompts, answers, collapse)
    return [
        PreparedExample(
            index,
            example,
            row,
            answer,
            None if candidates is None else candidates[index],
        )
        for index, (example, row, answer) in enumerate(zip(checked, rows, answers, strict=True))
    ]


def _with_answers(
    model: LensModel,
    prompts: Sequence[TokenizedPrompt],
    answers: Sequence[tuple[int, ...]],
    collapse: str | None,
) -> list[TokenizedPrompt]:
    """Prompts with their answers but for the last token, refused as prompts are."""
    rows = [
        prompt.with_last_apart().followed_by(answer[:-1])
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    check_prompts(
        model,
        rows,
        lambda index: f"example {index}: its prompt with its answer but for the last token",
        collapse=collapse,
    )
    return rows


def _with_targets(
    model: EncoderDecoderModel,
    sources: Sequence[TokenizedPrompt],
    targets: Sequence[TokenizedPrompt],
    answers: Sequence[tuple[int, ...]],
) -> list[TokenizedPrompt]:
    """Rows of both and of the answers but for their last token, refused where the model cannot read
    them."""
    start = model.target_start
    for index, (target, answer) in enumerate(zip(targets, answers, strict=True)):
        n_target = len(start) + len(target.ids) + len(answer) - 1
        if n_target > model.n_ctx:
            more = " with its answer but for the last token" if len(answer) > 1 else ""
            raise PromptError(
                f"example {index}: its target{more} has {n_target} tokens and {model.name!r} reads "
                f"{model.n_ctx}; shorten it or leave it out."
            )
        if max(target.ids, default=0) >= model.d_vocab:
            check_ids(model, 0, int(max(target.ids)))
    return [
        source_and_target(source, target, start, model.d_vocab_source).followed_by(
            [token + model.d_vocab_source for token in answer[:-1]]
        )
        for source, target, answer in zip(sources, targets, answers, strict=True)
    ]


def _refuse_targets(model: LensModel, examples: Sequence[Example]) -> None:
    for index, example in enumerate(examples):
        if example.target:
            raise InputError(
                f"example {index} has a target, and {model.name!r} ({model.architecture}) is no "
                "encoder–decoder: append it to the prompt."
            )


def outcome_of(
    logits: Float[Tensor, "stream d_vocab"],
    answers: Int[Tensor, "stream"],
    candidates: Int[Tensor, "stream label"] | None = None,
) -> Float[Tensor, "stream 4"]:
    """Prediction, the answer's log-probability (nats) and rank, and whether all was finite.

    Rank 1 is the prediction: 1 + the number of tokens with a larger logit, or with the same one
    and a smaller id (in half precision ties are common, and argmax takes the smallest id).

    With ``candidates`` (token ids, ascending, the answer among them) the prediction, the rank and
    the log-probability are those among these alone, the probabilities of the others left out (eq.
    10); whether all was finite is asked of the whole vocabulary.
    """
    finite = logits.isfinite().all(dim=1)
    prediction = predicted(logits, candidates)
    place = answers
    if candidates is not None:
        place = (candidates == answers[:, None]).int().argmax(dim=1)
    logits = among(logits, candidates)
    target = logits.gather(1, place[:, None])
    smaller_ids = torch.arange(logits.shape[1], device=logits.device) < place[:, None]
    rank = ((logits > target) | ((logits == target) & smaller_ids)).sum(dim=1) + 1
    logprob = target[:, 0].float() - logits.float().logsumexp(dim=1)
    return torch.stack([prediction.float(), logprob, rank.float(), finite.float()], dim=1)


def examples_digest(items: Sequence[PreparedExample]) -> str:
    """Of everything the run reads: texts, token ids, units, answers."""
    digest = hashlib.sha256()
    for item in items:
        row: list[Any] = [item.example.prompt, item.example.answer, *item.answer_ids]
        row += [] if item.candidates is None else [item.candidates.tolist()]
        row += [item.prompt.ids.tolist(), item.prompt.groups.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


def into_batches(items: Iterable[T], size: int, key: Callable[[T], Any]) -> list[list[T]]:
    """Items of like length together, in the order of ``key``; always the same way."""
    ordered = sorted(items, key=key)
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def batch_size_of(
    model: LensModel, items: Sequence[PreparedExample], options: Options, streams: int, longest: int
) -> int:
    """What was asked for, or what fits: each example in ``streams`` of ``longest`` positions."""
    size = batch_of_lengths(model, [item.n_tokens for item in items], options.batch_size)
    return int(fitting_batch(model, streams, longest) if size is None else size)


@dataclass(frozen=True)
class PromptBatch:
    """Prompts side by side, padded on the left, so that all of them end at position -1.

    ``mask`` is 1 at real tokens, ``special`` at those of no unit, such as BOS.
    """

    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    special: Int[Tensor, "batch pos"]

    @classmethod
    def of(cls, prompts: Sequence[TokenizedPrompt], device: torch.device) -> PromptBatch:
        """On ``device``; one copy per tensor."""
        padded = pad_left(
            [prompt.ids for prompt in prompts], [prompt.groups < 0 for prompt in prompts]
        )
        return cls(*(tensor.to(device) for tensor in padded))

    def layout(self, groups: Sequence[Any]) -> PooledLayout:
        """Where units lie that are given by a row of numbers for each prompt, one a token."""
        padded = np.full(tuple(self.tokens.shape), -1)
        mask = np.zeros_like(padded)  # made here once more: a copy from a GPU would wait for it
        for row, of_prompt in enumerate(groups):
            padded[row, -len(of_prompt) :] = of_prompt
            mask[row, -len(of_prompt) :] = 1
        layout = PooledLayout.from_groups(torch.from_numpy(padded), torch.from_numpy(mask))
        return layout.to(self.tokens.device)


@dataclass(frozen=True)
class AnswerTargets:
    """The answers of a batch's examples, -1 before shorter ones, and the tokens that those of one
    token are chosen among."""

    answers: Int[Tensor, "batch token"]
    candidates: Int[Tensor, "batch label"] | None

    @classmethod
    def of(cls, items: Sequence[PreparedExample], device: torch.device) -> AnswerTargets:
        """The answers of ``items``, padded on the left by -1, on ``device``."""
        candidates = stacked([item.candidates for item in items])
        longest = max(len(item.answer_ids) for item in items)
        answers = [(-1,) * (longest - len(item.answer_ids)) + item.answer_ids for item in items]
        return cls(
            torch.tensor(answers).to(device),
            None if candidates is None else candidates.to(device),
        )

    @property
    def n_read(self) -> int:
        """Last positions, at which tokens of answers are predicted."""
        return self.answers.shape[1]

    @property
    def read(self) -> Read:
        """Logits at these positions."""
        return "last" if self.n_read == 1 else self.n_read

    def outcomes(
        self, logits: Float[Tensor, "stream pos d_vocab"], rows: Int[Tensor, "stream"] | None = None
    ) -> Float[Tensor, "stream 4"]:
        """:func:`outcome_of` whole answers, at the last positions of streams that belong to
        ``rows`` of the batch (by default to one each): what is predicted after the prompt, the sum
        of the log-probabilities of the answer's tokens, the largest of their ranks, and whether all
        was finite. The rank is 1 where greedy decoding gives the answer."""
        answers, candidates = self.answers, self.candidates
        if rows is not None:
            answers = answers[rows]
            candidates = None if candidates is None else candidates[rows]
        is_token = answers >= 0
        of_token = outcome_of(
            logits[:, -self.n_read :].flatten(0, 1), answers.clamp(min=0).flatten(), candidates
        )
        prediction, logprob, rank, finite = of_token.unflatten(0, answers.shape).unbind(dim=2)
        first = is_token.int().argmax(dim=1, keepdim=True)
        return torch.stack(
            [
                prediction.gather(1, first)[:, 0],
                logprob.masked_fill(~is_token, 0).sum(dim=1),
                rank.masked_fill(~is_token, 1).amax(dim=1),
                finite.masked_fill(~is_token, 1).amin(dim=1),
            ],
            dim=1,
        )


def answer_lengths_of(items: Sequence[PreparedExample], options: LongAnswers) -> dict[str, Any]:
    """For a result's config: how many answers are of how many tokens; nothing where all have to be
    one."""
    if not options.multi_token_answers:
        return {}
    counts = Counter(len(item.answer_ids) for item in items)
    return {"answer_tokens": {str(length): counts[length] for length in sorted(counts)}}


def outcome_rows(
    outcomes: Float[Tensor, "rows 4"], place: Mapping[str, Sequence[Any]], after: str
) -> pd.DataFrame:
    """One row each, behind the columns of ``place``, "example" and "layer" among them.

    Raises:
        NonFiniteError: the logits of a row were not all finite. ``after``, a format string of the
            row, says under which intervention.
    """
    outcomes = outcomes.cpu()
    frame = pd.DataFrame(
        {
            **place,
            "prediction": outcomes[:, 0].long().numpy(),
            "target_logprob": outcomes[:, 1].double().numpy(),
            "target_rank": outcomes[:, 2].long().numpy(),
        }
    )
    broken = frame[(outcomes[:, 3] == 0).numpy()]
    if len(broken):
        first = next(broken.itertuples(index=False))
        condition = "without any intervention"
        if first.layer != CLEAN:
            condition = after.format(first)
        raise NonFiniteError(
            f"example {first.example} gives NaN or infinite logits {condition} "
            f"({len(broken)} of {len(frame)} results in its batch). Load the model in float32, "
            "and check its weights."
        )
    return frame


def predictions_of(model: LensModel, outcomes: pd.DataFrame) -> pd.DataFrame:
    """The texts of all tokens in its column ``prediction``."""
    tokens, decode = sorted(set(outcomes["prediction"].tolist())), output_tokenizer(model).decode
    texts = [decode([token]) for token in tokens]
    return PREDICTIONS.of(pd.DataFrame({"prediction": tokens, "text": texts}))


def tokens_of(model: LensModel, items: Sequence[PreparedExample]) -> pd.DataFrame:
    """Each prompt's tokens: what they add to its text, special ones by their names."""

    def name(token: int) -> str:
        if isinstance(model, EncoderDecoderModel) and token >= model.d_vocab_source:
            return str(output_tokenizer(model).decode([token - model.d_vocab_source]))
        return str(model.tokenizer.decode([token]))

    rows = []
    for item in items:
        prompt, end = item.prompt, 0
        places = zip(prompt.ids.tolist(), prompt.groups.tolist(), prompt.offsets, strict=True)
        for position, (token, unit, (low, high)) in enumerate(islice(places, item.n_before)):
            text = prompt.text[end:high] if low < high else name(token)
            rows.append((item.index, position, text, unit))
            end = max(end, high)
    return TOKENS.of(pd.DataFrame(rows, columns=list(TOKENS.columns)))


def split_clean(
    rows: pd.DataFrame,
    model: LensModel,
    items: Sequence[PreparedExample],
    place: Sequence[str],
    answers: str | Sequence[str],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Outcomes, and the clean ones with what is known of their examples and without ``place``; with
    their foils where predictions are chosen among these and the ``answers``."""
    rows["correct"] = rows["target_rank"] == 1
    clean = pd.DataFrame(
        {
            "example": [item.index for item in items],
            "prompt": [item.example.prompt for item in items],
            "answer": [item.example.answer for item in items],
            "affected": [item.affected for item in items],
            "n_tokens": [item.n_before for item in items],
            "n_groups": [item.prompt.n_groups for item in items],
        }
    ).merge(rows[rows["layer"] == CLEAN].drop(columns=list(place)), on="example")
    if answers == FOIL:
        clean["foil"] = [item.example.foil for item in items]
    decode = output_tokenizer(model).decode
    texts = {int(token): decode([int(token)]) for token in clean["prediction"]}
    clean["prediction_text"] = clean["prediction"].map(texts)
    return rows[rows["layer"] != CLEAN].reset_index(drop=True), clean
