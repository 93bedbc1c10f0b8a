"""Which hooks fired, and which edits have to be believed."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from interp_compose._types import HookFn

RELIES_ON = {"attn.hook_pattern": "edit_pattern", "attn.hook_attn_scores": "edit_scores"}


class HookLog:
    """Watches hook functions from inside the calls that TransformerLens makes of them."""

    def __init__(self) -> None:
        self._fired: dict[str, bool] = {}
        self._edited: set[str] = set()

    def watching(self, fn: HookFn, name: str) -> HookFn:
        """``fn``, with a note of whether it ran and whether it returned another tensor."""
        self._fired.setdefault(name, False)

        def hook_fn(activation: Tensor, hook: Any) -> Tensor | None:
            self._fired[name] = True
            result = fn(activation, hook)
            if result is not None and result is not activation:
                self._edited.add(name)
            return result

        return hook_fn

    @property
    def silent(self) -> list[str]:
        """Hook points that were never reached."""
        return [name for name, fired in self._fired.items() if not fired]

    @property
    def relied_on(self) -> list[str]:
        """Capabilities that the edits made so far rely on."""
        return sorted(
            {
                capability
                for ending, capability in RELIES_ON.items()
                for name in self._edited
                if name.endswith(ending)
            }
        )
