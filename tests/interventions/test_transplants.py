"""Transplants equal an explicit loop over hooks in float64; controls; what must not leak."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import InterventionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling import PooledLayout
from interp_compose.interventions.streams import Shared, StreamSweep, resumed
from interp_compose.interventions.transplants import VECTORS, Places, as_long_as, entering
from interp_compose.models.base import Streams
from interp_compose.models.lens_model import LensModel
from interp_compose.models.prefix import Kept
from interp_compose.papers.complexity.models.small_decoder import small_decoder
from interp_compose.papers.shared.models.decoder import DecoderConfig
from tests.interventions.reference import pool
from tests.interventions.shared import shared

pytestmark = pytest.mark.tl3

# Of each pair: tokens, and the first and the last token of the phrase. BOS has no part in it.
TARGETS = [(11, 3, 5), (8, 1, 1), (9, 2, 5)]
SOURCES = [(7, 4, 6), (10, 2, 3), (6, 1, 4)]
DONORS = [1, 2, 0]
POOLINGS = {how: how for how in ("mean", "max", "sum")}
N = len(TARGETS)


class Rows:
    """Padded tokens, and where the phrases are in them."""

    def __init__(self, shapes: list[tuple[int, int, int]], side: str, seed: int) -> None:
        width = max(length for length, _, _ in shapes) + 2
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(3, 97, (len(shapes), width), generator=generator)
        self.mask = torch.zeros_like(self.tokens)
        self.phrases: list[list[int]] = []
        for row, (length, first, last) in enumerate(shapes):
            start = width - length if side == "left" else 0
            self.mask[row, start : start + length] = 1
            self.phrases.append(list(range(start + first, start + last + 1)))

    @property
    def groups(self) -> Tensor:
        """Each token a unit, but those of the phrase; the first token of a row has none."""
        groups = torch.full_like(self.tokens, -1)
        for row, phrase in enumerate(self.phrases):
            unit = 0
            for position in self.mask[row].nonzero()[1:, 0].tolist():
                unit += position not in phrase[1:]
                groups[row, position] = unit
        return groups

    @property
    def last(self) -> list[int]:
        """The last token of each row."""
        return [int(row.nonzero()[-1]) for row in self.mask]


def places(targets: Rows, sources: Rows, rows: list[int]) -> Places:
    """What the study makes of text, made of positions."""
    layout = PooledLayout.from_groups(targets.groups, targets.mask)
    phrase = [int(layout.of_token[row, at[0]]) for row, at in enumerate(targets.phrases)]
    source = torch.full((len(rows), sources.tokens.shape[1]), -1)
    for i, row in enumerate(rows):
        source[i, sources.phrases[row]] = 0
    return Places(layout, torch.tensor(phrase), source, torch.ones(N, dtype=torch.bool))


@torch.no_grad()
def swept(
    model: LensModel, targets: Rows, sources: Rows, direction: Tensor, layers: list[int]
) -> Tensor:
    """Logits [layer, pooling, vector, pair, d_vocab] of all transplants in one pass."""
    rows = [*range(N), *DONORS]
    where = places(targets, sources, rows)

    def clean(of: Rows, chosen: list[int], layer: int) -> Tensor:
        return model.resid_pre(of.tokens[chosen], layer, attention_mask=of.mask[chosen])

    def enter(layer: int) -> Tensor:
        pair = clean(targets, [*range(N)], layer), clean(sources, rows, layer)
        return entering(*pair, where, POOLINGS, VECTORS, direction, layer)

    def finish(streams: Streams, layer: int, row: Tensor) -> Tensor:
        return resumed(model, streams, layer)[:, -1]

    kinds = len(POOLINGS) * len(VECTORS)
    positions = where.layout.positions(model.positions(targets.tokens, targets.mask))
    mask = where.layout.mask.repeat(kinds, 1)
    streams = StreamSweep(model, mask, positions.repeat(kinds, 1), layers, max_tokens=200)
    for layer in layers:
        streams.enter(layer, enter(layer))
    return streams.read(finish).reshape(len(layers), len(POOLINGS), len(VECTORS), N, -1)


@torch.no_grad()
def one_by_one(
    model: LensModel, target: tuple[Tensor, list[int]], vector: Tensor, layer: int
) -> Tensor:
    """Logits at the last of one row's tokens, which nothing leaves: the vector is written at the
    phrase's last token, and its other tokens are hidden as keys from this layer on."""
    tokens, phrase = target
    hidden = torch.zeros(len(tokens), dtype=torch.bool)
    hidden[phrase[:-1]] = True

    def write(resid: Tensor, hook: Any) -> Tensor:
        out = resid.clone()
        out[0, phrase[-1]] = vector.to(resid.dtype)
        return out

    def knock_out(pattern: Tensor, hook: Any) -> Tensor:  # [batch head query key]
        left = pattern.masked_fill(hidden, 0.0)
        return left / left.sum(dim=-1, keepdim=True).clamp(min=1e-30)

    hooks: list[Any] = [(f"blocks.{layer}.hook_resid_pre", write)]
    hooks += [(f"blocks.{k}.attn.hook_pattern", knock_out) for k in range(layer, model.n_layers)]
    return model.run_with_hooks(tokens[None], hooks)[0, -1]


