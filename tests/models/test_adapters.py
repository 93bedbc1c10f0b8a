"""What a loaded model promises, whichever adapter is behind it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

import interp_compose as ic
from interp_compose.errors import CapabilityError, InputError, LayerError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.models.weight_matrices import left_out, weight_matrices
from interp_compose.tensors import positions_from_mask
from tests.architectures import D_VOCAB, N_CTX, N_LAYERS, build, needs_tl4
from tests.interventions.shared import params, shared

pytestmark = pytest.mark.tl3

TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])
RESID_PRE = [f"blocks.{k}.hook_resid_pre" for k in range(N_LAYERS)]
PADDING = {
    "none": [(0, 0), (0, 0)],
    "left": [(3, 0), (3, 0)],
    "right": [(0, 3), (0, 3)],
    "both": [(3, 0), (1, 2)],
}
"""How many positions of padding are before and after each row."""


ADAPTERS = ("GPT-2", "Gemma 2", "native", "BERT", "RoBERTa", "small, pre", "small, post")


@pytest.fixture(scope="module", params=params(*ADAPTERS, "HookedTransformer"))
def model(request: pytest.FixtureRequest) -> LensModel:
    return shared(request.param)


def padded(sides: str, seed: int = 1) -> tuple[Tensor, Tensor]:
    """TOKENS among padding of random ids, and the mask."""
    width = 7 + sum(PADDING[sides][0])
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, D_VOCAB, (2, width), generator=generator)
    mask = torch.zeros_like(tokens)
    for row, (before, after) in enumerate(PADDING[sides]):
        columns = slice(before, width - after)
        tokens[row, columns], mask[row, columns] = TOKENS[row], 1
    return tokens, mask


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sides", ["left", "right", "both"])
@torch.no_grad()
def test_padding_changes_nothing_and_its_ids_not_a_bit(model: LensModel, sides: str) -> None:
    (tokens, mask), (others, _) = padded(sides), padded(sides, seed=2)
    real = mask.bool()
    for read in ("logits", "hidden"):
        alone = model.forward(TOKENS, read=read)
        found = model.forward(tokens, attention_mask=mask, read=read)[real]
        close(found.view_as(alone), alone)
        assert torch.equal(model.forward(others, attention_mask=mask, read=read)[real], found)


@torch.no_grad()
def test_what_a_call_reads(model: LensModel) -> None:
    logits, hidden = model(TOKENS), model.encode(TOKENS)
    assert logits.shape == (2, 7, D_VOCAB)
    assert hidden.shape == (2, 7, model.d_model)
    close(model.forward(TOKENS, read="last"), logits[:, -1:])
    close(model.plain(TOKENS), logits)
    close(model.plain_hidden(TOKENS), hidden)
    name = f"blocks.{N_LAYERS - 1}.hook_resid_post"
    _, found = model.capture(TOKENS, [name])
    close(model.unembed(found[name]), logits)


@pytest.mark.parametrize("sides", PADDING)
@torch.no_grad()
def test_every_chain_of_blocks_is_the_full_pass_bit_for_bit(model: LensModel, sides: str) -> None:
    tokens, mask = padded(sides)
    real, given = mask.bool(), {"attention_mask": mask, "position_ids": positions_from_mask(mask)}
    hidden, resid = model.capture(tokens, RESID_PRE, attention_mask=mask, read="hidden")
    logits = model(tokens, attention_mask=mask)
    for layer in range(N_LAYERS):
        entering = resid[RESID_PRE[layer]]
        found = model.resid_pre(tokens, layer, attention_mask=mask)
        assert torch.equal(found[real], entering[real])
        found = model.resume(entering, layer, **given, read="hidden")
        assert torch.equal(found[real], hidden[real])
        again = model.resume(entering, layer, **given, read="logits")
        close(again[real], logits[real])
        close(model.resume(entering, layer, **given), again[:, -1:])
        for stop in range(layer + 1, N_LAYERS):
            found = model.run_blocks(entering, layer, stop, **given)
            assert torch.equal(found[real], resid[RESID_PRE[stop]][real])


@pytest.mark.parametrize("layer", range(N_LAYERS))
@torch.no_grad()
def test_a_hook_acts_once_along_a_chain(model: LensModel, layer: int) -> None:
    calls: list[str] = []
    noise = torch.randn(2, 7, model.d_model, generator=torch.Generator().manual_seed(5))

    def disturb(resid: Tensor, hook: Any) -> Tensor:
        return resid + noise

    hooks: Any = [(RESID_PRE[layer], disturb)]
    hooks += [(name, lambda resid, hook, name=name: calls.append(name)) for name in RESID_PRE]
    clean = model.encode(TOKENS)
    expected = model.run_with_hooks(TOKENS, hooks, read="hidden")
    assert not torch.equal(expected, clean)
    mask = torch.ones_like(TOKENS)
    given = {"attention_mask": mask, "position_ids": positions_from_mask(mask)}
    for start in range(N_LAYERS):
        for stop in range(start, N_LAYERS):
            calls.clear()
            with model.hooks(hooks):
                resid = model.resid_pre(TOKENS, start, attention_mask=mask)
                if stop > start:
                    resid = model.run_blocks(resid, start, stop, **given)
                found = model.resume(resid, stop, **given, read="hidden")
            assert torch.equal(found, expected)
            assert calls == RESID_PRE
    assert torch.equal(model.encode(TOKENS), clean)


@torch.no_grad()
def test_identity_hooks_change_no_bit(model: LensModel) -> None:
    hooks: Any = [(name, lambda activation, hook: activation.clone()) for name in RESID_PRE]
    found = model.run_with_hooks(TOKENS, hooks, read="hidden")
    assert torch.equal(found, model.encode(TOKENS))


def test_captured_activations_carry_gradients_on_request(model: LensModel) -> None:
    hidden, seen = model.capture(TOKENS, RESID_PRE, grad=True, read="hidden")
    embedding = next(weight for weight in model.parameters() if weight.shape[0] == D_VOCAB)
    gradients = torch.autograd.grad(hidden[:, -1, 0].sum(), [*seen.values(), embedding])
    assert all(float(gradient.abs().sum()) > 0 for gradient in gradients)
    hidden, seen = model.capture(TOKENS, RESID_PRE, read="hidden")
    assert not any(tensor.requires_grad for tensor in (hidden, *seen.values()))


def test_weights_by_the_fields_names(model: LensModel) -> None:
    d_head = model.weight("W_Q").shape[-1]
    assert model.weight("W_E").shape == (D_VOCAB, model.d_model)
    assert model.weight("W_U").shape == (model.d_model, D_VOCAB)
    assert model.weight("W_Q").shape == (N_LAYERS, model.n_heads, model.d_model, d_head)
    assert model.weight("W_O").shape == (N_LAYERS, model.n_heads, d_head, model.d_model)
    assert model.weight("W_in").shape == (N_LAYERS, model.d_model, 53)
    with pytest.raises(OptionError, match="unknown weight 'W_quux'.*W_Q"):
        model.weight("W_quux")


@torch.no_grad()
def test_layers_count_from_the_end(model: LensModel) -> None:
    given = {"attention_mask": torch.ones_like(TOKENS), "position_ids": torch.arange(7)[None]}
    given["position_ids"] = given["position_ids"].expand_as(TOKENS)
    last = model.resid_pre(TOKENS, N_LAYERS - 1)
    assert torch.equal(model.resid_pre(TOKENS, -1), last)
    assert torch.equal(model.resume(last, -1, **given), model.resume(last, N_LAYERS - 1, **given))
    first = model.resid_pre(TOKENS, -N_LAYERS)
    assert torch.equal(model.run_blocks(first, -N_LAYERS, -1, **given), last)


def test_layers_outside_the_model_are_refused(model: LensModel) -> None:
    resid = torch.zeros(2, 7, model.d_model)
    mask = torch.ones_like(TOKENS)
    for layer in (-N_LAYERS - 1, N_LAYERS):
        outside = f"layer {layer} is outside the model: expected 0 … 2 .* -1 … -3 from the end"
        with pytest.raises(LayerError, match=outside):
            model.resume(resid, layer, attention_mask=mask, position_ids=mask)
        with pytest.raises(LayerError, match=outside):
            model.resid_pre(TOKENS, layer, attention_mask=mask)
    for start, stop in ((1, N_LAYERS), (1, 1), (-1, 1)):
        with pytest.raises(LayerError, match=f"from block {start} to block {stop}: .* at most 2"):
            model.run_blocks(resid, start, stop, attention_mask=mask, position_ids=mask)


def test_train_and_eval(model: LensModel) -> None:
    assert not model.training
    assert model.train().training
    assert not model.eval().training


# ---- adapters of peft, wrappers, reparametrisations ---------------------------------------------

IDS = torch.arange(10).view(2, 5)
ON = ["q_proj", "down_proj"]
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "LoRA": ("LoraConfig", {"target_modules": [*ON, "embed_tokens", "lm_head"], "r": 2}),
    "DoRA": ("LoraConfig", {"r": 2, "use_dora": True}),
    "IA3": ("IA3Config", {"feedforward_modules": ["down_proj"]}),
    "LoHa": ("LoHaConfig", {"r": 2}),
    "LoKr": ("LoKrConfig", {"r": 2}),
    "OFT": ("OFTConfig", {"oft_block_size": 2, "r": 0, "target_modules": ["q_proj"]}),
    "AdaLoRA": ("AdaLoraConfig", {"init_r": 2, "total_step": 5}),
    "modules_to_save": ("LoraConfig", {"r": 2, "modules_to_save": ["embed_tokens", "lm_head"]}),
    "a norm to save": ("LoraConfig", {"r": 2, "modules_to_save": ["norm"]}),
    "tokens": ("LoraConfig", {"r": 2, "trainable_token_indices": {"embed_tokens": [1, 4]}}),
    "norms": ("LNTuningConfig", {"target_modules": ["input_layernorm"]}),
}


of_peft = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


def peft() -> Any:
    return pytest.importorskip("peft")


def adapted(kind: str, name: str = "Llama", **options: Any) -> Any:
    """A Hugging Face model inside a PeftModel whose adapters are random numbers."""
    config, settings = CONFIGS.get(kind, (kind, {}))
    settings = {"target_modules": ON} | settings | options
    module = peft().get_peft_model(build(name), getattr(peft(), config)(**settings)).eval()
    with torch.no_grad():
        for weight in module.parameters():
            if weight.requires_grad:
                weight += 0.1 * torch.randn_like(weight)
    return module


def merged(model: LensModel) -> dict[tuple[int, str], Tensor]:
    return {(one.layer, one.name): one.weight for one in weight_matrices(model)}


@of_peft
@pytest.mark.parametrize("kind", CONFIGS)
@torch.no_grad()
def test_weights_are_those_of_the_merged_model(kind: str, tmp_path: Path) -> None:
    """Against peft's own merge in float64, by every way to read and write them."""
    tuned = adapted(kind)
    logits = tuned(IDS).logits
    plain = copy.deepcopy(tuned).double().merge_and_unload()
    model, expected = load_model(tuned.base_model.model), load_model(plain)
    found = merged(model)
    assert found.keys() == merged(expected).keys()
    for place, weight in merged(expected).items():
        torch.testing.assert_close(found[place].double(), weight, rtol=1e-5, atol=1e-6)
    for name in ("W_Q", "W_K", "W_O", "W_in", "W_out", "W_E", "W_U"):
        own, weight = model.weight(name), expected.weight(name)
        torch.testing.assert_close(own.double(), weight, rtol=1e-5, atol=1e-6)
    ranks = ic.complexity_report(model, heads=False, progress=False).frame["stable_rank"]
    plain_ranks = ic.complexity_report(expected, heads=False, progress=False).frame["stable_rank"]
    torch.testing.assert_close(
        torch.tensor(ranks), torch.tensor(plain_ranks), rtol=1e-3, atol=0, check_dtype=False
    )
    assert left_out(model) == ()
    with pytest.warns(UserWarning, match="merged into plain weights"):
        ic.save_pretrained(model, tmp_path / "saved")
    again = type(tuned.base_model.model).from_pretrained(tmp_path / "saved")
    close(again(IDS).logits, logits)
    close(model(IDS), logits)
    ic.save_weights(model, tmp_path / "weights")
    for weight in model.parameters():
        weight += 0.1
    ic.load_weights(model, tmp_path / "weights")
    close(model(IDS), logits)


