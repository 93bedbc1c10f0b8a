"""How alike the tokens of a word are, and those of different words, by layer."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.tensors import cosines, full_precision, stack_layers, word_pairs


class CosineSums(NamedTuple):
    """Sums of cosines by layer and numbers of ordered pairs; add them up over batches."""

    same: Float[Tensor, "layer"]
    different: Float[Tensor, "layer"]
    same_pairs: Int[Tensor, ""]
    different_pairs: Int[Tensor, ""]


def word_cosines(
    resid: Float[Tensor, "layer batch pos d_model"], word_ids: Int[Tensor, "batch pos"]
) -> tuple[Float[Tensor, "layer"], Float[Tensor, "layer"]]:
    """Mean cosine over ordered pairs of distinct tokens of one word, and of two words of a text.

    ``word_ids`` as for :func:`.losses.mutual_information_loss`: tokens of one
    occurrence of a word share an id, -1 is in no pair. NaN where there is no pair. A zero vector
    has the cosine 0 with every other.

    Raises:
        LayerError: no layers.
        InputError: shapes that disagree.
    """
    sums = word_cosine_sums(resid, word_ids)
    return sums.same / sums.same_pairs, sums.different / sums.different_pairs


def word_cosine_sums(
    resid: Float[Tensor, "layer batch pos d_model"], word_ids: Int[Tensor, "batch pos"]
) -> CosineSums:
    """What :func:`word_cosines` divides, for a mean over several batches.

    Raises:
        LayerError: no layers.
        InputError: shapes that disagree.
    """
    layers = stack_layers(resid, word_ids, at_least=1)
    same, different = word_pairs(word_ids)
    with full_precision(layers):
        cosine = cosines(layers, word_ids >= 0)  # [layer batch pos pos]
    return CosineSums(
        same=(cosine * same).sum(dim=(1, 2, 3)),  # [layer]; same is [batch pos pos]
        different=(cosine * different).sum(dim=(1, 2, 3)),
        same_pairs=same.sum(),
        different_pairs=different.sum(),
    )
