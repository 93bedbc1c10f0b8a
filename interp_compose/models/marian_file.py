"""Files of Marian's quantised students, such as the translators that Firefox runs.

A folder holds a binary ``model….bin``, whose matrices are int8 with one scale each, and the pieces
of both languages (``tokenizer.json``, or ``vocab….spm`` of SentencePiece). Shortlists of words
(``lex….bin``) choose among outputs faster; they are not read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from interp_compose.checks import check_package
from interp_compose.errors import CapabilityError, CorruptFileError, OptionError, first_line
from interp_compose.runs.files import read_bytes

VERSION: Final = 1
MOST_TENSORS: Final = 100_000
FLOAT32: Final = 0x404
INT8: Final = (0x4101, 0x4201, 0x4401)
"""Bytes that were made for one kind of processor or another, in the same order in the file."""
CHARACTERS: Final = 0x101
SETTINGS: Final = "special:model.yml"
ACTIVATIONS: Final = "_QuantMultA"
"""Ends the name of an activation's scale, which integer arithmetic needs and float32 does not."""


def marian_of(path: Path) -> Path | None:
    """A Marian file, or the one in a folder that is not Hugging Face's; None where there is none.

    Raises:
        OptionError: several in one folder.
    """
    if path.is_dir():
        if (path / "config.json").exists():
            return None
        files = [file for file in sorted(path.glob("*.bin")) if _is_marian(file)]
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise OptionError(f"{str(path)!r} holds several Marian files ({names}); name one")
        return files[0] if files else None
    return path if path.suffix == ".bin" and _is_marian(path) else None


def _is_marian(file: Path) -> bool:
    if not file.is_file():  # a folder, or a link to nothing
        return False
    with file.open("rb") as opened:
        head = opened.read(16)
    if len(head) < 16:
        return False
    version, n_tensors = struct.unpack("<QQ", head)
    return bool(version == VERSION and 0 < n_tensors <= MOST_TENSORS)


