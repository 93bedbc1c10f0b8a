"""CAT's two modules (Huang et al. 2024): a word as a sparse sum of codes, and its way back.

*Multi-primitive composition* (section 3.1) decomposes a contextual vector into codes of a codebook
and composes them again; *representation enhancement* (section 3.2) lets the composed and the
contextual vectors of a sentence attend to each other.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu, linear, normalize, relu
from transformer_lens.hook_points import HookPoint

from interp_compose.models.parts import Attention

CodeNorm = Literal["rms", "unit", "none"]
EPSILON: Final = 1e-12
"""ε of RMSNorm: a row without any code stays 0; a mean square of one code is above 1e-6."""


class Composition(nn.Module):
    """Weights over a codebook, and the sum of codes that they give (CAT, eq. 2).

    O = RMSNorm(ReLU(cos(h W_Q, e W_K))) and h_comp = O (e W_V), with e the codebook. The text
    leaves open what RMSNorm's gain does. Here it has none: a learned gain could shrink the weights,
    and with them both terms of eq. 4, without dropping a code. Without it a row's weights have the
    root mean square 1, and their L1 norm is small only where few codes are used; their scale is for
    W_V to learn. A vector that is like no code has no weights, and is composed as 0.

    The norm of a row's weights is √n_codes then, and a step of the codebook moves the sums of all
    rows as many times as far as one of its codes. With ``norm="unit"`` codes are summed with
    O / √n_codes, of the norm 1: the same functions, of a W_V that is as many times as large. With
    ``norm="none"``, a control that the paper does not have, O is ReLU(cos(h W_Q, e W_K)) itself.
    """

    def __init__(self, d_model: int, n_codes: int, norm: CodeNorm = "rms") -> None:
        super().__init__()
        self.is_normed = norm != "none"
        self.scale = n_codes**-0.5 if norm == "unit" else 1.0
        self.codebook = nn.Parameter(torch.zeros(n_codes, d_model))
        self.W_Q = nn.Parameter(torch.zeros(d_model, d_model))
        self.W_K = nn.Parameter(torch.zeros(d_model, d_model))
        self.W_V = nn.Parameter(torch.zeros(d_model, d_model))
        self.hook_cosines, self.hook_codes = HookPoint(), HookPoint()

    def forward(
        self, h: Float[Tensor, "batch pos d_model"]
    ) -> tuple[Float[Tensor, "batch pos code"], Float[Tensor, "batch pos d_model"]]:
        """O, and h_comp."""
        cosines = self.hook_cosines(self.cosines(h))  # [batch pos code]
        weights = self.hook_codes(code_weights(cosines) if self.is_normed else relu(cosines))  # O
        return weights, weights @ (self.scale * linear(self.codebook, self.W_V.mT))  # eq. 2

    def cosines(self, h: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch code"]:
        """cos(h W_Q, e W_K) of each vector and each code e."""
        queries = normalize(linear(h, self.W_Q.mT), dim=-1)  # [... d_model], of length 1
        keys = normalize(linear(self.codebook, self.W_K.mT), dim=-1)  # [code d_model], of length 1
        return linear(queries, keys)


class DenseComposition(nn.Module):
    """A control for :class:`Composition`: about as many parameters, in an MLP; no codes."""

    def __init__(self, d_model: int, n_codes: int) -> None:
        super().__init__()
        width = (3 * d_model + n_codes) // 2
        self.W_in = nn.Parameter(torch.zeros(d_model, width))
        self.W_out = nn.Parameter(torch.zeros(width, d_model))
        self.hook_post = HookPoint()

    def forward(
        self, h: Float[Tensor, "batch pos d_model"]
    ) -> tuple[None, Float[Tensor, "batch pos d_model"]]:
        """No weights, and what replaces h_comp."""
        post = self.hook_post(gelu(linear(h, self.W_in.mT)))
        return None, linear(post, self.W_out.mT)


class MixAttention(Attention):
    """Self-attention over the composed vectors of a sentence and, after them, its contextual ones;
    what it gives is the mean of the two halves (CAT, eq. 3), taken before W_O, which is the same.
    """

    def attended(
        self,
        q: Float[Tensor, "batch query head d_head"],
        k: Float[Tensor, "batch pos head d_head"],
        v: Float[Tensor, "batch pos head d_head"],
        masked: Bool[Tensor, "#batch 1 #query pos"] | None,
    ) -> Float[Tensor, "batch half d_model"]:
        # each [batch pos head d_head]
        composed, contextual = self.summed(q, k, v, masked).chunk(2, dim=1)
        return self.written((composed + contextual) / 2)

    def mixed(
        self,
        comp: Float[Tensor, "batch pos d_model"],
        cont: Float[Tensor, "batch pos d_model"],
        masked: Bool[Tensor, "#batch 1 1 pos"] | None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The mean over both halves; no query attends to ``masked`` keys, in either half."""
        halves = self.hook_in(torch.cat([comp, cont], dim=1))  # [batch 2·pos d_model]
        masked_halves = None if masked is None else masked.repeat(1, 1, 1, 2)  # [batch 1 1 2·pos]
        out: Tensor = self(halves, None, masked_halves)
        return out


