"""Small decoders as a :class:`.lens_model.LensModel`: initialised, saved and loaded."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import CorruptFileError, InterpComposeError, OptionError, first_line
from interp_compose.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.models.hooks import without_hooks
from interp_compose.models.init import Distribution, FanIn, InitRates, init_weights
from interp_compose.models.lens_model import LensModel, Streams
from interp_compose.models.weights import CHECKSUMS, load_weights, save_weights
from interp_compose.runs.files import (
    atomic_write,
    disk,
    file_sha256,
    json_bytes,
    read_json,
    temporary_folder,
)

FORMAT: Final = "interp_compose.decoder/1"
CONFIG: Final = "decoder.json"
WEIGHTS: Final = "weights.safetensors"


class SmallDecoderModel(LensModel):
    """A :class:`.lens_model.LensModel` on a :class:`.decoder.SmallDecoder`."""

    lens: SmallDecoder

    def __init__(self, lens: SmallDecoder, *, name: str, tokenizer: Any = None) -> None:
        architecture = f"SmallDecoder(norm={lens.cfg.norm!r})"
        super().__init__(lens, name=name, architecture=architecture, tokenizer=tokenizer)
        self.window = None
        self.ends_in_norm = lens.cfg.norm == "post"

    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        return self.lens.logits(resid)

    def _plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return self.lens.final(self.lens.all_blocks(tokens))

    def _resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos d_model"]:
        resid = self.lens.embedded(tokens, attention_mask)
        return self._apply_entry_hooks(self.lens.run(resid, 0, layer, attention_mask), layer)

    def _run_blocks(
        self, streams: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream pos d_model"]:
        entry: Any = self.lens.blocks[start].hook_resid_pre  # its hooks have acted already
        with without_hooks([entry]):
            resid = self.lens.run(streams.resid, start, stop, streams.mask)
        return self._apply_entry_hooks(resid, stop)

    def _final(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        return self.lens.final(resid)


@public
def small_decoder(
    config: DecoderConfig | None = None,
    *,
    init_rate: float | InitRates,
    seed: int,
    distribution: Distribution = "normal",
    fan_in: FanIn = "own",
    scale_writers: bool = False,
    tokenizer: Any = None,
) -> LensModel:
    """A decoder with random weights at an init rate γ (complexity control, III-D and III-E).

    In float32, on the CPU, in evaluation mode (there is no dropout); ``model.lens`` is the module
    to move, cast and train.

    Args:
        config: the shape; by default :class:`.decoder_config.DecoderConfig`'s own.
        init_rate: γ of all matrices, or of each group; larger is smaller.
        seed: equal seeds give equal random numbers at every γ.
        distribution, fan_in, scale_writers: see :func:`.init.init_weights`.
        tokenizer: kept as ``model.tokenizer``; calls take token ids and need none.

    Raises:
        OptionError: see :func:`.init.init_weights`.
    """
    lens = SmallDecoder(DecoderConfig() if config is None else config)
    init_weights(
        lens,
        init_rate,
        seed=seed,
        distribution=distribution,
        fan_in=fan_in,
        scale_writers=scale_writers,
    )
    return SmallDecoderModel(lens.eval(), name="small-decoder", tokenizer=tokenizer)


@public
def save_decoder(model: LensModel, folder: str | Path) -> Path:
    """Shape and weights into a new ``folder``, which :func:`.load.load_model` reads.

    ::

        decoder.json                 format and :class:`.decoder_config.DecoderConfig`
        weights.safetensors          by :func:`.weights.save_weights`, with its .sha256
        SHA256SUMS                   of both, so that neither can be mixed with another model's

    The folder gets its name once it is complete. The tokenizer is not part of it.

    Raises:
        OptionError: another kind of model; a folder that exists and is not empty.
        OutputError: the folder cannot be written.
    """
    if not isinstance(model, SmallDecoderModel):
        raise OptionError(
            f"the model is a {type(model).__name__}: expected one of small_decoder(…); of others, "
            "keep the weights with save_weights(model, path)."
        )
    folder = Path(os.path.abspath(folder))
    with disk(folder):
        occupied = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if occupied:
        raise OptionError(f"{folder} exists and is not empty: give a new folder's name.")
    with temporary_folder(folder.parent) as temporary:
        save_weights(model, temporary / WEIGHTS)
        config = {"format": FORMAT, "config": asdict(model.lens.cfg)}
        atomic_write(temporary / CONFIG, json_bytes(config))
        atomic_write(temporary / CHECKSUMS, _listing(temporary))
        os.replace(temporary, folder)
    return folder


def is_decoder_folder(folder: Path) -> bool:
    """Whether :func:`save_decoder` wrote it, judged by the names of its files."""
    return (folder / CONFIG).is_file()


def load_decoder(
    folder: Path, *, name: str, tokenizer: Any, device: str, dtype: torch.dtype
) -> SmallDecoderModel:
    """The model in a folder of :func:`save_decoder`, in evaluation mode.

    Raises:
        CorruptFileError: a file is missing, was altered, or belongs to another model; a format
            that this release does not know.
    """
    config = read_json(folder / CONFIG)
    file_format = config.get("format") if isinstance(config, dict) else None
    if file_format != FORMAT:
        raise CorruptFileError(
            f"{folder / CONFIG} states the format {file_format!r}, and this release reads "
            f"{FORMAT!r}; load it with the release that wrote it."
        )
    sums = folder / CHECKSUMS
    if not sums.is_file() or sums.read_bytes() != _listing(folder):
        raise CorruptFileError(
            f"{folder}: {CONFIG} and {WEIGHTS} do not match the checksums in {CHECKSUMS}; one of "
            "them is missing, truncated or altered. Save the model again, or restore a copy."
        )
    try:
        lens = SmallDecoder(DecoderConfig(**config["config"])).to(device, dtype)
        model = SmallDecoderModel(lens.eval(), name=name, tokenizer=tokenizer)
        load_weights(model, folder / WEIGHTS)
    except CorruptFileError:
        raise
    except (KeyError, TypeError, RuntimeError, InterpComposeError) as misfit:
        raise CorruptFileError(
            f"{folder} does not hold a small decoder: {first_line(misfit)}"
        ) from misfit
    return model


def _listing(folder: Path) -> bytes:
    """The content of SHA256SUMS, as the command ``sha256sum`` writes it."""
    names = [name for name in (CONFIG, WEIGHTS) if (folder / name).is_file()]
    return "".join(f"{file_sha256(folder / name)}  {name}\n" for name in names).encode()
