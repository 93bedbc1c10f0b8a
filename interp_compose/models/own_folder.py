"""Folders of models that are written out in this library: a shape and weights, saved and loaded."""

from __future__ import annotations

import os
import pkgutil
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from torch import nn

from interp_compose._public import public
from interp_compose.errors import CorruptFileError, InterpComposeError, OptionError, first_line
from interp_compose.models.lens_model import LensModel
from interp_compose.models.weights import read_weights, write_weights
from interp_compose.runs.checksums import SUMS, check_sums, digests_of, write_sums
from interp_compose.runs.files import (
    atomic_write,
    disk,
    json_bytes,
    read_json,
    temporary_folder,
)

WEIGHTS: Final = "weights.safetensors"


class OwnModel(LensModel):
    """A :class:`.lens_model.LensModel` on a module of this library, which a few numbers and words
    describe."""

    KIND: ClassVar[str]
    """What a message calls such a model."""
    FORMAT: ClassVar[str]
    CONFIG: ClassVar[str]
    """The file that describes it, by whose name its folder is known."""
    keeps_to_names = True

    @abstractmethod
    def described(self) -> Mapping[str, Any]:
        """Everything but the weights, in JSON's types."""

    @classmethod
    @abstractmethod
    def of(cls, described: Mapping[str, Any], *, name: str, tokenizer: Any) -> OwnModel:
        """The model that is described; its weights are still to be loaded."""


SAVED: Final[Mapping[str, tuple[str, str]]] = {
    "decoder.json": (
        "papers.shared.models.decoder:SmallDecoder",
        "papers.complexity.models.small_decoder:SmallDecoderModel",
    ),
    "seq2seq.json": (
        "papers.lrf.models.seq2seq:SmallSeq2Seq",
        "papers.lrf.models.small_seq2seq:SmallSeq2SeqModel",
    ),
    "encoder.json": (
        "papers.cat.models.bert:SmallEncoder",
        "papers.cat.models.small_encoder:SmallEncoderModel",
    ),
}
"""Modules of papers and the models on them, by the file that describes such a model; imported when
one is met."""


@public
def save_model(model: LensModel, folder: str | Path) -> Path:
    """Shape and weights of a model that was made here (by :func:`.small_decoder.small_decoder`, for
    example) into a new ``folder``, which :func:`.load.load_model` reads.

    ::

        decoder.json                 format and shape; its name says the kind of model
        weights.safetensors          every weight by TransformerLens' names
        SHA256SUMS                   of both, so that neither can be mixed with another model's

    The folder gets its name once it is complete. A tokenizer is part of it where this library made
    it with the model: of the model's words, or of byte pairs.

    Raises:
        OptionError: another kind of model; a folder that exists and is not empty.
        OutputError: the folder cannot be written.
    """
    if not isinstance(model, OwnModel):
        raise OptionError(
            f"the model is a {type(model).__name__}: expected one that was made here, as by "
            "small_decoder(…); of others, keep the weights with save_weights(model, path)."
        )
    folder = new_folder(folder)
    with temporary_folder(folder.parent) as temporary:
        write_weights(model, temporary / WEIGHTS)
        described = {"format": model.FORMAT, **model.described()}
        atomic_write(temporary / model.CONFIG, json_bytes(described))
        write_sums(temporary / SUMS, digests_of(temporary, (model.CONFIG, WEIGHTS)))
        os.replace(temporary, folder)
    return folder


def new_folder(folder: str | Path) -> Path:
    """``folder`` as a whole path, on which a finished folder can be put.

    Raises:
        OptionError: it exists and is not empty.
        OutputError: it cannot be looked at.
    """
    folder = Path(os.path.abspath(folder))
    with disk(folder):
        occupied = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if occupied:
        raise OptionError(f"{folder} exists and is not empty: give a new folder's name.")
    return folder


def kind_of_folder(folder: Path) -> type[OwnModel] | None:
    """Whose folder it is, judged by the names of its files; None: not one of :func:`save_model`."""
    return next(
        (_kind(model) for name, (_, model) in SAVED.items() if (folder / name).is_file()), None
    )


def own_model_around(module: nn.Module, tokenizer: Any) -> OwnModel | None:
    """The model on a module of a paper; None where it is another module."""
    kinds = {f"{kind.__module__}:{kind.__qualname__}" for kind in type(module).__mro__}
    for file, (of_module, model) in SAVED.items():
        if f"interp_compose.{of_module}" in kinds:
            kind: Any = _kind(model)
            wrapped: OwnModel = kind(module, name=f"small-{Path(file).stem}", tokenizer=tokenizer)
            return wrapped
    return None


def _kind(model: str) -> type[OwnModel]:
    kind: type[OwnModel] = pkgutil.resolve_name(f"interp_compose.{model}")
    return kind


def load_own_model(
    kind: type[OwnModel],
    folder: Path,
    *,
    name: str,
    tokenizer: Any,
    device: str,
    dtype: torch.dtype,
) -> OwnModel:
    """The model in a folder of :func:`save_model`, in evaluation mode.

    Raises:
        CorruptFileError: a file is missing, was altered, or belongs to another model; a format
            that this release does not know.
    """
    described = read_json(folder / kind.CONFIG)
    file_format = described.get("format") if isinstance(described, dict) else None
    if file_format != kind.FORMAT:
        raise CorruptFileError(
            f"{folder / kind.CONFIG} states the format {file_format!r}, and this release reads "
            f"{kind.FORMAT!r}; load it with the release that wrote it."
        )
    check_sums(folder / SUMS, (kind.CONFIG, WEIGHTS))
    try:
        model = kind.of(described, name=name, tokenizer=tokenizer)
        model.lens.to(device, dtype)
        read_weights(model, folder / WEIGHTS)
    except CorruptFileError:
        raise
    except (KeyError, TypeError, RuntimeError, InterpComposeError) as misfit:
        raise CorruptFileError(
            f"{folder} does not hold a {kind.KIND}: {first_line(misfit)}"
        ) from misfit
    model.eval()
    return model
