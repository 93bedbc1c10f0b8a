"""Interventions on encoder–decoders against Hugging Face's blocks run by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from interp_compose.errors import InterventionError, OptionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling import PooledLayout
from interp_compose.interventions.pooling_sweep import Mode, SweptPooling, sweep
from interp_compose.interventions.streams import resumed
from interp_compose.models.base import Streams
from tests.architectures import ENCODER_DECODERS
from tests.interventions.shared import assert_clean
from tests.interventions.two_stacks import (
    SOURCE_UNITS,
    TARGET_UNITS,
    TARGETS,
    in_place,
    joined,
    pair,
)

SIDES = ("left", "right", "between", "both")


def log_probs(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits.double(), dim=-1)


@pytest.mark.parametrize("name", ENCODER_DECODERS)
@torch.no_grad()
def test_pooling_at_any_layer_equals_blocks_run_by_hand(name: str) -> None:
    """In the encoder, where the decoder begins, and in the decoder; and pooling does something."""
    module, model = pair(name)
    layers = (0, 1, model.n_encoder_layers, model.n_layers - 1)
    for layer, side, how in zip(layers, SIDES, ("mean", "max", "sum", "last"), strict=True):
        tokens, mask, units = joined(model, side)
        clean = log_probs(model(tokens, attention_mask=mask))
        with pool_at(model, layer, units, how) as record:  # type: ignore[arg-type]
            logits = model(tokens, attention_mask=mask)
        layout = record.layout
        assert layout is not None
        for row, target in enumerate(TARGETS):
            expected = in_place(module, row, layer, how)
            slots = layout.mask[row].bool()
            # Positions of the target in the pooled sequence, each its unit's last token.
            last = layout.last_token[row, slots]
            of_target = model.predicts(tokens)[row, last]
            found = log_probs(logits[row, slots][of_target])
            units_of = TARGET_UNITS[row]
            ends = [i for i in range(len(target)) if units_of[i + 1 : i + 2] != [units_of[i]]]
            assert float((found - expected[ends]).abs().max()) <= 1e-4
            first = clean[row, model.predicts(tokens)[row] & mask[row].bool()][ends]
            assert float((found - first).abs().max()) > 1e-2


@pytest.mark.parametrize(("name", "sides"), [("T5", SIDES), ("BART", ("left", "both"))])
@torch.no_grad()
def test_padding_and_batch_change_nothing_and_the_clean_run_is_the_module(
    name: str, sides: Sequence[str]
) -> None:
    module, model = pair(name)
    for side in sides:
        tokens, mask, _ = joined(model, side)
        logits = model(tokens, attention_mask=mask)
        at = model.predicts(tokens) & mask.bool()
        assert bool(logits[~at].isnan().all())
        for row in range(len(TARGETS)):
            expected = in_place(module, row, -1, "mean")
            assert float((log_probs(logits[row, at[row]]) - expected).abs().max()) <= 1e-4
            real = mask[row].bool()
            alone = model(tokens[row : row + 1, real])[0, -len(TARGETS[row]) :]
            torch.testing.assert_close(alone, logits[row, at[row]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("name", "mode"), [("T5", "collapse"), ("BART", "broadcast")])
@torch.no_grad()
def test_one_pass_equals_one_intervention_at_a_time(name: str, mode: Mode) -> None:
    model = pair(name)[1]
    tokens, mask, units = joined(model, "left")
    layers = [0, model.n_encoder_layers, model.n_layers - 1]
    names = [f"blocks.{layer}.hook_resid_pre" for layer in layers]
    _, resid = model.capture(tokens, names, attention_mask=mask, read="last")

    def finish(streams: Streams, layer: int, row: Tensor) -> Tensor:
        return resumed(model, streams, layer)[:, -1]

    found = sweep(
        model,
        lambda layer: resid[f"blocks.{layer}.hook_resid_pre"],
        mask,
        model.positions(tokens, mask),
        [SweptPooling("mean", "mean", PooledLayout.from_groups(units, mask))],
        layers,
        finish,
        mode=mode,
        max_tokens=40,
    )
    for i, layer in enumerate(layers):
        with pool_at(model, layer, units, "mean", mode=mode):
            expected = model.forward(tokens, attention_mask=mask, read="last")[:, -1]
        torch.testing.assert_close(found[i, 0], expected, atol=1e-5, rtol=1e-5)
    assert_clean(model)


@pytest.mark.filterwarnings("ignore:pooling at layer")  # nothing is pooled
@pytest.mark.parametrize(("name", "mode"), [("T5", "collapse"), ("BART", "broadcast")])
@torch.no_grad()
def test_units_of_one_token_give_bit_equal_logits(name: str, mode: Mode) -> None:
    model = pair(name)[1]
    tokens, mask, _ = joined(model, "left")
    alone = torch.arange(tokens.shape[1]).expand_as(tokens).masked_fill(mask == 0, -1)
    real = mask.bool().any(dim=0)
    tokens, mask, alone = tokens[:, real], mask[:, real], alone[:, real]
    clean = model(tokens, attention_mask=mask)
    at = model.predicts(tokens) & mask.bool()
    for layer in range(model.n_layers):
        with pool_at(model, layer, alone, mode=mode) as record:
            pooled = model(tokens, attention_mask=mask)
        assert record.n_affected == 0
        assert torch.equal(pooled[at], clean[at])


@torch.no_grad()
def test_distances_after_a_collapse_are_those_of_last_tokens_or_renumbered() -> None:
    tokens, mask, units = joined(pair("T5")[1], "left")
    model, logits = pair("T5")[1], []
    for renumber in (False, True):
        with pool_at(model, 0, units, renumber=renumber):
            logits.append(model.forward(tokens, attention_mask=mask, read="last"))
    assert float((logits[0] - logits[1]).abs().max()) > 1e-2
    with (
        pytest.raises(OptionError, match="whose positions are part of the residual"),
        pool_at(pair("BART")[1], 0, units, renumber=True),
    ):
        pass


@torch.no_grad()
def test_hooks_are_gone_after_success_exception_and_nesting() -> None:
    model = pair("T5")[1]
    tokens, mask, units = joined(model, "between")
    clean = model(tokens, attention_mask=mask)
    at = model.predicts(tokens) & mask.bool()
    with pool_at(model, 0, units, mode="broadcast"):
        with pool_at(model, 3, units, "max", mode="broadcast"):
            twice = model(tokens, attention_mask=mask)[at]
        once = model(tokens, attention_mask=mask)[at]
    assert not torch.equal(twice, once)
    assert not torch.equal(once, clean[at])
    with pytest.raises(ZeroDivisionError), pool_at(model, 1, units, mode="broadcast"):
        raise ZeroDivisionError
    assert_clean(model)
    assert torch.equal(model(tokens, attention_mask=mask)[at], clean[at])


@torch.no_grad()
def test_units_across_both_texts_are_refused() -> None:
    model = pair("T5")[1]
    tokens, mask, units = joined(model, "right")
    across = units.masked_fill(units >= 9, SOURCE_UNITS[0][-1])
    with (
        pytest.raises(InterventionError, match="row 0 has a unit of source and target tokens"),
        pool_at(model, 0, across),
    ):
        model(tokens, attention_mask=mask)
