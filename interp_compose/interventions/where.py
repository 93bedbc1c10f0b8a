"""One grammar for all interventions: which layers, which heads, which positions.

Layers are numbers 0 … n_layers-1, or depths as floats from 0.0 to 1.0. Heads are numbers that hold
in every layer chosen, or (layer, head) pairs. Positions are numbers (negative ones count from the
end), a boolean tensor ``[batch pos]`` (other positions in each example), or words of the text.
One number or word may stand alone; ``None`` is all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from interp_compose._types import HookedModel
from interp_compose._whole import is_whole
from interp_compose.errors import (
    HeadError,
    InputError,
    LayerError,
    OptionError,
    PositionError,
)
from interp_compose.text.find_words import word_positions

Positions = int | str | Sequence[int] | Sequence[str] | Tensor | None
Layers = int | float | Sequence[int | float] | None
Heads = int | Sequence[int] | Sequence[tuple[int, int]] | None


def check_is_model(model: Any) -> None:
    """Refuse anything but a loaded model, such as the object that it wraps.

    Raises:
        OptionError: it is something else.
    """
    if not isinstance(model, HookedModel):
        raise OptionError(
            f"the model is a {type(model).__name__}; pass what load_model(…) returns."
        )


def check_to_edit(model: Any) -> None:
    """Refuse anything but a loaded model, and warn of one in training mode.

    Raises:
        OptionError: it is something else.
    """
    check_is_model(model)
    if model.training:
        warnings.warn(
            f"{model.name!r} is in training mode: dropout, where it has any, makes the numbers of "
            "this intervention random. Call model.eval() first, unless you train under it.",
            stacklevel=5,
        )


def resolve_layers(layers: Any, n_layers: int) -> list[int]:
    """Layers in ascending order, each once; a float is a depth, 0.0 … 1.0, halves up.

    Raises:
        LayerError: outside the model, a depth outside 0 … 1, or none at all.
    """
    if layers is None:
        return list(range(n_layers))
    found: set[int] = set()
    if is_whole(layers) or isinstance(layers, float):
        layers = [layers]
    if isinstance(layers, str | Mapping) or not isinstance(layers, Iterable):
        raise LayerError(f"layers={layers!r}: expected a sequence such as [0, 3] or [0.0, 0.5]")
    for layer in layers:
        expected = (
            f"expected 0 … {n_layers - 1} (0 reads the embeddings), or a depth between 0.0 and 1.0."
        )
        if isinstance(layer, bool) or not isinstance(layer, Real):
            raise LayerError(f"layer {layer!r} is a {type(layer).__name__}: {expected}")
        if isinstance(layer, Integral):
            whole = int(layer)
            if not 0 <= whole < n_layers:
                raise LayerError(f"layer {whole} is outside the model: {expected}")
            found.add(whole)
        else:
            depth = float(layer)
            if not 0.0 <= depth <= 1.0:
                raise LayerError(f"depth {depth} is outside 0.0 … 1.0: {expected}")
            found.add(int(depth * (n_layers - 1) + 0.5))
    if not found:
        raise LayerError("no layers: expected at least one, or None for all.")
    return sorted(found)


def resolve_heads(heads: Any, layers: Sequence[int], n_heads: int) -> dict[int, list[int]]:
    """Heads by layer, ascending, each once.

    Args:
        heads: numbers that hold in each of ``layers``, (layer, head) pairs, or None for all.
        layers: from :func:`resolve_layers`.
        n_heads: of every layer.

    Raises:
        HeadError: outside the model, none at all, or no number and no pair.
        LayerError: a pair whose layer is not among ``layers``.
    """
    return resolve_parts(heads, layers, n_heads, "head")


def resolve_parts(parts: Any, layers: Sequence[int], size: int, kind: str) -> dict[int, list[int]]:
    """Like :func:`resolve_heads`, for anything a layer has ``size`` of; ``kind`` names it."""
    if parts is None:
        return {layer: list(range(size)) for layer in layers}
    expected = f"expected numbers from 0 to {size - 1}, or (layer, {kind}) pairs"
    if is_whole(parts):
        parts = [parts]
    if isinstance(parts, str | Mapping) or not isinstance(parts, Iterable):
        raise HeadError(f"{kind}s={parts!r}: {expected}.")
    found: dict[int, set[int]] = {}
    for part in parts:
        pair = isinstance(part, tuple | list)
        numbers = list(part) if pair else [part]
        if len(numbers) != (2 if pair else 1) or not all(map(is_whole, numbers)):
            raise HeadError(f"{kind} {part!r}: {expected}.")
        if not 0 <= int(numbers[-1]) < size:
            raise HeadError(f"{kind} {int(numbers[-1])} is outside its layer: {expected}.")
        if pair and int(numbers[0]) not in layers:
            raise LayerError(
                f"{kind} {part!r} is of layer {int(numbers[0])}, and the layers are "
                f"{list(layers)}; a pair is (layer, {kind})."
            )
        for layer in [int(numbers[0])] if pair else layers:
            found.setdefault(layer, set()).add(int(numbers[-1]))
    if not found:
        raise HeadError(f"no {kind}s: {expected}, or None for all.")
    return {layer: sorted(found[layer]) for layer in sorted(found)}


def check_positions(where: Any, name: str) -> None:
    """Refuse, before any call, what cannot name positions.

    Raises:
        OptionError: none of the grammar's forms.
    """
    if where is None or is_whole(where) or isinstance(where, str):
        return
    if isinstance(where, Tensor):
        if where.dtype == torch.bool and where.ndim == 2:
            return
        came = f"a tensor {list(where.shape)} of {where.dtype}"
    elif isinstance(where, Sequence) and not isinstance(where, bytes):  # bytes are numbers
        if all(map(is_whole, where)) or all(isinstance(each, str) for each in where):
            return
        came = repr(where)[:80]
    else:
        came = f"a {type(where).__name__}"
    raise OptionError(
        f"{name} are {came}; expected numbers ([0, -1]), words ('cat'), a boolean tensor "
        "[batch pos], or None for all."
    )


def resolve_positions(
    model: HookedModel,
    where: Positions,
    tokens: Tensor,
    mask: Tensor,
    name: str,
) -> Bool[Tensor, "batch pos"]:
    """True at the positions of a call that ``where`` names; never in padding.

    Raises:
        PositionError: beyond the sequence or in its padding; a word that a row does not have.
        AlignmentError: words cannot be found with certainty.
        InputError: words, and a model without a tokenizer; a mask of another batch.
    """
    valid = mask.bool()
    if where is None:
        return valid
    if isinstance(where, Tensor):
        if where.shape != tokens.shape:
            raise InputError(
                f"{name} are {list(where.shape)} and the tokens of this call "
                f"{list(tokens.shape)}; make them from the batch that you run."
            )
        chosen = where.to(tokens.device)
        _refuse_padding(chosen & ~valid, name)
        return chosen
    listed = as_list(where)
    chosen = torch.zeros_like(valid)
    if listed and isinstance(listed[0], str):
        if model.tokenizer is None:
            raise InputError(
                f"{name}={where!r} are words, and {model.name!r} came without a tokenizer; pass "
                "numbers, or load it with load_model(…, tokenizer=…)."
            )
        for row in range(tokens.shape[0]):
            real = valid[row].nonzero()[:, 0]
            found = word_positions(model.tokenizer, tokens[row, real].tolist(), listed, row=row)
            chosen[row, real[found]] = True
        return chosen
    chosen[:, numbered(listed, tokens.shape[1], name)] = True
    _refuse_padding(chosen & ~valid, name)
    return chosen


def as_list(where: Any) -> list[Any]:
    """Numbers or words; one that stands alone is a list of one."""
    return [where] if isinstance(where, Integral | str) else list(where)


def numbered(listed: Sequence[Any], length: int, name: str) -> list[int]:
    """Numbers as they count from the start of a sequence of ``length`` positions.

    Raises:
        PositionError: beyond the sequence.
    """
    for position in listed:
        if not -length <= position < length:
            raise PositionError(
                f"{name}: position {position} is beyond a sequence of {length}; expected "
                f"{-length} … {length - 1}."
            )
    return [int(position) % length for position in listed]


def _refuse_padding(in_padding: Bool[Tensor, "batch pos"], name: str) -> None:
    if bool(in_padding.any()):
        row, position = in_padding.nonzero()[0].tolist()
        raise PositionError(
            f"{name}: position {position} of row {row} is padding; numbers count padding too, so "
            "that a padded batch may need a boolean tensor [batch pos]."
        )


def check_seed(seed: Any) -> None:
    """Refuse what torch cannot take as a seed.

    Raises:
        OptionError: no integer, below 0, or of more than 63 bits.
    """
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise OptionError(f"seed={seed!r}: expected an integer from 0 to 2⁶³ - 1.")
