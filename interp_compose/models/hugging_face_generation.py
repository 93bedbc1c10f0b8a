"""A function from tokens to logits, as a model that Hugging Face's ``generate`` can call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from interp_compose.errors import CapabilityError


class ModelAsFunction(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """Each call gives the logits that follow all tokens so far; nothing is cached.

    Args:
        last_logits: from the tokens after the prompt, ``[row new]``, to ``[row 1 d_vocab]``.
        n_given: tokens of the prompt, which the function knows.
        d_vocab: of the logits.
    """

    config_class = PretrainedConfig
    main_input_name = "input_ids"
    _is_stateful = False

    def __init__(
        self,
        last_logits: Callable[[Tensor], Tensor],
        n_given: int,
        *,
        d_vocab: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(PretrainedConfig(vocab_size=d_vocab, is_encoder_decoder=False))
        self._last_logits, self._n_given = last_logits, n_given
        self._device, self._dtype = device, dtype
        self._given: Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    @property
    def was_called(self) -> bool:
        """Whether the generation has begun: its options were taken."""
        return self._given is not None

    def prepare_inputs_for_generation(
        self, input_ids: Int[Tensor, "row grown"], attention_mask: Any = None, **rest: Any
    ) -> dict[str, Any]:
        """Every call is given all tokens so far."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def forward(
        self, input_ids: Int[Tensor, "row grown"], attention_mask: Any = None, **rest: Any
    ) -> CausalLMOutput:
        """The logits of what follows, which ``last_logits`` computes."""
        given = input_ids[:, : self._n_given]
        if self._given is None:
            self._given = given
        if not torch.equal(given, self._given):
            raise CapabilityError(
                "this way of generating calls the model on other prompts than those given, which "
                "no intervention would act on; generate greedily, by sampling or with beams."
            )
        return CausalLMOutput(logits=self._last_logits(input_ids[:, self._n_given :]))
