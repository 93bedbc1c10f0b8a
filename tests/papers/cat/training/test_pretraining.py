"""BERT's and CAT's pre-training losses against their equations, word by word; what is measured
against one passage at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from torch import Tensor

from interp_compose.errors import NonFiniteError, OptionError
from interp_compose.papers.cat.models.bert import BlockOutput, EncoderConfig, SmallEncoder
from interp_compose.papers.cat.models.composition import code_weights
from interp_compose.papers.cat.text.wordpiece import WordPieces
from interp_compose.papers.cat.training import pretraining
from interp_compose.papers.cat.training.pretraining import (
    TEMPERATURE,
    TERMS,
    CatWeights,
    Pretraining,
    entropy_term,
    guided_loss,
    guided_positive_loss,
    measured,
    reconstruction_loss,
    sparsity_loss,
    task_losses,
    word_shares,
)
from interp_compose.papers.cat.training.sentences import Lexicon, MaskedBatch, Passages, Sentences

BERT = EncoderConfig(
    d_vocab=31, n_ctx=18, n_layers=2, d_model=12, n_heads=3, d_mlp=17, n_codes=13, n_last_codes=19
)
CAT = replace(BERT, composition="every")
CONTINUES = np.arange(31) >= 26
VOCABULARY = WordPieces(CONTINUES, np.arange(5, 31), pad=0, cls=2, sep=3, mask=4)
N_SEMEMES = 16
"""Fewer than the last block has codes."""
WORDS: dict[tuple[int, ...], tuple[int, ...]] = {
    (token,): (token % 7, 9 + token % 5) for token in range(5, 15)
}
WORDS |= {(token, 27): (15,) for token in range(5, 26)}
LEXICON = Lexicon.of(WORDS, N_SEMEMES)
ALL = ("masked", "next", "guided", "sparsity", "reconstruction", "sufficiency", "nuance")
"""The paper's."""
OFF = CatWeights(guided=0.0, sparsity=0.0, reconstruction=0.0, sufficiency=0.0, nuance=0.0)

Array = NDArray[np.float64]


def noise(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().numpy()


# ---- word by word --------------------------------------------------------------------------------

SPLIT = torch.tensor([[0, 1, 1, 2, 2, 3, -1], [0, 0, 1, 2, 3, -1, -1]])
"""Eight words of one token or two, and three places of padding."""


def words_in(words: Tensor) -> list[list[tuple[int, int]]]:
    """The places, rows and columns, of each word."""
    found = []
    for row, numbers in enumerate(words.tolist()):
        for number in sorted({one for one in numbers if one >= 0}):
            found.append([(row, at) for at, one in enumerate(numbers) if one == number])
    return found


def mean_of_words(values: Array, words: Tensor) -> float:
    """Of each word the mean over its tokens, and of these the mean."""
    of_words = [sum(values[at] for at in places) / len(places) for places in words_in(words)]
    return float(sum(of_words) / len(of_words))


def slow_guided(weights: Array, sememes: Sequence[Sequence[bool]]) -> float:
    """Eq. 4, first term: sum((1 − s) ⊙ O) / sum(1 − s), and its mean over words."""
    means = []
    for row, own in zip(weights, sememes, strict=True):
        wrong = [o for code, o in enumerate(row) if code >= len(own) or not own[code]]
        means.append(sum(wrong) / len(wrong) if wrong else 0.0)
    return float(sum(means) / len(means)) if means else 0.0


def slow_positive(cosines: Array, sememes: Sequence[Sequence[bool]]) -> float:
    """−1/|s| Σ log softmax(z / τ) over a word's sememes, and its mean over words."""
    means = []
    for row, own in zip(cosines / TEMPERATURE, sememes, strict=True):
        right = [minus_log(row, code) for code, is_right in enumerate(own) if is_right]
        means.append(sum(right) / len(right) if right else 0.0)
    return sum(means) / len(means) if means else 0.0


def slow_cosines(model: SmallEncoder, cont: Tensor, batch: MaskedBatch) -> Array:
    """cos(h W_Q, e W_K) in the last block, of annotated words: means of their tokens."""
    book: Any = model.blocks[-1].composition
    keys = array(book.codebook) @ array(book.W_K)
    rows = []
    for places in words_in(batch.words):
        if places[0][0] * batch.words.shape[1] + places[0][1] in batch.guided.tolist():
            taken = places if model.cfg.level == "word" else places[:1]
            query = sum(array(cont[at]) for at in taken) / len(taken) @ array(book.W_Q)
            lengths = np.linalg.norm(keys, axis=1) * np.linalg.norm(query)
            rows.append(keys @ query / lengths)
    return np.array(rows)


def slow_sparsity(weights: Sequence[Array], words: Tensor) -> float:
    """Eq. 4, second term, of all blocks: L1(O) over the number of codes."""
    return sum(mean_of_words(np.abs(one).sum(axis=2) / one.shape[2], words) for one in weights)


def slow_reconstruction(comp: Array, cont: Array, words: Tensor, beta: float) -> float:
    """Eq. 5: both of its parts have one value."""
    squares = ((comp - cont) ** 2).sum(axis=2) / comp.shape[2]
    return (1 + beta) * mean_of_words(squares, words)


def slow_entropy(nuance: Array, words: Tensor) -> float:
    """Eq. 7, first term, of the softmax of a vector's components."""
    terms = np.zeros(nuance.shape[:2])
    for at in np.ndindex(*terms.shape):
        p = np.exp(nuance[at] - nuance[at].max())
        p /= p.sum()
        terms[at] = math.exp(sum(one * math.log(one) for one in p))
    return mean_of_words(terms, words)


def test_shares_by_hand() -> None:
    words = torch.tensor([[0, 1, 1, 2, 2, 2, -1], [0, 0, 1, 2, 3, -1, -1]])
    third = float(torch.tensor(1.0) / 3)
    assert word_shares(words).tolist() == [
        [1, 0.5, 0.5, third, third, third, 0],
        [0.5, 0.5, 1, 1, 1, 0, 0],
    ]
    assert word_shares(torch.full((2, 3), -1)).tolist() == [[0] * 3] * 2


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=4))
def test_every_word_counts_once(sizes: list[list[int]]) -> None:
    width = max(map(sum, sizes)) + 1
    rows = [[w for w, n in enumerate(row) for _ in range(n)] for row in sizes]
    words = torch.tensor([row + [-1] * (width - len(row)) for row in rows])
    share = word_shares(words)
    assert share.sum(dim=1).tolist() == pytest.approx([len(row) for row in sizes], rel=1e-6)
    assert bool((share[words < 0] == 0).all())


