"""Options declared once: the keywords, types, defaults and docstring of a public function."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, get_type_hints

import pytest

import interp_compose as ic
from interp_compose.errors import OptionError
from interp_compose.studies.core.keywords import keywords


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all have."""

    progress: bool = True
    """Show a bar."""


@dataclass(frozen=True, kw_only=True)
class Some(Shared):
    """What some have."""

    unit: Literal["word", "text"] = field(default="word", kw_only=False)
    """What is pooled."""
    progress: bool = False
    """Show
    no bar."""


@dataclass(frozen=True, kw_only=True)
class Own(Some):
    """What one has."""

    rate: float | None = None
    """A share."""


@keywords(Own)
def measured(first: int, second: str, asked: Own) -> tuple[int, str, Own]:
    """Measure.

    Args:
        first: a number.
        second: a text.
        asked: every option.

    Returns:
        All of it.
    """
    return first, second, asked


def test_fields_are_keywords_with_their_types_and_defaults() -> None:
    signature = inspect.signature(measured)
    assert list(signature.parameters) == ["first", "second", "unit", "progress", "rate"]
    kinds = [parameter.kind.name for parameter in signature.parameters.values()]
    assert kinds == ["POSITIONAL_OR_KEYWORD"] * 3 + ["KEYWORD_ONLY"] * 2
    assert signature.parameters["unit"].annotation == Literal["word", "text"]
    assert signature.parameters["progress"].default is False
    assert signature.return_annotation == tuple[int, str, Own]
    assert get_type_hints(measured)["return"] == tuple[int, str, Own]  # what the pages show
    assert measured(1, "a") == (1, "a", Own())
    assert measured(first=1, second="a", rate=1) == (1, "a", Own(rate=1.0))
    assert measured(1, "a", "text") == measured(1, "a", unit="text") == (1, "a", Own(unit="text"))
    assert (measured.__name__, measured.__module__) == ("measured", __name__)


def test_descriptions_stand_in_the_docstring() -> None:
    assert inspect.cleandoc(measured.__doc__ or "").splitlines()[2:8] == [
        "Args:",
        "    first: a number.",
        "    second: a text.",
        "    unit: What is pooled.",
        "    progress: Show no bar.",
        "    rate: A share.",
    ]


def test_wrong_values_and_names_are_refused_by_the_functions_name() -> None:
    with pytest.raises(OptionError, match="^measured: unit='page'; expected one of 'word', 'text'"):
        measured(1, "a", unit="page")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="^measured: unit='page'; expected one of 'word', 'text'"):
        measured(1, "a", "page")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="^measured: second=2 is an int; expected a string"):
        measured(1, 2)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError,
        match=r"^measured\(\) got an unexpected keyword argument 'ratio'; did you mean 'rate'",
    ):
        measured(1, "a", ratio=2)  # type: ignore[call-arg]
    with pytest.raises(
        TypeError,
        match=r"^measured\(\) takes 3 arguments without a name, and got False beyond; it takes",
    ):
        measured(1, "a", "text", False)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^measured\(\) missing a required argument: 'second'"):
        measured(1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "name",
    [
        *("cap_curve", "ablation_curve", "similarity_curve", "complexity_report"),
        *("complexity.phase_diagram", "complexity.fitting_speed", "complexity.mechanism"),
        "carma.compare",
    ],
)
def test_every_option_of_every_study_is_described(name: str) -> None:
    function = attrgetter(name)(ic)
    doc = inspect.getdoc(function)
    for parameter in inspect.signature(function).parameters:
        assert f"    {parameter}: " in doc, parameter
    assert "asked:" not in doc
