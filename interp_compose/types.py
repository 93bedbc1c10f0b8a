"""Types and axis names that all modules share.

Axis names, used in every ``Float[Tensor, "…"]`` annotation:

========== ============================================================
batch      examples of one call
pos        token positions, specials and padding included
group      positions of a pooled sequence, one for each word or phrase
stream     examples × poolings × start layers in one call of a block
layer      transformer blocks
d_model    width of the residual stream
d_vocab    entries of the unembedding
width      d_vocab of logits, d_model of hidden states
========== ============================================================

Layer ``k`` always means the residual that *enters* block ``k``
(``blocks.k.hook_resid_pre``); layer 0 is the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from interp_compose._public import public

Span = tuple[int, int]
"""Half-open character range ``[start, end)`` in an example's prompt."""

Inputs = Int[Tensor, "batch pos"] | str | Sequence[str]
"""Token ids, or texts."""

HookFn = Callable[[Tensor, Any], Tensor | None]
"""TransformerLens' hook signature: ``(activation, hook) -> replacement or None``."""

Read = Literal["logits", "last", "hidden"] | int
"""What a call returns: logits at every position, at the last one alone or at so many last ones as a
number says; or the last hidden state: what leaves the last block, after the final norm where the
model has one (Hugging Face's ``last_hidden_state``)."""


def last_positions(read: Read, length: int) -> int:
    """How many of ``length`` positions, the last ones, have the logits that ``read`` names."""
    if isinstance(read, int):
        return read
    return 1 if read == "last" else length


Side = Literal["source", "target", "twice"] | None
"""One of the two sequences of an encoder–decoder; None where there is one sequence. ``"twice"``:
the sequence, and after it the same again, as CAT's representation enhancement has composed and
contextual vectors."""

ForwardFn = Callable[[Tensor, Tensor, Read], Tensor]
"""``(tokens, attention_mask, read) -> the output that read names``."""

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
    """One prompt and the answer that should follow it.

    ``answer`` is the exact text that follows ``prompt``, its leading space included if it has one:
    one token or, where a study is asked for them, several.
    ``spans`` are character ranges of the prompt to pool (your own units); ``tree`` is a
    Penn-style bracketing whose leaves occur in the prompt in order, from which phrases are read.
    ``target`` is for encoder–decoders alone, whose source the prompt is: the text with which the
    target begins, which ``answer`` follows. ``foil`` is a wrong alternative, exact text as
    ``answer`` is, which studies choose against it where they are asked to (``answers="foil"``).
    ``where`` is the line of the file that it was read from, for messages; examples that differ in
    it alone are equal.
    """

    prompt: str
    answer: str
    spans: tuple[Span, ...] | None = None
    tree: str | None = None
    target: str = ""
    where: str = field(default="", compare=False, repr=False)
    foil: str = ""
