"""What can be asked of phrase transplants."""

from __future__ import annotations

from dataclasses import dataclass, field

from interp_compose.studies.core.options import (
    Layers,
    LongAnswers,
    ModelSource,
    OnBad,
    Part,
    Pooling,
    SharedOutput,
)


@dataclass(frozen=True, kw_only=True)
class TransplantOptions(LongAnswers):
    """What is measured, and how."""

    layers: Layers = None
    """Where to transplant: layers (0 3 11), or depths as floats from 0.0 to 1.0; all by default."""
    pooling: Pooling = ("mean", "max", "sum")
    """How the tokens of a phrase become one vector; in Python, functions of your own as well."""
    controls: bool = True
    """Also "own" (the target's own phrase, pooled: what pooling alone does), "random phrase" (the
    source phrase of another pair) and "random direction" (a Gaussian vector), both with the norm of
    the vector that is transplanted."""
    on_bad: OnBad = "refuse"
    """What becomes of pairs that cannot be measured (an answer of several tokens, a phrase that
    cuts a token): "refuse" names them, "skip" leaves them out, and the result counts them."""


@dataclass(frozen=True, kw_only=True)
class TransplantSource:
    """Where the pairs come from."""

    task: str = "mini-idm"
    """{transplants tasks}, or a JSONL file of pairs with
    source, source_span, target, target_span, expected, answer."""
    limit: int | None = None
    """Take so many pairs at most, drawn at random by --seed."""


@dataclass(frozen=True, kw_only=True)
class TransplantCommand:
    """Phrase transplants: the vector of a phrase of one prompt replaces a phrase of another, layer
    by layer. Does the model answer what the composed sentence would mean?"""

    model: Part[ModelSource] = field(default_factory=ModelSource)
    pairs: Part[TransplantSource] = field(default_factory=TransplantSource)
    study: Part[TransplantOptions] = field(default_factory=TransplantOptions)
    output: Part[SharedOutput] = field(default_factory=SharedOutput)