def read_marian(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Every weight in float32 under Marian's names, as it multiplies from the right, and the
    settings that the model was made with.

    The file: its version and how many tensors it has, 8 bytes each; for each tensor the length of
    its name, its type, how many dimensions and how many bytes; all names; all dimensions; as many
    bytes of padding as 8 bytes say; and the tensors' bytes one after another.

    Raises:
        CorruptFileError: a cut file, lengths that do not fit, numbers that are not finite, no
            settings.
        CapabilityError: a tensor of another type than int8 and float32.
    """
    content = memoryview(read_bytes(file))
    try:
        weights, settings, end = _tensors(content, file)
    except (struct.error, UnicodeDecodeError, ValueError, IndexError) as broken:
        raise CorruptFileError(
            f"{str(file)!r} is no whole Marian file ({type(broken).__name__}: "
            f"{first_line(broken)}); get it again"
        ) from broken
    if end != len(content):
        raise CorruptFileError(
            f"{str(file)!r} has {len(content)} bytes, and its tensors end at {end}; get it again"
        )
    if settings is None:
        raise CorruptFileError(
            f"{str(file)!r} has no {SETTINGS}, which says how the model is built; get it again"
        )
    broken_weight = next((name for name, w in weights.items() if not w.isfinite().all()), None)
    if broken_weight is not None:
        raise CorruptFileError(
            f"{broken_weight!r} in {str(file)!r} holds NaN or infinity; get it again"
        )
    return weights, settings


def _tensors(
    content: memoryview, file: Path
) -> tuple[dict[str, Tensor], dict[str, Any] | None, int]:
    _, n_tensors = struct.unpack_from("<QQ", content)
    heads = [struct.unpack_from("<QQQQ", content, 16 + 32 * n) for n in range(n_tensors)]
    at = 16 + 32 * n_tensors
    names = []
    for length, *_ in heads:
        names.append(bytes(content[at : at + length]).decode().rstrip("\0"))
        at += length
    shapes = []
    for _, _, n_dims, _ in heads:
        shapes.append(struct.unpack_from(f"<{n_dims}i", content, at))
        at += 4 * n_dims
    at += 8 + struct.unpack_from("<Q", content, at)[0]

    weights: dict[str, Tensor] = {}
    settings = None
    for name, (_, kind, _, n_bytes), shape in zip(names, heads, shapes, strict=True):
        data = content[at : at + n_bytes]
        at += n_bytes
        if len(data) < n_bytes:
            raise ValueError(f"{name!r} is cut")
        if name == SETTINGS:
            settings = _settings(bytes(data), file)
        elif not name.endswith(ACTIVATIONS):
            weights[name] = _weight(name, kind, shape, data, file)
    return weights, settings, at


def _weight(name: str, kind: int, shape: tuple[int, ...], data: memoryview, file: Path) -> Tensor:
    size = prod(shape)
    if min(shape, default=1) < 1:
        raise ValueError(f"{name!r} has the shape {list(shape)}")
    if kind == FLOAT32:
        numbers = np.frombuffer(data, "<f4", size)
        return torch.from_numpy(numbers.astype(np.float32).reshape(shape))
    if kind not in INT8:
        raise CapabilityError(
            f"{name!r} in {str(file)!r} holds numbers of the type {kind:#x}: expected float32 or "
            "int8 with one scale for each matrix (intgemm); convert the model to one of these"
        )
    # int8 and, after the last one, the number by which the weights were multiplied.
    integers = np.frombuffer(data, np.int8, size).astype(np.float32)
    (scale,) = struct.unpack_from("<f", data, size)
    if not scale > 0:
        raise ValueError(f"{name!r} has the scale {scale}")
    values = torch.from_numpy(integers / np.float32(scale))
    # Matrices are stored by output, [out in], whatever the shape says; the embedding is not.
    return values.reshape(shape) if name == "Wemb" else values.reshape(shape[::-1]).mT.contiguous()


def _settings(text: bytes, file: Path) -> dict[str, Any]:
    check_package("yaml", "marian")
    import yaml

    try:
        settings = yaml.safe_load(text.decode().rstrip("\0"))
    except (yaml.YAMLError, UnicodeDecodeError) as broken:
        raise CorruptFileError(
            f"{SETTINGS} in {str(file)!r} is no YAML ({first_line(broken)}); get the file again"
        ) from broken
    if not isinstance(settings, Mapping):
        raise CorruptFileError(
            f"{SETTINGS} in {str(file)!r} holds {str(settings)[:60]!r}; get the file again"
        )
    return dict(settings)


def marian_tokenizer(folder: Path) -> Any:
    """Pieces of both languages: ``tokenizer.json``, or what SentencePiece's file says.

    A text ends in ``</s>``.

    Raises:
        CorruptFileError: there is none, or none that can be read.
        CapabilityError: several that differ.
    """
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    file = folder / "tokenizer.json"
    pieces = sorted(folder.glob("vocab*.spm"))
    if not file.is_file() and len({read_bytes(one) for one in pieces}) > 1:
        names = ", ".join(one.name for one in pieces)
        raise CapabilityError(
            f"{str(folder)!r} has several vocabularies ({names}), and a student shares one; pass "
            "tokenizer=…"
        )
    try:
        backend = Tokenizer.from_file(str(file)) if file.is_file() else _from_pieces(pieces[0])
    except Exception as broken:
        missing = "no tokenizer.json and no vocab….spm"
        why = missing if isinstance(broken, IndexError) else first_line(broken)
        raise CorruptFileError(
            f"{str(folder)!r} has no pieces that can be read ({why}); get the folder again, or "
            "pass tokenizer=…"
        ) from broken
    end = backend.token_to_id("</s>")
    if end is None:
        raise CorruptFileError(f"the pieces in {str(folder)!r} lack </s>; get the folder again")
    backend.add_special_tokens(["</s>", "<unk>"])
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", end)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="</s>", unk_token="<unk>", pad_token="</s>"
    )


def _from_pieces(file: Path) -> Any:
    """A unigram model of SentencePiece as the fast tokenizers have it."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers.convert_slow_tokenizer import import_protobuf

    stated = import_protobuf().ModelProto()
    stated.ParseFromString(read_bytes(file))
    scores = [(piece.piece, piece.score) for piece in stated.pieces]
    backend = Tokenizer(models.Unigram(scores, stated.trainer_spec.unk_id, byte_fallback=False))
    charsmap = stated.normalizer_spec.precompiled_charsmap
    backend.normalizer = normalizers.Sequence(
        [
            *([normalizers.Precompiled(charsmap)] if charsmap else []),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Strip(),
        ]
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return backend
