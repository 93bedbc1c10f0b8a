"""A text as tokens, with the tokenizer that its training part made; kept once beside the runs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Integer

from interp_compose.errors import CorruptFileError
from interp_compose.papers.complexity.text.bpe import BpeTokenizer
from interp_compose.runs.files import make_folder, write_safetensors
from interp_compose.tasks.corpus import TextCorpus, n_bytes

DATA: Final = "data"
"""The folder, beside the runs'."""


@dataclass(frozen=True, eq=False)
class TextData:
    """Both parts as streams of :meth:`.BpeTokenizer.stream`; ``held_out_bytes`` are those of the
    held-out documents as UTF-8."""

    tokenizer: BpeTokenizer
    train: Integer[np.ndarray, "train_token"]
    held_out: Integer[np.ndarray, "held_out_token"]
    held_out_bytes: int

    @property
    def report(self) -> dict[str, int]:
        """How many tokens each part has, those between documents left out."""
        streams = {"train": self.train, "held_out": self.held_out}
        return {f"{part}_tokens": int(np.count_nonzero(s)) for part, s in streams.items()}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the tokenizer, the number of bytes and both streams."""
        sha = hashlib.sha256(json.dumps([self.tokenizer.saved(), self.held_out_bytes]).encode())
        for stream in (self.train, self.held_out):
            sha.update(f"{stream.dtype} {len(stream)}".encode())
            sha.update(stream.data)
        return sha.hexdigest()

    def keep(self, out: Path) -> None:
        """Write it into the folder of a sweep, where the runs read it."""
        folder = make_folder(out / DATA)
        if not (folder / _name(self.digest)).exists():
            record = {"tokenizer": self.tokenizer.saved(), "held_out_bytes": self.held_out_bytes}
            streams = {"train": self.train, "held_out": self.held_out}
            write_safetensors(
                {name: torch.from_numpy(stream) for name, stream in streams.items()},
                folder,
                lambda _: _name(self.digest),
                metadata={"about": json.dumps(record)},
            )


@lru_cache(maxsize=1)
def encoded(corpus: TextCorpus, vocab_size: int) -> TextData:
    """A text's tokens; the byte pairs are those of the training part alone.

    Raises:
        OptionError: a vocabulary that is too small, or larger than the training part supports.
    """
    tokenizer = BpeTokenizer.trained(corpus.train, vocab_size)
    train, held_out = map(tokenizer.stream, (corpus.train, corpus.held_out))
    return TextData(tokenizer, train, held_out, n_bytes(corpus.held_out))


@lru_cache(maxsize=1)
def kept(out: Path, digest: str) -> TextData:
    """The data that :meth:`TextData.keep` wrote.

    Raises:
        CorruptFileError: they are gone, or were altered.
    """
    from safetensors import SafetensorError, safe_open

    path = out / DATA / _name(digest)
    try:
        with safe_open(path, "numpy") as file:
            record: dict[str, Any] = json.loads(file.metadata()["about"])
            tokenizer = BpeTokenizer(json.dumps(record["tokenizer"]))
            train, held_out = (file.get_tensor(name) for name in ("train", "held_out"))
        data = TextData(tokenizer, train, held_out, record["held_out_bytes"])
    except (OSError, SafetensorError) as error:
        raise CorruptFileError(f"{path} cannot be read ({error}); call the study again") from error
    if data.digest != digest:
        raise CorruptFileError(f"{path} was altered; delete it, and call the study again")
    return data


def _name(digest: str) -> str:
    return f"{digest}.safetensors"
