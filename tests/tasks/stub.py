"""A model that has nothing but a tokenizer and an architecture, which is all a task reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class StubModel:
    """Satisfies the ``HookedModel`` protocol; every computation is refused."""

    tokenizer: Any
    architecture: str = "GPT2LMHeadModel"
    name: str = "stub"
    n_layers: int = 2
    n_heads: int = 1
    d_model: int = 3
    d_vocab: int = 5
    n_ctx: int = 64
    device: torch.device = torch.device("cpu")
    dtype: torch.dtype = torch.float32
    training: bool = False

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a task must not run the model")

    __call__ = capture = hooks = run_blocks = resume = parameters = state_dict = _refuse
