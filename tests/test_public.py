"""The check at the public boundary: what is meant is taken, what is not is refused in one form."""

from __future__ import annotations

import gc
import inspect
import pickle
import re
import subprocess
import sys
import timeit
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

import interp_compose as ic
from docs.reference_pages import public_names
from interp_compose._public import public, short
from interp_compose.errors import (
    CorruptFileError,
    InputError,
    InterpComposeError,
    MissingDataError,
    MissingPackageError,
    OptionError,
    shortened,
)
from interp_compose.models.lens_model import LensModel
from tests.interventions.shared import shared
from tests.untyped import outcomes_of


@public
def taken(
    *,
    whole: int = 0,
    number: float = 0.0,
    either: int | float = 0,
    switch: bool = False,
    text: str = "",
    place: str | Path = "",
    word: Literal["a", "b"] = "a",
    some: Sequence[int] = (),
    many: Sequence[int | float] | None = None,
    names: Sequence[str] = (),
    pair: tuple[int, int] = (0, 0),
    chains: tuple[tuple[str, ...], ...] = (),
    labels: frozenset[str] | None = None,
    table: Mapping[str, Sequence[str]] | None = None,
    rows: Iterable[Any] = (),
    function: Callable[[int], int] | None = None,
    model: LensModel | None = None,
    anything: Any = None,
) -> dict[str, Any]:
    return dict(locals())


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("whole", np.int64(3), 3),
        ("whole", np.uint8(3), 3),
        ("number", 3, 3.0),
        ("number", np.float32(0.4), 0.4),  # as it is printed
        ("number", np.float16(0.1), 0.1),
        ("number", np.float64(0.1), 0.1),
        ("number", np.int32(2), 2.0),
        ("either", np.int64(1), 1),
        ("either", 0.5, 0.5),
        ("switch", np.bool_(True), True),
        ("text", np.str_("a"), "a"),
        ("place", Path("x"), Path("x")),
        ("some", np.array([1, 2]), [1, 2]),
        ("some", pd.Series([1, 2]), [1, 2]),
        ("some", torch.tensor([1, 2]), [1, 2]),
        ("some", {2, 1}, [1, 2]),
        ("some", (np.int64(1),), (1,)),
        ("some", range(3), range(3)),
        ("many", [np.int64(0), np.float64(0.5)], [0, 0.5]),
        ("names", pd.Series(["a"]), ["a"]),
        ("pair", [1, np.int64(2)], (1, 2)),
        ("chains", [["c", "d"]], (("c", "d"),)),
        ("labels", {"NP"}, frozenset({"NP"})),
        ("labels", ["NP"], frozenset({"NP"})),
        ("table", {"a": np.array(["b"])}, {"a": ["b"]}),
    ],
)
def test_what_is_meant_is_taken(name: str, given: Any, expected: Any) -> None:
    found = taken(**{name: given})[name]
    assert found == expected
    assert type(found) is type(expected) or isinstance(given, str)
    if isinstance(found, list | tuple):
        assert [type(item) for item in found] == [type(item) for item in expected]


def test_what_fits_is_handed_on_itself() -> None:
    given: dict[str, Any] = {
        "some": [1, 2],
        "names": ["a"],
        "table": {"a": ["b"]},
        "rows": iter([1]),
        "anything": object(),
        "function": len,
        "model": shared("GPT-2"),
    }
    found = taken(**given)
    assert all(found[name] is value for name, value in given.items())


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("whole", True, "whole=True is a bool; expected an integer"),
        ("whole", 1.0, "whole=1.0 is a float; expected an integer"),
        ("whole", None, "whole=None; expected an integer"),
        ("number", "0.4", "number='0.4' is a str; expected a number"),
        ("number", False, "number=False is a bool; expected a number"),
        ("number", 10**400, f"number={'1' + '0' * 50} … {'0' * 26} is an int; expected a number"),
        ("switch", "no", "switch='no' is a str; expected True or False"),
        ("switch", 1, "switch=1 is an int; expected True or False"),
        ("text", b"a", "text=b'a' is a bytes; expected a string"),
        ("place", 3, "place=3 is an int; expected a string or a path"),
        ("word", "c", "word='c'; expected one of 'a', 'b'"),
        ("word", ["a"], "word=['a'] is a list; expected one of 'a', 'b'"),
        ("word", np.array(["a"]), "word is a ndarray [1] of <U1; expected one of 'a', 'b'"),
        ("some", "12", "some='12' is a str; expected a sequence (each item an integer)"),
        ("some", {1: 2}, "some={1: 2} is a dict; expected a sequence (each item an integer)"),
        ("some", [1, "2"], "some[1]='2' is a str; expected an integer"),
        ("some", [1] * 5000 + [None], "some[5000]=None; expected an integer"),
        ("some", np.array([True]), "some[0]=True is a bool; expected an integer"),
        ("some", np.zeros((2, 2)), "some is a ndarray [2, 2] of float64; expected a sequence "),
        ("some", pd.DataFrame({"a": [1]}), "some is a DataFrame [1, 1]; expected a sequence (each"),
        ("many", pd.NA, "many=<NA> is a NAType; expected a sequence (each item a number) or None"),
        ("pair", (1, 2, 3), "pair=(1, 2, 3) is a tuple; expected (an integer, an integer)"),
        ("labels", "NP", "labels='NP' is a str; expected a set (each item a string) or None"),
        ("table", {"a": "b"}, "table['a']='b' is a str; expected a sequence (each item a string)"),
        ("table", {1: ["b"]}, "table key=1 is an int; expected a string"),
        ("rows", "ab", "rows='ab' is a str; expected a sequence"),
        ("rows", 3, "rows=3 is an int; expected a sequence"),
        ("function", 3, "function=3 is an int; expected a function or None"),
        ("model", "gpt2", "model='gpt2' is a str; expected a model from load_model or None"),
        ("model", torch.nn.Linear(1, 1), "is a Linear; expected a model from load_model or None"),
    ],
)
def test_what_is_not_meant_is_refused(name: str, given: Any, message: str) -> None:
    with pytest.raises(OptionError) as refusal:
        taken(**{name: given})
    assert message in str(refusal.value)
    assert str(refusal.value).startswith(f"taken: {name}")


