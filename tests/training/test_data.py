"""Batches: every example once an epoch, parts that add up, padding on the left."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from interp_compose.training.data import TrainingExample, batch_at, collate, in_order, into_parts
from tests.training.runs import made_up

sizes = st.integers(1, 40)


@given(n=sizes, batch=sizes, seed=st.integers(0, 2**40), epoch=st.integers(0, 3))
def test_an_epoch_holds_every_example_once(n: int, batch: int, seed: int, epoch: int) -> None:
    steps = -(-n // batch)
    seen = [batch_at(epoch * steps + place, n, batch, seed) for place in range(steps)]
    assert sorted(i for indices in seen for i in indices) == list(range(n))
    assert all(len(indices) == batch for indices in seen[:-1])


def test_epochs_and_seeds_are_shuffled_anew() -> None:
    orders = [tuple(batch_at(epoch, 50, 50, seed)) for seed in range(3) for epoch in range(3)]
    assert len(set(orders)) == 9
    assert batch_at(7, 50, 8, 1) == batch_at(7, 50, 8, 1)


@given(n=st.integers(0, 40), parts=st.integers(1, 12))
def test_parts_are_neighbours_of_like_size(n: int, parts: int) -> None:
    indices = list(range(100, 100 + n))
    found = into_parts(indices, parts)
    assert len(found) == parts
    assert [i for part in found for i in part] == indices
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
