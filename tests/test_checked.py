"""Types are checked in tests, shapes in every function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped as hooked
from torch import Tensor

from interp_compose.interventions.pooling import spread_groups
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.plots.scatter import Group
from interp_compose.plots.theme import BLUE, Style
from interp_compose.runs.files import make_folder
from tests.checked import checked, jaxtyped


@jaxtyped(typechecker=checked)
def halved(x: int, unknown: NotImported = None) -> int:  # type: ignore[name-defined]
    return x // 2 if x > 1 else ""  # type: ignore[return-value]


def test_a_wrong_shape_is_refused_in_the_package() -> None:
    with pytest.raises(TypeCheckError, match="activations"):
        spread_groups(torch.zeros(2, 3, 4), torch.zeros(2, 5).long(), torch.zeros(2, 5, 7))


def test_what_states_no_shape_is_checked_too() -> None:
    wrong: Any = 3
    assert hooked is jaxtyped
    with pytest.raises(TypeCheckError, match="folder"):
        make_folder(wrong)
    with pytest.raises(TypeCheckError, match="texts"):  # the one that dataclasses make
        Group("a", Style(BLUE, "circle"), [1.0], [2.0], wrong)
    assert halved(4, wrong) == 2
    assert halved.__annotations__["x"] == "int"  # the package reads its own as they are written
    with pytest.raises(TypeCheckError, match="return"):
        halved(1)
    with pytest.raises(TypeCheckError, match="x"):
        halved("a")  # type: ignore[arg-type]


def test_a_function_inside_a_function_is_checked_where_it_states_a_shape() -> None:
    def stated(x: Float[Tensor, "batch pos"]) -> Float[Tensor, "batch pos"]:
        return x

    def plain(x: int) -> int:
        return x

    shaped: Any = hooked(typechecker=checked)(stated)
    with pytest.raises(TypeCheckError, match="stated"):
        shaped(torch.zeros(3))
    assert checked(plain) is plain


def test_what_is_no_model_is_still_refused() -> None:
    assert isinstance(load_model("mini-base"), LensModel)
    assert not isinstance(torch.nn.Linear(1, 1), LensModel)
