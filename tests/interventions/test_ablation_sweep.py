"""Every cell of a sweep equals one full forward pass under the public context managers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.ablation_sweep import (
    Ablation,
    AttentionKnockout,
    HeadAblation,
    SublayerAblation,
    ablation_sweep,
)
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.models.lens_model import LensModel
from tests.architectures import D_VOCAB, N_LAYERS
from tests.models.test_bridge import make

LENGTHS = (11, 5, 8)
WORDS = ([[0], [1, 2], [3]], [[2, 3, 4], [0], [5, 6]])
"""Two words of each row, by the places of their tokens among the row's own."""
REACHES = ("from", "at", "until")


@cache
def ready(name: str) -> LensModel:
    """A model that no test may change."""
    model = make(name)
    model.require("resume", "mask_attention", "edit_z", "drop_parts")
    return model


@pytest.fixture(scope="module", params=["GPT-2", "Gemma 2", "native"])
def model(request: pytest.FixtureRequest) -> LensModel:
    return ready(request.param)


@pytest.fixture(scope="module")
def llama() -> LensModel:
    return ready("Llama")


def left_padded() -> tuple[Tensor, Tensor]:
    """Three unlike rows; the tokens in the padding are arbitrary."""
    width = max(LENGTHS) + 2
    tokens = torch.randint(3, D_VOCAB, (3, width), generator=torch.Generator().manual_seed(3))
    mask = torch.zeros_like(tokens)
    for row, length in enumerate(LENGTHS):
        mask[row, -length:] = 1
    return tokens, mask


def acting_layers(reach: str, layer: int) -> list[int]:
    return [
        each
        for each in range(N_LAYERS)
        if {"from": each >= layer, "at": each == layer, "until": each <= layer}[reach]
    ]


def swept(
    model: LensModel,
    knockout: Ablation,
    layers: Sequence[int],
    reach: str,
    max_tokens: int = 4096,
) -> Tensor:
    """Logits of the last position, [layer cell d_vocab]."""
    tokens, mask = left_padded()
    starts = [0] if reach == "until" else layers
    names = [f"blocks.{layer}.hook_resid_pre" for layer in starts]
    _, resid = model.capture(tokens, names, attention_mask=mask, read="last")
    return ablation_sweep(
        model,
        lambda layer: resid.pop(f"blocks.{layer}.hook_resid_pre"),
        mask,
        model.positions(tokens, mask),
        knockout,
        layers,
        lambda logits, row: logits[:, -1],
        reach=reach,
        max_tokens=max_tokens,
    )


def last(model: LensModel, block: AbstractContextManager[Any]) -> Tensor:
    """The whole batch in one forward pass, [batch d_vocab]."""
    tokens, mask = left_padded()
    with block:
        return model.forward(tokens, attention_mask=mask, read="last")[:, -1]


