"""What acts on a model now: the hooks, wrappers and preparations of the ``with`` blocks that are
open, and whatever else was registered on it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from inspect import signature
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import Tensor, nn

from interp_compose.errors import InterventionError, OptionError, did_you_mean, warn
from interp_compose.models.attention import is_edited
from interp_compose.models.exclusive import Exclusive
from interp_compose.models.found_hooks import found_hooks, of_the_user
from interp_compose.models.hooks import HookLog, Installed, OpenBlock, check_installed
from interp_compose.models.recompute import refuse_recording
from interp_compose.types import CallWrapper, ForwardFn, HookFn, Prepare, Read

Hooks = Sequence[tuple[str | Callable[[str], bool], HookFn]]
"""Functions, each with the name of its hook point or a predicate on names."""


class Wrapped(ABC):
    """A model, as far as this module reads it."""

    name: str
    architecture: str
    lens: Any
    has_own_points: bool = False
    """Whether some hook points are this object's, so that another around ``lens`` has others."""

    @property
    @abstractmethod
    def hook_dict(self) -> Mapping[str, Any]:
        """Every hook point by each of its names, aliases included."""

    @property
    def hook_names(self) -> Sequence[str]:
        """Every hook name the model knows, aliases included."""
        return list(self.hook_dict)

    @property
    @abstractmethod
    def blocks(self) -> Sequence[Any]:
        """The modules of all layers."""

    @abstractmethod
    def attentions(self) -> Iterator[tuple[str, nn.Module]]:
        """Every attention module, with the beginning of its hook names."""


_OF: WeakKeyDictionary[Any, ReferenceType[OpenBlocks]] = WeakKeyDictionary()
"""Those of each ``lens``, as long as a model around it lives."""


