"""What a caller may pass, checked at the public boundary by the annotations themselves.

One decorator, :func:`public`, for functions and classes. Types are beartype's to judge, one value
at a time; containers are looked through whole, since beartype looks at one random item. What a
user means by a value is taken over: a numpy number for a number, an integer for a float, a list for
a tuple, an array or a Series for a list. A boolean is no number, and a string no list of strings.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from interp_compose.errors import MissingPackageError, OptionError, did_you_mean, shortened

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
NoneType = type(None)
Check = Callable[[Any], Any]
"""Returns the value, or what the caller means by it; raises :class:`_Unfit`."""

LONGEST_RANGE = 1_000_000
"""A longer one is almost certainly a mistake, and a list of it fills the memory."""
LISTS = (Sequence, list, tuple, set, frozenset)


def public(target: Decorated) -> Decorated:
    """Check the arguments of a function, or of a class's public methods, against its annotations.

    The check is made when it is first needed: annotations may name what is not imported yet.
    Return values are left alone. Arguments that do not exist are a ``TypeError``, as in Python,
    that names those which do; one that is missing is Python's own.

    Raises:
        OptionError: from the decorated: names function, argument, value and what was expected.
    """
    if not inspect.isclass(target):
        return cast(Decorated, _checked(target))
    for name, member in list(vars(target).items()):
        if name.startswith("_") and name not in ("__init__", "__call__", "__getitem__"):
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(target, name, type(member)(_checked(member.__func__, target)))
        elif inspect.isfunction(member):
            setattr(target, name, _checked(member, target))
    return target


def short(value: Any, limit: int = 80) -> str:
    """A value as a message shows it."""
    if getattr(value, "is_nested", False):  # its shape cannot be asked for
        return f"{_a(type(value).__name__)} (nested) of {value.dtype}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        where = "" if _has_values(value) else f" ({value.layout}, on {value.device})"
        return f"{_a(type(value).__name__)} {list(value.shape)} of {value.dtype}{where}"
    if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "shape"):
        return f"{_a(type(value).__name__)} {list(value.shape)}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001  a message is no place to fail for a broken repr
        text = _a(type(value).__name__)
    return shortened(text, limit)


def _has_values(tensor: Any) -> bool:
    """Whether a tensor, or an array, is not sparse, nested, quantised or on the meta device."""
    strided = str(getattr(tensor, "layout", "torch.strided")) == "torch.strided"
    return strided and not any(
        getattr(tensor, name, False) for name in ("is_meta", "is_nested", "is_quantized")
    )


def _check_values(value: Any, expected: str) -> None:
    if hasattr(value, "layout") and not _has_values(value):
        raise _Unfit(value, f"{expected}, dense (.to_dense()) and in memory", nearly=True)


def _a(name: str) -> str:
    return f"a{'n' if name[:1].lower() in 'aeiou' else ''} {name}"


class _Unfit(Exception):
    """A value, or an item of it at ``path``, is not what ``expected`` says; nearly, if its kind is
    right and only an item or a size is wrong."""

    def __init__(self, value: Any, expected: str, path: str = "", *, nearly: bool = False) -> None:
        self.value, self.expected, self.path = value, expected, path
        self.nearly = nearly or bool(path)


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def arguments_of(
    function: Callable[..., Any], owner: type | None = None
) -> Callable[[tuple[Any, ...], dict[str, Any]], Arguments]:
    """What takes the arguments of a call as the function's annotations mean them.

    Raises:
        OptionError, TypeError: from it, as :func:`public` says.
    """
    plan: _Plan | None = None

    def taken(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        nonlocal plan
        if plan is None:
            plan = _Plan(function, owner)
        return plan.taken(args, kwargs)

    return taken


def _checked(function: Callable[..., Any], owner: type | None = None) -> Callable[..., Any]:
    taken = arguments_of(function, owner)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = taken(args, kwargs)
        return function(*args, **kwargs)

    return checked


class _Plan:
    """The checks of one function's arguments."""

    def __init__(self, function: Callable[..., Any], owner: type | None) -> None:
        self.name, self.owner = function.__name__, owner
        names = inspect.unwrap(function).__globals__
        # a dataclass states fields of its bases, whose names are known where those are
        bases = ChainMap(
            *(vars(sys.modules[base.__module__]) for base in getattr(owner, "__mro__", ()))
        )
        self.by_name: dict[str, Check | None] = {}
        self.by_place: list[str] = []
        self.rest: str | None = None
        self.takes_any_name = False
        shapes = False
        for name, parameter in inspect.signature(function).parameters.items():
            hint = parameter.annotation
            shapes = shapes or "[Tensor, " in str(hint)
            free = hint is parameter.empty or name in ("self", "cls")
            if isinstance(hint, str) and not free:
                hint = eval(hint, names, bases)  # noqa: S307  as its author wrote it
            self.by_name[name] = None if free else _check_of(hint)
            self.takes_any_name |= parameter.kind == parameter.VAR_KEYWORD
            if parameter.kind == parameter.VAR_POSITIONAL:
                self.rest = name
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                self.by_place.append(name)
        self.names = [name for name in self.by_name if name not in ("self", "cls", self.rest)]
        self.context: Callable[[], AbstractContextManager[Any]] = nullcontext
        if shapes:  # axes of one name have one size throughout a call
            from jaxtyping import jaxtyped

            self.context = lambda: jaxtyped("context")

    def taken(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the function takes them."""
        self._check_names(args, kwargs)
        name, place = "", 0
        try:
            with self.context():
                for place, value in enumerate(args):
                    name = self.by_place[place] if place < len(self.by_place) else self.rest or ""
                    check = self.by_name.get(name)
                    if check is not None and (new := check(value)) is not value:
                        args = (*args[:place], new, *args[place + 1 :])
                for name, value in kwargs.items():
                    check = self.by_name.get(name)
                    if check is not None and (new := check(value)) is not value:
                        kwargs = {**kwargs, name: new}
        except _Unfit as unfit:
            raise OptionError(self._message(unfit, name, args)) from None
        return args, kwargs

    def _check_names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        unknown = [] if self.takes_any_name else [name for name in kwargs if name not in self.names]
        beyond = () if self.rest is not None else args[len(self.by_place) :]
        if not unknown and not beyond:
            return
        takes = f"it takes {', '.join(self.names) or 'none'}"
        if unknown:
            raise TypeError(
                f"{self._called(args)}() got an unexpected keyword argument {unknown[0]!r}"
                f"{did_you_mean(unknown[0], self.names)}; {takes}"
            )
        n = len(self.by_place) - len({"self", "cls"} & {*self.by_place})
        raise TypeError(
            f"{self._called(args)}() takes {n} argument{'s' * (n != 1)} without a name, and got "
            f"{short(beyond[0])} beyond; {takes}"
        )

    def _called(self, args: tuple[Any, ...]) -> str:
        """The function as its user calls it."""
        if self.owner is None:
            return self.name
        owner = self.owner
        if self.by_place[:1] in (["self"], ["cls"]):  # it may be a subclass
            owner = args[0] if inspect.isclass(args[0]) else type(args[0])
        calls_class = self.name in ("__init__", "__call__", "__getitem__")
        return owner.__name__ if calls_class else f"{owner.__name__}.{self.name}"

    def _message(self, unfit: _Unfit, name: str, args: tuple[Any, ...]) -> str:
        shown, kind = short(unfit.value), _a(type(unfit.value).__name__)
        value = f" is {shown}" if shown.startswith(kind) else f"={shown} is {kind}"
        if unfit.value is None or (isinstance(unfit.value, str) and "one of '" in unfit.expected):
            value = f"={shown}"
        bases = [base.__name__ for base in type(unfit.value).__mro__]
        wants_model = "a model" in unfit.expected and "Result" in bases
        hint = "; results are compared by compare_curves" if wants_model else ""
        return f"{self._called(args)}: {name}{unfit.path}{value}; expected {unfit.expected}{hint}"


def _check_of(hint: Any) -> Check | None:
    """The check of one annotation; None where anything goes."""
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return None
    if get_origin(hint) is Annotated:
        return _check_of(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return _check_of_union(hint)
    if hint in (int, float, bool):
        return {int: _whole, float: _number, bool: _switch}[hint]
    origin = get_origin(hint) or hint
    if origin in LISTS:
        return _check_of_list(hint, origin)
    if origin in (Mapping, dict):
        return _check_of_mapping(hint)
    if origin in (Iterable, Collection):
        return _iterable(hint)
    return _check_of_one(hint)


def _check_of_union(hint: Any) -> Check | None:
    checks = [_check_of(member) for member in get_args(hint)]
    if None in checks:
        return None
    expected = _words(hint)
    members = {get_origin(member) or member for member in get_args(hint)}
    is_path = bool(members & {Path, os.PathLike})
    of_tensors = any(hasattr(member, "dim_str") for member in get_args(hint))

    def check(value: Any) -> Any:
        if is_path and isinstance(value, str | os.PathLike):
            _check_path(value)
        meant, unfits = [], []
        for one in checks:
            assert one is not None
            try:
                new = one(value)
            except _Unfit as unfit:
                # Its traceback would hold this frame and all callers, in a cycle with `unfits`.
                unfit.__context__ = None
                unfits.append(unfit.with_traceback(None))
            else:
                if new is value:
                    return value
                meant.append(new)
        if meant:
            return meant[0]
        if len(unfits) == 2 and NoneType in get_args(hint):
            optional = unfits[get_args(hint)[0] is NoneType]
            optional.expected += "" if optional.path else " or None"
            raise optional
        near = next((unfit for unfit in unfits if unfit.nearly), None)
        if near is None or (of_tensors and near.path == "[0]" and near.expected == "a string"):
            near = _Unfit(value, expected)  # numbers were meant for a tensor, not for texts
        raise near

    return check


def _check_path(path: str | os.PathLike[str]) -> None:
    """Refuse what no file system can hold; whether it is there is another question."""
    try:
        name = os.fsencode(path)
    except UnicodeError:
        raise _Unfit(path, "a path of whole characters, no halves", nearly=True) from None
    if b"\0" in name:
        raise _Unfit(path, "a path without a null byte", nearly=True)
    if len(name) > 4000 or max(map(len, name.split(os.fsencode(os.sep)))) > 255:
        raise _Unfit(path, "a path that is not too long (255 bytes a name)", nearly=True)


def _whole(value: Any) -> Any:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _Unfit(value, _words(int))
    return int(value)


def _number(value: Any) -> Any:
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _Unfit(value, _words(float))
    try:  # np.float32(0.4) is 0.4 as it is printed, not 0.4000000059604645
        return float(str(value) if hasattr(value, "dtype") else value)
    except OverflowError:
        raise _Unfit(value, _words(float)) from None


def _switch(value: Any) -> Any:
    if type(value) is bool:
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise _Unfit(value, _words(bool))


def _check_of_list(hint: Any, origin: Any) -> Check:
    items, expected = get_args(hint), _words(hint)
    fixed = origin is tuple and items[-1:] != (...,)
    checks = [_check_of(item) for item in items if item is not ...]

    def check(value: Any) -> Any:
        given = value
        _check_values(value, expected)
        if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):
            value = value.tolist()  # numpy's, pandas' and torch's
        elif isinstance(value, Set) and origin not in (set, frozenset):
            value = _in_order(value)
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
            raise _Unfit(given, expected)
        if getattr(value, "ndim", 1) != 1 or (fixed and len(value) != len(checks)):
            raise _Unfit(given, expected)
        if type(value) is range and len(value) > LONGEST_RANGE:
            raise _Unfit(given, f"at most {LONGEST_RANGE} items", nearly=True)
        taken, same = [], value is given
        for place, item in enumerate(value[:1] if type(value) is range else value):
            one = checks[place if fixed else 0] if checks else None
            try:
                new = item if one is None else one(item)
            except _Unfit as unfit:
                raise _Unfit(unfit.value, unfit.expected, f"[{place}]{unfit.path}") from None
            taken.append(new)
            same = same and new is item
        kind = tuple if origin is Sequence and isinstance(given, tuple) else origin
        kind = list if kind is Sequence else kind
        right = isinstance(value, Sequence if origin is Sequence else origin)
        return given if same and right else kind(taken)

    return check


def _in_order(values: Set[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:  # of several types: refused as a list of them is
        return list(values)


def _check_of_mapping(hint: Any) -> Check:
    sides = [_check_of(side) for side in get_args(hint)]

    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Unfit(value, _words(hint))
        taken, same = {}, True
        for key, item in value.items() if sides else ():
            try:
                new_key = key if sides[0] is None else sides[0](key)
            except _Unfit as unfit:
                raise _Unfit(key, unfit.expected, " key") from None
            try:
                new = item if sides[1] is None else sides[1](item)
            except _Unfit as unfit:
                path = f"[{short(key, 30)}]{unfit.path}"
                raise _Unfit(unfit.value, unfit.expected, path) from None
            taken[new_key] = new
            same = same and new is item and new_key is key
        return value if same else taken

    return check


def _iterable(hint: Any) -> Check:
    """Whoever iterates looks at the items: some can be read only once."""
    expected = _words(hint)

    def check(value: Any) -> Any:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise _Unfit(value, expected)
        if getattr(value, "ndim", 1) == 0 or (type(value) is range and len(value) > LONGEST_RANGE):
            raise _Unfit(value, expected)  # an array of one number; what fills the memory
        return value

    return check


def _check_of_one(hint: Any) -> Check:
    try:
        from beartype.door import is_bearable
    except TypeError as error:
        raise MissingPackageError(
            f"beartype cannot be imported ({error}): a package that was imported before, such as "
            "nnsight, adds to Python's object; import beartype.door, or load a model, before it"
        ) from error

    expected = _words(hint)
    if get_origin(hint) is Literal:
        return _check_of_literal(get_args(hint), expected)
    sized = hasattr(hint, "dim_str")  # jaxtyping's
    protocol = getattr(hint, "_is_protocol", False)
    fitting: set[Any] = set() if protocol or sized else {hint}
    """Types whose values fit, each. To ask a protocol, Python 3.11 reads all its properties."""

    def check(value: Any) -> Any:
        if type(value) in fitting:
            return value
        if sized:
            _check_values(value, expected)
        if not is_bearable(value, hint) or (protocol and isinstance(value, type)):
            sizes = sized and _fits_alone(value, hint)
            also = ", of the sizes of the other arguments" if sizes else ""
            raise _Unfit(value, expected + also, nearly=sizes)
        if protocol:
            fitting.add(type(value))
        return value

    return check


def _check_of_literal(known: tuple[Any, ...], expected: str) -> Check:
    def check(value: Any) -> Any:
        if any(value is one or (type(value) is type(one) and value == one) for one in known):
            return value
        renamed = RENAMED.get(value, ()) if isinstance(value, str) else ()
        now = [word for word in renamed if word in known]
        raise _Unfit(value, expected + "".join(f" ({value!r} is {one!r} now)" for one in now[:1]))

    return check


def _fits_alone(value: Any, hint: Any) -> bool:
    from jaxtyping import jaxtyped

    with jaxtyped("context"):
        return isinstance(value, hint)


RENAMED: Mapping[str, tuple[str, ...]] = {"phrase": ("text", "constituent")}
"""Words of options as they were; now it is the first of these that the option knows."""
WORDS: Mapping[str, str] = {
    "int": "an integer",
    "float": "a number",
    "bool": "True or False",
    "str": "a string",
    "Path": "a path",
    "PathLike": "a path",
    "NoneType": "None",
    "Tensor": "a tensor",
    "HasTokenizer": "a model from load_model",
    "LensModel": "a model from load_model",
    "Example": "an Example (such as those of task.test)",
    "Task": "a Task from load_task",
    "Any": "anything",
    "HasTest": "a task of ic.load_task",
    "Keyed": "a mapping",
    "Frame": "a DataFrame or another table",
}
KINDS: Mapping[str, str] = {"Int": "integers", "Float": "floats", "Bool": "booleans"}


def _words(hint: Any) -> str:
    """An annotation in plain words."""
    origin, items = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _words(items[0])
    if origin in (Union, types.UnionType):
        items = tuple(item for item in items if item is not int or float not in items)
        each = dict.fromkeys(_words(item) for item in items)
        return " or ".join(sorted(each, key=lambda words: words == "None"))
    if origin is Literal:
        return f"one of {', '.join(map(repr, items))}" if items[1:] else repr(items[0])
    if hasattr(hint, "dim_str"):  # jaxtyping's
        kind = KINDS.get(hint.__name__.partition("[")[0], "numbers")
        return f"a tensor [{hint.dim_str}] of {kind}" if hint.dim_str else f"one of {kind}"
    if origin in (Mapping, dict):
        if Any in items:
            return "a mapping"
        return f"a mapping from {_words(items[0])} to {_words(items[1])}"
    if origin is tuple and items[-1:] != (...,):
        named = any(item is not Any for item in items)
        return f"({', '.join(map(_words, items))})" if named else f"a tuple of {len(items)}"
    if origin in (set, frozenset):
        return f"a set (each item {_words(items[0])})"
    if origin in (*LISTS, Iterable, Collection):
        of = "" if items[0] is Any else f" (each item {_words(items[0])})"
        return f"a sequence{of}"
    name = getattr(origin or hint, "__name__", str(hint))
    if name == "Callable":
        return "a function"
    return WORDS.get(name) or _a(name)
