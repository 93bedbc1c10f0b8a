"""Small decoders against the equations written out, Hugging Face's GPT-2, and themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, get_args

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

from interp_compose.errors import OptionError, PromptError
from interp_compose.papers.shared.models.decoder import DecoderConfig, Norm, SmallDecoder

pytestmark = pytest.mark.tl3

NORMS = get_args(Norm)
SHAPE: dict[str, Any] = {"d_vocab": 29, "n_ctx": 11, "n_layers": 3, "d_model": 12, "d_mlp": 17}
CASES = [
    DecoderConfig(**SHAPE, norm=norm, **other)
    for norm in NORMS
    for other in (
        {"act": "relu", "biases": "unembed", "d_head": 5},
        {"act": "gelu", "biases": "all", "n_heads": 2},
    )
]
TOKENS = torch.tensor([[5, 17, 3, 23, 28, 11, 7], [13, 2, 19, 3, 0, 3, 19]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1]])


def random(cfg: DecoderConfig, *, seed: int = 0, scale: float = 0.5) -> SmallDecoder:
    """Every parameter random, biases and LayerNorm's among them."""
    model = SmallDecoder(cfg)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator) * scale
        weight.data = 1 + noise if name.endswith(".w") else noise
    return model


@pytest.fixture(params=CASES, ids=lambda cfg: f"{cfg.norm}-{cfg.act}")
def model(request: pytest.FixtureRequest) -> SmallDecoder:
    return random(request.param)


# ---- the equations, one position at a time, in float64 ------------------------------------

Array = NDArray[np.float64]


def norm_of(x: Array, weights: dict[str, Array], name: str) -> Array:
    centred = x - x.mean()
    return (
        centred / math.sqrt((centred**2).mean() + 1e-5) * weights[f"{name}.w"]
        + weights[f"{name}.b"]
    )


def act_of(x: float, act: str) -> float:
    return max(x, 0.0) if act == "relu" else x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def reference(model: SmallDecoder, tokens: list[int]) -> Array:
    """Logits ``[pos, d_vocab]`` of one sequence (complexity control, eqs 3 to 6)."""
    cfg = model.cfg
    w = {name: p.detach().double().numpy() for name, p in model.named_parameters()}

    def bias(name: str) -> Any:
        return w.get(name, 0.0)

    x = [w["embed.W_E"][t] + w["pos_embed.W_pos"][n] for n, t in enumerate(tokens)]
    for layer in range(cfg.n_layers):
        at = f"blocks.{layer}"
        normed = x if cfg.norm == "post" else [norm_of(v, w, f"{at}.ln1") for v in x]
        read = normed if cfg.norm == "pre" else x  # by keys and values
        added = []
        for n in range(len(x)):
            out = bias(f"{at}.attn.b_O") + np.zeros(cfg.d_model)
            for head in range(cfg.n_heads):
                of_head = {
                    name: (w[f"{at}.attn.W_{name}"][head], bias(f"{at}.attn.b_{name}"))
                    for name in "QKV"
                }
                (w_q, b_q), (w_k, b_k), (w_v, b_v) = (
                    (weight, b if np.isscalar(b) else b[head]) for weight, b in of_head.values()
                )
                query = normed[n] @ w_q + b_q
                scores = [
                    float(query @ (read[k] @ w_k + b_k)) / math.sqrt(len(query))
                    for k in range(n + 1)
                ]
                shares = [math.exp(score - max(scores)) for score in scores]
                z = np.zeros(len(query))
                for k in range(n + 1):
                    z = z + shares[k] / sum(shares) * (read[k] @ w_v + b_v)
                out = out + z @ w[f"{at}.attn.W_O"][head]
            added.append(out)
        left = []
        for n in range(len(x)):
            middle = x[n] + added[n]
            if cfg.norm == "post":
                middle = norm_of(middle, w, f"{at}.ln1")
            entering = middle if cfg.norm == "post" else norm_of(middle, w, f"{at}.ln2")
            pre = entering @ w[f"{at}.mlp.W_in"] + bias(f"{at}.mlp.b_in")
            post = np.array([act_of(float(v), cfg.act) for v in pre])
            total = middle + post @ w[f"{at}.mlp.W_out"] + bias(f"{at}.mlp.b_out")
            left.append(norm_of(total, w, f"{at}.ln2") if cfg.norm == "post" else total)
        x = left
    if cfg.norm != "post":
        x = [norm_of(v, w, "ln_final") for v in x]
    return np.stack([v @ w["unembed.W_U"] + w["unembed.b_U"] for v in x])


