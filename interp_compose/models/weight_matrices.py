"""Every weight matrix of a model, one at a time, by the names that the field gives them.

Rows are output neurons and columns their inputs, so that a row is one neuron's input weights (as
complexity control reads W_Q in section VI): W_Q, W_K and W_V are ``[head·d_head d_model]``, W_in
and W_gate ``[d_mlp d_model]``, W_O ``[d_model head·d_head]``, W_out ``[d_model d_mlp]`` and W_U
``[d_vocab d_model]``. W_E ``[d_vocab d_model]`` and W_pos ``[n_ctx d_model]`` are tables: a row is
what a token or a position writes into the residual. In an encoder–decoder W_E_target and
W_pos_target are the decoder's own tables, and W_Q_cross, … are those of cross-attention. Of CAT's
blocks codebook ``[code d_model]`` is a table, W_Q_comp, W_K_comp and W_V_comp ``[d_model d_model]``
are those of its composition (W_in_comp and W_out_comp of the control without codes), and W_Q_mix, …
those of the attention that enhances representations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose.errors import CapabilityError
from interp_compose.models.effective_weights import (
    HOLDERS,
    acting,
    check_looked_up,
    holders,
    tell_of_hooks,
    wrapped,
)
from interp_compose.models.lens_model import LensModel

BY_HEAD: Final = ("W_Q", "W_K", "W_V", "W_O")
ATTENTIONS: Final = {
    "attn": "",
    "self_attn": "",
    "cross_attn": "_cross",
    "second_attn": "_second",
    "fuse_attn": "_fuse",
    "mix_attn": "_mix",
}
"""Attentions of a block, and what the names of their matrices end in."""
EMBEDDINGS: Final = {
    "W_E": "embed",
    "W_pos": "pos_embed",
    "W_E_target": "decoder_embed",
    "W_pos_target": "decoder_pos_embed",
}
"""Tables, and the modules that hold them."""
COMPOSITION: Final = ("codebook", "W_Q", "W_K", "W_V", "W_in", "W_out")
"""Matrices of a block that composes; all names but the codebook's end in ``_comp``."""
IN_BLOCKS: Final = (
    *(name + end for end in dict.fromkeys(ATTENTIONS.values()) for name in BY_HEAD),
    *("W_in", "W_gate", "W_out"),
    *(name if name == "codebook" else f"{name}_comp" for name in COMPOSITION),
)
MATRICES: Final = ("W_E", "W_pos", *IN_BLOCKS, "W_U", "W_E_target", "W_pos_target")
"""A decoder's matrices in the order in which a forward pass meets them."""
EMBEDDING: Final = -1
"""The layer of the tables; W_U's is ``n_layers``."""


@dataclass(frozen=True, eq=False)
class WeightMatrix:
    """One matrix, a view of the model's own memory where the layout allows it.

    Attributes:
        layer: 0 … n_layers-1; -1 for tables, n_layers for W_U.
        name: one of :data:`MATRICES`.
        weight: ``[row col]``, heads merged.
        heads: of W_Q, W_K, W_V ``[head d_head d_model]``, of W_O ``[head d_model d_head]``; else
            None. Grouped queries have fewer heads in W_K and W_V.
        tied_to: for a W_U or a W_E_target that is another table itself, that one's name, else "".
        module: what multiplies by it, or looks up its rows; None where that does more.
    """

    layer: int
    name: str
    weight: Float[Tensor, "row col"]
    heads: Float[Tensor, "head row_of_head col_of_head"] | None = None
    tied_to: str = ""
    module: Any = None


def weight_matrices(model: LensModel, names: tuple[str, ...] = MATRICES) -> Iterator[WeightMatrix]:
    """The matrices called ``names``, layer by layer, each read when it is yielded.

    A matrix that a layer does not have is skipped: :func:`left_out` names the parameters that are
    in no matrix. Weights are the current ones, in the model's dtype and on its device; nothing is
    recorded for a backward pass.

    Raises:
        CapabilityError: a weight is quantised, sparse, or not in memory; or no layer has any of
            the matrices.
    """
    check_plain(model)
    tell_of_hooks(model.lens, *{"_".join(name.split("_")[:2]): name for name in names})
    any_matrix = False
    for layer, name, stored, part in _stored(model):
        any_matrix = any_matrix or name in names
        if name in names:
            default = part if name in (*EMBEDDINGS, "W_U") else None
            module = next(iter(holders(part, name=name.removesuffix("_target"))), default)
            yield replace(_turned(layer, name, stored.detach(), model), module=module)
    if not any_matrix:
        raise CapabilityError(
            f"{model.architecture} offers none of {', '.join(names)}; read its weights from "
            "model.state_dict() by their own names."
        )


def left_out(model: LensModel) -> tuple[str, ...]:
    """Parameters of two dimensions or more that are in none of :func:`weight_matrices`.

    By their own names, ``*`` for the number of a layer: token types, the transform of a masked-LM
    head, experts, and the fused projection that TransformerLens has split and no longer uses.
    """
    held = [_extent(stored) for _, _, stored, _ in _stored(model)]
    wrapping = [module for holder, _, module in wrapped(model.lens) if isinstance(holder, HOLDERS)]
    of_held = {id(weight) for module in wrapping for weight in module.parameters()}
    names = []
    for name, weight in model.lens.named_parameters():
        start, end = _extent(weight)
        is_held = any(first < end and start < last for first, last in held)
        is_bias = name.rpartition(".")[2].lstrip("_").startswith("b_")  # 3.9 has them by head
        if weight.ndim > 1 and not is_held and not is_bias and id(weight) not in of_held:
            names.append(re.sub(r"\.\d+\b", ".*", _plain_name(name)))
    return tuple(dict.fromkeys(names))


