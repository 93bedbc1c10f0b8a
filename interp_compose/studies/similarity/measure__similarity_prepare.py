"""From pairs to batches of token ids and units; everything is refused here or never."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.types import Example, HookedModel
from interp_compose.errors import InputError, OptionError
from interp_compose.interventions.pooling__slots import Slots, shuffled_groups
from interp_compose.models.ready import check_ids, check_model, check_prompts
from interp_compose.tasks.pairs import Pair, read_pairs
from interp_compose.tensors__padding import pad_left
from interp_compose.text.units__tokenized import TokenizedPrompt
from interp_compose.text.units import tokenize_prompts

UNITS = ("phrase", "word", "constituent")


@dataclass(frozen=True)
class Text:
    """One distinct text, ready to run: its place among the texts, tokens and units."""

    index: int
    prompt: TokenizedPrompt


@dataclass(frozen=True)
class PreparedPair:
    """Two texts, what people say of them, and the pair's place in the user's list."""

    index: int
    pair: Pair
    first: Text
    second: Text

    @property
    def affected(self) -> bool:
        return self.first.prompt.affected or self.second.prompt.affected

    @property
    def target(self) -> float:
        """The score or the label."""
        given = self.pair.label if self.pair.score is None else self.pair.score
        return float(given)  # type: ignore[arg-type]  # read_pairs refuses a pair without either


@dataclass(frozen=True)
class Batch:
    """The distinct texts of some pairs side by side, padded on the left."""

    pairs: Sequence[PreparedPair]
    texts: Sequence[Text]
    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    special: Int[Tensor, "batch pos"]
    units: Slots
    shuffled: Slots

    def special_slots(self) -> Int[Tensor, "batch group"]:
        """1 where a slot holds a special token."""
        slots = torch.zeros_like(self.units.mask)
        return slots.scatter_reduce_(
            1, self.units.of_token.clamp(min=0), self.special, reduce="amax", include_self=True
        )


def prepare_pairs(
    model: HookedModel,
    pairs: Iterable[Pair | Mapping[str, Any]],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
) -> list[PreparedPair]:
    """Check the pairs, and tokenize and align every distinct text once.

    Raises:
        InputError: see :func:`.pairs.read_pairs` and :func:`tokenize_prompts`.
        PromptError: a text longer than the model's context (or its window of local attention).
        TrainingModeError: the model is in training mode.
    """
    if unit not in UNITS:
        raise OptionError(f"unknown unit {unit!r}: expected one of {', '.join(UNITS)}")
    if unit != "constituent" and (labels, height, parser) != (None, None, None):
        raise OptionError(
            f"labels, height and parser choose constituents and mean nothing for unit {unit!r}; "
            'leave them out, or pass unit="constituent"'
        )
    check_model(model)
    checked = read_pairs(pairs)
    where: dict[tuple[str, str | None], str] = {}
    for row, pair in enumerate(checked, start=1):
        where.setdefault((pair.text1, pair.tree1), f"text1 of row {row}")
        where.setdefault((pair.text2, pair.tree2), f"text2 of row {row}")
    texts = _tokenize(model, where, unit=unit, labels=labels, height=height, parser=parser)
    return [
        PreparedPair(index, pair, texts[pair.text1, pair.tree1], texts[pair.text2, pair.tree2])
        for index, pair in enumerate(checked)
    ]


def _tokenize(
    model: HookedModel,
    where: Mapping[tuple[str, str | None], str],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
) -> dict[tuple[str, str | None], Text]:
    names = list(where.values())
    examples = [
        Example(text, "", spans=((0, len(text)),) if unit == "phrase" else None, tree=tree)
        for text, tree in where
    ]
    try:
        prompts = tokenize_prompts(
            model.tokenizer,
            examples,
            unit={"phrase": "span", "word": "word", "constituent": "phrase"}[unit],
            labels=labels,
            height=height,
            parser=parser,
        )
    except InputError as error:  # it counts the distinct texts; the user knows rows of pairs
        told = re.sub(r"^example (\d+)", lambda found: names[int(found[1])], str(error))
        raise type(error)(told.replace('unit="phrase"', f'unit="{unit}"')) from error
    check_prompts(model, prompts, names.__getitem__, collapse="Give shorter texts.")
    check_ids(model, max(int(prompt.ids.max()) for prompt in prompts))
    return {
        key: Text(index, prompt)
        for index, (key, prompt) in enumerate(zip(where, prompts, strict=True))
    }


def about(pairs: Sequence[PreparedPair]) -> pd.DataFrame:
    """What is known of every pair apart from the model."""
    return pd.DataFrame(
        {
            "pair": [item.index for item in pairs],
            "text1": [item.pair.text1 for item in pairs],
            "text2": [item.pair.text2 for item in pairs],
            "target": [item.target for item in pairs],
            "subset": [item.pair.subset or "" for item in pairs],
            "mirror": [item.pair.is_mirror for item in pairs],
            "affected": [item.affected for item in pairs],
            "n_tokens1": [len(item.first.prompt.ids) for item in pairs],
            "n_tokens2": [len(item.second.prompt.ids) for item in pairs],
            "n_groups1": [item.first.prompt.n_groups for item in pairs],
            "n_groups2": [item.second.prompt.n_groups for item in pairs],
        }
    )


def into_batches(pairs: Sequence[PreparedPair], size: int) -> list[list[PreparedPair]]:
    """Pairs of like length together, and among these the ones that share a text."""

    def key(item: PreparedPair) -> tuple[int, int, int, int]:
        slots = max(item.first.prompt.n_slots, item.second.prompt.n_slots)
        tokens = max(len(item.first.prompt.ids), len(item.second.prompt.ids))
        return slots, tokens, item.first.index, item.index

    ordered = sorted(pairs, key=key)
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def as_batch(pairs: Sequence[PreparedPair], device: torch.device, *, seed: int) -> Batch:
    """Each text once; one copy per tensor."""
    texts = list(
        {text.index: text for item in pairs for text in (item.first, item.second)}.values()
    )
    tokens, mask, special = pad_left(
        [text.prompt.ids for text in texts], [text.prompt.groups < 0 for text in texts]
    )
    groups, shuffled = np.full(tokens.shape, -1), np.full(tokens.shape, -1)
    for row, text in enumerate(texts):
        own = text.prompt.groups
        groups[row, -len(own) :] = own
        shuffled[row, -len(own) :] = shuffled_groups(
            own.tolist(), seed=seed, example=crc32(text.prompt.text.encode()), keep_last=False
        )  # by the text itself: the list around it changes nothing
    return Batch(
        pairs,
        texts,
        tokens.to(device),
        mask.to(device),
        special.to(device),
        Slots.from_groups(torch.from_numpy(groups), mask).to(device),
        Slots.from_groups(torch.from_numpy(shuffled), mask).to(device),
    )
