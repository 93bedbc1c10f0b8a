"""Activations that are what their names say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import warn
from interp_compose.models.activations import Activations, Names, read_at, some
from interp_compose.models.base import BaseModel
from interp_compose.models.proofs import Proofs, field, instead_of
from interp_compose.models.shown import READ_INSTEAD, hook_points
from interp_compose.types import Inputs, Read


def captured(
    model: BaseModel,
    proofs: Proofs,
    tokens: Inputs,
    names: Names,
    *,
    attention_mask: Int[Tensor, "batch pos"] | None,
    grad: bool,
    read: Read,
) -> tuple[Float[Tensor, "batch _ width"], Activations]:
    """The output that ``read`` names, and activations that are what their names say.

    Raises:
        OptionError: a name that the model does not have, or a filter that takes none.
        CapabilityError: a name of a hook point that shows something else than it is named for.
        InterventionError: a named hook point that never fired; of a filter's, that none did.
        UserWarning: a filter took hook points that show something else; they are left out.
    """
    options: Any = {"attention_mask": attention_mask, "grad": grad, "read": read}
    options["check"] = proofs.prove_shown
    if isinstance(names, str) or not (names is None or callable(names)):
        exact = [names] if isinstance(names, str) else names
        proofs.prove_shown(exact)
        return read_at(model, tokens, exact, **options)
    matching = list(hook_points(model)) if names is None else model.open_blocks.matching(names)
    chosen = [name for name in matching if model.open_blocks.takes_hooks(name)]
    wrong = proofs.shown_otherwise(chosen)
    if len(wrong) == len(chosen):  # nothing is left: refused as if it had been named
        model.open_blocks.check_point(matching[0])
        proofs.prove_shown(chosen)
    if wrong:
        instead = "; ".join(dict.fromkeys(map(instead_of, wrong)))
        warn(
            f"{len(wrong)} of {len(chosen)} hook points of {model.architecture} show something "
            f"else than their names say, and are left out: {some(list(wrong))}. Read instead: "
            f"{instead}. model.capture_as_shown reads them as they are.",
        )
    kept_names = [name for name in chosen if name not in wrong]
    if names is None:
        kept_names += _named_otherwise(model, wrong)
    return read_at(model, tokens, kept_names, all_fire=False, **options)


def _named_otherwise(model: BaseModel, names: Iterable[str]) -> list[str]:
    """Other names of these hook points, which say no more than they show."""
    points, others = model.hook_dict, dict[int, str]()
    wrong = {id(points[name]) for name in names}
    for name, point in points.items():
        if id(point) in wrong and field(name) not in READ_INSTEAD:
            others.setdefault(id(point), name)
    return list(others.values())
