"""Decoding with a cache against plain calls of the model, beam search against its definition and
against every sequence there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

from interp_compose.errors import InputError, InterventionError, OptionError, PromptError
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.attention import edited_attention
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.load import load_model
from interp_compose.papers.lrf.models import decode
from interp_compose.papers.lrf.models.decode import Hypothesis, beam_search, greedy_search
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import Seq2SeqConfig, SmallSeq2Seq
from interp_compose.papers.lrf.models.small_seq2seq import SmallSeq2SeqModel
from interp_compose.papers.shared.text.vocabulary import BOS, EOS
from interp_compose.papers.shared.training.sequence_objective import (
    EncodedPair,
    TargetSequence,
    exact_match,
)
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, run_training
from tests import architectures

SHAPE: dict[str, Any] = {
    **{"d_vocab": 11, "d_vocab_out": 7, "n_ctx": 9, "d_model": 8, "n_heads": 2, "d_mlp": 12},
    **{"n_encoder_layers": 1, "n_decoder_layers": 2, "tied": False},
}
CASES: list[dict[str, Any]] = [
    {"fuse": "both", "norm": "post", "positions": "relative", "seed": 38},
    {"fuse": "parameters", "norm": "pre", "positions": "learned", "seed": 36},
    {"fuse": "none", "norm": "post", "positions": "sinusoidal", "seed": 141},
]
SOURCES = [[5, 10, 3, 8], [7], [4, 4, 9], [3, 6, 2, 10, 8], [9, 3]]


def random(seed: int = 0, **shape: Any) -> SmallSeq2Seq:
    """In float64, with matrices so large that it does not say the same of every source."""
    model = SmallSeq2Seq(Seq2SeqConfig(**{**SHAPE, **shape})).double()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        weight.data += noise * (0.8 if ".W_" in name else 0.1)
    model.W_U.data *= 2
    return model.eval()


@pytest.fixture(params=CASES, ids=lambda case: case["fuse"])
def model(request: pytest.FixtureRequest) -> SmallSeq2Seq:
    return random(**request.param)


def padded(sources: list[list[int]] = SOURCES, *, left: bool = False) -> tuple[Tensor, Tensor]:
    width = max(map(len, sources))
    tokens, mask = torch.full((len(sources), width), 1), torch.zeros((len(sources), width)).long()
    for i, row in enumerate(sources):
        at = slice(width - len(row), width) if left else slice(0, len(row))
        tokens[i, at], mask[i, at] = torch.tensor(row), 1
    return tokens, mask


Called = Callable[[Tensor, Tensor], Tensor]


@torch.no_grad()
def by_calls(call: Called, source: Tensor, max_length: int) -> list[list[int]]:
    """Greedy decoding of all rows, until all have ended, by calls on everything so far."""
    given = torch.full((len(source), 1), BOS)
    for _ in range(max_length):
        given = torch.cat([given, call(source, given)[:, -1:].argmax(-1)], dim=1)
        if bool((given == EOS).any(dim=1).all()):
            break
    rows = given[:, 1:].tolist()
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in rows]


# ---- greedy -------------------------------------------------------------------------------


def test_greedy_is_the_argmax_of_plain_calls(
    model: SmallSeq2Seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows together and with padding, against rows alone and without."""
    monkeypatch.setattr(decode, "ROOM", 2)  # the cache grows on the way
    expected = [by_calls(model, torch.tensor([row]), 9)[0] for row in SOURCES]
    for left in (False, True):
        assert greedy_search(model, *padded(left=left)) == expected
    source, mask = padded(left=True)
    assert greedy_search(model, source, mask, cached=False) == expected
    assert greedy_search(model, source, mask, max_length=2) == [row[:2] for row in expected]
    assert greedy_search(model, torch.tensor(SOURCES[3:4]), max_length=1) == [expected[3][:1]]
    lengths = {len(row) for row in expected}
    assert len(lengths) > 1
    assert any(row[-1] == EOS for row in expected)


