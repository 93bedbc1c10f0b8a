"""Encoder–decoders run by hand: Hugging Face's own blocks, one text at a time, before any wrapping.

No code is shared with the library. Nothing leaves a sequence: a pooled vector is written at its
unit's last token, and the unit's other tokens are masked as keys from that layer on.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.interventions.reference import pool

SOURCES = [[5, 17, 3, 41, 29, 11, 7], [13, 3, 88, 23, 31]]
TARGETS = [[2, 9, 33, 71], [2, 46, 80, 64, 12, 5]]
SOURCE_UNITS = [[0, 0, 1, 2, 2, 2, 3], [0, 1, 1, 1, 2]]
TARGET_UNITS = [[0, 1, 1, 2], [0, 1, 1, 1, 2, 3]]


@cache
def pair(name: str) -> tuple[Any, EncoderDecoderModel]:
    """A Hugging Face module as it was built, and the model that wraps a copy of it."""
    module = architectures.build(name)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim > 1:  # large enough that every part of the model shows
                noise = torch.randn(weight.shape, generator=generator)
                weight.copy_(noise * 1.5 / weight.shape[-1] ** 0.5)
    module.set_attn_implementation("eager")
    model = load_model(copy.deepcopy(module))
    assert isinstance(model, EncoderDecoderModel)
    return module, model


def joined(model: EncoderDecoderModel, side: str = "left") -> tuple[Tensor, Tensor, Tensor]:
    """Both texts as one batch: tokens, mask, and units (those of the target after those of the
    source), with padding where ``side`` says."""
    rows = []
    offset = model.d_vocab_source
    for source, target, one, two in zip(SOURCES, TARGETS, SOURCE_UNITS, TARGET_UNITS, strict=True):
        pad_source, pad_target = [(0, 0, -1)] * (8 - len(source)), [(0, 0, -1)] * (7 - len(target))
        of_source = [(i, 1, unit) for i, unit in zip(source, one, strict=True)]
        of_target = [(i + offset, 1, 9 + unit) for i, unit in zip(target, two, strict=True)]
        rows.append(
            {
                "left": pad_source + pad_target + of_source + of_target,
                "right": of_source + of_target + pad_source + pad_target,
                "between": of_source + pad_source + pad_target + of_target,
                "both": pad_source + of_source + pad_target + of_target,
            }[side]
        )
    return tuple(torch.tensor(rows).unbind(2))  # type: ignore[return-value]


class Text(NamedTuple):
    """Ids and units of a source and a target."""

    source: list[int]
    target: list[int]
    source_units: list[int]
    target_units: list[int]


def in_place(
    module: Any, text: int | Text, layer: int, how: str, *, hidden: Sequence[int] = ()
) -> Tensor:
    """Log-probabilities ``[target d_vocab]`` of one text (or its row above) after pooling at
    ``layer``, layers being numbered through; -1 for none. Nobody attends to the source tokens
    ``hidden``, in any layer.
    """
    if isinstance(text, int):
        text = Text(SOURCES[text], TARGETS[text], SOURCE_UNITS[text], TARGET_UNITS[text])
    source, target = torch.tensor([text.source]), torch.tensor([text.target])
    one, two = text.source_units, text.target_units
    encoder, decoder = module.get_encoder(), module.get_decoder()
    blocks = [_blocks(encoder), _blocks(decoder)]
    n_encoder = len(blocks[0])
    out = torch.zeros(source.shape[1], dtype=torch.bool)  # source tokens hidden as keys
    after = torch.zeros(target.shape[1], dtype=torch.bool)
    out[list(hidden)] = True

    def entering(number: int, resid: Tensor, of: list[int], gone: Tensor) -> Tensor:
        if number != layer:
            return resid
        resid = resid.clone()
        for unit in {*of} - {-1}:
            tokens = [i for i, other in enumerate(of) if other == unit]
            resid[0, tokens[-1]] = pool(resid[0, tokens], how).to(resid.dtype)
            gone[tokens[:-1]] = True
        return resid

    resid = encoder(source, output_hidden_states=True).hidden_states[0]
    for number, block in enumerate(blocks[0]):
        resid = entering(number, resid, one, out)
        bias = _bias(blocks[0][0], resid.shape[1])
        mask = torch.zeros(1, 1, 1, len(out)).masked_fill(out, -torch.inf)
        resid = _first(block(resid, mask, *bias))
    memory = _final(encoder, resid)
    target_resid = decoder(
        target, encoder_hidden_states=memory, output_hidden_states=True
    ).hidden_states[0]
    if 0 <= layer < n_encoder:  # target words are pooled where the decoder begins
        target_resid = entering(layer, target_resid, two, after)
    length = target.shape[1]
    causal = torch.ones(length, length).tril() == 0
    for number, block in enumerate(blocks[1]):
        memory = entering(n_encoder + number, memory, one, out)
        target_resid = entering(n_encoder + number, target_resid, two, after)
        mask = torch.zeros(1, 1, length, length).masked_fill(causal | after, -torch.inf)
        mask[0, 0].fill_diagonal_(0.0)
        cross = torch.zeros(1, 1, length, len(out)).masked_fill(out, -torch.inf)
        bias = _bias(blocks[1][0], length)
        target_resid = _first(
            block(
                target_resid,
                mask,
                *bias,
                encoder_hidden_states=memory,
                encoder_attention_mask=cross,
            )
        )
    logits = module.lm_head(_scaled(module, _final(decoder, target_resid)))
    logits = logits + getattr(module, "final_logits_bias", 0.0)
    return torch.log_softmax(logits[0].double(), dim=-1)


def _blocks(stack: Any) -> list[Any]:
    return list(stack.block if hasattr(stack, "block") else stack.layers)


def _bias(first: Any, length: int) -> list[Tensor]:
    """T5's, by its own function; nothing elsewhere."""
    if not hasattr(first, "layer"):
        return []
    return [first.layer[0].SelfAttention.compute_bias(length, length)]


def _first(output: Any) -> Tensor:
    left: Tensor = output[0] if isinstance(output, tuple) else output
    return left


def _final(stack: Any, resid: Tensor) -> Tensor:
    norm = getattr(stack, "final_layer_norm", getattr(stack, "layer_norm", None))
    return resid if norm is None else norm(resid)


def _scaled(module: Any, hidden: Tensor) -> Tensor:
    if getattr(module.config, "scale_decoder_outputs", False):
        return hidden * module.config.d_model**-0.5
    return hidden
