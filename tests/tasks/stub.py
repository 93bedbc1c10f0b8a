"""A model that has nothing but a tokenizer and an architecture, which is all a task reads."""

from __future__ import annotations

from typing import Any

from interp_compose.types import HookedModel


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("a task must not run the model")


class StubModel:
    """Satisfies the ``HookedModel`` protocol, whatever it asks for; computing is refused."""

    def __init__(self, tokenizer: Any, architecture: str = "GPT2LMHeadModel") -> None:
        self.tokenizer = tokenizer
        self.architecture = architecture
        self.name = "stub"


for _member in {*HookedModel.__annotations__, *vars(HookedModel)}:
    if _member == "__call__" or not _member.startswith("_"):
        setattr(StubModel, _member, _refuse)
