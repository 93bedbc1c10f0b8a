"""Pre-training an encoder: masked words, next sentences, and CAT's two tasks (Huang et al. 2024,
section 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from interp_compose._public import public
from interp_compose.errors import NonFiniteError, OptionError
from interp_compose.papers.cat.models.bert import BlockOutput, SmallEncoder
from interp_compose.papers.cat.models.composition import same_word, word_means
from interp_compose.papers.cat.text.wordpiece import WordPieces
from interp_compose.papers.cat.training.loss_weights import LossWeights
from interp_compose.papers.cat.training.revival import Revival
from interp_compose.papers.cat.training.sentences import (
    Lexicon,
    MaskedBatch,
    Passages,
    masked_batch,
)
from interp_compose.training.objectives import Row
from interp_compose.training.order import into_parts

TERMS: Final = {
    "masked": "the loss of masked tokens",
    "next": "the loss of next sentences",
    "guided": "guided decomposition",
    "guided_positive": "right sememes",
    "sparsity": "the sparsity of codes",
    "reconstruction": "reconstruction consistency",
    "sufficiency": "semantic sufficiency",
    "nuance": "nuance minimisation",
}
TEMPERATURE: Final = 0.1
"""τ of the softmax over cosines, which lie from −1 to 1; the one of many contrastive losses of
cosines (Chen et al. 2020, SimCLR, Table 5). Chosen after a look at one seed of the toy of
``benchmarks/toy_codes.py``, at which 1 and 0.03 and a linear term were tried as well."""


@public
@dataclass(frozen=True, kw_only=True)
class CatWeights(LossWeights):
    """What each of CAT's losses counts in the sum, checked.

    Raises:
        OptionError: a weight below 0, or that is no number.
    """

    def __post_init__(self) -> None:
        for name in (*TERMS, "beta"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise OptionError(f"{name}={value!r}: expected a finite number, 0 or more")


# ---- CAT's losses --------------------------------------------------------------------------------


def guided_loss(
    weights: Float[Tensor, "word code"], sememes: Bool[Tensor, "word sememe"]
) -> Float[Tensor, ""]:
    """The mean weight O of wrong codes, over words (CAT, eq. 4, first term).

    The paper sums over the words of a sentence; a mean over those that are annotated does not
    depend on how many they are. Codes beyond the sememes are wrong for every word.

    Eq. 4 is smallest where a word has no code at all, whatever its sememes:

    1. O = RMSNorm(ReLU(z)) ≥ 0 and 1 − s ≥ 0, so that both of its terms are sums of numbers ≥ 0.
    2. At O = 0 both are 0, and nowhere else, since the second is ΣO over the number of codes.
    3. ReLU is flat below 0: a right code with z < 0 has no weight, and no gradient by which it
       could get one.

    :func:`guided_positive_loss` is a term that it lacks.
    """
    n, n_codes = weights.shape
    wrong = torch.ones((n, n_codes), dtype=torch.bool, device=weights.device)
    wrong[:, : sememes.shape[1]] = ~sememes
    # eq. 4, first term, of each word: [word]
    of_word = (weights * wrong).sum(dim=1) / wrong.sum(dim=1).clamp(min=1)
    return of_word.sum() / max(n, 1)


def guided_positive_loss(
    cosines: Float[Tensor, "word code"], sememes: Bool[Tensor, "word sememe"]
) -> Float[Tensor, ""]:
    """−1/|s| Σ_{j ∈ s} log softmax_j(z / τ), with z = cos(h W_Q, e W_K) and s a word's sememes: a
    cross-entropy (nats), the mean over words. Not the paper's.

    It reads cosines, not weights O, and so moves right codes that have none (see
    :func:`guided_loss`). τ = 0.1 (:data:`TEMPERATURE`). A word without sememes counts 0.
    """
    n, n_codes = cosines.shape
    right = cosines.new_zeros((n, n_codes))
    right[:, : sememes.shape[1]] = sememes.to(cosines.dtype)
    # Each right code counts one over the number of the word's: [word code]
    targets = right / right.sum(dim=1, keepdim=True).clamp(min=1)
    of_word = -(targets * (cosines / TEMPERATURE).log_softmax(dim=-1)).sum(dim=1)  # [word]
    return of_word.sum() / max(n, 1)


def sparsity_loss(
    weights: Sequence[Float[Tensor, "batch pos _"]], share: Float[Tensor, "batch pos"]
) -> Float[Tensor, ""]:
    """The L1 norm of O over the number of codes, the mean over words, summed over blocks (CAT, eq.
    4, second term, "from all layers").

    The paper leaves its scale open; divided by the number of codes it is of the same kind as the
    first term, a mean weight, whatever the size of the codebook. O is nowhere below 0 (eq. 2), so
    that its L1 norm is its sum. ``share`` is what each token counts: one over the tokens of its
    word.
    """
    total = share.new_zeros(())
    for one in weights:
        norm = one.sum(dim=-1) / one.shape[-1]  # [batch pos]: ‖O‖₁ / n_codes, O ≥ 0
        total = total + (norm * share).sum() / share.sum()  # eq. 4, second term
    return total


def reconstruction_loss(
    comp: Float[Tensor, "batch pos d_model"],
    cont: Float[Tensor, "batch pos d_model"],
    share: Float[Tensor, "batch pos"],
    beta: float,
) -> Float[Tensor, ""]:
    """‖h_comp − sg(h_cont)‖² + β ‖sg(h_comp) − h_cont‖² (CAT, eq. 5), a mean over components and
    words."""
    toward = (comp - cont.detach()).square().mean(dim=-1)  # [batch pos]: moves h_comp
    back = (comp.detach() - cont).square().mean(dim=-1)  # [batch pos]: moves h_cont
    return ((toward + beta * back) * share).sum() / share.sum()  # eq. 5


def entropy_term(
    nuance: Float[Tensor, "batch pos d_model"], share: Float[Tensor, "batch pos"]
) -> Float[Tensor, ""]:
    """exp(−Entropy(H_nu)) (CAT, eq. 7, first term), the mean over words.

    The entropy of a vector is not defined in the text: here it is Shannon's (nats), of the softmax
    of its components. So the term is 1 / d_model for a vector of equal components, 1 for one that
    stands out.
    """
    logs = nuance.log_softmax(dim=-1)
    entropy = -(logs.exp() * logs).sum(dim=-1)  # [batch pos], nats
    return ((-entropy).exp() * share).sum() / share.sum()  # eq. 7, first term


def word_shares(words: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos"]:
    """What each token counts so that every word counts 1: one over the tokens of its word; 0 where
    there is no word."""
    valid = words >= 0
    index = words.clamp(min=0)
    # Tokens of each word at its number, then at each of its tokens: [batch pos].
    counts = torch.zeros_like(words).scatter_add(1, index, valid.long()).gather(1, index)
    return valid / counts.clamp(min=1)


# ---- the objective -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pretraining:
    """Masked words and next sentences (Devlin et al. 2019, section 3.1); of a model that composes,
    guided decomposition and semantics composition as well (CAT, section 4).

    L = L_task + L_GD + L_SC, with L_task that of the contextual vectors, which eq. 6 counts once
    more. CAT's losses read the last block's vectors, but for the L1 norm, which reads all blocks'.
    ``curve`` are passages on which is measured between steps; ``revival`` sees what each step's
    words are made of (None: codes stay where training moves them).
    """

    passages: Passages
    vocabulary: WordPieces
    lexicon: Lexicon | None
    weights: CatWeights
    composes: bool
    curve: Passages | None = None
    revival: Revival | None = None

    sums_of_bert: ClassVar[Sequence[str]] = ("masked", "next")

    @property
    def terms(self) -> Mapping[str, str]:
        names = list(TERMS) if self.composes else self.sums_of_bert
        if not self.weights.guided_positive:  # the paper's losses: it is not computed
            names = [name for name in names if name != "guided_positive"]
        return {name: TERMS[name] for name in names}

    @property
    def sums(self) -> Sequence[str]:
        return list(self.terms)

    @property
    def lengths(self) -> list[int]:
        return self.passages.lengths

    def collate(self, indices: Int[np.ndarray, "example"]) -> Int[np.ndarray, "example"]:
        """The passages' numbers; what is drawn of them depends on the step (:meth:`loss`)."""
        return indices

    def sizes(self, batch: Int[np.ndarray, "example"]) -> Sequence[int]:
        """Passages, for every term: how many words are masked is drawn later."""
        return [len(batch)] * len(self.terms)

    def drawn(self, passages: Passages, indices: Int[np.ndarray, "_"], seed: int) -> MaskedBatch:
        """The passages with what ``seed`` draws: masked words, second parts that do not follow."""
        return masked_batch(
            passages,
            indices,
            vocabulary=self.vocabulary,
            lexicon=self.lexicon if self.composes else None,
            random=np.random.default_rng(seed),
        )

    def loss(
        self,
        model: SmallEncoder,
        batch: Int[np.ndarray, "example"],
        shares: Sequence[float],
        seed: int,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        inputs = self.drawn(self.passages, batch, seed).to(model.b_U.device)
        outputs = model(inputs.tokens, inputs.mask, inputs.segments, inputs.words)
        if self.revival is not None:
            self.revival.see(outputs, inputs)
        terms = self._terms(model, inputs, outputs)
        parts = [term * share for term, share in zip(terms.values(), shares, strict=True)]
        # L = Σ weight · term
        loss = torch.stack(
            [part * getattr(self.weights, name) for name, part in zip(terms, parts, strict=True)]
        ).sum()
        return loss, [part.detach() for part in parts]

    def _terms(
        self, model: SmallEncoder, batch: MaskedBatch, outputs: Sequence[BlockOutput]
    ) -> dict[str, Tensor]:
        last = outputs[-1]
        if not self.composes:
            masked, following = task_losses(model, batch, [last.cont])[0]
            return {"masked": masked, "next": following}
        assert last.comp is not None
        nuance = last.cont - last.comp  # H_nu of eq. 7: [batch pos d_model]
        read = [last.cont, last.comp, last.mix]
        if self.weights.nuance_reads == "difference":
            read.append(nuance)
        tasks = task_losses(model, batch, read)
        (masked, following), (_, next_of_comp) = tasks[:2]
        if self.weights.nuance_reads == "difference":
            # eq. 7, second term: exp(−L_task(H_nu))
            informed = (-(tasks[3][0] + tasks[3][1])).exp()
        else:
            informed = (-masked).exp() + (-next_of_comp).exp()  # eq. 10, as printed
        share = word_shares(batch.words).to(nuance.dtype)
        zero = masked.new_zeros(())
        used = [one.weights for one in outputs if one.weights is not None]
        guided = guided_positive = zero
        if last.weights is not None and self.lexicon is not None:
            # The rows of O of annotated words: [guided code].
            guided = guided_loss(last.weights.flatten(0, 1)[batch.guided], batch.sememes)
            if self.weights.guided_positive:
                cosines = _last_cosines(model, last.cont, batch)
                guided_positive = guided_positive_loss(cosines, batch.sememes)
        terms = {
            "masked": masked,
            "next": following,
            "guided": guided,
            "guided_positive": guided_positive,
            "sparsity": sparsity_loss(used, share) if used else zero,
            "reconstruction": reconstruction_loss(last.comp, last.cont, share, self.weights.beta),
            "sufficiency": torch.stack([a + b for a, b in tasks[:3]]).sum(),  # eq. 6
            "nuance": entropy_term(nuance, share) + informed,  # eq. 7
        }
        return {name: terms[name] for name in self.terms}

    def row(self, sums: Mapping[str, float], n: int) -> Row:
        return {name: sums[name] for name in self.terms}

    @torch.no_grad()
    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        """Rows on :attr:`curve`, which is drawn once and for all: BERT's tasks from each
        representation, and the codes that are used."""
        if self.curve is None:
            return {}
        scores = measured(self, trainer.model, self.curve)
        for row in scores["curve"]:
            if not math.isfinite(row["masked_loss"]):
                raise NonFiniteError(f"the loss of masked tokens is {row['masked_loss']}")
        return scores


def _last_cosines(
    model: SmallEncoder, cont: Float[Tensor, "batch pos d_model"], batch: MaskedBatch
) -> Float[Tensor, "guided code"]:
    """z of eq. 2 in the last block, of annotated words: what it made O of."""
    composition: Any = model.blocks[-1].composition
    if model.cfg.level == "word":
        cont = word_means(cont, same_word(batch.words, cont.dtype))
    cosines: Tensor = composition.cosines(cont.flatten(0, 1)[batch.guided])
    return cosines


def task_losses(
    model: SmallEncoder, batch: MaskedBatch, read: Sequence[Float[Tensor, "batch pos d_model"]]
) -> list[tuple[Float[Tensor, ""], Float[Tensor, ""]]]:
    """For each of several representations, the cross-entropy (nats) of masked tokens and of whether
    the second part follows; means, 0 where there is nothing to predict. All are read by the same
    heads."""
    at = torch.stack([one.flatten(0, 1)[batch.at] for one in read])  # [read masked d_model]
    # 1. All representations through the head at once, [read·masked], then a mean of each.
    losses = cross_entropy(
        model.logits(at).flatten(0, 1), batch.target.repeat(len(read)), reduction="none"
    )
    masked = losses.view(len(read), -1).mean(dim=1)  # [read]
    if not len(batch.pairs):
        return [(one, one.new_zeros(())) for one in masked]
    # 2. The same at [CLS] of the rows that have two parts: [read·pair d_model].
    cls = torch.cat([one[batch.pairs, 0] for one in read])
    labels = batch.follows[batch.pairs].repeat(len(read))
    each = cross_entropy(model.pair_head(cls), labels, reduction="none")
    following = each.view(len(read), -1).mean(dim=1)  # [read]
    return list(zip(masked, following, strict=True))


MEASURED: Final = 32
"""Passages that are measured at one time."""


@torch.no_grad()
def measured(
    objective: Pretraining, model: SmallEncoder, passages: Passages
) -> dict[str, list[dict[str, Any]]]:
    """BERT's tasks from each representation of the last block (``curve``), and what each block's
    codes are used for (``codes``), on passages that are drawn by their numbers alone; ``alike`` is
    ‖mean h_comp‖² / mean ‖h_comp‖² over words, 1 where all are composed into one vector, and
    ``revived`` how many times a code was moved in training so far."""
    outputs = model.outputs
    sums = {name: np.zeros(5) for name in outputs}
    codes: dict[int, list[Tensor]] = {}
    n_words = 0.0
    # 1. Passages of about one length together, drawn by the number of their part.
    order = np.argsort(passages.counts, kind="stable")
    n_parts = max(1, -(-len(order) // MEASURED))
    for number, indices in enumerate(into_parts(order, n_parts)):
        batch = objective.drawn(passages, indices, number).to(model.b_U.device)
        blocks = model(batch.tokens, batch.mask, batch.segments, batch.words)
        for name in outputs:
            hidden = blocks[-1].of(name)
            logits = model.logits(hidden.flatten(0, 1)[batch.at]).float()  # [masked d_vocab]
            following = model.pair_head(hidden[batch.pairs, 0])  # [pair 2]
            sums[name] += [
                float(cross_entropy(logits, batch.target, reduction="sum")),
                float((logits.argmax(dim=-1) == batch.target).sum()),
                len(batch.target),
                float((following.argmax(dim=-1) == batch.follows[batch.pairs]).sum()),
                len(batch.pairs),
            ]
        share = word_shares(batch.words).double()  # 2. sums over words, each counted once
        n_words += float(share.sum())
        for layer, block in enumerate(blocks):
            if block.weights is None or block.comp is None:
                continue
            of_words = [
                block.weights != 0,
                (block.weights == 0).all(dim=-1, keepdim=True),
                block.comp,
                block.comp.square().sum(dim=-1, keepdim=True),
            ]
            # [code], [1], [d_model], [1]
            totals = [torch.einsum("bp,bpc->c", share, x.double()).cpu() for x in of_words]
            before = codes.get(layer, [torch.zeros_like(total) for total in totals])
            codes[layer] = [a + b for a, b in zip(before, totals, strict=True)]
    # 3. Means over what there was to predict, and over words.
    curve = [
        {
            "output": name,
            "masked_loss": loss / max(n, 1),
            "masked_accuracy": right / max(n, 1),
            "n_masked": int(n),
            "next_accuracy": following / max(n_pairs, 1),
            "n_pairs": int(n_pairs),
        }
        for name, (loss, right, n, following, n_pairs) in sums.items()
    ]
    moved = {} if objective.revival is None else objective.revival.moved
    used_rows = []
    for layer, (total, without, comp, squares) in codes.items():
        shares = total / total.sum().clamp(min=1)  # [code]: each code's share of all uses
        alike = float(comp.square().sum() / (n_words * squares)) if squares else 1.0
        logs = torch.where(shares > 0, shares, 1.0).log()
        used_rows.append(
            {
                "layer": layer,
                "n_codes": len(total),
                "codes_per_word": min(float(total.sum()) / n_words, float(len(total))),
                "without_codes": min(float(without) / n_words, 1.0),
                "dead_codes": int((total == 0).sum()),
                "perplexity": float((-(shares * logs).sum()).exp()),  # exp H of these shares
                "alike": min(alike, 1.0),
                "revived": moved.get(layer, 0),
            }
        )
    return {"curve": curve, "codes": used_rows}
