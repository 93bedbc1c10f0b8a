"""What checks types in tests: jaxtyping where a shape is stated, elsewhere beartype alone."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import _import_hook

CONF = BeartypeConf(violation_type=jaxtyping.TypeCheckError)
shaped = jaxtyping.jaxtyped
"""jaxtyping's own decorator."""
LEFT: set[CodeType] = set()
"""Functions inside functions that state no shape; they are made anew by every call."""
MADE: dict[Any, Callable[..., Any]] = {}
"""Checks of those that state one."""


def tag_only_the_library() -> None:
    """The hook's own tag of compiled files, for the library's modules alone: the hook gives it to
    whatever they import as well, so that torch and its like would be compiled anew."""
    loader = _import_hook._JaxtypingLoader

    def get_code(self: Any, name: str) -> CodeType | None:
        tagged = functools.partial(
            _import_hook._optimized_cache_from_source, self._typechecker.get_hash()
        )
        with patch("importlib._bootstrap_external.cache_from_source", tagged):
            return SourceFileLoader.get_code(self, name)

    loader.get_code = get_code
    loader.exec_module = SourceFileLoader.exec_module


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """What jaxtyping checks with, which gives it empty functions of the same parameters: those of
    functions inside functions only where they state a shape, and once."""
    if "<locals>" not in function.__qualname__:
        return beartype(function)
    if not states_a_shape(function.__annotations__):
        return function
    places = function.__code__.co_varnames, str(function.__annotations__)
    key = (function.__module__, function.__qualname__, *places)
    if key not in MADE:
        MADE[key] = beartype(function)
    return MADE[key]


def states_a_shape(hints: dict[str, Any]) -> bool:
    return "jaxtyping." in str(list(hints.values()))


def jaxtyped(*target: Any, **options: Any) -> Any:
    """jaxtyping's decorator, less most of its cost: it binds the arguments of every call and checks
    them twice, by functions that it makes for this, where one check of the function itself does."""
    if target or "typechecker" not in options:
        return shaped(*target, **options)
    return functools.partial(decorated, decorate=shaped(**options))


def decorated(target: Any, decorate: Callable[[Any], Any]) -> Any:
    if isinstance(target, FunctionType) and not hasattr(target, "__wrapped__"):
        return once(target) or decorate(target)
    own = vars(target).get("__init__") if dataclasses.is_dataclass(target) else None
    if isinstance(own, FunctionType) and not hasattr(own, "__wrapped__"):
        made = once(own)
        if made is not None:
            target.__init__ = made
            return target
    return decorate(target)


def once(function: FunctionType) -> Callable[..., Any] | None:
    """The function under beartype, in a memory of its own of the axes that it names. None of two
    kinds that state a shape: a function inside a function (:func:`checked` keeps the checks of
    these), and a generator, which beartype would check at its first step, among the axes of whoever
    takes it."""
    code, names, closure = function.__code__, function.__globals__, function.__closure__
    if code in LEFT:
        return function
    hints = {name: resolved(hint, names) for name, hint in function.__annotations__.items()}
    stated, is_inside = states_a_shape(hints), "<locals>" in function.__qualname__
    if stated and (is_inside or inspect.isgeneratorfunction(function)):
        return None
    if is_inside:
        LEFT.add(code)
        return function
    copy = FunctionType(code, names, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, hints
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    made = beartype(conf=CONF)(copy)
    if made is copy:
        return function
    if not stated:
        return functools.wraps(function)(made)

    @functools.wraps(function)
    def within(*args: Any, **named: Any) -> Any:
        with shaped("context"):
            return made(*args, **named)

    return within


def resolved(hint: Any, names: dict[str, Any]) -> Any:
    """An annotation's type; anything where it names what is not imported."""
    stated = SimpleNamespace(__annotations__={"it": hint})
    try:
        return typing.get_type_hints(stated, names, include_extras=True)["it"]
    except Exception:  # noqa: BLE001  jaxtyping does the same
        return Any
