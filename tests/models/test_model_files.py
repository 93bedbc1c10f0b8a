"""Folders whose weights are pickled, or whose config states what cannot be."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from interp_compose.errors import CapabilityError, CorruptFileError
from interp_compose.models.load import load_model
from tests import architectures
from tests.studies import similarity_reference as slow
from tests.studies.conftest import splitting_tokenizer


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a GPT-2, a Llama and a BERT."""
    folder = tmp_path_factory.mktemp("saved")
    for name in ("GPT-2", "Llama", "BERT"):
        architectures.build(name).save_pretrained(folder / name)
        tokenizer = slow.bert_tokenizer() if name == "BERT" else splitting_tokenizer()
        tokenizer.save_pretrained(folder / name)
    return folder


class RunsCode:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("kind", ["runs code", "harmless", "garbage", "named by the config"])
@pytest.mark.parametrize("name", ["GPT-2", "BERT"])
def test_pickled_weights_are_refused_whatever_they_hold(
    saved: Path, tmp_path: Path, name: str, kind: str
) -> None:
    folder, trace = tmp_path / "model", tmp_path / "trace"
    shutil.copytree(saved / name, folder)
    weights = folder / "pytorch_model.bin"
    if kind == "garbage":
        weights.write_bytes(b"\x80\x02nonsense")
    else:
        harmless = kind != "runs code"
        torch.save({"weight": torch.ones(2) if harmless else RunsCode(trace)}, weights)
    if kind == "named by the config":
        config = json.loads((folder / "config.json").read_text())
        config["transformers_weights"] = weights.name
        (folder / "config.json").write_text(json.dumps(config))
    else:
        (folder / "model.safetensors").unlink()
    with pytest.raises(CapabilityError, match=r"are pickled \(pytorch_model.bin\).* convert them"):
        load_model(str(folder))
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "entry", "value"),
    [
        ("GPT-2", "vocab_size", 2**62),
        ("GPT-2", "vocab_size", "x"),
        ("GPT-2", "n_embd", -1),
        ("GPT-2", "n_embd", 2**40),
        ("GPT-2", "n_head", 0),
        ("GPT-2", "n_head", -2),
        ("GPT-2", "n_layer", 10**9),
        ("GPT-2", "n_layer", 0),
        ("GPT-2", "n_positions", 2**62),
        ("GPT-2", "activation_function", "nope"),
        ("GPT-2", "architectures", 3),
        ("Llama", "num_key_value_heads", 0),
        ("Llama", "num_hidden_layers", 10**9),
        ("Llama", "rope_parameters", "x"),
        ("BERT", "num_hidden_layers", 10**9),
        ("BERT", "intermediate_size", -1),
        ("BERT", "hidden_act", "x"),
    ],
)
def test_a_malformed_config_is_refused_at_once(
    saved: Path, tmp_path: Path, name: str, entry: str, value: Any
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(saved / name, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {entry: value}))
    with pytest.raises(CorruptFileError, match="get the checkpoint again") as refusal:
        load_model(str(folder))
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("shard", ["../model/one.safetensors", "one.bin", "/etc/passwd", 3])
def test_shards_lie_in_their_folder_and_are_safetensors(
    saved: Path, tmp_path: Path, shard: Any
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(saved / "GPT-2", folder)
    (folder / "model.safetensors").rename(folder / "one.safetensors")
    listing = {"metadata": {}, "weight_map": {"transformer.wte.weight": shard}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(listing))
    with pytest.raises(CorruptFileError, match="expected safetensors files in its own folder"):
        load_model(str(folder))


@pytest.mark.parametrize("left", ["nothing", "tokenizer_config.json"])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT"])
def test_a_folder_without_a_tokenizer_is_refused_for_that(
    saved: Path, tmp_path: Path, name: str, left: str
) -> None:
    """transformers makes up an empty one for some classes, and fails for others."""
    folder = tmp_path / "model"
    shutil.copytree(saved / name, folder)
    for path in [*folder.glob("tokenizer*"), *folder.glob("*.txt"), *folder.glob("vocab*")]:
        if path.name != left:
            path.unlink()
    with pytest.raises(CorruptFileError, match=r"has no tokenizer that knows a word.*tokenizer=…"):
        load_model(folder)
    assert load_model(folder, tokenizer=splitting_tokenizer()).tokenizer is not None
