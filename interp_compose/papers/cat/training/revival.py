"""Codes that no word has had for long, moved to words that there are.

CAT (Huang et al. 2024) does not say what becomes of such codes. In vector quantisation they are
restarted at random: a code that is hardly used becomes one of the encoder's vectors in the present
batch (Dhariwal et al. 2020, Jukebox, section 3; Zeghidour et al. 2021, SoundStream, section III-C).
Here a code e is compared with a word h by cos(h W_Q, e W_K) (CAT, eq. 2), so it becomes
e = c (q W_K^T) / ‖q W_K^T‖ with q = h W_Q / ‖h W_Q‖: of all codes of one length, that whose key has
the largest product with the word's query, and so one that this word has. (The code whose key is q
itself would take the inverse of W_K, whose smallest singular values would decide all of it.) The
length c is the mean of the codebook's other codes, so that their e W_V are alike in scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from interp_compose.papers.cat.models.bert import BlockOutput, SmallEncoder
from interp_compose.papers.cat.models.composition import Composition, same_word, word_means
from interp_compose.papers.cat.training.sentences import MaskedBatch
from interp_compose.runs.checkpoint import Checkpoint
from interp_compose.training.loop import Trainer
from interp_compose.training.objectives import Row

MOMENTS: Final = ("exp_avg", "exp_avg_sq")


class Revival:
    """How long ago a word had each code of the codebooks that are trained, and what a step's words
    are.

    Attributes:
        after: steps without any word, after which a code is moved.
        books: the codebooks' modules, by block.
        idle: of each code, steps since a word last had it, or since it was moved.
        moved: of each block, how many times a code was moved.
    """

    def __init__(self, model: SmallEncoder, after: int) -> None:
        self.after, self.level = after, model.cfg.level
        self.books: dict[int, Composition] = {}
        block: Any
        for layer, block in enumerate(model.blocks):
            composes = block.composes and isinstance(block.composition, Composition)
            if composes and block.composition.codebook.requires_grad:
                self.books[layer] = block.composition
        self.idle = {
            layer: torch.zeros(len(book.codebook), dtype=torch.int64)
            for layer, book in self.books.items()
        }
        self.moved = dict.fromkeys(self.books, 0)
        self.begin()

    def begin(self) -> None:
        """A step comes: nothing of it has been seen."""
        self._used = {layer: torch.zeros_like(idle).bool() for layer, idle in self.idle.items()}
        self._first: tuple[dict[int, Tensor], MaskedBatch] | None = None

    @torch.no_grad()
    def see(self, outputs: Sequence[BlockOutput], batch: MaskedBatch) -> None:
        """What the model gave for a part of the step's batch."""
        real = (batch.words >= 0).flatten()
        for layer in self.books:
            weights = outputs[layer].weights
            assert weights is not None
            self._used[layer] |= (weights.flatten(0, 1)[real] != 0).any(dim=0).cpu()  # [code]
        if self._first is None:
            self._first = {layer: outputs[layer].cont.detach() for layer in self.books}, batch

    @torch.no_grad()
    def end(self, trainer: Trainer[Any], seed: int) -> None:
        """Move the codes that no word of the last steps had, of any process; their moments of AdamW
        become 0.

        Words are those of the first part of the batch, each for one code at most, in an order that
        depends on ``seed``, the step and the block alone; codes for which there is none wait. A
        sememe's code goes to words that are annotated with it, and to no others, since guided
        decomposition (eq. 4) would push it off again.
        """
        processes = trainer.processes
        # 1. Codes that some process' words had.
        used = {
            layer: counts.float().to(self.books[layer].codebook.device)
            for layer, counts in self._used.items()
        }
        processes.sum_(list(used.values()))
        for layer, book in self.books.items():
            # 2. Steps without any word.
            idle = torch.where(used[layer].cpu() > 0, 0, self.idle[layer] + 1)
            dead = (idle >= self.after).nonzero()[:, 0]
            self.idle[layer] = idle
            if not len(dead):
                continue
            # 3. The main process makes the new codes; the others add zeros.
            rows = torch.zeros_like(book.codebook[: len(dead)])
            if processes.is_main and self._first is not None:
                random = np.random.default_rng([seed, trainer.step, layer])
                words, allowed = self._words(layer)
                rows = restarted(book, dead, words, allowed, random)
            processes.sum_([rows])
            # 4. Codes for which there was a word are moved, with their moments at 0.
            has_word = (rows != 0).any(dim=1).cpu()
            codes = dead[has_word]
            book.codebook[codes] = rows[has_word]
            moments = trainer.optimizer.state[book.codebook]
            for name in MOMENTS:
                if name in moments:  # there are none before the first gradient
                    moments[name][codes] = 0
            idle[codes] = 0
            self.moved[layer] += len(codes)

    def _words(
        self, layer: int
    ) -> tuple[Float[Tensor, "word d_model"], Bool[Tensor, "word code"] | None]:
        """What a block decomposed of the first part: its words, in their order; and which of its
        codes may become which of them (None: all)."""
        assert self._first is not None
        conts, batch = self._first
        cont, words = conts[layer], batch.words
        first = words >= 0
        if self.level == "word":
            # a word's first token counts for it
            first &= words != pad(words[:, :-1], (1, 0), value=-1)
            cont = word_means(cont, same_word(words, cont.dtype))
        vectors = cont[first]  # [word d_model], row by row
        n_sememes = batch.sememes.shape[1]
        if not n_sememes or layer != max(self.books):
            return vectors, None
        allowed = vectors.new_ones((len(vectors), len(self.idle[layer])), dtype=torch.bool)
        allowed[:, :n_sememes] = False  # first no word, then each one's own sememes
        places = first.flatten().nonzero()[:, 0]  # [word], ascending
        allowed[torch.searchsorted(places, batch.guided), :n_sememes] = batch.sememes
        return vectors, allowed


