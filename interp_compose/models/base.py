"""What a model is made of, and how it runs: what everything else here is given, before anything is
proven of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from interp_compose._public import public
from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterpComposeError,
    LayerError,
    OptionError,
    PositionError,
    PromptError,
)
from interp_compose.models.attention import AttentionSite, edited_attention, unedited
from interp_compose.models.block import intervention
from interp_compose.models.effective_weights import is_at, path_of, places
from interp_compose.models.hooks import check_call, in_evaluation_mode, without_hooks
from interp_compose.models.layers import resolve_layer
from interp_compose.models.open_blocks import OpenBlocks, Wrapped
from interp_compose.models.prefix import Kept, Prefix
from interp_compose.models.rotary import LengthLimit
from interp_compose.models.sentence_config import SentenceConfig
from interp_compose.tensors import positions_from_mask
from interp_compose.types import AttentionEdit, Inputs, Read, Side, last_positions

M = TypeVar("M", bound="BaseModel")


@dataclass(frozen=True)
class Streams:
    """Residuals that enter a block, and the mask and positions that go with them.

    ``mask`` is 1 for real positions, 0 for padding; ``positions`` are those of rotary embeddings
    (:meth:`BaseModel.positions`); ``prefix`` is what comes before the streams, where they begin
    in the middle of a sequence.
    """

    resid: Float[Tensor, "stream pos width"]
    mask: Int[Tensor, "stream pos"]
    positions: Int[Tensor, "stream pos"]
    prefix: Prefix | None = None


@public
class BaseModel(Wrapped):
    """Layers, positions and tokens of a model, and its runs under the blocks that are open.

    Attributes:
        lens: the object of TransformerLens that is wrapped.
        open_blocks: what acts on the model now.
    """

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
    dequantised_from: str = ""
    """Kinds of quantised numbers that its weights were read from; empty where none was."""
    stated: SentenceConfig | None = None
    """The embedding that its sentence-transformers folder states."""
    keeps_to_names: bool = False
    """Whether hook points are this library's own, which its tests hold to their names."""
    recurrent_target: bool = False
    """Whether target tokens reach later ones through a recurrent unit, so that no knock-out of
    attention keeps them apart."""
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
        self.open_blocks = OpenBlocks.of(self)
        self._keeping: dict[str, Any] = {}  # options of the call whose keys and values are kept
        self._trying_short_end = False  # a probe runs the last block so
        # Where blocks and final norms are now, which check_in_place() looks at before each run.
        norms = [part for name, part in lens.named_children() if name.endswith("ln_final")]
        self._places = list(places(lens, [*self.blocks, *norms]))

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

    def _run_forward(
        self, tokens: Int[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"], read: Read
    ) -> Float[Tensor, "batch _ width"]:
        return self._forward(tokens, mask, read=read)

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
        # [batch pos width] -> [batch last width]: logits are computed at the last positions alone.
        return self._unembed(resid[:, -last_positions(read, resid.shape[1]) :])

    def _apply_entry_hooks(self, resid: Tensor, layer: int) -> Tensor:
        """The residual that enters block ``layer``, after the hooks on ``hook_resid_pre``; what
        leaves the last block enters none."""
        if layer == self.n_layers:
            return resid
        out: Tensor = self._entry(layer)(resid)  # a hook point is the identity, but for its hooks
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
        """The beginning of the hook names of a layer's own sublayers."""
        return f"blocks.{layer}"

    def attention_sites(self, layer: int) -> Sequence[AttentionSite]:
        """The attentions of a layer; a decoder layer of an encoder–decoder has two."""
        return (AttentionSite(layer),)

    def sublayers(self, layer: int) -> Mapping[str, str]:
        """What adds to the residual in a layer: each sublayer's name, and the hook point of what
        it adds."""
        prefix = self.prefix(layer)
        return {"attn": f"{prefix}.hook_attn_out", "mlp": f"{prefix}.hook_mlp_out"}

    def entered(self, layer: int) -> str:
        """The hook point of what enters a layer's first sublayer."""
        return f"{self.prefix(layer)}.{self.attention_sites(layer)[0].name}.hook_in"

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
        """Every token id of a text is below it (of a source text, in an encoder–decoder)."""
        return self.d_vocab

    @property
    def target_start(self) -> Sequence[int]:
        """Ids that follow a text in a call: those with which an encoder–decoder's target begins."""
        return ()

    @property
    def n_ids(self) -> int:
        """Every token id of a call is below it; an encoder–decoder counts those of both sides."""
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

    def plain(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits of the wrapped object called with token ids and nothing else: no mask, no
        positions, no wrapper of :meth:`around`. What every other call is compared with."""
        check_call(tokens, None)
        with self._read_by_name(tokens), self._own_run():
            return self._plain(tokens)

    def plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        """The last hidden state of the call that :meth:`plain` makes."""
        check_call(tokens, None)
        with self._read_by_name(tokens), self._own_run():
            return self._plain_hidden(tokens).to(self.device)

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
            return self.open_blocks.call(self._run_forward, tokens, mask, read).to(self.device)

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
        with self._read_by_name(tokens), self._own_run():
            self.open_blocks.refuse_between()
            with self.open_blocks.prepared(tokens, mask):
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
        # n_layers is no layer's number; it is refused below, by the message that names resume().
        first, last = resolve_layer(start, self.n_layers), stop
        if stop != self.n_layers:
            last = resolve_layer(stop, self.n_layers)
        if not first < last < self.n_layers:
            raise LayerError(
                f"cannot run from block {start} to block {stop}: expected start before stop, and "
                f"stop at most {self.n_layers - 1}; use resume() to run to the end."
            )
        self.open_blocks.refuse_between()
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
        self.open_blocks.refuse_between()
        self._check_stream(resid, start)
        check_call(position_ids, attention_mask)
        with self._placed_by_name(position_ids), self._own_run():
            streams = Streams(resid, attention_mask, position_ids, prefix)
            return self._resume(streams, start, read=read).to(self.device)

    @contextmanager
    def keeping(self) -> Iterator[Callable[[], Kept]]:
        """Gives the keys and values of the call that is made inside the ``with`` block, for streams
        that continue it (:class:`.prefix.Prefix`). Those of probes are left out.

        Raises:
            CapabilityError: they are kept of models behind a TransformerBridge alone.
        """
        raise CapabilityError(f"{self.architecture} does not give its keys and values")

    @contextmanager
    def short_end(self) -> Iterator[None]:
        """A probe runs the last block to its end at the positions that are read alone."""
        self._trying_short_end = True
        try:
            yield
        finally:
            self._trying_short_end = False

    def unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits from the residual that leaves the last block: final norm, unembedding, caps."""
        self._check_stream(resid, self.n_layers)
        with self._own_run():
            return self._unembed(resid).to(self.device)

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

    @abstractmethod
    def _checked(
        self, inputs: Inputs, attention_mask: Int[Tensor, "batch pos"] | None
    ) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        """The token ids of a call, and its mask, once nothing speaks against them."""

    @contextmanager
    def _own_run(self) -> Iterator[None]:
        """Blocks run by this object for the length of a ``with`` block."""
        with self.open_blocks.running():
            self.check_in_place()
            yield

    def _sites(
        self, edits: Mapping[int, AttentionEdit] | Mapping[AttentionSite, AttentionEdit]
    ) -> dict[AttentionSite, AttentionEdit]:
        """Edits by site; an edit of a layer is one of every attention in it."""
        by_site: dict[AttentionSite, AttentionEdit] = {}  # of one named twice, the last edit
        for key, edit in edits.items():
            layer = resolve_layer(key if isinstance(key, int) else key.layer, self.n_layers)
            sites = (
                self.attention_sites(layer) if isinstance(key, int) else [replace(key, layer=layer)]
            )
            by_site |= dict.fromkeys(sites, edit)
        return by_site

    @intervention
    def editing_attention(
        self, edits: Mapping[int, AttentionEdit] | Mapping[AttentionSite, AttentionEdit]
    ) -> Iterator[BaseModel]:
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
        by_site = self._sites(edits)
        self._refuse_attention_edits()
        attentions = {site: self._attention(site) for site in by_site}
        with (
            self.open_blocks.held(),
            edited_attention(attentions, by_site),
            self.open_blocks.in_place(attentions.values()),
        ):
            yield self

    @abstractmethod
    def _refuse_attention_edits(self) -> None:
        """Refuse edits of attention where they were proven not to act."""

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
        """The width of the residual that enters block ``layer``, or leaves the last one."""
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

    # ---- without what acts ---------------------------------------------------------------

    @property
    def is_proving(self) -> bool:
        """Whether a probe of the model is running."""
        return self.open_blocks.proving

    def probing(
        self, tokens: Int[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"], *, read: Read
    ) -> Float[Tensor, "batch _ width"]:
        """A call of the model as it is, without the user's hooks, edits, wrappers and dropout."""
        with self.bare():
            tokens, mask = tokens.to(self.device), mask.to(self.device)
            return self.forward(tokens, attention_mask=mask, read=read)

    @contextmanager
    def bare(self, *, evaluating: bool = True) -> Iterator[None]:
        """The model without hooks, edits, wrappers, autocast and (unless ``evaluating`` is off)
        dropout: what is proven is the model."""
        with (
            self.open_blocks.held(),
            in_evaluation_mode(self.lens) if evaluating else nullcontext(),
            torch.autocast(self.device.type, enabled=False),
            without_hooks(set(self.hook_dict.values())),
            unedited(attention for _, attention in self.attentions()),
            self.open_blocks.set_aside(),
        ):
            # Calls of a probe leave no keys and values in a cache that a caller keeps.
            keeping, self._keeping = self._keeping, {}
            try:
                yield
            finally:
                self._keeping = keeping

    # ---- mode and device ------------------------------------------------------------------

    def parameters(self) -> Iterator[nn.Parameter]:
        """Trainable parameters, each once."""
        return iter(self.lens.parameters())

    def train(self: M, mode: bool = True) -> M:
        """Dropout on (or off); returns the model."""
        self.lens.train(mode)
        return self

    def eval(self: M) -> M:
        """Dropout off; returns the model."""
        return self.train(False)

    @property
    def training(self) -> bool:
        """Whether any part of the model is in training mode."""
        return any(module.training for module in self.lens.modules())

    @property
    def device(self) -> torch.device:
        """Where token ids are expected and outputs come back; residuals, and what hook points show,
        stay where their block is."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the first parameter."""
        return next(self.parameters()).dtype

    def _attention(self, site: AttentionSite) -> nn.Module:
        attention: nn.Module = getattr(self.blocks[site.layer], site.name)
        return attention

    def attentions(self) -> Iterator[tuple[str, nn.Module]]:
        """Every attention module, with the beginning of its hook names."""
        for layer in range(self.n_layers):
            for site in self.attention_sites(layer):
                yield f"{self.prefix(layer)}.{site.name}", self._attention(site)


def _check_read(read: Read) -> None:
    if isinstance(read, int) and read < 1:
        raise OptionError(f"read={read}: expected 1 or more, the number of last positions.")
