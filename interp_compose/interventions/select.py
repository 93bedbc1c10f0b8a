"""One grammar for all interventions: which layers, which heads, which positions.

Layers are numbers 0 … n_layers-1 (negative ones count from the end), or depths as floats from 0.0
to 1.0. Heads are numbers that hold in every layer chosen, or (layer, head) pairs. Positions are
numbers (negative ones count from the end), a boolean tensor ``[batch pos]`` (other positions in
each example), or words of the text. A single number or word needs no list; ``None`` is all
of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from interp_compose.errors import (
    HeadError,
    InputError,
    InterventionError,
    LayerError,
    OptionError,
    PositionError,
    warn,
)
from interp_compose.models.generate import prompt_of
from interp_compose.models.layers import resolve_layer
from interp_compose.models.lens_model import LensModel
from interp_compose.text.find_words import read_back, word_groups, word_positions

Positions = int | str | Sequence[int] | Sequence[str] | Bool[Tensor, "batch pos"] | None
Heads = int | Sequence[int | tuple[int, int]] | None


def check_to_edit(model: LensModel) -> None:
    """Warn of a model in training mode."""
    if model.training:
        warn(
            f"{model.name!r} is in training mode: dropout, where it has any, makes the numbers of "
            "this intervention random. Call model.eval() first, unless you train under it.",
        )


def resolve_heads(
    heads: Heads, layers: Sequence[int], n_layers: int, n_heads: int, kind: str = "head"
) -> dict[int, list[int]]:
    """Heads by layer, ascending, each once.

    Args:
        heads: numbers that hold in each of ``layers``, (layer, head) pairs, whose layers may count
            from the end, or None for all.
        layers: from :func:`.layers.resolve_layers`.
        n_layers: of the model.
        n_heads: of every layer.
        kind: what they are called, where it is something else that a layer has ``n_heads`` of.

    Raises:
        HeadError: outside the model, none at all, or no number and no pair.
        LayerError: a pair whose layer is outside the model, or not among ``layers``.
    """
    if heads is None:
        return {layer: list(range(n_heads)) for layer in layers}
    expected = f"expected numbers from 0 to {n_heads - 1}, or (layer, {kind}) pairs"
    if isinstance(heads, int):
        heads = [heads]
    by_layer: dict[int, set[int]] = {}
    for head in heads:
        if isinstance(head, tuple):
            its_layers, number = [resolve_layer(head[0], n_layers)], head[1]
        else:
            its_layers, number = list(layers), head
        if not 0 <= number < n_heads:
            raise HeadError(f"{kind} {number} is outside its layer: {expected}.")
        if not set(its_layers) <= set(layers):
            raise LayerError(
                f"{kind} {head!r} is of layer {its_layers[0]}, and the layers are {list(layers)}; "
                f"a pair is (layer, {kind})."
            )
        for layer in its_layers:
            by_layer.setdefault(layer, set()).add(number)
    if not by_layer:
        raise HeadError(f"no {kind}s: {expected}, or None for all.")
    return {layer: sorted(by_layer[layer]) for layer in sorted(by_layer)}


def resolve_positions(
    model: LensModel,
    positions: Positions,
    tokens: Tensor,
    mask: Tensor,
    name: str,
) -> Bool[Tensor, "row length"]:
    """True at the positions of a call that ``positions`` names; never in padding. In a generation,
    these are positions of the prompt.

    Raises:
        PositionError: beyond the sequence or in its padding; a word that a row does not have.
        AlignmentError: words cannot be found with certainty.
        InputError: words, and a model without a tokenizer; a mask of another batch.
    """
    valid = mask.bool()
    if positions is None:
        return valid
    prompt = prompt_of(model)
    if prompt is not None:
        chosen = _positions(model, positions, prompt.tokens, prompt.mask, name)
        # [prompt pos] -> [row length]: rows of samples and beams, and False at new tokens
        return prompt.grown(chosen, (tokens.shape[0], tokens.shape[1]), False)
    return _positions(model, positions, tokens, mask, name)


def _positions(
    model: LensModel,
    positions: Positions,
    tokens: Tensor,
    mask: Tensor,
    name: str,
) -> Bool[Tensor, "batch pos"]:
    valid = mask.bool()
    if isinstance(positions, Tensor):
        if positions.shape != tokens.shape:
            raise InputError(
                f"{name} are {list(positions.shape)} and the tokens of this call "
                f"{list(tokens.shape)}; make them from the batch that you run."
            )
        chosen = positions.to(tokens.device)
        refuse_padding(chosen & ~valid, name)
        return chosen
    listed = as_list(positions)
    chosen = torch.zeros_like(valid)
    if listed and isinstance(listed[0], str):
        check_words(model, f"{name}={positions!r} are words", "pass numbers")
        for row, real in _texts(model, tokens, mask):
            # Found in the text alone, and counted back to where its tokens are in the padded row.
            places = word_positions(model.tokenizer, tokens[row, real].tolist(), listed, row=row)
            chosen[row, real[places]] = True
        return chosen
    chosen[:, numbered(listed, tokens.shape[1], name)] = True
    refuse_padding(chosen & ~valid, name)
    return chosen


Groups = Int[Tensor, "batch pos"] | str | Sequence[str] | None
WordUnit = Literal["word", "pretoken"]


def check_groups(model: LensModel, groups: Groups, unit: WordUnit | None) -> None:
    """Refuse, before any call, groups that no call can have.

    Raises:
        OptionError: groups and a unit, neither, or no word.
        InputError: words, and a model without a tokenizer.
    """
    if (groups is None) == (unit is None):
        raise OptionError(
            f"groups and unit={unit!r}: expected one of them: a tensor of groups, words of the "
            'text, or unit="word" for all words.'
        )
    if isinstance(groups, Tensor):
        return
    if not isinstance(groups, str) and groups is not None and not groups:
        raise OptionError('no words: expected at least one, or unit="word" for all.')
    check_words(model, "groups are words", "pass a tensor")


def resolve_groups(
    model: LensModel, groups: Groups, unit: WordUnit | None, tokens: Tensor, mask: Tensor
) -> Int[Tensor, "row length"]:
    """The unit of each token of a call, -1 for those that stay alone: every occurrence of a word is
    a unit, or every word of the text. In a generation, of the prompt: new tokens stay alone.

    Raises:
        InterventionError: a tensor of another shape.
        PositionError: a word that a row does not have.
        AlignmentError: words cannot be found with certainty.
        SpanError: words that share a token.
    """
    prompt = prompt_of(model)
    if prompt is not None:
        # [prompt pos] -> [row length], with -1 at new tokens
        of_prompt = _groups(model, groups, unit, prompt.tokens, prompt.mask)
        return prompt.grown(of_prompt, (tokens.shape[0], tokens.shape[1]), -1)
    return _groups(model, groups, unit, tokens, mask)


def _groups(
    model: LensModel, groups: Groups, unit: WordUnit | None, tokens: Tensor, mask: Tensor
) -> Int[Tensor, "batch pos"]:
    if isinstance(groups, Tensor):
        if tokens.shape != groups.shape:
            raise InterventionError(
                f"groups are {list(groups.shape)} and the tokens of this call "
                f"{list(tokens.shape)}; make the groups from the batch that you run."
            )
        return groups.to(tokens.device)
    units, tokenizer = torch.full_like(tokens, -1), model.tokenizer
    for row, real in _texts(model, tokens, mask):
        ids = tokens[row, real].tolist()
        if groups is None:
            assert unit is not None, "check_groups has seen to it"
            text = read_back(tokenizer, ids, row=row, unit=unit, remedy="pass groups as a tensor")
            of_row = text.units_at(len(ids))
        else:
            of_row = word_groups(tokenizer, ids, as_list(groups), row=row)
        # From the text alone to the columns of its tokens in the padded row.
        units[row, real] = torch.tensor(of_row, device=units.device)
    return units


def check_words(model: LensModel, subject: str, remedy: str) -> None:
    """Refuse words on a model without a tokenizer; ``subject`` begins the message.

    Raises:
        InputError: it came without one.
    """
    if model.tokenizer is None:
        raise InputError(
            f"{subject}, and {model.name!r} came without a tokenizer; {remedy}, or load it with "
            "load_model(…, tokenizer=…)."
        )


def _texts(
    model: LensModel, tokens: Tensor, mask: Tensor
) -> Iterator[tuple[int, Int[Tensor, "_"]]]:
    """Each row of a call, and the places of its text; of an encoder–decoder, its source."""
    text = mask.bool()
    if len(model.stacks) > 1:
        text = text & ~model.predicts(tokens)
    for row in range(tokens.shape[0]):
        yield row, text[row].nonzero()[:, 0]  # [real]: columns of the text's tokens


def warn_of_none(positions: Positions, name: str) -> None:
    """Say that an empty list, range or tensor, or a tensor that is False throughout, names nothing:
    the block then changes no bit."""
    if isinstance(positions, Tensor):
        none = not bool(positions.any())
    else:
        none = positions is not None and not as_list(positions)
    if none:
        warn(f"{name} name no position, so that nothing is edited; None means all.")


def as_list(positions: Any) -> list[Any]:
    """Numbers or words; a single one as a list of one."""
    return [positions] if isinstance(positions, Integral | str) else list(positions)


def numbered(listed: Sequence[Any], length: int, name: str) -> list[int]:
    """Numbers as they count from the start of a sequence of ``length`` positions.

    Raises:
        PositionError: beyond the sequence, or a number twice.
    """
    for position in listed:
        if not -length <= position < length:
            raise PositionError(
                f"{name}: position {position} is beyond a sequence of {length}; expected "
                f"{-length} … {length - 1}."
            )
    if len({*listed}) < len(listed):
        raise PositionError(
            f"{name}={list(listed)} name a position more than once; expected each once. A mask is "
            "a boolean tensor [batch pos]."
        )
    return [int(position) % length for position in listed]


def refuse_padding(in_padding: Bool[Tensor, "batch pos"], name: str) -> None:
    if bool(in_padding.any()):
        row, position = in_padding.nonzero()[0].tolist()
        raise PositionError(
            f"{name}: position {position} of row {row} is padding; numbers count padding too, so "
            "that a padded batch may need a boolean tensor [batch pos]."
        )


def check_seed(seed: int) -> None:
    """Refuse what torch cannot take as a seed.

    Raises:
        OptionError: no integer, below 0, or of more than 63 bits.
    """
    if not 0 <= seed < 2**63:
        raise OptionError(f"seed={seed!r}: expected an integer from 0 to 2⁶³ - 1.")
