"""Names, folders, objects, devices and damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from interp_compose.errors import CapabilityError, CorruptFileError, DeviceError, OptionError
from interp_compose.models import load_encoder
from interp_compose.models.bridge import bridge_around
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.weights import load_weights, save_weights
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from tests import architectures

TOKENS = torch.tensor([[5, 17, 3, 41, 29]])


def byte_level_tokenizer(vocab_size: int = 300) -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the shore of a sea", "a young cat"], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 shape and its tokenizer, as save_pretrained leaves them."""
    path = tmp_path_factory.mktemp("gpt2")
    architectures.build("GPT-2").save_pretrained(path)
    byte_level_tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


@torch.no_grad()
def test_a_folder_loads_with_its_tokenizer_and_bos(folder: Path) -> None:
    model = load_model(folder, device="cpu")
    assert (model.name, model.architecture) == (str(folder), "GPT2LMHeadModel")
    assert not model.training
    assert model.dtype == torch.float32
    assert model.tokenizer("a cat").input_ids[0] == model.tokenizer.bos_token_id
    reference = architectures.build("GPT-2")
    torch.testing.assert_close(model(TOKENS), reference(TOKENS).logits, atol=1e-5, rtol=1e-5)


def test_a_tokenizer_of_ones_own_is_used_as_it_is(folder: Path) -> None:
    own = byte_level_tokenizer()
    assert load_model(folder, tokenizer=own).tokenizer is own


def test_dtypes(folder: Path) -> None:
    assert load_model(folder, dtype="bfloat16").dtype == torch.bfloat16
    assert load_model(folder, dtype=torch.float16).dtype == torch.float16
    for bad in ("int8", "float8", torch.int32):
        with pytest.raises(OptionError, match="unknown dtype .*float32, bfloat16, float16"):
            load_model(folder, dtype=bad)


def test_objects_pass_through(folder: Path) -> None:
    model = load_model(folder)
    assert load_model(model) is model
    again = load_model(model.lens)
    assert isinstance(again, LensModel)
    assert again.lens is model.lens
    assert again.tokenizer is model.tokenizer
    with pytest.raises(OptionError, match="the BridgeModel passed keeps its own"):
        load_model(model, device="cpu")
    with pytest.raises(OptionError, match="trust_remote_code are for names and folders"):
        load_model(model, trust_remote_code=True)
    with pytest.raises(OptionError, match="cannot load a Linear"):
        load_model(torch.nn.Linear(2, 3))


def test_what_is_nowhere_is_refused() -> None:
    with pytest.raises(OptionError, match=r"no model 'no-such/model': .*shipped \(mini-base"):
        load_model("no-such/model")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("gtp2", "or pass a folder; did you mean 'gpt2'\\?$"),
        ("gpt2-small", "or pass a folder; did you mean 'gpt2'\\?$"),  # TransformerLens' alias
        ("pythia70m", "or pass a folder; did you mean 'EleutherAI/pythia-70m'\\?$"),
        ("gpt2", r"or pass a folder\.$"),
        ("no-such/model", r"or pass a folder\.$"),
    ],
)
def test_the_hub_is_waited_for_once_and_names_near_by_are_suggested(
    name: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_second_file(*_: Any) -> None:
        pytest.fail("another file was asked for without a network")

    monkeypatch.setattr(load_encoder, "read_sentence_config", no_second_file)
    with pytest.raises(OptionError, match=remedy):
        load_model(name, revision="no-such-revision")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="does not hold a model and its tokenizer"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "device", ["mps", "mps:0", "xpu", "hpu", "mtia", "xla", "meta", "cuda:99", "tpu9", ""]
)
def test_devices_that_are_not_there_are_refused(folder: Path, device: str) -> None:
    if device.startswith("mps") and torch.backends.mps.is_available():
        pytest.skip("this machine has it")
    with pytest.raises(DeviceError, match=rf"{device}' cannot be used .* one of cpu"):
        load_model(folder, device=device)
    with pytest.raises(DeviceError, match="cannot be used"):
        load_model(folder, device_map={"": device})


