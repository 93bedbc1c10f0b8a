"""Weights on disk: safetensors and a SHA-256 that is checked on load. Nothing is unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import CapabilityError, CorruptFileError, InputError, OptionError
from interp_compose.models.bridge import settled
from interp_compose.models.effective_weights import deep_copied
from interp_compose.models.hooks import in_evaluation_mode
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import adapter_states
from interp_compose.models.ready import check_unedited
from interp_compose.runs.checksums import check_listed, check_sums, write_sums
from interp_compose.runs.files import write_safetensors


def copy_model(model: LensModel, memo: dict[int, Any] | None = None) -> LensModel:
    """A deep copy, proven to compute the same and to share no weight with the original; what
    :func:`copy.deepcopy` of a model gives.

    Hooks that TransformerLens or transformers added are copied with it. ``memo`` is deepcopy's.

    Raises:
        InterventionError: hooks or ``pool_at`` blocks are open: the copy would keep them.
        CapabilityError: the copy computes something else, or shares memory with the original.
    """
    check_unedited(model, "a copy would keep for good")
    # What a call left behind, such as an attention pattern in its graph, cannot be copied as it is.
    left = [tensor for module in model.lens.modules() for tensor in vars(module).values()]
    memo = {} if memo is None else memo
    memo |= {id(t): t.detach() for t in left if isinstance(t, Tensor) and not t.is_leaf}
    copied = memo[id(model)] = object.__new__(type(model))
    vars(copied).update(deep_copied(vars(model), memo))
    settled(copied.lens)
    copied._built_in = copied._hooks_of_the_lens()
    addresses = {weight.data_ptr() for weight in model.parameters()}
    shared = [weight for weight in copied.parameters() if weight.data_ptr() in addresses]
    if shared or not _alike(model, copied):
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) cannot be copied: the copy "
            f"{'shares weights with it' if shared else 'computes something else'}. Load the model "
            "again for each training instead."
        )
    return copied


@torch.no_grad()
def _alike(model: LensModel, copied: LensModel) -> bool:
    tokens = model.random_tokens(1, min(4, model.n_ctx), torch.Generator().manual_seed(0))
    tokens = tokens.to(model.device)
    with in_evaluation_mode(model.lens), in_evaluation_mode(copied.lens):
        # NaN is copied as NaN: a broken model is not the copy's fault.
        return torch.allclose(model(tokens), copied(tokens), rtol=0, atol=0, equal_nan=True)


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
    metadata = {"architecture": model.architecture}
    if adapters := _adapters(model):
        metadata["adapters"] = adapters
    return write_safetensors(state, path.parent, lambda sha: path.name, metadata)[1]


@public
def load_weights(model: LensModel, path: str | Path) -> None:
    """Put weights saved by :func:`save_weights` into ``model``, after checking their SHA-256.

    Raises:
        OptionError: ``path`` names no file.
        CorruptFileError: the checksum is missing or does not hold, or the file is no safetensors.
        InputError: names or shapes that are not this model's.
    """
    path = _named(path)
    verify_weights(path)
    read_weights(model, path)


def read_weights(model: LensModel, path: Path) -> None:
    """Put weights that were checked already into ``model``.

    Raises:
        CorruptFileError, InputError: as :func:`load_weights`.
    """
    try:
        state = load_file(path, device=str(model.device))
        with safe_open(path, "pt") as file:
            adapters = (file.metadata() or {}).get("adapters", "")
    except SafetensorError as broken:
        raise CorruptFileError(f"{path} is no safetensors file ({broken})") from broken
    if adapters != _adapters(model):
        raise InputError(
            f"{path.name} was saved with adapters in another state than those of {model.name!r} "
            "(merged, disabled, active or scaled otherwise), with which the same weights are "
            "another model; bring them into that state first."
        )
    model.load_state_dict(state)


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
