"""A GGUF file, llama.cpp's format of quantised weights, as a Hugging Face model of plain ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn

from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    MissingPackageError,
    OptionError,
    first_line,
)
from interp_compose.models.bridge import hugging_face_model
from interp_compose.models.enough_memory import check_weights
from interp_compose.models.model_files import check_sizes, saved_tokenizer

SUFFIX = ".gguf"
PLAIN = ("F64", "F32", "F16", "BF16")
"""Kinds of numbers that are not quantised."""


def gguf_of(source: Path) -> Path | None:
    """The GGUF file that a path is, or that a folder without a ``config.json`` has; else None.

    Raises:
        OptionError: the folder has several.
    """
    if source.suffix == SUFFIX and not source.is_dir():
        return source
    if not source.is_dir() or (source / "config.json").exists():
        return None
    files = sorted(source.glob(f"*{SUFFIX}"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise OptionError(f"the folder {str(source)!r} has several GGUF files ({names}); name one")
    return files[0] if files else None


def load_gguf(
    file: Path, *, tokenizer: Any, dtype: torch.dtype, **placed: Any
) -> tuple[nn.Module, Any, str]:
    """The model, dequantised by transformers; its tokenizer, by default the file's; and the kinds
    of quantised numbers that its weights were, like "Q4_1 and Q8_0"; empty where none was.

    Raises:
        MissingPackageError: the package ``gguf`` is not installed.
        CorruptFileError: no GGUF file, one that was cut, or one that makes no model.
        CapabilityError: an architecture or a kind of numbers that cannot be read.
        NotEnoughMemoryError: its plain weights need more than is free.
    """
    from transformers import AutoConfig

    architecture, kinds, n_weights = _header(file)
    folder, options = str(file.parent), {"gguf_file": file.name}
    try:
        config = AutoConfig.from_pretrained(folder, **options)
    except ValueError as refusal:
        raise CapabilityError(
            f"transformers cannot read the architecture {architecture!r} of {str(file)!r} out of "
            f"GGUF ({first_line(refusal)}); load the model in Hugging Face's own format"
        ) from refusal
    check_sizes(config, str(file))
    if "device" in placed:  # else Hugging Face places them, on disk if need be
        # transformers holds all of them in float32 before it makes a model of them.
        held = {placed["device"]: dtype, "cpu": torch.float32}
        check_weights(n_weights, str(file), held, "take a smaller model")
    two_stacks = bool(getattr(config, "is_encoder_decoder", False))
    try:
        model = hugging_face_model(
            folder, name=str(file), two_stacks=two_stacks, dtype=dtype, **options, **placed
        )
    except (ValueError, KeyError, NotImplementedError) as broken:
        raise CorruptFileError(
            f"{str(file)!r} makes no model that transformers can build "
            f"({type(broken).__name__}: {first_line(broken)}); get the file again"
        ) from broken
    if tokenizer is None:
        tokenizer = saved_tokenizer(folder, str(file), **options)
    return model, tokenizer, " and ".join(kinds)


def _header(file: Path) -> tuple[str, list[str], int]:
    """The architecture that a file states, the kinds of quantised numbers that it holds, that of
    most weights first, and how many weights."""
    try:
        from gguf import GGUFReader, dequantize
    except ImportError as missing:
        raise MissingPackageError(
            f"{str(file)!r} is a GGUF file, which the package gguf reads: pip install "
            '"interp-compose[gguf]"'
        ) from missing
    try:
        reader = GGUFReader(file)
        architecture = str(reader.fields["general.architecture"].contents())
        n_weights: Counter[str] = Counter()
        for tensor in reader.tensors:
            n_weights[tensor.tensor_type.name] += int(tensor.n_elements)
        firsts = {tensor.tensor_type: tensor for tensor in reversed(reader.tensors)}
    except FileNotFoundError as missing:
        raise OptionError(f"no model {str(file)!r}: there is no such file") from missing
    except Exception as broken:
        if "GGMLQuantizationType" in str(broken):
            raise CapabilityError(
                f"{str(file)!r} has weights of a kind that the installed gguf does not know "
                f"({first_line(broken)}); upgrade gguf, or get the file in another kind"
            ) from broken
        raise CorruptFileError(
            f"{str(file)!r} is no whole GGUF file ({type(broken).__name__}: {first_line(broken)}); "
            "get it again"
        ) from broken
    for kind, tensor in firsts.items():
        try:
            dequantize(tensor.data[:1], kind)
        except NotImplementedError as unknown:
            raise CapabilityError(
                f"{tensor.name!r} in {str(file)!r} holds weights of the kind {kind.name}, which "
                "gguf cannot dequantise; get the file in another kind, such as Q8_0"
            ) from unknown
    kinds = [kind for kind, _ in n_weights.most_common() if kind not in PLAIN]
    return architecture, kinds, n_weights.total()