@torch.no_grad()
def test_logits_equal_the_equations(model: SmallDecoder) -> None:
    found = model(TOKENS)
    exact = model.double()(TOKENS)
    for row in range(len(TOKENS)):
        expected = torch.from_numpy(reference(model, TOKENS[row].tolist()))
        torch.testing.assert_close(exact[row], expected, atol=1e-10, rtol=1e-10)
        torch.testing.assert_close(found[row].double(), expected, atol=5e-5, rtol=5e-5)


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(model: SmallDecoder, side: str) -> None:
    """Rows of 4, 1 and 9 tokens, padded to a length beyond n_ctx."""
    model.double()
    rows = [[5, 17, 3, 23], [28], [13, 2, 19, 3, 0, 3, 19, 7, 8]]
    width = 13
    tokens = torch.full((3, width), 6)
    mask = torch.zeros_like(tokens)
    for i, row in enumerate(rows):
        at = slice(width - len(row), width) if side == "left" else slice(0, len(row))
        tokens[i, at], mask[i, at] = torch.tensor(row), 1
    found = model(tokens, mask)
    assert bool(found.isfinite().all())
    for i, row in enumerate(rows):
        expected = torch.from_numpy(reference(model, row))
        torch.testing.assert_close(found[i, mask[i].bool()], expected, atol=1e-10, rtol=1e-10)


@torch.no_grad()
def test_gpt2_of_hugging_face_is_the_same_model() -> None:
    """A second witness of norm="pre"."""
    cfg = DecoderConfig(**SHAPE, n_heads=3)
    config = transformers.GPT2Config(
        vocab_size=cfg.d_vocab,
        n_positions=cfg.n_ctx,
        n_embd=cfg.d_model,
        n_layer=cfg.n_layers,
        n_head=cfg.n_heads,
        n_inner=cfg.d_mlp,
        activation_function="gelu",
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    theirs = transformers.GPT2LMHeadModel(config).double().eval()
    generator = torch.Generator().manual_seed(1)
    for weight in theirs.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.4)
    ours = SmallDecoder(cfg).double()
    core = theirs.transformer
    ours.embed.W_E.copy_(core.wte.weight)
    ours.pos_embed.W_pos.copy_(core.wpe.weight)
    ours.unembed.W_U.copy_(theirs.lm_head.weight.T)
    norms = [(ours.ln_final, core.ln_f)]
    for one, other in zip(ours.blocks, core.h, strict=True):
        norms += [(one.ln1, other.ln_1), (one.ln2, other.ln_2)]
        weights = other.attn.c_attn.weight.split(cfg.d_model, dim=1)
        biases = other.attn.c_attn.bias.split(cfg.d_model)
        for name, weight, bias in zip("QKV", weights, biases, strict=True):
            heads = weight.reshape(cfg.d_model, cfg.n_heads, -1).transpose(0, 1)
            getattr(one.attn, f"W_{name}").copy_(heads)
            getattr(one.attn, f"b_{name}").copy_(bias.reshape(cfg.n_heads, -1))
        one.attn.W_O.copy_(other.attn.c_proj.weight.reshape(cfg.n_heads, -1, cfg.d_model))
        one.attn.b_O.copy_(other.attn.c_proj.bias)
        one.mlp.W_in.copy_(other.mlp.c_fc.weight)
        one.mlp.b_in.copy_(other.mlp.c_fc.bias)
        one.mlp.W_out.copy_(other.mlp.c_proj.weight)
        one.mlp.b_out.copy_(other.mlp.c_proj.bias)
    for norm, other in norms:
        norm.w.copy_(other.weight)
        norm.b.copy_(other.bias)
    torch.testing.assert_close(ours(TOKENS), theirs(TOKENS).logits, atol=1e-9, rtol=1e-9)
    positions = (MASK.cumsum(1) - 1).clamp(min=0)
    padded = theirs(TOKENS, attention_mask=MASK, position_ids=positions).logits
    real = MASK.bool()
    torch.testing.assert_close(ours(TOKENS, MASK)[real], padded[real], atol=1e-9, rtol=1e-9)


# ---- no more than the loss needs ----------------------------------------------------------


@pytest.mark.parametrize(("n_layers", "length"), [(1, 7), (3, 7), (3, 1)])
def test_last_logits_and_their_gradients_are_the_full_ones(
    model: SmallDecoder, n_layers: int, length: int
) -> None:
    model = random(DecoderConfig(**{**vars(model.cfg), "n_layers": n_layers}))
    tokens, target = TOKENS[:, :length], TOKENS[:, 0]
    full, short = model(tokens)[:, -1], model.last_logits(tokens)
    torch.testing.assert_close(short, full, atol=2e-5, rtol=2e-5)
    expected, found = (
        torch.autograd.grad(torch.nn.functional.cross_entropy(logits, target), model.parameters())
        for logits in (full, short)
    )
    check_gradients(found, expected)


