"""GGUF files, written here byte by byte, against the numbers that the format says they hold."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    InterpComposeError,
    MissingPackageError,
    OptionError,
)
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.models.load import load_model
from interp_compose.models.save_pretrained import save_pretrained

KINDS = {"q_proj": "Q4_1", "down_proj": "Q4_0", "embed_tokens": "Q8_0"}
"""Of weights with these names; all others are float32."""
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
TEXT = "a young dog"


def quantised(weight: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of 32 numbers as the format has them, and what they stand for, in float64."""
    blocks = weight.astype(np.float64).reshape(-1, 32)
    low, high = blocks.min(1, keepdims=True), blocks.max(1, keepdims=True)
    largest = np.abs(blocks).max(1, keepdims=True)
    if kind == "Q8_0":  # d · q, with q from −127 to 127
        d, m = (largest / 127).astype(np.float16), None
        q = np.round(blocks / d).clip(-127, 127)
        packed = q.astype(np.int8).view(np.uint8)
        value = d.astype(np.float64) * q
    else:
        if kind == "Q4_1":  # d · q + m, with q from 0 to 15
            d, m = ((high - low) / 15).astype(np.float16), low.astype(np.float16)
            q = np.round((blocks - m) / d).clip(0, 15)
            value = d.astype(np.float64) * q + m.astype(np.float64)
        else:  # Q4_0: d · (q − 8)
            d, m = (largest / 7).astype(np.float16), None
            q = (np.round(blocks / d) + 8).clip(0, 15)
            value = d.astype(np.float64) * (q - 8)
        q = q.astype(np.uint8)
        packed = q[:, :16] | (q[:, 16:] << 4)  # the first half of a block in the low four bits
    heads = [d.view(np.uint8)] + ([] if m is None else [m.view(np.uint8)])
    data = np.concatenate([*heads, packed], axis=1)
    return data.reshape(len(weight), -1), value.reshape(weight.shape)


def interleaved(weight: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows of queries and keys as the format orders them: halves of a head one by one."""
    return weight.reshape(n_heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def vocabulary() -> list[str]:
    """Every byte as GPT-2 writes it, and a few words."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return [*bytes_to_unicode().values(), "do", "dog", "Ġa", "<s>", "</s>"]


@pytest.fixture(scope="module")
def reference() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def write(model: LlamaForCausalLM, path: Path, architecture: str = "llama") -> None:
    """Write the file, and give ``model`` the numbers that stand in it."""
    config: Any = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary())
    writer.add_token_merges(["d o", "do g", "Ġ a"])
    writer.add_bos_token_id(config.vocab_size - 2)
    writer.add_eos_token_id(config.vocab_size - 1)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in model.named_parameters():
        layer, _, part = name.removeprefix("model.layers.").removesuffix(".weight").partition(".")
        of_layer = name.startswith("model.layers.")
        known = f"blk.{layer}.{NAMES[part]}" if of_layer else NAMES[name.removesuffix(".weight")]
        own = name.split(".")[-2]
        data = weight.detach().numpy()
        kind = KINDS.get(own)
        if kind is None:
            stored, value, raw = data, data, None
        else:
            stored, value = quantised(data, kind)
            raw = gguf.GGMLQuantizationType[kind]
        if own in heads:
            stored = interleaved(stored, heads[own])
        writer.add_tensor(f"{known}.weight", stored, raw_dtype=raw)
        weight.data = torch.from_numpy(np.asarray(value, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def file(reference: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.Q4_1.gguf"
    write(reference, path)
    return path


@torch.no_grad()
def test_it_computes_what_its_numbers_say(
    reference: LlamaForCausalLM, file: Path, tmp_path: Path
) -> None:
    for source in (file, str(file), file.parent):
        model = load_model(source)
        assert model.name == "tiny.Q4_1"
        tokens = model.tokenize(TEXT).tokens
        pieces = model.tokenizer.convert_ids_to_tokens(tokens[0])
        assert pieces == ["a", "Ġ", "y", "o", "u", "n", "g", "Ġ", "dog"]
        torch.testing.assert_close(model(tokens), reference(tokens).logits, rtol=1e-5, atol=1e-6)
    assert model.capabilities.probes["forward"].held
    with mask_residual(model, positions=[2], layers=[0]):
        assert not torch.equal(model(tokens), reference(tokens).logits)
    for shown in (repr(model), model._repr_html_()):
        assert "dequantised from " in shown
        assert all(kind in shown for kind in KINDS.values())
        assert "F32" not in shown
    save_pretrained(model, tmp_path / "saved")
    again = load_model(tmp_path / "saved")
    assert torch.equal(again(tokens), model(tokens))
    assert "dequantised" not in repr(again)
    assert load_model(file, dtype="bfloat16").dtype == torch.bfloat16
    assert load_model(file, name="mine").name == "mine"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def cut_in_its_header(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:300])


def of_another_kind(file: Path) -> None:
    file.write_bytes(b"no GGUF" + file.read_bytes()[7:])


def of_an_unknown_type(file: Path) -> None:
    data = file.read_bytes()
    at = data.index(b"blk.0.attn_q.weight") + len("blk.0.attn_q.weight") + 4 + 2 * 8
    file.write_bytes(data[:at] + (200).to_bytes(4, "little") + data[at + 4 :])


def of_a_type_without_formula(file: Path) -> None:
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_tensor(
        "token_embd.weight",
        np.zeros((4, 292), np.uint8),
        raw_dtype=gguf.GGMLQuantizationType.Q8_K,
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def of_another_architecture(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"llama", b"clipp"))


def without_a_matrix(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"blk.1.attn_v.weight", b"blk.1.attn_w.weight"))


BAD: dict[Any, tuple[type[InterpComposeError], str]] = {
    cut: (CorruptFileError, "is no whole GGUF file .*get it again"),
    cut_in_its_header: (CorruptFileError, "is no whole GGUF file"),
    of_another_kind: (CorruptFileError, "is no whole GGUF file .*magic"),
    of_an_unknown_type: (
        CapabilityError,
        r"200\)? is not a valid GGMLQuantizationType.*upgrade gguf",
    ),
    of_a_type_without_formula: (CapabilityError, "'token_embd.weight' in .* of the kind Q8_K"),
    of_another_architecture: (CapabilityError, "cannot read the architecture 'clipp'"),
    without_a_matrix: (CorruptFileError, r"lack 'model.layers.1.self_attn.v_proj.weight'"),
    Path.unlink: (OptionError, "there is no such file"),
}


@pytest.mark.parametrize("damage", BAD, ids=lambda damage: damage.__name__)
def test_what_cannot_be_read_is_refused_by_name(damage: Any, file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model.gguf"
    shutil.copy(file, copy)
    damage(copy)
    kind, message = BAD[damage]
    with pytest.raises(kind, match=message):
        load_model(copy)


def test_what_is_not_of_files_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OptionError, match="of the hub"):
        load_model(file, revision="main")
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(file, tmp_path / name)
    with pytest.raises(OptionError, match=r"several GGUF files \(a.gguf, b.gguf\); name one"):
        load_model(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(MissingPackageError, match=r"pip install \"interp-compose\[gguf\]\""):
        load_model(file)
