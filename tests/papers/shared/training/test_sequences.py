"""Sequence to sequence: batches, the loss against its formula, exact match, training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import Seq2SeqConfig, SmallSeq2Seq
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS, EOS
from interp_compose.papers.shared.training.sequence_objective import (
    ContinuedBatch,
    EncodedPair,
    SequenceBatch,
    TargetSequence,
    exact_match,
)
from interp_compose.runs.checkpoint import checkpoints_together
from interp_compose.training.config import TrainConfig
from interp_compose.training.history import Recorder
from interp_compose.training.loop import Trainer, run_training
from interp_compose.training.processes import Processes


def pair(source: list[int], target: list[int]) -> EncodedPair:
    return EncodedPair(np.array([*source, EOS]), np.array([*target, EOS]))


def model_of(seed: int = 0, **shape: Any) -> SmallSeq2Seq:
    sizes = {"d_vocab": 9, "d_vocab_out": 7, "n_ctx": 8, "d_model": 8, "n_heads": 2, "d_mlp": 12}
    model = SmallSeq2Seq(Seq2SeqConfig(**{**sizes, **shape}))
    init_xavier(model, seed=seed)
    return model


PAIRS = [pair([3, 4, 5], [3, 4]), pair([6], []), pair([8, 3], [6, 5, 4, 3])]


def test_a_batch_by_hand() -> None:
    batch = SequenceBatch.of(PAIRS, BOS)
    assert batch.source.tolist() == [[3, 4, 5, 2], [6, 2, 0, 0], [8, 3, 2, 0]]
    assert batch.source_mask.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]
    assert batch.target.tolist() == [[3, 4, 2, 0, 0], [2, 0, 0, 0, 0], [6, 5, 4, 3, 2]]
    assert batch.given.tolist() == [[1, 3, 4, 2, 0], [1, 2, 0, 0, 0], [1, 6, 5, 4, 3]]
    assert batch.valid.sum(dim=1).tolist() == [3, 1, 5]


def slow_loss(model: SmallSeq2Seq, pairs: list[EncodedPair], smoothing: float) -> float:
    """Mean over all target tokens of (1 − s) · −log p(answer) + s · mean over the vocabulary of
    −log p, one pair at a time and without padding."""
    losses = []
    for one in pairs:
        given = torch.tensor([[BOS, *one.target[:-1].tolist()]])
        logits = model(torch.tensor(one.source[None]), given)[0]
        for at, answer in enumerate(one.target.tolist()):
            p = [math.exp(each) for each in logits[at].tolist()]
            nats = [-math.log(each / sum(p)) for each in p]
            losses.append((1 - smoothing) * nats[answer] + smoothing * sum(nats) / len(nats))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("fuse", ["none", "both"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_mean_over_target_tokens(fuse: str, smoothing: float) -> None:
    model = model_of(fuse=fuse).double()
    objective = TargetSequence(PAIRS, BOS, label_smoothing=smoothing)
    batch = objective.collate(np.arange(3))
    loss, (term,) = objective.loss(model, batch, [1.0], 0)
    assert float(loss.detach()) == pytest.approx(slow_loss(model, PAIRS, smoothing), abs=1e-12)
    assert float(term) == float(loss.detach())
    assert not term.requires_grad


def test_parts_of_a_batch_add_up_to_it() -> None:
    """Weighted by their shares of the target tokens, 4 and 5 here."""
    model = model_of().double()
    objective = TargetSequence(PAIRS, BOS)
    parts = [objective.collate(np.array([0, 1])), objective.collate(np.array([2]))]
    assert [objective.sizes(part) for part in parts] == [(4,), (5,)]
    total = sum(
        float(objective.loss(model, part, [n / 9], 0)[1][0])
        for part, n in zip(parts, (4, 5), strict=True)
    )
    assert total == pytest.approx(slow_loss(model, PAIRS, 0.0), abs=1e-12)


def test_training_repeats_a_pair_and_its_curve_is_recorded() -> None:
    """A model that has learned three pairs gets them right, and the curve says when."""
    model = model_of(d_model=16, n_encoder_layers=1, n_decoder_layers=1)
    objective = TargetSequence(PAIRS, BOS, curve={"test": PAIRS, "one": PAIRS[:1]})
    config = TrainConfig(lr=0.02, epochs=60, batch_size=3, warmup_steps=5, evaluate_every=30)
    recorder = Recorder()
    run_training(Trainer(model, objective, config, recorder=recorder), progress=False)
    curve = [row for row in recorder.rows if row["table"] == "curve"]
    assert [(row["step"], row["split"], row["n"]) for row in curve] == [
        (step, split, n) for step in (0, 30, 60) for split, n in (("test", 3), ("one", 1))
    ]
    assert curve[0]["accuracy"] == 0
    assert curve[-2]["accuracy"] == 1
    assert exact_match(model, PAIRS, BOS).tolist() == [True] * 3
    wrong = [pair([3, 4, 5], [3, 5]), pair([6], [3]), pair([8, 3], [6, 5, 4])]
    assert exact_match(model, wrong, BOS).tolist() == [False] * 3  # a token, one more, one less


def test_processes_wait_for_each_checkpoint(tmp_path: Path) -> None:
    """None goes on, or ends, while another still writes one."""
    waits = []

    class Counted(Processes):
        def wait(self) -> None:
            waits.append(trainer.step)

    config = TrainConfig(epochs=3, batch_size=3, checkpoint_every=2)
    alone = Counted(torch.device("cpu"))
    trainer = Trainer(model_of(), TargetSequence(PAIRS, BOS), config, processes=alone)
    run_training(trainer, checkpoints=checkpoints_together([tmp_path]), progress=False)
    assert waits == [2, 3]


def test_no_pairs_are_no_matches() -> None:
    assert exact_match(model_of(), [], BOS).shape == (0,)
    assert exact_match(decoder_of(), [], BOS).shape == (0,)


# ---- decoders ------------------------------------------------------------------------------

CONTINUED = [
    EncodedPair(np.array(one), np.array([*other, EOS]))
    for one, other in (([3, 4, 5], [3, 4]), ([6], []), ([8, 3], [6, 5, 4, 3]))
]


def decoder_of(seed: int = 0, **shape: Any) -> SmallDecoder:
    sizes = {"d_vocab": 9, "n_ctx": 8, "d_model": 8, "n_heads": 2, "d_mlp": 12}
    model = SmallDecoder(DecoderConfig(**{**sizes, **shape}))
    init_weights(model, 0.3, seed=seed)
    return model


def test_a_decoders_batch_by_hand() -> None:
    batch = ContinuedBatch.of(CONTINUED, BOS)
    rows = [[3, 4, 5, 1, 3, 4, 2, 0], [6, 1, 2, 0, 0, 0, 0, 0], [8, 3, 1, 6, 5, 4, 3, 2]]
    assert batch.tokens.tolist() == [row[:-1] for row in rows]
    assert batch.target.tolist() == [row[1:] for row in rows]
    assert batch.target[batch.valid].tolist() == [3, 4, 2, 2, 6, 5, 4, 3, 2]


def slow_decoder_loss(model: SmallDecoder, pairs: list[EncodedPair]) -> float:
    """Mean over all target tokens of −log p(token | source, BOS, the target's tokens before it),
    one pair at a time and without padding."""
    losses = []
    for one in pairs:
        before = [*one.source.tolist(), BOS]
        for answer in one.target.tolist():
            scores = [math.exp(each) for each in model(torch.tensor([before]))[0, -1].tolist()]
            losses.append(-math.log(scores[answer] / sum(scores)))
            before.append(answer)
    return sum(losses) / len(losses)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_decoders_loss_is_that_of_what_follows_the_source(norm: str) -> None:
    model = decoder_of(norm=norm).double()
    objective = TargetSequence(CONTINUED, BOS, batches=ContinuedBatch)
    batch = objective.collate(np.arange(3))
    assert objective.sizes(batch) == (9,)
    loss, _ = objective.loss(model, batch, [1.0], 0)
    assert float(loss.detach()) == pytest.approx(slow_decoder_loss(model, CONTINUED), abs=1e-12)


@torch.no_grad()
def greedy(model: SmallDecoder, source: list[int], n: int) -> list[int]:
    tokens = [*source, BOS]
    for _ in range(n):
        tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
    return tokens[len(source) + 1 :]


def test_a_decoders_exact_match_is_that_of_greedy_decoding() -> None:
    model = decoder_of(d_model=16)
    objective = TargetSequence(CONTINUED, BOS, batches=ContinuedBatch)
    config = TrainConfig(lr=0.02, epochs=60, batch_size=3, warmup_steps=5)
    run_training(Trainer(model, objective, config), progress=False)
    wrong = [
        EncodedPair(one.source, np.array(other))
        for one, other in zip(CONTINUED, ([3, 5, 2], [3, 2], [6, 5, 4, 2]), strict=True)
    ]
    pairs = CONTINUED + wrong
    told = [greedy(model, one.source.tolist(), len(one.target)) for one in pairs]
    expected = [list(one.target) == found for one, found in zip(pairs, told, strict=True)]
    assert exact_match(model, pairs, BOS).tolist() == expected == [True] * 3 + [False] * 3
