"""Encoders from names, folders and objects.

The bridge knows the masked-LM classes alone. A checkpoint without such a head (every sentence
encoder) gets one of zeros, which is never read: the model's ``has_head`` is False.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from interp_compose.errors import CapabilityError
from interp_compose.models.bridge import TransformerBridge, bridge_around
from interp_compose.models.encoder import HEADS, EncoderModel
from interp_compose.models.model_files import check_report, saved_tokenizer
from interp_compose.models.own_forward import OwnForward
from interp_compose.models.sentence_config import SentenceConfig, read_sentence_config

HEADLESS = "_interp_compose_stated"
"""Marks a masked-LM class whose head is of zeros; holds the embedding that its folder states."""


def is_encoder(config: Any) -> bool:
    """Whether a Hugging Face config is of an encoder that the bridge can wrap."""
    return getattr(config, "model_type", None) in HEADS


def peek(
    source: str, revision: str | None, *, trust_remote_code: bool
) -> tuple[Any, SentenceConfig | None]:
    """The config of a folder or hub name, and the embedding it states.

    The config is None where transformers alone cannot read it (TransformerLens may). A missing
    network fails once, here, and not again for every file.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import LocalEntryNotFoundError
    from transformers import AutoConfig

    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    stated = read_sentence_config(source, revision) if Path(source).is_dir() else None
    subfolder = stated.subfolder if stated else ""
    try:
        config = AutoConfig.from_pretrained(source, subfolder=subfolder, **options)
    except ValueError:
        config = None
    except OSError as error:  # on the hub, it may be in the folder that modules.json names
        cached = try_to_load_from_cache(source, "modules.json", revision=revision)
        if isinstance(error.__cause__, LocalEntryNotFoundError) and not isinstance(cached, str):
            raise  # no network: to ask for another file would wait as long again
        stated = stated or read_sentence_config(source, revision)
        if stated is None or stated.subfolder == subfolder:
            raise
        config = AutoConfig.from_pretrained(source, subfolder=stated.subfolder, **options)
    return config, stated or read_sentence_config(source, revision)


def load_encoder(
    source: str,
    config: Any,
    stated: SentenceConfig | None,
    *,
    name: str,
    tokenizer: Any,
    options: dict[str, Any],
) -> EncoderModel:
    """``config`` and ``stated`` are those that :func:`peek` returns; ``options`` are
    ``from_pretrained``'s, and ``device`` unless there is a ``device_map``.

    Raises:
        CorruptFileError: the checkpoint lacks weights or a tokenizer, or its weights have other
            shapes than its config states.
    """
    import transformers

    device = options.pop("device", None)
    arguments = {"subfolder": stated.subfolder if stated else "", **options}
    if tokenizer is None:
        rest = {key: arguments[key] for key in arguments if key not in ("dtype", "device_map")}
        tokenizer = saved_tokenizer(source, name, **rest)
    _check_config(config, name)
    has_head = HEADS[config.model_type] in (config.architectures or [])
    kind = getattr(transformers, HEADS[config.model_type]) if has_head else transformers.AutoModel
    if not has_head:
        arguments["add_pooling_layer"] = False  # else one of random weights, where none was saved
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # what it reports is checked below
    try:
        model, report = kind.from_pretrained(
            source,
            attn_implementation="eager",
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **arguments,
        )
    finally:
        transformers.logging.set_verbosity(verbosity)
    check_report(report, name)
    if device is not None:
        model = model.to(device)
    return encoder_around(model.eval(), name=name, tokenizer=tokenizer, stated=stated)


def encoder_around(
    model: nn.Module, *, name: str, tokenizer: Any, stated: SentenceConfig | None = None
) -> EncoderModel:
    """A Hugging Face encoder, with or without a masked-LM head, wrapped in place.

    Raises:
        CapabilityError: its attention is masked as a decoder's is, or its positions are relative.
    """
    import transformers

    config: Any = model.config
    _check_config(config, name)
    has_head = isinstance(model, getattr(transformers, HEADS[config.model_type]))
    reference = OwnForward.of(model if has_head else model.base_model, hidden=not has_head)
    whole: Any = model if has_head else _under_zeros(model)
    if not has_head:
        setattr(whole, HEADLESS, stated)
    loaded = encoder_on(bridge_around(whole), name=name, tokenizer=tokenizer, stated=stated)
    reference.check(loaded, partial(encoder_around, name=name, tokenizer=None))
    return loaded


def encoder_on(
    bridge: TransformerBridge, *, name: str, tokenizer: Any, stated: SentenceConfig | None = None
) -> EncoderModel:
    """The encoder on a bridge around a masked-LM class, maybe one of :func:`encoder_around`'s."""
    hf_model = bridge.original_model
    _check_config(hf_model.config, name)
    headless = hasattr(hf_model, HEADLESS)
    return EncoderModel(
        bridge,
        name=name,
        tokenizer=tokenizer,
        has_head=not headless,
        stated=getattr(hf_model, HEADLESS) if headless else stated,
    )


def _check_config(config: Any, name: str) -> None:
    """Refuse, by name, configs of supported classes that compute something else."""
    if config.is_decoder:
        raise CapabilityError(
            f"{name!r} is an encoder with is_decoder=True: its attention masks later tokens, "
            "which is not done here. Load it with is_decoder=False."
        )
    positions = getattr(config, "position_embedding_type", None) or "absolute"
    if positions != "absolute":
        raise CapabilityError(
            f"{name!r} has position_embedding_type={positions!r}, which transformers no longer "
            "computes; only absolute positions are supported."
        )
    if config.model_type == "roberta" and config.pad_token_id is None:
        raise CapabilityError(
            f"{name!r} is a RoBERTa whose config has no pad_token_id, from which its positions "
            "are counted; set it (1 in every published RoBERTa)."
        )


def _under_zeros(model: Any) -> nn.Module:
    """The encoder of ``model`` inside the masked-LM class, whose own weights are zero."""
    import transformers

    core = model.base_model
    with torch.device("meta"):
        whole: Any = getattr(transformers, HEADS[core.config.model_type])(core.config)
    setattr(whole, whole.base_model_prefix, core)
    words = core.get_input_embeddings().weight
    whole.get_output_embeddings().weight = words  # tied, and so no more memory
    for module in whole.modules():
        for key, weight in list(module.named_parameters(recurse=False)):
            if weight.is_meta:
                zeros = torch.zeros(weight.shape, dtype=words.dtype, device=words.device)
                setattr(module, key, nn.Parameter(zeros, requires_grad=False))
    whole.train(model.training)
    return whole  # type: ignore[no-any-return]
