"""Weights on disk: safetensors and a SHA-256 that is checked on load. Nothing is unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from interp_compose._public import public
from interp_compose.errors import CorruptFileError, InputError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import adapter_states
from interp_compose.runs.checksums import check_listed, check_sums, write_sums
from interp_compose.runs.files import write_safetensors

ABOUT: Final = "interp_compose"
"""The entry of a file's metadata that says of which model the weights are, in JSON."""


@public
def save_weights(model: LensModel, path: str | Path) -> Path:
    """Every weight by TransformerLens' names into ``path`` (safetensors), its SHA-256 into
    ``path`` + ``.sha256``.

    Both are written under temporary names and renamed, the weights first.

    Raises:
        OptionError: ``path`` names no file.
        OutputError: they cannot be written.
    """
    path = _named(path)
    write_sums(_checksum_file(path), {path.name: write_weights(model, path)})
    return path


def write_weights(model: LensModel, path: Path) -> str:
    """Every weight into ``path``, whole; its SHA-256 is returned, for whoever keeps the record."""
    state = {
        name: tensor.detach().to("cpu").contiguous().clone()
        for name, tensor in model.state_dict().items()
    }
    about = {"architecture": model.architecture, "name": model.name, "adapters": _adapters(model)}
    # One entry: safetensors writes several in any order, and the same weights are the same bytes.
    metadata = {ABOUT: json.dumps(about)}
    return write_safetensors(state, path.parent, lambda sha: path.name, metadata)[1]


@public
def load_weights(model: LensModel, path: str | Path) -> None:
    """Put weights saved by :func:`save_weights` into ``model``, after checking their SHA-256; it
    then has the name of the model that they were saved from.

    Raises:
        OptionError: ``path`` names no file.
        CorruptFileError: the checksum is missing or does not hold, or the file is no safetensors.
        InputError: names or shapes that are not this model's.
    """
    path = _named(path)
    verify_weights(path)
    name = read_weights(model, path)
    model.name = name or f"{model.name}, weights of {path.name}"


def read_weights(model: LensModel, path: Path) -> str:
    """Put weights that were checked already into ``model``; the name of the model that they were
    saved from, where the file has it.

    Raises:
        CorruptFileError, InputError: as :func:`load_weights`.
    """
    try:
        state = load_file(path, device=str(model.device))
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}  # of earlier files an entry for each
    except SafetensorError as broken:
        raise CorruptFileError(f"{path} is no safetensors file ({broken})") from broken
    about = json.loads(metadata[ABOUT]) if ABOUT in metadata else metadata
    if about.get("adapters", "") != _adapters(model):
        raise InputError(
            f"{path.name} was saved with adapters in another state than those of {model.name!r} "
            "(merged, disabled, active or scaled otherwise), with which the same weights are "
            "another model; bring them into that state first."
        )
    model.load_state_dict(state)
    name: str = about.get("name", "")
    return name


def _adapters(model: LensModel) -> str:
    states = adapter_states(model)
    return json.dumps(states, sort_keys=True, default=str) if states else ""


def _named(path: str | Path) -> Path:
    if not Path(path).name:
        raise OptionError(f"path={str(path)!r} names no file; expected one such as w.safetensors")
    return Path(path)


def verify_weights(path: Path) -> None:
    """Check weights saved by :func:`save_weights` without loading them.

    Raises:
        CorruptFileError: the file or its checksum is missing, or does not hold; or the weights are
            not those of the run whose folder holds them.
    """
    checksum = _checksum_file(path)
    if not path.is_file() or not checksum.is_file():
        raise CorruptFileError(
            f"expected weights {path.name} and their checksum {checksum.name} in {path.parent}; "
            "save them with save_weights()."
        )
    check_sums(checksum, [path.name])
    check_listed(path)


def _checksum_file(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