@pytest.mark.parametrize("places", [[3], [0, 5, 6, 7, 13], list(range(14))])
def test_logits_at_some_positions_and_their_gradients_are_the_full_ones(
    model: SmallDecoder, places: list[int]
) -> None:
    full = torch.stack([model(TOKENS)[n // 7, n % 7] for n in places])
    found = model.logits_at(TOKENS, torch.tensor(places))
    torch.testing.assert_close(found, full, atol=2e-5, rtol=2e-5)
    gradients = (
        torch.autograd.grad(logits.log_softmax(-1)[:, 0].sum(), model.parameters())
        for logits in (full, found)
    )
    check_gradients(*gradients)


def check_gradients(found: Iterable[Tensor], expected: Iterable[Tensor]) -> None:
    """Equal to rounding, as a share of the largest: those of b_K are 0 but for it."""
    pairs = [(a.detach(), b.detach()) for a, b in zip(found, expected, strict=True)]
    largest = max(float(other.abs().max()) for _, other in pairs)
    assert largest > 0.01
    assert max(float((one - other).abs().max()) for one, other in pairs) < 2e-5 * largest


@torch.no_grad()
def test_last_logits_leave_the_rest_out(model: SmallDecoder) -> None:
    seen: dict[str, tuple[int, ...]] = {}

    def look(activation: Tensor, hook: Any) -> None:
        seen[hook.name] = tuple(activation.shape)

    with model.hooks(fwd_hooks=[(lambda name: True, look)]):
        model.last_logits(TOKENS)
    heads, d_head = model.cfg.n_heads, model.cfg.head_width
    assert seen["blocks.1.attn.hook_pattern"] == (2, heads, 7, 7)
    assert seen["blocks.2.attn.hook_pattern"] == (2, heads, 1, 7)
    assert seen["blocks.2.attn.hook_v"] == (2, 7, heads, d_head)
    assert seen["blocks.2.mlp.hook_pre"] == (2, 1, 17)
    assert seen["blocks.2.hook_resid_post"] == (2, 1, 12)


# ---- many models in one call --------------------------------------------------------------


@pytest.mark.parametrize("call", ["last_logits", "forward"])
def test_stacked_models_equal_single_ones(model: SmallDecoder, call: str) -> None:
    """torch.vmap over functional_call: logits and gradients."""
    models = [random(model.cfg, seed=seed, scale=0.3) for seed in range(3)]
    stacked, _ = torch.func.stack_module_state(models)  # type: ignore[arg-type]

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, tokens: Tensor) -> Tensor:
            out: Tensor = getattr(self.inner, call)(tokens)
            return out

    def loss(weights: dict[str, Tensor], tokens: Tensor) -> tuple[Tensor, Tensor]:
        inner = {f"inner.{name}": weight for name, weight in weights.items()}
        logits = torch.func.functional_call(Called(), inner, (tokens,))
        last = logits if call == "last_logits" else logits[:, -1]
        return torch.nn.functional.cross_entropy(last, tokens[:, 0]), last

    each = torch.vmap(torch.func.grad_and_value(loss, has_aux=True), in_dims=(0, None))
    gradients, (_, logits) = each(stacked, TOKENS)
    for n, single in enumerate(models):
        own = single(TOKENS)[:, -1]
        torch.testing.assert_close(logits[n], own, atol=2e-5, rtol=2e-5)
        torch.nn.functional.cross_entropy(own, TOKENS[:, 0]).backward()
        weights = dict(single.named_parameters())
        check_gradients(
            [gradients[name][n] for name in weights], [_grad(w) for w in weights.values()]
        )


def _grad(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


# ---- hooks --------------------------------------------------------------------------------


@torch.no_grad()
def test_identity_hooks_and_captures_change_no_bit(model: SmallDecoder) -> None:
    clean, padded = model(TOKENS), model(TOKENS, MASK)
    last = model.last_logits(TOKENS)
    seen: dict[str, Tensor] = {}

    def same(activation: Tensor, hook: Any) -> Tensor:
        return activation

    def keep(activation: Tensor, hook: Any) -> None:
        seen[hook.name] = activation

    for fn in (same, keep):
        with model.hooks(fwd_hooks=[(lambda name: True, fn)]):
            assert torch.equal(model(TOKENS), clean)
            assert torch.equal(model(TOKENS, MASK), padded)
            assert torch.equal(model.last_logits(TOKENS), last)
    assert set(seen) == set(model.hook_dict)


@torch.no_grad()
def test_every_hook_point_reaches_the_logits(model: SmallDecoder) -> None:
    """A hook that shows what nothing reads would be a trap."""
    clean = model(TOKENS)

    def shake(activation: Tensor, hook: Any) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return activation * (1 + torch.rand(activation.shape, generator=generator))

    for name in model.hook_dict:
        with model.hooks(fwd_hooks=[(name, shake)]):
            assert not torch.equal(model(TOKENS), clean), name


@torch.no_grad()
def test_activations_have_the_shapes_and_the_meaning_of_transformer_lens(
    model: SmallDecoder,
) -> None:
    seen: dict[str, Tensor] = {}

    def keep(activation: Tensor, hook: Any) -> None:
        seen[hook.name] = activation

    with model.hooks(fwd_hooks=[(lambda name: True, keep)]):
        model(TOKENS, MASK)
    heads, d_head = model.cfg.n_heads, model.cfg.head_width
    assert seen["hook_pos_embed"].shape == (2, 7, 12)
    for name in ("q", "k", "v", "z"):
        assert seen[f"blocks.1.attn.hook_{name}"].shape == (2, 7, heads, d_head)
    pattern = seen["blocks.1.attn.hook_pattern"]
    assert pattern.shape == (2, heads, 7, 7)
    real = MASK.bool()
    torch.testing.assert_close(pattern.sum(-1), torch.ones(2, heads, 7))
    visible = (torch.ones(7, 7).tril().bool() & real[:, None, :])[:, None].expand_as(pattern)
    of_real = real[:, None, :, None].expand_as(pattern)
    assert float(pattern[~visible & of_real].abs().max()) == 0.0
    lowest = torch.finfo(torch.float32).min
    scores = seen["blocks.1.attn.hook_attn_scores"]
    assert bool(((scores == lowest) == ~visible).all())
    torch.testing.assert_close(seen["blocks.1.hook_resid_pre"], seen["blocks.0.hook_resid_post"])
    resid, attn_out = seen["blocks.1.hook_resid_pre"], seen["blocks.1.hook_attn_out"]
    mid = resid + attn_out
    if model.cfg.norm == "post":
        mid = model.blocks[1].ln1(mid)
    torch.testing.assert_close(seen["blocks.1.hook_resid_mid"], mid)


# ---- precision, names, refusals -----------------------------------------------------------


@torch.no_grad()
def test_bfloat16_stays_near_and_finite(model: SmallDecoder) -> None:
    exact = model(TOKENS, MASK)
    real = MASK.bool()
    found = model.bfloat16()(TOKENS, MASK)
    assert found.dtype == torch.bfloat16
    assert bool(found.isfinite().all())
    error = (found[real].float() - exact[real]).std() / exact[real].std()
    assert float(error) < 0.05


def test_stacked_weights_by_name(model: SmallDecoder) -> None:
    cfg = model.cfg
    assert model.W_E is model.embed.W_E
    assert model.W_pos.shape == (11, 12)
    assert model.W_U.shape == (12, 29)
    assert model.b_U.shape == (29,)
    assert model.W_Q.shape == (3, cfg.n_heads, 12, cfg.head_width)
    assert torch.equal(model.W_O[2], model.blocks[2].attn.W_O)
    assert torch.equal(model.W_in[1], model.blocks[1].mlp.W_in)
    if cfg.biases == "all":
        assert model.b_out.shape == (3, 12)
        return
    with pytest.raises(AttributeError, match="no b_Q, since biases='unembed'"):
        _ = model.b_Q
    with pytest.raises(AttributeError, match="W_gate"):
        _ = model.W_gate


# ---- shapes that are refused ---------------------------------------------------------------


def test_biases_of_the_unembedding_alone() -> None:
    names = [name for name, _ in SmallDecoder(CASES[0]).named_parameters()]
    assert [name for name in names if ".b_" in name] == ["unembed.b_U"]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"n_layers": 0}, "n_layers=0: expected a whole number, 1 or more"),
        ({"n_layers": 10**6, "d_model": 1, "d_mlp": 1}, "n_layers=1000000: expected at most 10000"),
        ({"d_head": 0}, "d_head=0: expected a whole number, 1 or more"),
        ({"n_heads": 3}, "n_heads=3 do not divide d_model=64: give d_head"),
    ],
)
def test_sizes_that_are_none(shape: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DecoderConfig(**shape)


def test_d_head_may_be_any() -> None:
    assert DecoderConfig(n_heads=3, d_head=5).head_width == 5
    assert DecoderConfig(d_model=64, n_heads=4).head_width == 16


def test_too_long_a_sequence_is_refused(model: SmallDecoder) -> None:
    long = torch.zeros((2, 12), dtype=torch.long)
    mask = torch.ones_like(long)
    for call in (lambda: model(long), lambda: model.last_logits(long), lambda: model(long, mask)):
        with pytest.raises(PromptError, match="has 12 tokens, and the model n_ctx=11 positions"):
            call()
