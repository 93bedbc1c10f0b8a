"""The model that a sweep fine-tunes: kept once beside its runs, where they read it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interp_compose.errors import CorruptFileError, InterpComposeError
from interp_compose.models.decoder import DecoderConfig
from interp_compose.models.from_gpt2 import decoder_from_gpt2
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.models.own_folder import save_model
from interp_compose.models.small_decoder import SmallDecoderModel
from interp_compose.runs.files import remove
from interp_compose.studies.core.sequence_data import SequenceData

START: Final = "start"
"""The folder, beside the runs'."""


def start_of(model: LensModel, data: SequenceData) -> SmallDecoderModel:
    """A given model as a decoder of a task's words; see :func:`.from_gpt2.decoder_from_gpt2`."""
    lens = decoder_from_gpt2(model, data.source, data.longest_pair + 1)
    return SmallDecoderModel(lens.eval(), name=model.name, words=data.source)


def keep_start(start: SmallDecoderModel, out: Path) -> None:
    """Write the model into the folder of a sweep, where it is not there yet, and whole."""
    digest = weights_digest(start)
    folder = out / START / digest
    try:
        if folder.exists():
            kept_start(out, digest)
    except InterpComposeError:
        remove(folder)
    if not folder.exists():
        save_model(start, folder)


def kept_start(out: Path, digest: str) -> SmallDecoderModel:
    """The model that :func:`keep_start` wrote.

    Raises:
        CorruptFileError: it was altered, or another one was put there.
    """
    model = load_model(str(out / START / digest), device="cpu")
    if not isinstance(model, SmallDecoderModel) or weights_digest(model) != digest:
        raise CorruptFileError(
            f"{out / START / digest} holds another model than the one of that name; delete it, and "
            "call the study again"
        )
    return model


def shape_of(config: DecoderConfig) -> dict[str, object]:
    """What :class:`.options.TaskTraining` says of a model's shape."""
    names = ("n_layers", "d_model", "n_heads", "d_mlp", "norm")
    return {name: getattr(config, name) for name in names}
