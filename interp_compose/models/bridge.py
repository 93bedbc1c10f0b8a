"""The adapter over ``TransformerBridge``; no other file names that class.

A bridge wraps the Hugging Face modules themselves. Its own ``start_at_layer=k`` is missing from
3.9, and in 4 it executes blocks 0 … k-1 and throws their result away. Here those blocks are made
identities for the call and the residual is injected at the input of block k, which is exact (a
probe proves it per model) and takes a CAP sweep from about 15 to about 10 clean forward passes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.model_bridge import TransformerBridge as TransformerBridge
from transformer_lens.model_bridge.generalized_components import NormalizationBridge
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

from interp_compose.errors import CapabilityError, InterpComposeError, first_line
from interp_compose.models.base import Streams
from interp_compose.models.hooks import without_hooks
from interp_compose.models.lens_model import LensModel
from interp_compose.models.model_files import check_report
from interp_compose.models.own_forward import not_in_memory
from interp_compose.models.prefix import Kept
from interp_compose.models.recompute import running
from interp_compose.models.rotary import length_limit
from interp_compose.models.sentence_config import SentenceConfig
from interp_compose.models.settled import settled
from interp_compose.tensors import devices_of, positions_from_mask
from interp_compose.types import Read, last_positions

EMBEDDINGS = (
    *("embed", "pos_embed", "token_type_embed", "embed_ln"),
    *("hook_embed", "hook_pos_embed", "hook_token_type_embed"),
)
"""TransformerLens' names of what is computed before the blocks."""


SPLITS: Mapping[str, tuple[str, ...]] = {
    "split_qkv_matrix": ("q", "k", "v"),
    "split_gate_up_matrix": ("gate", "in"),
}
"""Functions of TransformerLens' wrappers that split a fused projection, and who holds its parts."""


def hugging_face_model(
    source: str, *, name: str, two_stacks: bool, device: str | None = None, **options: Any
) -> nn.Module:
    """A hub name or a folder as Hugging Face's causal language model or, with ``two_stacks``, its
    encoder–decoder; raw weights, eager attention, in evaluation mode.

    Raises:
        CorruptFileError: weights are missing, or are of a layer that the config does not have.
    """
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    auto: Any = AutoModelForSeq2SeqLM if two_stacks else AutoModelForCausalLM
    options["attn_implementation"] = "eager"
    model: nn.Module
    model, report = auto.from_pretrained(source, output_loading_info=True, **options)
    check_report(report, name)
    return (model if device is None else model.to(device)).eval()


def bridge_with_tokenizer(source: str, model: nn.Module, **options: Any) -> TransformerBridge:
    """``model``, which was loaded from ``source``, wrapped in place, with the tokenizer that
    TransformerLens loads with it (BOS prepended where the model has one)."""
    with refusing(model), _no_new_weights(model), _nothing_installed():
        return _as_frozen(TransformerBridge.boot_transformers(source, hf_model=model, **options))


@contextmanager
def _nothing_installed() -> Iterator[None]:
    """transformer-lens 4 runs ``pip install torchvision`` where a checkpoint's image processor
    needs it, which may exchange PyTorch as well. Here it goes on without: no image is read.
    """
    try:
        helpers: Any = import_module("transformer_lens.model_bridge.sources.transformers.helpers")
        installs = helpers._ensure_torchvision
    except (ImportError, AttributeError):  # transformer-lens 3.9, or one that no longer does
        yield
        return
    helpers._ensure_torchvision = lambda: False
    try:
        yield
    finally:
        helpers._ensure_torchvision = installs


def bridge_around(model: nn.Module) -> TransformerBridge:
    """A Hugging Face model object, wrapped in place (its attention becomes eager)."""
    hf_model: Any = model
    if hasattr(model, "set_attn_implementation"):
        hf_model.set_attn_implementation("eager")  # other kernels never show their pattern
    with refusing(model), _no_new_weights(model):
        kind = type(model).__name__
        return _as_frozen(build_bridge_from_module(model, kind, hf_config=hf_model.config))


