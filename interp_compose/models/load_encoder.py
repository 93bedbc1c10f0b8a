"""Encoders from names, folders and objects.

The bridge knows the masked-LM classes alone. A checkpoint without such a head (every sentence
encoder) is put under one of zeros, which is never read: the model says that it has no head.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from interp_compose.errors import CapabilityError, CorruptFileError
from interp_compose.models.bridge import bridge_around
from interp_compose.models.encoder import HEADS, EncoderModel
from interp_compose.models.sentence_folder import StatedEmbedding, read_stated


def is_encoder(config: Any) -> bool:
    """Whether a Hugging Face config is of an encoder that the bridge can wrap."""
    return getattr(config, "model_type", None) in HEADS


def peek(
    source: str, revision: str | None, *, trust_remote_code: bool
) -> tuple[Any, StatedEmbedding | None]:
    """The config of a folder or hub name, and the embedding it states.

    The config is None where transformers alone cannot read it (TransformerLens may). A network
    that is not there fails once, here, and not again for every file.
    """
    from transformers import AutoConfig

    is_folder = Path(source).is_dir()
    stated = read_stated(source, revision) if is_folder else None
    try:
        config = AutoConfig.from_pretrained(
            source,
            revision=revision,
            subfolder=stated.subfolder if stated else "",
            trust_remote_code=trust_remote_code,
        )
    except ValueError:
        config = None
    return config, stated if is_folder else read_stated(source, revision)


def load_encoder(
    source: str,
    stated: StatedEmbedding | None,
    *,
    name: str,
    tokenizer: Any,
    options: dict[str, Any],
) -> EncoderModel:
    """``options`` are ``from_pretrained``'s, and ``device`` unless there is a ``device_map``."""
    import transformers

    device = options.pop("device", None)
    place = {"subfolder": stated.subfolder if stated else "", **options}
    config = transformers.AutoConfig.from_pretrained(source, **_without(place, "dtype"))
    has_head = HEADS[config.model_type] in (config.architectures or [])
    kind = getattr(transformers, HEADS[config.model_type]) if has_head else transformers.AutoModel
    if not has_head:
        place["add_pooling_layer"] = False  # else one with random weights, where none was saved
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # what is missing is checked below
    try:
        model, report = kind.from_pretrained(
            source, attn_implementation="eager", output_loading_info=True, **place
        )
    finally:
        transformers.logging.set_verbosity(verbosity)
    missing = sorted(report["missing_keys"])
    if missing:
        raise CorruptFileError(
            f"the weights of {name!r} lack {missing[0]!r} ({len(missing)} in all), which would "
            f"be random numbers in a {type(model).__name__}; get the checkpoint again."
        )
    if device is not None:
        model = model.to(device)
    if tokenizer is None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source, **_without(place, "dtype", "device_map", "add_pooling_layer")
        )
    return encoder_around(model.eval(), name=name, tokenizer=tokenizer, stated=stated)


def encoder_around(
    model: nn.Module, *, name: str, tokenizer: Any, stated: StatedEmbedding | None = None
) -> EncoderModel:
    """A Hugging Face encoder, with or without a masked-LM head, wrapped in place.

    Raises:
        CapabilityError: its attention is masked as a decoder's is.
    """
    config: Any = model.config
    if config.is_decoder:
        raise CapabilityError(
            f"{name!r} is a {type(model).__name__} with is_decoder=True: its attention hides the "
            "future, which is not masked here. Load it with is_decoder=False."
        )
    has_head = type(model).__name__ == HEADS[config.model_type]
    whole = model if has_head else _under_zeros(model)
    return EncoderModel(
        bridge_around(whole), name=name, tokenizer=tokenizer, has_head=has_head, stated=stated
    )


def _under_zeros(model: Any) -> nn.Module:
    """The encoder of ``model`` inside the masked-LM class, whose own weights are zero."""
    import transformers

    core = model.base_model
    with torch.device("meta"):
        whole: Any = getattr(transformers, HEADS[core.config.model_type])(core.config)
    setattr(whole, whole.base_model_prefix, core)
    whole.tie_weights()
    like = next(core.parameters())
    for module in whole.modules():
        for key, weight in list(module.named_parameters(recurse=False)):
            if weight.is_meta:
                zeros = torch.zeros(weight.shape, dtype=like.dtype, device=like.device)
                setattr(module, key, nn.Parameter(zeros, requires_grad=False))
    whole.train(model.training)
    return whole  # type: ignore[no-any-return]


def _without(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in names}
