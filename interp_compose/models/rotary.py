"""Rotary embeddings whose angles depend on how long the longest text of a batch is.

transformers scales some of them by that length: ``longrope`` (Phi-3) takes one set of factors up to
the original context and another above it, ``dynamic`` (NTK) new ones for every length above it,
and keeps the largest. Either takes one scale for a whole batch, so that a text's result would
depend on the other texts of its batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from interp_compose.errors import CapabilityError, PromptError

N_SHORT = 8
"""Tokens of the short text of the probe."""


@dataclass(frozen=True)
class LengthLimit:
    """Up to which length angles do not depend on the other texts of a batch.

    Attributes:
        tokens: the original context; up to it every text has the same angles in any batch.
        kind: ``"longrope"`` or ``"dynamic"``, as transformers calls them.
    """

    tokens: int
    kind: str

    def check(self, position_ids: Int[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"]) -> None:
        """Refuse a batch in which some text would get other angles than alone.

        Raises:
            PromptError: texts on both sides of the limit; with ``"dynamic"``, any text beyond it,
                since its angles depend on every text that the model has read so far.
        """
        lengths = position_ids.masked_fill(mask == 0, 0).amax(dim=1) + 1
        longest, shortest = int(lengths.max()), int(lengths.min())
        if longest <= self.tokens or (self.kind == "longrope" and shortest > self.tokens):
            return
        start = (
            f"a text of {longest} tokens is beyond {self.tokens}, the original context of this "
            f"model's rotary embedding (rope_type {self.kind!r})"
        )
        if self.kind == "longrope":
            raise PromptError(
                f"{start}, and a text of {shortest} tokens in the same batch is not: both would "
                "get the longer one's angles. Run them in batches of their own (batch_size=1)."
            )
        raise PromptError(
            f"{start}, and its angles depend on the longest text read so far; shorten it."
        )


def length_limit(module: nn.Module) -> LengthLimit | None:
    """Where the angles of a module's rotary embeddings begin to depend on the batch; None: nowhere.

    Tested by calls: a short text's angles alone, and with a text four times the original context.

    Raises:
        CapabilityError: they depend on the batch and no original context is known, or they still
            do below it.
    """
    limits = [
        limit
        for part in module.modules()
        for layer_type, kind in _kinds(part).items()
        if (limit := _limit(part, kind, layer_type)) is not None
    ]
    return min(limits, key=lambda limit: limit.tokens, default=None)


def _kinds(part: Any) -> dict[str | None, str]:
    """Kinds of rotary embedding by type of layer; none for other modules."""
    kind = vars(part).get("rope_type")
    if isinstance(kind, str):
        return {None: kind}
    return dict(kind) if isinstance(kind, dict) else {}


@torch.no_grad()
def _limit(part: Any, kind: str, layer_type: str | None) -> LengthLimit | None:
    config = part.config.get_text_config()
    settings = config.rope_parameters or {}
    settings = settings.get(layer_type, settings) if layer_type is not None else settings
    context = settings.get("original_max_position_embeddings")
    context = int(context or getattr(config, "max_position_embeddings", 0) or 0)
    scaled = kind == "longrope" or "dynamic" in kind
    # 1. With a text far beyond the original context: do the angles of a short one move?
    # 2. With one of just that length: then they may not, or there is no limit to respect.
    try:
        if not _depends(part, layer_type, 4 * max(context, N_SHORT)):
            return None
        known = scaled and not _depends(part, layer_type, max(context, N_SHORT))
    except (RuntimeError, TypeError, ValueError, IndexError):  # other positions than a text's
        known = scaled
        if not scaled:
            return None
    if not known:
        raise CapabilityError(
            f"{type(part).__name__} (rope_type {kind!r}) gives a text other angles in a batch with "
            "a longer one than alone, below its original context as well; results would depend on "
            "the batch."
        )
    return LengthLimit(context, kind if kind == "longrope" else "dynamic")


def _depends(part: Any, layer_type: str | None, longest: int) -> bool:
    device = next((buffer.device for buffer in part.buffers()), torch.device("cpu"))
    short = torch.arange(N_SHORT, device=device)[None]
    # [2 pos]: positions 0 … 7, and the last eight of `longest`
    both = torch.cat([short, short + longest - N_SHORT])
    # Read for their dtype and device alone.
    values = torch.zeros((2, N_SHORT, 1), device=device)
    extra = {} if layer_type is None else {"layer_type": layer_type}

    def angles_of_first(positions: Tensor) -> list[Tensor]:
        angles = part(values[: len(positions)], positions, **extra)
        # Row 0 is the short text: [pos d_rotary] of cosines, and of sines.
        return [one[0] for one in ((angles,) if isinstance(angles, Tensor) else angles)]

    alone = angles_of_first(short)
    together = angles_of_first(both)
    angles_of_first(short)  # where the module keeps its scale: back to the original one
    return not all(map(torch.equal, alone, together))
