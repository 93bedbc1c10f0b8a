"""The vocabulary that every room of the house shares.

Axis names, used in every ``Float[Tensor, "…"]`` annotation:

========== ============================================================
batch      examples that travel together
pos        token positions, specials and padding included
group      positions of a pooled sequence: words or phrases, one slot each
stream     examples × protocols × start layers that share a block's call
layer      transformer blocks
d_model    width of the residual stream
d_vocab    entries of the unembedding
width      d_vocab of logits, d_model of hidden states
========== ============================================================

Layer ``k`` always means the residual that *enters* block ``k``
(``blocks.k.hook_resid_pre``); layer 0 is the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public

Span = tuple[int, int]
"""Half-open character range ``[start, end)`` in an example's prompt."""

HookFn = Callable[[Tensor, Any], Tensor | None]
"""TransformerLens' hook signature: ``(activation, hook) -> replacement or None``."""

Read = Literal["logits", "last", "hidden"]
"""What a call returns: logits at every position, logits at the last position alone, or the last
hidden state: what leaves the last block, after the final norm where the model has one (Hugging
Face's ``last_hidden_state``)."""

ForwardFn = Callable[[Tensor, Tensor, Read], Tensor]
"""``(tokens, attention_mask, read) -> what read asks for``."""

CallWrapper = Callable[[ForwardFn, Tensor, Tensor, Read], Tensor]
"""``(inner, tokens, attention_mask, read) -> …``, ``inner`` being the unwrapped call."""

Prepare = Callable[[Tensor, Tensor], AbstractContextManager[Any]]
"""``(tokens, attention_mask) -> a with block`` around one call of the model."""


@runtime_checkable
class AttentionEdit(Protocol):
    """What becomes of one layer's attention scores and pattern, ``[batch head query key]``."""

    def scores(self, scores: Tensor) -> Tensor:
        """What enters the softmax, from what would have; masked pairs are lower than all others."""
        ...

    def pattern(self, pattern: Tensor) -> Tensor:
        """What weighs the values, from what the softmax gave."""
        ...


@public
@dataclass(frozen=True)
class Example:
    """One prompt and the single token that should follow it.

    ``answer`` is the exact text that follows ``prompt``, its leading space included if it has one.
    ``spans`` are character ranges of the prompt to pool (your own units); ``tree`` is a
    Penn-style bracketing whose leaves occur in the prompt in order, from which phrases are read.
    """

    prompt: str
    answer: str
    spans: tuple[Span, ...] | None = None
    tree: str | None = None


@runtime_checkable
class HookedModel(Protocol):
    """What an intervention needs of a model; implemented in :mod:`interp_compose.models`.

    Attention masks are ``[batch pos]``, 1 for real tokens; ``position_ids`` are what rotary
    embeddings read (absolute embeddings are already inside the residual).
    """

    name: str
    architecture: str
    tokenizer: Any
    n_layers: int
    n_heads: int
    d_model: int
    d_vocab: int
    n_ctx: int
    window: int | None
    length_limit: Any
    bidirectional: bool
    ends_in_norm: bool
    stated: Any
    pad_id: int | None

    @property
    def active_hooks(self) -> Sequence[str]: ...

    @property
    def unversioned_hooks(self) -> Sequence[str]: ...

    @property
    def wrappers(self) -> Sequence[CallWrapper]: ...

    @property
    def preparations(self) -> Sequence[Prepare]: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def training(self) -> bool: ...

    def __call__(
        self,
        tokens: Int[Tensor, "batch pos"],
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch _ d_vocab"]:
        """Logits at every position (of the pooled sequence, under a collapse)."""
        ...

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        read: Read = "logits",
    ) -> Float[Tensor, "batch _ width"]:
        """What ``read`` asks for; of logits, those at every position or at the last."""
        ...

    def encode(
        self,
        tokens: Int[Tensor, "batch pos"],
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch _ d_model"]:
        """The last hidden state at every position (of the pooled sequence, under a collapse)."""
        ...

    def capture(
        self,
        tokens: Int[Tensor, "batch pos"],
        names: Sequence[str],
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        grad: bool = False,
        read: Read = "logits",
    ) -> tuple[Float[Tensor, "batch _ width"], dict[str, Tensor]]:
        """What ``read`` asks for and the named activations, in one forward pass."""
        ...

    def activation_checkpointing(self) -> AbstractContextManager[None]:
        """Calls inside the ``with`` block keep less for the backward pass, and compute it again."""
        ...

    def hooks(self, fwd_hooks: Sequence[tuple[str, HookFn]]) -> AbstractContextManager[Any]:
        """Hooks that live as long as the ``with`` block and count as missing if never fired."""
        ...

    def around(self, wrapper: CallWrapper) -> AbstractContextManager[Any]:
        """Every call of the model goes through ``wrapper`` for the length of a ``with`` block."""
        ...

    def preparing(self, prepare: Prepare) -> AbstractContextManager[Any]:
        """Every call of the model runs inside ``prepare(tokens, attention_mask)``."""
        ...

    def n_neurons(self) -> int:
        """Neurons of an MLP."""
        ...

    def editing_attention(self, edits: Mapping[int, AttentionEdit]) -> AbstractContextManager[Any]:
        """Edits of these layers' attention, for the length of a ``with`` block."""
        ...

    def require(self, *capabilities: str) -> None:
        """Raise CapabilityError unless a probe of a few tokens proves each capability."""
        ...

    def resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        *,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual that enters block ``layer``; nothing above it is run."""
        ...

    def run_blocks(
        self,
        resid: Float[Tensor, "stream pos d_model"],
        start: int,
        stop: int,
        *,
        attention_mask: Int[Tensor, "stream pos"],
        position_ids: Int[Tensor, "stream pos"],
    ) -> Float[Tensor, "stream pos d_model"]:
        """Blocks ``start … stop-1`` on a residual; ``stop`` is at most ``n_layers - 1``."""
        ...

    def resume(
        self,
        resid: Float[Tensor, "stream pos d_model"],
        start: int,
        *,
        attention_mask: Int[Tensor, "stream pos"],
        position_ids: Int[Tensor, "stream pos"],
        read: Read = "last",
    ) -> Float[Tensor, "stream _ width"]:
        """Blocks ``start … n_layers-1`` and what follows them, as far as ``read`` asks."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]: ...

    def train(self, mode: bool = True) -> Any: ...

    def state_dict(self) -> Mapping[str, Tensor]: ...
