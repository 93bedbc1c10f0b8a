"""CAP on encoders equals an independent computation in place, on random and on real weights.

The reference is a Hugging Face copy that was never wrapped, in float64, one row at a time and
without padding: the pooled vector is written at the unit's last token, and the unit's other tokens
are hidden as keys from there on.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from interp_compose.errors import CapabilityError, OptionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling import HOW, PooledLayout, pool_groups
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures, real_model
from tests.architectures import D_VOCAB, N_LAYERS
from tests.interventions.reference import pool, units_of

pytestmark = pytest.mark.tl3

# Rows of 12, 8 and 9 tokens: [CLS], units of 1 to 4 tokens, [SEP]; one row without any unit of two.
ROWS = [
    [-1, 0, 0, 1, 2, 2, 2, 3, 4, 4, 5, -1],
    [-1, 0, 1, 1, 1, 1, 2, -1],
    [-1, 0, 0, 0, 1, 2, 2, 3, -1],
    [-1, 0, 1, 2, -1],
]
PHRASES = ["unbelievably loud hummingbirds", "the overcooked aubergine", "water body", "a dog"]


def padded(rows: list[list[int]], groups: list[list[int]], side: str) -> tuple[Tensor, ...]:
    """Token ids among junk, their mask and their units, padded by two places more than needed."""
    width = max(map(len, rows)) + 2
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(3, D_VOCAB, (len(rows), width), generator=generator)
    mask, units = torch.zeros_like(tokens), torch.full_like(tokens, -1)
    for i, (ids, own) in enumerate(zip(rows, groups, strict=True)):
        at = slice(width - len(ids), width) if side == "left" else slice(0, len(ids))
        tokens[i, at], mask[i, at], units[i, at] = torch.tensor(ids), 1, torch.tensor(own)
    return tokens, mask, units


class Case:
    """A wrapped model, its unwrapped reference, and rows of token ids with their units."""

    def __init__(
        self, model: LensModel, reference: Any, ids: list[list[int]], groups: list[list[int]]
    ) -> None:
        self.model, self.reference, self.ids, self.groups = (
            model,
            reference.double().eval(),
            ids,
            groups,
        )
        self.clean = [self.run(row, 0, None) for row in range(len(ids))]

    @property
    def some_layers(self) -> list[int]:
        return sorted({0, self.model.n_layers // 2, self.model.n_layers - 1})

    def batch(self, side: str) -> tuple[Tensor, ...]:
        return padded(self.ids, self.groups, side)

    def run(self, row: int, layer: int, write: Any, hidden: tuple[int, ...] = ()) -> list[Tensor]:
        """Residuals ``[pos d_model]`` of one row before each block from ``layer`` on, and after
        the last; ``write`` edits the one that enters ``layer``."""
        tokens = torch.tensor([self.ids[row]])
        out = [
            self.reference.embeddings(tokens) if write is None else write(self.clean[row][layer])
        ]
        keys = torch.zeros(1, 1, 1, tokens.shape[1], dtype=torch.float64)
        keys[..., list(hidden)] = -torch.inf
        for block in self.reference.encoder.layer[layer:]:
            left = block(out[-1], attention_mask=keys)
            out.append(left[0] if isinstance(left, tuple) else left)
        return out

    @cache  # noqa: B019 (a case lives as long as its module's tests)
    def collapsed(self, row: int, layer: int, how: str) -> Tensor:
        """Last hidden state at specials and at units' last tokens ``[kept d_model]``."""
        [units] = units_of(torch.tensor([self.groups[row]]))

        def write(resid: Tensor) -> Tensor:
            resid = resid.clone()
            for unit in units:
                resid[0, unit[-1]] = pool(resid[0, unit], how)
            return resid

        gone = tuple(position for unit in units for position in unit[:-1])
        kept = [i for i in range(len(self.ids[row])) if i not in gone]
        return self.run(row, layer, write, gone)[-1][0, kept]

    def broadcast(self, row: int, layer: int, how: str) -> Tensor:
        """Last hidden state at every token ``[pos d_model]``."""
        [units] = units_of(torch.tensor([self.groups[row]]))

        def write(resid: Tensor) -> Tensor:
            before, resid = resid, resid.clone()
            for unit in units:
                for position in unit:
                    resid[0, position] = pool(before[0, unit], how)
            return resid

        return self.run(row, layer, write)[-1][0]


@torch.no_grad()
def random_case(name: str) -> Case:
    generator = torch.Generator().manual_seed(3)
    ids = [torch.randint(3, D_VOCAB, (len(row),), generator=generator).tolist() for row in ROWS]
    model = load_model(architectures.build(name).base_model)
    return Case(model, architectures.build(name).base_model, ids, ROWS)


@torch.no_grad()
def real_case() -> Case:
    """Phrases whose words are of one to several pieces; two words or three are one unit."""
    folder = real_model.real_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    words = [tokenizer(text).word_ids() for text in PHRASES]
    groups = [[-1 if word is None else max(word - 1, 0) for word in row] for row in words]
    reference = transformers.AutoModel.from_pretrained(folder)
    return Case(
        load_model(folder), reference, [tokenizer(text).input_ids for text in PHRASES], groups
    )


CASES = [pytest.param("RoBERTa", marks=architectures.needs_tl4), "real"]  # the real one is a BERT


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return real_case() if request.param == "real" else random_case(request.param)


