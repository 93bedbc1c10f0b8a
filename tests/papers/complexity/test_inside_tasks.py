"""Decoders of a task opened up: what stands where, and how many are right without a part."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

import interp_compose as ic
from benchmarks.inside_tasks import Batch, Parts, batches, opened, parts_of, sampled
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS, EOS, Vocabulary

DIGITS = Vocabulary(tuple("0123456789+="))
SUMS = ["1 2 + 3 4 =", "5 6 + 7 8 =", "9 0 + 1 1 ="]


@pytest.fixture(scope="module")
def model() -> SmallDecoderModel:
    config = DecoderConfig(d_vocab=len(DIGITS), n_ctx=12, n_layers=2, d_model=8, n_heads=2)
    lens = ic.complexity.small_decoder(config, init_rate=0.1, seed=0).lens
    assert isinstance(lens, SmallDecoder)
    return SmallDecoderModel(lens, name="sums", words=DIGITS)


def greedy(model: SmallDecoderModel, source: str, n: int) -> str:
    """What the model writes, in ``n`` words, whatever the end of the sequence."""
    tokens = [*DIGITS.ids(source), BOS]
    for _ in range(n):
        logits = model.plain(torch.tensor([tokens]))[0, -1]
        tokens.append(3 + int(logits[3:].argmax()))
    return " ".join(DIGITS.words[token - 3] for token in tokens[-n:])


def test_the_parts_of_a_sum_and_of_a_command() -> None:
    assert parts_of(["1", "2", "3", "+", "4", "5", "6", "="]) == Parts(
        ["hundreds", "tens", "units", "sign", "hundreds", "tens", "units", "sign"],
        [0, 0, 0, -1, 1, 1, 1, -1],
    )
    command = parts_of(["walk", "left", "twice", "and", "jump"])
    assert list(command.kinds) == [
        "primitive",
        "direction",
        "repetition",
        "conjunction",
        "primitive",
    ]
    assert list(command.phrases) == [0, 0, -1, -1, 1]


def test_only_sums_of_whole_width_are_opened() -> None:
    pairs = [
        ic.SequencePair(source, target)
        for source, target in (
            ("1 2 + 3 4 =", "4 6"),
            ("2 + 1 3 =", "1 5"),
            ("6 0 + 5 0 =", "1 1 0"),
        )
    ]
    task = ic.SequenceTask("sums", {"train": pairs}, {})
    assert sampled(task) == {"train": pairs[:1]}


def test_positions_and_units_of_a_batch_by_hand(model: SmallDecoderModel) -> None:
    pairs = [ic.SequencePair(source, "4 6") for source in SUMS]
    (batch,) = batches(model, pairs)
    assert batch.tokens[0].tolist() == [*DIGITS.ids(SUMS[0]), BOS, *DIGITS.ids("4 6")]
    assert batch.target[0].tolist() == [*DIGITS.ids("4 6"), EOS]
    assert batch.positions("tens")[0].int().tolist() == [1, 0, 0, 1, 0, 0, 0, 0, 0]
    assert batch.answering[0].int().tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert batch.groups[0].tolist() == [0, 0, 1, 2, 2, 3, -1, -1, -1]
    assert batch.have_phrases == [0, 1, 2]
    single = Batch(batch.tokens, batch.target, [Parts(["units"] * 2, [0, 1])] * 3)
    assert single.have_phrases == []


def test_counts_without_a_head_are_those_of_a_model_without_it(model: SmallDecoderModel) -> None:
    pairs = [ic.SequencePair(source, greedy(model, source, 2)) for source in SUMS]
    rows = {(row["what"], row["part"], row["layer"]): row for row in opened(model, pairs)}
    assert set(rows) == {
        ("clean", "", -1),
        *(("head", head, layer) for head in "01" for layer in (0, 1)),
        *((what, "", layer) for what in ("phrases", "phrases, clean") for layer in (0, 1)),
        *((what, part, -1) for what in ("cut", "cut, clean") for part in ("tens", "units", "sign")),
    }
    for head in (0, 1):
        for layer in (0, 1):
            without = deepcopy(model)
            set_zero(without, layer, head)
            expected = tokens_right(without, pairs)
            row = rows["head", str(head), layer]
            assert row["n"] == len(pairs)
            assert row["n_right"] == sum(all(one) for one in expected)
            shares = [sum(one) / len(pairs) for one in zip(*expected, strict=True)]
            assert row["by_token"] == pytest.approx(shares, abs=1e-4)
    shares = rows["clean", "", -1]["by_token"]
    assert shares[:2] == [1, 1]  # its own words
    assert any(rows["head", head, layer]["by_token"] != shares for head in "01" for layer in (0, 1))


def set_zero(model: SmallDecoderModel, layer: int, head: int) -> None:
    with torch.no_grad():
        model.lens.blocks[layer].attn.W_O[head] = 0


def tokens_right(model: SmallDecoderModel, pairs: list[ic.SequencePair]) -> list[list[bool]]:
    """One sequence and one token at a time."""
    found = []
    for pair in pairs:
        target = [*DIGITS.ids(pair.target), EOS]
        before = [*DIGITS.ids(pair.source), BOS]
        right = []
        for token in target:
            right.append(int(model.plain(torch.tensor([before]))[0, -1].argmax()) == token)
            before.append(token)
        found.append(right)
    return found
