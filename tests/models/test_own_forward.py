"""What is loaded computes what the module itself did, or is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from interp_compose.errors import CapabilityError, PromptError, first_line
from interp_compose.models import own_forward
from interp_compose.models.bridge import bridge_around
from interp_compose.models.load import load_model
from interp_compose.models.own_forward import OwnForward
from interp_compose.models.rotary import LengthLimit
from tests import architectures
from tests.models.test_load import byte_level_tokenizer

FALCON = {
    **{k: v for k, v in architectures._SHAPE.items() if k != "intermediate_size"},
    "ffn_hidden_size": 53,
}
OWN = "gives other numbers than its own forward pass in transformers"
MASK = torch.tensor([[0] * 16 + [1] * 8, [1] * 24])


def falcon(**options: Any) -> Any:
    torch.manual_seed(0)
    return hf.FalconForCausalLM(hf.FalconConfig(**FALCON, **options)).eval()


def gpt2(**options: Any) -> Any:
    torch.manual_seed(0)
    return hf.GPT2LMHeadModel(hf.GPT2Config(**{**architectures._GPT2, **options})).eval()


MISCOMPUTED = {
    "GPT-2, scores not scaled": lambda: gpt2(scale_attn_weights=False),
    "Falcon with ALiBi": lambda: falcon(alibi=True, multi_query=False, bias=True),
    "Falcon, grouped keys": lambda: falcon(
        num_kv_heads=2, multi_query=False, new_decoder_architecture=True, bias=False
    ),
}


@pytest.mark.parametrize("name", MISCOMPUTED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_transformer_lens_computes_in_another_way_is_refused(
    name: str, dtype: torch.dtype
) -> None:
    with pytest.raises(CapabilityError, match=OWN) as refusal:
        load_model(MISCOMPUTED[name]().to(dtype))
    assert len(str(refusal.value)) <= 500


def test_a_folder_is_refused_as_its_object_is(tmp_path: Path) -> None:
    gpt2(scale_attn_weights=False).save_pretrained(tmp_path)
    tokenizer = byte_level_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    for options in ({}, {"tokenizer": tokenizer}):
        with pytest.raises(CapabilityError, match=OWN):
            load_model(tmp_path, **options)


@pytest.mark.parametrize("name", MISCOMPUTED)
def test_a_bridge_that_came_wrapped_is_held_to_its_settings(name: str) -> None:
    with pytest.raises(CapabilityError, match=OWN):
        load_model(bridge_around(MISCOMPUTED[name]()))


@pytest.mark.parametrize("name", ["Gemma 2", "OPT", "native"])
def test_bridges_load(name: str) -> None:
    native = name == "native"
    bridge = architectures.build_native() if native else bridge_around(architectures.build(name))
    assert load_model(bridge).lens is bridge


class AddedProjection(nn.Module):
    """What an adapter does to a projection, without peft."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.base_layer = own
        self.weight, self.bias, self.nf = own.weight, own.bias, own.nf
        self.added = nn.Linear(own.weight.shape[0], own.nf)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base_layer(x) + self.added(x)
        return out


AddedProjection.__module__ = "peft.tuners.lora.layer"


def test_an_adapter_that_is_left_out_is_refused() -> None:
    model = gpt2()
    model.transformer.h[1].attn.c_attn = AddedProjection(model.transformer.h[1].attn.c_attn)
    with pytest.raises(CapabilityError, match=r"holds adapters \(peft.*merge_and_unload"):
        load_model(model)


def test_a_new_adapter_that_would_be_left_out_is_refused() -> None:
    """It adds nothing yet, so that outputs agree until it has been trained, in vain."""
    model = gpt2()
    adapted = AddedProjection(model.transformer.h[1].attn.c_attn)
    for weight in adapted.added.parameters():
        nn.init.zeros_(weight)
    model.transformer.h[1].attn.c_attn = adapted
    with pytest.raises(CapabilityError, match=r"holds adapters \(peft.*merge_and_unload"):
        load_model(model)
    assert all(not weight.any() for weight in adapted.added.parameters())


def test_an_adapter_that_acts_loads_with_its_own_weights() -> None:
    model = gpt2()
    adapted = AddedProjection(model.transformer.h[1].mlp.c_fc)
    before = [weight.clone() for weight in adapted.added.parameters()]
    model.transformer.h[1].mlp.c_fc = adapted
    loaded = load_model(model)
    assert all(map(torch.equal, adapted.added.parameters(), before))
    tokens = torch.arange(5)[None]
    clean = loaded(tokens)
    nn.init.ones_(adapted.added.bias)
    assert not torch.allclose(loaded(tokens), clean)


