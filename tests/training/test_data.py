"""Batches: every example once an epoch, parts that add up, padding on the left."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from hypothesis import given, strategies as st

from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import Batch, TrainingExample, collate, in_order
from interp_compose.training.objectives import Carma
from interp_compose.training.order import BatchOrder, into_parts, token_batches
from tests.training.runs import made_up

sizes = st.integers(1, 40)


@given(n=sizes, batch=sizes, seed=st.integers(0, 2**40), epoch=st.integers(0, 3))
def test_an_epoch_holds_every_example_once(n: int, batch: int, seed: int, epoch: int) -> None:
    steps = -(-n // batch)
    order = BatchOrder([3] * n, TrainConfig(batch_size=batch, seed=seed))
    seen = [order.at(epoch * steps + place).tolist() for place in range(steps)]
    assert order.steps_per_epoch == steps
    assert sorted(i for indices in seen for i in indices) == list(range(n))
    assert all(len(indices) == batch for indices in seen[:-1])


def test_epochs_and_seeds_are_shuffled_anew() -> None:
    config = TrainConfig(batch_size=50)
    seeds = [BatchOrder([3] * 50, replace(config, seed=seed)) for seed in range(3)]
    assert len({tuple(order.at(epoch)) for order in seeds for epoch in range(3)}) == 9
    assert np.array_equal(seeds[1].at(2), BatchOrder([3] * 50, replace(config, seed=1)).at(2))


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=60),
    budget=st.integers(1, 90),
    seed=st.integers(0, 9),
)
def test_a_budget_of_tokens(lengths: list[int], budget: int, seed: int) -> None:
    """Every example once an epoch; batches hold the budget, and another example would not fit."""
    config = TrainConfig(batch_tokens=budget, seed=seed)
    order = BatchOrder(lengths, config)
    n = order.steps_per_epoch
    assert n == config.steps_per_epoch(len(lengths), lengths)
    for epoch in range(2):
        batches = [order.at(epoch * n + place).tolist() for place in range(n)]
        assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
        sizes = sorted([sorted(lengths[i] for i in batch) for batch in batches], key=max)
        for batch in sizes:
            assert len(batch) == 1 or len(batch) * batch[-1] <= budget
        for batch, following in pairwise(sizes):
            if batch[-1] < following[0]:  # else equal lengths are cut at any place
                assert (len(batch) + 1) * following[0] > budget


def test_batches_of_a_budget_by_hand() -> None:
    assert token_batches([2, 2, 3, 3, 9, 20], 9) == [0, 3, 4, 5, 6]
    lengths = [3, 20, 2, 9, 2, 3]
    order = BatchOrder(lengths, TrainConfig(batch_tokens=9))
    epochs = [[sorted(lengths[i] for i in order.at(4 * e + k)) for k in range(4)] for e in range(9)]
    assert all(sorted(epoch) == [[2, 2, 3], [3], [9], [20]] for epoch in epochs)
    assert len({str(epoch) for epoch in epochs}) > 3  # their order is shuffled
    assert len({tuple(order.at(4 * e + k)) for e in range(9) for k in range(4)}) > 4  # and ties


@given(n=st.integers(0, 40), parts=st.integers(1, 12))
def test_parts_are_neighbours_of_like_size(n: int, parts: int) -> None:
    indices = np.arange(100, 100 + n)
    found = into_parts(indices, parts)
    assert len(found) == parts
    assert [i for part in found for i in part] == indices.tolist()
    counts = [len(part) for part in found]
    assert max(counts) - min(counts) <= 1


def test_collate() -> None:
    items = [
        TrainingExample(np.array([0, 5, 6]), np.array([-1, 0, 0]), 9),
        TrainingExample(np.array([0, 7, 8, 4, 3]), np.array([-1, 0, 1, 1, 2]), 2),
    ]
    batch = collate(items)
    assert batch.tokens.tolist() == [[0, 0, 0, 5, 6], [0, 7, 8, 4, 3]]
    assert batch.mask.tolist() == [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
    assert batch.word_ids.tolist() == [[-1, -1, -1, 0, 0], [-1, 0, 1, 1, 2]]
    assert batch.answers.tolist() == [9, 2]


def test_in_order_gives_like_lengths_together_and_all_of_them() -> None:
    items = made_up(23)
    parts = [[items[i] for i in places] for places in in_order(items, 5)]
    assert [len(part) for part in parts] == [5, 5, 5, 5, 3]
    lengths = [len(item.ids) for part in parts for item in part]
    assert lengths == sorted(lengths)
    assert {id(item) for part in parts for item in part} == {id(item) for item in items}


def test_the_terms_of_a_part_weigh_as_much_as_it_has_of_what_they_are_means_over() -> None:
    """Examples, anchors of MI and tokens of words: word 0 counts, specials and padding do not."""
    word_ids = torch.tensor([[-1, -1, 0, 0, 1], [-1, 0, 1, 1, 2]])
    batch = Batch(
        torch.zeros_like(word_ids), (word_ids >= 0).long(), word_ids, torch.tensor([3, 4])
    )
    objective = Carma((), (), config=CarmaConfig(), n_layers=2)
    assert objective.sizes(batch) == (2, 2 + 2, 3 + 4)