# ---- guided decomposition, eq. 4 -----------------------------------------------------------------


def test_weights_of_wrong_codes_by_hand() -> None:
    weights = torch.tensor([[1.0, 2, 3, 4, 5], [6, 0, 8, 1, 3]]).double()
    sememes = torch.tensor([[True, False, True], [False, False, True]])
    assert float(guided_loss(weights, sememes)) == ((2 + 4 + 5) / 3 + (6 + 0 + 1 + 3) / 4) / 2


@pytest.mark.parametrize("n_sememes", [1, 5, 11])
def test_guided_loss_is_the_equations(n_sememes: int) -> None:
    weights = noise(7, 11).relu()
    sememes = noise(7, n_sememes, seed=1) > 0.3
    expected = slow_guided(array(weights), sememes.tolist())
    assert float(guided_loss(weights, sememes)) == pytest.approx(expected, rel=1e-12)
    rough = guided_loss(weights.bfloat16(), sememes)
    assert rough.dtype == torch.bfloat16
    assert float(rough) == pytest.approx(expected, rel=0.02)


def test_guided_loss_pushes_wrong_codes_alone() -> None:
    weights = noise(2, 5).requires_grad_()
    guided_loss(weights, torch.tensor([[True, False, True], [False] * 3])).backward()
    assert weights.grad is not None
    np.testing.assert_allclose(
        array(weights.grad), [[0, 1 / 6, 0, 1 / 6, 1 / 6], [0.1] * 5], rtol=1e-12
    )


def test_no_wrong_code_and_no_annotated_word() -> None:
    for n in (3, 0):
        weights = noise(n, 4).requires_grad_()
        loss = guided_loss(weights, torch.ones(n, 4).bool())
        loss.backward()
        assert float(loss.detach()) == 0
        assert weights.grad is not None
        assert weights.grad.tolist() == [[0] * 4] * n


COSINES = st.lists(
    st.lists(st.floats(-1, 1).filter(lambda z: abs(z) > 1e-3 or z == 0), min_size=6, max_size=6),
    min_size=1,
    max_size=4,
)
"""Of one word to four and six codes."""


def weights_of(cosines: Tensor, norm: str) -> Tensor:
    """O by eq. 2, written out; ``"none"``: without RMSNorm."""
    positive = cosines.relu()
    if norm == "none":
        return positive
    size = positive.square().mean(dim=1, keepdim=True)
    return torch.where(size > 0, positive / size.where(size > 0, 1.0).sqrt(), positive)


def eq_4(weights: Tensor, sememes: Tensor) -> Tensor:
    """Both terms, of words of one token."""
    share = torch.ones(1, len(weights))
    return guided_loss(weights, sememes) + sparsity_loss([weights[None]], share)


@given(COSINES, st.integers(0, 999), st.sampled_from(["rms", "none"]))
def test_eq_4_is_smallest_without_codes_and_leaves_silent_right_codes(
    rows: list[list[float]], seed: int, norm: str
) -> None:
    cosines = torch.tensor(rows, dtype=torch.float64).requires_grad_()
    sememes = noise(len(rows), 5, seed=seed) > 0  # codes beyond the sememes are there
    weights = code_weights(cosines) if norm == "rms" else cosines.relu()
    expected = weights_of(cosines, norm)
    np.testing.assert_allclose(array(weights), array(expected), rtol=1e-6)
    # 1. It is 0 or more, by the equation written out; 2. and 0 where there is no code, there alone.
    loss = eq_4(weights, sememes)
    slow = slow_guided(array(expected), sememes.tolist())
    slow += slow_sparsity([array(expected)[None]], torch.arange(len(rows))[None])
    assert float(loss.detach()) == pytest.approx(slow, rel=1e-6)
    assert float(loss.detach()) >= 0
    assert (float(loss.detach()) == 0) == (not bool((cosines > 0).any()))
    # 3. No gradient at all on a code without weight, right or wrong.
    (gradient,) = torch.autograd.grad(loss, cosines)
    (by_torch,) = torch.autograd.grad(eq_4(expected, sememes), cosines)
    silent = cosines <= 0
    assert not gradient[silent].any()
    assert not by_torch[silent].any()