class OpenBlocks:
    """The blocks that are open on one model, in the order of opening; shared by all objects that
    wrap its ``lens``.

    Attributes:
        installed: hooks at hook points.
        proving: whether a probe of the model is running, for which all blocks are set aside.
        exclusive: who uses the model.
    """

    def __init__(self, model: Wrapped) -> None:
        self._model = model
        self.exclusive = Exclusive()
        self.installed: list[Installed] = []
        self.proving = False
        self._versions: dict[int, str | None] = {}  # of hooks, by the identity of their handles
        self._wrappers: list[tuple[OpenBlock, CallWrapper]] = []
        self._preparations: list[tuple[OpenBlock, Prepare]] = []
        self._calling = 0  # calls of the model under way now
        self._running = 0  # runs of its blocks that the model itself makes, under way now
        self._built_in: Mapping[int, Any] = {}
        self.keep_built_in()
        _OF[model.lens] = ref(self)

    @classmethod
    def of(cls, model: Wrapped) -> OpenBlocks:
        """Those that another model has on this one's ``lens``, with the same hook points; or new
        ones."""
        known = None if model.has_own_points else _OF.get(model.lens)
        return (known and known()) or cls(model)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The model is used by this thread alone, for the length of a ``with`` block.

        Raises:
            ModelInUseError: another thread or asyncio task is using it.
        """
        with self.exclusive.held(self._model.name):
            yield

    # ---- hooks at hook points --------------------------------------------------------------

    def matching(self, hook: str | Callable[[str], bool]) -> list[str]:
        """The hook points that a name or a predicate matches.

        Raises:
            OptionError: there are none.
        """
        model, known = self._model, self._model.hook_names
        names = [hook] if isinstance(hook, str) else [name for name in known if hook(name)]
        if not names or names[0] not in known:
            near = did_you_mean(hook, known, 3) if isinstance(hook, str) else ""
            near = near or f"; for example {', '.join(list(known)[:4])}."
            raise OptionError(
                f"no hook point matches {hook!r} on {model.name!r} ({model.architecture}){near} "
                "model.hook_names lists all."
            )
        return names

    def check_point(self, name: str, fn: HookFn = lambda activation, hook: None) -> None:
        """Refuse a hook point at which TransformerLens takes no hook, as it is set.

        Raises:
            OptionError: its reason.
        """
        lens = self._model.lens
        if name not in lens.hook_dict:  # the model's own, which the lens does not know
            return
        check = lens.check_hooks_to_add
        try:
            if "hook_point" in signature(check).parameters:
                check(self._model.hook_dict[name], name, fn)
            else:  # the bridge of transformer-lens 3.9
                check(name)
        except (ValueError, AssertionError) as refusal:
            raise OptionError(f"no hook can be added at {name!r}: {refusal}") from refusal

    def takes_hooks(self, name: str) -> bool:
        """Whether :meth:`check_point` lets a hook pass that only looks."""
        try:
            self.check_point(name)
        except OptionError:
            return False
        return True

    @contextmanager
    def hooked(
        self, fwd_hooks: Hooks, version: str | None = None, *, all_fire: bool = True
    ) -> Iterator[HookLog]:
        """Hooks for the length of a ``with`` block, watched; see :meth:`LensModel.hooks`. Unless
        all have to fire, one is enough."""
        model, log = self._model, HookLog()
        wrapped = [
            (name, log.watching(fn, name, compare=version is not None))
            for hook, fn in fwd_hooks
            for name in self.matching(hook)
        ]
        # TransformerLens warns of an edit that it will not use: as an error, that ends the call.
        with warnings.catch_warnings(), self._added(wrapped, version):
            warnings.filterwarnings("error", message=r"(?s).*edit is discarded")
            try:
                yield log
            except UserWarning as discarded:
                if "edit is discarded" not in str(discarded):
                    raise
                raise InterventionError(
                    f"{model.architecture}: TransformerLens discards this edit ({discarded}). "
                    "Edit another hook point, or see the table of capabilities in the docs."
                ) from discarded
            finally:
                log.open = False
        silent = log.silent
        if silent and (all_fire or not log.any_fired):
            raise InterventionError(
                f"hooks on {silent} never fired on {model.name!r} ({model.architecture}). Run "
                "the model inside the `with` block; if you did, this architecture does not pass "
                "through that hook point, and ic.audit(model).frame lists those that fire."
            )
        if version is not None and log.unchanged:
            warn(
                f"hooks on {log.unchanged}, version {version!r}, edited nothing: in every call the "
                "activation had the same numbers after them. Return the edited tensor, or assign, "
                "as in x[:, [1, 2]] = 0: x[:, [1, 2]].mul_(0) writes into a copy. Leave version "
                "out of hooks that only read.",
            )

    @contextmanager
    def _added(self, hooks: Sequence[tuple[str, HookFn]], version: str | None) -> Iterator[None]:
        """Hooks at their points for the length of a ``with`` block, which removes those it added
        and no other, in whatever order blocks end (TransformerLens' own block removes those of its
        depth).

        They are permanent in TransformerLens' sense: its ``reset_hooks()`` leaves them.

        Raises:
            InterventionError: on leaving, one was removed all the same.
        """
        points = self._model.hook_dict
        added: list[tuple[Any, Any, Installed]] = []
        try:
            for name, fn in hooks:
                point = points[name]
                self.check_point(name, fn)
                # A point has several names; the function is told the one that was asked for.
                alias = None if name == point.name else [name]
                point.add_hook(fn, dir="fwd", is_permanent=True, alias_names=alias)
                # TransformerLens' handle, the last in its list; `handle.hook` is PyTorch's.
                handle = point.fwd_hooks[-1]
                added.append((point, handle, Installed(point, handle.hook, f"the hook at {name}")))
                self.installed.append(added[-1][-1])
                self._versions[id(handle)] = version
            yield
            check_installed(hook for _, _, hook in added)
        finally:
            for point, handle, hook in added:
                handle.hook.remove()
                point.fwd_hooks = [other for other in point.fwd_hooks if other is not handle]
                self.installed.remove(hook)
                self._versions.pop(id(handle), None)  # Ctrl-C between the two steps

    @contextmanager
    def in_place(self, edited: Iterable[nn.Module]) -> Iterator[None]:
        """Refuse, on leaving, a block in which something took parts under an edit out of the model.

        Raises:
            InterventionError: names what was done, and what to do.
        """
        lens = self._model.lens
        module: nn.Module = getattr(lens, "original_model", lens)
        edited_ids = {id(part) for part in edited} & {id(part) for part in module.modules()}
        yield
        if edited_ids - {id(part) for part in module.modules()}:
            raise InterventionError(
                f"{self._model.name!r}: a module under an edit was replaced or removed inside the "
                "`with` block, so that calls after that ran without the edit; change the module "
                "first, and load it again."
            )

    # ---- wrappers and preparations of calls ------------------------------------------------

    @property
    def wraps_calls(self) -> bool:
        """Whether a block of :meth:`around` or of :meth:`preparing` is open."""
        return bool(self._wrappers or self._preparations)

    @contextmanager
    def around(
        self, wrapper: CallWrapper, name: str = "a wrapper", hooks: Sequence[Installed] = ()
    ) -> Iterator[None]:
        """Every call of the model goes through ``wrapper`` for the length of a ``with`` block; in
        it, whatever else runs a block (:attr:`LensModel.lens`, the Hugging Face module,
        ``generate`` of either) is refused.

        ``wrapper(inner, tokens, attention_mask, read)`` returns the output that ``read``
        names; ``inner`` is the call as it was outside the block, so that blocks nest. ``name``
        is in :attr:`active`, as long as all of ``hooks`` act, which belong to it.
        """
        with self.held():
            opened = (OpenBlock(name, hooks), wrapper)
            self._wrappers.append(opened)
            # A guard before the whole lens and before each block: whoever runs one of them while
            # the model itself runs none (`_running`) bypasses the wrapper.
            guards: list[Installed] = []
            try:
                for part in (self._model.lens, *self._model.blocks):
                    guard = part.register_forward_pre_hook(self._refuse_past_wrappers)
                    guards.append(
                        Installed(part, guard, f"a guard of {name}", "_forward_pre_hooks")
                    )
                yield
                check_installed(guards)
            finally:
                for one in guards:
                    one.handle.remove()
                self._wrappers.remove(opened)

    @contextmanager
    def preparing(
        self, prepare: Prepare, name: str = "a preparation", hooks: Sequence[Installed] = ()
    ) -> Iterator[None]:
        """Every call of the model runs inside ``prepare(tokens, attention_mask)``, a ``with``
        block, whatever wrappers do to the call; for edits that depend on the call's tokens.
        ``name`` and ``hooks`` as of :meth:`around`."""
        with self.held():
            opened = (OpenBlock(name, hooks), prepare)
            self._preparations.append(opened)
            try:
                yield
            finally:
                self._preparations.remove(opened)

    def call(self, forward: ForwardFn, tokens: Tensor, mask: Tensor, read: Read) -> Tensor:
        """One call of the model: prepared, wrapped, run by ``forward``."""
        if not self.proving:
            check_installed(self.installed)
        with self._prepared(tokens, mask):
            self._calling += 1
            try:
                return self._wrapped(forward, len(self._wrappers))(tokens, mask, read)
            finally:
                self._calling -= 1

    def _wrapped(self, forward: ForwardFn, depth: int) -> ForwardFn:
        # The wrapper opened last is called first; its `inner` goes through those before it.
        if depth == 0:
            return forward
        (opened, wrapper), inner = self._wrappers[depth - 1], self._wrapped(forward, depth - 1)
        refuse_recording(opened.name)
        return lambda tokens, mask, read: wrapper(inner, tokens, mask, read)

    def prepared(self, tokens: Tensor, mask: Tensor) -> AbstractContextManager[None]:
        """The preparations of a run of the model, for the length of a ``with`` block: those that
        the call inside which it runs has made already are left out."""
        return nullcontext() if self._calling else self._prepared(tokens, mask)

    @contextmanager
    def _prepared(self, tokens: Tensor, mask: Tensor) -> Iterator[None]:
        with ExitStack() as blocks:
            for _, prepare in self._preparations:
                blocks.enter_context(prepare(tokens, mask))
            yield

    @contextmanager
    def running(self) -> Iterator[None]:
        """Blocks of the model run by the model, and not past it, for the length of a ``with``
        block."""
        with self.held():
            self._running += 1
            try:
                yield
            finally:
                self._running -= 1

    def _refuse_past_wrappers(self, module: Any, args: Any) -> None:
        if not self._running:
            self.refuse_wrappers(f"the wrapped model (its {type(module).__name__})")

    def refuse_between(self) -> None:
        """Refuse a run of some blocks by the user, not by a wrapper of a call.

        Raises:
            InterventionError: a wrapper is open.
        """
        if not self._calling:
            self.refuse_wrappers("a run of some of its blocks")

    def refuse_wrappers(self, what: str) -> None:
        """Refuse what a wrapper of :meth:`around` would not act on.

        Raises:
            InterventionError: one is open; ``what`` was called.
        """
        if self._wrappers:
            raise InterventionError(
                f"{self._model.name!r}: {what} was called inside a block of pool_at, which acts on "
                "calls of the model alone, so that this one would bypass it. Call model(…), "
                "model.generate(…), model.encode(…) or model.capture(…)."
            )

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """No wrapper and no preparation acts, for the length of a ``with`` block: a probe's."""
        wrappers, self._wrappers = self._wrappers, []
        preparations, self._preparations = self._preparations, []
        proving, self.proving = self.proving, True
        try:
            yield
        finally:
            self.proving = proving
            self._wrappers, self._preparations = wrappers, preparations

    # ---- what acts -------------------------------------------------------------------------

    @property
    def active(self) -> list[str]:
        """See :attr:`LensModel.active_hooks`."""
        return self._names() + sorted({name for name, _ in self._acting()})

    @property
    def unversioned(self) -> list[str]:
        """Those of :attr:`active` that no version names: what they compute is not known."""
        return self._names() + sorted({name for name, version in self._acting() if version is None})

    def _names(self) -> list[str]:
        opened = [block for block, _ in (*self._wrappers, *self._preparations)]
        return list(dict.fromkeys(block.name for block in opened if block.acts))

    def _acting(self) -> Iterator[tuple[str, str | None]]:
        for hook in found_hooks(self._model.lens, self._model.hook_dict):
            if hook.handle in self._versions:  # of a block that is open here
                version = self._versions[hook.handle]
                yield (hook.name if version is None else f"{hook.name} ({version})"), version
            elif hook.handle not in self._built_in:  # added past this library
                yield hook.name, None
        for name, attention in self._model.attentions():
            if is_edited(attention):
                yield f"{name}: edited attention", None

    def keep_built_in(self) -> None:
        """Take the hooks at hook points that are a framework's for the model's own, and those of
        which the lens does not record whose they are (transformer-lens 3.9).

        Handles, and PyTorch's functions of them, by identity; and kept, so that no later one takes
        it over.
        """
        # Of each hook TransformerLens' handle, and the function that PyTorch calls for it.
        handles = (
            (handle, {**point._forward_hooks, **point._backward_hooks}.get(handle.hook.id))
            for point in self._model.lens.hook_dict.values()
            for handle in (*point.fwd_hooks, *point.bwd_hooks)
        )
        self._built_in = {
            id(one): one for both in handles if not of_the_user(both[0]) for one in both
        }
