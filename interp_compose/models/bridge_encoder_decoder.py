"""Hugging Face's encoder–decoders (T5, BART, Marian, T5Gemma, …) behind the one surface.

The bridge's ``start_at_layer`` and ``stop_at_layer`` raise on them. So each stack is called as
Hugging Face calls it, by its own forward pass: blocks below ``start`` become identities, the
residual is injected at the input of block ``start``, and the call ends when block ``stop - 1`` has
run.

T5 adds to its scores a bias that depends on the distance of query and key. Its first block computes
the bias from places in the tensor, and all others get it handed on. Here it is computed from
positions, by T5's own function and table, and given to the block at which a call starts: after a
collapse, the distance of two units is then that of their last tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from interp_compose.errors import CapabilityError
from interp_compose.models.base import Streams
from interp_compose.models.bridge import TransformerBridge
from interp_compose.models.encoder_decoder import FIRST_TARGET_POSITION, EncoderDecoderModel
from interp_compose.models.recompute import running
from interp_compose.models.settled import settled
from interp_compose.types import Side

RELATIVE: Final = "relative_positional_bias"
"""TransformerLens' name for positions that are distances in T5's manner."""


def check_stacks(bridge: TransformerBridge) -> None:
    """Refuse a wrapped encoder–decoder whose blocks do not have the attentions expected.

    Raises:
        CapabilityError: names the class and what is missing.
    """
    expected = {"encoder_blocks": ("attn",), "decoder_blocks": ("self_attn", "cross_attn")}
    for stack, names in expected.items():
        blocks = getattr(bridge, stack, None)
        for number, block in enumerate(blocks or ()):
            missing = [name for name in names if not hasattr(block, name)]
            if missing:
                problem = f"{stack}.{number} has no {missing[0]}"
                break
        else:
            if blocks:
                continue
            problem = f"it has no {stack}"
        raise CapabilityError(
            f"{type(bridge.original_model).__name__} cannot be loaded: an encoder–decoder needs "
            f"attention in every block and cross-attention in the decoder's, and {problem}."
        )


class BridgeEncoderDecoder(EncoderDecoderModel):
    """An :class:`.encoder_decoder.EncoderDecoderModel` on a ``TransformerBridge``."""

    def __init__(self, bridge: TransformerBridge, *, name: str, tokenizer: Any) -> None:
        self._hf: Any = bridge.original_model
        config = self._hf.config
        super().__init__(
            bridge,
            name=name,
            architecture=type(self._hf).__name__,
            tokenizer=tokenizer,
            d_vocab_source=int(config.vocab_size),
            d_vocab=int(getattr(config, "decoder_vocab_size", None) or config.vocab_size),
        )
        settled(bridge)
        self._stack: dict[Side, Any] = {
            "source": self._hf.get_encoder(),
            "target": self._hf.get_decoder(),
        }
        if self.position_kind == RELATIVE:
            self.n_ctx = FIRST_TARGET_POSITION  # distances have no end
        table = getattr(self._stack["source"], "embed_positions", None)
        table = getattr(table, "original_component", table)
        if "Sinusoidal" in type(table).__name__:
            self.position_kind = "sinusoidal"
        given = (config, getattr(self._hf, "generation_config", None))
        for name in ("decoder_start_token_id", "forced_bos_token_id"):
            stated = (getattr(one, name, None) for one in given)
            token = next((int(token) for token in stated if isinstance(token, int)), None)
            if token is None and not self.start_ids:
                break
            self.start_ids += () if token is None else (token,)
        # Pre-LN stacks end in a norm of their own; post-LN blocks do.
        self.ends_in_norm = not hasattr(bridge, "decoder_ln_final")

    def _embed(
        self, ids: Int[Tensor, "batch own"], mask: Int[Tensor, "batch own"], side: Side
    ) -> Float[Tensor, "batch own d_model"]:
        def stop(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            raise _Stopped(args[0] if args else kwargs["hidden_states"])

        first = self._blocks_of(side)[0]
        with _hooked(first.register_forward_pre_hook(stop, with_kwargs=True)):
            return self._call_stack(side, input_ids=ids, attention_mask=mask)

    def _encode(
        self, source: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream own d_model"]:
        last = stop == self.n_encoder_layers
        return self._run_stack("source", source, start, None if last else stop)

    def _decode(
        self, target: Streams, source: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream own d_model"]:
        memory = {"encoder_hidden_states": source.resid, "encoder_attention_mask": source.mask}
        return self._run_stack("target", target, start, stop, **memory)

    def _final(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        with self._leaving_decoder(resid):
            return self._call_stack("target", inputs_embeds=resid)

    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        with self._leaving_decoder(resid):
            encoded = BaseModelOutput(last_hidden_state=resid)
            logits: Tensor = self._hf(
                encoder_outputs=encoded, decoder_inputs_embeds=resid, use_cache=False
            ).logits
        return logits

    def _plain_sides(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        outputs: dict[Side, Tensor] = {}

        def keep(side: Side) -> Callable[..., None]:
            def hook(module: nn.Module, args: Any, output: Any) -> None:
                outputs[side] = output.last_hidden_state

            return hook

        with ExitStack() as kept:
            for side, stack in self._stack.items():
                kept.enter_context(_hooked(stack.register_forward_hook(keep(side))))
            logits: Tensor = self.lens(source, decoder_input_ids=target)
        return outputs["source"], outputs["target"], logits

    # ---- one stack -----------------------------------------------------------------------

    def _run_stack(
        self, side: Side, streams: Streams, start: int, stop: int | None, **memory: Tensor
    ) -> Tensor:
        """What leaves block ``stop - 1`` or, where ``stop`` is None, the stack's output, from the
        residual that enters block ``start``."""
        blocks = self._blocks_of(side)
        bias = self._position_bias(side, streams.positions)

        def enter(
            module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            if bias is not None:  # the third argument of T5's blocks
                args = (*args[:2], bias, *args[3:])
            if args:
                return (streams.resid, *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": streams.resid}

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            raise _Stopped(output[0] if isinstance(output, tuple) else output)

        with ExitStack() as changed:
            for block in blocks[:start]:
                changed.enter_context(running(block, self._stand_in()))
            entry_hook = blocks[start].register_forward_pre_hook(enter, with_kwargs=True)
            changed.enter_context(_hooked(entry_hook))
            if stop is not None:
                exit_hook = blocks[stop - 1].register_forward_hook(leave)
                changed.enter_context(_hooked(exit_hook))
            return self._call_stack(
                side, inputs_embeds=streams.resid, attention_mask=streams.mask, **memory
            )

    def _call_stack(self, side: Side, **arguments: Any) -> Tensor:
        """A stack's own forward pass: its output, or the residual it had where it was stopped."""
        if side == "target":
            # T5Gemma's decoder asks for the encoder's output also where no block of it runs.
            n = len(next(iter(arguments.values())))
            nothing = torch.zeros(n, 1, self.d_model, dtype=self.dtype, device=self.device)
            arguments = {"encoder_hidden_states": nothing, **arguments, "use_cache": False}
        try:
            output: Tensor = self._stack[side](**arguments).last_hidden_state
        except _Stopped as stopped:
            return stopped.resid
        return output

    @contextmanager
    def _leaving_decoder(self, resid: Tensor) -> Iterator[None]:
        """``resid`` leaves the last decoder block, and none runs, for the length of a call."""
        with ExitStack() as replaced:
            for block in self._blocks_of("target"):
                replaced.enter_context(running(block, self._stand_in(resid)))
            yield

    def _stand_in(self, resid: Tensor | None = None) -> Callable[..., Any]:
        """A block's forward pass that returns ``resid``, or what entered."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            entered = args[0] if args else kwargs["hidden_states"]
            output = entered if resid is None else resid
            return (output, None, None) if self.position_kind == RELATIVE else output

        return forward

    def _position_bias(
        self, side: Side, positions: Int[Tensor, "batch own"]
    ) -> Float[Tensor, "batch head own own"] | None:
        """What T5 adds to the scores of self-attention; None where positions are embedded."""
        if self.position_kind != RELATIVE:
            return None
        first = self._blocks_of(side)[0]
        attention = (first.attn if side == "source" else first.self_attn).original_component
        # [batch query key]: the key's position less the query's
        buckets = attention._relative_position_bucket(
            positions[:, None, :] - positions[:, :, None],
            bidirectional=not attention.is_decoder,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        bias: Tensor = attention.relative_attention_bias(buckets)
        # [batch query key head] -> [batch head query key]
        return bias.permute(0, 3, 1, 2)

    def _blocks_of(self, side: Side) -> Sequence[Any]:
        return list(self.lens.encoder_blocks if side == "source" else self.lens.decoder_blocks)


class _Stopped(Exception):
    """Ends a stack's forward pass; carries the residual it had."""

    def __init__(self, resid: Tensor) -> None:
        super().__init__()
        self.resid = resid


@contextmanager
def _hooked(handle: torch.utils.hooks.RemovableHandle) -> Iterator[None]:
    """A hook that is removed at the end of the ``with`` block."""
    try:
        yield
    finally:
        handle.remove()