@pytest.mark.parametrize(
    ("build", "visible", "refusal", "cause"),
    [
        (None, None, "Torch not compiled with CUDA enabled", "was built without CUDA; install"),
        (
            "13.0",
            "",
            "No CUDA GPUs are available",
            "CUDA_VISIBLE_DEVICES='' hides every GPU; unset",
        ),
        (
            "13.0",
            "0",
            "The NVIDIA driver on your system is too old (found version 11040). Please update it",
            "built for CUDA 13.0: The NVIDIA driver .* 11040.*; CUDA_VISIBLE_DEVICES='0'",
        ),
    ],
)
def test_why_there_is_no_gpu(
    build: str | None,
    visible: str | None,
    refusal: str,
    cause: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ones(*shape: int, device: str) -> None:
        raise RuntimeError(refusal)

    monkeypatch.setattr(torch.version, "cuda", build)
    monkeypatch.setattr(torch, "ones", ones)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(DeviceError, match=f"device 'cuda' cannot be used .*{cause}"):
        load_model("no/such-model", device="cuda")


def test_a_device_is_tried_before_anything_is_read() -> None:
    with pytest.raises(DeviceError, match="'hpu' cannot be used"):
        load_model("no/such-model", device="hpu")


def test_a_model_has_the_name_it_is_given(folder: Path) -> None:
    assert load_model(folder).name == str(folder)
    assert load_model(folder, name="mine, twice").name == "mine, twice"
    own = load_model(architectures.build("GPT-2"), name="own")
    assert own.name == "own"
    assert load_model(own) is load_model(own, name="again") is own
    assert own.name == "again"
    for name in ("", " ", "two\nlines"):
        with pytest.raises(OptionError, match="expected a word or a few"):
            load_model(own, name=name)


def test_a_tokenizers_name_is_no_tokenizer() -> None:
    for source in ("mini-idm", load_model("mini-idm")):
        with pytest.raises(OptionError, match="tokenizer='gpt2': expected a tokenizer, not its na"):
            load_model(source, tokenizer="gpt2")


def test_an_object_has_its_configs_name_as_long_as_its_weights_are_those(folder: Path) -> None:
    def read() -> Any:
        return AutoModelForCausalLM.from_pretrained(folder).eval()

    assert load_model(read()).name == load_model(read().half().float()).name == str(folder)
    config = AutoConfig.from_pretrained(folder)
    random = AutoModelForCausalLM.from_config(config).eval()
    weights = {name: weight.clone() for name, weight in random.state_dict().items()}
    assert load_model(random).name == f"{type(random).__name__} by the config of {folder}"
    trained = read()
    with torch.no_grad():
        next(trained.parameters()).mul_(2)
    assert load_model(trained).name == f"{folder}, weights changed"
    other = read()
    other.load_state_dict(weights)
    assert load_model(other).name == f"{folder}, weights changed"


def test_the_tokenizer_of_a_loaded_model_takes_effect(folder: Path) -> None:
    tokenizer = load_model(folder).tokenizer
    for made in (
        load_model(architectures.build("GPT-2")),
        load_model(SmallDecoder(DecoderConfig(d_vocab=97, n_ctx=9, d_model=8, d_mlp=8))),
    ):
        assert made.tokenizer is None
        assert load_model(made, tokenizer=tokenizer) is made
        assert made.tokenizer is tokenizer
        assert load_model(made).tokenizer is tokenizer


def test_device_map_reaches_hugging_face(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def from_pretrained(cls: type, source: str, **options: Any) -> Any:
        asked.update(options)
        report = dict.fromkeys(("missing_keys", "unexpected_keys", "mismatched_keys"), ())
        return architectures.build("GPT-2"), report

    monkeypatch.setattr(
        transformers.PreTrainedModel, "from_pretrained", classmethod(from_pretrained)
    )
    load_model(folder, device_map="auto")
    assert asked["device_map"] == "auto"
    with pytest.raises(OptionError, match="exclude each other"):
        load_model(folder, device_map="auto", device="cpu")


def test_remote_code_needs_a_pinned_revision(folder: Path) -> None:
    with pytest.raises(OptionError, match="pin it with revision=<commit>"):
        load_model("a/model", trust_remote_code=True)
    with pytest.raises(OptionError, match=r"read it, load the model with transformers, and pass"):
        load_model(folder, trust_remote_code=True)


def test_truncated_weights_are_refused(copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CorruptFileError, match=r"the weights in .* cannot be read"):
        load_model(copy)


def test_the_folder_of_a_run_is_no_model_s(tmp_path: Path) -> None:
    (tmp_path / "DONE").touch()
    with pytest.raises(OptionError, match="finished run, not of a model; it keeps no transformer"):
        load_model(tmp_path)
    (tmp_path / "model").mkdir()
    with pytest.raises(OptionError, match=r"not of a model; its model is in .*model$"):
        load_model(tmp_path)


def test_a_flipped_bit_is_seen_where_checksums_lie(copy: Path) -> None:
    from interp_compose.runs.checksums import SUMS, check_sums
    from interp_compose.runs.files import file_sha256

    weights = copy / "model.safetensors"
    digest = file_sha256(weights)
    (copy / "SHA256SUMS").write_text(f"{digest}  {weights.name}\n", encoding="utf-8")
    check_sums(copy / SUMS)
    data = bytearray(weights.read_bytes())
    data[-7] ^= 1
    weights.write_bytes(bytes(data))
    with pytest.raises(
        CorruptFileError,
        match=r"model\.safetensors was truncated or altered: it is not",
    ):
        load_model(copy)
    weights.unlink()
    with pytest.raises(CorruptFileError, match="is missing: it is not what SHA256SUMS beside"):
        load_model(copy)


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
@torch.no_grad()
def test_weights_survive_a_round_trip_bit_for_bit(name: str, tmp_path: Path) -> None:
    model, other = (
        load_model(architectures.build(name)),
        load_model(architectures.build(name, seed=1)),
    )
    assert not torch.equal(model(TOKENS), other(TOKENS))
    path = save_weights(model, tmp_path / "weights.safetensors")
    model.name, other.name = "the one", "the other"
    load_weights(other, save_weights(model, path))
    assert torch.equal(model(TOKENS), other(TOKENS))
    assert other.name == "the one"  # whose weights these are
    assert {file.name for file in tmp_path.iterdir()} == {path.name, f"{path.name}.sha256"}


def test_damaged_saved_weights_are_refused(tmp_path: Path) -> None:
    model = load_model(architectures.build("GPT-2"))
    path = save_weights(model, tmp_path / "weights.safetensors")
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:1000], whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match="truncated or altered"):
            load_weights(model, path)
    path.with_name(f"{path.name}.sha256").unlink()
    with pytest.raises(CorruptFileError, match="expected weights .* and their checksum"):
        load_weights(model, path)
    with pytest.raises(CorruptFileError, match="save them with save_weights"):
        load_weights(model, tmp_path / "nowhere.safetensors")