def check_plain(model: LensModel) -> None:
    """Refuse weights whose stored numbers are not their values, or not those that calls read.

    Raises:
        CapabilityError: names the weight, what it is, and what to load instead.
    """
    model.check_in_place()
    for name, weight in model.lens.named_parameters():
        reason = _not_plain(weight)
        if reason:
            raise CapabilityError(f"{model.name!r}: the weight {_plain_name(name)} {reason}.")


def _plain_name(name: str) -> str:
    """A parameter's name without the layers that a bridge puts around a module."""
    return name.replace("_original_component.", "")


def _not_plain(weight: Tensor) -> str:
    kind = str(weight.dtype).removeprefix("torch.")
    if weight.is_meta:
        return (
            "is not in memory (meta, or offloaded by device_map); load the model whole, with "
            'device="cpu", in dtype="bfloat16" if memory is short'
        )
    if weight.layout != torch.strided:
        return f"is sparse ({weight.layout}); make it dense first, with weight.to_dense()"
    if hasattr(weight, "__tensor_flatten__"):  # torchao, DTensor
        return f"is a {type(weight).__name__}, not a plain tensor; load the model unquantised"
    if weight.is_quantized or not weight.is_floating_point() or weight.dtype.itemsize == 1:
        return (
            f"is quantised ({kind}): its codes are not the numbers that are multiplied; load the "
            'model unquantised, for instance in dtype="bfloat16"'
        )
    return ""


def _extent(weight: Tensor) -> tuple[int, int]:
    """First and last address: two views of one storage, such as W_Q of a joint QKV, overlap."""
    length = 1 + sum((n - 1) * step for n, step in zip(weight.shape, weight.stride(), strict=True))
    return weight.data_ptr(), weight.data_ptr() + length * weight.element_size()


def _stored(model: LensModel) -> Iterator[tuple[int, str, Tensor, Any]]:
    """(layer, name, weight in TransformerLens' layout, the part it is of), one after another."""
    lens = model.lens
    for name in EMBEDDINGS:
        table = _table(model, name)
        if table is not None:
            check_looked_up(lens, name, table)
            yield EMBEDDING, name, table, getattr(lens, EMBEDDINGS[name])
    for layer, block in enumerate(model.blocks):
        sites = [site.name for site in model.attention_sites(layer)]
        yield from _of_block(lens, block, layer, [*sites, "second_attn", "fuse_attn"])
    weight = _read(lens, getattr(lens, "unembed", lens), "W_U")
    if weight is not None and getattr(model, "has_head", True):  # one that the checkpoint brought
        yield model.n_layers, "W_U", weight, getattr(lens, "unembed", None)


def _table(model: LensModel, name: str) -> Tensor | None:
    """A table of vectors; T5's of distances, which are added to scores, is none."""
    part = getattr(model.lens, EMBEDDINGS[name], None)
    table = _read(model.lens, part, name.removesuffix("_target"))
    if table is None or table.shape[1] != model.d_model:
        return None
    # OPT and BART count positions from the table's third row.
    offset = getattr(getattr(part, "original_component", None), "offset", 0)
    return table[offset:] if "pos" in name else table


def _of_block(
    lens: Any, block: Any, layer: int, attentions: Sequence[str]
) -> Iterator[tuple[int, str, Tensor, Any]]:
    parts: list[tuple[Any, Sequence[str], str]]
    parts = [(getattr(block, name, None), BY_HEAD, ATTENTIONS[name]) for name in attentions]
    parts.append((getattr(block, "mlp", None), ("W_in", "W_gate", "W_out"), ""))
    composition = getattr(block, "composition", None)
    parts += [(composition, ("codebook",), ""), (composition, COMPOSITION[1:], "_comp")]
    for part, names, end in parts:
        for name in names:
            weight = _read(lens, part, name)
            if weight is not None:
                yield layer, name + end, weight, part


def _read(lens: Any, part: Any, name: str) -> Tensor | None:
    with acting(lens, part, name=name):
        for attribute in (f"_{name}", name):  # grouped keys of 3.9, before they are repeated
            try:
                weight = getattr(part, attribute)
            except (AttributeError, NotImplementedError):
                continue
            return weight if isinstance(weight, Tensor) else None
    return None


def _turned(layer: int, name: str, stored: Tensor, model: LensModel) -> WeightMatrix:
    """Rows become outputs. TransformerLens has inputs first, heads before either."""
    if name in EMBEDDINGS or name == "W_U":
        tables = {other: _table(model, other) for other in ("W_E", "W_E_target") if other != name}
        if name == "W_E":
            tables = {}
        same = (
            other
            for other, table in tables.items()
            if table is not None and table.data_ptr() == stored.data_ptr()
        )
        table = stored.mT if name == "W_U" else stored
        return WeightMatrix(layer, name, table, tied_to=next(same, ""))
    if name == "codebook":
        return WeightMatrix(layer, name, stored)
    if stored.ndim == 2:
        return WeightMatrix(layer, name, stored.mT)
    # [head d_model d_head] -> [head d_head d_model]; of W_O [head d_head d_model] turned likewise
    heads = stored.mT
    # W_O: [head d_model d_head] -> [d_model head d_head] -> [d_model head·d_head]
    outputs_first = heads.movedim(1, 0) if name[:3] == "W_O" else heads
    merged = outputs_first.flatten(1) if name[:3] == "W_O" else heads.flatten(0, 1)
    return WeightMatrix(layer, name, merged, heads)
