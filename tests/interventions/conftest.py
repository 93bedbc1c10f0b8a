"""The models that interventions are tested on; no test may change them."""

from __future__ import annotations

import pytest

from interp_compose.models.lens_model import LensModel
from tests.interventions.shared import FEW, WRAPPED, params, shared


@pytest.fixture(params=params(*WRAPPED, "native", "HookedTransformer"))
def each(request: pytest.FixtureRequest) -> LensModel:
    """Every architecture that can be wrapped."""
    return shared(request.param)


@pytest.fixture(params=params(*FEW))
def model(request: pytest.FixtureRequest) -> LensModel:
    """One of each kind."""
    return shared(request.param)