@torch.no_grad()
def pooled(model: LensModel, of: Rows, row: int, layer: int, how: str) -> Tensor:
    """The vector of a phrase, its row run alone."""
    tokens, phrase = alone(of, row)
    resid = model.resid_pre(tokens[None], layer, attention_mask=torch.ones_like(tokens[None]))
    return pool(resid[0, phrase], how)


def alone(of: Rows, row: int) -> tuple[Tensor, list[int]]:
    """A row without padding, and where its phrase is."""
    start = int(of.mask[row].nonzero()[0])
    return of.tokens[row, of.mask[row].bool()], [at - start for at in of.phrases[row]]


def double() -> LensModel:
    cfg = DecoderConfig(d_vocab=97, n_ctx=13, n_layers=3, d_model=20, n_heads=2, d_mlp=17)
    model: Any = small_decoder(cfg, init_rate=0.5, seed=0)
    model.lens.double()
    return model  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "side", "tolerance"), [("float64", "left", 1e-10), ("GPT-2", "right", 1e-5)]
)
def test_every_cell_equals_hooks_one_by_one(name: str, side: str, tolerance: float) -> None:
    model = double() if name == "float64" else shared(name)
    targets, sources = Rows(TARGETS, side, 1), Rows(SOURCES, side, 2)
    direction = torch.randn(N, model.d_model, generator=torch.Generator().manual_seed(3))
    found = swept(model, targets, sources, direction, [0, 1, 2])
    assert found.isfinite().all()
    for layer in range(3):
        for p, how in enumerate(POOLINGS):
            for row in range(N):
                moved = pooled(model, sources, row, layer, how)
                donor = pooled(model, sources, DONORS[row], layer, how)
                length = sum(float(x) ** 2 for x in moved) ** 0.5
                expected = {
                    "transplant": moved,
                    "own": pooled(model, targets, row, layer, how),
                    "random phrase": donor * (length / sum(float(x) ** 2 for x in donor) ** 0.5),
                    "random direction": direction[row].double()
                    * (length / sum(float(x) ** 2 for x in direction[row]) ** 0.5),
                }
                for v, vector in enumerate(VECTORS):
                    wanted = one_by_one(model, alone(targets, row), expected[vector], layer)
                    torch.testing.assert_close(
                        found[layer, p, v, row], wanted, atol=tolerance, rtol=tolerance
                    )