def _as_frozen(bridge: TransformerBridge) -> TransformerBridge:
    """The bridge, in which the parts of a fused projection are trained where it was."""
    for wrapper in bridge.modules():
        for names in (names for split, names in SPLITS.items() if hasattr(wrapper, split)):
            fused: Any = wrapper._modules.get("qkv") or wrapper.original_component.gate_up_proj
            trained = {
                one.rpartition(".")[2]: w.requires_grad for one, w in fused.named_parameters()
            }
            for part in names:
                for one, weight in getattr(wrapper, part).named_parameters():
                    weight.requires_grad_(trained.get(one.rpartition(".")[2], True))
    return bridge


@contextmanager
def _no_new_weights(model: nn.Module) -> Iterator[None]:
    """transformer-lens 3.9 gives an unembedding that has no bias one of zeros, which training would
    move and no checkpoint has a place for. It becomes what 4 makes of it: zeros that stay."""
    bare = [one for one in model.modules() if isinstance(one, nn.Linear) and one.bias is None]
    yield
    for linear in bare:
        added = linear._parameters.get("bias")
        if added is not None:
            del linear.bias
            linear.register_buffer("bias", added.detach())


@contextmanager
def refusing(model: nn.Module) -> Iterator[None]:
    """Whatever TransformerLens throws at a module that it cannot wrap, as a CapabilityError."""
    try:
        yield
    except InterpComposeError:
        raise
    except (
        *(ValueError, KeyError, AttributeError, RuntimeError, AssertionError, TypeError),
        *(IndexError, NotImplementedError),
    ) as refusal:
        dtype = next(iter(model.parameters())).dtype
        if dtype.itemsize == 2 and any(w in str(refusal) for w in ("scalar type", "dtype")):
            raise CapabilityError(
                f"TransformerLens does not run a {type(model).__name__} in {dtype} "
                f"({first_line(refusal)}): load it in float32 (dtype='float32', or module.float())."
            ) from refusal
        raise CapabilityError(
            not_in_memory(model)
            or f"TransformerLens does not know how to wrap a {type(model).__name__} of this config "
            f"({first_line(refusal)}). If other configs of it load, a setting is the cause; else "
            "pass a causal language model such as GPT2LMHeadModel or LlamaForCausalLM, an encoder "
            "such as BertModel or, with transformer-lens 4, RobertaModel, or an encoder–decoder "
            "such as T5ForConditionalGeneration."
        ) from refusal


def check_wrappable(model: Any) -> None:
    """Refuse, before anything is wrapped, modules that this library cannot measure.

    Raises:
        CapabilityError: weights that are not in memory, adapters around the model, or an
            encoder–decoder on several devices or with transformer-lens 3.9.
    """
    kind = type(model)
    if absent := not_in_memory(model):
        raise CapabilityError(absent)
    if kind.__module__.startswith("peft.") and not hasattr(model, "merge_and_unload"):
        raise CapabilityError(
            f"a {kind.__name__} holds an adapter that learns a prompt or prefix, which goes before "
            "a text and into no weight, so that nothing here could read it: pass "
            "model.get_base_model(), which is the model without it."
        )
    if hasattr(model, "merge_and_unload"):
        raise CapabilityError(
            f"a {kind.__name__} holds adapters around a model, and TransformerLens wraps the model "
            "alone: merge them with model.merge_and_unload() and pass what that returns."
        )
    devices = devices_of(model.parameters())
    if has_two_stacks(model) and len(devices) > 1:
        raise CapabilityError(
            f"this {kind.__name__} lies on {', '.join(map(str, devices))}, and encoder–decoders "
            "are proven on one device alone: load it with device=…, and dtype='bfloat16' if memory "
            "is short."
        )
    if has_two_stacks(model) and version("transformer-lens") < "4":
        raise CapabilityError(
            f"{kind.__name__} is an encoder–decoder, which needs transformer-lens 4; "
            f"{version('transformer-lens')} is installed."
        )


