"""How a sentence-transformers folder says that its embeddings are read.

Such a folder (or hub repository) lists its modules in ``modules.json``: the transformer, a pooling
whose own ``config.json`` names the way, and perhaps a normalisation. Nothing of that package is
needed to read it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp_compose.errors import CapabilityError, CorruptFileError
from interp_compose.runs.files import json_value

WAYS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
ABOUT = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Where the transformer's options lie; the first name is today's."""
USUAL = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}
"""What a newer folder says of the way that is gone here."""
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
    kinds, subfolder, pooling, beyond = [], "", None, None
    for module in listed:
        if not isinstance(module, dict) or not {"type", "path"} <= set(module):
            raise _wrong(source, "modules.json", f"the module {module!r} has no type and path")
        kind, path = str(module["type"]).rpartition(".")[2], str(module["path"])
        kinds.append(kind)
        if _leaves(source, path):
            raise _wrong(source, "modules.json", f"the path {path[:80]!r} leads out of the folder")
        if kind == "Transformer":
            subfolder = path
        elif kind == "Pooling":
            pooling, beyond = _pooling(source, _inside(path, "config.json"), revision, beyond)
    if pooling is None:
        return None
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        beyond = f"the modules {', '.join(kinds)}"
    length, more = _transformer(source, subfolder, revision)
    prompts = _read(source, "config_sentence_transformers.json", revision, dict) or {}
    if prompts.get("default_prompt_name"):
        more = "a prompt in front of every text"
    if prompts.get("truncate_dim") is not None:
        more = "vectors that are cut short"
    return StatedEmbedding(pooling, kinds[-1] == "Normalize", length, subfolder, more or beyond)


def _transformer(
    source: str, subfolder: str, revision: str | None
) -> tuple[int | None, str | None]:
    """The length of a text that the transformer's own file states, and what of it is not done."""
    name, about = ABOUT[0], {}
    for name in ABOUT:
        about = _read(source, _inside(subfolder, name), revision, dict)
        if about is not None:
            break
    about = about or {}
    length = about.get("max_seq_length")
    if length is not None and (type(length) is not int or length < 1):
        raise _wrong(source, name, f"max_seq_length is {length!r}, not a number of tokens")
    for key, value in about.items():
        if value and key != "max_seq_length" and value != USUAL.get(key):
            beyond = "lower-casing of its own" if key == "do_lower_case" else f"{key} = {value!r}"
            return length, beyond
    return length, None


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


def _leaves(source: str, path: str) -> bool:
    """Whether a module's path is absolute, goes up, or follows a link out of a folder here."""
    parts = re.split(r"[/\\]", path)
    if ".." in parts or path.startswith(("/", "\\")) or ":" in parts[0] or "\0" in path:
        return True
    folder = Path(source)
    return folder.is_dir() and not (folder / path).resolve().is_relative_to(folder.resolve())


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
        content = json_value(Path(path).read_bytes())
    except ValueError as broken:
        raise CorruptFileError(f"{path} is not JSON ({broken}); get the folder again.") from broken
    if not isinstance(content, kind):
        raise _wrong(source, name, f"it holds {content!r}")
    return content
