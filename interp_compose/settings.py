"""Settings that are declared once, with type and description; a subclass changes their defaults."""

from __future__ import annotations

from typing import Any, get_type_hints


class Settings:
    """A base of dataclasses of settings. ``class Mine(Shape, n_layers=4)``, made a dataclass, is
    Shape with another default."""

    def __init_subclass__(cls, **defaults: Any) -> None:
        super().__init_subclass__()
        for name, value in defaults.items():
            declaring = [
                base for base in cls.__mro__[1:] if name in vars(base).get("__annotations__", {})
            ]
            if not declaring:
                raise TypeError(f"{cls.__name__}({name}=…): none of its bases declares {name!r}")
            # The type itself: a name would be looked up in the subclass's module.
            hint = get_type_hints(declaring[-1], include_extras=True)[name]
            cls.__annotations__ = {**vars(cls).get("__annotations__", {}), name: hint}
            setattr(cls, name, value)