@of_peft
@torch.no_grad()
def test_which_adapters_act_is_asked_at_each_reading() -> None:
    lora = peft().LoraConfig(target_modules=["q_proj"], r=2, init_lora_weights=False)
    module = build("Llama")
    for name in ("a", "b"):
        module.add_adapter(lora, name)
    model = load_model(module)
    part = model.lens.blocks[1].attn.q.original_component
    W, delta = part.base_layer.weight.clone(), {n: part.get_delta_weight(n) for n in ("a", "b")}
    digests = set()

    def check(expected: Tensor) -> None:
        close(merged(model)[1, "W_Q"], expected)
        close(model.weight("W_Q")[1].mT.flatten(0, 1), expected)
        digests.add(weights_digest(model))

    module.set_adapter("a")
    check(W + delta["a"])
    part.scale_layer(3.0)
    check(W + 3 * delta["a"])
    part.unscale_layer()
    module.set_adapter(["a", "b"])
    check(W + delta["a"] + delta["b"])
    part.merge()
    check(W + delta["a"] + delta["b"])
    part.unmerge()
    module.disable_adapters()
    check(W)
    assert merged(model)[1, "W_Q"].data_ptr() == part.base_layer.weight.data_ptr()
    assert len(digests) == 5
    assert model.weight("W_K").data_ptr() != 0


