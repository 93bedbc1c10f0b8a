"""Decoders of a sequence task, opened up: runs ``inside_addition_99`` and
``inside_scan_turn_left``.

Complexity control looks inside on anchor functions alone; here the same questions are
asked of the models that reason, or do not, on sequences: of every run with the largest training set

- how many sequences of a split are right with one head ablated (its output at zero),
- with the attention of all target positions to one kind of source token excluded before the
  softmax (digits by their place, words by their kind in SCAN's grammar), by token of the target,
- with the digits of each number, or the words of each phrase, pooled to their mean before a block
  (CAP, collapse mode),
- and the stable rank of W_Q of each layer.

Beside the last two stands what the clean model gets right of the sequences that have such tokens or
phrases. A token is right if it is predicted from the target's own tokens before it. Sequences are
samples of those that the rules tell apart: sums in which both numbers and their sum have as many
digits as the largest number to add, and all commands.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

import interp_compose as ic
from benchmarks.common import plain_rows
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.lrf.grammar import ALONE, SCAN_KINDS, scan_marks
from interp_compose.papers.shared.text.vocabulary import BOS, EOS
from interp_compose.probes.rank import stable_rank
from interp_compose.runs.files import read_json

N: Final = 500
"""Sequences of a split."""
CELL: Final = ["init_rate", "weight_decay", "size", "seed"]
PLACES: Final = {1: "units", 2: "tens", 3: "hundreds"}
"""Digits by their place from the right."""


@dataclass(frozen=True)
class Parts:
    """What a source is made of: the kind of each token, and the phrase that it is in, or -1."""

    kinds: Sequence[str]
    phrases: Sequence[int]


def parts_of(source: Sequence[str]) -> Parts:
    """Of a sum in digits, or of a command of SCAN."""
    if set(source) <= set(SCAN_KINDS):
        marks = scan_marks(source, [])
        return Parts(marks.source[:-1], marks.units["phrase"][:-1])
    kinds, phrases = ["sign"] * len(source), [ALONE] * len(source)
    plus = source.index("+")
    for number, (first, end) in enumerate(((0, plus), (plus + 1, len(source) - 1))):
        for i in range(first, end):
            kinds[i], phrases[i] = PLACES[end - i], number
    return Parts(kinds, phrases)


def sampled(task: ic.SequenceTask) -> dict[str, list[ic.SequencePair]]:
    """Sequences of each split, always the same."""
    width = max(max(digits_of(pair)[:2]) for pairs in task.splits.values() for pair in pairs)
    found = {}
    for split, pairs in task.splits.items():
        asked = [pair for pair in pairs if set(digits_of(pair)) <= {0, width}]
        order = np.random.default_rng(0).permutation(len(asked))
        found[split] = [asked[i] for i in order[:N]]
    return found


def digits_of(pair: ic.SequencePair) -> tuple[int, int, int]:
    """Of both numbers and their sum; three times 0 of a command."""
    numbers = re.split(r" [+=] ?", pair.source)
    if len(numbers) == 1:
        return 0, 0, 0
    one, other, total = (len(number.split()) for number in (*numbers[:2], pair.target))
    return one, other, total


@dataclass(frozen=True)
class Batch:
    """Sequences with sources and targets of the same lengths: nothing is padded."""

    tokens: Tensor
    """[batch, pos]: source, separator, target without its end."""
    target: Tensor
    """[batch, token]: the target, its end included."""
    parts: Sequence[Parts]

    def positions(self, kind: str) -> Bool[Tensor, "batch pos"]:
        """Where the source has tokens of a kind."""
        found = torch.zeros(self.tokens.shape, dtype=torch.bool)
        for row, parts in zip(found, self.parts, strict=True):
            row[: len(parts.kinds)] = torch.tensor([each == kind for each in parts.kinds])
        return found

    @property
    def answering(self) -> Bool[Tensor, "batch pos"]:
        """Where a token of the target is predicted."""
        found = torch.zeros(self.tokens.shape, dtype=torch.bool)
        found[:, -self.target.shape[1] :] = True
        return found

    @property
    def have_phrases(self) -> list[int]:
        """The rows with a phrase of several tokens."""
        found = [[phrase for phrase in each.phrases if phrase != ALONE] for each in self.parts]
        return [i for i, each in enumerate(found) if len(set(each)) < len(each)]

    def only(self, rows: Sequence[int]) -> Batch:
        """Some of its sequences."""
        chosen = list(rows)
        return Batch(self.tokens[chosen], self.target[chosen], [self.parts[i] for i in chosen])

    @property
    def groups(self) -> Tensor:
        """The unit of each token: phrases, and every other token by itself."""
        found = torch.full(self.tokens.shape, ALONE)
        for row, parts in zip(found, self.parts, strict=True):
            unit, last = -1, ALONE
            for i, phrase in enumerate(parts.phrases):
                unit += phrase == ALONE or phrase != last
                row[i], last = unit, phrase
        return found


def batches(model: SmallDecoderModel, pairs: Sequence[ic.SequencePair]) -> Iterator[Batch]:
    """The pairs, by the lengths of both sides."""
    assert model.words is not None
    alike: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for pair in pairs:
        source, target = (model.words.ids(text) for text in (pair.source, pair.target))
        whole = ([*source, BOS, *target], [*target, EOS], parts_of(pair.source.split()))
        alike[len(source), len(target)].append(whole)
    for rows in alike.values():
        tokens, targets, parts = zip(*rows, strict=True)
        yield Batch(torch.tensor(tokens), torch.tensor(targets), parts)


@torch.no_grad()
def right(
    model: SmallDecoderModel, batch: Batch, block: AbstractContextManager[Any] | None = None
) -> Bool[np.ndarray, "batch token"]:
    """Which tokens of the targets are predicted, under an intervention."""
    with block or nullcontext():
        logits = model.forward(batch.tokens)
    predicted = logits[:, -batch.target.shape[1] :].argmax(dim=-1)
    return (predicted == batch.target).numpy()


def opened(model: SmallDecoderModel, pairs: Sequence[ic.SequencePair]) -> list[dict[str, Any]]:
    """How many sequences are right under each intervention, and how many tokens of each place."""
    rows: dict[tuple[str, str, int], list[Bool[np.ndarray, "batch token"]]] = defaultdict(list)
    layers = range(model.n_layers)
    for batch in batches(model, pairs):
        rows["clean", "", -1].append(right(model, batch))
        for layer in layers:
            for head in range(model.n_heads):
                block = ic.ablate(model, heads=[(layer, head)])
                rows["head", str(head), layer].append(right(model, batch, block))
            pooled = batch.only(batch.have_phrases)
            if len(pooled.tokens):
                found = right(model, pooled, ic.pool_at(model, layer, pooled.groups))
                rows["phrases", "", layer].append(found)
                rows["phrases, clean", "", layer].append(right(model, pooled))
        for kind in sorted({kind for parts in batch.parts for kind in parts.kinds}):
            own = batch.only([i for i, parts in enumerate(batch.parts) if kind in parts.kinds])
            block = ic.mask_attention(
                model, keys=own.positions(kind), queries=own.answering, mode="exclude"
            )
            rows["cut", kind, -1].append(right(model, own, block))
            rows["cut, clean", kind, -1].append(right(model, own))
    return [
        {"what": what, "part": part, "layer": layer, **counted(found)}
        for (what, part, layer), found in rows.items()
    ]


def counted(found: Sequence[Bool[np.ndarray, "batch token"]]) -> dict[str, Any]:
    """Sequences that are right, and where all have as many tokens the share of each place."""
    n = sum(len(each) for each in found)
    counts = {"n_right": sum(int(each.all(axis=1).sum()) for each in found), "n": n}
    if len({each.shape[1] for each in found}) > 1:
        return counts
    return counts | {"by_token": (sum(each.sum(axis=0) for each in found) / n).round(4).tolist()}


def ranks(model: SmallDecoderModel) -> list[dict[str, Any]]:
    """The stable rank of each layer's W_Q, heads merged."""
    each = [weight.detach().mT.flatten(0, 1) for weight in model.lens.W_Q]
    return [
        {"what": "stable rank", "part": "W_Q", "layer": layer, "value": float(stable_rank(weight))}
        for layer, weight in enumerate(each)
    ]


def measured(*folders: Path) -> dict[str, Any]:
    """All runs with the largest training set."""
    names = {read_json(folder / "result.json")["config"]["task"] for folder in folders}
    if len(names) > 1:
        raise SystemExit(f"the folders are of several tasks: {', '.join(sorted(names))}")
    (name,) = names
    samples = sampled(ic.load_sequences(name))
    rows = []
    for folder in folders:
        size = max(read_json(folder / "result.json")["config"]["sizes"])
        for file in sorted((folder / "runs").glob("*/run.json")):
            run = read_json(file)["run"]
            if run["size"] != size:
                continue
            model = ic.load_model(str(file.parent / "model"))
            assert isinstance(model, SmallDecoderModel)
            place = {key: run[key] for key in CELL}
            rows += [{**place, "split": "", **row} for row in ranks(model)]
            for split, pairs in samples.items():
                rows += [{**place, "split": split, **row} for row in opened(model, pairs)]
    frame = pd.DataFrame(rows)
    shares = frame.assign(right=frame["n_right"] / frame["n"]).groupby(
        ["what", "part", "layer", "split", *CELL[:3]]
    )
    print(shares["right"].mean().unstack(CELL[:3]).to_string())
    return {"task": name, "runs": plain_rows(frame)}
