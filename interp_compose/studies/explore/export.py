"""A small decoder with its page, as one HTML file that needs no kernel and no network."""

from __future__ import annotations

import base64
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors.numpy import load_file

from interp_compose.errors import CapabilityError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.ready import check_tokenizer
from interp_compose.models.save_pretrained import save_pretrained

PAGE: Final = Path(__file__).parent / "page"
MOST_BYTES: Final = 20_000_000
"""Of a page."""
ARCHITECTURE: Final = "GPT2LMHeadModel"
STYLES: Final = """body {
  font: 16px/1.5 sans-serif; max-width: 52rem; margin: 1rem auto; padding: 0 1rem;
  color: #222; background: #fff;
}
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #131416; } }
"""


def exported(
    model: LensModel,
    definitions: Sequence[tuple[str, str]],
    *,
    template: str = "{}",
    words: Sequence[str] | None = None,
    source: str = "",
) -> dict[str, Any]:
    """All that the page's script knows of the model. Weights are float32 in little-endian order,
    one tensor after the other, in base64.

    Args:
        model: of GPT-2's architecture, with a byte-level BPE tokenizer.
        definitions: texts to pick from, each with its answer, or "".
        template: the prompt around a text.
        words: those that may be typed; None: all that are one pretoken.
        source: what :func:`load_model` is given; by default the model's name.

    Raises:
        CapabilityError: the script does not know this model or tokenizer.
    """
    check_tokenizer(model)
    config = _checked_config(model)
    bpe = _checked_tokenizer(model)
    ids = model.tokenizer("a")["input_ids"]
    special = set(model.tokenizer.all_special_ids)
    if ids[-1] in special or sum(token in special for token in ids) > 1:
        raise _unknown(model, "its tokenizer ends every text with a special token")
    tensors = _weights(model)
    vocabulary: list[str] = [""] * model.d_vocab
    for token, number in model.tokenizer.get_vocab().items():
        if number < model.d_vocab:
            vocabulary[number] = token
    return {
        "name": model.name,
        "source": source or model.name,
        "n_layers": model.n_layers,
        "n_heads": model.n_heads,
        "n_ctx": model.n_ctx,
        "eps": config.layer_norm_epsilon,
        "bos": ids[0] if ids[0] in special else None,
        "ignore_merges": bool(bpe.get("ignore_merges")),
        "template": template,
        "vocabulary": vocabulary,
        "merges": [pair if isinstance(pair, str) else " ".join(pair) for pair in bpe["merges"]],
        "words": None if words is None else list(words),
        "definitions": [list(one) for one in definitions],
        "first": definitions[0][0],
        "tensors": [[name, list(tensor.shape)] for name, tensor in tensors.items()],
        "weights": base64.b64encode(b"".join(each.tobytes() for each in tensors.values())).decode(),
    }


def script(known: Mapping[str, Any]) -> str:
    """The model as a script, since a page that was opened from a folder may read no other files."""
    # Of "</script>" and "<!--" in a text or a vocabulary an HTML parser would see the first sign.
    data = json.dumps(known, separators=(",", ":")).replace("<", "\\u003c")
    return f"const EXPORTED = {data};\n"


def page(title: str, model: str, *, above: str = "", below: str = "") -> str:
    """One file, styles and scripts within; ``model`` is a :func:`script`, ``above`` and ``below``
    are HTML."""

    def inline(found: re.Match[str]) -> str:
        name = found[1]
        text = model if name == "model.js" else (PAGE / name).read_text(encoding="utf-8")
        return f"<script>\n{text}</script>"

    body = (PAGE / "page.html").read_text(encoding="utf-8")
    body = re.sub(r"<link [^>]*>", "", body)
    body = re.sub(r'<script src="_static/(.*?)"></script>', inline, body)
    styles = STYLES + (PAGE / "explore.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>\n{styles}</style>\n'
        f"<body>\n{above}{body}{below}</body></html>\n"
    )


def check_size(n_weights: int, name: str) -> None:
    """Refuse a model whose page would be too large; base64 makes 16 bytes of three numbers.

    Raises:
        OptionError: with the size.
    """
    size = n_weights * 16 // 3
    if size > MOST_BYTES:
        raise OptionError(
            f"a page with {name!r} would be {size / 1e6:.0f} MB, and at most {MOST_BYTES / 1e6:.0f}"
            " are written: ic.explore(model) in a notebook shows models of any size"
        )


def _weights(model: LensModel) -> dict[str, np.ndarray]:
    """As transformers names them, without the unembedding, which is the embedding."""
    with tempfile.TemporaryDirectory() as folder:
        saved = save_pretrained(model, Path(folder) / "model")
        tensors = load_file(saved / "model.safetensors")
    return {
        name.removeprefix("transformer."): np.ascontiguousarray(tensor, dtype="<f4")
        for name, tensor in tensors.items()
        if name != "lm_head.weight"
    }


def _checked_config(model: LensModel) -> Any:
    if model.architecture != ARCHITECTURE:
        raise _unknown(model, f"it is {model.architecture}")
    config = model.lens.original_model.config
    expected = {
        "activation_function": "gelu_new",
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "tie_word_embeddings": True,
    }
    for name, value in expected.items():
        if getattr(config, name) != value:
            raise _unknown(model, f"its {name} is {getattr(config, name)!r}, not {value!r}")
    widths = (config.n_embd, config.n_inner or 4 * config.n_embd)
    if any(width % 4 for width in widths):
        raise _unknown(model, f"its widths are {widths}, and have to be multiples of 4")
    return config


def _checked_tokenizer(model: LensModel) -> Mapping[str, Any]:
    """The BPE of a tokenizer that is GPT-2's in all but its merges."""
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise _unknown(model, "its tokenizer is none of the package tokenizers")
    known = json.loads(backend.to_str())
    bpe, before = known["model"], known["pre_tokenizer"] or {}
    plain = before.get("type") == "ByteLevel" and not before.get("add_prefix_space")
    rest = (
        known["normalizer"],
        bpe.get("continuing_subword_prefix"),
        bpe.get("end_of_word_suffix"),
    )
    if bpe["type"] != "BPE" or not plain or not before.get("use_regex", True) or any(rest):
        raise _unknown(model, "its tokenizer is no byte-level BPE of GPT-2's kind")
    return dict(bpe)


def _unknown(model: LensModel, why: str) -> CapabilityError:
    return CapabilityError(
        f"{model.name!r}: {why}. The page runs models of GPT-2's architecture ({ARCHITECTURE}) "
        "with a byte-level BPE tokenizer; ic.explore(model) in a notebook shows every model."
    )
