"""Questions and their contexts as a small encoder reads them: in windows, word by word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.papers.cat.models.bert import Output, SmallEncoder
from interp_compose.papers.cat.models.composition import same_word, word_means
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.tasks.squad import Question
from interp_compose.papers.cat.training.spans import NO_ANSWER

SPECIAL = 3
"""[CLS], and [SEP] after the question and after the context."""


@dataclass(frozen=True)
class Window:
    """A question and a part of its context: its words from ``first``, whose first tokens are at the
    positions ``begins``; the question has the first ``n_asked`` tokens."""

    question: int
    first: int
    tokens: Int[np.ndarray, "pos"]
    n_asked: int
    begins: Int[np.ndarray, "word"]


@dataclass(frozen=True, eq=False)
class QuestionWindows:
    """Questions, each with its context in windows: see :func:`windows_of`."""

    model: SmallEncoderModel
    questions: Sequence[Question]
    windows: Sequence[Window]
    characters: Sequence[Int[np.ndarray, "_ 2"]]
    """Of each question, where the words of its context begin and end."""
    cut: Bool[np.ndarray, "question"]
    """Which questions were longer than half of the model's context."""

    @property
    def lengths(self) -> list[int]:
        """Tokens of each window."""
        return [len(one.tokens) for one in self.windows]

    def batch(self, indices: Int[np.ndarray, "window"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tokens, mask, segments and words of these, padded on the right; ``words`` as
        :meth:`.SpanHead.forward` has them."""
        chosen = [self.windows[i] for i in indices]
        shape = (len(chosen), max(len(one.tokens) for one in chosen))
        tokens = torch.full(shape, int(self.model.tokenizer.pad_token_id))
        mask, segments = torch.zeros_like(tokens), torch.zeros_like(tokens)
        words = torch.full_like(tokens, -1)
        words[:, 0] = NO_ANSWER
        for i, one in enumerate(chosen):
            n = len(one.tokens)
            tokens[i, :n] = torch.from_numpy(one.tokens)
            mask[i, :n], segments[i, one.n_asked : n] = 1, 1
            words[i, one.begins] = torch.arange(1, len(one.begins) + 1)
        return tokens, mask, segments, words

    def ends(self) -> Int[np.ndarray, "window 2"]:
        """The positions of the first and last word of each question's first answer, in each window
        that has it whole; that of [CLS] in others."""
        positions = np.full((len(self.windows), 2), NO_ANSWER)
        answers = [
            _words_of(spans, *question.answers[0])
            for spans, question in zip(self.characters, self.questions, strict=True)
        ]
        for number, one in enumerate(self.windows):
            inside = [word - one.first for word in answers[one.question]]
            if inside and min(inside) >= 0 and max(inside) < len(one.begins):
                positions[number] = one.begins[inside]
        return positions

    def text(self, window: int, first: int, last: int) -> str:
        """What the context has from one word to another, numbered as in :meth:`batch`."""
        one = self.windows[window]
        places = self.characters[one.question]
        begin, end = places[one.first + first - 1, 0], places[one.first + last - 1, 1]
        return self.questions[one.question].context[begin:end]


def windows_of(model: SmallEncoderModel, questions: Sequence[Question]) -> QuestionWindows:
    """Each question and its context as BERT reads a pair; a context that is too long in several
    windows, each of which begins in the middle of the one before.

    Windows begin and end between words. A question of more than half the positions loses tokens at
    its end, and a word longer than a window as well.
    """
    contexts = list(dict.fromkeys(one.context for one in questions))
    read = dict(zip(contexts, model.tokenizer.located(contexts), strict=True))
    question_ids = model.tokenizer.pieces([one.question for one in questions])
    most = (model.n_ctx - SPECIAL) // 2
    begins, places = {}, {}
    for context, (ids, characters) in read.items():
        tokens = np.array(ids, dtype=int)
        starts = np.flatnonzero(~model.lens.continues.cpu().numpy()[tokens])
        begins[context] = [*starts.tolist(), len(ids)]
        offsets = np.array(characters, dtype=int).reshape(-1, 2)
        word_ends = np.array(begins[context][1:], dtype=int)
        places[context] = np.stack([offsets[starts, 0], offsets[word_ends - 1, 1]], axis=1)
    windows = [
        window
        for number, (one, ids) in enumerate(zip(questions, question_ids, strict=True))
        for window in _cut(
            model, number, ids[:most], np.array(read[one.context][0], int), begins[one.context]
        )
    ]
    cut = np.array([len(ids) > most for ids in question_ids], dtype=bool)
    return QuestionWindows(
        model, questions, windows, [places[one.context] for one in questions], cut
    )


@dataclass(frozen=True, eq=False)
class FrozenWords:
    """Words' vectors of an encoder that stays as it is, each component less a mean and over a
    scale, computed as they are asked for."""

    windows: QuestionWindows
    output: Output
    mean: Float[Tensor, "d_model"]
    scale: Float[Tensor, "d_model"]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each window."""
        return self.windows.lengths

    @torch.no_grad()
    def batch(self, indices: Int[np.ndarray, "window"]) -> tuple[Tensor, Tensor]:
        """Vectors and words of these windows."""
        model = self.windows.model
        tokens, mask, segments, words = (
            one.to(model.device) for one in self.windows.batch(indices)
        )
        vectors = word_vectors(model.lens, self.output, tokens, mask, segments)
        return (vectors - self.mean) / self.scale, words


def word_vectors(
    lens: SmallEncoder, output: Output, tokens: Tensor, mask: Tensor, segments: Tensor
) -> Float[Tensor, "batch pos d_model"]:
    """At each position the mean of its word's tokens (CAT, footnote 2), of one of the outputs."""
    hidden = lens(tokens, mask, segments)[-1].of(output)
    return word_means(hidden, same_word(lens.words_of(tokens, mask), hidden.dtype))


def _words_of(characters: Int[np.ndarray, "word 2"], start: int, text: str) -> list[int]:
    """The first and the last word that have a character of an answer; none where no word has."""
    touched = (characters[:, 1] > start) & (characters[:, 0] < start + len(text))
    words = np.flatnonzero(touched).tolist()
    return [words[0], words[-1]] if words else []


def _cut(
    model: SmallEncoderModel,
    number: int,
    question: Sequence[int],
    ids: Int[np.ndarray, "token"],
    begins: Sequence[int],
) -> Iterator[Window]:
    """The windows of a question; ``begins`` has the end of the context last."""
    cls, sep = int(model.tokenizer.cls_token_id), int(model.tokenizer.sep_token_id)
    head = np.array([cls, *question, sep])
    room = model.n_ctx - SPECIAL - len(question)
    for first, last in _parts(begins, room):
        context = ids[begins[first] : begins[last]][:room]
        places = np.array(begins[first:last], dtype=int) - begins[first] + len(head)
        yield Window(number, first, np.concatenate([head, context, [sep]]), len(head), places)


def _parts(begins: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """The first word of each window, and the one after its last."""
    n, first, last = len(begins) - 1, 0, 0
    while True:
        last = first
        while last < n and begins[last + 1] - begins[first] <= room:
            last += 1
        last = max(last, min(first + 1, n))
        yield first, last
        if last == n:
            return
        first += max(1, (last - first) // 2)
