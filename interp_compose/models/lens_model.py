"""A loaded model: calls, hooks, edits, weights, and the proof of what it honours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from interp_compose._public import public
from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterpComposeError,
    InterventionError,
    LayerError,
    OptionError,
    PositionError,
    PromptError,
    shortened,
)
from interp_compose.models.activations import Activations, Names, captured, read_at
from interp_compose.models.attention import (
    AttentionSite,
    edited_attention,
    is_edited,
    unedited,
)
from interp_compose.models.block import intervention
from interp_compose.models.capabilities import Capabilities, prove_capabilities
from interp_compose.models.effective_weights import (
    INSERTED,
    acting,
    is_at,
    path_of,
    places,
    tell_of_hooks,
)
from interp_compose.models.exclusive import Exclusive
from interp_compose.models.found_hooks import found_hooks, of_the_user
from interp_compose.models.generate import generated
from interp_compose.models.hook_proofs import HookProofs
from interp_compose.models.hooks import (
    Installed,
    OpenBlock,
    check_call,
    check_installed,
    hooked,
    in_evaluation_mode,
    without_hooks,
)
from interp_compose.models.layers import resolve_layer
from interp_compose.models.padding import PaddingProof
from interp_compose.models.prefix import Kept, Prefix
from interp_compose.models.recompute import recomputing, refuse_recording
from interp_compose.models.rotary import LengthLimit
from interp_compose.models.sentence_config import SentenceConfig
from interp_compose.models.texts import Inputs, Tokenized, as_call, tokenized
from interp_compose.notebook import block, facts
from interp_compose.tensors import positions_from_mask
from interp_compose.types import (
    AttentionEdit,
    CallWrapper,
    ForwardFn,
    HookFn,
    Prepare,
    Read,
    Side,
    last_positions,
)

WEIGHT_NAMES = (
    *("W_E", "W_pos", "W_U", "b_U"),
    *("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O"),
    *("W_in", "b_in", "W_gate", "W_out", "b_out"),
)


@dataclass(frozen=True)
class Streams:
    """Residuals that enter a block, and the mask and positions that go with them.

    ``mask`` is 1 for real positions, 0 for padding; ``positions`` are those of rotary embeddings
    (:meth:`LensModel.positions`); ``prefix`` is what comes before the streams, where they begin
    in the middle of a sequence.
    """

    resid: Float[Tensor, "stream pos width"]
    mask: Int[Tensor, "stream pos"]
    positions: Int[Tensor, "stream pos"]
    prefix: Prefix | None = None


@public
class LensModel(ABC):
    """A model with one small interface, whichever TransformerLens class wraps it.

    ``lens`` is that object, for whatever is left out here. Weights are raw: no LayerNorm
    folding, no centring, so that probes read what training wrote.
    """

    name: str
    architecture: str
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

    tokenizer: Any
    n_layers: int
    n_heads: int
    d_model: int
    d_vocab: int
    n_ctx: int
    window: int | None
    """Tokens that a layer of local attention looks back on; None where all attention is global."""
    length_limit: LengthLimit | None = None
    """Where rotary angles begin to depend on the batch; None where they never do."""
    bidirectional: bool = False
    """Whether tokens attend to later ones: an encoder, which predicts no next token."""
    ends_in_norm: bool = False
    """Whether blocks begin with no norm and end in one (post-LN), so that what attention and MLP
    add is no summand of what leaves them."""
    ends_in_composition: bool = False
    """Whether the output is what the last block composed from, and no residual leaves it (CAT)."""
    stated: SentenceConfig | None = None
    """The embedding that its sentence-transformers folder states."""
    keeps_to_names: bool = False
    """Whether hook points are this library's own, which its tests hold to their names."""
    pad_id: int | None = None
    """A token id that the model itself treats as padding, whatever the mask."""

    def __init__(self, lens: Any, *, name: str, architecture: str, tokenizer: Any) -> None:
        self.lens = lens
        self.name = name
        self.architecture = architecture
        self.tokenizer = tokenizer
        cfg = lens.cfg
        self.n_layers, self.n_heads = int(cfg.n_layers), int(cfg.n_heads)
        self.d_model, self.n_ctx = int(cfg.d_model), int(cfg.n_ctx)
        self.d_vocab = int(cfg.d_vocab)
        self.position_kind = str(cfg.positional_embedding_type)
        self._capabilities: Capabilities | None = None
        self.proofs = HookProofs(self)
        self._proving = False
        self._keeping: dict[str, Any] = {}  # options of the call whose keys and values are kept
        self._padding = PaddingProof(self)
        self._d_mlp: int | None = None
        self.exclusive = Exclusive()
        self._wrappers: list[tuple[OpenBlock, CallWrapper]] = []
        self._preparations: list[tuple[OpenBlock, Prepare]] = []
        self._calling = 0  # calls of this object under way now
        self._running = 0  # runs of its blocks that this object makes, under way now
        self.installed: list[Installed] = []
        """Hooks of the :meth:`hooks` blocks that are open, in the order of opening."""
        self.hook_versions: dict[int, str | None] = {}
        """Of the hooks that :meth:`hooks` opened, by the identity of their handles."""
        self._built_in = self._hooks_of_the_lens()
        norms = [part for name, part in lens.named_children() if name.endswith("ln_final")]
        self._places = list(places(lens, [*self.blocks, *norms]))

    if not TYPE_CHECKING:  # a type checker refuses unknown names itself

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed, by its own error
                return object.__getattribute__(self, name)
            lens = vars(self).get("lens")
            own = getattr(lens, "__dict__", {})
            theirs = not name.startswith("_") and (hasattr(type(lens), name) or name in own)
            where = f"; TransformerLens' own is model.lens.{name}" if theirs else ""
            kind = type(self).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}{where}", name=name)

    def __dir__(self) -> list[str]:
        """What a user calls, for tab completion; the rest is for this library's own rooms."""
        return [name for name in self.USED if hasattr(self, name)]

    def __deepcopy__(self, memo: dict[int, Any]) -> LensModel:
        from interp_compose.models.weights import copy_model

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
            f"dtype={str(self.dtype).removeprefix('torch.')})"
        )

    def _repr_html_(self) -> str:
        values: dict[str, object] = {
            "layers": self.n_layers,
            "heads": self.n_heads,
            "d_model": self.d_model,
            "vocabulary": self.d_vocab,
            "context": self.n_ctx,
            "weights": f"{self.n_weights:,}",
            "device, dtype": f"{self.device}, {str(self.dtype).removeprefix('torch.')}",
            "tokenizer": "none" if self.tokenizer is None else type(self.tokenizer).__name__,
        }
        if self.training:
            values["mode"] = "training: measurements are refused until model.eval()"
        if self.active_hooks:
            values["open now"] = ", ".join(self.active_hooks)
        return block(type(self).__name__, f"{self.name} · {self.architecture}", facts(values))

    # ---- what an implementation provides ------------------------------------------------

    @abstractmethod
    def _resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos d_model"]: ...

    @abstractmethod
    def _run_blocks(
        self, streams: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream pos d_model"]: ...

    @abstractmethod
    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]: ...

    def _final(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        """The last hidden state, from what leaves the last block."""
        return resid

    def _forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"],
        *,
        read: Read,
    ) -> Float[Tensor, "batch _ width"]:
        return self._read(self._resid_pre(tokens, self.n_layers, attention_mask), read)

    def _resume(
        self, streams: Streams, start: int, *, read: Read
    ) -> Float[Tensor, "stream _ width"]:
        return self._read(self._run_blocks(streams, start, self.n_layers), read)

    def _read(
        self, resid: Float[Tensor, "batch pos resid_width"], read: Read
    ) -> Float[Tensor, "batch _ width"]:
        """The output that ``read`` names, from what leaves the last block."""
        if read == "hidden":
            return self._final(resid)
        return self._unembed(resid[:, -last_positions(read, resid.shape[1]) :])

    def _apply_entry_hooks(self, resid: Tensor, layer: int) -> Tensor:
        """The residual that enters block ``layer``, after the hooks on ``hook_resid_pre``; what
        leaves the last block enters none."""
        if layer == self.n_layers:
            return resid
        out: Tensor = self._entry(layer)(resid)
        return out

    def _plain(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        logits: Tensor = self.lens(tokens)
        return logits

    @abstractmethod
    def _plain_hidden(
        self, tokens: Int[Tensor, "batch pos"]
    ) -> Float[Tensor, "batch pos d_model"]: ...

    @property
    def hook_dict(self) -> Mapping[str, Any]:
        """Every hook point by each of its names, aliases included."""
        points: Mapping[str, Any] = self.lens.hook_dict
        return points

    @property
    def hook_names(self) -> Sequence[str]:
        """Every hook name the model knows, aliases included."""
        return list(self.hook_dict)

    # ---- layers, positions and tokens ----------------------------------------------------

    @property
    def blocks(self) -> Sequence[Any]:
        """The modules of all layers."""
        return list(self.lens.blocks)

    @property
    def stacks(self) -> Sequence[range]:
        """Layers that run one after another on one sequence; an encoder–decoder has two stacks."""
        return [range(self.n_layers)]

    def prefix(self, layer: int) -> str:
        """What the hook names of a layer's own sublayers begin with."""
        return f"blocks.{layer}"

    def attention_sites(self, layer: int) -> Sequence[AttentionSite]:
        """The attentions of a layer; a decoder layer of an encoder–decoder has two."""
        return (AttentionSite(layer),)

    def sublayers(self, layer: int) -> Mapping[str, str]:
        """What adds to the residual in a layer: each sublayer's name, and the hook point of what
        it adds."""
        prefix = self.prefix(layer)
        return {"attn": f"{prefix}.hook_attn_out", "mlp": f"{prefix}.hook_mlp_out"}

    def side_of(self, layer: int) -> Side:
        """Whose positions the activations inside a layer have; None: the whole sequence's."""
        return None

    def at_side(self, values: Tensor, side: Side) -> Tensor:
        """``[batch pos ...]`` of the running call, as the layers of ``side`` have its positions."""
        return values

    def positions(
        self, tokens: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        """The position of each token, counted over real ones: the ``position_ids`` of
        :meth:`run_blocks` and :meth:`resume`."""
        return positions_from_mask(attention_mask)

    def renumbered(
        self, position_ids: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        """Positions 0, 1, 2, … in the place of others."""
        return positions_from_mask(attention_mask)

    def own_mask(
        self, tokens: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"], side: Side
    ) -> Bool[Tensor, "batch own"]:
        """Real tokens of a call, as the layers of ``side`` have its positions."""
        return attention_mask.bool()

    @property
    def d_vocab_source(self) -> int:
        """Token ids that a text may hold are below it; of encoder–decoders, a source text."""
        return self.d_vocab

    @property
    def target_start(self) -> Sequence[int]:
        """Ids that follow a text in a call: of encoder–decoders, those with which targets begin."""
        return ()

    @property
    def n_ids(self) -> int:
        """Token ids that a call may hold are below it; of encoder–decoders, those of both sides."""
        return self.d_vocab

    @property
    def max_length(self) -> int:
        """Positions that a call may have."""
        return self.n_ctx

    def predicts(self, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
        """Where there are logits: everywhere, but for the source of an encoder–decoder."""
        return torch.ones_like(tokens, dtype=torch.bool)

    def random_tokens(
        self, batch: int, length: int, generator: torch.Generator
    ) -> Int[Tensor, "batch pos"]:
        """Token ids that a call may hold, on the CPU; never the model's padding."""
        tokens = torch.randint(0, self.d_vocab, (batch, length), generator=generator)
        if self.pad_id is not None:
            tokens = tokens.masked_fill(tokens == self.pad_id, (self.pad_id + 1) % self.d_vocab)
        return tokens

    def shifted(
        self, tokens: Int[Tensor, "batch pos"], shift: Int[Tensor, "batch pos"] | int
    ) -> Int[Tensor, "batch pos"]:
        """Ids moved on by ``shift``, cyclically, within the vocabulary that each belongs to."""
        return (tokens + shift) % self.d_vocab

    def _entry(self, layer: int) -> Any:
        """The hook point at the input of a block."""
        return self.blocks[layer].hook_resid_pre

    # ---- running -------------------------------------------------------------------------

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

    def plain(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits of the wrapped object called with token ids and nothing else: no mask, no
        positions, no wrapper of :meth:`around`. What every other call is compared with."""
        check_call(tokens, None)
        with self._read_by_name(tokens), self._own_run():
            return self._plain(tokens)

    def plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        """Like :meth:`plain`, the last hidden state instead of logits."""
        check_call(tokens, None)
        with self._read_by_name(tokens), self._own_run():
            return self._plain_hidden(tokens)

    def encode(
        self, tokens: Inputs, *, attention_mask: Int[Tensor, "batch pos"] | None = None
    ) -> Float[Tensor, "batch _ d_model"]:
        """The last hidden state ``[batch pos d_model]``, in which embeddings of texts are read."""
        return self.forward(tokens, attention_mask=attention_mask, read="hidden")

    def forward(
        self,
        tokens: Inputs,
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        read: Read = "logits",
    ) -> Float[Tensor, "batch _ width"]:
        """Logits at every position, those at the last one (``read="last"``, a third cheaper on
        GPT-2 small) or last few (``read=3``), or the last hidden state (``read="hidden"``).

        Raises:
            OptionError: an unknown ``read``, or a number below 1.
            InputError: no token ids ``[batch pos]``, ids outside the vocabulary (on CPU), or a mask
                of another shape or kind, or with other numbers than 0 and 1; texts with a mask, or
                that :meth:`tokenize` refuses.
            CapabilityError: padding in float64, on an architecture that makes NaN of it.
            ModelInUseError: another thread or asyncio task is using the model.
        """
        _check_read(read)
        tokens, mask = self._checked(tokens, attention_mask)
        with self._read_by_name(tokens), self._own_run():
            return self._called(tokens, mask, read)

    def _checked(
        self, inputs: Inputs, attention_mask: Int[Tensor, "batch pos"] | None
    ) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        """The token ids of a call, and its mask."""
        tokens, mask = as_call(self, inputs, attention_mask)
        check_call(tokens, mask)
        mask = torch.ones_like(tokens) if mask is None else mask
        self._padding.check(mask)
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
        return captured(self, tokens, names_filter, **options)

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
        them; without it nothing is recorded.

        Args:
            tokens: ids, or texts.
            names_filter: names of hook points; a filter, which is given every name; None for all
                hook points, each by one of its names. Of the last two, those that the call does
                not pass through are left out.
            attention_mask: 0 at padding.
            grad: see above.
            read: what is returned beside the activations.

        Raises:
            OptionError: a name that the model does not have, or a filter that takes none.
            CapabilityError: a name of a hook point that shows something else than it is named for.
            UserWarning: a filter took such hook points; they are left out.
            InterventionError: a named hook point that never fired; of a filter's, that none did.
        """
        options: Any = {"attention_mask": attention_mask, "grad": grad, "read": read}
        return captured(self, tokens, names_filter, **options)

    def capture_as_shown(
        self,
        tokens: Inputs,
        names: Sequence[str],
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        grad: bool = False,
        read: Read = "logits",
    ) -> tuple[Float[Tensor, "batch _ width"], Activations]:
        """Like :meth:`capture`, whatever a hook point shows: for activations that an edit puts back
        where they were read.

        Raises:
            OptionError, InterventionError: as :meth:`capture`.
        """
        options: Any = {"attention_mask": attention_mask, "grad": grad, "read": read}
        return read_at(self, tokens, names, **options)

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
            Of texts, texts: the prompt and what follows (of an encoder–decoder the target), without
            special tokens; one of a single text. Of ids, ids ``[row pos]``, prompts included. With
            ``return_dict_in_generate=True``, what Hugging Face returns.

        Raises:
            CapabilityError: an encoder.
            OptionError: an option that Hugging Face refuses, or that cannot be had here.
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

    @intervention
    def hooks(
        self,
        fwd_hooks: Sequence[tuple[str | Callable[[str], bool], HookFn]],
        *,
        version: str | None = None,
    ) -> Iterator[LensModel]:
        """Hooks for the length of a ``with`` block, gone after it however it ends.

        A name is a hook point's, an alias, or a predicate on names. Nesting composes: outer hooks
        run first.

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
        n_open = len(self.installed)
        with (
            self.exclusive.held(self.name),
            hooked(self, fwd_hooks, version) as log,
            self._in_place([hook.module for hook in self.installed[n_open:]]),
        ):
            yield self
        if not self._proving:
            self.proofs.prove_edits(log.edited)
            self.proofs.prove_shown(log.read)

    @intervention
    def editing_attention(
        self, edits: Mapping[int, AttentionEdit] | Mapping[AttentionSite, AttentionEdit]
    ) -> Iterator[LensModel]:
        """Edits of the scores that enter each layer's softmax and of the pattern that leaves it, by
        layer (-1: the last one; every attention in it) or by one of its :meth:`attention_sites`.

        They act on every architecture, also where TransformerLens discards edits of
        ``attn.hook_pattern``; hooks there see the edited pattern. Nesting composes.

        Raises:
            LayerError: a layer outside the model.
            CapabilityError: a probe shows that edits do not act on this model as they should.
            InterventionError: at once, an attention that does not run exactly one softmax; on
                leaving, an attention that was never run.
        """
        by_site: dict[AttentionSite, AttentionEdit] = {}
        for at, edit in edits.items():
            layer = resolve_layer(at if isinstance(at, int) else at.layer, self.n_layers)
            sites = (
                self.attention_sites(layer) if isinstance(at, int) else [replace(at, layer=layer)]
            )
            by_site |= dict.fromkeys(sites, edit)
        if not self._proving:
            self.require("mask_attention")
        attentions = {site: self._attention(site) for site in by_site}
        with (
            self.exclusive.held(self.name),
            edited_attention(attentions, by_site),
            self._in_place(attentions.values()),
        ):
            yield self

    @contextmanager
    def _in_place(self, edited: Iterable[nn.Module]) -> Iterator[None]:
        """Refuse, on leaving, a block in which something took parts under an edit out of the model.

        Raises:
            InterventionError: names what was done, and what to do.
        """
        module: nn.Module = getattr(self.lens, "original_model", self.lens)
        before = {id(part) for part in edited} & {id(part) for part in module.modules()}
        yield
        if before - {id(part) for part in module.modules()}:
            raise InterventionError(
                f"{self.name!r}: a module under an edit was replaced or removed inside the `with` "
                "block, so that calls after that ran without the edit; change the module first, "
                "and load it again."
            )

    @intervention
    def activation_checkpointing(self) -> Iterator[None]:
        """Calls inside the ``with`` block keep less for the backward pass, and compute it again.

        The backward pass may come after the block. It has to come while the edits under which a
        block ran are open, and no other: the second computation runs under those of its own time.

        Raises:
            InterventionError: in the backward pass, an edit that acted in the forward pass is
                closed, or another one acts.
        """
        with self.exclusive.held(self.name), recomputing(self.blocks):
            yield

    def resid_pre(
        self,
        tokens: Inputs,
        layer: int,
        *,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual that enters block ``layer`` (-1: the last one); nothing above it is run.

        Hooks on ``blocks.{layer}.hook_resid_pre`` have acted on it, as they have on what
        :meth:`run_blocks` returns; :meth:`run_blocks` and :meth:`resume` do not apply them again.

        Raises:
            LayerError: a layer outside the model.
            InterventionError: inside a block of :func:`pool_at`, which acts on calls.
        """
        layer = resolve_layer(layer, self.n_layers)
        tokens, mask = self._checked(tokens, attention_mask)
        with self._read_by_name(tokens), self._own_run(), ExitStack() as blocks:
            self._refuse_between()
            if not self._calling:
                for _, prepare in self._preparations:
                    blocks.enter_context(prepare(tokens, mask))
            return self._resid_pre(tokens, layer, mask)

    def run_blocks(
        self,
        resid: Float[Tensor, "stream pos width"],
        start: int,
        stop: int,
        *,
        attention_mask: Int[Tensor, "stream pos"],
        position_ids: Int[Tensor, "stream pos"],
        prefix: Prefix | None = None,
    ) -> Float[Tensor, "stream pos _"]:
        """The residual that enters block ``stop``, from the one that enters block ``start``.

        Negative numbers count from the end. ``position_ids`` are what rotary embeddings read.
        ``stop`` is at most ``n_layers - 1``: what leaves the last block is read by
        :meth:`resume`. With a ``prefix``, from :meth:`keeping`, ``resid`` is what follows it.

        Raises:
            LayerError: a layer outside the model, or ``start`` not before ``stop``.
            InterventionError: inside a block of :func:`pool_at`, which acts on calls.
        """
        first, last = resolve_layer(start, self.n_layers), stop
        if stop != self.n_layers:
            last = resolve_layer(stop, self.n_layers)
        if not first < last < self.n_layers:
            raise LayerError(
                f"cannot run from block {start} to block {stop}: expected start before stop, and "
                f"stop at most {self.n_layers - 1}; use resume() to run to the end."
            )
        self._refuse_between()
        self._check_stream(resid, first)
        check_call(position_ids, attention_mask)
        with self._placed_by_name(position_ids), self._own_run():
            streams = Streams(resid, attention_mask, position_ids, prefix)
            return self._run_blocks(streams, first, last)

    def resume(
        self,
        resid: Float[Tensor, "stream pos resid_width"],
        start: int,
        *,
        attention_mask: Int[Tensor, "stream pos"],
        position_ids: Int[Tensor, "stream pos"],
        read: Read = "last",
        prefix: Prefix | None = None,
    ) -> Float[Tensor, "stream _ width"]:
        """Run from the residual that enters block ``start`` (-1: the last one).

        Returns what ``read`` names, as of :meth:`forward`; ``prefix`` as in :meth:`run_blocks`.

        Raises:
            LayerError: a layer outside the model.
            OptionError: as :meth:`forward`.
            InterventionError: as :meth:`run_blocks`.
        """
        _check_read(read)
        start = resolve_layer(start, self.n_layers)
        self._refuse_between()
        self._check_stream(resid, start)
        check_call(position_ids, attention_mask)
        with self._placed_by_name(position_ids), self._own_run():
            streams = Streams(resid, attention_mask, position_ids, prefix)
            return self._resume(streams, start, read=read)

    @contextmanager
    def keeping(self) -> Iterator[Callable[[], Kept]]:
        """Gives the keys and values of the call that is made inside the ``with`` block, for streams
        that continue it (:class:`.prefix.Prefix`). Those of probes are left out.

        Raises:
            CapabilityError: they are kept of models behind a TransformerBridge alone.
        """
        raise CapabilityError(f"{self.architecture} does not give its keys and values")

    @property
    def continues(self) -> bool:
        """Whether streams may leave out what comes before their first change: the probe ``prefix``
        held, and nothing acts on the model, which would miss what is not run."""
        if self.active_hooks:
            return False
        return self.capabilities["prefix"].held

    def unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits from the residual that leaves the last block: final norm, unembedding, caps."""
        self._check_stream(resid, self.n_layers)
        with self._own_run():
            return self._unembed(resid)

    # ---- wrappers and hooks --------------------------------------------------------------

    @property
    def wrappers(self) -> Sequence[CallWrapper]:
        """Those of the :meth:`around` blocks that are open."""
        return tuple(wrapper for _, wrapper in self._wrappers)

    @contextmanager
    def around(
        self, wrapper: CallWrapper, name: str = "a wrapper", hooks: Sequence[Installed] = ()
    ) -> Iterator[LensModel]:
        """Every call of the model goes through ``wrapper`` for the length of a ``with`` block; in
        it, whatever else runs a block (:attr:`lens`, the Hugging Face module, ``generate`` of
        either) is refused.

        ``wrapper(inner, tokens, attention_mask, read)`` returns the output that ``read``
        names; ``inner`` is the call as it was outside the block, so that blocks nest. ``name``
        stands in :attr:`active_hooks`, as long as all of ``hooks`` act, which belong to it.
        """
        with self.exclusive.held(self.name):
            opened = (OpenBlock(name, hooks), wrapper)
            self._wrappers.append(opened)
            guards: list[Installed] = []
            try:
                for part in (self.lens, *self.blocks):
                    guard = part.register_forward_pre_hook(self._refuse_past_wrappers)
                    guards.append(
                        Installed(part, guard, f"a guard of {name}", "_forward_pre_hooks")
                    )
                yield self
                check_installed(guards)
            finally:
                for one in guards:
                    one.handle.remove()
                self._wrappers.remove(opened)

    @contextmanager
    def preparing(
        self, prepare: Prepare, name: str = "a preparation", hooks: Sequence[Installed] = ()
    ) -> Iterator[LensModel]:
        """Every call of the model runs inside ``prepare(tokens, attention_mask)``, a ``with``
        block, whatever wrappers do to the call; for edits that depend on the call's tokens.
        ``name`` and ``hooks`` as of :meth:`around`."""
        with self.exclusive.held(self.name):
            opened = (OpenBlock(name, hooks), prepare)
            self._preparations.append(opened)
            try:
                yield self
            finally:
                self._preparations.remove(opened)

    @property
    def preparations(self) -> Sequence[Prepare]:
        """Those of the :meth:`preparing` blocks that are open."""
        return tuple(prepare for _, prepare in self._preparations)

    def _called(self, tokens: Tensor, mask: Tensor, read: Read) -> Tensor:
        """One call: prepared, wrapped, run."""
        if not self._proving:
            check_installed(self.installed)
        with ExitStack() as open_blocks:
            for _, prepare in self._preparations:
                open_blocks.enter_context(prepare(tokens, mask))
            self._calling += 1
            try:
                return self._wrapped(len(self._wrappers))(tokens, mask, read)
            finally:
                self._calling -= 1

    def _wrapped(self, depth: int) -> ForwardFn:
        if depth == 0:
            return lambda tokens, mask, read: self._forward(tokens, mask, read=read)
        (opened, wrapper), inner = self._wrappers[depth - 1], self._wrapped(depth - 1)
        refuse_recording(opened.name)
        return lambda tokens, mask, read: wrapper(inner, tokens, mask, read)

    @contextmanager
    def _own_run(self) -> Iterator[None]:
        """Blocks run by this object, and not past it, for the length of a ``with`` block."""
        with self.exclusive.held(self.name):
            self.check_in_place()
            self._running += 1
            try:
                yield
            finally:
                self._running -= 1

    def _refuse_past_wrappers(self, module: Any, args: Any) -> None:
        if not self._running:
            self.refuse_wrappers(f"the wrapped model (its {type(module).__name__})")

    def _refuse_between(self) -> None:
        """Refuse a run of some blocks by the user, not by a wrapper of a call."""
        if not self._calling:
            self.refuse_wrappers("a run of some of its blocks")

    def check_in_place(self) -> None:
        """Refuse a model whose wrapped module runs other layers than TransformerLens shows.

        Raises:
            CapabilityError: names the first that was moved, replaced, added or removed.
        """
        for holder, path, part in self._places:
            if not is_at(holder, path, part):
                where = ".".join([path_of(self.lens, holder), *path]).lstrip(".")
                raise CapabilityError(
                    f"{where} of {self.name!r} was moved, replaced, added or removed since the "
                    "model was loaded, and hooks and weights would be of what was there. Undo it, "
                    "or change the module first and load it again with load_model."
                )

    def refuse_wrappers(self, what: str) -> None:
        """Refuse what a wrapper of :meth:`around` would not act on.

        Raises:
            InterventionError: one is open; ``what`` was called.
        """
        if self._wrappers:
            raise InterventionError(
                f"{self.name!r}: {what} was called inside a block of pool_at, which acts on "
                "calls of the model alone, so that this one would bypass it. Call model(…), "
                "model.generate(…), model.encode(…) or model.capture(…)."
            )

    @property
    def active_hooks(self) -> list[str]:
        """What acts on the model now and did not come with TransformerLens or transformers.

        Open interventions by name, then hooks at hook points (with their version, see
        :meth:`LensModel.hooks`), plain PyTorch hooks on any module, registered before or after
        loading, and edited attentions.
        """
        return self._open_blocks() + sorted({name for name, _ in self._acting()})

    @property
    def unversioned_hooks(self) -> list[str]:
        """Those of :attr:`active_hooks` that no version names: what they compute is not known."""
        unversioned = {name for name, version in self._acting() if version is None}
        return self._open_blocks() + sorted(unversioned)

    def _open_blocks(self) -> list[str]:
        opened = [block for block, _ in (*self._wrappers, *self._preparations)]
        return list(dict.fromkeys(block.name for block in opened if block.acts))

    def _acting(self) -> Iterator[tuple[str, str | None]]:
        for hook in found_hooks(self.lens, self.hook_dict):
            if hook.handle in self.hook_versions:
                version = self.hook_versions[hook.handle]
                yield (hook.name if version is None else f"{hook.name} ({version})"), version
            elif hook.handle not in self._built_in:
                yield hook.name, None
        for site in self._all_sites():
            if is_edited(self._attention(site)):
                yield f"{self.prefix(site.layer)}.{site.name}: edited attention", None

    def _hooks_of_the_lens(self) -> Mapping[int, Any]:
        """Handles at hook points that were there at loading and are a framework's, or of which the
        lens does not record whose they are (transformer-lens 3.9), and PyTorch's functions of them;
        by identity, and kept, so that no later one takes it over."""
        handles = (
            (handle, {**point._forward_hooks, **point._backward_hooks}.get(handle.hook.id))
            for point in self.lens.hook_dict.values()
            for handle in (*point.fwd_hooks, *point.bwd_hooks)
        )
        return {id(one): one for both in handles if not of_the_user(both[0]) for one in both}

    # ---- weights, mode and device --------------------------------------------------------

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
        with acting(self.lens, self.lens, name=name):
            try:
                weight = getattr(self.lens, name)
                in_blocks = [
                    layer
                    for layer, block in enumerate(self.blocks)
                    if any(isinstance(getattr(one, name, None), Tensor) for one in block.children())
                ]
            except (AttributeError, NotImplementedError, ValueError, RuntimeError) as missing:
                raise CapabilityError(
                    f"{self.architecture} offers no stacked {name!r} ({missing}); read it from "
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
        return weight

    def state_dict(self) -> Mapping[str, Tensor]:
        """Every parameter and buffer, by TransformerLens' names; what it leaves out (adapters,
        experts) by its own."""
        state: dict[str, Tensor] = self.lens.state_dict()
        split = [part for part in self.lens.modules() if "split_qkv_matrix" in vars(part)]
        unused = (one for part in split if "qkv" in part._modules for one in part.qkv.parameters())
        held = {tensor.data_ptr() for tensor in (*state.values(), *unused)}
        own = getattr(self.lens, "original_model", self.lens).state_dict().items()
        left = {name: tensor for name, tensor in own if tensor.data_ptr() not in held}
        return state | {name.replace(f".{INSERTED}", ""): one for name, one in left.items()}

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

    def parameters(self) -> Iterator[nn.Parameter]:
        """Trainable parameters, each once."""
        return iter(self.lens.parameters())

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

    def train(self, mode: bool = True) -> LensModel:
        """Dropout on (or off); returns the model."""
        self.lens.train(mode)
        return self

    def eval(self) -> LensModel:
        """Dropout off; returns the model."""
        return self.train(False)

    @property
    def training(self) -> bool:
        """Whether any part of the model is in training mode."""
        return any(module.training for module in self.lens.modules())

    @property
    def device(self) -> torch.device:
        """Where token ids are expected."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Of the first parameter."""
        return next(self.parameters()).dtype

    # ---- proof ---------------------------------------------------------------------------

    def require(self, *capabilities: str) -> None:
        """Refuse, by name, what a probe of a few tokens shows this model does not honour.

        The probe runs once per model, when a capability is first needed.

        Raises:
            CapabilityError: what failed, on which architecture, and what works instead.
        """
        self.capabilities.check(capabilities, self.architecture)

    @property
    def capabilities(self) -> Capabilities:
        """What the probe of a few tokens found; run on first use."""
        if self._capabilities is None:
            with self.bare():
                self._capabilities = prove_capabilities(self)
        return self._capabilities

    @property
    def is_proving(self) -> bool:
        """Whether a probe of the model is running."""
        return self._proving

    def is_proven(self, capabilities: Capabilities) -> None:
        """Take over what the probe found on a model of the same class and config, whose weights
        alone differ."""
        self._capabilities = capabilities

    def probing(
        self, tokens: Int[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"], *, read: Read
    ) -> Float[Tensor, "batch _ width"]:
        """A call of the model as it is, without the user's hooks, edits, wrappers and dropout."""
        with self.bare():
            tokens, mask = tokens.to(self.device), mask.to(self.device)
            return self.forward(tokens, attention_mask=mask, read=read)

    @contextmanager
    def _read_by_name(self, tokens: Tensor) -> Iterator[None]:
        """A sequence that the model cannot read is refused by name, once it has failed: rotary
        models read beyond their context, and checking ids on CUDA beforehand would block."""
        try:
            yield
        except InterpComposeError:
            raise
        except (IndexError, RuntimeError) as error:
            beyond = tokens[(tokens < 0) | (tokens >= self.n_ids)]
            if len(beyond):
                raise InputError(
                    f"token id {int(beyond[0])}: expected 0 to {self.n_ids - 1}; these are not "
                    "ids of this model's vocabulary"
                ) from error
            if tokens.shape[1] > self.n_ctx:
                raise PromptError(
                    f"{tokens.shape[1]} tokens, and {self.name!r} reads {self.n_ctx}; shorten them"
                ) from error
            raise

    @contextmanager
    def _placed_by_name(self, position_ids: Tensor) -> Iterator[None]:
        """Positions that the model does not have are refused by name, once they have failed."""
        try:
            yield
        except (IndexError, RuntimeError) as error:
            beyond = position_ids[(position_ids < 0) | (position_ids >= self.n_ctx)]
            if isinstance(error, InterpComposeError) or not len(beyond):
                raise
            raise PositionError(
                f"position_ids hold {int(beyond[0])}: expected 0 to {self.n_ctx - 1}"
            ) from error

    def _width(self, layer: int) -> int:
        """Of the residual that enters block ``layer``, or leaves the last one."""
        return self.d_model

    def _check_stream(self, resid: Tensor, layer: int) -> None:
        """Refuse a residual that does not enter block ``layer`` of this model."""
        width, dtype = self._width(layer), self.dtype
        cast = torch.is_autocast_enabled(resid.device.type)
        if resid.shape[2] != width or not resid.numel() or (resid.dtype != dtype and not cast):
            raise InputError(
                f"resid is {list(resid.shape)} of {resid.dtype}; expected [batch pos {width}] of "
                f"{dtype}, at least one position"
            )

    @contextmanager
    def bare(self, *, evaluating: bool = True) -> Iterator[None]:
        """Without hooks, edits, wrappers, autocast and (unless ``evaluating`` is off) dropout: what
        is proven is the model."""
        with (
            self.exclusive.held(self.name),
            in_evaluation_mode(self.lens) if evaluating else nullcontext(),
            torch.autocast(self.device.type, enabled=False),
            without_hooks(set(self.hook_dict.values())),
            unedited(map(self._attention, self._all_sites())),
        ):
            wrappers, self._wrappers = self._wrappers, []
            preparations, self._preparations = self._preparations, []
            proving, self._proving = self._proving, True
            keeping, self._keeping = self._keeping, {}
            try:
                yield
            finally:
                self._proving, self._keeping = proving, keeping
                self._wrappers, self._preparations = wrappers, preparations

    def n_neurons(self) -> int:
        """Neurons of the first layer's MLP; measured once on two tokens, at ``mlp.hook_post``.

        Raises:
            CapabilityError: there is no layer of neurons: in a mixture of experts ``hook_post`` is
                the MLP's output.
        """
        if self._d_mlp is None:
            name, out = f"{self.prefix(0)}.mlp.hook_post", self.sublayers(0)["mlp"]
            tokens = self.random_tokens(1, min(2, self.n_ctx), torch.Generator().manual_seed(0)).to(
                self.device
            )
            with self.bare():
                _, store = self.capture(tokens, [name, out], read="hidden")
            if store[name].shape == store[out].shape and torch.equal(store[name], store[out]):
                raise CapabilityError(
                    f"{self.architecture} shows its MLP's output at mlp.hook_post, as mixtures of "
                    "experts do, so that it has no neurons to name; ablate the MLP at chosen "
                    "positions with mask_residual(part='mlp')."
                )
            self._d_mlp = int(store[name].shape[-1])
        return self._d_mlp

    # ---- details -------------------------------------------------------------------------

    def _attention(self, site: AttentionSite) -> nn.Module:
        attention: nn.Module = getattr(self.blocks[site.layer], site.name)
        return attention

    def _all_sites(self) -> Iterator[AttentionSite]:
        for layer in range(self.n_layers):
            yield from self.attention_sites(layer)


def _check_read(read: Read) -> None:
    if isinstance(read, int) and read < 1:
        raise OptionError(f"read={read}: expected 1 or more, the number of last positions.")