def flags_of(words: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Keys and queries, [batch pos], of one word of each row."""
    width = max(LENGTHS) + 2
    keys = torch.zeros(3, width, dtype=torch.bool)
    queries = torch.zeros_like(keys)
    for row, places in enumerate(words):
        first = width - LENGTHS[row]
        keys[row, [first + place for place in places]] = True
        queries[row, first + places[-1] + 1 :] = True
    return keys, queries


def words_out(mode: str) -> AttentionKnockout:
    """A cell for each word; cells of one row are not side by side."""
    keys, queries = zip(*map(flags_of, WORDS), strict=True)
    rows = torch.arange(3).repeat(len(WORDS))
    return AttentionKnockout(rows, torch.cat(keys), torch.cat(queries), mode == "exclude")


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def one_by_one(model: LensModel, layers: Sequence[int], reach: str, mode: str) -> Tensor:
    """:func:`words_out` under the public context manager, [layer cell d_vocab]."""
    by_layer = []
    for layer in layers:
        acting = acting_layers(reach, layer)
        cells = []
        for words in WORDS:
            keys, queries = flags_of(words)
            block = mask_attention(model, keys=keys, queries=queries, layers=acting, mode=mode)
            cells.append(last(model, block))
        by_layer.append(torch.cat(cells))
    return torch.stack(by_layer)


@pytest.mark.parametrize(
    ("mode", "reach"), [("exclude", "from"), ("zero", "at"), ("exclude", "until")]
)
@torch.no_grad()
def test_a_word_equals_mask_attention(model: LensModel, mode: str, reach: str) -> None:
    expected = one_by_one(model, [0, 2], reach, mode)
    close(swept(model, words_out(mode), [0, 2], reach), expected)
    clean = last(model, nullcontext()).repeat(len(WORDS), 1)
    assert ((expected - clean).abs().amax(dim=2) > 1e-3).any(dim=1).all()


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("mode", ["exclude", "zero"])
@torch.no_grad()
def test_layers_and_chunks_of_any_size(llama: LensModel, mode: str, reach: str) -> None:
    """Streams of a chunk may belong to several layers, some knocked out and some not."""
    expected = one_by_one(llama, [0, 1, 2], reach, mode)
    for layers, max_tokens in (([0, 1, 2], 10**9), ([0, 1, 2], 71), ([1], 40), ([2], 1), ([0], 71)):
        close(swept(llama, words_out(mode), layers, reach, max_tokens), expected[layers])


@pytest.mark.parametrize(
    ("name", "reach"), [("GPT-2", "from"), ("Llama", "at"), ("Llama", "until")]
)
@torch.no_grad()
def test_padding_and_neighbours_change_nothing(name: str, reach: str) -> None:
    """Each word again in its row alone, without padding, its places counted by hand."""
    model = ready(name)
    found = swept(model, words_out("exclude"), [1], reach)[0]
    tokens, mask = left_padded()
    for cell, (row, places) in enumerate(
        (row, places) for words in WORDS for row, places in enumerate(words)
    ):
        later = list(range(places[-1] + 1, LENGTHS[row]))
        with mask_attention(model, keys=places, queries=later, layers=acting_layers(reach, 1)):
            alone = model(tokens[row : row + 1, mask[row].bool()])[0, -1]
        close(found[cell], alone)


@torch.no_grad()
def test_a_head_equals_ablate(model: LensModel) -> None:
    by_layer = [
        torch.stack(
            [last(model, ablate(model, heads=[(layer, head)])) for head in range(model.n_heads)]
        )
        for layer in (0, 2)
    ]
    expected = torch.stack(by_layer).flatten(1, 2)  # [layer head batch d_vocab]
    rows = torch.arange(3).repeat(model.n_heads)
    heads = torch.arange(model.n_heads).repeat_interleave(3)
    close(swept(model, HeadAblation(rows, heads, {}), [0, 2], "at"), expected)


@pytest.mark.parametrize("how", ["mean", "resample"])
@torch.no_grad()
def test_a_head_replaced_by_others_equals_ablate(model: LensModel, how: str) -> None:
    tokens, mask = left_padded()
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(N_LAYERS)]
    _, z = model.capture(tokens, names, attention_mask=mask, read="last")
    pool = [z[name][mask.bool()] for name in names]  # [token head d_head]
    # The draws of `ablate`, which are the same for every activation of this shape.
    draws = torch.randint(len(pool[0]), tokens.shape, generator=torch.Generator().manual_seed(7))
    replacement = {
        names[layer]: pool[layer].mean(dim=0) if how == "mean" else pool[layer][draws]
        for layer in range(N_LAYERS)
    }
    head = model.n_heads - 1
    found = swept(
        model, HeadAblation(torch.arange(3), torch.full((3,), head), replacement), [0, 1], "at"
    )
    for layer in (0, 1):
        block = ablate(
            model,
            heads=[(layer, head)],
            how=how,
            reference=tokens,
            reference_mask=mask,
            seed=7,
        )
        close(found[layer], last(model, block))


def parts_one_by_one(model: LensModel, part: str, reach: str, layers: Sequence[int]) -> Tensor:
    return torch.stack(
        [
            last(model, mask_residual(model, layers=acting_layers(reach, layer), part=part))
            for layer in layers
        ]
    )


def parts_out(part: str) -> SublayerAblation:
    return SublayerAblation(torch.arange(3), {"block": ("attn", "mlp")}.get(part, (part,)))


@pytest.mark.parametrize(("part", "reach"), [("block", "until"), ("attn", "from"), ("mlp", "at")])
@torch.no_grad()
def test_a_part_equals_mask_residual(model: LensModel, part: str, reach: str) -> None:
    expected = parts_one_by_one(model, part, reach, [0, 2])
    close(swept(model, parts_out(part), [0, 2], reach), expected)


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("part", ["block", "attn", "mlp"])
@torch.no_grad()
def test_each_part_in_each_reach_at_each_layer(llama: LensModel, part: str, reach: str) -> None:
    expected = parts_one_by_one(llama, part, reach, [0, 1, 2])
    close(swept(llama, parts_out(part), [0, 1, 2], reach, max_tokens=40), expected)


@torch.no_grad()
def test_from_the_first_layer_is_until_the_last(model: LensModel) -> None:
    for knockout in (words_out("exclude"), words_out("zero"), parts_out("attn")):
        everywhere = swept(model, knockout, [0], "from")[0]
        close(swept(model, knockout, [N_LAYERS - 1], "until")[0], everywhere)
        close(swept(model, knockout, [0, N_LAYERS - 1], "until")[1], everywhere)


@torch.no_grad()
def test_at_the_last_layer_is_from_it_and_at_the_first_is_until_it(model: LensModel) -> None:
    knockout, top = words_out("exclude"), N_LAYERS - 1
    close(swept(model, knockout, [top], "at"), swept(model, knockout, [top], "from"))
    close(swept(model, knockout, [0], "at"), swept(model, knockout, [0], "until"))


@torch.no_grad()
def test_a_word_that_nothing_sees_again_is_gone(llama: LensModel) -> None:
    """With every path from it cut, what the word was changes nothing, to the last bit."""
    tokens, mask = left_padded()
    knockout = words_out("exclude")
    other = torch.where(knockout.keys.any(dim=0), (tokens + 31) % (D_VOCAB - 3) + 3, tokens)
    name = "blocks.0.hook_resid_pre"
    found = []
    for row_tokens in (tokens, other):
        _, resid = llama.capture(row_tokens, [name], attention_mask=mask, read="last")
        found.append(resid[name])
    for cell in range(len(knockout.row)):
        row, keys = knockout.row[cell : cell + 1], knockout.keys[cell : cell + 1]
        one = AttentionKnockout(row, keys, knockout.queries[cell : cell + 1], True)
        mixed = torch.where(keys[0][None, :, None], found[1], found[0])
        results = [
            ablation_sweep(
                llama,
                lambda _, r=resid: r,
                mask,
                llama.positions(tokens, mask),
                one,
                [0],
                lambda logits, _: logits,
                reach="from",
            )
            for resid in (found[0], mixed)
        ]
        assert torch.equal(results[0], results[1])


@torch.no_grad()
def test_only_the_layers_asked_for_are_read(llama: LensModel) -> None:
    tokens, mask = left_padded()
    names = [f"blocks.{layer}.hook_resid_pre" for layer in range(N_LAYERS)]
    _, resid = llama.capture(tokens, names, attention_mask=mask, read="last")
    for reach, expected in (("from", [0, 2]), ("at", [0, 2]), ("until", [0])):
        asked: list[int] = []

        def clean(layer: int, asked: list[int] = asked) -> Tensor:
            asked.append(layer)
            return resid[f"blocks.{layer}.hook_resid_pre"]

        found = ablation_sweep(
            llama,
            clean,
            mask,
            llama.positions(tokens, mask),
            words_out("exclude"),
            [0, 2],
            lambda logits, row: row.double(),
            reach=reach,
        )
        assert asked == expected
        assert found.tolist() == [[0, 1, 2, 0, 1, 2]] * 2


@pytest.mark.parametrize("reach", REACHES)
@torch.no_grad()
def test_no_hook_and_no_clean_residual_is_changed(llama: LensModel, reach: str) -> None:
    tokens, mask = left_padded()
    before = llama(tokens, attention_mask=mask)
    names = [f"blocks.{layer}.hook_resid_pre" for layer in range(N_LAYERS)]
    _, resid = llama.capture(tokens, names, attention_mask=mask, read="last")
    kept = {name: value.clone() for name, value in resid.items()}
    for knockout in (words_out("zero"), parts_out("block")):
        ablation_sweep(
            llama,
            lambda layer: resid[f"blocks.{layer}.hook_resid_pre"],
            mask,
            llama.positions(tokens, mask),
            knockout,
            [0, 1, 2],
            lambda logits, row: logits,
            reach=reach,
        )
    assert all(torch.equal(resid[name], kept[name]) for name in names)
    assert torch.equal(llama(tokens, attention_mask=mask), before)
    assert not llama.active_hooks