def restarted(
    book: Composition,
    dead: Int[Tensor, "dead"],
    words: Float[Tensor, "word d_model"],
    allowed: Bool[Tensor, "word code"] | None,
    random: np.random.Generator,
) -> Float[Tensor, "dead d_model"]:
    """What codes become, of words in a random order; 0 where no word is left for a code.

    Args:
        book: with the codebook, W_Q and W_K.
        dead: numbers of the codes, ascending.
        words: what was decomposed.
        allowed: which codes may become which words; None: all.
        random: draws the order.
    """
    # 1. For each code a word of its own, in a random order; -1 where none is left.
    order, chosen = random.permutation(len(words)), np.full(len(dead), -1)
    if allowed is None:
        n = min(len(dead), len(words))
        chosen[:n] = order[:n]
    else:
        # [word dead], in that order
        fits = allowed[:, dead.to(allowed.device)].cpu().numpy()[order]
        free = np.full(len(order), True)
        for place in np.flatnonzero(fits.any(axis=0)):
            candidates = np.flatnonzero(fits[:, place] & free)
            if len(candidates):
                chosen[place] = order[candidates[0]]
                free[candidates[0]] = False
    has_word = torch.from_numpy(chosen >= 0)
    # 2. c: the mean length of the codes that stay.
    e = book.codebook
    lengths = e.norm(dim=1)
    stays = torch.ones_like(lengths, dtype=torch.bool)
    stays[dead] = False
    length = lengths[stays].mean() if bool(stays.any()) else lengths.mean()
    # 3. q = h W_Q / ‖h W_Q‖, e = c q W_Kᵀ / ‖q W_Kᵀ‖.
    queries = normalize(words[torch.from_numpy(chosen[chosen >= 0])].to(e.dtype) @ book.W_Q, dim=-1)
    rows = torch.zeros_like(e[: len(dead)])
    rows[has_word] = length * normalize(queries @ book.W_K.mT, dim=-1)
    return rows


class RevivingTrainer(Trainer[Any]):
    """A :class:`.Trainer` of an objective with a :class:`Revival`, after each of its steps; a run
    that is stopped goes on as if it had not been."""

    @property
    def revival(self) -> Revival:
        """The objective's :class:`Revival`."""
        revival: Revival = self.objective.revival  # type: ignore[attr-defined]
        return revival

    def train_step(self) -> Row:
        self.revival.begin()
        row = super().train_step()
        self.revival.end(self, self.config.seed)
        return row

    def state_dict(self) -> dict[str, Tensor]:
        idle = {f"idle.{layer}": steps for layer, steps in self.revival.idle.items()}
        return super().state_dict() | idle

    def note(self) -> dict[str, Any]:
        moved = {str(layer): n for layer, n in self.revival.moved.items()}
        return {**super().note(), "moved": moved}

    def restore(self, checkpoint: Checkpoint) -> None:
        super().restore(checkpoint)
        revival = self.revival
        revival.idle = {layer: checkpoint.tensors[f"idle.{layer}"] for layer in revival.books}
        revival.moved = {int(layer): n for layer, n in checkpoint.note["moved"].items()}
