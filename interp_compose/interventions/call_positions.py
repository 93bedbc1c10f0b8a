"""The positions that an intervention named, in whatever call of the model is running."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature, unwrap
from numbers import Integral
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from interp_compose.errors import InterventionError
from interp_compose.interventions.pooling import PooledLayout
from interp_compose.interventions.select import (
    Positions,
    as_list,
    numbered,
    refuse_padding,
    resolve_positions,
    warn_of_none,
)
from interp_compose.models.hooks import Installed
from interp_compose.models.lens_model import LensModel
from interp_compose.models.recompute import recalled
from interp_compose.types import Side

_COLLAPSED: WeakKeyDictionary[Any, PooledLayout] = WeakKeyDictionary()
"""By ``lens``, which several objects may wrap."""


@contextmanager
def collapsed(model: LensModel, layout: PooledLayout) -> Iterator[None]:
    """Positions are those of the pooled sequence for the length of a ``with`` block."""
    outer = _COLLAPSED.get(model.lens)
    _COLLAPSED[model.lens] = layout
    try:
        yield
    finally:
        if outer is None:
            del _COLLAPSED[model.lens]
        else:
            _COLLAPSED[model.lens] = outer


def pooled_flags(
    chosen: Bool[Tensor, "batch pos"], layout: PooledLayout, name: str
) -> Bool[Tensor, "batch group"]:
    """Tokens → the positions of the pooled sequence that hold them.

    Raises:
        InterventionError: some tokens of a unit are chosen and some are not, which a pooled vector
            cannot tell apart.
    """
    valid = layout.of_token >= 0
    index = layout.of_token.clamp(min=0)
    # [batch group]: chosen tokens in each unit
    count = torch.zeros_like(layout.mask).scatter_add_(1, index, (chosen & valid).long())
    mixed = (count > 0) & (count < layout.sizes)
    if bool(mixed.any()):
        row, group = mixed.nonzero()[0].tolist()
        tokens = (layout.of_token[row] == group).nonzero()[:, 0].tolist()
        raise InterventionError(
            f"{name} hold some of the tokens {tokens} of row {row}, which a collapse has pooled "
            "into one vector; choose all of them or none, or restrict `layers` to those below the "
            "collapse."
        )
    return count > 0


def _n_cached(argument: Any) -> int:
    """Positions in what a block is given, if it is a cache."""
    if hasattr(argument, "get_seq_length"):
        return int(argument.get_seq_length())
    past = getattr(argument, "past_keys", None)  # HookedTransformer's: [batch pos head d_head]
    return 0 if past is None else int(past.shape[1])


def _generation() -> Mapping[str, Any]:
    """The local names of Hugging Face's generate, where it runs the model; else empty.

    The modules see shapes alone, in which a last piece of one token is like a token that was
    generated, so that the call itself is read.
    """
    from transformers import GenerationMixin

    generate = unwrap(GenerationMixin.generate).__code__
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not generate:
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _in_pieces() -> str | None:
    """The option by which the running generate, if there is one, gives a model something other than
    the whole prompt first."""
    call = _generation()
    config, options = call.get("generation_config"), call.get("kwargs", {})
    for name in ("prefill_chunk_size", "prompt_lookup_num_tokens", "assistant_early_exit"):
        if getattr(config, name, None) is not None or options.get(name) is not None:
            return name
    return None if call.get("assistant_model") is None else "assistant_model"


class CallPositions:
    """``positions`` (see :mod:`.select`) as flags, found anew in each call.

    A call through the model's own surface is announced by :meth:`of_call`. Of one that bypasses it
    (``model.lens.generate``) only the shape is known: numbers and tensors then count the prompt,
    which is the first call's, tokens that are generated later are none of them, and padding is
    what the attention mask of that call says. Numbers from the end are refused where Hugging Face's
    generate fills a prompt in pieces or adds drafts to it; whoever calls the module piece by piece
    makes the first piece the prompt.

    ``chosen``: whether any call so far had such a position.
    """

    def __init__(self, model: LensModel, positions: Positions, name: str) -> None:
        warn_of_none(positions, name)
        self.model, self.positions, self.name = model, positions, name
        self._of_call: Tensor | None = None
        self._prompt: Tensor | None = None  # flags of a prompt that bypassed the surface
        self._cached = 0  # positions in the cache from which such a call goes on
        # the attention mask [batch pos] that such a call was given
        self._mask: Tensor | None = None
        self.chosen = False

    @contextmanager
    def counting(self) -> Iterator[None]:
        """The cache and the mask of each call that bypasses the surface are noted, for the length
        of a ``with`` block."""

        def count(block: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
            self._cached = max(map(_n_cached, (*args, *options.values())), default=0)

        # Whoever runs the model runs its first block, and gives it the cache, if there is one.
        first = self.model.blocks[0]
        watched: list[tuple[nn.Module, Any]] = [(first, count)]

        def note(module: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
            given = signature(module.forward).bind_partial(*args, **options).arguments
            mask = {**given, **given.get("kwargs", {})}.get("attention_mask")
            if mask is not None and not (isinstance(mask, Tensor) and mask.ndim == 2):
                # Made for attention alone; generate has the one of the prompt.
                mask = _generation().get("model_kwargs", {}).get("attention_mask", self._mask)
            self._mask = mask

        lens: Any = self.model.lens
        whole = getattr(lens, "original_model", lens)
        modules = dict.fromkeys([lens, whole, getattr(whole, "base_model", whole)])
        watched += [(module, note) for module in modules]
        installed = [
            Installed(
                module,
                module.register_forward_pre_hook(hook, with_kwargs=True),
                f"an intervention at {self.name}",
                "_forward_pre_hooks",
            )
            for module, hook in watched
        ]
        try:
            yield
        finally:
            for hook in installed:
                hook.handle.remove()

    @contextmanager
    def of_call(self, tokens: Tensor, mask: Tensor) -> Iterator[Bool[Tensor, "batch pos"]]:
        """The positions in the tokens of a call, which :meth:`flags` goes by as long as it runs."""
        outer = self._of_call  # calls may nest: a hook's own, inside another
        self._of_call = resolve_positions(self.model, self.positions, tokens, mask, self.name)
        self.chosen |= bool(self._of_call.any())
        try:
            yield self._of_call
        finally:
            self._of_call = outer

    @property
    def from_the_end(self) -> bool:
        """Whether a number counts from the end of a prompt."""
        if self.positions is None or isinstance(self.positions, Tensor):
            return False
        return any(isinstance(each, Integral) and each < 0 for each in as_list(self.positions))

    @property
    def in_call(self) -> bool:
        """Whether :meth:`of_call` has announced the call that runs."""
        return self._of_call is not None

    def flags(
        self,
        batch: int,
        length: int,
        device: torch.device,
        *,
        start: int = 0,
        fresh: bool = True,
        side: Side = None,
    ) -> Bool[Tensor, "batch length"]:
        """True at the positions named, among ``length`` of the running call from ``start`` on.

        With ``side``, these are the own positions of a stack of an encoder–decoder. In a call that
        was not announced, ``fresh`` means that its first ``length`` positions are a prompt's; else
        it goes on from the prompt before.

        Raises:
            InterventionError: the call has other positions, or they cannot be counted.
        """
        if self._of_call is None:
            if side is not None and self.positions is not None:
                raise InterventionError(
                    f"the wrapped encoder–decoder was called directly, so that {self.name} cannot "
                    "be counted over source and target; call the model that load_model returned: "
                    "model(…) or model.generate(…)."
                )
            return self._by_shape(batch, length, device, start, fresh)
        flags = self._of_call
        layout = _COLLAPSED.get(self.model.lens)  # None where positions are tokens
        if layout is not None:
            flags = pooled_flags(flags, layout, self.name)
        flags = self.model.at_side(flags, side)
        if flags.shape != (batch, length):
            raise InterventionError(
                f"{self.name} belong to a call of {list(flags.shape)} positions, and the model "
                f"runs on {[batch, length]}; something else changed the batch or the length."
            )
        return flags.to(device)

    def flags_like(self, activation: Tensor, side: Side = None) -> Bool[Tensor, "batch pos"]:
        """:meth:`flags` for an activation ``[batch pos ...]`` of a layer of ``side``.

        In a call that was not announced, one position is a token that is generated.

        Raises:
            InterventionError: there was no prompt of two tokens or more before it.
        """
        batch, length = activation.shape[:2]
        return recalled((self, side, batch, length), lambda: self._like(activation, side))

    def _like(self, activation: Tensor, side: Side) -> Bool[Tensor, "batch pos"]:
        batch, length = activation.shape[:2]
        if not self.in_call and self._cached and length > 1 and self.positions is not None:
            raise InterventionError(
                f"the wrapped model goes on by {length} tokens at once from a cache of "
                f"{self._cached} positions, of which {self.name} cannot be counted: a prompt that "
                "was filled outside the block or in chunks, or drafts of assisted generation. Call "
                "model(…) or model.generate(…)."
            )
        if self.in_call or length > 1 or self.positions is None:
            flags = self.flags(batch, length, activation.device, side=side)
        elif self._prompt is None:
            raise InterventionError(
                f"the wrapped model was called on one position: whether that is a prompt, whose "
                f"{self.name} count, or goes on from a cache cannot be told. Call model(…) or "
                "model.generate(…), or give a prompt of two tokens or more."
            )
        else:
            prompt = self._prompt.shape[1]
            flags = self.flags(
                batch, length, activation.device, start=prompt, fresh=False, side=side
            )
        if not self.in_call:
            self.chosen |= bool(flags.any())
        return flags

    def _by_shape(
        self, batch: int, length: int, device: torch.device, start: int, fresh: bool
    ) -> Bool[Tensor, "batch length"]:
        if self.positions is None:
            return torch.ones((batch, length), dtype=torch.bool, device=device)
        if fresh:  # else the prompt of an earlier call goes on
            self._prompt = self._counted(batch, length, device)
            if self._mask is not None and self._mask.shape == self._prompt.shape:
                refuse_padding(self._prompt & ~self._mask.to(device).bool(), self.name)
        if self._prompt is None:
            raise InterventionError(
                "the model goes on from a cache that was filled outside the `with` block, or has a "
                f"fixed length (StaticCache), so that {self.name} cannot be counted; fill one that "
                "grows (DynamicCache) inside."
            )
        if self._prompt.shape[0] != batch:
            raise InterventionError(
                f"{self.name} were counted in a prompt of {self._prompt.shape[0]} rows, and the "
                f"model goes on with {batch}; generate from the prompt that you gave."
            )
        generated = max(0, start + length - self._prompt.shape[1])
        # [batch length]: flags of the prompt and, after it, False for what was generated
        flags = torch.nn.functional.pad(self._prompt, (0, generated), value=False)
        return flags[:, start : start + length].to(device)

    def _counted(
        self, batch: int, length: int, device: torch.device
    ) -> Bool[Tensor, "batch length"]:
        """The positions named in a prompt of which only the shape is known."""
        positions = self.positions
        if isinstance(positions, Tensor):
            if positions.shape != (batch, length):
                raise InterventionError(
                    f"{self.name} are {list(positions.shape)} and the call {[batch, length]}; make "
                    "them from the batch that you run."
                )
            return positions.to(device)
        listed = as_list(positions)
        if any(isinstance(each, str) for each in listed):
            raise InterventionError(
                f"{self.name}={positions!r} are words, and the wrapped model was called directly; "
                "call the model that load_model returned, model(…) or model.generate(…), or pass "
                "numbers."
            )
        option = _in_pieces() if self.from_the_end else None
        if option is not None:
            raise InterventionError(
                f"{self.name}={positions!r} count from the end, and the wrapped model generates "
                f"with {option}, so that its first call ends elsewhere than the prompt. Count from "
                "the start, leave the option out, or call model.generate(…)."
            )
        # One position more than in the call before: maybe the same text with a new token.
        grown = self._prompt is not None and length == self._prompt.shape[1] + 1
        if grown and self.from_the_end:
            raise InterventionError(
                f"{self.name}={positions!r} count from the end, and the wrapped model was called "
                f"on {length - 1} positions and then on {length}: a generation without a "
                "cache, whose end moves. Count from the start, or call model.generate(…), in which "
                "they count the prompt."
            )
        flags = torch.zeros((batch, length), dtype=torch.bool, device=device)
        flags[:, numbered(listed, length, self.name)] = True
        return flags