def test_a_forward_pass_that_fails_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gpt2()

    def fails(*args: object, **kwargs: object) -> None:
        raise KeyError(1)

    monkeypatch.setattr(model, "forward", fails)
    with pytest.raises(CapabilityError, match=r"forward pass of this GPT2LMHeadModel fails"):
        load_model(model)


def test_adapters_around_a_model_are_refused() -> None:
    class PeftModel(nn.Module):
        config = architectures.build("GPT-2").config

        def merge_and_unload(self) -> None: ...

    with pytest.raises(CapabilityError, match=r"PeftModel holds adapters .*merge_and_unload\(\)"):
        load_model(PeftModel())


def test_a_hook_that_wrapping_loses_is_refused() -> None:
    model = gpt2()
    model.transformer.ln_f.register_forward_hook(lambda module, args, out: out * 1.5)
    with pytest.raises(CapabilityError, match="Your own forward hooks"):
        load_model(model)


@torch.no_grad()
@pytest.mark.parametrize("name", ["GPT-2", "BLOOM", "RoBERTa"])
def test_every_text_is_compared_alone_with_both_paddings(name: str) -> None:
    """Float64 sums over the logits of the module itself, text by text."""
    module = architectures.build(name)
    own = OwnForward.of(module)
    assert [len(text) for text in own.texts] == [2, 5, 7]
    for text, output in zip(own.texts, own.outputs, strict=True):
        assert torch.equal(module(text[None]).logits[0], output)
    model = load_model(module)
    own.check(model, load_model)
    model.parameters().__next__().add_(0.3 * torch.randn(model.parameters().__next__().shape))
    with pytest.raises(CapabilityError, match=OWN):
        own.check(model, load_model)


def test_training_mode_comes_back() -> None:
    module = gpt2().train()
    assert load_model(module).training


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: architectures.build("BART, asymmetric"),
            "wrap a BartForConditionalGeneration .*only supports symmetric configs",
        ),
        (
            lambda: hf.MambaForCausalLM(
                hf.MambaConfig(vocab_size=97, hidden_size=40, num_hidden_layers=2, state_size=8)
            ),
            "MambaForCausalLM cannot be loaded: every block needs attention",
        ),
        (
            lambda: hf.FalconForCausalLM(
                hf.FalconConfig(
                    **FALCON, num_kv_heads=2, new_decoder_architecture=True, multi_query=True
                )
            ),
            "TransformerLens does not know how to wrap|" + OWN,
        ),
    ],
)
def test_what_has_no_blocks_of_attention_is_refused(build: Any, message: str) -> None:
    with pytest.raises(CapabilityError, match=message):
        load_model(build().eval())


def test_errors_of_other_packages_are_named_by_their_first_line_or_their_kind() -> None:
    assert first_line(ValueError("\n a shape \nand a long list")) == "a shape "
    assert first_line(RuntimeError()) == "RuntimeError"
    assert first_line(RuntimeError("x" * 200)) == "x" * 160


# ---- neighbours ---------------------------------------------------------------------------


def phi3(context: int = 16) -> Any:
    torch.manual_seed(0)
    rope = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": [1.0] * 5,
        "long_factor": [4.0] * 5,
        "original_max_position_embeddings": context,
    }
    shape = {**architectures._GQA, "max_position_embeddings": 61}
    config = hf.Phi3Config(**shape, original_max_position_embeddings=context, rope_parameters=rope)
    return hf.Phi3ForCausalLM(config).eval()


def dynamic_llama() -> Any:
    torch.manual_seed(0)
    rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
    shape = {**architectures._GQA, "max_position_embeddings": 16}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**shape, rope_parameters=rope)).eval()


