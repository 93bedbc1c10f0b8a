"""Embeddings of texts: which positions of the last hidden state are read, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.checks import check_numbers
from interp_compose.errors import InputError, NonFiniteError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import MAX_BATCH
from interp_compose.models.ready import check_ids, check_model, check_one_stack, check_prompts
from interp_compose.models.texts import called_texts
from interp_compose.progress import progress_bar
from interp_compose.tensors import pad_left
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts

Embedding = Literal["mean", "cls", "last", "model"]


@dataclass(frozen=True)
class EmbeddingReader:
    """How a text's embedding is read from hidden states ``[batch pos d_model]``.

    Attributes:
        how: ``"mean"`` over positions, ``"cls"`` (the first) or ``"last"``.
        specials: whether special tokens count. Sentence encoders are trained with them; a
            decoder's BOS attends to nothing of the text, and its norm would dominate the rest.
        normalise: whether the embedding is divided by its length, which changes no cosine.
        source: who chose, for the result's config.
    """

    how: str
    specials: bool
    normalise: bool
    source: str

    def __str__(self) -> str:
        read = {"mean": "mean over", "cls": "first of", "last": "last of"}[self.how]
        tokens = "all tokens" if self.specials else "the text's tokens"
        return f"{read} {tokens} ({self.source})"

    def __call__(
        self,
        hidden: Float[Tensor, "batch pos d_model"],
        mask: Int[Tensor, "batch pos"],
        special: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch d_model"]:
        """Embeddings in float32. ``mask`` is 1 for real positions, ``special`` for special ones."""
        counted = (mask if self.specials else mask * (1 - special)).to(hidden.device)
        if self.how == "mean":
            weights = counted.float() / counted.sum(dim=1, keepdim=True)
            # Padding may hold NaN, so it is zeroed before it is multiplied by 0.
            real = hidden.float().masked_fill(counted[:, :, None] == 0, 0.0)
            out = torch.einsum("bp,bpd->bd", weights, real)
        else:
            index = torch.arange(counted.shape[1], device=counted.device)
            outside = len(index) if self.how == "cls" else -1
            # [batch pos]: each counted position, and elsewhere a number that is never first (last)
            positions = index.expand_as(counted).masked_fill(counted == 0, outside)
            position = positions.amin(dim=1) if self.how == "cls" else positions.amax(dim=1)
            out = hidden[torch.arange(len(position), device=counted.device), position].float()
        return torch.nn.functional.normalize(out, dim=1) if self.normalise else out


def embedding_reader(model: LensModel, embedding: Embedding) -> EmbeddingReader:
    """How ``embedding`` is read on this model.

    ``"mean"``: over all tokens of an encoder ([CLS] and [SEP] included, as sentence encoders are
    trained), over the text's own tokens of a decoder. ``"cls"``: an encoder's first token.
    ``"last"``: a decoder's last token. ``"model"``: what a sentence-transformers folder states,
    specials and normalisation included; where none is stated, ``"mean"``, which the result records.

    Raises:
        OptionError: an embedding that has no meaning for this kind of model.
        CapabilityError: the folder states an embedding that is not supported; an encoder–decoder.
    """
    check_one_stack(model, "an embedding")
    kind = "encoder" if model.bidirectional else "decoder"
    if embedding == "model" and model.stated is not None:
        model.stated.check(model.name)
        return EmbeddingReader(
            model.stated.pooling, True, model.stated.normalise, "stated by the model"
        )
    if embedding == "model":
        return EmbeddingReader(
            "mean", model.bidirectional, False, "by default: the model states no embedding"
        )
    if embedding == "cls" and not model.bidirectional:
        raise OptionError(
            f'embedding="cls" reads the first token, and in {model.name!r}, a decoder, that token '
            'attends to nothing of the text; choose "mean" or "last".'
        )
    if embedding == "last" and model.bidirectional:
        raise OptionError(
            f'embedding="last" is for decoders, and {model.name!r} is an encoder; choose "mean" '
            'or "cls".'
        )
    return EmbeddingReader(embedding, model.bidirectional, False, f"chosen, {kind}")


@public
@torch.no_grad()
def embed_texts(
    model: LensModel,
    texts: Sequence[str],
    *,
    embedding: Embedding = "model",
    batch_size: int | None = None,
    progress: bool = False,
) -> Float[Tensor, "text d_model"]:
    """One vector per text, float32 on the CPU, by the clean model; texts are never truncated.

    Args:
        model: from :func:`load_model`, in evaluation mode.
        texts: at least one, none empty.
        embedding: ``"mean"``, ``"cls"``, ``"last"`` or ``"model"``: see :func:`embedding_reader`.
        batch_size: texts of like length per forward pass; 64 by default.
        progress: show a bar.

    Raises:
        InputError: no texts, an empty one, or one longer than the model's context.
        NonFiniteError: an embedding is not finite.
        OptionError, CapabilityError: see :func:`embedding_reader`.
    """
    check_model(model)
    check_numbers(0, batch_size)
    if not texts:
        raise InputError(f"texts={texts!r}: expected a list of at least one text.")
    reading = embedding_reader(model, embedding)
    model.require("hidden")
    with called_texts():
        prompts = tokenize_prompts(model.tokenizer, list(texts))
    check_first(reading, prompts, model.name)
    check_prompts(model, prompts, lambda index: f"text {index}", collapse=None)
    check_ids(model, max(int(prompt.ids.max()) for prompt in prompts))
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index].ids))
    out = torch.empty(len(prompts), model.d_model)
    batch_size = batch_size or MAX_BATCH
    starts = range(0, len(order), batch_size)
    for first in progress_bar(starts, desc="embed", unit="batch", disable=not progress):
        rows = order[first : first + batch_size]
        tokens, mask, special = pad_left(
            [prompts[row].ids for row in rows], [prompts[row].groups < 0 for row in rows]
        )
        hidden = model.encode(tokens.to(model.device), attention_mask=mask.to(model.device))
        out[rows] = reading(hidden, mask.to(model.device), special.to(model.device)).cpu()
    broken = (~out.isfinite().all(dim=1)).nonzero().flatten().tolist()
    if broken:
        raise NonFiniteError(
            f"the embedding of text {broken[0]} has NaN or infinite values ({len(broken)} of "
            f"{len(texts)} texts). Load the model in float32, and check its weights."
        )
    return out


def check_first(reading: EmbeddingReader, prompts: Sequence[TokenizedPrompt], name: str) -> None:
    """Refuse to read a [CLS] that the tokenizer does not put in front of the text."""
    if reading.how == "cls" and any(prompt.groups[0] >= 0 for prompt in prompts):
        raise OptionError(
            f"the tokenizer of {name!r} puts no special token in front of a text, so that there is "
            'no [CLS] to read; choose embedding="mean".'
        )
