"""A loaded model, as a user has it: calls, hooks, edits, weights, and what is proven of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import CapabilityError, InputError, OptionError, shortened
from interp_compose.models.activations import Activations, Names, read_at
from interp_compose.models.base import BaseModel
from interp_compose.models.block import intervention
from interp_compose.models.capabilities import Capabilities
from interp_compose.models.capture import captured
from interp_compose.models.copying import copy_model
from interp_compose.models.effective_weights import INSERTED, acting, check_looked_up, tell_of_hooks
from interp_compose.models.generate import generated
from interp_compose.models.hooks import check_call
from interp_compose.models.proofs import Proofs
from interp_compose.models.recompute import recomputing
from interp_compose.models.texts import Tokenized, as_call, tokenized
from interp_compose.notebook import block, facts
from interp_compose.tensors import devices_of
from interp_compose.types import HookFn, Inputs, Read

WEIGHT_NAMES = (
    *("W_E", "W_pos", "W_U", "b_U"),
    *("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O"),
    *("W_in", "b_in", "W_gate", "W_out", "b_out"),
)


@public
class LensModel(BaseModel):
    """A model with one small interface, whichever TransformerLens class wraps it.

    ``lens`` is that object, for whatever is left out here. Weights are raw: no LayerNorm
    folding, no centring, so that probes read what training wrote.
    """

    USED: ClassVar = (
        *("lens", "name", "architecture", "tokenizer", "device", "dtype", "training"),
        *("n_layers", "n_heads", "d_model", "d_vocab", "n_ctx", "n_weights", "window"),
        *("bidirectional", "blocks", "length_limit", "stated"),
        *("forward", "encode", "generate", "tokenize", "positions"),  # calls
        *("resid_pre", "run_blocks", "resume", "unembed"),  # parts of a call
        *("capture", "capture_as_shown", "run_with_cache", "run_with_hooks"),
        *("hooks", "hook_names", "active_hooks", "activation_checkpointing"),
        *("weight", "parameters", "state_dict", "load_state_dict", "train", "eval"),
        *("capabilities", "require"),
        *("join", "prefix", "side_of", "start_ids", "stacks"),  # of an encoder–decoder
    )
    """The names that are documented: what it is, calls, hooks, weights, and what was proven of
    it."""

    def __init__(self, lens: Any, *, name: str, architecture: str, tokenizer: Any) -> None:
        super().__init__(lens, name=name, architecture=architecture, tokenizer=tokenizer)
        self.proofs = Proofs(self)

    if not TYPE_CHECKING:  # a type checker refuses unknown names itself

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed, by its own error
                return object.__getattribute__(self, name)
            lens = vars(self).get("lens")
            attributes = getattr(lens, "__dict__", {})
            theirs = not name.startswith("_") and (hasattr(type(lens), name) or name in attributes)
            where = f"; TransformerLens' own is model.lens.{name}" if theirs else ""
            kind = type(self).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}{where}", name=name)

    def __dir__(self) -> list[str]:
        """What a user calls, for tab completion; the rest is for this library's own rooms."""
        return [name for name in self.USED if hasattr(self, name)]

    def __deepcopy__(self, memo: dict[int, Any]) -> LensModel:
        return copy_model(self, memo)

    def __getstate__(self) -> Any:
        """Refuse to be pickled.

        Raises:
            CapabilityError: names what keeps a model.
        """
        raise CapabilityError(
            f"{self.name!r} cannot be pickled, as torch.save and other processes would: its hooks "
            "are functions of this process. Write it with ic.save_pretrained(model, folder), or "
            "ic.save_model where it was made here, and call ic.load_model(folder) there."
        )

    def __copy__(self) -> LensModel:
        """Another object on the same ``lens``; blocks of either act on both."""
        shallow = object.__new__(type(self))
        vars(shallow).update(vars(self))
        return shallow

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, {self.architecture}, n_layers={self.n_layers}, "
            f"d_model={self.d_model}, n_heads={self.n_heads}, device={self.device}, "
            f"dtype={str(self.dtype).removeprefix('torch.')}{self._dequantised})"
        )

    @property
    def _dequantised(self) -> str:
        return f", dequantised from {self.dequantised_from}" if self.dequantised_from else ""

    def _repr_html_(self) -> str:
        values: dict[str, object] = {
            "layers": self.n_layers,
            "heads": self.n_heads,
            "d_model": self.d_model,
            "vocabulary": self.d_vocab,
            "context": self.n_ctx,
            "weights": f"{self.n_weights:,}{self._dequantised}",
            "device, dtype": f"{self.device}, {str(self.dtype).removeprefix('torch.')}",
            "tokenizer": "none" if self.tokenizer is None else type(self.tokenizer).__name__,
        }
        if self.training:
            values["mode"] = "training: measurements are refused until model.eval()"
        if self.active_hooks:
            values["open now"] = ", ".join(self.active_hooks)
        return block(type(self).__name__, f"{self.name} · {self.architecture}", facts(values))

    # ---- calls ---------------------------------------------------------------------------

    def tokenize(self, texts: str | Sequence[str]) -> Tokenized:
        """Token ids and mask, as a call with these texts has them: by the model's own tokenizer,
        special tokens included, padded on the left. To an encoder–decoder a text is its source,
        which the start of the target follows.

        Raises:
            InputError: a model without a tokenizer, or an encoder–decoder without start tokens; no
                texts; ids that the model does not have.
            PromptError: an empty text, or one longer than the model reads.
        """
        return tokenized(self, texts)

    def __call__(
        self, tokens: Inputs, *, attention_mask: Int[Tensor, "batch pos"] | None = None
    ) -> Float[Tensor, "batch _ width"]:
        """Logits ``[batch pos d_vocab]`` of token ids, or of a text or several (:meth:`tokenize`).

        Padding of token ids, on either side, is what the mask marks with 0 (inside :func:`pool_at`
        with ``mode="collapse"``: one position per unit).
        """
        return self.forward(tokens, attention_mask=attention_mask)

    def encode(
        self, tokens: Inputs, *, attention_mask: Int[Tensor, "batch pos"] | None = None
    ) -> Float[Tensor, "batch _ d_model"]:
        """The last hidden state ``[batch pos d_model]``, in which embeddings of texts are read."""
        return self.forward(tokens, attention_mask=attention_mask, read="hidden")

    def _checked(
        self, inputs: Inputs, attention_mask: Int[Tensor, "batch pos"] | None
    ) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        tokens, mask = as_call(self, inputs, attention_mask)
        check_call(tokens, mask)
        mask = torch.ones_like(tokens) if mask is None else mask
        if not self.is_proving:
            self.proofs.check_padding(mask)
        return tokens, mask

    def run_with_cache(
        self,
        tokens: Inputs,
        names_filter: Names = None,
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        read: Read = "logits",
    ) -> tuple[Float[Tensor, "batch _ width"], Activations]:
        """Logits and activations, by hook point: all of them, those whose name a filter takes, or
        those named; :meth:`capture` without gradients.

        ``cache["blocks.2.hook_resid_pre"]`` and ``cache["resid_pre", 2]`` are the same.

        Raises:
            OptionError, CapabilityError, InterventionError, UserWarning: as :meth:`capture`.
        """
        options: Any = {"attention_mask": attention_mask, "grad": False, "read": read}
        return captured(self, self.proofs, tokens, names_filter, **options)

    def capture(
        self,
        tokens: Inputs,
        names_filter: Names,
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        grad: bool = False,
        read: Read = "logits",
    ) -> tuple[Float[Tensor, "batch _ width"], Activations]:
        """Logits and the activations named, from one forward pass.

        With ``grad`` the activations stay in the autograd graph, so that losses can be built on
        them and the output has gradients with respect to them (not to what the model computes
        beside its path, such as ``ln1.hook_scale``); without it nothing is recorded.

        Args:
            tokens: ids, or texts.
            names_filter: names of hook points; a filter, which is given every name; None for all
                hook points, each by one of its names. Of the last two, those that the call does
                not pass through are left out.
            attention_mask: 0 at padding.
            grad: see above.
            read: what is returned with the activations.

        Raises:
            OptionError: a name that the model does not have, or a filter that takes none.
            CapabilityError: a name of a hook point that shows something else than it is named for.
            UserWarning: a filter took such hook points; they are left out.
            InterventionError: a named hook point that never fired; of a filter's, that none did.
        """
        options: Any = {"attention_mask": attention_mask, "grad": grad, "read": read}
        return captured(self, self.proofs, tokens, names_filter, **options)

    def capture_as_shown(
        self,
        tokens: Inputs,
        names: Sequence[str],
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        grad: bool = False,
        read: Read = "logits",
    ) -> tuple[Float[Tensor, "batch _ width"], Activations]:
        """As :meth:`capture`, whatever a hook point shows: for activations that an edit puts back
        where they were read.

        Raises:
            OptionError, InterventionError: as :meth:`capture`.
        """
        return read_at(self, tokens, names, attention_mask=attention_mask, grad=grad, read=read)

    def generate(
        self,
        tokens: Inputs,
        max_new_tokens: int | None = None,
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        **options: Any,
    ) -> Any:
        """Tokens that follow, one after the other: what Hugging Face's ``generate`` gives, under
        every intervention that is open.

        Under an intervention, and for models that Hugging Face did not write, every token comes
        from a call on all tokens so far. Positions, words and groups of interventions are then
        those of the prompt; a new token is none of them, and stays alone in :func:`pool_at`.

        Args:
            tokens: texts, or ids padded on the left; of an encoder–decoder, a source and the
                beginning of its target.
            max_new_tokens: for each row, unless its end comes before; what a ``generation_config``
                that is passed states, or 10.
            attention_mask: 0 at padding; texts make their own.
            options: Hugging Face's: ``do_sample``, ``num_beams``, ``temperature``, ``top_p``,
                ``num_return_sequences``, ``stop_strings``, ``return_dict_in_generate`` …. What is
                not given is as the checkpoint's generation config states, else greedy. Dropout is
                off.

        Returns:
            For texts, the texts of prompt and what follows (of an encoder–decoder the target),
            without special tokens; for a single text, one. For ids, ids ``[row pos]``, prompts
            included. With ``return_dict_in_generate=True``, what Hugging Face returns.

        Raises:
            CapabilityError: an encoder.
            OptionError: an option that Hugging Face refuses, or that is not available here.
            InputError: padding on the right; see :meth:`forward` for what else is refused.
            PromptError: more tokens than the model reads.
        """
        ids, mask = self._checked(tokens, attention_mask)
        self.check_in_place()
        with self._read_by_name(ids):
            return generated(self, tokens, ids, mask, max_new_tokens, options)

    def run_with_hooks(
        self,
        tokens: Inputs,
        fwd_hooks: Sequence[tuple[str | Callable[[str], bool], HookFn]],
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        read: Read = "logits",
    ) -> Float[Tensor, "batch _ width"]:
        """One forward pass under hooks. Raises InterventionError where one never fired."""
        with self.hooks(fwd_hooks):
            return self.forward(tokens, attention_mask=attention_mask, read=read)

    # ---- hooks ---------------------------------------------------------------------------

    @intervention
    def hooks(
        self,
        fwd_hooks: Sequence[tuple[str | Callable[[str], bool], HookFn]],
        *,
        version: str | None = None,
    ) -> Iterator[LensModel]:
        """Hooks for the length of a ``with`` block, gone after it however it ends.

        A name is a hook point's, an alias, or a predicate on names; a function's ``hook.name`` is
        the name that was given. Nesting composes: outer hooks run first.

        Args:
            fwd_hooks: (name, function) pairs.
            version: what the functions compute, in your words (``"zero head 3, strength 0.5"``).
                A study's config records it, and a study can be resumed inside this block only where
                it is given: a function's name alone does not tell whether it changed.

        Raises:
            OptionError: a name, or a predicate, that matches no hook point; a function that cannot
                be called with an activation and its hook point.
            InterventionError: on leaving, a hook that never fired; at once, an edit that
                TransformerLens discards.
            CapabilityError: on leaving, an edit at a hook point where a random edit, tried on a few
                tokens, does not reach the output; a function that only looked, at a hook point that
                shows something else than it is named for.
            ModelInUseError: another thread or asyncio task is using the model.
        """
        blocks = self.open_blocks
        n_open = len(blocks.installed)  # behind them come those that this block adds
        with (
            blocks.held(),
            blocks.hooked(fwd_hooks, version) as log,
            blocks.in_place([hook.module for hook in blocks.installed[n_open:]]),
        ):
            yield self
        # Only now is it known which functions edited and which only looked.
        if not self.is_proving:
            self.proofs.prove_edits(log.edited)
            self.proofs.prove_shown(log.read)

    def _refuse_attention_edits(self) -> None:
        if not self.is_proving:
            self.require("mask_attention")

    @intervention
    def activation_checkpointing(self) -> Iterator[None]:
        """Calls inside the ``with`` block keep less for the backward pass, and compute it again.

        The backward pass may come after the block. It has to come while the edits under which a
        block ran are open, and no other: the second computation runs under those of its own time.

        Raises:
            InterventionError: in the backward pass, an edit that acted in the forward pass is
                closed, or another one acts.
        """
        with self.open_blocks.held(), recomputing(self.blocks):
            yield

    @property
    def active_hooks(self) -> list[str]:
        """What acts on the model now and did not come with TransformerLens or transformers.

        Open interventions by name, then hooks at hook points (with their version, see
        :meth:`LensModel.hooks`), plain PyTorch hooks on any module, registered before or after
        loading, and edited attentions.
        """
        return self.open_blocks.active

    # ---- weights -------------------------------------------------------------------------

    def weight(self, name: str) -> Tensor:
        """A weight by the field's name, per-layer ones stacked (``W_Q`` is
        ``[layer head d_model d_head]``): the one that acts, adapters and wrappers included.

        Raises:
            OptionError: a name outside ``WEIGHT_NAMES``.
            CapabilityError: this architecture, or one of its layers, has no such weight, or layers
                of several shapes; or a module in its place is no affine map.
        """
        if name not in WEIGHT_NAMES:
            raise OptionError(f"unknown weight {name!r}: expected one of {', '.join(WEIGHT_NAMES)}")
        self.check_in_place()
        tell_of_hooks(self.lens, name)
        # Plain layers replace adapters and wrappers while TransformerLens stacks the weight.
        # It stacks the layers that have one, and does not say which these are.
        with acting(self.lens, self.lens, name=name):
            try:
                weight = getattr(self.lens, name)
                in_blocks = [
                    layer
                    for layer, block in enumerate(self.blocks)
                    if any(isinstance(getattr(one, name, None), Tensor) for one in block.children())
                ]
            except (AttributeError, NotImplementedError, ValueError, RuntimeError) as missing:
                devices = devices_of(self.parameters())
                if len(devices) > 1 and name not in WEIGHT_NAMES[:4]:
                    raise CapabilityError(
                        f"the layers of {self.name!r} lie on {', '.join(map(str, devices))}, and a "
                        f"stack of their {name!r} would have one device: read "
                        "model.blocks[layer], or model.state_dict()."
                    ) from missing
                why = "" if "object has no attribute" in str(missing) else f" ({missing})"
                raise CapabilityError(
                    f"{self.architecture} offers no stacked {name!r}{why}; read it from "
                    "model.state_dict() by its own name."
                ) from missing
        lacking = [layer for layer in range(self.n_layers) if layer not in in_blocks]
        if in_blocks and lacking:
            raise CapabilityError(
                f"{self.name!r} has {name!r} in layers {shortened(str(in_blocks), 150)} and not in "
                f"{shortened(str(lacking), 150)}: a stack would number them otherwise. Read it "
                "from model.blocks[layer], or from model.state_dict()."
            )
        if not isinstance(weight, Tensor):
            raise CapabilityError(f"{self.architecture} has no weight {name!r}.")
        check_looked_up(self.lens, name, weight)
        return weight

    def state_dict(self) -> Mapping[str, Tensor]:
        """Every parameter and buffer, by TransformerLens' names; what it leaves out (adapters,
        experts) by its own."""
        # 1. What TransformerLens shows, and fused projections that it split and does not use.
        state: dict[str, Tensor] = self.lens.state_dict()
        split = [part for part in self.lens.modules() if "split_qkv_matrix" in vars(part)]
        unused = (one for part in split if "qkv" in part._modules for one in part.qkv.parameters())
        held = {tensor.data_ptr() for tensor in (*state.values(), *unused)}
        # 2. Whatever else the wrapped module has, which lies at no address of these.
        wrapped = getattr(self.lens, "original_model", self.lens).state_dict().items()
        rest = {name: tensor for name, tensor in wrapped if tensor.data_ptr() not in held}
        return state | {name.replace(f".{INSERTED}", ""): one for name, one in rest.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes over every weight.

        Raises:
            InputError: a missing or an unknown name, or another shape.
        """
        missing = self.state_dict().keys() - state.keys()
        try:
            if missing:
                raise RuntimeError(f"{min(missing)!r} is missing ({len(missing)} in all)")
            self.lens.load_state_dict(state)
        except (RuntimeError, AttributeError) as misfit:
            raise InputError(
                f"the weights are not those of this {self.architecture}: {misfit}"
            ) from misfit

    @property
    def n_weights(self) -> int:
        """How many weights there are, shared ones once, as in the model that TransformerLens wraps:
        of a fused projection that it splits, :meth:`parameters` has the unused original, too."""
        buffers = {buffer.data_ptr() for buffer in self.lens.buffers()} - {0}
        sizes = {
            tensor.data_ptr() or name: tensor.numel()  # 0 where they are on no device
            for name, tensor in self.state_dict().items()
            if tensor.is_floating_point() and tensor.data_ptr() not in buffers
        }
        return sum(sizes.values())

    # ---- proof ---------------------------------------------------------------------------

    def require(self, *capabilities: str) -> None:
        """Refuse, by name, what a probe of a few tokens shows this model does not honour.

        The probe of a capability runs once per model, when it is first needed.

        Raises:
            CapabilityError: what failed, on which architecture, and what works instead.
        """
        self.capabilities.check(capabilities, self.architecture)

    @property
    def capabilities(self) -> Capabilities:
        """What probes of a few tokens find; each is run on first use."""
        return self.proofs.capabilities

    @property
    def continues(self) -> bool:
        """Whether streams may leave out what comes before their first change: the probe ``prefix``
        held, and nothing acts on the model, which would miss what is not run."""
        if self.active_hooks:
            return False
        return self.capabilities["prefix"].held
