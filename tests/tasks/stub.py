"""A model that has nothing but a tokenizer and an architecture, which is all a task reads."""

from __future__ import annotations

from typing import Any


class StubModel:
    """What ``load_task`` reads of a model."""

    def __init__(self, tokenizer: Any, architecture: str = "GPT2LMHeadModel") -> None:
        self.tokenizer = tokenizer
        self.architecture = architecture
        self.name = "stub"
