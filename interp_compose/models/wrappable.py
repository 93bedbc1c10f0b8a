"""Calls of a model that go through functions of somebody else's, for the length of a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InterventionError
from interp_compose.models.attention import edited_layers
from interp_compose.models.exclusive import Exclusive
from interp_compose.models.found_hooks import found_hooks
from interp_compose.types import CallWrapper, ForwardFn, Prepare, Read

T = TypeVar("T", bound="Wrappable")


@public
class Wrappable(ABC):
    """What :meth:`LensModel.around` needs: the wrappers that are open, and the call they wrap."""

    name: str

    def __init__(self, lens: Any) -> None:
        self.lens = lens
        self.exclusive = Exclusive()
        self._wrappers: list[CallWrapper] = []
        self._running = 0
        """Calls of :attr:`lens` that this object makes, under way now."""
        self._preparations: list[Prepare] = []
        self.hook_versions: dict[int, str | None] = {}
        """Of the hooks that :meth:`LensModel.hooks` opened, by the identity of their handles."""
        self._built_in = self._hooks_of_the_lens()

    @abstractmethod
    def _forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"],
        *,
        read: Read,
    ) -> Float[Tensor, "batch _ width"]: ...

    @contextmanager
    def around(self: T, wrapper: CallWrapper) -> Iterator[T]:
        """Every call of the model goes through ``wrapper`` for the length of a ``with`` block;
        calls of :attr:`lens` by others are refused in it.

        ``wrapper(inner, tokens, attention_mask, read)`` returns what ``read`` asks for; ``inner``
        is the call as it was outside the block, so that blocks nest.
        """
        with self.exclusive.held(self.name):
            self._wrappers.append(wrapper)
            guard = self.lens.register_forward_pre_hook(self._refuse_past_wrappers)
            try:
                yield self
            finally:
                guard.remove()
                self._wrappers.remove(wrapper)

    def _call_lens(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped object, called by this one."""
        self._running += 1
        try:
            return self.lens(*args, **kwargs)
        finally:
            self._running -= 1

    def _refuse_past_wrappers(self, lens: Any, args: Any) -> None:
        if not self._running:
            raise InterventionError(
                f"{self.name!r}: model.lens was called inside a block of pool_at, which acts on "
                "calls of the model alone, so that this one would go past it. Call model(…), "
                "model.encode(…) or model.capture(…)."
            )

    @contextmanager
    def preparing(self: T, prepare: Prepare) -> Iterator[T]:
        """Every call of the model runs inside ``prepare(tokens, attention_mask)``, a ``with``
        block, whatever wrappers make of the call; for edits that depend on the call's tokens."""
        with self.exclusive.held(self.name):
            self._preparations.append(prepare)
            try:
                yield self
            finally:
                self._preparations.remove(prepare)

    @property
    def preparations(self) -> Sequence[Prepare]:
        """Those of the :meth:`preparing` blocks that are open."""
        return tuple(self._preparations)

    def _called(self, tokens: Tensor, mask: Tensor, read: Read) -> Tensor:
        """One call: prepared, wrapped, run."""
        with ExitStack() as open_blocks:
            for prepare in self._preparations:
                open_blocks.enter_context(prepare(tokens, mask))
            return self._wrapped(len(self._wrappers))(tokens, mask, read)

    @property
    def wrappers(self) -> Sequence[CallWrapper]:
        """Those of the :meth:`around` blocks that are open."""
        return tuple(self._wrappers)

    def _wrapped(self, depth: int) -> ForwardFn:
        if depth == 0:
            return lambda tokens, mask, read: self._forward(tokens, mask, read=read)
        wrapper, inner = self._wrappers[depth - 1], self._wrapped(depth - 1)
        return lambda tokens, mask, read: wrapper(inner, tokens, mask, read)

    @property
    def active_hooks(self) -> list[str]:
        """What acts on the model now and did not come with TransformerLens or transformers.

        Hooks at hook points (with their version, see :meth:`LensModel.hooks`), plain PyTorch hooks
        on any module, registered before or after loading, and edited attentions.
        """
        return sorted({name for name, _ in self._acting()})

    @property
    def unversioned_hooks(self) -> list[str]:
        """Those of :attr:`active_hooks` that no version names: what they compute is not known."""
        return sorted({name for name, version in self._acting() if version is None})

    def _acting(self) -> Iterator[tuple[str, str | None]]:
        for hook in found_hooks(self.lens):
            if hook.handle in self.hook_versions:
                version = self.hook_versions[hook.handle]
                yield (hook.name if version is None else f"{hook.name} ({version})"), version
            elif not hook.own and hook.handle not in self._built_in:
                yield hook.name, None
        for layer in edited_layers(self.lens):
            yield f"blocks.{layer}.attn: edited attention", None

    def _hooks_of_the_lens(self) -> frozenset[int]:
        """Handles at hook points before any of the user's, where the lens does not tell whose they
        are (transformer-lens 3.9)."""
        points = self.lens.hook_dict.values()
        handles = (handle for point in points for handle in point.fwd_hooks)
        return frozenset(id(handle) for handle in handles if not hasattr(handle, "user_hook"))
