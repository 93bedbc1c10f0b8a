"""Codes that no word has had for long become words: against a loop code by code, and what is left
alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp_compose.papers.cat.models.bert import EncoderConfig, SmallEncoder
from interp_compose.papers.cat.models.composition import Composition
from interp_compose.papers.cat.training.pretraining import Pretraining, measured
from interp_compose.papers.cat.training.revival import Revival, RevivingTrainer, restarted
from interp_compose.papers.cat.training.sentences import Lexicon, MaskedBatch
from interp_compose.runs.checkpoint import Checkpoint
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, _seeded
from tests.papers.cat.training.test_pretraining import CAT, N_SEMEMES, WORDS, objective_of, random

CONFIG = TrainConfig(
    lr=0.01, batch_size=3, epochs=9, warmup_steps=0, schedule="constant", seed=4, clip=None
)
STEPS, AFTER = 6, 2
DEAD = {0: (2, 5, 11, 12), 1: (1, 4, 17)}
"""Codes that begin as 0, and so are like no word, by block. Of the last block's, 1 and 4 are
sememes of words, 17 is none."""
Array = NDArray[np.float64]


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().numpy()


def dying(cfg: EncoderConfig = CAT) -> SmallEncoder:
    """A random model, with codes that no word has."""
    model = random(cfg)
    block: Any
    for layer, block in enumerate(model.blocks):
        if block.composes and isinstance(block.composition, Composition):
            block.composition.codebook.data[list(DEAD[layer])] = 0
    return model


def reviving(
    model: SmallEncoder, after: int = AFTER, config: TrainConfig = CONFIG
) -> RevivingTrainer:
    objective = replace(objective_of(), revival=Revival(model, after))
    return RevivingTrainer(model, objective, config)


def plain(model: SmallEncoder, config: TrainConfig = CONFIG) -> Trainer[Any]:
    return Trainer(model, objective_of(), config)


def weights_of(model: SmallEncoder) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


# ---- the loop, code by code ----------------------------------------------------------------------


def words_of(cont: Array, batch: MaskedBatch, level: str) -> list[tuple[Array, set[int] | None]]:
    """What is decomposed, row by row: vectors of words (means of their tokens) or of tokens, each
    with its sememes, if it is annotated."""
    found = []
    width = batch.words.shape[1]
    marks = dict(zip(batch.guided.tolist(), batch.sememes.tolist(), strict=True))
    for row, numbers in enumerate(batch.words.tolist()):
        for at, number in enumerate(numbers):
            if number < 0 or (level == "word" and number in numbers[:at]):
                continue
            places = [at] if level == "token" else [i for i, n in enumerate(numbers) if n == number]
            own = marks.get(row * width + at)
            sememes = None if own is None else {i for i, mark in enumerate(own) if mark}
            found.append((cont[row, places].mean(axis=0), sememes))
    return found


def slow_code(book: Composition, vector: Array, dead: list[int]) -> Array:
    """e = c (q W_K^T) / ‖q W_K^T‖, with q = h W_Q and c the mean length of the other codes."""
    e, w_q, w_k = (array(getattr(book, name)) for name in ("codebook", "W_Q", "W_K"))
    lengths = [float(np.linalg.norm(row)) for i, row in enumerate(e) if i not in dead]
    direction = (vector @ w_q) @ w_k.T
    made: Array = np.mean(lengths) * direction / np.linalg.norm(direction)
    return made


def slow_steps(model: SmallEncoder, n: int, level: str = "word") -> dict[int, int]:
    """Plain steps, each followed by what revival says; how many times codes were moved."""
    trainer, moved = plain(model), dict.fromkeys(DEAD, 0)
    objective: Any = trainer.objective
    idle = {layer: [0] * len(model.blocks[layer].composition.codebook) for layer in DEAD}  # type: ignore[union-attr,arg-type]
    for step in range(n):
        seed = _seeded(CONFIG.seed, step, 0)
        batch = objective.drawn(objective.passages, trainer.order.at(step), seed)
        with torch.no_grad():
            outputs = model(batch.tokens, batch.mask, batch.segments, batch.words)
        trainer.train_step()
        for layer in DEAD:
            book: Any = model.blocks[layer].composition
            given = array(outputs[layer].weights)[batch.words.numpy() >= 0]
            dead = []
            for code in range(len(book.codebook)):
                idle[layer][code] = 0 if (given[:, code] > 0).any() else idle[layer][code] + 1
                if idle[layer][code] >= AFTER:
                    dead.append(code)
            words = words_of(array(outputs[layer].cont), batch, level)
            order = np.random.default_rng([CONFIG.seed, step + 1, layer]).permutation(len(words))
            left, rows = order.tolist(), {}
            for code in dead:
                fitting = [
                    i for i in left
                    if layer == 0 or code >= N_SEMEMES or code in (words[i][1] or set())
                ]  # fmt: skip
                if fitting:
                    left.remove(fitting[0])
                    rows[code] = slow_code(book, words[fitting[0]][0], dead)
            for code, row in rows.items():
                book.codebook.data[code] = torch.from_numpy(row)
                for name in ("exp_avg", "exp_avg_sq"):
                    trainer.optimizer.state[book.codebook][name][code] = 0
                idle[layer][code] = 0
                moved[layer] += 1
    return moved


@pytest.mark.parametrize("level", ["word", "token"])
def test_steps_with_revival_are_plain_steps_and_moved_codes(level: Any) -> None:
    cfg = replace(CAT, level=level)
    model, slow = dying(cfg), dying(cfg)
    trainer = reviving(model)
    for _ in range(STEPS):
        trainer.train_step()
    moved = slow_steps(slow, STEPS, level)
    assert trainer.revival.moved == moved
    assert moved[0] >= len(DEAD[0])
    assert moved[1] >= 1
    expected = weights_of(slow)
    for name, weight in weights_of(model).items():
        torch.testing.assert_close(weight, expected[name], rtol=1e-7, atol=1e-9, msg=name)


def test_a_code_that_was_moved_is_had_by_a_word() -> None:
    model = dying()
    trainer = reviving(model)
    objective: Any = trainer.objective
    before = measured(objective, model, objective.passages)["codes"]
    assert before[0]["dead_codes"] >= len(DEAD[0])
    assert [row["revived"] for row in before] == [0, 0]
    for _ in range(AFTER):
        assert not any(trainer.revival.moved.values())
        trainer.train_step()
    after = measured(objective, model, objective.passages)["codes"]
    batch = objective.drawn(objective.passages, np.arange(len(objective.passages)), 0)
    with torch.no_grad():
        outputs = model(batch.tokens, batch.mask, batch.segments, batch.words)
    assert outputs[0].weights is not None
    assert bool((outputs[0].weights[..., list(DEAD[0])] > 0).any(dim=1).any(dim=0).all())
    assert [row["revived"] for row in after] == list(trainer.revival.moved.values())
    moments = trainer.optimizer.state[trainer.revival.books[0].codebook]
    for name in ("exp_avg", "exp_avg_sq"):
        zero = (moments[name] == 0).all(dim=1).nonzero()[:, 0].tolist()
        assert set(zero) >= set(DEAD[0])
        assert len(zero) == after[0]["revived"]


# ---- what is left alone --------------------------------------------------------------------------


@pytest.mark.parametrize("after", [None, STEPS + 1])
def test_nothing_else_is_touched(after: int | None) -> None:
    """Where no code has been without words for so long, weights are those of a plain trainer."""
    model, other = dying(), dying()
    trainer = plain(model) if after is None else reviving(model, after)
    theirs = plain(other)
    for _ in range(STEPS):
        assert trainer.train_step()["loss"] == theirs.train_step()["loss"]
    for name, weight in weights_of(model).items():
        assert torch.equal(weight, weights_of(other)[name]), name
    assert not model.blocks[0].composition.codebook[list(DEAD[0])].any()  # type: ignore[union-attr,index]


@pytest.mark.parametrize("changes", [{"composer": "fixed"}, {"composer": "mlp"}])
def test_codebooks_that_are_not_trained_stay(changes: Any) -> None:
    model = dying(replace(CAT, **changes))
    trainer = reviving(model, after=1)
    for _ in range(3):
        trainer.train_step()
    assert trainer.revival.moved == {}


def test_a_run_that_is_stopped_goes_on_alike() -> None:
    whole, first, second = dying(), dying(), random(CAT, seed=9)
    undisturbed, stopped = reviving(whole), reviving(first)
    for _ in range(STEPS):
        undisturbed.train_step()
    for _ in range(AFTER + 1):
        stopped.train_step()
    tensors = {name: one.clone() for name, one in stopped.state_dict().items()}
    resumed = reviving(second)
    resumed.restore(Checkpoint(stopped.step, tensors, stopped.note()))
    assert resumed.revival.moved == stopped.revival.moved
    for _ in range(STEPS - AFTER - 1):
        resumed.train_step()
    assert resumed.revival.moved == undisturbed.revival.moved
    for name, weight in weights_of(second).items():
        assert torch.equal(weight, weights_of(whole)[name]), name
    for layer, idle in undisturbed.revival.idle.items():
        assert torch.equal(idle, resumed.revival.idle[layer])


# ---- one restart ---------------------------------------------------------------------------------


@torch.no_grad()
def test_no_code_of_that_length_is_read_more_by_the_word() -> None:
    """And each word is given once: there are fewer than codes."""
    book: Any = random(CAT).blocks[0].composition
    words = torch.randn(3, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    dead = torch.tensor([0, 3, 4, 6, 9])
    rows = restarted(book, dead, words, None, np.random.default_rng(7))
    order = np.random.default_rng(7).permutation(3)
    assert not rows[3:].any()
    lengths = rows[:3].norm(dim=1).tolist()
    others = [float(row.norm()) for i, row in enumerate(book.codebook) if i not in dead.tolist()]
    assert lengths == pytest.approx([sum(others) / len(others)] * 3)
    generator = torch.Generator().manual_seed(2)
    for row, word in zip(rows, order, strict=False):
        query = words[word] @ book.W_Q
        best = float(row @ book.W_K @ query)
        tried = torch.randn(2000, 12, generator=generator, dtype=torch.float64)
        tried *= lengths[0] / tried.norm(dim=1, keepdim=True)
        assert best > float((tried @ book.W_K @ query).max()) > 0
    weights, _ = book(words[None])
    assert weights.shape == (1, 3, 13)


def test_where_all_codes_are_without_words_their_own_length_is_kept() -> None:
    book: Any = random(CAT).blocks[0].composition
    dead = torch.arange(13)
    rows = restarted(book, dead, torch.eye(12).double(), None, np.random.default_rng(0))
    expected = float(book.codebook.norm(dim=1).mean().detach())
    assert rows.norm(dim=1).tolist() == pytest.approx([expected] * 12 + [0.0])


def test_a_sememes_code_goes_to_a_word_that_has_it() -> None:
    book: Any = random(CAT).blocks[1].composition
    words = torch.randn(4, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    allowed = torch.zeros(4, 19).bool()
    allowed[2, [3, 5]] = allowed[0, 3] = True  # nobody has 7, and 18 is free to all
    allowed[:, 18] = True
    rows = restarted(book, torch.tensor([5, 7, 18]), words, allowed, np.random.default_rng(0))
    directions = torch.nn.functional.normalize(words @ book.W_Q @ book.W_K.mT, dim=-1)
    found = torch.nn.functional.normalize(rows, dim=-1) @ directions.mT
    assert float(found[0, 2].detach()) == pytest.approx(1)
    assert not rows[1].any()
    assert float(found[2, [0, 1, 3]].max().detach()) == pytest.approx(1)


def test_words_without_annotation_guide_no_code() -> None:
    """A text whose words no lexicon has: the last block's sememes stay, its other code is moved."""
    model = dying()
    objective: Pretraining = replace(
        objective_of(lexicon=Lexicon.of({(5, 5): WORDS[5,]}, N_SEMEMES)),
        revival=Revival(model, AFTER),
    )
    trainer = RevivingTrainer(model, objective, CONFIG)
    for _ in range(AFTER):
        trainer.train_step()
    assert trainer.revival.moved[0] >= len(DEAD[0])
    assert trainer.revival.moved[1] >= 1
    assert model.blocks[1].composition.codebook[17].any()  # type: ignore[union-attr,index]
    assert not model.blocks[1].composition.codebook[list(DEAD[1][:2])].any()  # type: ignore[union-attr,index]
