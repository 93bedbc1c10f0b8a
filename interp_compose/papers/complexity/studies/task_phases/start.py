"""The model that a sweep fine-tunes."""

from __future__ import annotations

from interp_compose.models.lens_model import LensModel
from interp_compose.papers.complexity.models.from_gpt2 import decoder_from_gpt2
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.models.decoder import DecoderConfig


def start_of(model: LensModel, data: SequenceData) -> SmallDecoderModel:
    """A given model as a decoder of a task's words; see :func:`.from_gpt2.decoder_from_gpt2`."""
    lens = decoder_from_gpt2(model, data.source, data.longest_pair + 1)
    return SmallDecoderModel(lens.eval(), name=model.name, words=data.source)


def shape_of(config: DecoderConfig) -> dict[str, object]:
    """What :class:`.options.TaskTraining` says of a model's shape."""
    names = ("n_layers", "d_model", "n_heads", "d_mlp", "norm")
    return {name: getattr(config, name) for name in names}
