"""Edits around the softmax: they act, they are refused where they would not, they leave nothing."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from interp_compose.errors import CapabilityError, InterventionError, LayerError
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.models.attention import edited_attention, unedited
from interp_compose.models.copying import copy_model
from interp_compose.models.lens_model import LensModel
from tests.interventions.shared import FEW, TOKENS, assert_clean, make, params, run, shared

pytestmark = pytest.mark.tl3


class Edit:
    """Scores (of key 0) and pattern (of head 0) as they come, or changed; with what was seen."""

    def __init__(self, add: float = 0.0, times: float = 1.0) -> None:
        self.add, self.times = add, times
        self.seen: list[tuple[Tensor, Tensor]] = []
        self._scores = torch.empty(0)

    def scores(self, scores: Tensor) -> Tensor:
        self._scores = scores
        bump = torch.zeros_like(scores)
        bump[..., 0] = self.add
        return scores + bump

    def pattern(self, pattern: Tensor) -> Tensor:
        self.seen.append((self._scores, pattern))
        return torch.cat([pattern[:, :1] * self.times, pattern[:, 1:]], dim=1)


@pytest.fixture(params=params(*FEW))
def model(request: pytest.FixtureRequest) -> LensModel:
    return shared(request.param)


@torch.no_grad()
def test_an_edit_sees_scores_and_pattern_and_acts(model: LensModel) -> None:
    clean = run(model, TOKENS)
    look = Edit()
    with model.editing_attention({1: look}):
        assert torch.equal(run(model, TOKENS), clean)
    ((scores, pattern),) = look.seen
    assert scores.shape == pattern.shape == (2, model.n_heads, 7, 7)
    torch.testing.assert_close(pattern, scores.double().softmax(-1).float(), atol=1e-6, rtol=1e-5)
    for edit in (Edit(add=3.0), Edit(times=0.5)):
        with model.editing_attention({1: edit}):
            assert (run(model, TOKENS) - clean).abs().max() > 1e-3
    assert torch.equal(run(model, TOKENS), clean)
    assert_clean(model)


@torch.no_grad()
def test_hooks_see_the_edited_pattern(model: LensModel) -> None:
    name = "blocks.1.attn.hook_pattern"
    look = Edit(times=0.5)
    with model.editing_attention({1: look}):
        _, found = model.capture(TOKENS, [name], read="hidden")
    _, pattern = look.seen[0]
    assert torch.equal(found[name][:, 0], pattern[:, 0] * 0.5)
    assert torch.equal(found[name][:, 1:], pattern[:, 1:])


@torch.no_grad()
def test_nested_edits_run_from_the_outside_in_and_back() -> None:
    model = shared("GPT-2")
    outer, inner = Edit(add=2.0, times=0.5), Edit(add=1.0, times=3.0)
    with model.editing_attention({1: outer}), model.editing_attention({1: inner}):
        both = run(model, TOKENS)
        with model.editing_attention({0: Edit()}):
            assert torch.equal(run(model, TOKENS), both)
    (outer_scores, outer_pattern), (inner_scores, inner_pattern) = outer.seen[0], inner.seen[0]
    assert torch.equal(inner_scores[..., 0], outer_scores[..., 0] + 2.0)
    assert torch.equal(outer_pattern[:, 0], inner_pattern[:, 0] * 3.0)
    assert_clean(model)


def test_what_cannot_be_edited_says_so() -> None:
    model = shared("GPT-2")
    with pytest.raises(LayerError, match="layer 3 is outside"):
        model.editing_attention({3: Edit()}).__enter__()
    from_the_end = Edit()
    with model.editing_attention({-1: from_the_end}):
        model(TOKENS)
    assert from_the_end.seen
    with (
        pytest.raises(InterventionError, match=r"attention of layers \[1\] never ran. Run the mod"),
        model.editing_attention({1: Edit()}),
    ):
        pass
    assert_clean(model)


@pytest.mark.parametrize("count", [0, 2])
def test_another_number_of_softmaxes_is_refused(count: int) -> None:
    class Attention(nn.Module):
        def forward(self, scores: Tensor) -> Tensor:
            for _ in range(count):
                scores = scores.softmax(-1)
            return scores.flatten(1).softmax(-1)  # over two axes: somebody else's

    attention = Attention()
    with (
        pytest.raises(InterventionError, match=f"layer 4 ran {count} softmaxes .* one was expec"),
        edited_attention({4: attention}, {4: Edit()}),
    ):
        attention(torch.zeros(1, 1, 2, 2))
    assert "forward" not in vars(attention)


def test_a_softmax_in_a_users_hook_is_refused() -> None:
    model = shared("GPT-2")

    def hook(scores: Tensor, hook: Any) -> None:
        scores.softmax(-1)

    with (
        pytest.raises(InterventionError, match="no such softmax in your own hooks"),
        mask_attention(model, keys=2),
        model.hooks([("blocks.0.attn.hook_attn_scores", hook)]),
    ):
        run(model, TOKENS)
    assert_clean(model)


@pytest.mark.parametrize("function", ["method", "torch", "functional", "module"])
def test_each_spelling_of_softmax(function: str) -> None:
    class Attention(nn.Module):
        def forward(self, scores: Tensor) -> Tensor:
            if function == "method":
                return scores.softmax(dim=-1)
            if function == "torch":
                return torch.softmax(scores, -1)
            if function == "module":
                return nn.Softmax(dim=-1)(scores)
            return nn.functional.softmax(scores, dim=-1, dtype=torch.float64)

    attention, scores = Attention(), torch.randn(2, 3, 5, 7)
    with edited_attention({0: attention}, {0: Edit(times=0.5)}):
        found = attention(scores)
    expected = scores.softmax(-1)
    torch.testing.assert_close(found[:, 0].float(), expected[:, 0] * 0.5)
    torch.testing.assert_close(found[:, 1:].float(), expected[:, 1:])


@pytest.mark.parametrize("name", ["OPT", "BERT"])
@torch.no_grad()
def test_another_kernel_is_refused_by_name(name: str) -> None:
    early, late = make(name), make(name)
    late.require("mask_attention")  # proven while it was eager
    for model, error in ((early, CapabilityError), (late, InterventionError)):
        model.lens.original_model.set_attn_implementation("sdpa")
        with pytest.raises(error, match="eager attention"), mask_attention(model, keys=2):
            run(model, TOKENS)
        assert_clean(model)


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
@torch.no_grad()
def test_where_the_bridge_computes_attention_another_kernel_changes_nothing(name: str) -> None:
    model = make(name)
    with mask_attention(model, keys=2):
        expected = run(model, TOKENS)
    model.lens.original_model.set_attn_implementation("sdpa")
    with mask_attention(model, keys=2):
        torch.testing.assert_close(run(model, TOKENS), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_copy_inside_a_block_is_refused() -> None:
    model = make("GPT-2")
    with mask_attention(model, keys=2):
        run(model, TOKENS)
        with pytest.raises(
            InterventionError, match="intervention at keys is inside a `with` block"
        ):
            copy.deepcopy(model.lens)
        with pytest.raises(InterventionError, match="a copy of the model|which a copy"):
            copy_model(model)
    assert_clean(model)


@torch.no_grad()
def test_unedited_lifts_every_edit_for_a_while() -> None:
    model = shared("OPT")
    attentions = [block.attn for block in model.lens.blocks]
    clean = run(model, TOKENS)
    with mask_attention(model, keys=2) as outer, mask_attention(model, keys=4) as inner:
        masked = run(model, TOKENS)
        counts = (outer.n_cut, inner.n_cut)
        with unedited(attentions):
            assert torch.equal(run(model, TOKENS), clean)
        assert (outer.n_cut, inner.n_cut) == counts
        assert torch.equal(run(model, TOKENS), masked)
        assert not torch.equal(masked, clean)
    assert_clean(model)


def test_a_forward_of_somebody_elses_is_given_back() -> None:
    attention = nn.Softmax(dim=-1)
    theirs = SimpleNamespace(calls=0)

    def forward(scores: Tensor) -> Tensor:
        theirs.calls += 1
        return scores.softmax(-1)

    object.__setattr__(attention, "forward", forward)
    with edited_attention({0: attention}, {0: Edit(times=0.0)}):
        assert not bool(attention(torch.zeros(1, 1, 2, 2)).any())
        with unedited([attention]):
            assert bool(attention(torch.zeros(1, 1, 2, 2)).all())
    assert vars(attention)["forward"] is forward
    assert theirs.calls == 2
