"""Outputs of a model with the key or the second anchor masked."""

from __future__ import annotations

import pytest
import torch

import interp_compose as ic
from interp_compose.errors import InputError
from interp_compose.models.lens_model import LensModel
from interp_compose.papers.complexity.studies.anchors.masked_outputs import (
    KEY,
    MODES,
    Mode,
    circuit_numbers,
    key_masked,
    second_anchor_masked,
)

TASK = ic.complexity.AnchorTask()
SHIFTS = {1: 5, 2: 1, 3: -2, 4: -8}  # by the anchor's token id


@pytest.fixture(scope="module")
def model() -> LensModel:
    config = ic.complexity.DecoderConfig(d_vocab=TASK.vocabulary, d_model=16, d_mlp=24)
    return ic.complexity.small_decoder(config, init_rate=0.3, seed=0)


def test_fifty_of_each_pair_of_different_anchors(model: LensModel) -> None:
    found = key_masked(model, TASK)
    counts = torch.bincount(found.labels, minlength=16).tolist()
    expected = [50 if one != other else 0 for one, other in TASK.chains]
    assert counts == expected
    assert sum(counts) == 600
    firsts = [list(TASK.anchors).index(TASK.chains[label][0]) + 1 for label in found.labels]
    assert found.first.tolist() == firsts


def test_four_of_each_value_between_the_same_noise(model: LensModel) -> None:
    found = second_anchor_masked(model, TASK)
    assert len(found.labels) == 160
    assert torch.bincount(found.labels)[found.labels.unique()].eq(4).all()
    for key, anchor, value in zip(
        found.keys.tolist(), found.first.tolist(), found.labels.tolist(), strict=True
    ):
        assert key + SHIFTS[anchor] == value
        assert 20 <= key <= 99


def test_outputs_are_those_of_the_masked_model(model: LensModel) -> None:
    """By a model whose attention is set to zero in a hook, one sequence at a time."""
    found = key_masked(model, TASK, mode="zero", seed=3)

    def zero(pattern: torch.Tensor, hook: object) -> torch.Tensor:
        pattern[..., KEY] = 0
        return pattern

    random = torch.Generator().manual_seed(3)
    pairs = [i for i, (one, other) in enumerate(TASK.chains) if one != other]
    chains = torch.tensor(pairs).repeat_interleave(50)
    keys = torch.randint(20, 100, (600,), generator=random)
    data = TASK.build(keys, chains, torch.full_like(keys, KEY), random)
    assert torch.equal(found.keys, keys)
    hooks = [(f"blocks.{k}.attn.hook_pattern", zero) for k in range(2)]
    for i in (0, 99, 599):
        with torch.no_grad():
            alone = model.run_with_hooks(data.tokens[i : i + 1], hooks, read="hidden")[0, -1]
        torch.testing.assert_close(found.outputs[i], alone, rtol=1e-4, atol=1e-5)


def test_a_hidden_key_leaves_no_trace_and_a_zeroed_one_does(model: LensModel) -> None:
    """Two sequences of one pair and one noise: excluded keys give one output, exactly."""
    random = torch.Generator().manual_seed(0)
    keys = torch.arange(20, 60)
    chains = torch.zeros_like(keys)
    data = TASK.build(keys, chains, torch.full_like(keys, KEY), random)
    tokens = data.tokens.clone()
    tokens[:, KEY + 3 :] = tokens[:1, KEY + 3 :]
    tokens[:, :KEY] = tokens[:1, :KEY]
    spreads: dict[Mode, float] = {}
    for mode in MODES:
        with torch.no_grad(), ic.mask_attention(model, keys=[KEY], mode=mode):
            out = model.forward(tokens, read="hidden")[:, -1]
        spreads[mode] = float((out - out[:1]).abs().max())
    assert spreads["exclude"] == 0
    assert spreads["zero"] > 1e-4


@pytest.mark.parametrize("mode", MODES)
def test_numbers_are_finite_and_repeat(model: LensModel, mode: Mode) -> None:
    found = circuit_numbers(model, TASK, mode=mode, seed=1)
    assert set(found) == {"pair_silhouette", "twin_distance", "anchor_contrast"}
    assert -1 <= found["pair_silhouette"] <= 1
    assert found == circuit_numbers(model, TASK, mode=mode, seed=1)
    assert found != circuit_numbers(model, TASK, mode=mode, seed=2)


def test_what_has_no_pairs_is_refused(model: LensModel) -> None:
    for task in (
        ic.complexity.AnchorTask(n_anchors=1, unseen=()),
        ic.complexity.AnchorTask(length=5, numbers=(20, 99)),
    ):
        with pytest.raises(InputError, match="these pictures are of pairs of anchors"):
            key_masked(model, task)
        with pytest.raises(InputError, match="these pictures are of pairs of anchors"):
            second_anchor_masked(model, task)
    far = ic.complexity.AnchorTask(anchors={"a": 0, "b": 200}, unseen=(), d_vocab=600)
    with pytest.raises(InputError, match="reach 0 common values"):
        second_anchor_masked(model, far)
