"""An encoder on a labelled task: a classifier of its frozen vectors, or tuned end to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from interp_compose.papers.cat.models.bert import Output, SmallEncoder
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.stats.classified import classified
from interp_compose.papers.cat.studies.encoders.cosines import (
    FEWEST,
    Row,
    agreement_of,
    have_same_words,
    score_row,
)
from interp_compose.papers.cat.studies.encoders.result import ALL, OOD, SAME_WORDS
from interp_compose.papers.cat.studies.encoders.vectors import Scaled, reader, texts_of, vectors
from interp_compose.papers.cat.tasks.labelled import LabelledTask, LabelledText
from interp_compose.papers.cat.training.classifier import (
    Classification,
    ClassifierHead,
    Inputs,
    Targets,
    outputs_of,
)
from interp_compose.runs.checkpoint import checkpoints_together
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, run_training

Target = Float[np.ndarray, "text"]


class TunedEncoder(nn.Module):
    """An encoder and a classifier of the vector that is read from one of its outputs."""

    def __init__(
        self, lens: SmallEncoder, output: Output, embedding: str, head: ClassifierHead
    ) -> None:
        super().__init__()
        self.lens, self.head = lens, head
        self.output, self.reader = output, reader(embedding)

    def forward(self, tokens: Tensor, mask: Tensor, segments: Tensor) -> Float[Tensor, "batch out"]:
        hidden = self.lens(tokens, mask, segments)[-1].of(self.output)
        out: Tensor = self.head(self.reader(hidden, mask, torch.zeros_like(mask)))
        return out


@dataclass(frozen=True)
class Tuning:
    """How a classifier is trained."""

    epochs: int
    lr: float
    batch_size: int
    seed: int

    def config(self, *, validated: bool) -> TrainConfig:
        """AdamW, linear decay after a warm-up of a tenth, 500 steps at most. With validation texts
        the weights of the epoch that is best on them are kept, as in CAT (section 5.1), else the
        last."""
        patience = self.epochs + 2 if validated else None  # never reached: all epochs are trained
        settings = {"epochs": self.epochs, "lr": self.lr, "batch_size": self.batch_size}
        return TrainConfig(**settings, decay_vectors=False, patience=patience, seed=self.seed)  # type: ignore[arg-type]


def target_of(items: Sequence[LabelledText]) -> Target:
    """The numbers of the classes, or the scores, of these texts."""
    return np.array([item.target for item in items], dtype=float)


def nested(n: int, share: float, seed: int) -> Int[np.ndarray, "_"]:
    """The examples of a share, one at least: of one seed, those of a smaller share are among those
    of a larger."""
    order = np.random.default_rng([seed, n]).permutation(n)
    return order[: max(1, round(share * n))]


def frozen_rows(
    model: SmallEncoderModel,
    task: LabelledTask,
    outputs: Sequence[str],
    embeddings: Sequence[str],
    share: float,
    tuning: Tuning,
) -> Iterator[Row]:
    """A classifier of the vectors of an encoder that stays as it is, for each output and embedding;
    all are read at once."""
    read = {
        split: vectors(model, [item.texts for item in items], outputs, embeddings)
        for split, items in task.splits.items()
        if items
    }
    chosen = nested(len(task.split("train")), share, tuning.seed)
    for output in outputs:
        for embedding in embeddings:
            by_split = {split: arrays[output, embedding] for split, (arrays, _) in read.items()}
            train = by_split["train"][chosen]
            inputs: dict[str, Inputs] = {
                split: Scaled.of(train if split == "train" else values, train)
                for split, values in by_split.items()
            }
            objective = _objective(task, inputs, chosen)
            head = ClassifierHead(train.shape[1], objective.targets.width, seed=tuning.seed)
            _train(head, objective, tuning, None)
            cut = {split: is_cut for split, (_, is_cut) in read.items()}
            yield from _scored(head, task, objective.targets, inputs, cut, output, embedding)


def tuned_rows(
    model: SmallEncoderModel,
    task: LabelledTask,
    output: Output,
    embedding: str,
    share: float,
    tuning: Tuning,
    folder: Path,
) -> list[Row]:
    """Encoder and classifier trained together; ``model`` is the tuned one afterwards."""
    texts = {
        split: texts_of(model, [item.texts for item in items])
        for split, items in task.splits.items()
        if items
    }
    chosen = nested(len(task.split("train")), share, tuning.seed)
    inputs: dict[str, Inputs] = {**texts, "train": texts["train"].some(chosen)}
    objective = _objective(task, inputs, chosen)
    head = ClassifierHead(model.d_model, objective.targets.width, seed=tuning.seed)
    tuned = TunedEncoder(model.lens, output, embedding, head).to(model.device)
    _train(tuned, objective, tuning, folder)
    cut = {split: split_texts.cut for split, split_texts in texts.items()}
    return list(_scored(tuned, task, objective.targets, inputs, cut, output, embedding))


def _objective(
    task: LabelledTask, inputs: dict[str, Inputs], chosen: Int[np.ndarray, "_"]
) -> Classification:
    target = target_of(task.split("train"))[chosen]
    validation = None
    if task.split("validation"):
        validation = inputs["validation"], target_of(task.split("validation"))
    targets = Targets.of(len(task.labels), target)
    return Classification(inputs["train"], target, targets, task.metrics[0], validation)


def _train(
    model: nn.Module, objective: Classification, tuning: Tuning, folder: Path | None
) -> None:
    """In ``folder``, from a checkpoint where there is one."""
    config = tuning.config(validated=objective.validation is not None)
    checkpoints = None if folder is None else checkpoints_together([folder])
    run_training(Trainer(model, objective, config), checkpoints=checkpoints, progress=False)


def _scored(
    model: nn.Module,
    task: LabelledTask,
    targets: Targets,
    inputs: dict[str, Inputs],
    cut: dict[str, Bool[np.ndarray, "text"]],
    output: str,
    embedding: str,
) -> Iterator[Row]:
    """Each metric on the test split and on another distribution; of classes, the share that is
    right of each as well, and of pairs of two classes what :func:`same_words_values` has."""
    for split, name in (("test", ALL), ("ood", OOD)):
        if split not in inputs:
            continue
        target = target_of(task.split(split))
        outputs = outputs_of(model, inputs[split], targets.width)
        predicted = targets.decoded(outputs)
        for metric in task.metrics:
            value = classified(metric, predicted, target)
            yield score_row(output, embedding, name, metric, value, cut[split])
        if "accuracy" not in task.metrics:
            continue
        for number, label in enumerate(task.labels):
            is_label = target == number
            if is_label.any():
                named = f"label {label}" if split == "test" else f"{name}, label {label}"
                right = float((predicted[is_label] == number).mean())
                yield score_row(output, embedding, named, "accuracy", right, cut[split][is_label])
        is_same, values = same_words_values(task, split, outputs.double().cpu().numpy())
        named = SAME_WORDS if split == "test" else f"{name}, {SAME_WORDS}"
        for metric, value in values.items():
            yield score_row(output, embedding, named, metric, value, cut[split][is_same])


def same_words_values(
    task: LabelledTask, split: str, logits: Float[np.ndarray, "text _"]
) -> tuple[Bool[np.ndarray, "text"], dict[str, float]]:
    """Which pairs of a split have the same words in another order, and what a classifier of two
    classes, of which 1 is a paraphrase, makes of them; nothing where these are fewer than three, or
    of one class.

    ``specificity`` is the share of class 0 that is called so: what CAT's Table 2 has as accuracy on
    PAWS (swap-only), and what whoever says *no paraphrase* more often has more of.
    ``balanced_accuracy`` is the mean of it and of class 1's share; ``auc`` needs no threshold: how
    often a pair of class 1 has a larger log-odds of 1 than one of class 0, ties counting ½.
    """
    items, target = task.split(split), target_of(task.split(split))
    is_same = np.array(
        [item.text2 is not None and have_same_words(item.text1, item.text2) for item in items]
    )
    target = target[is_same]
    if len(task.labels) != 2 or len(target) < FEWEST or not 0 < target.mean() < 1:
        return is_same, {}
    log_odds = (logits[:, 1] - logits[:, 0])[is_same]
    is_right = (log_odds > 0) == target
    of_class = [float(is_right[target == label].mean()) for label in (0, 1)]
    return is_same, {
        "specificity": of_class[0],
        "balanced_accuracy": sum(of_class) / 2,
        "auc": agreement_of(log_odds, target, "auc"),
    }