SMALL_LLAMA = {"vocab_size": 97, "hidden_size": 16, "intermediate_size": 24}
SMALL_LLAMA |= {"num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.mark.parametrize(
    ("kind", "stored", "stated", "message"),
    [
        (
            "LlamaForCausalLM",
            {},
            {"num_hidden_layers": 1},
            r"hold 'model.layers.1.* \(9 such in",
        ),
        ("LlamaForCausalLM", {}, {"num_hidden_layers": 3}, "lack 'model.layers.2.* random numbers"),
        ("LlamaForCausalLM", {"mlp_bias": True}, {"mlp_bias": False}, "hold 'model.*_proj.bias'"),
        ("LlamaForCausalLM", {}, {"attention_bias": True}, "lack 'model.layers.0.*k_proj.bias'"),
        ("LlamaModel", {}, {}, "lack 'lm_head.weight'"),
        ("LlamaForSequenceClassification", {}, {}, "lack 'lm_head.weight'"),
    ],
)
def test_a_decoder_whose_weights_are_not_its_configs_is_refused(
    tmp_path: Path, kind: str, stored: dict[str, Any], stated: dict[str, Any], message: str
) -> None:
    config = transformers.LlamaConfig(**SMALL_LLAMA, **stored)
    getattr(transformers, kind)(config).save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**said, **stated}))
    with pytest.raises(CorruptFileError, match=message):
        load_model(tmp_path, tokenizer=byte_level_tokenizer(97))


def test_masks_that_older_checkpoints_hold_are_no_weights(tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=97, n_positions=9)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    old = {"attn.bias": torch.ones(1, 1, 9, 9), "attn.masked_bias": torch.tensor(-1e4)}
    old = {
        f"transformer.h.{layer}.{name}": one.clone()
        for layer in (0, 1)
        for name, one in old.items()
    }
    save_file({**load_file(file), **old}, file, metadata={"format": "pt"})
    assert load_model(tmp_path, tokenizer=byte_level_tokenizer(97)).n_layers == 2


def test_weights_that_transformer_lens_has_folded_are_no_weights_of_the_model() -> None:
    bridge = bridge_around(architectures.build("GPT-2"))
    bridge.enable_compatibility_mode(disable_warnings=True)
    with pytest.raises(CapabilityError, match="were folded and centred by enable_compatibility"):
        load_model(bridge)
