"""What can be asked of an audit."""

from __future__ import annotations

from dataclasses import dataclass, field

from interp_compose.studies.core.options import ApiOnly, ModelSource, Output, Part


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """How much is checked."""

    quick: bool = False
    """The model alone: leave out single hook points and torch.compile."""
    progress: ApiOnly[bool] = True
    """Show a bar."""


@dataclass(frozen=True, kw_only=True)
class AuditCommand:
    """What of a model behind TransformerLens is not what it claims to be: edits that are discarded,
    hook points that never fire or show something else than their name says, numbers that padding,
    neighbours in a batch or torch.compile change. Exit status 1 where something is found, or the
    model is refused."""

    model: Part[ModelSource] = field(default_factory=ModelSource)
    study: Part[AuditOptions] = field(default_factory=AuditOptions)
    output: Part[Output] = field(default_factory=Output)