def test_eq_4_of_no_code_at_all_is_0_and_stays_there() -> None:
    cosines = torch.full((3, 7), -0.2, dtype=torch.float64).requires_grad_()
    for sememes in (torch.zeros(3, 7).bool(), torch.ones(3, 7).bool(), torch.eye(3, 7).bool()):
        loss = eq_4(code_weights(cosines), sememes)
        (gradient,) = torch.autograd.grad(loss, cosines)
        assert float(loss.detach()) == 0
        assert not gradient.any()


def test_only_rmsnorm_has_the_first_term_raise_a_right_code_that_has_weight() -> None:
    """By what it takes from wrong ones; without it, nothing raises a right code."""
    cosines = torch.tensor([[0.4, 0.3, -0.2, 0.6, -0.1]], dtype=torch.float64).requires_grad_()
    sememes = torch.tensor([[True, False, True, False, False]])  # code 0 has weight, code 2 none
    for norm in ("rms", "none"):
        (gradient,) = torch.autograd.grad(guided_loss(weights_of(cosines, norm), sememes), cosines)
        assert float(gradient[0, 2]) == 0
        assert (float(gradient[0, 0]) < 0) if norm == "rms" else (float(gradient[0, 0]) == 0)


# ---- the term for right sememes, which CAT lacks ----------------------------------------------


@pytest.mark.parametrize("n_sememes", [0, 1, 5, 11])
def test_the_positive_term_is_its_equation(n_sememes: int) -> None:
    cosines = noise(7, 11).tanh().requires_grad_()
    sememes = noise(7, n_sememes, seed=1) > 0.3
    loss = guided_positive_loss(cosines, sememes)
    expected = slow_positive(array(cosines), sememes.tolist())
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-12)
    assert float(loss.detach()) >= 0
    rough = guided_positive_loss(cosines.bfloat16(), sememes)
    assert float(rough.detach()) == pytest.approx(expected, rel=0.02)
    # its gradient: (softmax − s / |s|) / τ, over the number of words; of a word without sememes 0
    loss.backward()
    right = np.zeros((7, 11))
    right[:, :n_sememes] = sememes.numpy()
    p = np.exp(array(cosines) / TEMPERATURE)
    p /= p.sum(axis=1, keepdims=True)
    share = right / np.maximum(right.sum(axis=1, keepdims=True), 1)
    slope = (p - share) * right.any(axis=1, keepdims=True) / TEMPERATURE / 7
    assert cosines.grad is not None
    np.testing.assert_allclose(array(cosines.grad), slope, rtol=1e-9, atol=1e-15)


def test_the_positive_term_raises_right_codes_that_have_no_weight() -> None:
    cosines = torch.full((2, 6), -0.3, dtype=torch.float64).requires_grad_()
    sememes = torch.tensor([[True, False, True], [False, True, False]])
    guided_positive_loss(cosines, sememes).backward()
    assert cosines.grad is not None
    right = torch.zeros(2, 6).bool()
    right[:, :3] = sememes
    assert bool((cosines.grad[right] < 0).all())
    assert bool((cosines.grad[~right] > 0).all())


def test_the_positive_term_by_hand_and_at_its_edges() -> None:
    cosines = torch.tensor([[0.1, 0.0, -0.1], [0.5, 0.5, 0.5]], dtype=torch.float64)
    sememes = torch.tensor([[True, False, True], [True, True, True]])
    first = math.log(math.e + 1 + 1 / math.e)  # −½ (log softmax(1) + log softmax(−1)), τ = 0.1
    assert float(guided_positive_loss(cosines, sememes)) == pytest.approx(
        (first + math.log(3)) / 2, rel=1e-12
    )
    for n, n_sememes in ((2, 0), (0, 3), (0, 0)):
        loss = guided_positive_loss(cosines[:n], torch.zeros(n, n_sememes).bool())
        assert float(loss) == 0
    assert float(guided_positive_loss(cosines, torch.zeros(2, 3).bool())) == 0


def test_sparsity_by_hand() -> None:
    share = torch.tensor([[1.0, 0.5, 0.5, 0]]).double()
    few = torch.tensor([[[2.0, 0], [1, 1], [3, 0], [50, 50]]]).double()
    assert float(sparsity_loss([few], share)) == (1 + (1 + 1.5) / 2) / 2
    more = torch.ones(1, 4, 3).double()
    assert float(sparsity_loss([few, more], share)) == (1 + (1 + 1.5) / 2) / 2 + 1


