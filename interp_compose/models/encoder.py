"""Encoders: BERT and RoBERTa behind the same surface as decoders.

TransformerLens' bridge wraps their masked-LM classes and ignores ``start_at_layer`` and
``stop_at_layer`` on them silently. So everything here but the logits is computed by calling
the wrapped embeddings and blocks one after another, with an additive mask over keys: attention is
bidirectional, and no query attends to padding, on either side. Absolute positions are added with
the embeddings, so that a pooled residual carries them already and blocks read no others.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import CapabilityError
from interp_compose.models.base import Streams
from interp_compose.models.bridge import BridgeModel, TransformerBridge
from interp_compose.models.hooks import without_hooks
from interp_compose.models.lens_model import LensModel
from interp_compose.models.sentence_config import SentenceConfig
from interp_compose.tensors import positions_from_mask
from interp_compose.types import Read

HEADS = {"bert": "BertForMaskedLM", "roberta": "RobertaForMaskedLM"}
"""Architectures by Hugging Face's ``model_type``, and the class that the bridge wraps."""


class EncoderModel(BridgeModel):
    """A :class:`.lens_model.LensModel` on a bridge around a masked-LM class.

    ``has_head`` is False where the checkpoint brought no masked-LM head (sentence encoders): then
    there are hidden states and no logits. ``stated`` is the embedding that a sentence-transformers
    folder states.
    """

    bidirectional = True
    ends_in_norm = True

    def __init__(
        self,
        bridge: TransformerBridge,
        *,
        name: str,
        tokenizer: Any,
        has_head: bool,
        stated: SentenceConfig | None = None,
    ) -> None:
        super().__init__(bridge, name=name, tokenizer=tokenizer)
        self._core = bridge.original_model.base_model
        self.has_head = has_head
        if not has_head:
            self.architecture = type(self._core).__name__
        self._first_position = 0
        if self._core.config.model_type == "roberta":  # counts positions from padding_idx + 1
            self.pad_id = int(self._core.config.pad_token_id)
            self._first_position = self.pad_id + 1
        self.n_ctx = int(self._core.config.max_position_embeddings) - self._first_position
        self.states(stated)

    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        self._check_head()
        return super()._unembed(resid)

    def _plain(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        self._check_head()
        return super()._plain(tokens)

    def _plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        hidden: Tensor = self._core(tokens).last_hidden_state
        return hidden

    def _forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"],
        *,
        read: Read,
    ) -> Float[Tensor, "batch _ width"]:
        if read == "hidden":
            return self._resid_pre(tokens, self.n_layers, attention_mask)
        self._check_head()
        return super()._forward(tokens, attention_mask, read=read)

    def _resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos d_model"]:
        resid = self._embed(tokens, attention_mask)
        return self._apply_entry_hooks(self._blocks(resid, range(layer), attention_mask), layer)

    def _run_blocks(
        self, streams: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream pos d_model"]:
        with without_hooks([self.lens.blocks[start].hook_in]):  # they have acted already
            resid = self._blocks(streams.resid, range(start, stop), streams.mask)
        return self._apply_entry_hooks(resid, stop)

    def _resume(
        self, streams: Streams, start: int, *, read: Read
    ) -> Float[Tensor, "stream _ width"]:
        return LensModel._resume(self, streams, start, read=read)  # as the bridge does not

    def _embed(
        self, tokens: Int[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"]
    ) -> Float[Tensor, "batch pos d_model"]:
        """What enters block 0: token and position embeddings, the latter counted over real tokens,
        after the first norm."""
        positions = positions_from_mask(mask) + self._first_position
        embedded: Tensor = self._core.embeddings(input_ids=tokens, position_ids=positions)
        return embedded

    def _blocks(
        self,
        resid: Float[Tensor, "stream pos d_model"],
        layers: range,
        mask: Int[Tensor, "stream pos"],
    ) -> Float[Tensor, "stream pos d_model"]:
        """Blocks one after another; every query attends to every key that the mask marks with 1."""
        lowest = torch.finfo(resid.dtype).min
        # [stream 1 1 key]
        bias = (1 - mask[:, None, None, :]).to(resid.dtype) * lowest
        for layer in layers:
            out = self.lens.blocks[layer](resid, attention_mask=bias)
            resid = out[0] if isinstance(out, tuple) else out
        return resid

    def _arguments(
        self, mask: Int[Tensor, "batch pos"], position_ids: Int[Tensor, "batch pos"]
    ) -> dict[str, Any]:
        return super()._arguments(mask, position_ids + self._first_position)

    def _check_head(self) -> None:
        if not self.has_head:
            raise CapabilityError(
                f"{self.name!r} ({self.architecture}) came without a masked-LM head, so it has no "
                "logits; read its hidden states with model.encode(…), or load a checkpoint of "
                f"{HEADS[self._core.config.model_type]}."
            )