def test_the_own_phrase_is_pool_at_of_that_unit() -> None:
    model, targets = shared("Llama"), Rows(TARGETS, "left", 1)
    direction = torch.ones(N, model.d_model)
    found = swept(model, targets, Rows(SOURCES, "left", 2), direction, [0, 1, 2])
    for layer in range(3):
        for p, how in enumerate(POOLINGS):
            with torch.no_grad(), pool_at(model, layer, targets.groups, how):
                wanted = model.forward(targets.tokens, attention_mask=targets.mask, read="last")
            own = found[layer, p, VECTORS.index("own")]
            torch.testing.assert_close(own, wanted[:, -1], atol=1e-6, rtol=1e-6)


def test_an_identical_phrase_of_an_identical_prompt_is_the_own_one() -> None:
    model = double()
    targets = Rows(TARGETS, "left", 1)
    where = places(targets, targets, [*range(N), *DONORS])
    resid = partial(model.resid_pre, attention_mask=targets.mask)
    rows = [*range(N), *DONORS]
    for layer in range(3):
        with torch.no_grad():
            target = resid(targets.tokens, layer)
        direction = torch.ones(N, model.d_model)
        asked = (target, target[rows], where, {"mean": "mean"}, VECTORS[:2], direction, layer)
        with pytest.raises(InterventionError, match="changed nothing, although the phrases of 3"):
            entering(*asked)
        where.differs[:] = False
        moved, own = entering(*asked).split(N)
        assert torch.equal(moved, own)
        where.differs[:] = True


def test_nothing_of_the_replaced_phrase_is_left_at_layer_0() -> None:
    model, sources = shared("GPT-2"), Rows(SOURCES, "left", 2)
    targets, other = Rows(TARGETS, "left", 1), Rows(TARGETS, "left", 1)
    for row, phrase in enumerate(other.phrases):
        other.tokens[row, phrase] = (other.tokens[row, phrase] + 31) % 94 + 3
    direction = torch.randn(N, model.d_model, generator=torch.Generator().manual_seed(3))
    before = swept(model, targets, sources, direction, [0, 1])
    after = swept(model, other, sources, direction, [0, 1])
    own = VECTORS.index("own")
    for v, _ in enumerate(VECTORS):
        assert torch.equal(before[0, :, v], after[0, :, v]) == (v != own)
    assert (before[1] != after[1]).any(dim=-1).all()  # what follows has read it by then


def test_half_precision_is_finite_and_close() -> None:
    whole, half = double(), double()
    half.lens.to(torch.bfloat16)  # type: ignore[attr-defined]
    targets, sources = Rows(TARGETS, "right", 1), Rows(SOURCES, "right", 2)
    direction = torch.randn(N, whole.d_model, generator=torch.Generator().manual_seed(3))
    found = swept(half, targets, sources, direction, [0, 2])
    assert found.dtype == torch.bfloat16
    assert found.isfinite().all()
    wanted = swept(whole, targets, sources, direction, [0, 2])
    assert (found.double() - wanted).abs().max() < 0.1 * wanted.abs().max()


def test_norms_are_those_of_the_others() -> None:
    vectors, others = torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([[0.0, 1.0], [6.0, 8.0]])
    assert as_long_as(vectors, others).tolist() == [
        [pytest.approx(0.6), pytest.approx(0.8)],
        [0, 10],
    ]
    assert as_long_as(torch.zeros(1, 2), others[:1]).isnan().all()


def test_tokens_pooled_before_the_first_change_are_not_taken_for_the_clean_runs() -> None:
    def parts(column: list[int]) -> list[Any]:
        row, first = torch.tensor([0]), torch.tensor([2])
        return list(Shared(Kept([], []), row, torch.tensor([column]), first).parts(width=4))

    (apart,) = parts([-1, -1, 0, 1, 2, 2, 3])  # padding; the first change is at the pooled place
    assert apart[1] == 2
    with pytest.raises(AssertionError, match="pooled before"):
        parts([0, 1, 1, 2, 2, 3])