@public
def measured(
    x: Float[Tensor, "batch pos d"],
    ids: Int[Tensor, "batch pos"],
    mask: Int[Tensor, "batch pos"] | Bool[Tensor, "batch pos"] | None = None,
) -> None: ...


@pytest.mark.parametrize(
    ("x", "ids", "mask", "message"),
    [
        ([1.0], [3, 4], None, "x=[1.0] is a list; expected a tensor [batch pos d] of floats"),
        ([3, 4], [3, 4], None, "x is a Tensor [3, 4] of torch.float32; expected a tensor [batch"),
        ([3, 4, 5], [3, 5], None, "[batch pos] of integers, of the sizes of the other arguments"),
        ([3, 4, 5], [3, 4], [4, 3], "[batch pos] of integers, of the sizes of the other arguments"),
        ([3, 4, 5], [12], None, "ids is a Tensor [12] of torch.int64; expected a tensor [batch p"),
    ],
)
def test_tensors_have_a_kind_axes_and_the_sizes_of_one_another(
    x: Any, ids: list[int], mask: Any, message: str
) -> None:
    given = [x if x == [1.0] else torch.zeros(x), torch.zeros(ids).long()]
    with pytest.raises(OptionError) as refusal:
        measured(*given, mask if mask is None else torch.zeros(mask).long())
    assert message in str(refusal.value)
    measured(torch.zeros(3, 4, 5), torch.zeros(3, 4).long(), torch.zeros(3, 4).bool())
    measured(torch.zeros(2, 7, 1), torch.zeros(2, 7).int())  # sizes are forgotten after a call


@public
@dataclass(frozen=True)
class Config:
    rate: float = 0.1
    sizes: tuple[int, ...] = ()

    def times(self, n: int) -> float:
        return self.rate * n

    @classmethod
    def of(cls, rate: float) -> Config:
        return cls(rate)

    @staticmethod
    def double(n: int) -> int:
        return 2 * n

    def __getitem__(self, which: int) -> int:
        return self.sizes[which]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*quant", "ignore:Sparse")
def test_numbers_that_are_not_in_memory_are_refused() -> None:
    @public
    def read(numbers: int | Sequence[int] | None, rows: Sequence[Float[Tensor, "a"]] = ()) -> None:
        raise AssertionError("it was called")

    one = torch.tensor([1.0])
    quantised = torch.quantize_per_tensor(one, 1.0, 0, torch.qint8)
    for values in (one.to("meta"), one.to_sparse(), quantised):
        for given in ([values.int() if values is not quantised else values], [None, [values]]):
            with pytest.raises(OptionError, match=r"dense \(.to_dense\(\)\) and in memory"):
                read(*given)


def test_a_class_is_checked_where_it_is_made_and_used() -> None:
    config = Config(np.float32(0.5), [1, 2])  # type: ignore[arg-type]
    assert config == Config(0.5, (1, 2))
    for call, start in (
        (lambda: Config("x"), "Config: rate='x'"),  # type: ignore[arg-type]
        (lambda: replace(config, rate=None), "Config: rate=None"),  # type: ignore[arg-type]
        (lambda: config.times("2"), "Config.times: n='2'"),  # type: ignore[arg-type]
        (lambda: Config.of("x"), "Config.of: rate='x'"),  # type: ignore[arg-type]
        (lambda: Config.double(2.0), "Config.double: n=2.0"),  # type: ignore[arg-type]
        (lambda: config["a"], "Config: which='a'"),  # type: ignore[index]
    ):
        with pytest.raises(OptionError, match=f"^{start}"):
            call()
    assert (config.times(2), Config.of(1).rate, Config.double(2), config[1]) == (1.0, 1.0, 4, 2)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301  made here
    assert pickle.loads(pickle.dumps(taken)) is taken  # noqa: S301


