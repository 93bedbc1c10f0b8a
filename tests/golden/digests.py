"""What is kept of a value, a result, a folder: digests, and short texts as they are."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch

MEASURED = re.compile(r"second|_s$|minutes|bytes|^device_name$")
"""Columns and settings that are a machine's, and differ from run to run."""
TIME = re.compile(r"\d+(\.\d+)?(e[-+]\d+)? ?(ms|s|min|h|seconds)\b|\d+:\d\d(:\d\d)?")
CODE = ("html", "png", "csv", "parquet", "json", "jsonl")
LONGEST = 2000
"""Characters of a text that is kept as it is."""


def digest(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]


def plain(text: str, folder: Path) -> str:
    """A text without times, versions and the folder's path."""
    text = text.replace(str(folder), "FOLDER")
    return TIME.sub("TIME", text)


def of(value: Any) -> Any:
    """JSON that two equal values share, and two others do not."""
    if isinstance(value, torch.Tensor):
        bits = value.detach().cpu().contiguous()
        bits = bits.view(torch.int16) if bits.dtype == torch.bfloat16 else bits
        return f"{value.dtype} {[*value.shape]} {digest(bits.numpy().tobytes())}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {[*value.shape]} {digest(np.ascontiguousarray(value).tobytes())}"
    if isinstance(value, pd.DataFrame):
        return of_frame(value)
    if isinstance(value, go.Figure):
        return digest(value.to_json())
    if hasattr(value, "frames") and hasattr(value, "config"):
        return of_result(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: of(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): of(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [of(one) for one in value]
    if isinstance(value, str) and len(value) > LONGEST:
        return digest(value)
    return value if isinstance(value, str | int | bool | None) else repr(value)


def of_frame(frame: pd.DataFrame) -> dict[str, Any]:
    """Digests by column, so that a difference names it."""
    kept = [name for name in frame.columns if not MEASURED.search(name)]
    columns = {name: f"{frame[name].dtype} {digest(frame[name].to_csv())}" for name in kept}
    return {"rows": len(frame), "order": list(frame.columns), "columns": columns}


def of_result(result: Any) -> dict[str, Any]:
    """Tables, settings, words, and figures as plotly and as pictures."""
    found = {
        "class": type(result).__name__,
        "config": settings(result.config),
        "frames": {name: of_frame(frame) for name, frame in result.frames.items()},
    }
    for name in ("summary", "head", "sentences", "notes"):
        said = getattr(result, name, None)
        said = said() if callable(said) else said
        found[name] = [TIME.sub("TIME", line) for line in lines_of(said)]
    frame = getattr(result, "frame", None)
    if isinstance(frame, pd.DataFrame):
        found["frame"] = of_frame(frame)
    if callable(getattr(result, "figures", None)):
        found["figures"] = {name: figure(one) for name, one in result.figures().items()}
    return found


def figure(one: Any) -> dict[str, str]:
    from interp_compose.plots.export import picture_bytes

    return {"plotly": digest(one.to_json()), "png": digest(picture_bytes(one))}


def lines_of(said: Any) -> list[str]:
    if said is None:
        return []
    return said.splitlines() if isinstance(said, str) else [str(one) for one in said]


def settings(config: Any) -> Any:
    """A config without what is a machine's."""
    if isinstance(config, Mapping):
        return {k: settings(v) for k, v in config.items() if not MEASURED.search(str(k))}
    return [settings(one) for one in config] if isinstance(config, list) else config


def of_folder(folder: Path) -> dict[str, Any]:
    """Names of all files, in which runs' identities are; and what tables and settings hold."""
    found: dict[str, Any] = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        name = path.relative_to(folder).as_posix()
        found[name] = "there"
        if path.suffix == ".csv":
            found[name] = of_frame(pd.read_csv(path))
        elif path.suffix == ".png":
            found[name] = digest(path.read_bytes())
        elif path.name == "result.json":
            about = json.loads(path.read_text(encoding="utf-8"))
            found[name] = {k: settings(v) for k, v in about.items() if k != "versions"}
        elif path.name in ("config.json", "sweep.json"):
            found[name] = settings(json.loads(path.read_text(encoding="utf-8")))
    return found


def page(path: Path, folder: Path) -> list[str]:
    """A report's lines without pictures, times and versions."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"data:[^\"']+|(?s:<script.*?</script>)", "", text)
    return plain(text, folder).replace("><", ">\n<").splitlines()