def test_sparsity_is_the_sum_over_blocks() -> None:
    blocks = [noise(2, 7, codes, seed=codes).relu() for codes in (5, 11, 3)]
    share = word_shares(SPLIT).double()
    expected = slow_sparsity([array(one) for one in blocks], SPLIT)
    assert float(sparsity_loss(blocks, share)) == pytest.approx(expected, rel=1e-12)
    rough = sparsity_loss([one.bfloat16() for one in blocks], share.bfloat16())
    assert float(rough) == pytest.approx(expected, rel=0.02)


# ---- semantics composition, eqs 5 and 7 ----------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 0.1, 1.0])
def test_reconstruction_and_both_of_its_gradients(beta: float) -> None:
    """Each vector is moved by its own part alone: the composed one by the first, the contextual
    one by β times the second."""
    comp, cont = (noise(2, 7, 3, seed=seed).requires_grad_() for seed in (0, 1))
    share = word_shares(SPLIT).double()
    loss = reconstruction_loss(comp, cont, share, beta)
    loss.backward()
    expected = slow_reconstruction(array(comp), array(cont), SPLIT, beta)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-12)
    of_comp = np.zeros((2, 7, 3))
    for places in words_in(SPLIT):
        for at in places:
            difference = array(comp)[at] - array(cont)[at]
            of_comp[at] = 2 * difference / 3 / len(places) / 8  # components, tokens, words
    assert comp.grad is not None
    assert cont.grad is not None
    np.testing.assert_allclose(array(comp.grad), of_comp, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(array(cont.grad), -beta * of_comp, rtol=1e-12, atol=1e-15)


def test_what_is_equal_needs_no_reconstruction() -> None:
    comp, share = noise(2, 7, 3), word_shares(SPLIT).double()
    assert float(reconstruction_loss(comp, comp.clone(), share, 0.5)) == 0
    rough = reconstruction_loss(comp.bfloat16(), 0 * comp.bfloat16(), share.bfloat16(), 0.5)
    expected = slow_reconstruction(array(comp), 0 * array(comp), SPLIT, 0.5)
    assert float(rough) == pytest.approx(expected, rel=0.02)


def test_entropy_term_is_the_equations() -> None:
    nuance, share = 2 * noise(2, 7, 5), word_shares(SPLIT).double()
    expected = slow_entropy(array(nuance), SPLIT)
    assert float(entropy_term(nuance, share)) == pytest.approx(expected, rel=1e-12)
    assert float(entropy_term(nuance.bfloat16(), share.bfloat16())) == pytest.approx(
        expected, rel=0.05
    )


@pytest.mark.parametrize("d_model", [1, 4, 768])
@pytest.mark.parametrize("level", [0.0, -3.0, 1e4])
def test_entropy_term_of_equal_components_and_of_one_that_stands_out(
    d_model: int, level: float
) -> None:
    share = word_shares(SPLIT).double()
    equal = torch.full((2, 7, d_model), level, dtype=torch.float64)
    assert float(entropy_term(equal, share)) == pytest.approx(1 / d_model, rel=1e-9)
    equal[..., 0] += 1e3
    equal.requires_grad_()
    loss = entropy_term(equal, share)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(1, rel=1e-9)
    assert equal.grad is not None
    assert bool(equal.grad.isfinite().all())


@given(st.lists(st.floats(-20, 20), min_size=4, max_size=4), st.floats(-50, 50))
def test_entropy_term_has_bounds_and_no_origin(vector: list[float], shift: float) -> None:
    one = torch.tensor([[vector]], dtype=torch.float64)
    share = torch.ones(1, 1, dtype=torch.float64)
    term = float(entropy_term(one, share))
    assert 1 / 4 - 1e-12 <= term <= 1 + 1e-12
    assert float(entropy_term(one + shift, share)) == pytest.approx(term, rel=1e-9)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 99))
def test_a_word_of_several_equal_tokens_counts_as_one(sizes: list[int], seed: int) -> None:
    n = len(sizes)
    whole = [torch.arange(n)[None], noise(1, n, 6, seed=seed), noise(1, n, 6, seed=seed + 100)]
    cut = [one.repeat_interleave(torch.tensor(sizes), dim=1) for one in whole]
    found = []
    for words, comp, cont in (whole, cut):
        share = word_shares(words).double()
        parts = [sparsity_loss([comp, cont], share), entropy_term(comp, share)]
        parts.append(reconstruction_loss(comp, cont, share, 0.3))
        found.append([float(part) for part in parts])
    assert found[1] == pytest.approx(found[0], rel=1e-6, abs=1e-7)  # shares of 1/3 are float32


# ---- weights -------------------------------------------------------------------------------------


def test_the_papers_weights() -> None:
    weights = CatWeights()
    assert [getattr(weights, name) for name in ALL] == [1.0] * 7
    assert (weights.beta, weights.nuance_reads) == (0.1, "difference")
    assert weights.guided_positive == 0
    assert [name for name in TERMS if name != "guided_positive"] == list(ALL)