@of_peft
@torch.no_grad()
def test_adapters_of_layers_that_hold_their_weight_turned_and_of_biases() -> None:
    """GPT-2's Conv1D: of a square matrix the shape does not say how it lies."""
    options = {"target_modules": ["c_fc", "c_proj"], "fan_in_fan_out": True, "lora_bias": True}
    model = load_model(adapted("LoraConfig", "GPT-2", r=2, **options).base_model.model)
    mlp, attention = model.lens.blocks[1].mlp, model.lens.blocks[1].attn
    parts = {"in": getattr(mlp, "in"), "out": mlp.out, "O": attention.o}
    for name, holder in parts.items():
        part = holder.original_component
        weight = part.base_layer.weight + part.get_delta_weight("default")
        bias = part.base_layer.bias + part.scaling["default"] * part.lora_B["default"].bias
        close(merged(model)[1, f"W_{name}"].mT, weight)
        close(model.weight(f"W_{name}")[1].flatten(0, -2), weight)
        close(model.weight(f"b_{name}")[1], bias)


@of_peft
@needs_tl4
@torch.no_grad()
def test_adapters_around_layers_whose_forward_pass_was_written_anew(tmp_path: Path) -> None:
    """TransformerLens writes one into each linear layer of Falcon, which holds that layer."""
    tuned = adapted("LoraConfig", "Falcon", r=2, target_modules=["dense"]).base_model.model
    logits, model = tuned(IDS).logits, load_model(tuned)
    part = model.lens.blocks[1].attn.o.original_component
    weight = part.base_layer.weight + part.get_delta_weight("default")
    close(merged(model)[1, "W_O"], weight)
    close(model.weight("W_O")[1].flatten(0, 1).mT, weight)
    with pytest.warns(UserWarning, match="merged into plain weights"):
        ic.save_pretrained(model, tmp_path / "saved")
    close(type(tuned).from_pretrained(tmp_path / "saved")(IDS).logits, logits)


