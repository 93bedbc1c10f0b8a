"""Types are checked in tests, shapes in every function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

from interp_compose.interventions.pooling import spread_groups
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests.checked import checked


def test_a_wrong_shape_is_refused_in_the_package() -> None:
    with pytest.raises(TypeCheckError, match="activations"):
        spread_groups(torch.zeros(2, 3, 4), torch.zeros(2, 5).long(), torch.zeros(2, 5, 7))


def test_a_function_inside_a_function_is_checked_where_it_states_a_shape() -> None:
    def stated(x: Float[Tensor, "batch pos"]) -> Float[Tensor, "batch pos"]:
        return x

    def plain(x: int) -> int:
        return x

    shaped: Any = jaxtyped(typechecker=checked)(stated)
    with pytest.raises(TypeCheckError, match="stated"):
        shaped(torch.zeros(3))
    assert checked(plain) is plain


def test_what_is_no_model_is_still_refused() -> None:
    assert isinstance(load_model("mini-base"), LensModel)
    assert not isinstance(torch.nn.Linear(1, 1), LensModel)
