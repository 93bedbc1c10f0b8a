"""CAP equals an independent implementation, on every architecture, padded and batched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import interp_compose as ic
from interp_compose.errors import CapabilityError, InterventionError, LayerError, OptionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling import HOW, How, PooledLayout
from interp_compose.interventions.pooling_sweep import Mode, SweptPooling, sweep
from interp_compose.interventions.streams import capture_kept, resumed
from interp_compose.models.base import Streams
from interp_compose.models.lens_model import LensModel
from interp_compose.models.prefix import Kept
from interp_compose.types import Read
from tests import architectures
from tests.architectures import D_VOCAB, DECODERS, N_LAYERS
from tests.interventions.reference import in_place_cap
from tests.interventions.shared import shared

pytestmark = pytest.mark.tl3

# Rows of 11, 8 and 9 tokens; BOS, then units of 1 to 4 tokens, the last one alone.
ROWS = [
    [-1, 0, 0, 1, 2, 2, 2, 3, 4, 4, 5],
    [-1, 0, 1, 1, 1, 1, 2, 3],
    [-1, 0, 0, 0, 1, 2, 2, 3, 4],
]


# Rows of 12, 9, 4 and 10 tokens, the first unit of several of which comes at all distances.
LATE = [
    [-1, 0, 1, 2, 3, 4, 5, 5, 6, 7, 7, 8],
    [-1, 0, 0, 1, 2, 2, 3, 4, 5],
    [-1, 0, 0, 1],
    [-1, 0, 1, 2, 3, 4, 5, 6, 6, 6],
]


def padded(side: str, rows: Sequence[list[int]] = ROWS) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    width = max(len(row) for row in rows) + 2
    tokens = torch.randint(3, 97, (len(rows), width), generator=generator)
    mask = torch.zeros_like(tokens)
    groups = torch.full_like(tokens, -1)
    for i, row in enumerate(rows):
        at = slice(width - len(row), width) if side == "left" else slice(0, len(row))
        mask[i, at], groups[i, at] = 1, torch.tensor(row)
    return tokens, mask, groups


def last_valid(mask: Tensor) -> Tensor:
    index = torch.arange(mask.shape[1]) * mask
    return index.amax(dim=1)


@pytest.fixture(params=["GPT-2", "Gemma 2", "native"])
def model(request: pytest.FixtureRequest) -> LensModel:
    return shared(request.param)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(("side", "layer"), [("left", 0), ("right", 1), ("left", N_LAYERS - 1)])
def test_collapse_equals_the_in_place_reference(name: str, side: str, layer: int) -> None:
    collapse_equals_the_in_place_reference(shared(name), side, layer, HOW)


@torch.no_grad()
def collapse_equals_the_in_place_reference(
    model: LensModel, side: str, layer: int, hows: Sequence[How], tolerance: float = 1e-5
) -> None:
    tokens, mask, groups = padded(side)
    rows = torch.arange(len(ROWS))
    for how in hows:
        expected = in_place_cap(model, tokens, mask, groups, layer, how)
        with pool_at(model, layer, groups, how) as record:
            found = model(tokens, attention_mask=mask)
        assert record.n_affected == len(ROWS)
        torch.testing.assert_close(
            found[:, -1], expected[rows, last_valid(mask)], atol=tolerance, rtol=tolerance
        )
        # Not the prediction alone: every slot is its unit's last token.
        assert record.layout is not None
        for row in range(len(ROWS)):
            for slot in record.layout.mask[row].nonzero()[:, 0].tolist():
                position = int(record.layout.last_token[row, slot])
                torch.testing.assert_close(
                    found[row, slot], expected[row, position], atol=tolerance, rtol=tolerance
                )


@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
@torch.no_grad()
def test_layers_count_from_the_end(mode: Mode) -> None:
    model, (tokens, mask, groups) = shared("GPT-2"), padded("left")
    pooled = []
    for layer in (-1, N_LAYERS - 1):
        with pool_at(model, layer, groups, mode=mode):
            pooled.append(model(tokens, attention_mask=mask))
    assert torch.equal(*pooled)


@torch.no_grad()
def test_batch_of_one_equals_batch_of_many(model: LensModel) -> None:
    tokens, mask, groups = padded("left")
    with pool_at(model, 1, groups, "mean"):
        together = model.forward(tokens, attention_mask=mask, read="last")
    for row in range(len(ROWS)):
        real = mask[row].bool()
        with pool_at(model, 1, groups[row : row + 1, real], "mean"):
            alone = model.forward(tokens[row : row + 1, real], read="last")
        torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
@torch.no_grad()
def test_single_tokens_give_bit_equal_logits(model: LensModel, mode: str) -> None:
    tokens, mask, _ = padded("left")
    alone = torch.arange(tokens.shape[1]).expand_as(tokens).masked_fill(mask == 0, -1)
    tokens, mask, alone = tokens[:, 2:], mask[:, 2:], alone[:, 2:]
    clean = model(tokens, attention_mask=mask)
    for layer in range(N_LAYERS):
        for how in HOW:
            told = pytest.warns(UserWarning, match=f"pooling at layer {layer} changed nothing")
            with told, pool_at(model, layer, alone, how, mode=mode) as record:
                pooled = model(tokens, attention_mask=mask)
            assert record.n_affected == 0
            valid = mask.bool()
            assert torch.equal(pooled[valid], clean[valid])


@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
@pytest.mark.parametrize("name", ["GPT-2", "Gemma 2", "native", "BERT"])
def test_one_pass_equals_one_intervention_at_a_time(name: str, mode: Mode) -> None:
    one_pass_equals_single_interventions(shared(name), mode, 40, list(range(N_LAYERS)), HOW)


@torch.no_grad()
def test_only_what_comes_before_the_first_change_is_read_from_the_clean_run() -> None:
    model = shared("Llama")
    tokens, mask, groups = padded("left", LATE)
    _, resid, kept = capture_kept(model, tokens, ["blocks.1.hook_resid_pre"], mask)
    assert kept is not None
    layout = PooledLayout.from_groups(groups, mask)

    def found(kept: Kept) -> Tensor:
        return sweep(
            model,
            lambda layer: resid["blocks.1.hook_resid_pre"],
            mask,
            model.positions(tokens, mask),
            [SweptPooling("mean", "mean", layout)],
            [1],
            lambda streams, layer, row: resumed(model, streams, layer)[:, -1],
            kept=kept,
        )

    before = torch.zeros_like(mask).bool()
    for row, units in enumerate(LATE):
        first = next(i for i, unit in enumerate(units) if units.count(unit) > 1)
        start = mask.shape[1] - len(units)
        before[row, start : start + first] = True
    random = torch.Generator().manual_seed(5)
    outside, inside = [
        Kept(
            [torch.where(at, 9 * torch.randn(k.shape, generator=random), k) for k in kept.keys],
            [torch.where(at, 9 * torch.randn(v.shape, generator=random), v) for v in kept.values],
        )
        for at in (~before[:, None, :, None], before[:, None, :, None])
    ]
    expected = found(kept)
    assert torch.equal(found(outside), expected)
    assert bool((found(inside) != expected).any(-1).all())  # each row has a BOS before its units


@architectures.needs_tl4
@torch.no_grad()
@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        *((name, torch.float32, 1e-5) for name in ("GPT-2", "Llama", "Gemma 2", "BLOOM")),
        ("GPT-2", torch.float64, 1e-13),
    ],
)
def test_what_is_not_run_again_changes_rounding_alone(
    name: str, dtype: torch.dtype, tolerance: float, mode: Mode
) -> None:
    """By bits they cannot agree: products of matrices of other shapes or layouts add in another
    order. In float64 what is left is as much smaller as its unit of rounding."""
    model = shared(name) if dtype == torch.float32 else architectures.load(name)
    model.lens.to(dtype)  # whether it may be padded is then tried in the call that is kept
    tokens, mask, groups = padded("left", LATE)
    names = [f"blocks.{layer}.hook_resid_pre" for layer in range(N_LAYERS)]
    logits, resid, kept = capture_kept(model, tokens, names, mask)
    plain = model.forward(tokens, attention_mask=mask, read="last")
    assert float((logits - plain).abs().max()) < tolerance * float(plain.std())
    layout = PooledLayout.from_groups(groups, mask)
    assert kept is not None
    found, whole = (
        sweep(
            model,
            lambda layer: resid[f"blocks.{layer}.hook_resid_pre"],
            mask,
            model.positions(tokens, mask),
            [SweptPooling(how, how, layout) for how in HOW],
            range(N_LAYERS),
            lambda streams, layer, row: resumed(model, streams, layer)[:, -1],
            mode=mode,
            kept=given,
        )
        for given in (kept, None)
    )
    assert float((found - whole).abs().max()) < tolerance * float(whole.std())
    assert torch.equal(found.argmax(dim=-1), whole.argmax(dim=-1))


@torch.no_grad()
def test_nothing_is_left_out_while_something_acts_on_the_model() -> None:
    model = shared("GPT-2")
    tokens, mask, _ = padded("left")
    with model.hooks([("blocks.1.hook_resid_pre", lambda resid, hook: 2 * resid)]):
        assert capture_kept(model, tokens, ["blocks.0.hook_resid_pre"], mask)[2] is None
    with ic.mask_attention(model, keys=[6]):
        assert not model.continues
        model(tokens, attention_mask=mask)
    assert model.continues


@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
@torch.no_grad()
def test_chunks_of_one_stream_and_of_all(mode: Mode) -> None:
    model = shared("Llama")
    one_pass_equals_single_interventions(model, mode, 1, [0, 2], ("mean", "last"))
    one_pass_equals_single_interventions(model, mode, 10_000, [0, 1, 2], ("mean", "last"))


@torch.no_grad()
def one_pass_equals_single_interventions(
    model: LensModel,
    mode: Mode,
    max_tokens: int,
    layers: list[int],
    hows: Sequence[How],
    tolerance: float = 1e-5,
) -> None:
    tokens, mask, groups = padded("left", LATE)
    names = [f"blocks.{layer}.hook_resid_pre" for layer in layers]
    read: Read = "hidden" if model.bidirectional else "last"
    _, resid, kept = capture_kept(model, tokens, names, mask)
    assert (kept is not None) == model.capabilities["prefix"].held
    layout = PooledLayout.from_groups(groups, mask)
    run_positions = []

    def finish(streams: Streams, layer: int, row: Tensor) -> Tensor:
        run_positions.append(streams.resid.shape[1])
        return resumed(model, streams, layer, read=read)[:, -1]

    found = sweep(
        model,
        lambda layer: resid[f"blocks.{layer}.hook_resid_pre"],
        mask,
        model.positions(tokens, mask),
        [SweptPooling(how, how, layout) for how in hows],
        layers,
        finish,
        mode=mode,
        max_tokens=max_tokens,
        kept=kept,
    )
    width = model.d_model if model.bidirectional else D_VOCAB
    assert found.shape == (len(layers), len(hows), len(LATE), width)
    assert (len(set(run_positions)) > 1) == (kept is not None)  # what comes before is not run
    for i, layer in enumerate(layers):
        for j, how in enumerate(hows):
            with pool_at(model, layer, groups, how, mode=mode):
                expected = model.forward(tokens, attention_mask=mask, read=read)[:, -1]
            torch.testing.assert_close(found[i, j], expected, atol=tolerance, rtol=tolerance)


@torch.no_grad()
def test_broadcast_gives_every_token_the_pooled_vector(model: LensModel) -> None:
    tokens, mask, groups = padded("left")
    seen: dict[str, Tensor] = {}

    def look(resid: Tensor, hook: Any) -> None:
        seen["after"] = resid.clone()

    before = model.resid_pre(tokens, 1, attention_mask=mask)
    with pool_at(model, 1, groups, "mean", mode="broadcast"):
        model.run_with_hooks(tokens, [("blocks.1.hook_resid_pre", look)], attention_mask=mask)
    rows = seen["after"]
    for row in range(len(ROWS)):
        for unit in {*groups[row].tolist()} - {-1}:
            where = groups[row] == unit
            expected = before[row, where].double().mean(dim=0).float().expand(int(where.sum()), -1)
            torch.testing.assert_close(rows[row, where], expected, atol=1e-6, rtol=1e-6)


@torch.no_grad()
def test_renumbered_positions_matter_for_rotary_models_only() -> None:
    tokens, mask, groups = padded("left")
    model, outputs = shared("Llama"), []
    for renumber in (False, True):
        with pool_at(model, 0, groups, "mean", renumber=renumber):
            outputs.append(model.forward(tokens, attention_mask=mask, read="last"))
    assert float((outputs[0] - outputs[1]).abs().max()) > 1e-3
    refused = pytest.raises(OptionError, match="whose positions are part of the residual: leave")
    with refused, pool_at(shared("GPT-2"), 0, groups, "mean", renumber=True):
        pass


@torch.no_grad()
def test_the_model_is_itself_again_after_success_exception_and_nesting() -> None:
    model = shared("Llama")
    tokens, mask, groups = padded("left")
    clean = model(tokens, attention_mask=mask)
    with pool_at(model, 0, groups, "mean", mode="broadcast"):
        with pool_at(model, 1, groups, "max", mode="broadcast"):
            both = model(tokens, attention_mask=mask)
        one = model(tokens, attention_mask=mask)
    assert not torch.equal(both, one)
    assert not torch.equal(one, clean)
    assert torch.equal(model(tokens, attention_mask=mask), clean)
    with pytest.raises(ZeroDivisionError), pool_at(model, 0, groups, "mean"):
        raise ZeroDivisionError
    assert torch.equal(model(tokens, attention_mask=mask), clean)


@torch.no_grad()
def test_an_intervention_that_did_nothing_is_an_error() -> None:
    model = shared("GPT-2")
    tokens, mask, groups = padded("left")
    with (
        pytest.raises(InterventionError, match="never called"),
        pool_at(model, 0, groups, "mean"),
    ):
        pass
    with (
        pytest.raises(InterventionError, match=r"groups are \[3, 13\] and the tokens .* \[3, 11\]"),
        pool_at(model, 0, groups, "mean"),
    ):
        model(tokens[:, 2:], attention_mask=mask[:, 2:])

    with (
        pytest.raises(InterventionError, match="Nest broadcasts only"),
        pool_at(model, 0, groups, mode="broadcast"),
        pool_at(model, 1, groups, mode="collapse"),
    ):
        pass

    def flat(resid: Tensor, hook: Any) -> Tensor:
        return torch.ones_like(resid)

    with (
        pytest.raises(InterventionError, match="changed nothing, although 3 examples"),
        model.hooks([("blocks.1.hook_resid_pre", flat)]),
        pool_at(model, 1, groups, "mean", mode="broadcast"),
    ):
        model(tokens, attention_mask=mask)


@pytest.mark.parametrize(
    ("name", "layer", "options", "error", "message"),
    [
        ("GPT-2", 3, {}, LayerError, "layer 3 is outside"),
        ("GPT-2", 0, {"how": "median"}, OptionError, "pool_at: how='median'; expected one of"),
        ("GPT-2", 0, {"mode": "fold"}, OptionError, "pool_at: mode='fold'; expected one of"),
        ("BLOOM", 0, {}, CapabilityError, "BloomForCausalLM"),
    ],
)
def test_bad_options_are_refused_on_entering(
    name: str, layer: int, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pool_at(shared(name), layer, padded("left")[2], **options).__enter__()
