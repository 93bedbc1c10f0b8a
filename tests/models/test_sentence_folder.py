"""What modules.json and its neighbours state, in every form that they have been written in."""

from __future__ import annotations

import json
import re
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
    kinds: tuple[str, ...] = ("Transformer", "Pooling"),
    further: tuple[str, ...] = (),
    subfolder: str = "",
    transformer: dict[str, Any] | None = None,
    general: dict[str, Any] | None = None,
    prefix: str = "sentence_transformers.models",
) -> Path:
    """A sentence-transformers folder's files: modules, pooling, and further options."""
    modules = []
    for i, kind in enumerate([*kinds, *further]):
        path = f"{i}_{kind}" if i or kind != "Transformer" else subfolder
        modules.append({"idx": i, "name": str(i), "path": path, "type": f"{prefix}.{kind}"})
        if kind == "Pooling":
            write(folder / path / "config.json", flags(FLAGS[1]) if pooling is None else pooling)
    write(folder / "modules.json", modules)
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
    ("files", "expected"),
    [
        ({"pooling": flags(FLAGS[1])}, ("mean", False)),
        ({"pooling": flags(FLAGS[0])}, ("cls", False)),
        ({"pooling": flags(FLAGS[5])}, ("last", False)),
        ({"pooling": {"pooling_mode": "mean"}}, ("mean", False)),
        ({"pooling": {"pooling_mode": "cls", "include_prompt": True}}, ("cls", False)),
        ({"pooling": {"pooling_mode": "lasttoken"}}, ("last", False)),
        ({"pooling": {"pooling_mode": ["mean"]}}, ("mean", False)),
        ({"further": ("Normalize",)}, ("mean", True)),
        ({"transformer": {"max_seq_length": None}}, ("mean", False, None)),
        ({"transformer": {"max_seq_length": 19}, "subfolder": "0_T"}, ("mean", False, 19, "0_T")),
        (
            {
                "transformer": {
                    "max_seq_length": 19,
                    "do_lower_case": False,
                    "config_args": {},
                    "transformer_task": "feature-extraction",
                    "module_output_name": "token_embeddings",
                },
                "general": {
                    "prompts": {"query": "query: "},
                    "default_prompt_name": None,
                    "truncate_dim": None,
                },
                "prefix": "sentence_transformers.base.modules.thing",
            },
            ("mean", False, 19),
        ),
    ],
)
def test_what_is_stated(tmp_path: Path, files: dict[str, Any], expected: Any) -> None:
    stated = read_sentence_config(str(state(tmp_path, **files)))
    assert stated == SentenceConfig(*expected)
    stated.check("x")


NORMALISED = ("Transformer", "Pooling", "Normalize")
ORDERS: list[tuple[str, ...]] = [
    ("Transformer", "Pooling", "Dense"),
    ("Transformer", "Pooling", "Dense", "Normalize"),
    ("Transformer", "Pooling", "LayerNorm"),
    ("Transformer", "Normalize", "Pooling"),
    ("Pooling", "Transformer"),
    (*NORMALISED, "Normalize"),
    ("Transformer", "Pooling", "Pooling"),
    ("Pooling",),
    ("Transformer", "Transformer", "Pooling"),
]
UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"pooling": flags(FLAGS[2]), "kinds": NORMALISED}, "pooling by max_tokens"),
    ({"pooling": flags(FLAGS[3])}, "pooling by mean_sqrt_len_tokens"),
    ({"pooling": flags(FLAGS[4])}, "pooling by weightedmean_tokens"),
    ({"pooling": flags(FLAGS[0], FLAGS[1])}, "pooling by cls and mean"),
    ({"pooling": flags()}, "pooling by nothing"),
    ({"pooling": {"pooling_mode": "max"}}, "pooling by max"),
    ({"pooling": {"pooling_mode": ["mean", "max"]}}, "pooling by mean and max"),
    *(({"kinds": kinds}, f"the modules {', '.join(kinds)}") for kinds in ORDERS),
    ({"transformer": {"do_lower_case": True}}, "lower-casing"),
    ({"transformer": {"config_args": {"hidden_act": "relu"}}}, "config_args = {'hidden_act"),
    ({"transformer": {"model_args": {"dtype": "float16"}}}, "model_args = "),
    ({"transformer": {"transformer_task": "fill-mask"}}, "transformer_task = 'fill-mask'"),
    ({"general": {"truncate_dim": 16}}, "vectors that are cut short"),
    ({"general": {"default_prompt_name": "query"}}, "a prompt in front of every text"),
]


@pytest.mark.parametrize(("files", "named"), UNSUPPORTED)
def test_what_is_not_computed_is_named(tmp_path: Path, files: dict[str, Any], named: str) -> None:
    stated = read_sentence_config(str(state(tmp_path, **files)))
    assert stated is not None
    message = rf"'org/x' states an embedding with {re.escape(named)}.*, which .*choose embedding="
    with pytest.raises(CapabilityError, match=message):
        stated.check("org/x")


def test_the_older_file_s_length_is_read(tmp_path: Path) -> None:
    state(tmp_path)
    older = tmp_path / "sentence_roberta_config.json"
    write(older, {"max_seq_length": 17, "do_lower_case": False})
    assert read_sentence_config(str(tmp_path)) == SentenceConfig("mean", False, 17)
    write(older, {"max_seq_length": 17, "do_lower_case": True})
    stated = read_sentence_config(str(tmp_path))
    assert stated is not None
    assert (stated.max_length, stated.unsupported) == (17, "lower-casing")
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": 19})  # today's name wins
    assert read_sentence_config(str(tmp_path)) == SentenceConfig("mean", False, 19)


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
    ("name", "content", "wrong"),
    [
        ("modules.json", [{"idx": 0}], "the module {'idx': 0} has no type and path"),
        ("modules.json", [1], "the module 1 has no type and path"),
        ("modules.json", {"a": 1}, "it holds {'a': 1}"),
        ("1_Pooling/config.json", [], "it holds []"),
        ("1_Pooling/config.json", {"pooling_mode": 3}, "pooling_mode is 3"),
        ("sentence_bert_config.json", [1], "it holds [1]"),
        *(
            (name, {"max_seq_length": length}, f"max_seq_length is {length!r}, not a number of tok")
            for name in ("sentence_bert_config.json", "sentence_roberta_config.json")
            for length in (True, False, 0, -5, 3.5, "19")
        ),
    ],
)
def test_json_of_another_form_is_refused(
    tmp_path: Path, name: str, content: Any, wrong: str
) -> None:
    write(state(tmp_path) / name, content)
    with pytest.raises(CorruptFileError, match=rf"{name} of .*{re.escape(wrong)}"):
        read_sentence_config(str(tmp_path))


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