class Added(nn.Module):
    """LoRA by hand."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.A = nn.Parameter(torch.randn(base.in_features, 2))
        self.B = nn.Parameter(torch.randn(2, base.out_features))
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + self.added(x @ self.A)
        return out

    def added(self, inner: Tensor) -> Tensor:
        return inner @ self.B


class Bent(Added):
    def added(self, inner: Tensor) -> Tensor:
        return inner.tanh() @ self.B


class ByPosition(Added):
    def added(self, inner: Tensor) -> Tensor:
        return inner @ self.B * torch.arange(inner.shape[-2])[:, None]


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def doubled(linear: nn.Linear) -> nn.Module:
    linear.__class__ = Doubled
    return linear


def under(change: Callable[..., Any]) -> Callable[[nn.Linear], nn.Module]:
    def made(linear: nn.Linear) -> nn.Module:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of the older weight_norm
            change(linear)
        return linear

    return made


WRAPS: dict[str, Callable[[nn.Linear], nn.Module]] = {
    "by hand": Added,
    "by hand, on a reparametrisation": lambda one: Added(parametrizations.weight_norm(one)),
    "one layer after another": lambda one: nn.Sequential(
        nn.Linear(one.in_features, 7, bias=False), nn.Linear(7, one.out_features, bias=False)
    ),
    "a class of one's own": doubled,
    "weight_norm": under(parametrizations.weight_norm),
    "weight_norm, older": under(nn.utils.weight_norm),
    "spectral_norm, older": under(nn.utils.spectral_norm),
    "orthogonal": under(parametrizations.orthogonal),
    "pruned": under(partial(prune.l1_unstructured, name="weight", amount=0.4)),
}


@pytest.mark.parametrize(
    ("kind", "before"),
    [*((kind, True) for kind in WRAPS), ("by hand", False), ("weight_norm, older", False)],
)
@torch.no_grad()
def test_a_weight_is_what_its_module_does(kind: str, before: bool, tmp_path: Path) -> None:
    """Also when its parameters have moved since the last call, as after a step of training."""
    module = build("Llama")
    attention = module.model.layers[1].self_attn
    if before:
        attention.q_proj = WRAPS[kind](attention.q_proj)
    model = load_model(module)
    holder = model.lens.blocks[1].attn.q
    if not before:
        holder.set_original_component(WRAPS[kind](holder.original_component))
    stable = model.weight("W_K")
    for weight in holder.original_component.parameters():
        weight += 0.3 * torch.randn_like(weight)
    found, rows = merged(model)[1, "W_Q"], model.weight("W_Q")[1].mT.flatten(0, 1)
    expected = holder.original_component(torch.eye(model.d_model)[None])[0].mT
    close(found, expected)
    close(rows, expected)
    assert torch.equal(model.weight("W_K"), stable)
    assert left_out(model) == ()
    with pytest.warns(UserWarning, match="merged into plain weights"):
        ic.save_pretrained(model, tmp_path / "saved")
    close(type(module).from_pretrained(tmp_path / "saved")(IDS).logits, model(IDS))


@needs_tl4
@pytest.mark.parametrize(("dense", "others"), [([0], [1, 2]), ([1, 2], [0])])
def test_a_weight_that_some_layers_lack_is_no_stack(dense: list[int], others: list[int]) -> None:
    module = build("Qwen3-MoE")
    config = copy.deepcopy(module.config)
    config.mlp_only_layers = dense
    model = load_model(type(module)(config).eval())
    for name in ("W_in", "W_gate", "W_out"):
        layers = rf"'{name}' in layers {dense} and not in {others}".replace("[", r"\[")
        with pytest.raises(CapabilityError, match=layers):
            model.weight(name)
        assert [one.layer for one in weight_matrices(model, (name,))] == dense
    assert len(model.weight("W_Q")) == N_LAYERS


@pytest.mark.parametrize("kind", [Bent, ByPosition])
def test_what_is_no_matrix_is_refused_by_name(kind: type[Added], tmp_path: Path) -> None:
    model = load_model(build("Llama"))
    holder = model.lens.blocks[1].attn.q
    holder.set_original_component(kind(holder.original_component))
    refused = rf"model\.layers\.1\.self_attn\.q_proj, a .*{kind.__name__}, has no weight"
    for read in (
        lambda: model.weight("W_Q"),
        lambda: merged(model),
        lambda: ic.complexity_report(model, progress=False),
        lambda: ic.save_pretrained(model, tmp_path / "saved"),
    ):
        with pytest.raises(CapabilityError, match=refused) as raised:
            read()
        assert len(str(raised.value)) <= 500
    assert isinstance(holder.original_component, kind)
    assert model.weight("W_V").shape[0] == N_LAYERS


def test_a_hook_beside_a_weight_is_told() -> None:
    model = load_model(build("Llama"))
    holder, calls = model.lens.blocks[1].attn.q, []
    holder.original_component.register_forward_hook(lambda *call: calls.append(call))
    with pytest.warns(UserWarning, match=r"layers\.1\.self_attn\.q_proj has forward hooks"):
        model.weight("W_Q")
    assert calls == []
    model.weight("W_K")


@of_peft
def test_gradients_reach_the_adapter_through_a_weight() -> None:
    """∂(½‖W + s·BA‖²)/∂A = s·Bᵀ(W + s·BA)."""
    model = load_model(adapted("LoraConfig", r=2).base_model.model)
    part = model.lens.blocks[0].attn.q.original_component
    (0.5 * model.weight("W_Q")[0].square().sum()).backward()
    A, B = part.lora_A["default"].weight, part.lora_B["default"].weight
    scale, acts = part.scaling["default"], model.weight("W_Q")[0].mT.flatten(0, 1)
    close(A.grad, scale * B.mT @ acts)


@of_peft
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@torch.no_grad()
def test_weights_of_an_adapted_model_are_rounded_once(dtype: torch.dtype) -> None:
    model = load_model(adapted("LoraConfig", r=2).base_model.model)
    model.lens.to(dtype)
    part = model.lens.blocks[0].attn.q.original_component
    A, B = (getattr(part, f"lora_{name}")["default"].weight.double() for name in "AB")
    exact = part.base_layer.weight.double() + part.scaling["default"] * B @ A
    close(merged(model)[0, "W_Q"].double(), exact.to(dtype).double())


@pytest.mark.parametrize(
    "name",
    [pytest.param("BART", marks=needs_tl4), "Mixtral", "DeepSeek-V3", "Apertus", "Phi-3"],
)
@torch.no_grad()
def test_saved_weights_are_all_of_them(name: str, tmp_path: Path) -> None:
    """TransformerLens' state leaves out experts, and gives two norms of BART one name."""
    module = build(name)
    for weight in module.parameters():
        weight += 0.1 * torch.randn_like(weight)
    model, other = load_model(module), load_model(build(name, seed=1))
    ic.save_weights(model, tmp_path / "weights")
    ic.load_weights(other, tmp_path / "weights")
    tokens = model.random_tokens(2, 5, torch.Generator().manual_seed(0))
    found, expected = (one(tokens)[one.predicts(tokens)] for one in (other, model))
    assert torch.equal(found, expected)
    state = dict(model.state_dict())
    gone = max(state, key=lambda key: key.startswith("model."))
    del state[gone]
    with pytest.raises(InputError, match=f"'{gone}' is missing"):
        model.load_state_dict(state)


