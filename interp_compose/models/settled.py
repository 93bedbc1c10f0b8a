"""What TransformerLens leaves behind in a bridge, mended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

LEFT = ("_pattern", "_captured_pre_ln_residual")
"""What an attention of TransformerLens holds on to when its call has ended, and never reads."""


def settled(bridge: nn.Module) -> None:
    """Mend what TransformerLens leaves behind in a bridge, once and for its copies too.

    Attention keeps :data:`LEFT` of its last call, and with it that call's whole graph. And in a
    bridge that :func:`copy.deepcopy` made, hooks refer weakly to modules of the original: they
    would write there, and raise once it is gone.
    """
    parts: Iterable[Any] = bridge.modules()
    for part in parts:
        if hasattr(part, "_teardown_capture_hooks"):
            part._teardown_capture_hooks()
            part._maybe_wire_capture_hooks()
        if vars(part).keys() & set(LEFT) and _forget not in part._forward_hooks.values():
            part.register_forward_hook(_forget)


def _forget(attention: Any, args: Any, output: Any) -> None:
    vars(attention).update(dict.fromkeys(vars(attention).keys() & set(LEFT)))
