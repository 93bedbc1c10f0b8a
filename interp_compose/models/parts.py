"""Parts of the small models that are written out in this library: LayerNorm, attention, MLP.

On TransformerLens' hook points, with its names for hooks and weights, so that every intervention
acts on them as it does on a bridge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, linear, relu
from transformer_lens.hook_points import HookPoint

from interp_compose.tensors import softmax_over_keys

Act = Literal["gelu", "gelu_new", "relu"]
Biases = Literal["all", "unembed"]


@runtime_checkable
class BlockShape(Protocol):
    """What attention and MLP read of a config."""

    @property
    def d_model(self) -> int: ...
    @property
    def n_heads(self) -> int: ...
    @property
    def head_width(self) -> int: ...
    @property
    def d_mlp(self) -> int: ...
    @property
    def act(self) -> Act: ...
    @property
    def biases(self) -> Biases: ...


ACTS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "gelu": gelu,
    "gelu_new": partial(gelu, approximate="tanh"),
    "relu": relu,
}


class LayerNorm(nn.Module):
    """Layer normalisation over ``d_model``, with weight and bias."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(d_model))
        self.b = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return layer_norm(x, self.w.shape, self.w, self.b, self.eps)


Joined = tuple[Float[Tensor, "width d_model"], Float[Tensor, "width"] | None]


class Attention(nn.Module):
    """Multi-head attention, its softmax and products written out (complexity control, eqs 4, 5)."""

    def __init__(self, cfg: BlockShape) -> None:
        super().__init__()
        heads, d_model, d_head = cfg.n_heads, cfg.d_model, cfg.head_width
        self.n_heads, self.scale = heads, 1 / math.sqrt(d_head)
        self.W_Q, self.b_Q = zeros(heads, d_model, d_head), bias_of(cfg, heads, d_head)
        self.W_K, self.b_K = zeros(heads, d_model, d_head), bias_of(cfg, heads, d_head)
        self.W_V, self.b_V = zeros(heads, d_model, d_head), bias_of(cfg, heads, d_head)
        self.W_O, self.b_O = zeros(heads, d_head, d_model), bias_of(cfg, d_model)
        self.hook_in = HookPoint()
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()
        self.hook_z = HookPoint()

    def forward(
        self,
        keys: Float[Tensor, "batch pos d_model"],
        queries: Float[Tensor, "batch query d_model"] | None,
        masked: Bool[Tensor, "#batch 1 #query pos"] | None,
    ) -> Float[Tensor, "batch _ d_model"]:
        """Keys and values are projections of ``keys``, queries of ``queries`` (None: of ``keys``);
        ``masked`` pairs get the lowest score there is."""
        if queries is None:  # one product instead of three
            q, k, v = self.projected(keys, "QKV")  # eq. 4, each [batch pos head d_head]
        else:
            (q,), (k, v) = self.projected(queries, "Q"), self.projected(keys, "KV")
        return self.attended(q, k, v, masked)

    def attended(
        self,
        q: Float[Tensor, "batch query head d_head"],
        k: Float[Tensor, "batch pos head d_head"],
        v: Float[Tensor, "batch pos head d_head"],
        masked: Bool[Tensor, "#batch 1 #query pos"] | None,
    ) -> Float[Tensor, "batch query d_model"]:
        """What the heads add, from projections that are there already."""
        return self.written(self.summed(q, k, v, masked))

    def summed(
        self,
        q: Float[Tensor, "batch query head d_head"],
        k: Float[Tensor, "batch pos head d_head"],
        v: Float[Tensor, "batch pos head d_head"],
        masked: Bool[Tensor, "#batch 1 #query pos"] | None,
    ) -> Float[Tensor, "batch query head d_head"]:
        """Each head's sum of values."""
        q = self.hook_q(q).transpose(1, 2)  # [batch head query d_head]
        k = self.hook_k(k).permute(0, 2, 3, 1)  # [batch head d_head key]
        v = self.hook_v(v).transpose(1, 2)  # [batch head key d_head]
        scores = self.scores(q, k)
        if masked is not None:
            scores = scores.masked_fill(masked, torch.finfo(scores.dtype).min)
        # eq. 5; models/attention.py edits what enters and leaves this softmax
        pattern = self.hook_pattern(self.softmax(self.hook_attn_scores(scores)))
        z: Tensor = self.hook_z((pattern @ v).transpose(1, 2))  # [batch query head d_head]
        return z

    def written(
        self, z: Float[Tensor, "batch query head d_head"]
    ) -> Float[Tensor, "batch query d_model"]:
        """The heads' sums through W_O."""
        return linear(z.flatten(2), self.W_O.flatten(0, 1).mT, self.b_O)  # [batch query d_model]

    def scores(
        self, q: Float[Tensor, "batch head query d_head"], k: Float[Tensor, "batch head d_head pos"]
    ) -> Float[Tensor, "batch head query pos"]:
        """Scaled products of queries and keys; there are fewer queries to scale than scores."""
        return (q * self.scale) @ k

    def softmax(
        self, scores: Float[Tensor, "batch head query pos"]
    ) -> Float[Tensor, "batch head query pos"]:
        """The attention pattern."""
        return scores.softmax(dim=-1)

    def projected(
        self, x: Float[Tensor, "batch query d_model"], which: str, joined: Joined | None = None
    ) -> list[Float[Tensor, "batch query head d_head"]]:
        """``x`` through several matrices at once, such as ``"KV"``: through W_K and W_V; ``joined``
        is what :meth:`joined` gave for the same, where it is called often."""
        weight, bias = self.joined(which) if joined is None else joined
        parts = linear(x, weight, bias).chunk(len(which), dim=-1)  # each [batch query head·d_head]
        return [part.unflatten(-1, (self.n_heads, -1)) for part in parts]  # [… head d_head]

    def joined(self, which: str) -> Joined:
        """Weight and bias of one linear layer that does the work of several matrices."""
        weights = [getattr(self, f"W_{letter}") for letter in which]
        biases = [getattr(self, f"b_{letter}") for letter in which]
        # [head d_model d_head] -> [d_model head·d_head], one after another along the last axis
        together = torch.cat([weight.transpose(0, 1).flatten(1) for weight in weights], dim=1)
        flat = [bias.flatten() for bias in biases if bias is not None]
        return together.mT, torch.cat(flat) if flat else None  # as linear() takes them


class ShortAttention(Attention):
    """Attention over keys that are often few: sources of a dozen words."""

    def softmax(
        self, scores: Float[Tensor, "batch head query pos"]
    ) -> Float[Tensor, "batch head query pos"]:
        return softmax_over_keys(scores)


class MLP(nn.Module):
    """Two linear layers and the activation between them."""

    def __init__(self, cfg: BlockShape) -> None:
        super().__init__()
        self.act = ACTS[cfg.act]
        self.W_in, self.b_in = zeros(cfg.d_model, cfg.d_mlp), bias_of(cfg, cfg.d_mlp)
        self.W_out, self.b_out = zeros(cfg.d_mlp, cfg.d_model), bias_of(cfg, cfg.d_model)
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        post = self.hook_post(self.act(self.hook_pre(linear(x, self.W_in.mT, self.b_in))))
        return linear(post, self.W_out.mT, self.b_out)


def zeros(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


def bias_of(cfg: BlockShape, *shape: int) -> nn.Parameter | None:
    return zeros(*shape) if cfg.biases == "all" else None
