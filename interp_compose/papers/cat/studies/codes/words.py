"""Words in texts of tokens, and the codes and the contextual vectors of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from interp_compose.errors import NonFiniteError
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.text.wordpiece import CONTINUES, WordPieceTokenizer, continuing

BATCH: Final = 32
"""Texts that are read at one time."""
Spelling = tuple[int, ...]
"""The tokens of a word."""
OfBlock = tuple[Float[Tensor, "word code"], Float[Tensor, "word d_model"]]
"""O (CAT, eq. 2) and h_cont of some words, float64 on the CPU."""


@dataclass(frozen=True, eq=False)
class WordPlaces:
    """Texts, each ``[CLS] … [SEP]``, and where their words are.

    ``row`` is the text of each word, ``number`` its place among the text's words, of which
    ``[CLS]`` is the first, ``spelling`` its number among ``spellings``, which are all that occur.
    Words that the vocabulary does not have are left out.
    """

    texts: Sequence[Sequence[int]]
    row: Int[np.ndarray, "word"]
    number: Int[np.ndarray, "word"]
    spelling: Int[np.ndarray, "word"]
    spellings: Sequence[Spelling]

    @classmethod
    def of(
        cls, texts: Sequence[Sequence[int]], tokenizer: WordPieceTokenizer, n_ctx: int
    ) -> WordPlaces:
        """Of texts without special tokens. One that does not fit loses its end, and with it the
        last word, of which a part may be left."""
        goes_on, special = continuing(tokenizer), {*tokenizer.all_special_ids}
        framed: list[list[int]] = []
        known: dict[Spelling, int] = {}
        places: list[tuple[int, int, int]] = []
        for row, text in enumerate(texts):
            ids = list(text[: n_ctx - 2])
            framed.append([tokenizer.cls_token_id, *ids, tokenizer.sep_token_id])
            starts = [i for i, one in enumerate(ids) if not goes_on[one]]
            ends = [*starts[1:], len(ids)]
            words = [tuple(ids[start:end]) for start, end in zip(starts, ends, strict=True)]
            if len(ids) == n_ctx - 2:
                words = words[:-1]
            # tokens that go on with [CLS] belong to it
            for number, word in enumerate(words, start=1):
                if not special & {*word}:
                    places.append((row, number, known.setdefault(word, len(known))))
        at = np.array(places, dtype=np.int64).reshape(-1, 3)
        return cls(framed, at[:, 0], at[:, 1], at[:, 2], list(known))

    @property
    def counts(self) -> Int[np.ndarray, "spelling"]:
        """How often each spelling occurs."""
        return np.bincount(self.spelling, minlength=len(self.spellings))

    def named(self, tokenizer: WordPieceTokenizer) -> list[str]:
        """Each spelling as text."""
        pieces = (tokenizer.convert_ids_to_tokens(list(one)) for one in self.spellings)
        return ["".join(one.removeprefix(CONTINUES) for one in tokens) for tokens in pieces]


def composing_blocks(model: SmallEncoderModel) -> list[int]:
    """Those that have codes."""
    return [layer for layer in range(model.n_layers) if model.lens.cfg.composes(layer)]


def read_words(
    model: SmallEncoderModel, words: WordPlaces, chosen: Bool[np.ndarray, "word"]
) -> Iterator[tuple[Int[np.ndarray, "some"], dict[int, OfBlock]]]:
    """The chosen words, some at a time, and their vectors in each block that has codes.

    A word of several tokens has the mean of their vectors (CAT, footnote 2); where words are
    decomposed, O is the same at all of them.

    Raises:
        NonFiniteError: a vector has NaN or infinite values.
    """
    indices = np.flatnonzero(chosen)
    of_row = np.split(indices, np.searchsorted(words.row[indices], range(1, len(words.texts))))
    rows = [row for row, places in enumerate(of_row) if len(places)]
    rows.sort(key=lambda row: len(words.texts[row]))
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        index = np.concatenate([of_row[row] for row in batch])
        at = np.repeat(np.arange(len(batch)), [len(of_row[row]) for row in batch])
        blocks = _of_texts(model, [words.texts[row] for row in batch], at, words.number[index])
        for layer, vectors in blocks.items():
            if not all(bool(torch.isfinite(one).all()) for one in vectors):
                raise NonFiniteError(
                    f"{model.name!r}: codes or contextual vectors of block {layer} have NaN or "
                    "infinite values; train it again with a lower learning rate"
                )
        yield index, blocks


@torch.no_grad()
def _of_texts(
    model: SmallEncoderModel,
    texts: Sequence[Sequence[int]],
    text: Int[np.ndarray, "word"],
    number: Int[np.ndarray, "word"],
) -> dict[int, OfBlock]:
    """Vectors of some words of some texts, by their places there."""
    ids = [torch.tensor(one) for one in texts]
    pad = float(model.tokenizer.pad_token_id)
    tokens = pad_sequence(ids, batch_first=True, padding_value=pad).to(model.device)
    mask = pad_sequence([torch.ones_like(one) for one in ids], batch_first=True).to(model.device)
    numbers = model.lens.words_of(tokens, mask)
    n, width = numbers.shape
    starts = torch.arange(n, device=numbers.device)[:, None] * width
    real = mask > 0
    of_token = (starts + numbers)[real]
    places = torch.from_numpy(text * width + number).to(model.device)
    return {
        layer: (
            _means(one.weights[real], of_token, n * width)[places].double().cpu(),
            _means(one.cont[real], of_token, n * width)[places].double().cpu(),
        )
        for layer, one in enumerate(model.lens(tokens, mask))
        if one.weights is not None
    }


def _means(
    values: Float[Tensor, "token x"], word: Int[Tensor, "token"], n: int
) -> Float[Tensor, "n x"]:
    """The mean over the tokens of each word; 0 where there is none."""
    sums = values.new_zeros((n, values.shape[1])).index_add_(0, word, values)
    counts = torch.bincount(word, minlength=n).clamp(min=1)
    return sums / counts[:, None]


def mean_codes(
    model: SmallEncoderModel, words: WordPlaces, counted: Int[np.ndarray, "spelling"]
) -> dict[int, Float[Tensor, "spelling code"]]:
    """The mean of O over all occurrences of some spellings, in each block that has codes."""
    place = np.full(len(words.spellings), -1)
    place[counted] = np.arange(len(counted))
    sums: dict[int, Tensor] = {}
    for index, blocks in read_words(model, words, place[words.spelling] >= 0):
        at = torch.from_numpy(place[words.spelling[index]])
        for layer, (codes, _) in blocks.items():
            if layer not in sums:
                sums[layer] = codes.new_zeros((len(counted), codes.shape[1]))
            sums[layer].index_add_(0, at, codes)
    n = torch.from_numpy(words.counts[counted])
    return {layer: one / n[:, None] for layer, one in sums.items()}


def vectors_of(
    model: SmallEncoderModel, words: WordPlaces, chosen: Int[np.ndarray, "chosen"]
) -> dict[int, OfBlock]:
    """O and h_cont of chosen words, in their order, in each block that has codes."""
    is_chosen = np.zeros(len(words.row), dtype=bool)
    is_chosen[chosen] = True
    parts = list(read_words(model, words, is_chosen))
    order = np.argsort(np.concatenate([index for index, _ in parts]))
    at = torch.from_numpy(order[np.searchsorted(np.flatnonzero(is_chosen), chosen)])
    blocks: dict[int, OfBlock] = {}
    for layer in composing_blocks(model):
        codes, cont = (torch.cat([part[layer][i] for _, part in parts]) for i in (0, 1))
        blocks[layer] = codes[at], cont[at]
    return blocks


def directions(vectors: Float[Tensor, "word x"]) -> Float[Tensor, "word x"]:
    """Each vector over its length; one that is all 0, as of a word without codes, stays so, and its
    cosine with any other is 0."""
    lengths = vectors.norm(dim=-1, keepdim=True)
    return vectors / torch.where(lengths > 0, lengths, torch.ones_like(lengths))