def has_two_stacks(model: Any) -> bool:
    """Whether a Hugging Face module is an encoder–decoder."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def check_blocks(bridge: TransformerBridge) -> None:
    """Refuse a wrapped model that is no stack of blocks with attention in each.

    Raises:
        CapabilityError: names the class and the first block without attention, or blocks without a
            residual stream.
    """
    blocks = getattr(bridge, "blocks", None)
    bare = [k for k, block in enumerate(blocks or ()) if not hasattr(block, "attn")]
    if blocks is None or bare:
        kind = type(bridge.original_model).__name__
        problem = "it has no list of blocks" if blocks is None else f"block {bare[0]} has none"
        raise CapabilityError(
            f"{kind} cannot be loaded: every block needs attention, and {problem}. State-space, "
            "recurrent and hybrid models (Mamba, RWKV, Jamba and their like) are not supported."
        )
    if "blocks.0.hook_resid_pre" not in bridge.hook_dict:  # DeepSeek-V4's several streams
        raise CapabilityError(
            f"{type(bridge.original_model).__name__} cannot be loaded: its blocks have no "
            "hook_resid_pre, and what is measured here is of one residual stream."
        )


class BridgeModel(LensModel):
    """A :class:`.lens_model.LensModel` on a ``TransformerBridge``."""

    def __init__(self, bridge: TransformerBridge, *, name: str, tokenizer: Any) -> None:
        hf_model = bridge.original_model
        architecture = str(bridge.cfg.architecture or type(hf_model).__name__)
        super().__init__(bridge, name=name, architecture=architecture, tokenizer=tokenizer)
        settled(bridge)
        _follow_norms(bridge)
        accepted = set(inspect.signature(hf_model.forward).parameters)
        inner = getattr(hf_model, "base_model", hf_model)
        accepted_inside = set(inspect.signature(inner.forward).parameters)
        self._takes_positions = "position_ids" in accepted | accepted_inside
        # Older versions of transformers call it past_key_values.
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._options: dict[str, Any] = {}
        if "use_cache" in accepted | accepted_inside:
            self._options["use_cache"] = False
        if getattr(getattr(hf_model, "config", None), "output_attentions", False):
            self._options["output_attentions"] = False  # TransformerLens turns them on
        self._keeps_last = "logits_to_keep" in accepted
        self._block_output: type | None = None
        self.window = _window(getattr(hf_model, "config", None))
        self.length_limit = length_limit(hf_model) if hasattr(hf_model, "config") else None

    def states(self, stated: SentenceConfig | None) -> None:
        """Set what the folder states about embeddings, and the length of a text with it.

        Newer folders of sentence-transformers leave that length to the tokenizer.
        """
        self.stated = stated
        if stated is not None:
            max_length = stated.max_length or getattr(self.tokenizer, "model_max_length", None)
            self.n_ctx = int(min(self.n_ctx, max_length or self.n_ctx))

    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        mask = torch.ones(resid.shape[:2], dtype=torch.long, device=resid.device)
        with self._replaced(range(self.n_layers), lambda *args, **kwargs: resid):
            logits: Tensor = self.lens(resid, **self._arguments(mask, positions_from_mask(mask)))
        return logits

    def _forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"],
        *,
        read: Read,
    ) -> Float[Tensor, "batch _ width"]:
        options = self._arguments(attention_mask, positions_from_mask(attention_mask))
        return self._run(tokens, options, read)

    def _plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        with self._last_hidden() as outputs:
            self.lens(tokens)
        return outputs[-1]

    def _run_blocks(
        self, streams: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream pos d_model"]:
        options = self._continued(streams, range(start, stop))
        with self._entering(streams.resid, start):
            out: Tensor = self.lens(streams.resid, stop_at_layer=stop, **options)
        return out

    def _resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos d_model"]:
        options = self._arguments(attention_mask, positions_from_mask(attention_mask))
        resid: Tensor = self.lens(tokens, stop_at_layer=layer, **options)
        return resid

    def _resume(
        self, streams: Streams, start: int, *, read: Read
    ) -> Float[Tensor, "stream _ width"]:
        options = self._continued(streams, range(start, self.n_layers))
        with self._entering(streams.resid, start), self._ending(streams, read):
            return self._run(streams.resid, options, read)

    def _run(
        self,
        start: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos d_model"],
        options: dict[str, Any],
        read: Read,
    ) -> Float[Tensor, "batch _ width"]:
        """One call of the wrapped model on token ids or embeddings."""
        if read == "hidden":
            if self._keeps_last:  # logits at no position
                options["logits_to_keep"] = slice(0)  # no tensor: the last block may be elsewhere
            with self._last_hidden() as outputs:
                self.lens(start, **options)
            return outputs[-1]  # NanoChat norms its embeddings by the same module
        n_last = last_positions(read, start.shape[1])
        if read != "logits" and self._keeps_last:
            options["logits_to_keep"] = n_last
        logits: Tensor = self.lens(start, **options)
        return logits[:, -n_last:]

    @contextmanager
    def _last_hidden(self) -> Iterator[list[Tensor]]:
        """Collects what leaves the final norm, in the calls made inside the ``with`` block."""
        outputs: list[Tensor] = []
        if not hasattr(self.lens, "ln_final"):
            raise CapabilityError(
                f"{self.architecture} of this config has no final norm, at which its last hidden "
                "state could be read; capture hook_resid_post of the last layer instead."
            )
        handle = self.lens.ln_final.register_forward_hook(
            lambda module, args, output: outputs.append(output)
        )
        try:
            yield outputs
        finally:
            handle.remove()

    def _arguments(
        self, mask: Int[Tensor, "batch pos"], position_ids: Int[Tensor, "batch pos"]
    ) -> dict[str, Any]:
        if self.length_limit is not None:
            self.length_limit.check(position_ids, mask)
        arguments = {"attention_mask": mask, **self._options, **self._keeping}
        if self._takes_positions:
            arguments["position_ids"] = position_ids
        return arguments

    def _continued(self, streams: Streams, layers: range) -> dict[str, Any]:
        """The arguments of a call that runs ``layers`` on streams, after their prefix."""
        arguments = self._arguments(streams.mask, streams.positions)
        if streams.prefix is None:
            return arguments
        return arguments | {
            "attention_mask": streams.prefix.before(streams.mask),
            self._cache_name: streams.prefix.cache(layers),
            "use_cache": True,
        }

    @contextmanager
    def keeping(self) -> Iterator[Callable[[], Kept]]:
        """Gives the keys and values of the call that is made inside the ``with`` block."""
        from transformers import DynamicCache

        if not self.is_proving:
            self.require("prefix")
        cache, outer = DynamicCache(), self._keeping
        self._keeping = {self._cache_name: cache, "use_cache": True}
        try:
            yield lambda: Kept.of(cache)
        finally:
            self._keeping = outer

    @contextmanager
    def _entering(self, resid: Float[Tensor, "stream pos d_model"], layer: int) -> Iterator[None]:
        """``resid`` enters block ``layer`` and nothing below it runs, for the length of a call.

        The call gets ``resid`` as embeddings, for its shape. What the model computes of it before
        the blocks (positions, scaling) is replaced at the input of block ``layer``. Hooks there and
        at the embeddings do not fire: they acted when the residual was captured, or when it left
        the block below.
        """

        def swap(
            module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            if args:
                return (resid, *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": resid}

        with self._replaced(range(layer), _identity):
            handle = self.lens.blocks[layer].register_forward_pre_hook(swap, with_kwargs=True)
            try:
                with without_hooks([self.lens.blocks[layer].hook_in, *self._embedding_points]):
                    yield
            finally:
                handle.remove()

    @contextmanager
    def _ending(self, streams: Streams, read: Read) -> Iterator[None]:
        """Where streams go on from a prefix, so that nothing acts on them, and only their last
        positions are read: the last block's output projection and MLP are run there alone.

        Elsewhere queries, keys and values alone are computed: in GPT-2 a quarter of the block.
        """
        n_last = last_positions(read, streams.resid.shape[1])
        parts: list[nn.Module] = []
        if streams.prefix is not None and n_last < streams.resid.shape[1] and self._ends_short:
            parts = [self.lens.blocks[-1].attn.o, self.lens.blocks[-1].mlp]
        with ExitStack() as replaced:
            for part in parts:
                replaced.enter_context(running(part, partial(_at_the_end, part.forward, n_last)))
            yield

    @property
    def _ends_short(self) -> bool:
        if self.is_proving or self.active_hooks:
            return self._trying_short_end
        return self.capabilities["prefix"].short_end

    @cached_property
    def _embedding_points(self) -> list[nn.Module]:
        """Hook points of what is computed before the blocks."""
        points = self.lens.hook_dict.items()
        by_id = {id(point): point for name, point in points if name.split(".")[0] in EMBEDDINGS}
        return list(by_id.values())

    @contextmanager
    def _replaced(self, layers: range, stand_in: Callable[..., Tensor]) -> Iterator[None]:
        """Blocks that return what ``stand_in`` does, for the length of a call."""
        if not len(layers):
            yield
            return
        forward = _in_tuple(stand_in) if self._returns_tuple() else stand_in
        with ExitStack() as replaced:
            for layer in layers:
                replaced.enter_context(running(self.lens.blocks[layer], forward))
            yield

    def _returns_tuple(self) -> bool:
        """Whether the blocks of this architecture return tuples; tried once on two tokens."""
        if self._block_output is None:
            outputs: list[type] = []
            handle = self.lens.blocks[0].register_forward_hook(
                lambda module, args, output: outputs.append(type(output))
            )
            mask = torch.ones((1, 2), dtype=torch.long, device=self.device)
            options = self._arguments(mask, positions_from_mask(mask))
            if self.n_layers > 1:
                options["stop_at_layer"] = 1
            try:
                with self.bare(), torch.no_grad():  # no hook of the user's acts on these tokens
                    self.lens(torch.zeros_like(mask), **options)
            finally:
                handle.remove()
            self._block_output = outputs[0]
        return issubclass(self._block_output, tuple)


def _follow_norms(bridge: TransformerBridge) -> None:
    """What enters a norm moves to the device of its weights.

    TransformerLens computes some norms itself, past the hook of accelerate that moves the input of
    the wrapped module; the final one may lie elsewhere than the last block.
    """
    if len(devices_of(bridge.parameters())) == 1:
        return
    for part in bridge.modules():
        if isinstance(part, NormalizationBridge) and any(True for _ in part.parameters()):
            part.register_forward_pre_hook(_moved_to(next(part.parameters()).device))


def _moved_to(device: torch.device) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    return lambda module, args: tuple(one.to(device) for one in args)


def _window(config: Any) -> int | None:
    """How far back the layers with the shortest window attend, by the names that configs use."""
    if hasattr(config, "get_text_config"):
        config = config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or getattr(config, "attention_layers", []))
    names = {
        "sliding_window": {"sliding_attention"},
        "attention_chunk_size": {"chunked_attention"},
        "window_size": {"local"},
    }
    windows = [
        int(window)
        for name, local in names.items()
        if (window := getattr(config, name, None)) and (not kinds or kinds & local)
    ]
    return min(windows, default=None)


def _identity(*args: Any, **kwargs: Any) -> Tensor:
    stream: Tensor = args[0] if args else kwargs["hidden_states"]
    return stream


def _at_the_end(
    forward: Callable[..., Tensor],
    n_last: int,
    resid: Float[Tensor, "stream pos d_in"],
    *args: Any,
    **kwargs: Any,
) -> Float[Tensor, "stream pos d_out"]:
    """What a part of a block that treats each position alone makes of the last ones; else 0."""
    end = forward(resid[:, -n_last:].contiguous(), *args, **kwargs)
    whole = end.new_zeros((*resid.shape[:2], end.shape[2]))
    whole[:, -n_last:] = end
    return whole


def _in_tuple(forward: Callable[..., Tensor]) -> Callable[..., tuple[Tensor]]:
    return lambda *args, **kwargs: (forward(*args, **kwargs),)
