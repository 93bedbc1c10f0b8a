"""Checks of a model's files before Hugging Face reads them: no pickles, no impossible sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    OptionError,
    did_you_mean,
    first_line,
)
from interp_compose.runs.files import json_value

SAFE = ("model.safetensors", "model.safetensors.index.json")
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "n_inner",
    "max_position_embeddings",
    "type_vocab_size",
)
"""A config's sizes; transformers maps an architecture's own names (``n_embd``) to these."""
REQUIRED_SIZES = ("vocab_size", "hidden_size", "num_hidden_layers")
OLD_BUFFERS = r"(masked_bias|attn\.bias|attention\.bias|inv_freq)$"
"""What older checkpoints hold of causal masks and rotary angles."""
LAYER = re.compile(rf"\.(layer|layers|block|blocks|h)\.\d+\.(?!.*{OLD_BUFFERS})")
"""Matches the name of a weight that belongs to one layer."""
MAX_LAYERS = 10_000
MAX_WEIGHTS = 10**14
"""Weights of the embedding, at most."""


def refuse_pickled(source: str, config: Any, *, subfolder: str, revision: str | None) -> None:
    """Refuse a folder or hub repository whose weights Hugging Face would unpickle.

    Raises:
        CapabilityError: there is a ``pytorch_model.bin`` and no safetensors file, or the config
            names weights of another kind.
        CorruptFileError: a list of shards that leads out of its folder, or to other files.
    """
    from transformers.utils import has_file

    named = getattr(config, "transformers_weights", None)
    inside = f"{subfolder}/" if subfolder else ""
    pickled = named if named is not None and ".safetensors" not in str(named) else None
    if pickled is None and not any(has_file(source, inside + name, revision) for name in SAFE):
        pickled = next((one for one in PICKLED if has_file(source, inside + one, revision)), None)
    if pickled is not None:
        raise CapabilityError(
            f"the weights of {source!r} are pickled ({pickled}), and a pickle can run code; "
            "convert them where you trust them: AutoModelForCausalLM.from_pretrained(source)"
            ".save_pretrained(folder), which writes safetensors"
        )
    listing = Path(source, subfolder, SAFE[1])
    if listing.is_file():
        _check_shards(listing)


def _check_shards(listing: Path) -> None:
    """Refuse a list of shards that names anything but safetensors files in its folder."""
    try:
        names = set(json_value(listing.read_bytes())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise CorruptFileError(
            f"{listing} is no list of shards ({type(broken).__name__}); get the checkpoint again"
        ) from broken
    for name in names:
        if (
            not isinstance(name, str)
            or not name.endswith(".safetensors")
            or Path(name).name != name
        ):
            raise CorruptFileError(
                f"{listing} names {str(name)[:80]!r}: expected safetensors files in its own "
                "folder; get the checkpoint again"
            )


def saved_tokenizer(source: str, name: str, **options: Any) -> Any:
    """The tokenizer that was saved with a model.

    Raises:
        CorruptFileError: there is none that can be read, or it knows no word.
    """
    from transformers import AutoTokenizer

    reason = ""
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    except Exception as broken:  # noqa: BLE001  each kind of tokenizer raises its own
        tokenizer = None
        reason = f" ({first_line(broken)})"
    # transformers makes one up where there is none
    if tokenizer is None or len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise CorruptFileError(
            f"{name!r} has no tokenizer that knows a word{reason}; get the checkpoint again, or "
            "pass tokenizer=…"
        )
    return tokenizer


def check_sizes(config: Any, name: str) -> None:
    """Refuse sizes with which no model can be built, before any time or memory is spent.

    Raises:
        CorruptFileError: names the entry of the config and its value.
    """
    if config is None:
        return
    classes = getattr(config, "architectures", None)
    if classes is not None and not isinstance(classes, list):
        raise CorruptFileError(
            f"config.json of {name!r} states architectures = {str(classes)[:80]}: expected a list "
            "of class names; get the checkpoint again"
        )
    sizes = {key: getattr(config, key, None) for key in SIZES}
    for key, value in sizes.items():
        least = 1 if key in REQUIRED_SIZES else 0
        most = MAX_LAYERS if key == "num_hidden_layers" else MAX_WEIGHTS
        if type(value) is int and not least <= value <= most:
            raise CorruptFileError(
                f"config.json of {name!r} states {key} = {value}: expected {least} to {most}; get "
                "the checkpoint again"
            )
    rows, columns = sizes["vocab_size"], sizes["hidden_size"]
    if type(rows) is type(columns) is int and rows * columns > MAX_WEIGHTS:
        raise CorruptFileError(
            f"config.json of {name!r} states an embedding of {rows} × {columns} weights; get the "
            "checkpoint again"
        )


def without_weights(config: Any, kind: Any) -> nn.Module | None:
    """The model that a config describes, as ``kind`` (``AutoModel`` or its like) lays it out, on
    the meta device; None where it cannot, or only by running Python from the checkpoint."""
    try:
        with torch.device("meta"):
            # Unset, transformers would ask the user whether to run that Python.
            model: nn.Module = kind.from_config(config, trust_remote_code=False)
    except Exception:  # noqa: BLE001  whatever is wrong with a config, loading it says so
        return None
    return model


def check_places(config: Any, name: str, device_map: Mapping[str, Any]) -> None:
    """Refuse a ``device_map`` that names what the model of a config has not, or leaves some of its
    weights without a device; one of a config that transformers cannot lay out is left to it.

    Raises:
        OptionError: names the module, or the first weights without a device.
    """
    from transformers import AutoModelForCausalLM

    model = without_weights(config, AutoModelForCausalLM)
    if model is None:
        return
    weights = [one for one, _ in model.named_parameters()]  # tied ones under their first name
    modules = [one for one, _ in model.named_modules()]
    others = [one for one, _ in model.named_parameters(remove_duplicate=False)]
    others += [one for one, _ in model.named_buffers(remove_duplicate=False)]
    outer = [one for one in modules if one and one.count(".") <= 2]
    for key in device_map:
        if key not in modules and key not in others:
            near = did_you_mean(key, modules) or f"; it has {', '.join(outer[:8])}, and so on"
            raise OptionError(f"device_map places {key!r}, which {name!r} does not have{near}")
    open_ended = tuple(f"{key}." if key else "" for key in device_map)
    left = [one for one in weights if not f"{one}.".startswith(open_ended)]
    if left:
        raise OptionError(
            f"device_map leaves {len(left)} weights of {name!r} without a device, {left[0]} the "
            "first of them; place the modules that hold them too, or give device_map='auto'"
        )


def check_report(report: dict[str, Any], name: str) -> None:
    """Refuse weights that Hugging Face would fill in with random numbers, or leave out.

    Raises:
        CorruptFileError: names the first one.
    """
    missing = sorted(report["missing_keys"])
    if missing:
        raise CorruptFileError(
            f"the weights of {name!r} lack {missing[0]!r} ({len(missing)} in all), which would "
            "be random numbers; get the checkpoint again."
        )
    layers = sorted(key for key in report["unexpected_keys"] if LAYER.search(key))
    if layers:
        raise CorruptFileError(
            f"the weights of {name!r} hold {layers[0]!r} ({len(layers)} such in all), which the "
            "layers that its config states do not have; get the checkpoint again."
        )
    mismatched = sorted(report["mismatched_keys"])
    if mismatched:
        key, shape, expected = mismatched[0]
        raise CorruptFileError(
            f"in the weights of {name!r}, {key!r} has the shape {list(shape)} where the config "
            f"states {list(expected)} ({len(mismatched)} such in all); get the checkpoint again."
        )
