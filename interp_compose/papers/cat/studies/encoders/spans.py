"""An encoder on questions whose answers are spans: a head on its words, frozen or end to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from interp_compose.errors import NonFiniteError
from interp_compose.papers.cat.models.bert import Output, SmallEncoder
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.stats.answer_overlap import exact_match, token_f1
from interp_compose.papers.cat.studies.encoders.cosines import Row, score_row
from interp_compose.papers.cat.studies.encoders.result import ALL, WORDS
from interp_compose.papers.cat.studies.encoders.tuned import Tuning, nested
from interp_compose.papers.cat.studies.encoders.vectors import standard_scale
from interp_compose.papers.cat.studies.encoders.windows import (
    FrozenWords,
    QuestionWindows,
    windows_of,
    word_vectors,
)
from interp_compose.papers.cat.tasks.squad import ADVERSARIAL, Question, SpanTask
from interp_compose.papers.cat.training.classifier import Inputs
from interp_compose.papers.cat.training.spans import SpanHead, SpanTraining, best_spans
from interp_compose.runs.checkpoint import checkpoints_together
from interp_compose.training.loop import Trainer, run_training

BATCH: Final = 32
"""Windows of a pass without training."""


class TunedSpans(nn.Module):
    """An encoder and a head on the words of one of its outputs."""

    def __init__(self, lens: SmallEncoder, output: Output, head: SpanHead) -> None:
        super().__init__()
        self.lens, self.head, self.output = lens, head, output

    def forward(
        self, tokens: Tensor, mask: Tensor, segments: Tensor, words: Tensor
    ) -> Float[Tensor, "batch pos 2"]:
        vectors = word_vectors(self.lens, self.output, tokens, mask, segments)
        out: Tensor = self.head(vectors, words)
        return out


def span_rows(
    model: SmallEncoderModel,
    task: SpanTask,
    outputs: Sequence[str],
    share: float,
    tuning: Tuning,
    folder: Path | None,
) -> Iterator[Row]:
    """A head on the words of each output, trained on a share of the questions and measured on the
    others. With a ``folder``, for its checkpoints, the encoder is trained as well: of one output
    then, and ``model`` is the tuned one afterwards. Without, it stays as it is."""
    train = task.split("train")
    train_windows = windows_of(model, [train[i] for i in nested(len(train), share, tuning.seed)])
    tests = {
        split: windows_of(model, task.split(split))
        for split in ("test", *ADVERSARIAL)
        if task.split(split)
    }
    for output in cast("Sequence[Output]", outputs):
        head = SpanHead(model.d_model, seed=tuning.seed).to(model.device)
        read: dict[str, Inputs] = {"train": train_windows, **tests}
        trained: nn.Module = TunedSpans(model.lens, output, head)
        if folder is None:
            trained, scale = head, scale_of(train_windows, output)
            named = {"train": train_windows, **tests}
            read = {split: FrozenWords(one, output, *scale) for split, one in named.items()}
        checkpoints = None if folder is None else checkpoints_together([folder])
        objective = SpanTraining(read["train"], train_windows.ends())
        config = tuning.config(validated=False)
        run_training(Trainer(trained, objective, config), checkpoints=checkpoints, progress=False)
        trained.eval()
        for split, windows in tests.items():
            predicted = answers(trained, windows, read[split])
            yield from _scored(output, split, windows, predicted)


@torch.no_grad()
def scale_of(
    windows: QuestionWindows, output: Output
) -> tuple[Float[Tensor, "d_model"], Float[Tensor, "d_model"]]:
    """Mean and standard deviation of each component over the words of the contexts, window by
    window; where it is constant there, 1."""
    model = windows.model
    none, one = (torch.full((model.d_model,), fill, device=model.device) for fill in (0.0, 1.0))
    plain = FrozenWords(windows, output, none, one)
    n, sums = 0, torch.zeros(3, model.d_model, dtype=torch.float64)
    for first in range(0, len(windows.windows), BATCH):
        last = min(first + BATCH, len(windows.windows))
        vectors, words = plain.batch(np.arange(first, last))
        of_words = vectors[words > 0].double().cpu()
        n += len(of_words)
        sums[0] += of_words.sum(dim=0)
        sums[1] += of_words.square().sum(dim=0)
        sums[2] = torch.maximum(sums[2], of_words.abs().amax(dim=0)) if len(of_words) else sums[2]
    mean = sums[0] / max(n, 1)
    deviation = (sums[1] / max(n, 1) - mean.square()).clamp(min=0).sqrt()
    scale = torch.from_numpy(standard_scale(deviation.numpy(), sums[2].numpy()))
    return mean.float().to(model.device), scale.float().to(model.device)


@torch.no_grad()
def answers(model: nn.Module, windows: QuestionWindows, inputs: Inputs) -> list[str]:
    """Of each question the text of the most probable span, over all windows; empty where its
    context has no word.

    Raises:
        NonFiniteError: an output is NaN or infinite.
    """
    device = next(model.parameters()).device
    best: dict[int, tuple[float, str]] = {}
    order = np.argsort(windows.lengths, kind="stable")
    for start in range(0, len(order), BATCH):
        indices = order[start : start + BATCH]
        batch = [one.to(device) for one in inputs.batch(indices)]
        outputs, words = model(*batch), batch[-1]
        if not bool(outputs[words >= 0].isfinite().all()):
            raise NonFiniteError(
                "outputs of the head on spans are NaN or infinite; lower the learning rate"
            )
        scores, spans = best_spans(outputs, words)
        for window, score, (first, last) in zip(
            indices.tolist(), scores.tolist(), spans.tolist(), strict=True
        ):
            question = windows.windows[window].question
            if first and score > best.get(question, (-np.inf, ""))[0]:
                best[question] = score, windows.text(window, first, last)
    return [best.get(number, (0.0, ""))[1] for number in range(len(windows.questions))]


def worst(questions: Sequence[Question], values: Sequence[float]) -> list[int]:
    """Of each question with adversarial variants the variant of the least value, the first of
    equals; of one without any, itself (Jia and Liang 2017, their evaluation)."""
    chosen: dict[str, int] = {}
    for number, (one, value) in enumerate(zip(questions, values, strict=True)):
        have = chosen.get(one.original)
        if have is not None and one.id == one.original:
            continue
        first = have is None or questions[have].id == one.original
        if first or value < values[have or 0]:
            chosen[one.original] = number
    return list(chosen.values())


def _scored(
    output: str, split: str, windows: QuestionWindows, predicted: Sequence[str]
) -> Iterator[Row]:
    """Means over questions; with adversarial sentences, over each question's worst variant."""
    questions = windows.questions
    right = [[text for _, text in one.answers] for one in questions]
    exact, f1 = (
        np.array([metric(one, texts) for one, texts in zip(predicted, right, strict=True)])
        for metric in (exact_match, token_f1)
    )
    chosen = list(range(len(questions))) if split == "test" else worst(questions, f1.tolist())
    subset = ALL if split == "test" else split
    for name, values in (("exact_match", exact), ("token_f1", f1)):
        value = float(values[chosen].mean())
        yield score_row(output, WORDS, subset, name, value, windows.cut[chosen])
