"""Files of Marian students with random weights, written byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

Matrix = NDArray[np.float64]
WIDTH, HEADS, MLP, ENCODER, DECODER = 8, 2, 12, 3, 2
PIECES = ["</s>", "<unk>", ",", "▁a", "▁un", "happy", "▁dog", "▁cat", "s", "▁um", "▁c", "ão"]
SETTINGS: dict[str, Any] = {
    **{"type": "transformer", "transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"},
    **{"tied-embeddings-all": "true", "transformer-ffn-activation": "relu"},
    **{"transformer-preprocess": '""', "transformer-postprocess": "dan"},
    **{"enc-depth": ENCODER, "dec-depth": DECODER, "transformer-heads": HEADS},
    **{"dim-emb": WIDTH, "transformer-dim-ffn": MLP},
}


def names(n_pieces: int) -> dict[str, tuple[int, ...]]:
    """Every weight's shape by Marian's name."""
    shapes: dict[str, tuple[int, ...]] = {
        "Wemb": (n_pieces, WIDTH),
        "decoder_ff_logit_out_b": (1, n_pieces),
    }
    for stack, depth, attention in (("encoder", ENCODER, "self"), ("decoder", DECODER, "context")):
        for layer in range(1, depth + 1):
            block = f"{stack}_l{layer}"
            for letter in "qkvo":
                shapes[f"{block}_{attention}_W{letter}"] = (WIDTH, WIDTH)
                shapes[f"{block}_{attention}_b{letter}"] = (1, WIDTH)
            shapes[f"{block}_ffn_W1"], shapes[f"{block}_ffn_b1"] = (WIDTH, MLP), (1, MLP)
            shapes[f"{block}_ffn_W2"], shapes[f"{block}_ffn_b2"] = (MLP, WIDTH), (1, WIDTH)
            norms = [f"{attention}_Wo_ln", "ffn_ffn_ln"]
            if stack == "decoder":
                shapes[f"{block}_rnn_W"] = shapes[f"{block}_rnn_Wf"] = (WIDTH, WIDTH)
                shapes[f"{block}_rnn_bf"] = (1, WIDTH)
                norms.append("rnn_ffn_ln")
            for norm in norms:
                shapes[f"{block}_{norm}_scale"] = shapes[f"{block}_{norm}_bias"] = (1, WIDTH)
    return shapes


def write(
    file: Path, seed: int = 0, n_pieces: int = len(PIECES), **settings: Any
) -> dict[str, Matrix]:
    """A file in the format's words, and the numbers that stand in it."""
    rng = np.random.default_rng(seed)
    tensors: list[tuple[str, int, tuple[int, ...], bytes]] = []
    values: dict[str, Matrix] = {}
    for name, shape in names(n_pieces).items():
        weight = rng.normal(size=shape) + float(name.endswith("_ln_scale"))
        if min(shape) == 1:
            stored = weight.astype(np.float32)
            values[name] = stored.astype(np.float64)
            tensors.append((name, 0x404, shape, stored.tobytes()))
            continue
        scale = np.float32(127 / np.abs(weight).max())
        integers = np.round(weight * scale).clip(-127, 127).astype(np.int8)
        values[name] = (integers / scale).astype(np.float32).astype(np.float64)
        ordered = integers if name == "Wemb" else np.ascontiguousarray(integers.T)
        data = ordered.tobytes() + struct.pack("<f", scale) + bytes(252)
        tensors.append((name, 0x4101, shape, data))
        tensors.append((f"{name}_QuantMultA", 0x404, (1, 1), struct.pack("<f", 20.0) + bytes(252)))
    settings = {"dim-vocabs": f"[{n_pieces}, {n_pieces}]", **SETTINGS, **settings}
    yml = "".join(f"{key}: {value}\n" for key, value in settings.items())
    tensors.append(("special:model.yml", 0x101, (len(yml) + 1,), yml.encode() + b"\0"))
    parts = [struct.pack("<QQ", 1, len(tensors))]
    for name, kind, shape, data in tensors:
        parts.append(struct.pack("<QQQQ", len(name) + 1, kind, len(shape), len(data)))
    parts += [name.encode() + b"\0" for name, *_ in tensors]
    parts += [struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in tensors]
    parts.append(struct.pack("<Q", 24) + bytes(24))
    file.write_bytes(b"".join(parts + [data for *_, data in tensors]))
    return values


def write_pieces(folder: Path, pieces: Sequence[str] = PIECES) -> None:
    backend = Tokenizer(models.Unigram([(p, -float(i)) for i, p in enumerate(pieces)], 1, False))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.save(str(folder / "tokenizer.json"))