# ---- what is trained, and what a file says ----------------------------------------------------


@pytest.mark.parametrize("name", ["GPT-2", "GPT-NeoX", "Phi-3"])
def test_parts_of_a_frozen_projection_stay_frozen(name: str) -> None:
    module = build(name).requires_grad_(False)
    head = module.get_output_embeddings().weight.requires_grad_(True)
    trained = [weight for weight in load_model(module).parameters() if weight.requires_grad]
    assert [weight is head for weight in trained] == [True]
    module = build(name)
    assert all(weight.requires_grad for weight in load_model(module).parameters())


def test_weights_of_adapters_in_another_state_are_refused(tmp_path: Path) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    module: Any = inject_adapter_in_model(config, build("Llama")).eval()
    model = load_model(module)
    path = ic.save_weights(model, tmp_path / "w.safetensors")
    ic.load_weights(model, path)
    layers = [part for part in module.modules() if hasattr(part, "lora_A")]
    for layer in layers:
        layer.enable_adapters(False)
    with pytest.raises(InputError, match="saved with adapters in another state than those of"):
        ic.load_weights(model, path)


def test_a_pruned_head_is_saved_without_a_bias(tmp_path: Path) -> None:
    module = build("Llama")
    prune.l1_unstructured(module.lm_head, "weight", 0.5)
    model = load_model(module)
    with pytest.warns(UserWarning, match="into plain weights"):
        ic.save_pretrained(model, tmp_path / "saved")
    head = type(module).from_pretrained(tmp_path / "saved").lm_head
    assert head.bias is None
    assert torch.equal(head.weight.mT, model.weight("W_U"))


