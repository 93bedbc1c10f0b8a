"""Calls of a model that go through functions of somebody else's, for the length of a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._types import CallWrapper, ForwardFn, Prepare, Read

T = TypeVar("T", bound="Wrappable")


class Wrappable(ABC):
    """What :meth:`LensModel.around` needs: the wrappers that are open, and the call they wrap."""

    def __init__(self, lens: Any) -> None:
        self.lens = lens
        self._wrappers: list[CallWrapper] = []
        self._preparations: list[Prepare] = []
        self._built_in = frozenset(self._hooked_points())

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
        """Every call of the model goes through ``wrapper`` for the length of a ``with`` block.

        ``wrapper(inner, tokens, attention_mask, read)`` returns what ``read`` asks for; ``inner``
        is the call as it was outside the block, so that blocks nest.
        """
        self._wrappers.append(wrapper)
        try:
            yield self
        finally:
            self._wrappers.remove(wrapper)

    @contextmanager
    def preparing(self: T, prepare: Prepare) -> Iterator[T]:
        """Every call of the model runs inside ``prepare(tokens, attention_mask)``, a ``with``
        block, whatever wrappers make of the call; for edits that depend on the call's tokens."""
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
        """Hook points that have hooks now, apart from those that came with the model."""
        now = self._hooked_points()
        return sorted(name for point, name in now.items() if point not in self._built_in)

    def _hooked_points(self) -> dict[int, str]:
        """Each point once, under the last of its names (aliases such as ``hook_resid_pre``)."""
        points = sorted(self.lens.hook_dict.items())
        return {id(point): name for name, point in points if point.fwd_hooks}
