"""Small decoders as models like any other: what holds, what is refused, and folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    OptionError,
)
from interp_compose.models.capabilities import MEANING
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.weight_matrices import left_out, weight_matrices
from interp_compose.papers.complexity.models.init import InitRates
from interp_compose.papers.complexity.models.small_decoder import (
    SmallDecoderModel,
    save_decoder,
    small_decoder,
)
from interp_compose.papers.shared.models.decoder import DecoderConfig, Norm, SmallDecoder
from interp_compose.runs.files import file_sha256, json_bytes
from tests import architectures

pytestmark = pytest.mark.tl3

SHAPE: dict[str, Any] = {"d_vocab": 31, "n_ctx": 11, "n_layers": 3, "d_model": 20, "d_mlp": 17}
TOKENS = torch.tensor([[5, 17, 3, 23, 28, 11, 7], [13, 2, 19, 3, 0, 3, 19]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1]])


def make(norm: str, *, seed: int = 0, init_rate: float = 0.4, **other: Any) -> LensModel:
    shape = {**SHAPE, "n_heads": 2, **other}
    return small_decoder(DecoderConfig(**shape, norm=norm), init_rate=init_rate, seed=seed)


@pytest.mark.parametrize(
    ("init_rate", "n_layers", "dtype"),
    [(0.2, 1, "float32"), (0.5, 10, "float32"), (1.0, 2, "float32"), (0.4, 3, "bfloat16")],
)
@pytest.mark.parametrize("norm", get_args(Norm))
def test_every_capability_that_can_hold_does(
    norm: str, init_rate: float, n_layers: int, dtype: str
) -> None:
    """After a norm of the sum what enters a block cannot leave it: all but drop_parts."""
    model = make(norm, init_rate=init_rate, n_layers=n_layers)
    model.lens.to(getattr(torch, dtype))
    held = {name for name in MEANING if model.capabilities[name].held}
    assert held == set(MEANING) - {"prefix", *(["drop_parts"] if norm == "post" else [])}


def test_what_cannot_hold_is_refused_by_name() -> None:
    model = make("post")
    with pytest.raises(
        CapabilityError, match=r"SmallDecoder\(norm='post'\) cannot do 'drop_parts'"
    ):
        model.require("drop_parts")
    model.require(*(set(MEANING) - {"drop_parts", "prefix"}))


def test_the_default_is_the_phase_diagram_s_model() -> None:
    model = small_decoder(init_rate=0.5, seed=0)
    assert (model.n_layers, model.n_heads, model.d_model, model.d_vocab) == (2, 1, 64, 110)
    assert (model.n_ctx, model.proofs.n_neurons(), model.position_kind) == (9, 128, "standard")
    assert (model.name, model.architecture) == ("small-decoder", "SmallDecoder(norm='pre')")
    assert not model.training
    assert model.tokenizer is None
    own = object()
    assert small_decoder(init_rate=0.5, seed=0, tokenizer=own).tokenizer is own


def test_options_reach_the_initialisation() -> None:
    rates = InitRates(embed=0.2, qk=2.0, vo=0.2, mlp=0.2)
    model = small_decoder(
        DecoderConfig(**SHAPE), init_rate=rates, seed=0, distribution="uniform", fan_in="d_model"
    )
    assert float(model.weight("W_Q").detach().abs().max()) <= 20**-2.0 * (1 + 1e-6)
    assert 0.9 * 20**-0.2 < float(model.weight("W_out").detach().abs().max()) <= 20**-0.2
    scaled = small_decoder(DecoderConfig(**SHAPE), init_rate=0.5, seed=0, scale_writers=True)
    plain = small_decoder(DecoderConfig(**SHAPE), init_rate=0.5, seed=0)
    torch.testing.assert_close(scaled.weight("W_O") * 6**0.5, plain.weight("W_O"))


def test_a_module_is_wrapped_in_place() -> None:
    module = SmallDecoder(DecoderConfig(**SHAPE))
    own = object()
    model = load_model(module, tokenizer=own)
    assert isinstance(model, SmallDecoderModel)
    assert model.lens is module
    assert model.tokenizer is own
    assert model.training  # as it came
    assert load_model(model) is model
    with pytest.raises(OptionError, match="SmallDecoder passed keeps its own"):
        load_model(module, device="cpu")


def test_weight_matrices_hold_every_weight() -> None:
    model = make("pre")
    assert left_out(model) == ()
    found = {(m.layer, m.name): m for m in weight_matrices(model)}
    assert len(found) == 3 + 3 * 6
    assert found[1, "W_Q"].weight.shape == (20, 20)
    assert found[1, "W_out"].weight.shape == (20, 17)
    assert found[3, "W_U"].tied_to == ""
    heads = found[1, "W_Q"].heads
    assert heads is not None
    assert torch.equal(heads[1].mT, model.weight("W_Q")[1, 1])
    with pytest.raises(CapabilityError, match=r"SmallDecoder.* offers no stacked 'W_gate'"):
        model.weight("W_gate")
    with pytest.raises(CapabilityError, match="offers no stacked 'b_O' .*biases='unembed'"):
        make("post", biases="unembed").weight("b_O")


# ---- folders ------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", get_args(Norm))
@torch.no_grad()
def test_a_folder_gives_the_same_model(norm: str, tmp_path: Path) -> None:
    model = make(norm, act="relu", biases="unembed", d_head=7)
    folder = save_decoder(model, tmp_path / "some" / "run")
    assert sorted(file.name for file in folder.iterdir()) == [
        "SHA256SUMS",
        "decoder.json",
        "weights.safetensors",
    ]
    assert [file.name for file in folder.parent.iterdir()] == ["run"]
    own = object()
    again = load_model(folder, tokenizer=own, device="cpu")
    assert isinstance(again, SmallDecoderModel)
    assert (again.name, again.architecture) == (str(folder), model.architecture)
    assert again.lens.cfg == model.lens.cfg
    assert again.tokenizer is own
    assert not again.training
    assert torch.equal(again(TOKENS, attention_mask=MASK), model(TOKENS, attention_mask=MASK))
    cast = load_model(folder, device="cpu", dtype="bfloat16")
    assert cast.dtype == torch.bfloat16
    model.lens.bfloat16()
    assert torch.equal(cast(TOKENS), model(TOKENS))
    assert save_decoder(cast, tmp_path / "cast") == tmp_path / "cast"
    assert load_model(tmp_path / "cast").dtype == torch.float32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_decoder(make("pre"), tmp_path / "saved")


def reseal(folder: Path, **changes: Any) -> None:
    """Another decoder.json, as a writer of that release would have sealed it."""
    about = json.loads((folder / "decoder.json").read_bytes())
    about = {**about, **changes}
    (folder / "decoder.json").write_bytes(json_bytes(about))
    names = ("decoder.json", "weights.safetensors")
    lines = [f"{file_sha256(folder / name)}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize("name", ["weights.safetensors", "decoder.json", "SHA256SUMS"])
def test_any_altered_byte_is_seen(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    places = sorted({0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 2, len(whole) - 1})
    for damaged in [
        *(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in places),
        *(whole[:at] for at in places),
        whole + b"\n",
    ]:
        (folder / name).write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            load_model(folder)
    (folder / name).write_bytes(whole)
    load_model(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "decoder.json", "SHA256SUMS"])
def test_a_missing_file_is_seen(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CorruptFileError):
        load_model(folder)


def test_another_model_s_weights_are_seen(folder: Path, tmp_path: Path) -> None:
    other = save_decoder(make("pre", seed=1), tmp_path / "other")
    shutil.copy(other / "weights.safetensors", folder / "weights.safetensors")
    with pytest.raises(CorruptFileError, match="it is not what SHA256SUMS beside it lists"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "interp_compose.decoder/2"}, "states the format 'interp_compose.decoder/2'"),
        ({"format": None}, "states the format None, and this release reads"),
        ({"config": {"norm": "rms"}}, "does not hold a small decoder"),
        ({"config": {"dropout": 0.1}}, "does not hold a small decoder: .*dropout"),
        ({"config": {"n_layers": 5}}, "does not hold a small decoder: "),
        ({"config": 7}, "does not hold a small decoder"),
    ],
)
def test_another_release_s_folder_is_refused(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    reseal(folder, **changes)
    with pytest.raises(CorruptFileError, match=message):
        load_model(folder)


def test_json_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "decoder.json").write_bytes(json_bytes(["interp_compose.decoder/1"]))
    with pytest.raises(CorruptFileError, match="states the format None"):
        load_model(tmp_path)


def test_a_save_that_breaks_off_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interp_compose.models import own_folder as module

    for name in ("write_weights", "atomic_write"):
        with monkeypatch.context() as patch:

            def broken(*args: Any) -> None:
                raise KeyboardInterrupt

            patch.setattr(module, name, broken)
            with pytest.raises(KeyboardInterrupt):
                save_decoder(make("pre"), tmp_path / "saved")
            assert list(tmp_path.iterdir()) == []


def test_where_and_what_is_saved(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="exists and is not empty: give a new folder"):
        save_decoder(make("post"), folder)
    assert load_model(folder).architecture == "SmallDecoder(norm='pre')"
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    with pytest.raises(OptionError, match="exists and is not empty"):
        save_decoder(make("post"), file)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert load_model(save_decoder(make("post"), empty)).architecture.endswith("'post')")
    with pytest.raises(OptionError, match=r"is a BridgeModel: expected one of small_decoder"):
        save_decoder(load_model(architectures.build("GPT-2")), tmp_path / "gpt2")


def test_options_of_the_hub_are_refused(folder: Path) -> None:
    with pytest.raises(OptionError, match="device_map='auto' is Hugging Face's"):
        load_model(folder, device_map="auto")
    with pytest.raises(OptionError, match="revision='main' is of the hub"):
        load_model(folder, revision="main")
    with pytest.raises(OptionError, match="unknown dtype 'int8'"):
        load_model(folder, dtype="int8")
