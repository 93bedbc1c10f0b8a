"""Settings that are declared once, with type and description: subclasses change their defaults, and
TOML files state them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file states.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no TOML.
    """
    return tomllib.loads(path.read_text(encoding="utf-8"))


LATER: Final = {"later": True}
"""Metadata of a field that a later release added to the settings of runs."""


def identity_of(settings: Any) -> dict[str, Any]:
    """What a run is named by: its settings, but for those of :data:`LATER` that have their default,
    so that runs of earlier releases are found."""
    values = asdict(settings)
    for each in fields(settings):
        if each.metadata.get("later") and values[each.name] == each.default:
            del values[each.name]
    return values


def settings_of(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``values`` that the dataclass ``kind`` has a field for."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


class Settings:
    """A base of dataclasses of settings: ``class Deep(Shape, n_layers=24)``, made a dataclass like
    ``Shape``, has another default."""

    def __init_subclass__(cls, **defaults: Any) -> None:
        super().__init_subclass__()
        own = vars(cls).get("__annotations__", {})
        for name, value in defaults.items():
            bases = [
                base for base in cls.__mro__[1:] if name in vars(base).get("__annotations__", {})
            ]
            if not bases:
                raise TypeError(f"{cls.__name__}({name}=…): no base of it declares {name!r}")
            # The type itself: its name would be looked up in the subclass's module.
            own[name] = get_type_hints(bases[-1], include_extras=True)[name]
            setattr(cls, name, value)
        cls.__annotations__ = own

    def values_of(self, *bases: Any) -> dict[str, Any]:
        """The values of the settings that these bases of its class declare."""
        return {each.name: getattr(self, each.name) for base in bases for each in fields(base)}
