"""Models go back to Hugging Face's format as they are now, and what cannot is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from interp_compose.errors import CapabilityError, CorruptFileError, InterventionError, OptionError
from interp_compose.models.copying import copy_model
from interp_compose.models.embed import embed_texts
from interp_compose.models.load import load_model
from interp_compose.models.save_pretrained import save_pretrained
from interp_compose.papers.complexity.models.small_decoder import small_decoder
from interp_compose.papers.shared.models.decoder import DecoderConfig
from tests import architectures
from tests.models.test_load import byte_level_tokenizer
from tests.models.test_load_encoder import bert, saved

TOKENS = torch.tensor([[5, 17, 3, 60, 9, 31]])
TARGET = torch.tensor([[0, 11, 4]])


def outputs(module: Any) -> torch.Tensor:
    """By Hugging Face's own forward pass."""
    if module.config.is_encoder_decoder:
        return module(TOKENS, decoder_input_ids=TARGET).logits  # type: ignore[no-any-return]
    out = module(TOKENS)
    return out.logits if hasattr(out, "logits") else out.last_hidden_state  # type: ignore[no-any-return]


def step(weights: Any, logits: torch.Tensor) -> None:
    """One step of gradient descent on a loss of all logits."""
    loss = logits.log_softmax(-1)[..., 7].mean()
    weights = [weight for weight in weights if weight.requires_grad]
    for weight, slope in zip(
        weights, torch.autograd.grad(loss, weights, allow_unused=True), strict=True
    ):
        if slope is not None:
            weight.data -= slope


@pytest.mark.tl3
def test_a_model_has_the_weights_of_its_class_alone(tmp_path: Path) -> None:
    module = architectures.build("Llama")
    own = {name for name, _ in module.named_parameters()}
    model = load_model(module)
    names = {name.replace("_original_component.", "") for name, _ in module.named_parameters()}
    assert names == own  # an added bias would be trained
    assert (tmp_path / "new") == save_pretrained(model, tmp_path / "new")


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma", "Qwen2", "Phi-3", "BERT", "T5"])
def test_weights_as_loaded_and_as_trained(name: str, tmp_path: Path) -> None:
    """The reference is trained by Hugging Face's forward pass, never wrapped."""
    module = architectures.build(name)
    reference = copy.deepcopy(module)
    model = load_model(module)
    kept = save_pretrained(model, tmp_path / "kept")
    with torch.no_grad():
        assert torch.equal(outputs(type(reference).from_pretrained(kept)), outputs(reference))

    step(reference.parameters(), outputs(reference))
    if len(model.stacks) == 1:
        model = copy_model(model)  # whose fused projections no longer share memory with their parts
        step(model.parameters(), model(TOKENS))
    else:
        tokens, mask = model.join(TOKENS, TARGET)  # type: ignore[attr-defined]
        step(model.parameters(), model(tokens, attention_mask=mask)[:, -TARGET.shape[1] :])
    trained = type(reference).from_pretrained(save_pretrained(model, tmp_path / "trained"))
    before = type(reference).from_pretrained(kept).state_dict()
    expected, moved = reference.state_dict(), 0
    for weight, value in trained.state_dict().items():
        torch.testing.assert_close(value, expected[weight], atol=2e-5, rtol=1e-4)
        moved += not torch.allclose(value, before[weight], atol=1e-3)
    assert moved > len(expected) // 2
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_an_encoder_without_a_head_and_what_its_folder_states(tmp_path: Path) -> None:
    source = saved(tmp_path / "source", bert())
    (source / "modules.json").write_text(
        '[{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"},'
        ' {"type": "x.Normalize", "path": "2_Normalize"}]'
    )
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (source / "sentence_bert_config.json").write_text('{"max_seq_length": 11}')
    model = load_model(source)
    folder = save_pretrained(model, tmp_path / "again")
    again = load_model(folder)
    assert again.stated == model.stated
    assert again.stated is not None
    assert (again.stated.normalise, again.n_ctx) == (True, 11)
    texts = ["a young cat", "the shore"]
    assert torch.equal(embed_texts(again, texts), embed_texts(model, texts))
    with torch.no_grad():
        theirs = hf.AutoModel.from_pretrained(folder, add_pooling_layer=False)
        assert torch.equal(outputs(theirs), outputs(bert()))
    read, own = hf.AutoTokenizer.from_pretrained(folder), model.tokenizer
    assert [read(text).input_ids for text in texts] == [own(text).input_ids for text in texts]


def test_a_fused_weight_that_is_out_of_date_is_not_saved(tmp_path: Path) -> None:
    model = copy_model(architectures.load("GPT-2"))
    fused = model.lens.original_model.transformer.h[1].attn.qkv.weight
    with torch.no_grad():
        model.lens.blocks[1].attn.q.original_component.weight[2, 3] = 9.0
        fused.fill_(float("nan"))
    folder = save_pretrained(model, tmp_path / "new")
    attention = hf.GPT2LMHeadModel.from_pretrained(folder).transformer.h[1].attn
    assert attention.c_attn.weight[3, 2] == 9.0
    assert bool(attention.c_attn.weight.isfinite().all())


def test_a_flipped_bit_is_found_and_the_list_disturbs_nobody(tmp_path: Path) -> None:
    own = byte_level_tokenizer(architectures.D_VOCAB)
    folder = save_pretrained(load_model(architectures.build("GPT-2")), tmp_path / "here")
    assert "model.safetensors" in (folder / "SHA256SUMS").read_text()
    hf.AutoModelForCausalLM.from_pretrained(folder).save_pretrained(tmp_path / "there")
    load_model(str(folder), tokenizer=own)
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 16
    weights.write_bytes(data)
    with pytest.raises(CorruptFileError, match="model.safetensors was truncated or altered"):
        load_model(str(folder), tokenizer=own)


def test_what_cannot_be_saved_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    shape = DecoderConfig(d_vocab=11, n_ctx=5, n_layers=1, d_model=8, n_heads=2, d_mlp=8)
    with pytest.raises(CapabilityError, match=r"no class in .*save_model\(model, folder\)"):
        save_pretrained(small_decoder(shape, init_rate=0.5, seed=0), tmp_path / "new")
    with pytest.raises(CapabilityError, match=r"holds no Hugging Face model.*save_weights"):
        save_pretrained(architectures.load("native"), tmp_path / "new")
    model = architectures.load("GPT-2")
    with model.hooks([("blocks.0.hook_out", lambda x, hook: x)]):
        model(TOKENS)
        with pytest.raises(InterventionError, match="would not be saved"):
            save_pretrained(model, tmp_path / "new")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(OptionError, match="exists and is not empty"):
        save_pretrained(model, tmp_path / "full")
    model.tokenizer = object()
    with pytest.raises(OptionError, match="which has no save_pretrained"):
        save_pretrained(model, tmp_path / "new")
    model.tokenizer = None
    with torch.no_grad():
        model.lens.original_model.lm_head.bias[3] = 1.0  # TransformerLens' own, zeros otherwise
    with pytest.raises(CapabilityError, match="read again, it gives other numbers"):
        save_pretrained(model, tmp_path / "new")
    model.lens.original_model.lm_head.weight = torch.nn.Parameter(
        model.lens.original_model.lm_head.weight * 2
    )
    with pytest.raises(CapabilityError, match="differ, and its config ties them"):
        save_pretrained(model, tmp_path / "new")
    model.lens.original_model.extra = torch.nn.Linear(2, 2)
    with pytest.raises(CapabilityError, match="'extra.weight' has no place there"):
        save_pretrained(model, tmp_path / "new")
    assert [file.name for file in tmp_path.iterdir()] == ["full"]
