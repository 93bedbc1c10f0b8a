"""What modules.json and its neighbours state, in every form that they have been written in."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from interp_compose.errors import CapabilityError, CorruptFileError
from interp_compose.models.sentence_config import SentenceConfig, read_sentence_config
from tests import real_model

FLAGS = (
    "pooling_mode_cls_token",
    "pooling_mode_mean_tokens",
    "pooling_mode_max_tokens",
    "pooling_mode_mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens",
    "pooling_mode_lasttoken",
)


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def flags(*on: str) -> dict[str, Any]:
    return {"word_embedding_dimension": 40, **{flag: flag in on for flag in FLAGS}}


def state(
    folder: Path,
    pooling: Any = None,
    *,
    further: tuple[str, ...] = (),
    subfolder: str = "",
    transformer: dict[str, Any] | None = None,
    general: dict[str, Any] | None = None,
    prefix: str = "sentence_transformers.models",
) -> Path:
    """A sentence-transformers folder's files: modules, pooling, and further options."""
    kinds = ["Transformer", "Pooling", *further]
    paths = [subfolder, *(f"{i}_{kind}" for i, kind in enumerate(kinds) if i)]
    write(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"{prefix}.{kind}"}
            for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))
        ],
    )
    write(folder / "1_Pooling/config.json", flags(FLAGS[1]) if pooling is None else pooling)
    if transformer is not None:
        write(folder / subfolder / "sentence_bert_config.json", transformer)
    if general is not None:
        write(folder / "config_sentence_transformers.json", general)
    return folder


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The hub is not switched off, and yet nobody tries to reach it for a local folder."""
    attempts: list[Any] = []

    def refuse(*args: Any, **kwargs: Any) -> Any:
        attempts.append(args)
        raise OSError("no network in tests")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield
    assert attempts == []


def test_a_real_folder() -> None:
    assert read_sentence_config(str(real_model.real_folder())) == SentenceConfig("mean", True, 256)


def test_a_folder_without_modules_states_nothing(tmp_path: Path) -> None:
    assert read_sentence_config(str(tmp_path)) is None


def test_modules_without_a_pooling_state_nothing(tmp_path: Path) -> None:
    write(tmp_path / "modules.json", [{"idx": 0, "path": "", "type": "a.b.Transformer"}])
    assert read_sentence_config(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (flags(FLAGS[1]), "mean"),
        (flags(FLAGS[0]), "cls"),
        (flags(FLAGS[5]), "last"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": "cls", "embedding_dimension": 40, "include_prompt": True}, "cls"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode": ["mean"]}, "mean"),
    ],
)
def test_both_forms_of_pooling(tmp_path: Path, pooling: Any, expected: str) -> None:
    stated = read_sentence_config(str(state(tmp_path, pooling)))
    assert stated == SentenceConfig(expected, False)
    stated.check("x")


@pytest.mark.parametrize(
    ("pooling", "named"),
    [
        (flags(FLAGS[2]), "pooling by max_tokens"),
        (flags(FLAGS[3]), "pooling by mean_sqrt_len_tokens"),
        (flags(FLAGS[4]), "pooling by weightedmean_tokens"),
        (flags(FLAGS[0], FLAGS[1]), "pooling by cls and mean"),
        (flags(), "pooling by nothing"),
        ({"pooling_mode": "max"}, "pooling by max"),
        ({"pooling_mode": ["mean", "max"]}, "pooling by mean and max"),
    ],
)
def test_pooling_that_is_not_done_is_named(tmp_path: Path, pooling: Any, named: str) -> None:
    stated = read_sentence_config(str(state(tmp_path, pooling, further=("Normalize",))))
    assert stated is not None
    with pytest.raises(
        CapabilityError, match=rf"'org/x' states an embedding with {named}, .*choose embedding="
    ):
        stated.check("org/x")


@pytest.mark.parametrize(
    ("further", "named"),
    [
        (("Dense",), "the modules Transformer, Pooling, Dense"),
        (("Dense", "Normalize"), "the modules Transformer, Pooling, Dense, Normalize"),
        (("LayerNorm",), "the modules Transformer, Pooling, LayerNorm"),
    ],
)
def test_other_modules_are_named(tmp_path: Path, further: tuple[str, ...], named: str) -> None:
    stated = read_sentence_config(str(state(tmp_path, further=further)))
    assert stated is not None
    assert stated.unsupported == named
    with pytest.raises(CapabilityError, match=named):
        stated.check("x")


def test_what_is_said_beside_the_modules(tmp_path: Path) -> None:
    folder = state(
        tmp_path,
        further=("Normalize",),
        subfolder="0_Transformer",
        transformer={"max_seq_length": 19, "do_lower_case": False},
        general={"prompts": {"query": "query: "}, "default_prompt_name": None},
        prefix="sentence_transformers.base.modules.thing",
    )
    assert read_sentence_config(str(folder)) == SentenceConfig("mean", True, 19, "0_Transformer")


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"transformer": {"do_lower_case": True}}, "lower-casing"),
        (
            {"general": {"prompts": {"query": "query: "}, "default_prompt_name": "query"}},
            "a prompt in front of every text",
        ),
    ],
)
def test_what_is_done_to_texts_is_named(tmp_path: Path, files: dict[str, Any], named: str) -> None:
    stated = read_sentence_config(str(state(tmp_path, **files)))
    assert stated is not None
    with pytest.raises(CapabilityError, match=named):
        stated.check("x")


def test_a_length_that_is_not_stated(tmp_path: Path) -> None:
    stated = read_sentence_config(str(state(tmp_path, transformer={"max_seq_length": None})))
    assert stated == SentenceConfig("mean", False, None)


@pytest.mark.parametrize(
    "name", ["modules.json", "1_Pooling/config.json", "sentence_bert_config.json"]
)
def test_a_file_that_is_not_json_is_named(tmp_path: Path, name: str) -> None:
    folder = state(tmp_path, transformer={})
    (folder / name).write_text('{"a": ', encoding="utf-8")
    with pytest.raises(CorruptFileError, match=rf"{name} is not JSON .*get the folder again"):
        read_sentence_config(str(folder))


def test_a_pooling_without_its_config_is_refused(tmp_path: Path) -> None:
    (state(tmp_path) / "1_Pooling/config.json").unlink()
    with pytest.raises(CorruptFileError, match="pooling whose config.json is missing"):
        read_sentence_config(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("modules.json", [{"idx": 0}]),
        ("modules.json", [1]),
        ("modules.json", {"a": 1}),
        ("1_Pooling/config.json", []),
        ("1_Pooling/config.json", {"pooling_mode": 3}),
        ("sentence_bert_config.json", {"max_seq_length": "long"}),
        ("sentence_bert_config.json", [1]),
    ],
)
def test_json_of_another_form_is_refused(tmp_path: Path, name: str, content: Any) -> None:
    folder = state(tmp_path)
    write(folder / name, content)
    with pytest.raises(CorruptFileError, match=name):
        read_sentence_config(str(folder))


@pytest.mark.parametrize(
    "path", ["../elsewhere", "1_Pooling/../../elsewhere", "/elsewhere", "C:\\x", "..\\x", "link"]
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_module_outside_the_folder_is_refused(tmp_path: Path, path: str, which: int) -> None:
    folder = state(tmp_path / "model", subfolder="0_Transformer")
    for place in (tmp_path / "elsewhere", tmp_path / "x"):
        write(place / "config.json", flags(FLAGS[0]))
    (folder / "link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    modules = json.loads((folder / "modules.json").read_text())
    modules[which]["path"] = path
    write(folder / "modules.json", modules)
    with pytest.raises(CorruptFileError, match=r"modules.json .* leads out of the folder"):
        read_sentence_config(str(folder))


def test_a_link_to_the_folder_itself_is_none_out_of_it(tmp_path: Path) -> None:
    state(tmp_path / "model")
    (tmp_path / "link").symlink_to(tmp_path / "model", target_is_directory=True)
    assert read_sentence_config(str(tmp_path / "link")) is not None