@pytest.mark.parametrize("name", [*ALL, "guided_positive", "beta"])
@pytest.mark.parametrize("value", [-0.5, math.inf, math.nan])
def test_weights_that_cannot_be_are_refused(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(OptionError, match=f"{name}={value!r}: expected a finite number, 0 or more"):
        replace(CatWeights(), **changed)


def test_what_the_nuance_reads_is_one_of_two() -> None:
    unknown: Any = "printed"
    with pytest.raises(OptionError, match="nuance_reads='printed'"):
        CatWeights(nuance_reads=unknown)


# ---- the objective -------------------------------------------------------------------------------


def text_of(lengths: Sequence[Sequence[int]], seed: int = 0) -> Sentences:
    """Documents of sentences of these lengths, words of one token to three, some of them
    annotated."""
    random = np.random.default_rng(seed)
    flat = [n for document in lengths for n in document]
    tokens = []
    for n in flat:
        own = random.integers(5, 26, n)
        more = np.flatnonzero(random.random(n) < 0.3)
        own[more[more > 0]] = random.integers(26, 31, int((more > 0).sum()))
        tokens.extend(own.tolist())
    starts, documents = np.cumsum([0, *flat]), np.cumsum([0, *map(len, lengths)])
    return Sentences(np.array(tokens), starts, documents)


MANY = [[4, 3, 5, 2, 6], [7, 4, 3], [5, 6, 4, 4, 2], [9], [3, 3, 2, 7, 3], [4, 8], [6, 5, 14]]
ALONE = [[5], [8], [20], [3]]


def random(cfg: EncoderConfig, *, seed: int = 0) -> SmallEncoder:
    """Every parameter random, in float64."""
    model = SmallEncoder(cfg)
    model.double().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64) * 0.4
        weight.data = 1 + drawn if name.endswith(".w") else drawn
    model.continues[:] = torch.from_numpy(CONTINUES)
    return model


def objective_of(
    weights: CatWeights | None = None,
    lengths: Sequence[Sequence[int]] = MANY,
    *,
    composes: bool = True,
    lexicon: Lexicon | None = LEXICON,
) -> Pretraining:
    passages = Passages.of(text_of(lengths), BERT.n_ctx)
    return Pretraining(passages, VOCABULARY, lexicon, weights or CatWeights(), composes)


def everything(objective: Pretraining) -> NDArray[np.int64]:
    """The numbers of all passages."""
    return np.arange(len(objective.passages))


def minus_log(scores: Array, answer: int) -> float:
    """−log softmax(scores)[answer]."""
    total: float = sum(math.exp(score - scores.max()) for score in scores)
    return math.log(total) - float(scores[answer] - scores.max())