def test_signatures_and_help_are_the_function_s_own() -> None:
    assert list(inspect.signature(ic.cap_curve).parameters)[:3] == ["model", "examples", "unit"]
    assert list(inspect.signature(ic.TrainConfig).parameters)[:2] == ["lr", "epochs"]
    assert (ic.cap_curve.__doc__ or "").startswith("Layer-wise CAP curve")
    assert ic.cap_curve.__module__ == "interp_compose.studies.cap.measure"


def test_arguments_that_do_not_exist_are_refused_with_those_that_do() -> None:
    config: Any = Config()
    unknown, beyond = "got an unexpected keyword argument", "takes 1 argument without a name, and"
    for call, told in (
        (lambda: config.times(m=2), f"Config.times() {unknown} 'm'; it takes n"),
        (lambda: config.times(2, "x"), f"Config.times() {beyond} got 'x' beyond; it takes n"),
        (lambda: config.double(1, 2, 3), f"Config.double() {beyond} got 2 beyond; it takes n"),
        (lambda: type(config)(rat=1), f"Config() {unknown} 'rat'; did you mean 'rate'?; it takes"),
        (lambda: measured(1, 2, 3, 4), "measured() takes"),  # type: ignore[call-arg, arg-type]
        (lambda: taken(zzz=1), f"taken() {unknown} 'zzz'; it takes whole, number, either"),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(told)}"):
            call()
    with pytest.raises(TypeError, match="missing"):
        measured()  # type: ignore[call-arg]


EVERYTHING = """
import inspect
from operator import attrgetter
import interp_compose as ic
from docs.reference_pages import public_names
def check(name):
    thing = attrgetter(name)(ic)
    made = vars(thing).get("__init__", thing) if inspect.isclass(thing) else thing
    checked = ("_public.py", "keywords.py")  # the second by arguments_of of the first
    assert made.__code__.co_filename.endswith(checked), made
calls = {name: lambda name=name: check(name) for name in public_names()}
"""


def test_everything_public_is_checked() -> None:
    outcomes = outcomes_of(EVERYTHING)
    assert set(outcomes) == {*public_names()}
    assert [name for name, outcome in outcomes.items() if outcome != "accepted"] == []


def test_a_call_is_not_kept_by_its_own_checks() -> None:
    """What a caller had ends with it, without the garbage collector, also where a value fits the
    last member of a union alone."""

    @public
    def taken(value: int | Mapping[str, int] | Mapping[str, str] | None) -> None: ...

    def call(value: Any) -> weakref.ref[Tensor]:
        held = torch.zeros(1)  # of a caller
        taken(value)
        return weakref.ref(held)

    gc.collect()
    gc.disable()
    try:
        assert [call(value)() for value in (None, {"a": "b"})] == [None, None]
    finally:
        gc.enable()


def test_a_check_costs_microseconds() -> None:
    bare = inspect.unwrap(taken)
    cost = min(timeit.repeat(lambda: taken(whole=1, text="a", some=[1, 2]), number=500)) / 500
    own = min(timeit.repeat(lambda: bare(whole=1, text="a", some=[1, 2]), number=500)) / 500
    assert cost - own < 200e-6  # some 5 on an idle machine


def test_the_boundary_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'beartype', 'numpy'}"
    check = f"import interp_compose._public, sys; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


# ---- messages ------------------------------------------------------------------------------


def test_no_message_is_longer_than_500_characters() -> None:
    long = "x" * 20_000
    for kind in (InputError, CorruptFileError, MissingDataError, MissingPackageError):
        error = kind(f"name={long}: expected something; do this next")
        assert isinstance(error, InterpComposeError)
        assert len(str(error)) == 500
        assert str(error).startswith("name=xxx")
        assert str(error).endswith("xxx: expected something; do this next")
        assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  made here
    assert str(InputError("short")) == "short"
    assert shortened("abc", 3) == "abc"
    assert shortened("choose another answer, or leave it out", 30) == "choose another … it out"
    with pytest.raises(OptionError) as refusal:
        taken(table={long: [long, 3]})
    assert len(str(refusal.value)) <= 500
    assert "expected a string" in str(refusal.value)


def test_values_are_shown_whatever_they_are() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert short(Broken()) == "a Broken"
    assert short("a\nb") == r"'a\nb'"
    first = ", ".join(map(str, range(15)))
    assert short(list(range(10_000))) == f"[{first}, … 9996, 9997, 9998, 9999]"
    assert short(torch.zeros(2, 3)) == "a Tensor [2, 3] of torch.float32"
    assert short(pd.Series([1])) == "a Series [1] of int64"
    with pytest.raises(OptionError, match="^taken: whole is a Broken; expected an integer$"):
        taken(whole=Broken())


def test_where_another_package_keeps_beartype_from_being_imported() -> None:
    code = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "beartype.door":
            raise TypeError("unhashable type: 'instancemethod'")
sys.meta_path.insert(0, Broken())
import interp_compose as ic
try:
    ic.load_model("mini-idm")
except ic.errors.MissingPackageError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "(unhashable type: 'instancemethod')" in found.stdout
    assert "import beartype.door, or load a model, before it" in found.stdout