def code_weights(cosines: Float[Tensor, "*batch code"]) -> Float[Tensor, "*batch code"]:
    """RMSNorm(ReLU(x)) (CAT, eq. 2), that is ReLU(x) / √mean(ReLU(x)²), without a gain; a row
    without anything above 0 is one of zeros, with the gradient 0."""
    weights: Tensor = _CodeWeights.apply(cosines)
    return weights


class _CodeWeights(torch.autograd.Function):
    """Its own gradient, s (G − O mean(G O)) where O > 0, with G that of O and s the factor that
    RMSNorm multiplies by: one tensor of the size of the weights is kept, and it is gone through a
    third as often as by autograd's."""

    @staticmethod
    def forward(ctx: Any, cosines: Tensor) -> Tensor:
        exact = relu(cosines.to(torch.promote_types(cosines.dtype, torch.float32)))
        norm = torch.linalg.vector_norm(exact, dim=-1, keepdim=True)  # [... 1]
        scale = torch.rsqrt(norm.square() / exact.shape[-1] + EPSILON)  # s = 1 / √mean(ReLU(x)²)
        # in place: relu() made it, and nothing else reads it
        weights = exact.mul_(scale).to(cosines.dtype)
        ctx.save_for_backward(weights, scale)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        weights, scale = ctx.saved_tensors
        exact, out = weights.to(scale.dtype), grad.to(scale.dtype)
        along = torch.linalg.vecdot(out, exact).unsqueeze(-1) / exact.shape[-1]  # mean(G O)
        # relu's own; torch.where takes eight times as long on a CPU
        of_relu: Tensor = torch.ops.aten.threshold_backward(out, exact, 0)
        # s (G − O mean(G O)); where O is 0, so are both terms.
        return of_relu.addcmul_(exact, along, value=-1).mul_(scale).to(weights.dtype)


def same_word(
    words: Int[Tensor, "batch pos"], dtype: torch.dtype
) -> Float[Tensor, "batch pos pos"]:
    """What takes the mean over the word of each position: one over the word's tokens at each of
    them, 0 elsewhere.

    ``words`` numbers the words of a row, not all of which need be there; -1 where there is none,
    whose row is 0.
    """
    same = (words[:, :, None] == words[:, None, :]) & (words >= 0)[:, None, :]  # [batch pos pos]
    return (same / same.sum(dim=2, keepdim=True).clamp(min=1)).to(dtype)


def word_means(
    x: Float[Tensor, "batch pos d_model"], same: Float[Tensor, "batch pos pos"]
) -> Float[Tensor, "batch pos d_model"]:
    """At each position the mean over the positions of its word (CAT, footnote 2), by
    :func:`same_word`; what is where there is no word is not read."""
    valid = same.diagonal(dim1=1, dim2=2) > 0  # [batch pos]: a token is in its own word
    return same @ x.masked_fill(~valid[..., None], 0)  # masked, since 0 · NaN is NaN