def slow_tasks(model: SmallEncoder, batch: MaskedBatch, read: Tensor) -> tuple[float, float]:
    """Mean nats of masked tokens, one by one, and of pairs, one by one."""
    width = batch.tokens.shape[1]
    masked = [
        minus_log(array(model.logits(read[at // width, at % width][None]))[0], answer)
        for at, answer in zip(batch.at.tolist(), batch.target.tolist(), strict=True)
    ]
    following = [
        minus_log(array(model.pair_head(read[row, 0][None]))[0], label)
        for row, label in enumerate(batch.follows.tolist())
        if label >= 0
    ]
    return sum(masked) / len(masked), sum(following) / max(len(following), 1)


def slow_terms(
    model: SmallEncoder, batch: MaskedBatch, outputs: Sequence[BlockOutput], weights: CatWeights
) -> dict[str, float]:
    """Eqs 4 to 10, from what the blocks give."""
    last = outputs[-1]
    assert last.comp is not None
    cont, comp, mix = (slow_tasks(model, batch, one) for one in (last.cont, last.comp, last.mix))
    nuance = last.cont - last.comp
    if weights.nuance_reads == "difference":  # eq. 7
        informed = math.exp(-sum(slow_tasks(model, batch, nuance)))
    else:  # eq. 10
        informed = math.exp(-cont[0]) + math.exp(-comp[1])
    used = [array(one.weights) for one in outputs if one.weights is not None]
    guided = 0.0
    if last.weights is not None:
        width = batch.tokens.shape[1]
        rows = [array(last.weights)[at // width, at % width] for at in batch.guided.tolist()]
        guided = slow_guided(np.array(rows), batch.sememes.tolist())
    return {
        "masked": cont[0],
        "next": cont[1],
        "guided": guided,
        "sparsity": slow_sparsity(used, batch.words),
        "reconstruction": slow_reconstruction(
            array(last.comp), array(last.cont), batch.words, weights.beta
        ),
        "sufficiency": sum(cont) + sum(comp) + sum(mix),
        "nuance": slow_entropy(array(nuance), batch.words) + informed,
    }


VARIANTS = (
    CAT,
    replace(CAT, composition="last"),
    replace(CAT, level="token"),
    replace(CAT, composer="mlp"),
)


@pytest.mark.parametrize("nuance_reads", ["difference", "as-printed"])
@pytest.mark.parametrize("cfg", VARIANTS)
@pytest.mark.parametrize("lengths", [MANY, ALONE])
def test_the_loss_is_the_sum_of_the_equations(
    cfg: EncoderConfig, nuance_reads: Any, lengths: list[list[int]]
) -> None:
    """L = L_task + L_GD + L_SC; among passages of one sentence there is no pair."""
    weights = CatWeights(
        masked=0.6, next=1.7, guided=0.3, sparsity=2.0, reconstruction=0.7, sufficiency=0.25,
        nuance=3.0, beta=0.4, nuance_reads=nuance_reads,
    )  # fmt: skip
    model, objective = random(cfg), objective_of(weights, lengths)
    batch = objective.drawn(objective.passages, everything(objective), 5)
    assert bool((batch.follows >= 0).any()) == (lengths is MANY)
    assert len(batch.guided) > 2
    outputs = model(batch.tokens, batch.mask, batch.segments, batch.words)
    expected = slow_terms(model, batch, outputs, weights)
    loss, terms = objective.loss(model, everything(objective), [1.0] * 7, 5)
    assert [float(term) for term in terms] == pytest.approx(list(expected.values()), rel=1e-6)
    assert not any(term.requires_grad for term in terms)
    total = sum(getattr(weights, name) * expected[name] for name in ALL)
    assert float(loss.detach()) == pytest.approx(total, rel=1e-6)
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(bool(one.isfinite().all()) for one in gradients)


@pytest.mark.parametrize("lengths", [MANY, ALONE])
def test_a_bert_has_its_two_losses_alone(lengths: list[list[int]]) -> None:
    model, objective = random(BERT), objective_of(lengths=lengths, composes=False, lexicon=None)
    batch = objective.drawn(objective.passages, everything(objective), 2)
    outputs = model(batch.tokens, batch.mask, batch.segments)
    masked, following = slow_tasks(model, batch, outputs[-1].cont)
    loss, terms = objective.loss(model, everything(objective), [1.0, 1.0], 2)
    assert [float(term) for term in terms] == pytest.approx([masked, following], rel=1e-9)
    assert float(loss.detach()) == pytest.approx(masked + following, rel=1e-9)
    assert (following == 0) == (lengths is ALONE)


def test_weights_of_0_leave_a_term_out() -> None:
    model = random(CAT)
    indices = everything(objective_of())
    for name in ALL[2:]:
        changed: dict[str, Any] = {name: 1.5}
        objective = objective_of(replace(OFF, **changed))
        loss, terms = objective.loss(model, indices, [1.0] * 7, 0)
        value = dict(zip(ALL, map(float, terms), strict=True))
        expected = value["masked"] + value["next"] + 1.5 * value[name]
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-9), name
        assert value[name] > 0
    loss, terms = objective_of(OFF).loss(model, indices, [1.0] * 7, 0)
    assert float(loss.detach()) == pytest.approx(float(terms[0] + terms[1]), rel=1e-9)
    loss.backward()
    for name, weight in model.named_parameters():
        if name.startswith("blocks.1.composition."):  # nothing that reads them is left
            assert weight.grad is None or not weight.grad.any(), name


def test_each_term_counts_its_share() -> None:
    """The loss is linear in them; halves halve it."""
    model, objective = random(CAT), objective_of(CatWeights(guided=2.0, nuance=0.5))
    indices = everything(objective)
    shares = [0.5, 0.25, 0.125, 1.0, 0.75, 0.375, 0.0625]
    whole, half, mixed = (
        objective.loss(model, indices, own, 3) for own in ([1.0] * 7, [0.5] * 7, shares)
    )
    assert float(half[0].detach()) == pytest.approx(float(whole[0].detach()) / 2, rel=1e-12)
    for found, own in ((half, [0.5] * 7), (mixed, shares)):
        expected = [share * float(term) for share, term in zip(own, whole[1], strict=True)]
        assert [float(term) for term in found[1]] == pytest.approx(expected, rel=1e-12)
        total = sum(expected) + expected[2] - 0.5 * expected[6]
        assert float(found[0].detach()) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("cfg", VARIANTS)
def test_a_term_for_right_sememes_is_one_more_and_changes_no_other(cfg: EncoderConfig) -> None:
    model, indices = random(cfg), everything(objective_of())
    plain = objective_of()
    objective = objective_of(CatWeights(guided_positive=0.5))
    assert list(objective.terms) == list(TERMS)
    assert list(plain.terms) == list(ALL)
    loss, terms = objective.loss(model, indices, [1.0] * 8, 5)
    before, others = plain.loss(model, indices, [1.0] * 7, 5)
    named = dict(zip(TERMS, map(float, terms), strict=True))
    positive = named.pop("guided_positive")
    assert list(named.values()) == [float(term) for term in others]
    batch = objective.drawn(objective.passages, indices, 5)
    last = model(batch.tokens, batch.mask, batch.segments, batch.words)[-1]
    if cfg.composer == "mlp":  # without codes nothing can be right
        assert positive == 0
        return
    expected = slow_positive(slow_cosines(model, last.cont, batch), batch.sememes.tolist())
    assert len(batch.guided) > 2
    assert positive == pytest.approx(expected, rel=1e-9)
    assert positive > 0
    total = float(before.detach()) + 0.5 * positive
    assert float(loss.detach()) == pytest.approx(total, rel=1e-9)
    # and the codebook is moved by it
    book: Any = model.blocks[-1].composition
    (with_it,) = torch.autograd.grad(loss, book.codebook)
    (without,) = torch.autograd.grad(before, book.codebook)
    assert not torch.equal(with_it, without)


def test_a_weight_of_0_computes_no_term_for_right_sememes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise AssertionError("computed")

    monkeypatch.setattr(pretraining, "guided_positive_loss", refused)
    model, indices = random(CAT), everything(objective_of())
    objective_of().loss(model, indices, [1.0] * 7, 0)
    with pytest.raises(AssertionError, match="computed"):
        objective_of(CatWeights(guided_positive=1.0)).loss(model, indices, [1.0] * 8, 0)


def test_words_that_are_not_in_the_text_guide_nothing() -> None:
    model, indices = random(CAT), everything(objective_of())
    for lexicon in (None, Lexicon.of({(5, 5): (0,)}, N_SEMEMES)):
        _, terms = objective_of(lexicon=lexicon).loss(model, indices, [1.0] * 7, 0)
        assert float(terms[2]) == 0
        assert all(float(term) > 0 for term in (*terms[:2], *terms[3:]))


def test_models_of_one_seed_see_the_same() -> None:
    one, other = objective_of(), objective_of(composes=False)
    indices = everything(one)
    cat, again, bert = (each.drawn(each.passages, indices, 7) for each in (one, one, other))
    for name, value in vars(cat).items():
        assert torch.equal(value, getattr(again, name))
        if name not in ("guided", "sememes"):
            assert torch.equal(value, getattr(bert, name))
    assert len(cat.guided) > len(bert.guided) == 0
    assert not torch.equal(cat.at, one.drawn(one.passages, indices, 8).at)


def test_what_the_loop_asks_of_it() -> None:
    cat, bert = objective_of(), objective_of(composes=False)
    assert list(cat.terms) == list(cat.sums) == list(ALL)
    assert list(bert.terms) == list(bert.sums) == ["masked", "next"]
    indices = np.array([4, 0, 2])
    assert cat.collate(indices).tolist() == [4, 0, 2]
    assert (cat.sizes(indices), bert.sizes(indices)) == ([3] * 7, [3] * 2)
    assert cat.lengths == cat.passages.lengths
    sums = {name: float(i) for i, name in enumerate(ALL)}
    assert cat.row(sums, 3) == sums
    assert bert.row(sums, 3) == {"masked": 0.0, "next": 1.0}


def test_the_loss_in_bfloat16_is_about_that_in_float32() -> None:
    model, objective = random(CAT).float(), objective_of()
    exact, terms = objective.loss(model, everything(objective), [1.0] * 7, 0)
    with torch.autocast("cpu", torch.bfloat16):
        loss, rough = objective.loss(model, everything(objective), [1.0] * 7, 0)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(exact.detach()), rel=0.05)
    for name, one, other in zip(ALL, terms, rough, strict=True):
        assert float(other) == pytest.approx(float(one), rel=0.1), name
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(bool(one.isfinite().all()) for one in gradients)


# ---- the tasks -----------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("lengths", [MANY, ALONE])
def test_each_representation_is_read_alone(lengths: list[list[int]]) -> None:
    model, objective = random(BERT), objective_of(lengths=lengths)
    batch = objective.drawn(objective.passages, everything(objective), 1)
    read = [noise(*batch.tokens.shape, 12, seed=seed) for seed in range(3)]
    together = task_losses(model, batch, read)
    for one, (masked, following) in zip(read, together, strict=True):
        ((own_masked, own_following),) = task_losses(model, batch, [one])
        assert float(masked) == pytest.approx(float(own_masked), rel=1e-12)
        assert float(following) == pytest.approx(float(own_following), rel=1e-12)
        expected = slow_tasks(model, batch, one)
        assert (float(masked), float(following)) == pytest.approx(expected, rel=1e-9)
        assert (float(following) == 0) == (lengths is ALONE)


# ---- what is measured ----------------------------------------------------------------------------

AT_ONCE = 4


def slow_batches(objective: Pretraining, passages: Passages) -> list[MaskedBatch]:
    """The shortest first, about as many of them at one time, drawn by the number of the batch."""
    order = sorted(range(len(passages)), key=lambda i: passages.lengths[i])
    n = math.ceil(len(order) / AT_ONCE)
    cuts = [len(order) * i // n for i in range(n + 1)]
    parts = [np.array(order[cuts[i] : cuts[i + 1]]) for i in range(n)]
    return [objective.drawn(passages, part, number) for number, part in enumerate(parts)]


def slow_measures(
    objective: Pretraining, model: SmallEncoder, passages: Passages
) -> tuple[list[list[float]], list[dict[str, float]]]:
    """Of each representation, what the rows say; of each block, which codes words use. One passage
    at a time, without padding."""
    outputs, n_words = model.outputs, 0
    nats: list[list[float]] = [[] for _ in outputs]
    right: list[list[bool]] = [[] for _ in outputs]
    paired: list[list[bool]] = [[] for _ in outputs]
    uses: dict[int, Array] = {}
    without: dict[int, float] = {}
    composed: dict[int, list[tuple[float, Array]]] = {}
    for batch in slow_batches(objective, passages):
        width = batch.tokens.shape[1]
        for row in range(len(batch.tokens)):
            n = int(batch.mask[row].sum())
            words = batch.words[row : row + 1, :n]
            found = model(
                batch.tokens[row : row + 1, :n], None, batch.segments[row : row + 1, :n], words
            )
            for i, name in enumerate(outputs):
                hidden = found[-1].of(name)[0]
                for at, answer in zip(batch.at.tolist(), batch.target.tolist(), strict=True):
                    if at // width == row:
                        scores = array(model.logits(hidden[at % width][None]))[0]
                        nats[i].append(minus_log(scores, answer))
                        right[i].append(int(scores.argmax()) == answer)
                label = int(batch.follows[row])
                if label >= 0:
                    said = array(model.pair_head(hidden[0][None]))[0].argmax()
                    paired[i].append(int(said) == label)
            n_words += len(words_in(words))
            for layer, one in enumerate(found):
                if one.weights is None:
                    continue
                weights = array(one.weights)
                for places in words_in(words):
                    for at in places:
                        used = (weights[at] != 0) / len(places)
                        uses[layer] = uses.get(layer, 0 * used) + used
                        none = float(not used.any()) / len(places)
                        without[layer] = without.get(layer, 0.0) + none
                        assert one.comp is not None
                        counted = (1 / len(places), array(one.comp[at]))
                        composed.setdefault(layer, []).append(counted)
    rows = [
        [sum(a) / len(a), sum(b) / len(a), len(a), sum(c) / max(len(c), 1), len(c)]
        for a, b, c in zip(nats, right, paired, strict=True)
    ]
    codes = []
    for layer, total in uses.items():
        p = total[total > 0] / total.sum()
        codes.append(
            {
                "layer": layer,
                "n_codes": len(total),
                "codes_per_word": total.sum() / n_words,
                "without_codes": without[layer] / n_words,
                "dead_codes": sum(one == 0 for one in total),
                "perplexity": math.exp(-sum(one * math.log(one) for one in p)),
                "alike": (sum(n * x for n, x in composed[layer]) ** 2).sum()
                / (n_words * sum(n * (x**2).sum() for n, x in composed[layer])),
                "revived": 0,
            }
        )
    return rows, codes


@torch.no_grad()
@pytest.mark.parametrize("cfg", [BERT, *VARIANTS])
@pytest.mark.parametrize("lengths", [MANY, ALONE])
def test_what_is_measured_is_that_of_one_passage_at_a_time(
    cfg: EncoderConfig, lengths: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three codes of each codebook are like no vector, and stay without use."""
    monkeypatch.setattr(pretraining, "MEASURED", AT_ONCE)
    model = random(cfg)
    for name, weight in model.named_parameters():
        if name.endswith("codebook"):
            weight[[2, 5, 11]] = 0
    objective = objective_of(composes=cfg is not BERT)
    passages = Passages.of(text_of(lengths, seed=1), BERT.n_ctx)
    found = measured(objective, model, passages)
    rows, codes = slow_measures(objective, model, passages)
    assert [row["output"] for row in found["curve"]] == list(model.outputs)
    names = ("masked_loss", "masked_accuracy", "n_masked", "next_accuracy", "n_pairs")
    for row, expected in zip(found["curve"], rows, strict=True):
        assert [row[name] for name in names] == pytest.approx(expected, rel=1e-5)
        assert row["n_masked"] >= len(passages)
        assert (row["n_pairs"] == 0) == (lengths is ALONE)
    assert len(found["codes"]) == len(codes)
    for row, own in zip(found["codes"], codes, strict=True):
        assert row == pytest.approx(own, rel=1e-6)
        assert row["dead_codes"] >= 3
    layers = {"none": [], "last": [1], "every": [0, 1]}[cfg.composition]
    assert [row["layer"] for row in found["codes"]] == (layers if cfg.composer == "codes" else [])


@torch.no_grad()
def test_words_without_any_code() -> None:
    model = random(CAT)
    for name, weight in model.named_parameters():
        if name == "blocks.1.composition.W_Q":
            weight.zero_()
    objective = objective_of()
    first, last = measured(objective, model, objective.passages)["codes"]
    assert first["codes_per_word"] > 0
    one = {
        "layer": 1,
        "n_codes": 19,
        "codes_per_word": 0,
        "without_codes": 1,
        "dead_codes": 19,
        "perplexity": 1,
        "alike": 1,
        "revived": 0,
    }
    assert last == pytest.approx(one, rel=1e-12)


def test_a_curve_is_measured_the_same_each_time() -> None:
    model, objective = random(CAT), objective_of()
    assert objective.evaluate(SimpleNamespace(model=model)) == {}
    with_curve = replace(objective, curve=objective.passages.first(5))
    found, again = (with_curve.evaluate(SimpleNamespace(model=model)) for _ in range(2))
    assert found == again == measured(objective, model, objective.passages.first(5))
    model.b_U.data[7] = math.nan
    with pytest.raises(NonFiniteError, match="the loss of masked tokens is nan"):
        with_curve.evaluate(SimpleNamespace(model=model))