VALUELESS: dict[str, Callable[[Tensor], Tensor]] = {
    "sparse": Tensor.to_sparse,
    "sparse_csr": Tensor.to_sparse_csr,
    "on meta": lambda ids: ids.to("meta"),
    "nested": lambda ids: torch.nested.nested_tensor([*ids], layout=torch.jagged),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("kind", VALUELESS)
@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_tensors_without_values_at_hand_are_refused(search: Any, kind: str) -> None:
    model, ids = SmallSeq2Seq(Seq2SeqConfig(**SHAPE)), torch.tensor([[3, 4], [5, 2]])
    other, mask = VALUELESS[kind](ids), VALUELESS[kind](torch.ones_like(ids))
    for name, given in {"source": (other,), "source_mask": (ids, mask)}.items():
        with pytest.raises(OptionError, match=rf"{name} is a.*{kind}.*; expected a tensor .*dense"):
            search(model, *given, max_length=2)
    loaded = load_model(architectures.build("GPT-2"))
    for asked in ((other,), (ids, other)):
        with pytest.raises(OptionError, match=rf"{kind}.* dense \(.to_dense\(\)\) and in memory"):
            loaded(*asked[:1], **({"attention_mask": asked[1]} if asked[1:] else {}))


def test_rows_that_have_ended_leave_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random(**CASES[0])
    sizes: list[int] = []
    logits = decode._Cached.logits

    def counting(self: Any, tokens: Tensor) -> Tensor:
        sizes.append(len(tokens))
        return logits(self, tokens)

    monkeypatch.setattr(decode._Cached, "logits", counting)
    source, mask = padded()
    found = greedy_search(model, source, mask)
    assert sizes == [sum(len(row) > at for row in found) for at in range(max(map(len, found)))]
    sizes.clear()
    beam_search(model, source, mask, n_beams=3)
    assert sizes[0] == 15
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 1


def test_dropout_is_off_and_the_mode_is_kept() -> None:
    model = random(dropout=0.5)
    source, mask = padded()
    expected = greedy_search(model, source, mask)
    model.train()
    assert greedy_search(model, source, mask) == expected
    assert greedy_search(model, source, mask, cached=False) == expected
    assert all(part.training for part in model.modules())
    assert beam_search(model, source, mask)[0][0].score < 0
    assert torch.is_grad_enabled()


def test_relative_positions_have_no_end() -> None:
    model = random(positions="relative")
    model.b_U.data[EOS] = -1e9
    found = greedy_search(model, torch.tensor([[3, 4]]), max_length=15)
    assert found == by_calls(model, torch.tensor([[3, 4]]), 15)
    assert len(found[0]) == 15


@torch.no_grad()
def test_bfloat16_decodes() -> None:
    model = random(fuse="both").bfloat16()
    source, mask = padded()
    assert [len(row) for row in greedy_search(model, source, mask)]
    for row in beam_search(model, source, mask, n_beams=2):
        assert all(math.isfinite(one.score) for one in row)


# ---- beams --------------------------------------------------------------------------------


@torch.no_grad()
def slow_beams(
    model: SmallSeq2Seq, source: list[int], n_beams: int, penalty: float, longest: int
) -> list[Hypothesis]:
    """One row, with lists; a call of the model for each beam at each step."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[Hypothesis] = []
    for length in range(1, longest + 1):
        extended = []
        for score, tokens in beams:
            given = torch.tensor([[BOS, *tokens]])
            logits = model(torch.tensor([source]), given)[0, -1].tolist()
            total = math.log(sum(math.exp(each) for each in logits))
            for token, logit in enumerate(logits):
                if length < longest or token == EOS:
                    extended.append((score + logit - total, [*tokens, token]))
        extended.sort(key=lambda one: -one[0])
        for score, tokens in extended[:n_beams]:
            if tokens[-1] == EOS and len(finished) < n_beams:
                finished.append(Hypothesis(tuple(tokens), score / length**penalty))
        if len(finished) == n_beams:
            break
        beams = [one for one in extended if one[1][-1] != EOS][:n_beams]
    return sorted(finished, key=lambda one: -one.score)


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-10)


@pytest.mark.parametrize(
    ("case", "n_beams", "penalty"), list(zip(CASES, (3, 2, 1), (1.0, 0.0, 2.0), strict=True))
)
def test_beams_are_those_of_the_definition(
    case: dict[str, Any], n_beams: int, penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "ROOM", 2)
    model = random(**case)
    source, mask = padded(SOURCES[:3], left=True)
    options: dict[str, Any] = {"n_beams": n_beams, "length_penalty": penalty, "max_length": 4}
    found = beam_search(model, source, mask, **options)
    for row, of_row, recomputed in zip(
        SOURCES[:3], found, beam_search(model, source, mask, **options, cached=False), strict=True
    ):
        same(of_row, slow_beams(model, row, n_beams, penalty, 4))
        same(recomputed, of_row)


@pytest.mark.parametrize("penalty", [0.0, 0.7])
@torch.no_grad()
def test_enough_beams_find_the_best_of_all_sequences(penalty: float) -> None:
    model = random(3, d_vocab_out=5, fuse="both")
    source, longest = torch.tensor([[5, 8, 2]]), 4
    others = [token for token in range(5) if token != EOS]
    every = [
        [*before, EOS] for length in range(longest) for before in product(others, repeat=length)
    ]
    given = torch.tensor([[BOS, *one, *[0] * (longest - len(one))] for one in every])
    logp = model(source.expand(len(every), -1), given).log_softmax(-1)
    scored = [
        Hypothesis(
            tuple(one), sum(float(logp[i, at, t]) for at, t in enumerate(one)) / len(one) ** penalty
        )
        for i, one in enumerate(every)
    ]
    best = sorted(scored, key=lambda one: -one.score)
    options: dict[str, Any] = {"length_penalty": penalty, "max_length": longest}
    found = beam_search(model, source, n_beams=4**3 * 5, **options)[0]
    assert len(found) == len(every) == 1 + 4 + 16 + 64
    same(found, best)
    few = beam_search(model, source, n_beams=2, **options)[0]
    assert {one.tokens for one in few} <= {one.tokens for one in best}
    assert few[0].score <= best[0].score + 1e-12


def test_one_beam_is_greedy_where_that_ends() -> None:
    model = random(**CASES[0])
    source, mask = padded()
    for one, row in zip(
        greedy_search(model, source, mask), beam_search(model, source, mask, n_beams=1), strict=True
    ):
        assert len(row) == 1
        assert row[0].tokens[-1] == EOS
        if one[-1] == EOS:
            assert row[0].tokens == tuple(one)


# ---- interventions ------------------------------------------------------------------------


def second_position_zero(activation: Tensor, hook: Any) -> Tensor:
    edited = activation.clone()
    edited[:, 1:2] = 0
    return edited


@pytest.mark.parametrize(
    "hook",
    [
        "encoder_blocks.0.hook_resid_pre",
        "decoder_blocks.1.hook_resid_pre",
        "decoder_blocks.1.fuse_attn.hook_v",
    ],
)
def test_decoding_under_an_edit_is_that_of_plain_calls_under_it(hook: str) -> None:
    """An edit of the second position: a cache would have it act on every step's only position, or
    on none."""
    model = random(**CASES[0])
    source = torch.tensor([[5, 10, 3], [4, 4, 9]])
    clean = greedy_search(model, source)
    with model.hooks(fwd_hooks=[(hook, second_position_zero)]):
        expected = by_calls(model, source, 9)
        assert greedy_search(model, source) == expected
        beams = beam_search(model, source[:1], n_beams=2, max_length=3)
        same(beams[0], slow_beams(model, source[0].tolist(), 2, 1.0, 3))
    assert expected != clean
    assert greedy_search(model, source) == clean


class Reversed:
    def scores(self, scores: Tensor) -> Tensor:
        return scores

    def pattern(self, pattern: Tensor) -> Tensor:
        return pattern.flip(-1)


@contextmanager
def attention_edit(model: SmallSeq2Seq) -> Iterator[None]:
    with edited_attention({1: model.decoder_blocks[1].cross_attn}, {1: Reversed()}):
        yield


@contextmanager
def plain_hook(model: SmallSeq2Seq) -> Iterator[None]:
    handle = model.decoder_blocks[0].mlp.register_forward_hook(lambda m, a, out: -2 * out)
    yield
    handle.remove()


@contextmanager
def hook_of_every_module(model: SmallSeq2Seq) -> Iterator[None]:
    own = model.decoder_blocks[0].mlp
    handle = register_module_forward_hook(lambda m, a, out: -2 * out if m is own else None)
    yield
    handle.remove()


@pytest.mark.parametrize("edit", [attention_edit, plain_hook, hook_of_every_module])
def test_edits_of_other_kinds_are_seen_too(edit: Any) -> None:
    model = random(**CASES[0])
    source = torch.tensor([[5, 10, 3], [7, 9, 9], [4, 4, 9]])
    clean = greedy_search(model, source)
    with edit(model):
        expected = by_calls(model, source, 9)
        assert greedy_search(model, source) == expected
    assert expected != clean
    assert greedy_search(model, source) == clean


@pytest.fixture(scope="module")
def lens_model() -> SmallSeq2SeqModel:
    return SmallSeq2SeqModel(random(**CASES[0]), name="small")


def test_a_loaded_model_decodes_as_its_module_and_under_its_interventions(
    lens_model: SmallSeq2SeqModel,
) -> None:
    model = lens_model
    source = torch.tensor([[5, 10, 3], [4, 4, 9]])
    clean = greedy_search(model, source)
    assert clean == greedy_search(model.lens, source)

    def call(source: Tensor, given: Tensor) -> Tensor:
        tokens, mask = model.join(source, given)
        return model(tokens, attention_mask=mask)

    blocks: list[Any] = [
        lambda: model.hooks([("blocks.1.hook_resid_pre", second_position_zero)]),
        lambda: model.hooks([("decoder_blocks.0.hook_mlp_out", second_position_zero)]),
        lambda: mask_attention(model, keys=[1]),
    ]
    for block in blocks:
        with block():
            expected = by_calls(call, source, 9)
            assert greedy_search(model, source) == expected
        assert expected != clean
    with mask_attention(model, keys=[1]):
        greedy_search(model, source)
        with pytest.raises(InterventionError, match="acts on calls of the model"):
            greedy_search(model.lens, source)
    groups = torch.tensor([[0, 0, -1, -1]])
    with (
        pytest.raises(InterventionError, match=r"groups are \[1, 4\] and the tokens .* \[2, 4\]"),
        pool_at(model, 0, groups),
    ):
        greedy_search(model, source)
    assert greedy_search(model, source) == clean


def test_a_bridged_model_decodes_as_hugging_face_does() -> None:
    hf = architectures.build("Marian")
    generator = torch.Generator().manual_seed(10)
    for name, weight in hf.named_parameters():
        if "norm" not in name:
            scale = 0.15 if "embed_tokens" in name or "lm_head" in name else 0.6
            weight.data = torch.randn(weight.shape, generator=generator) * scale
    source = torch.tensor([[5, 7, 3, 9], [4, 4, 8, 6]])
    model = load_model(hf)
    assert isinstance(model, EncoderDecoderModel)
    start = model.start_ids
    with torch.no_grad():
        expected = hf.generate(
            input_ids=source,
            attention_mask=torch.ones_like(source),
            num_beams=1,
            do_sample=False,
            max_new_tokens=7,
            eos_token_id=None,
        )
    rows = expected[:, len(start) : -1].tolist()  # the last one is forced
    assert len(set(rows[0] + rows[1])) > 3
    for eos in (0, rows[1][2], rows[0][0]):
        found = greedy_search(model, source, max_length=6, eos=eos)
        assert found == [row[: row.index(eos) + 1] if eos in row else row for row in rows]
    with pytest.raises(OptionError, match="eos=None, max_length=6: expected values"):
        greedy_search(model, source, max_length=6)


# ---- exact match --------------------------------------------------------------------------


def pairs_of(n: int, seed: int) -> list[EncodedPair]:
    """The target is the source's words, reversed and 3 lower; of none to three words."""
    random = np.random.default_rng(seed)
    sources = [random.integers(3, 7, size=random.integers(0, 4)) for _ in range(n)]
    return [
        EncodedPair(np.array([*source, EOS]), np.array([*source[::-1], EOS])) for source in sources
    ]


def assert_exact_match_is_greedy(model: SmallSeq2Seq, pairs: list[EncodedPair]) -> list[bool]:
    source, mask = padded([pair.source.tolist() for pair in pairs])
    found = greedy_search(model, source, mask)
    right = [row == pair.target.tolist() for row, pair in zip(found, pairs, strict=True)]
    assert exact_match(model, pairs, BOS).tolist() == right
    return right


def test_exact_match_by_one_pass_is_that_of_greedy_decoding(model: SmallSeq2Seq) -> None:
    """Targets that greedy decoding gives, and ones that differ in a token, the last, or the end."""
    source, mask = padded()
    pairs = []
    for row, out in zip(SOURCES, greedy_search(model, source, mask), strict=True):
        for target in (out, out[:-1] or [EOS], [*out[:-1], (out[-1] + 1) % 7], [3, *out][:9]):
            pairs.append(EncodedPair(np.array(row), np.array(target)))
    right = [
        greedy_search(model, torch.tensor(pair.source[None]))[0] == pair.target.tolist()
        for pair in pairs
        if pair.target[-1] == EOS or len(pair.target) == 9
    ]
    asked = [pair for pair in pairs if pair.target[-1] == EOS or len(pair.target) == 9]
    assert exact_match(model, asked, BOS).tolist() == right
    assert set(right) == {True, False}


def test_exact_match_of_a_trained_model_is_that_of_greedy_decoding() -> None:
    pairs, new = pairs_of(40, 0), pairs_of(40, 1)
    shape = {**SHAPE, "d_model": 16, "n_decoder_layers": 1, "tied": True, "d_vocab": 7}
    model = SmallSeq2Seq(Seq2SeqConfig(**shape, fuse="both"))
    init_xavier(model, seed=0)
    assert not any(assert_exact_match_is_greedy(model, new))
    config = TrainConfig(lr=0.02, epochs=12, batch_size=20, warmup_steps=5)
    run_training(Trainer(model, TargetSequence(pairs, BOS), config), progress=False)
    right = assert_exact_match_is_greedy(model, new)
    assert 0.2 < np.mean(right) < 1  # some of either kind


# ---- refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_length": 10}, OptionError, "max_length=10: expected 1 to the 9 positions"),
        ({"max_length": 0}, OptionError, "max_length=0: expected 1"),
        ({"eos": 7}, OptionError, "eos=7: expected a target's tokens, 0 to 6"),
        ({"start": [1, -1]}, OptionError, r"start=\[1, -1\], eos=2: expected a target's tokens"),
        ({"source": torch.tensor([[3, 11]])}, InputError, "source ids from 3 to 11: expected 0 to"),
        ({"source": torch.zeros((0, 2)).long()}, InputError, r"a tensor \[0, 2\]"),
        ({"source": torch.ones((1, 10)).long()}, PromptError, "a source has 10 tokens"),
        ({"source_mask": torch.tensor([[0, 0]])}, InputError, "row 0 .* has no real token"),
        ({"n_beams": 0}, OptionError, "n_beams=0: expected a whole number, 1 to 10000"),
        ({"length_penalty": math.nan}, OptionError, "length_penalty=nan: expected a number, -10"),
    ],
)
def test_what_cannot_be_decoded_is_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    model = random()
    call: dict[str, Any] = {"source": torch.tensor([[3, 4]]), **options}
    with pytest.raises(error, match=message):
        beam_search(model, **call)
    if "n_beams" not in options and "length_penalty" not in options:
        with pytest.raises(error, match=message):
            greedy_search(model, **call)