@torch.no_grad()
def test_a_prompt_does_not_depend_on_its_neighbours() -> None:
    module = phi3()
    tokens = torch.randint(3, 97, (2, 24), generator=torch.Generator().manual_seed(1))
    alone = [module(tokens[:1, 16:]).logits, module(tokens[1:]).logits]
    model = load_model(module)
    assert model.length_limit == LengthLimit(16, "longrope")
    with pytest.raises(PromptError, match=r"24 tokens is beyond 16.*of 8 tokens.*batch_size=1"):
        model(tokens, attention_mask=MASK)
    torch.testing.assert_close(model(tokens[:1, 16:]), alone[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(model(tokens[1:]), alone[1], atol=1e-4, rtol=1e-4)
    model(tokens)  # both beyond
    model(tokens[:, 16:])  # neither


@torch.no_grad()
def test_angles_that_depend_on_what_was_read_before_are_refused() -> None:
    model = load_model(dynamic_llama())
    assert model.length_limit == LengthLimit(16, "dynamic")
    tokens = torch.randint(3, 97, (1, 24), generator=torch.Generator().manual_seed(1))
    with pytest.raises(PromptError, match="depend on the longest text read so far"):
        model(tokens)
    model(tokens[:, :16])


@pytest.mark.parametrize("name", ["Llama", "Gemma 3", "Phi-3", "GPT-2", "BERT"])
def test_other_angles_depend_on_nothing(name: str) -> None:
    assert load_model(architectures.build(name)).length_limit is None


# ---- float64 ------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BLOOM", "OPT"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_padding_in_float64_is_right_or_refused(name: str, when: str) -> None:
    module = architectures.build(name)
    model = load_model(module.double() if when == "before" else module)
    model.lens.double()
    tokens = torch.randint(3, 97, (1, 5), generator=torch.Generator().manual_seed(1))
    alone = model(tokens)
    assert bool(alone.isfinite().all())
    padded, mask = torch.zeros(1, 7, dtype=torch.long), torch.tensor([[0, 0, 1, 1, 1, 1, 1]])
    padded[:, 2:] = tokens
    if name == "GPT-2":
        found = model(padded, attention_mask=mask)[:, 2:]
        torch.testing.assert_close(found, alone, atol=1e-6, rtol=1e-6)
        return
    with pytest.raises(CapabilityError, match="in float64 makes NaN of batches padded on the left"):
        model(padded, attention_mask=mask)


# ---- rounding, and weights that are not there ----------------------------------------------------


def deep_llama(std: float = 0.3, layers: int = 32) -> Any:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    config = hf.LlamaConfig(
        vocab_size=97, num_hidden_layers=layers, initializer_range=std, **shape,
        max_position_embeddings=64,
    )  # fmt: skip
    return hf.LlamaForCausalLM(config).eval()


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_that_differ_by_rounding_are_loaded(dtype: torch.dtype) -> None:
    module = deep_llama().to(dtype)
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    reference, model = OwnForward.of(module), load_model(module)
    errors = [
        own_forward._relative_error(output[-len(expected) :], expected)
        for _, outputs in reference._calls(model)
        for output, expected in zip(outputs, reference.outputs, strict=True)
    ]
    assert max(errors) > own_forward.TOLERANCE.get(dtype, own_forward.DEFAULT_TOLERANCE)
    kept = {id(tensor): tensor.dtype for tensor in [*module.parameters(), *module.buffers()]}
    assert {*kept.values()} <= {dtype, torch.float32}
    assert model.dtype == dtype
    for name, weight in model.lens.original_model.state_dict().items():
        if name in before:
            assert torch.equal(weight, before[name])


def test_what_is_altered_is_no_rounding() -> None:
    module = deep_llama().to(torch.bfloat16)
    reference, model = OwnForward.of(module), load_model(module)
    with torch.no_grad():
        next(module.model.layers[3].mlp.down_proj.parameters()).mul_(1.5)
    with pytest.raises(CapabilityError, match="computes this configuration in another way"):
        reference.check(model, load_model)


def test_numbers_that_are_nearly_all_rounding_are_refused_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_forward, "MOST_ROUNDED", 0.05)
    with pytest.raises(
        CapabilityError, match=r"rounding for the most part, .*Load it in float32"
    ) as refusal:
        load_model(deep_llama().to(torch.bfloat16))
    assert len(str(refusal.value)) <= 500


def offloaded(module: Any) -> Any:
    accelerate = pytest.importorskip("accelerate")
    return accelerate.cpu_offload(module, execution_device=torch.device("cpu"))


@pytest.mark.parametrize("move", [offloaded, lambda module: module.to("meta")])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT", "T5"])
def test_weights_that_are_not_in_memory(name: str, move: Any) -> None:
    module = {"T5": tiny_t5}.get(name, lambda: architectures.build(name))()
    with pytest.raises(CapabilityError, match=r"weights of this .*, such as '.*', are not in mem"):
        load_model(move(module))


def tiny_t5() -> Any:
    shape = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2}
    return hf.T5ForConditionalGeneration(
        hf.T5Config(vocab_size=11, decoder_start_token_id=0, **shape)
    ).eval()


def test_a_model_in_part_on_the_meta_device() -> None:
    module = deep_llama(layers=2)
    module.model.layers[1].to("meta")
    with pytest.raises(CapabilityError, match=r"9 weights of this Llama.* 'model.layers.1"):
        load_model(module)
