"""The embedding that a sentence-transformers folder states.

Such a folder (or hub repository) lists its modules in ``modules.json``: the transformer, a pooling
whose ``config.json`` names the mode, and perhaps a normalisation. That package is not needed to
read it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp_compose.errors import CapabilityError, CorruptFileError
from interp_compose.runs.files import atomic_write, json_bytes, json_value, read_bytes

POOLING_FLAGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Files of the transformer's options; the first name is today's."""
SUPPORTED_OPTIONS = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}
"""What newer folders state where embeddings are read as they are here."""
POOLING_MODES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}


@dataclass(frozen=True)
class SentenceConfig:
    """The embedding that a folder states.

    Attributes:
        pooling: ``"mean"``, ``"cls"`` or ``"last"``.
        normalise: whether embeddings are divided by their length.
        max_length: tokens a text may have, specials included, if it is stated.
        subfolder: the transformer's, inside the folder.
        unsupported: a part of the folder's embedding that this library does not compute, or None.
    """

    pooling: str
    normalise: bool
    max_length: int | None = None
    subfolder: str = ""
    unsupported: str | None = None

    def check(self, name: str) -> None:
        """Raise CapabilityError where the embedding would not be the one that is stated."""
        if self.unsupported is not None:
            raise CapabilityError(
                f"{name!r} states an embedding with {self.unsupported}, which is not supported; "
                'choose embedding="mean", "cls" or "last" instead of the model\'s own.'
            )


def read_sentence_config(source: str, revision: str | None = None) -> SentenceConfig | None:
    """What ``modules.json`` of a folder or hub repository states; None where there is none.

    Raises:
        CorruptFileError: the files contradict each other or cannot be read.
    """
    listed = _read(source, "modules.json", revision, list)
    if listed is None:
        return None
    kinds, subfolder, pooling, unsupported = [], "", None, None
    for module in listed:
        if not isinstance(module, dict) or not {"type", "path"} <= set(module):
            raise _wrong(source, "modules.json", f"the module {module!r} has no type and path")
        kind, path = str(module["type"]).rpartition(".")[2], str(module["path"])
        kinds.append(kind)
        if _outside(source, path):
            raise _wrong(source, "modules.json", f"the path {path[:80]!r} leads out of the folder")
        if kind == "Transformer":
            subfolder = path
        elif kind == "Pooling":
            pooling, unsupported = _pooling(
                source, _inside(path, "config.json"), revision, unsupported
            )
    if pooling is None:
        return None
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        unsupported = f"the modules {', '.join(kinds)}"
    length, option = _transformer(source, subfolder, revision)
    prompts = _read(source, "config_sentence_transformers.json", revision, dict) or {}
    if prompts.get("default_prompt_name"):
        option = "a prompt in front of every text"
    if prompts.get("truncate_dim") is not None:
        option = "vectors that are cut short"
    return SentenceConfig(
        pooling, kinds[-1] == "Normalize", length, subfolder, option or unsupported
    )


def write_sentence_config(stated: SentenceConfig, folder: Path, d_model: int) -> None:
    """The files of ``stated`` next to a transformer in ``folder``, which
    :func:`read_sentence_config` and sentence-transformers read; none where a part of the embedding
    is unsupported."""
    if stated.unsupported is not None:
        return
    kinds = ["Transformer", "Pooling", *(["Normalize"] if stated.normalise else [])]
    paths = ["", "1_Pooling", "2_Normalize"]
    listed = [
        {"idx": k, "name": str(k), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for k, (kind, path) in enumerate(zip(kinds, paths, strict=False))
    ]
    flags = {flag: mode == stated.pooling for flag, mode in POOLING_FLAGS.items()}
    atomic_write(folder / "modules.json", json_bytes(listed))
    for path in paths[1 : len(kinds)]:
        (folder / path).mkdir()
    pooling = {"word_embedding_dimension": d_model, **flags}
    atomic_write(folder / paths[1] / "config.json", json_bytes(pooling))
    if stated.max_length is not None:
        length = {"max_seq_length": stated.max_length, "do_lower_case": False}
        atomic_write(folder / TRANSFORMER_FILES[0], json_bytes(length))


def _transformer(
    source: str, subfolder: str, revision: str | None
) -> tuple[int | None, str | None]:
    """The length of a text that the transformer's file states, and an unsupported option."""
    name, options = TRANSFORMER_FILES[0], {}
    for name in TRANSFORMER_FILES:
        options = _read(source, _inside(subfolder, name), revision, dict)
        if options is not None:
            break
    options = options or {}
    length = options.get("max_seq_length")
    if length is not None and (type(length) is not int or length < 1):
        raise _wrong(source, name, f"max_seq_length is {length!r}, not a number of tokens")
    for key, value in options.items():
        if value and key != "max_seq_length" and value != SUPPORTED_OPTIONS.get(key):
            return length, "lower-casing" if key == "do_lower_case" else f"{key} = {value!r}"
    return length, None


def _pooling(
    source: str, name: str, revision: str | None, unsupported: str | None
) -> tuple[str, str | None]:
    """The pooling mode, and what of it is unsupported."""
    config = _read(source, name, revision, dict)
    if config is None:
        raise CorruptFileError(
            f"modules.json of {source!r} lists a pooling whose config.json is missing; get the "
            "folder again."
        )
    if "pooling_mode" in config:  # newer folders name the mode instead of setting a flag
        mode = config["pooling_mode"]
        modes = [mode] if isinstance(mode, str) else mode
        if not isinstance(modes, list) or not all(isinstance(one, str) for one in modes):
            raise _wrong(source, name, f"pooling_mode is {mode!r}")
        names = [POOLING_MODES.get(str(one), str(one)) for one in modes]
    else:
        flags = [key for key, flag in config.items() if key.startswith("pooling_mode_") and flag]
        names = [POOLING_FLAGS.get(key, key.removeprefix("pooling_mode_")) for key in flags]
    if len(names) != 1 or names[0] not in POOLING_MODES.values():
        return "mean", f"pooling by {' and '.join(names) or 'nothing'}"
    return names[0], unsupported


def _outside(source: str, path: str) -> bool:
    """Whether a module's path is absolute, goes up, or follows a link out of a folder here."""
    parts = re.split(r"[/\\]", path)
    if ".." in parts or path.startswith(("/", "\\")) or ":" in parts[0] or "\0" in path:
        return True
    folder = Path(source)
    return folder.is_dir() and not (folder / path).resolve().is_relative_to(folder.resolve())


def _inside(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _wrong(source: str, name: str, problem: str) -> CorruptFileError:
    return CorruptFileError(
        f"{name} of {source!r} is not in the form that sentence-transformers writes: {problem}. "
        "Get the folder again."
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
        content = json_value(read_bytes(Path(path)))
    except ValueError as broken:
        raise CorruptFileError(f"{path} is not JSON ({broken}); get the folder again.") from broken
    if not isinstance(content, kind):
        raise _wrong(source, name, f"it holds {content!r}")
    return content
