"""What can be asked of a report on a model's weights."""

from __future__ import annotations

from dataclasses import dataclass, field

from interp_compose.studies.core.options import ApiOnly, ModelSource, Output, Part


@dataclass(frozen=True, kw_only=True)
class WeightsOptions:
    """What is measured."""

    heads: bool = True
    """Also measure each attention head separately."""
    progress: ApiOnly[bool] = True
    """Show a bar."""


@dataclass(frozen=True, kw_only=True)
class WeightsCommand:
    """Complexity of every weight matrix of a model (complexity control, section VI): stable and
    effective rank, and condensation of neurons, next to what random matrices have."""

    model: Part[ModelSource] = field(default_factory=lambda: ModelSource(model="mini-base"))
    study: Part[WeightsOptions] = field(default_factory=WeightsOptions)
    output: Part[Output] = field(default_factory=Output)
