"""How a sentence-transformers folder says that its embeddings are read.

Such a folder (or hub repository) lists its modules in ``modules.json``: the transformer, a pooling
whose own ``config.json`` names the way, and perhaps a normalisation. Nothing of that package is
needed to read it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp_compose.errors import CapabilityError, CorruptFileError

WAYS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
NAMES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}


@dataclass(frozen=True)
class StatedEmbedding:
    """The embedding that a folder states.

    Attributes:
        pooling: ``"mean"``, ``"cls"`` or ``"last"``.
        normalise: whether embeddings are divided by their length.
        max_length: tokens a text may have, specials included, if it is stated.
        subfolder: where the transformer lies inside the folder.
        beyond: what of the folder's recipe this library does not do, or None.
    """

    pooling: str
    normalise: bool
    max_length: int | None = None
    subfolder: str = ""
    beyond: str | None = None

    def check(self, name: str) -> None:
        """Raise CapabilityError where the embedding would not be the folder's own."""
        if self.beyond is not None:
            raise CapabilityError(
                f"{name!r} states an embedding with {self.beyond}, which is not supported; choose "
                'embedding="mean", "cls" or "last" instead of the model\'s own.'
            )


def read_stated(source: str, revision: str | None = None) -> StatedEmbedding | None:
    """What ``modules.json`` of a folder or hub repository states; None where there is none.

    Raises:
        CorruptFileError: the files contradict each other or cannot be read.
    """
    listed = _read(source, "modules.json", revision, list)
    if listed is None:
        return None
    subfolder, pooling, normalise, beyond = "", None, False, None
    for module in listed:
        if not isinstance(module, dict) or not {"type", "path"} <= set(module):
            raise _wrong(source, "modules.json", f"the module {module!r} has no type and path")
        kind, path = str(module["type"]).rpartition(".")[2], str(module["path"])
        if kind == "Transformer":
            subfolder = path
        elif kind == "Pooling":
            pooling, beyond = _pooling(source, _inside(path, "config.json"), revision, beyond)
        elif kind == "Normalize":
            normalise = True
        else:
            beyond = f"a module {kind}"
    if pooling is None:
        return None
    name = _inside(subfolder, "sentence_bert_config.json")
    about = _read(source, name, revision, dict) or {}
    if about.get("do_lower_case"):
        beyond = "lower-casing of its own"
    prompts = _read(source, "config_sentence_transformers.json", revision, dict) or {}
    if prompts.get("default_prompt_name"):
        beyond = "a prompt in front of every text"
    length = about.get("max_seq_length")
    if length is not None and not isinstance(length, int):
        raise _wrong(source, name, f"max_seq_length is {length!r}, not a number of tokens")
    return StatedEmbedding(pooling, normalise, length, subfolder, beyond)


def _pooling(
    source: str, name: str, revision: str | None, beyond: str | None
) -> tuple[str, str | None]:
    """The way of pooling, and what about it cannot be done."""
    config = _read(source, name, revision, dict)
    if config is None:
        raise CorruptFileError(
            f"modules.json of {source!r} lists a pooling whose config.json is missing; get the "
            "folder again."
        )
    if "pooling_mode" in config:  # newer folders name the way instead of flagging it
        mode = config["pooling_mode"]
        modes = [mode] if isinstance(mode, str) else mode
        if not isinstance(modes, list) or not all(isinstance(one, str) for one in modes):
            raise _wrong(source, name, f"pooling_mode is {mode!r}")
        ways = [NAMES.get(str(one), str(one)) for one in modes]
    else:
        flags = [key for key, on in config.items() if key.startswith("pooling_mode_") and on]
        ways = [WAYS.get(key, key.removeprefix("pooling_mode_")) for key in flags]
    if len(ways) != 1 or ways[0] not in NAMES.values():
        return "mean", f"pooling by {' and '.join(ways) or 'nothing'}"
    return ways[0], beyond


def _inside(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _wrong(source: str, name: str, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"{name} of {source!r} is not in the form that sentence-transformers writes: {why}. Get "
        "the folder again."
    )


def _read(source: str, name: str, revision: str | None, kind: type) -> Any:
    """A JSON file of a folder or of the hub; None where there is none."""
    from transformers.utils import cached_file

    path = cached_file(
        source,
        name,
        revision=revision,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    if path is None:
        return None
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as broken:
        raise CorruptFileError(f"{path} is not JSON ({broken}); get the folder again.") from broken
    if not isinstance(content, kind):
        raise _wrong(source, name, f"it holds {content!r}")
    return content
