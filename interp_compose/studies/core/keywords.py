"""Functions whose keywords are the fields of a dataclass of options."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import pairwise
from typing import (
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_type_hints,
    overload,
    runtime_checkable,
)

from interp_compose._public import arguments_of
from interp_compose.tasks.table import listed

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")
P = ParamSpec("P")
OptionsT = TypeVar("OptionsT")
O_co = TypeVar("O_co", covariant=True)


@runtime_checkable
class _Keywords(Protocol[P, O_co]):
    """Puts P's keywords in the place of the last argument, ``options``."""

    @overload
    def __call__(self, function: Callable[[A, O_co], R]) -> Callable[Concatenate[A, P], R]: ...
    @overload
    def __call__(
        self, function: Callable[[A, B, O_co], R]
    ) -> Callable[Concatenate[A, B, P], R]: ...
    @overload
    def __call__(
        self, function: Callable[[A, B, C, O_co], R]
    ) -> Callable[Concatenate[A, B, C, P], R]: ...
    @overload
    def __call__(
        self, function: Callable[[A, B, C, D, O_co], R]
    ) -> Callable[Concatenate[A, B, C, D, P], R]: ...


def keywords(options: Callable[P, OptionsT]) -> _Keywords[P, OptionsT]:
    """Make a function ``(…, options)`` the public ``(…, *, option=…, …)``.

    The fields of ``options``, a dataclass, become its keywords: with their types, which are
    checked, their defaults and, in the place of the docstring's line on the last parameter
    (``options:``), their descriptions. Those of the root class, which many functions share, come
    last. One that is declared first, as a ``field(kw_only=False)``, may also be given by position.
    """
    kind = cast(type, options)

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        *first, last = inspect.signature(function).parameters
        signature = _signature(function, kind)

        @wraps(function)
        def called(*args: Any, **named: Any) -> R:
            args, named = taken(args, named)
            try:
                given = signature.bind(*args, **named).arguments
            except TypeError as misfit:
                raise TypeError(f"{function.__name__}() {misfit}") from None
            return function(*(given.pop(name) for name in first), kind(**given))

        called.__doc__ = _documented(function.__doc__ or "", last, descriptions(kind))
        called.__signature__ = signature  # type: ignore[attr-defined]
        hints = {name: one.annotation for name, one in signature.parameters.items()}
        called.__annotations__ = {**hints, "return": signature.return_annotation}
        taken = arguments_of(called)
        return called

    return cast("_Keywords[P, OptionsT]", decorate)


def _signature(function: Callable[..., Any], options: type) -> inspect.Signature:
    """Of the first parameters, and the fields of the options in the place of the last one."""
    first, known = get_type_hints(function), get_type_hints(options)
    parameters = list(inspect.signature(function).parameters.values())[:-1]
    named = inspect.signature(options).parameters
    return inspect.Signature(
        [
            *(one.replace(annotation=first[one.name]) for one in parameters),
            *(named[name].replace(annotation=known[name]) for name in declared(options)),
        ],
        return_annotation=first["return"],
    )


def declared(options: type) -> list[str]:
    """The fields of a dataclass of options, those of the root class last."""
    *kinds, root = options.__mro__[:-1]
    names = [name for kind in (*kinds[::-1], root) for name in inspect.get_annotations(kind)]
    return list(dict.fromkeys(names))


def descriptions(options: type) -> dict[str, str]:
    """What the source says below each field of a dataclass; ``{prompts tasks}`` and its like are
    the names of that kind in the table of tasks."""
    texts: dict[str, str] = {}
    for kind in options.__mro__[:-1]:
        (source,) = ast.parse(inspect.getsource(kind)).body
        for field, below in pairwise(cast(ast.ClassDef, source).body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                text = " ".join(ast.literal_eval(below.value).split())
                text = re.sub(r"\{(\w+) tasks\}", lambda kind: listed(kind[1]), text)
                texts.setdefault(ast.unparse(field.target), text)
    return {name: texts.get(name, "") for name in declared(options)}


def _documented(doc: str, last: str, described: Mapping[str, str]) -> str:
    """A docstring with the options' descriptions in the place of its line on the last parameter."""

    def entries(line: re.Match[str]) -> str:
        indent = line[1]
        fill = textwrap.TextWrapper(95, initial_indent=indent, subsequent_indent=indent + "    ")
        return "\n".join(fill.fill(f"{name}: {text}") for name, text in described.items())

    return re.sub(rf"^( +){last}:.*$", entries, doc, flags=re.MULTILINE)