def test_a_module_that_was_replaced_after_loading_is_not_read() -> None:
    module = build("Llama")
    model = load_model(module)
    module.lm_head = torch.nn.Linear(40, 97, bias=False)
    with pytest.raises(CapabilityError, match="held W_U when the model was loaded"):
        model.weight("W_U")
    assert model.weight("W_Q").shape[0] == 3


def exchanged(layers: nn.ModuleList) -> None:
    layers[0], layers[1] = layers[1], layers[0]


@needs_tl4
@pytest.mark.parametrize(
    ("name", "change", "place"),
    [
        ("Llama", lambda one: setattr(one.model, "layers", one.model.layers[:2]), "model.layers.2"),
        ("Llama", lambda one: exchanged(one.model.layers), "model.layers.0"),
        ("Llama", lambda one: one.model.layers.append(one.model.layers[0]), "model.layers.3"),
        ("Llama", lambda one: setattr(one.model.layers[0].self_attn, "q_proj", nn.Identity()),
         "model.layers.0.self_attn.q_proj"),
        ("Llama", lambda one: setattr(one.model, "norm", nn.Identity()), "model.norm"),
        ("Llama", lambda one: setattr(one, "model", build("Llama").model), "model"),
        ("GPT-2", lambda one: setattr(one.transformer.h[1], "mlp", nn.Identity()),
         "transformer.h.1.mlp"),
        ("T5", lambda one: exchanged(one.decoder.block), "decoder.block.0"),
        ("T5", lambda one: one.decoder.block.append(nn.Identity()), "decoder.block.3"),
    ],
)  # fmt: skip
def test_layers_that_were_moved_or_replaced_after_loading_are_refused(
    name: str, change: Callable[[Any], None], place: str, tmp_path: Path
) -> None:
    module = build(name)
    model = load_model(module)
    tokens = model.random_tokens(1, 5, torch.Generator().manual_seed(0))
    model(tokens)
    change(module)
    for use in (
        lambda: model(tokens),
        lambda: model.generate(tokens, 1),
        lambda: model.weight("W_Q"),
        lambda: ic.complexity_report(model, progress=False),
        lambda: ic.save_pretrained(model, tmp_path / "saved"),
        lambda: copy.deepcopy(model),
    ):
        with pytest.raises(CapabilityError, match=rf"^{place} of '{model.name}' was moved, repl"):
            use()
    audit = ic.audit(model, quick=True, progress=False)
    assert audit.frame["status"].tolist() == ["refused"]
    assert audit.exit_status == 1


@needs_tl4
def test_a_table_of_positions_has_no_rows_that_no_position_reads() -> None:
    model = load_model(build("OPT"))
    (matrix,) = weight_matrices(model, ("W_pos",))
    assert matrix.weight.shape[0] == N_CTX
    torch.testing.assert_close(matrix.weight, model.weight("W_pos"))