def agree(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected.float(), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_reference_and_the_model_agree_before_anything_is_pooled(case: Case) -> None:
    tokens, mask, _ = case.batch("left")
    hidden = case.model.encode(tokens, attention_mask=mask)
    for row, clean in enumerate(case.clean):
        agree(hidden[row, mask[row].bool()], clean[-1][0])


@pytest.mark.parametrize("how", HOW)
@torch.no_grad()
def test_collapsed_equals_pooled_in_place_with_masked_keys(case: Case, how: str) -> None:
    several = [max(row.count(unit) for unit in row if unit >= 0) > 1 for row in case.groups]
    for layer in case.some_layers:
        expected = [case.collapsed(row, layer, how) for row in range(len(case.ids))]
        for side in ("left", "right"):
            tokens, mask, groups = case.batch(side)
            with pool_at(case.model, layer, groups, how) as record:
                found = case.model.encode(tokens, attention_mask=mask)
            assert record.layout is not None
            assert record.n_affected == sum(several)
            assert found.shape[1] == max(map(len, expected))
            for row, rows in enumerate(expected):
                assert record.layout.mask[row].tolist()[-len(rows) :] == [1] * len(rows)
                assert int(record.layout.mask[row].sum()) == len(rows)
                agree(found[row, -len(rows) :], rows)


@pytest.mark.parametrize("how", ["mean", "first"])
@torch.no_grad()
def test_broadcast_equals_the_pooled_vector_at_every_token(case: Case, how: str) -> None:
    for layer in case.some_layers:
        expected = [case.broadcast(row, layer, how) for row in range(len(case.ids))]
        for side in ("left", "right"):
            tokens, mask, groups = case.batch(side)
            with pool_at(case.model, layer, groups, how, mode="broadcast"):
                found = case.model.encode(tokens, attention_mask=mask)
            for row, rows in enumerate(expected):
                agree(found[row, mask[row].bool()], rows)


@torch.no_grad()
def test_collapse_broadcast_and_clean_are_three_different_things(case: Case) -> None:
    for layer in case.some_layers:
        clean = case.clean[0][-1][0, 0]
        one, other = (
            way(0, layer, "mean")[0] for way in (case.collapsed, case.broadcast)
        )  # at [CLS]
        for a, b in ((one, other), (one, clean), (other, clean)):
            assert float((a - b).abs().max()) > 1e-3


@pytest.mark.filterwarnings("ignore:pooling at layer")  # nothing is pooled
@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
@torch.no_grad()
def test_units_of_one_token_change_no_bit(case: Case, mode: str) -> None:
    tokens, mask, _ = case.batch("left")
    tokens, mask = tokens[:, 2:], mask[:, 2:]
    alone = torch.arange(tokens.shape[1]).expand_as(tokens).masked_fill(mask == 0, -1)
    clean = case.model.encode(tokens, attention_mask=mask)
    for layer in case.some_layers[::2]:
        for how in HOW:
            with pool_at(case.model, layer, alone, how, mode=mode) as record:
                pooled = case.model.encode(tokens, attention_mask=mask)
            assert record.n_affected == 0
            assert torch.equal(pooled[mask.bool()], clean[mask.bool()])


def test_renumbering_has_no_meaning_where_positions_are_in_the_residual(case: Case) -> None:
    groups = case.batch("right")[2]
    refused = pytest.raises(OptionError, match="whose positions are part of the residual: leave")
    with refused, pool_at(case.model, 1, groups, "mean", renumber=True):
        pass


@pytest.mark.parametrize("name", ["BERT", pytest.param("RoBERTa", marks=architectures.needs_tl4)])
@torch.no_grad()
def test_logits_under_a_collapse_are_the_head_on_the_reference(name: str) -> None:
    case, whole = random_case(name), architectures.build(name).double()
    head = whole.cls if name == "BERT" else whole.lm_head
    model = load_model(architectures.build(name))
    tokens, mask, groups = case.batch("right")
    for layer in range(N_LAYERS):
        with pool_at(model, layer, groups, "max"):
            logits = model(tokens, attention_mask=mask)
            last = model.forward(tokens, attention_mask=mask, read="last")
        for row in range(len(ROWS)):
            expected = head(case.collapsed(row, layer, "max"))
            agree(logits[row, -len(expected) :], expected)
            agree(last[row, 0], expected[-1])


@torch.no_grad()
def test_without_a_head_a_collapse_gives_no_logits() -> None:
    case = random_case("BERT")
    tokens, mask, groups = case.batch("left")
    with (
        pytest.raises(CapabilityError, match=r"\(BertModel\) came without a masked-LM head"),
        pool_at(case.model, 1, groups),
    ):
        case.model(tokens, attention_mask=mask)


def test_rows_of_a_layout_pool_as_in_the_whole() -> None:
    _, mask, groups = padded(ROWS, ROWS, "right")
    whole, chosen = PooledLayout.from_groups(groups, mask), torch.tensor([1, 3])
    part = whole.rows(chosen)
    resid = torch.randn(*groups.shape, 3, generator=torch.Generator().manual_seed(1))
    for how in HOW:
        expected = pool_groups(resid, whole.of_token, how, n_groups=whole.n_positions)[chosen]
        found = pool_groups(resid[chosen], part.of_token, how, n_groups=part.n_positions)
        assert torch.equal(found, expected)
    assert torch.equal(part.sizes, whole.sizes[chosen])
    assert part.affected.tolist() == [1, 0]
    assert torch.equal(part.mask, whole.mask[chosen])
    positions = torch.arange(groups.shape[1]).expand_as(groups)
    assert torch.equal(part.positions(positions[chosen]), whole.positions(positions)[chosen])
