"""The model that a sweep starts from: kept once beside its runs, where they read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from interp_compose.errors import CorruptFileError, InterpComposeError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.models.own_folder import OwnModel, save_model
from interp_compose.runs.files import remove

START: Final = "start"
"""The folder, beside the runs'."""
Kind = TypeVar("Kind", bound=OwnModel)


def keep_start(start: OwnModel, out: Path) -> None:
    """Write the model into the folder of a sweep, where it is not there yet, and whole."""
    digest = weights_digest(start)
    folder = out / START / digest
    try:
        if folder.exists():
            kept_start(out, digest, type(start))
    except InterpComposeError:
        remove(folder)
    if not folder.exists():
        save_model(start, folder)


def kept_start(out: Path, digest: str, kind: type[Kind]) -> Kind:
    """The model that :func:`keep_start` wrote.

    Raises:
        CorruptFileError: it was altered, or another one was put there.
    """
    model = load_model(str(out / START / digest), device="cpu")
    if not isinstance(model, kind) or weights_digest(model) != digest:
        raise CorruptFileError(
            f"{out / START / digest} holds another model than the one of that name; delete it, and "
            "call the study again"
        )
    return model


def check_shape_left_out(
    model: LensModel, shape: Mapping[str, Any], options: object, defaults: object
) -> None:
    """Refuse options that state another shape than the model's ``shape``.

    Raises:
        OptionError: they do.
    """
    for name, value in shape.items():
        stated = getattr(options, name)
        if stated not in (getattr(defaults, name), value):
            raise OptionError(
                f"{name}={stated!r} with the model {model.name!r}, whose own is {value!r}: leave "
                "it out"
            )
