"""Small encoder–decoders against the equations written out, ``torch.nn.Transformer``, and
themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from interp_compose.errors import OptionError, PromptError
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import (
    THIRD,
    Fuse,
    Seq2SeqConfig,
    SmallSeq2Seq,
    sinusoids,
)
from interp_compose.papers.lrf.models.shape import Positions

FUSES, POSITIONS, NORMS = get_args(Fuse), get_args(Positions), ("post", "pre")
SHAPE: dict[str, Any] = {
    **{"d_vocab": 29, "d_vocab_out": 23, "n_ctx": 7, "d_model": 12, "n_heads": 3, "d_mlp": 17},
    **{"n_encoder_layers": 3, "n_decoder_layers": 2},
}
CASES = [
    Seq2SeqConfig(
        **SHAPE,
        fuse=fuse,
        positions=positions,
        norm="post" if (i + j) % 2 else "pre",
        tied=(i + j) % 3 != 0,
        act="relu" if (i + j) % 4 else "gelu",
    )
    for i, fuse in enumerate(FUSES)
    for j, positions in enumerate(POSITIONS)
]
"""Each kind of fuse-attention with both norms and all positions."""
CASES.append(Seq2SeqConfig(**{**SHAPE, "d_vocab_out": 29}, fuse="both", one_vocabulary=True))
SOME = [
    Seq2SeqConfig(**SHAPE, fuse=fuse, norm=norm, positions=positions)
    for fuse, norm, positions in (
        ("both", "post", "relative"),
        ("both", "pre", "learned"),
        ("parameters", "post", "sinusoidal"),
        ("previous", "pre", "relative"),
    )
]
SOURCE = torch.tensor([[5, 17, 3, 28, 11, 7], [13, 2, 19, 0, 3, 19]])
TARGET = torch.tensor([[1, 22, 8, 3, 14], [1, 9, 9, 0, 21]])


def name_of(cfg: Seq2SeqConfig) -> str:
    return f"{cfg.fuse}-{cfg.norm}-{cfg.positions}{'-one_vocabulary' * cfg.one_vocabulary}"


def random(cfg: Seq2SeqConfig, *, seed: int = 0, scale: float = 0.4) -> SmallSeq2Seq:
    """Every parameter random, biases and LayerNorm's among them, in float64."""
    model = SmallSeq2Seq(cfg).double()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64) * scale
        weight.data = 1 + noise if name.endswith(".w") else noise
    return model


@pytest.fixture(params=CASES, ids=name_of)
def model(request: pytest.FixtureRequest) -> SmallSeq2Seq:
    return random(request.param)


@pytest.fixture(params=SOME, ids=name_of)
def some(request: pytest.FixtureRequest) -> SmallSeq2Seq:
    return random(request.param)


# ---- the equations, one position at a time, in float64 ------------------------------------

Array = NDArray[np.float64]
Allowed = Callable[[int, int], bool]


class Reference:
    """LRF, eqs 1 to 10; fuse-attention over all states of all positions, those of others masked."""

    def __init__(self, model: SmallSeq2Seq) -> None:
        self.cfg = model.cfg
        self.w = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
        self.target = "" if self.cfg.one_vocabulary else "decoder_"

    def logits(self, source: list[int], target: list[int]) -> Array:
        """``[pos, d_vocab_out]`` of one pair."""
        memory = self.stack("encoder", self.embedded(source, ""), None)
        hidden = self.stack("decoder", self.embedded(target, self.target), memory)
        w_u = self.w[f"{self.target}embed.W_E"].T if self.cfg.tied else self.w["W_U"]
        return np.stack([x @ w_u + self.w["b_U"] for x in hidden])

    def embedded(self, tokens: list[int], side: str) -> list[Array]:
        out = [self.w[f"{side}embed.W_E"][t] * math.sqrt(self.cfg.d_model) for t in tokens]
        if self.cfg.positions == "learned":
            table = self.w[f"{side}pos_embed.W_pos"]
            return [x + table[n] for n, x in enumerate(out)]
        if self.cfg.positions == "sinusoidal":
            return [x + sinusoid(n, self.cfg.d_model) for n, x in enumerate(out)]
        return out

    def stack(self, stack: str, x: list[Array], memory: list[Array] | None) -> list[Array]:
        """All layers of the encoder, or of the decoder, which reads ``memory``."""
        states: list[list[Array]] = []
        for layer in range(getattr(self.cfg, f"n_{stack}_layers")):
            standard = self.cfg.norm == "pre" and self.cfg.fuse != "none"
            states.append([standardised(v) for v in x] if standard else x)
            x = self.layer(f"{stack}_blocks.{layer}", x, memory, states)
        if self.cfg.norm == "pre":
            x = [self.norm(v, f"{stack}_ln_final") for v in x]
        return x

    def layer(
        self, at: str, x: list[Array], memory: list[Array] | None, states: list[list[Array]]
    ) -> list[Array]:
        third = THIRD[self.cfg.fuse][memory is not None]
        own: Allowed = (lambda i, j: True) if memory is None else (lambda i, j: j <= i)
        attn = f"{at}.attn" if memory is None else f"{at}.self_attn"
        x = self.added(x, f"{at}.ln1", lambda q: self.mha(q, q, own, attn))  # eqs 4, 5
        if memory is not None:
            cross, every = f"{at}.cross_attn", lambda i, j: True
            x = self.added(x, f"{at}.ln2", lambda q: self.mha(q, memory, every, cross))  # eq. 6
        if third == "second":
            x = self.added(x, f"{at}.ln_third", lambda q: self.mha(q, q, own, f"{at}.second_attn"))
        elif third is not None:
            read = states if third == "fuse" else states[-1:]
            x = self.added(x, f"{at}.ln_third", lambda q: self.fused(q, read, at))  # eqs 9, 10
        last = "ln2" if memory is None else "ln3"
        return self.added(x, f"{at}.{last}", lambda q: [self.mlp(v, at) for v in q])  # eqs 7, 8

    def added(
        self, x: list[Array], norm: str, sublayer: Callable[[list[Array]], list[Array]]
    ) -> list[Array]:
        """Residual and LayerNorm, which the equations omit."""
        if self.cfg.norm == "pre":
            out = sublayer([self.norm(v, norm) for v in x])
            return [v + o for v, o in zip(x, out, strict=True)]
        return [self.norm(v + o, norm) for v, o in zip(x, sublayer(x), strict=True)]

    def fused(self, queries: list[Array], states: list[list[Array]], at: str) -> list[Array]:
        """Keys are the states of every earlier layer at every position; the mask leaves those of
        the query's own position."""
        stacked = [state for of_layer in states for state in of_layer]
        n = len(queries)
        return self.mha(queries, stacked, lambda i, j: j % n == i, f"{at}.fuse_attn")

    def mha(
        self, queries: list[Array], keys: list[Array], allowed: Allowed, at: str
    ) -> list[Array]:
        """Eqs 1 to 3."""
        out = [self.w[f"{at}.b_O"].copy() for _ in queries]
        for head in range(self.cfg.n_heads):
            w = {name: self.w[f"{at}.W_{name}"][head] for name in "QKVO"}
            b = {name: self.w[f"{at}.b_{name}"][head] for name in "QKV"}
            k = [key @ w["K"] + b["K"] for key in keys]
            v = [key @ w["V"] + b["V"] for key in keys]
            for i, query in enumerate(queries):
                q = query @ w["Q"] + b["Q"]
                scores = [-math.inf] * len(keys)
                for j in range(len(keys)):
                    if allowed(i, j):
                        scores[j] = self.score(q, k[j], i - j, at, head) / math.sqrt(len(q))
                shares = [math.exp(score - max(scores)) for score in scores]
                z = np.zeros(len(q))
                for share, value in zip(shares, v, strict=True):
                    z = z + share / sum(shares) * value
                out[i] += z @ w["O"]
        return out

    def score(self, q: Array, k: Array, distance: int, at: str, head: int) -> float:
        """q · k and, with relative positions, the four terms of Transformer-XL (section 3.3)."""
        if f"{at}.W_R" not in self.w:
            return float(q @ k)
        r = sinusoid(distance, self.cfg.d_model) @ self.w[f"{at}.W_R"][head]
        u, v = self.w[f"{at}.b_u"][head], self.w[f"{at}.b_v"][head]
        return float(q @ k + q @ r + u @ k + v @ r)

    def mlp(self, x: Array, at: str) -> Array:
        pre = x @ self.w[f"{at}.mlp.W_in"] + self.w[f"{at}.mlp.b_in"]
        if self.cfg.act == "relu":
            post = [max(v, 0.0) for v in pre]
        else:
            post = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in pre]
        return np.array(post) @ self.w[f"{at}.mlp.W_out"] + self.w[f"{at}.mlp.b_out"]

    def norm(self, x: Array, name: str) -> Array:
        return standardised(x) * self.w[f"{name}.w"] + self.w[f"{name}.b"]


def standardised(x: Array) -> Array:
    centred = x - x.mean()
    return centred / math.sqrt((centred**2).mean() + 1e-5)


@lru_cache
def sinusoid(position: int, d_model: int) -> Array:
    """In the module's precision, which :func:`test_sinusoids_are_those_of_the_formula` tests."""
    row: Array = sinusoids(torch.tensor([position]), d_model)[0].double().numpy()
    return row


@torch.no_grad()
def test_logits_equal_the_equations(model: SmallSeq2Seq) -> None:
    found, reference = model(SOURCE, TARGET), Reference(model)
    for row in range(len(SOURCE)):
        expected = reference.logits(SOURCE[row].tolist(), TARGET[row].tolist())
        torch.testing.assert_close(found[row], torch.from_numpy(expected), atol=1e-10, rtol=1e-10)


@torch.no_grad()
def test_one_source_token_and_one_target_token(some: SmallSeq2Seq) -> None:
    expected = torch.from_numpy(Reference(some).logits([7], [1]))
    found = some(torch.tensor([[7]]), torch.tensor([[1]]))
    torch.testing.assert_close(found[0], expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("d_model", [1, 6, 7])
def test_sinusoids_are_those_of_the_formula(d_model: int) -> None:
    """Vaswani et al. (2017), section 3.5."""
    positions = [-30, -1, 0, 1, 5, 60]
    expected = [
        [
            (math.cos if i % 2 else math.sin)(at / 10000 ** (2 * (i // 2) / d_model))
            for i in range(d_model)
        ]
        for at in positions
    ]
    found = sinusoids(torch.tensor(positions), d_model)
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0)


# ---- a second witness ---------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_the_plain_model_is_torch_s_transformer(norm: Any) -> None:
    """Hidden states and the gradients of all weights, padded on the right."""
    cfg = Seq2SeqConfig(**SHAPE, norm=norm)
    ours, theirs = random(cfg), like(random(cfg))
    source_mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    found = ours.decoded(TARGET, ours.encoded(SOURCE, source_mask), source_mask)
    expected = theirs(
        ours.source_embedded(SOURCE),
        ours.target_embedded(TARGET),
        tgt_mask=causal,
        src_key_padding_mask=source_mask == 0,
        memory_key_padding_mask=source_mask == 0,
    )
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    toward = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).double()
    (found * toward).sum().backward()
    (expected * toward).sum().backward()
    for stack, layers in (
        (ours.encoder_blocks, theirs.encoder.layers),
        (ours.decoder_blocks, theirs.decoder.layers),
    ):
        for one, other in zip(stack, layers, strict=True):
            for mine, its in pairs_of(one, other):
                expected_grad = its.grad
                assert expected_grad is not None
                torch.testing.assert_close(mine(grad), expected_grad, atol=1e-8, rtol=1e-8)


def like(model: SmallSeq2Seq) -> nn.Transformer:
    """``torch.nn.Transformer`` with the same weights; post-LN has no norm at the end."""
    cfg = model.cfg
    shape: dict[str, Any] = {"d_model": cfg.d_model, "nhead": cfg.n_heads, "dropout": 0.0}
    shape |= {"dim_feedforward": cfg.d_mlp, "activation": cfg.act, "batch_first": True}
    shape |= {"norm_first": cfg.norm == "pre", "dtype": torch.float64}

    def final() -> nn.LayerNorm | None:
        return nn.LayerNorm(cfg.d_model, dtype=torch.float64) if cfg.norm == "pre" else None

    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**shape),
        cfg.n_encoder_layers,
        final(),
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**shape), cfg.n_decoder_layers, final()
    )
    whole = nn.Transformer(
        cfg.d_model, cfg.n_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    stacks = ((model.encoder_blocks, encoder.layers), (model.decoder_blocks, decoder.layers))
    with torch.no_grad():
        for own, layers in stacks:
            for one, other in zip(own, layers, strict=True):
                for mine, its in pairs_of(one, other):
                    its.copy_(mine(lambda weight: weight))
        for name, stack in (("encoder_ln_final", encoder), ("decoder_ln_final", decoder)):
            if stack.norm is not None:
                own = getattr(model, name)
                stack.norm.load_state_dict({"weight": own.w, "bias": own.b})
    return whole


def grad(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def pairs_of(ours: Any, theirs: Any) -> list[tuple[Callable[[Any], Tensor], nn.Parameter]]:
    """Of a block: a function that lays out ours (values or gradients) as theirs, and theirs."""
    pairs: list[tuple[Callable[[Any], Tensor], nn.Parameter]] = []
    decodes = hasattr(ours, "cross_attn")
    attentions = [(ours.self_attn if decodes else ours.attn, theirs.self_attn)]
    norms = [(ours.ln1, theirs.norm1), (ours.ln2, theirs.norm2)]
    if decodes:
        attentions.append((ours.cross_attn, theirs.multihead_attn))
        norms.append((ours.ln3, theirs.norm3))
    for own, other in attentions:

        def in_weight(of: Any, own: Any = own) -> Tensor:
            return torch.cat([of(w).transpose(1, 2).flatten(0, 1) for w in qkv(own, "W")])

        def in_bias(of: Any, own: Any = own) -> Tensor:
            return torch.cat([of(b).flatten() for b in qkv(own, "b")])

        pairs += [(in_weight, other.in_proj_weight), (in_bias, other.in_proj_bias)]
        pairs += [
            (lambda of, own=own: of(own.W_O).flatten(0, 1).mT, other.out_proj.weight),
            (lambda of, own=own: of(own.b_O), other.out_proj.bias),
        ]
    for norm, its in norms:
        pairs += [(lambda of, n=norm: of(n.w), its.weight), (lambda of, n=norm: of(n.b), its.bias)]
    mlp = ours.mlp
    return [
        *pairs,
        (lambda of: of(mlp.W_in).mT, theirs.linear1.weight),
        (lambda of: of(mlp.b_in), theirs.linear1.bias),
        (lambda of: of(mlp.W_out).mT, theirs.linear2.weight),
        (lambda of: of(mlp.b_out), theirs.linear2.bias),
    ]


def qkv(attention: Any, kind: str) -> list[nn.Parameter]:
    return [getattr(attention, f"{kind}_{letter}") for letter in "QKV"]


# ---- batches, padding, order --------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(some: SmallSeq2Seq, side: str) -> None:
    """Rows of different lengths, padded to more columns than ``n_ctx``, against single rows."""
    sources = [[5, 17, 3, 28], [28], [13, 2, 19, 3, 0, 3, 19]]
    targets = [[1, 22], [1, 9, 9, 0, 21], [1]]
    source, source_mask = padded(sources, 9, side)
    target, target_mask = padded(targets, 8, side)
    found = some(source, target, source_mask, target_mask)
    assert bool(found.isfinite().all())
    for i in range(3):
        alone = some(torch.tensor([sources[i]]), torch.tensor([targets[i]]))[0]
        torch.testing.assert_close(found[i, target_mask[i] == 1], alone, atol=1e-10, rtol=1e-10)


def padded(rows: list[list[int]], width: int, side: str) -> tuple[Tensor, Tensor]:
    tokens = torch.full((len(rows), width), 6)
    mask = torch.zeros_like(tokens)
    for i, row in enumerate(rows):
        at = slice(width - len(row), width) if side == "left" else slice(0, len(row))
        tokens[i, at], mask[i, at] = torch.tensor(row), 1
    return tokens, mask


@torch.no_grad()
def test_the_decoder_does_not_see_what_comes(some: SmallSeq2Seq) -> None:
    clean = some(SOURCE, TARGET)
    for at in range(TARGET.shape[1]):
        changed = TARGET.clone()
        changed[:, at] = 17
        found = some(SOURCE, changed)
        assert torch.equal(found[:, :at], clean[:, :at])
        assert bool((found[:, at:] != clean[:, at:]).any(dim=2).all())
    other = SOURCE.clone()
    other[:, -1] = 21
    assert bool((some(other, TARGET) != clean).any(dim=2).all())


# ---- fuse-attention -----------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("hooks", [("k",), ("v",), ("k", "v")])
def test_keys_and_values_that_are_not_computed_are_equal_to_computed_ones(
    norm: Any, hooks: tuple[str, ...]
) -> None:
    """Logits, scores and every gradient; W_K acts upon the query where no hook reads the keys."""
    model = random(Seq2SeqConfig(**SHAPE, fuse="both", norm=norm))
    seen: dict[str, Tensor] = {}

    def keep(activation: Tensor, hook: Any) -> None:
        seen[hook.name] = activation

    def gradients() -> tuple[Tensor, ...]:
        logits = model(SOURCE, TARGET)
        return torch.autograd.grad(logits.square().sum(), list(model.parameters()))

    names = [f"encoder_blocks.2.fuse_attn.hook_{name}" for name in hooks]
    scores = "encoder_blocks.2.fuse_attn.hook_attn_scores"
    with model.hooks(fwd_hooks=[(scores, keep)]):
        expected = model(SOURCE, TARGET)
    plain, expected_gradients = seen[scores], gradients()
    with model.hooks(fwd_hooks=[(name, keep) for name in [scores, *names]]):
        found = model(SOURCE, TARGET)
        found_gradients = gradients()
    assert [seen[name].shape for name in names] == [(2, 6, 3, 3, 4)] * len(names)
    torch.testing.assert_close(seen[scores], plain, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-10)
    largest = max(float(one.abs().max()) for one in expected_gradients)
    for one, other in zip(found_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12 * largest, rtol=1e-8)


@pytest.mark.parametrize("name", ["k", "v"])
@torch.no_grad()
def test_keys_and_values_are_computed_for_any_kind_of_hook(name: str) -> None:
    """TransformerLens' in both directions, and PyTorch's own."""
    model = random(Seq2SeqConfig(**SHAPE, fuse="both"))
    point = getattr(model.decoder_blocks[1].fuse_attn, f"hook_{name}")
    clean, seen = model(SOURCE, TARGET), []

    def shift(module: Any, args: Any, out: Tensor) -> Tensor:
        seen.append(out.shape)
        return out * 2 + 1

    handle = point.register_forward_hook(shift)
    assert not torch.allclose(model(SOURCE, TARGET), clean)
    handle.remove()
    assert seen == [(2, 5, 2, 3, 4)]
    assert torch.equal(model(SOURCE, TARGET), clean)
    gradients = []

    def keep(gradient: Tensor, hook: Any) -> None:
        gradients.append(gradient)

    with torch.enable_grad(), model.hooks(bwd_hooks=[(point.name, keep)]):
        model(SOURCE, TARGET).sum().backward()
    assert [gradient.shape for gradient in gradients] == [(2, 5, 2, 3, 4)]


@torch.no_grad()
def test_the_pattern_is_over_earlier_layers() -> None:
    model = random(Seq2SeqConfig(**SHAPE, fuse="both"))
    seen: dict[str, Tensor] = {}

    def keep(activation: Tensor, hook: Any) -> None:
        seen[hook.name] = activation

    with model.hooks(fwd_hooks=[(lambda name: "fuse_attn" in name, keep)]):
        model(SOURCE, TARGET)
    for stack, n_layers, length in (("encoder", 3, 6), ("decoder", 2, 5)):
        for layer in range(n_layers):
            at = f"{stack}_blocks.{layer}.fuse_attn"
            pattern = seen[f"{at}.hook_pattern"]
            assert (
                pattern.shape == seen[f"{at}.hook_attn_scores"].shape == (2, 3, length, 1 + layer)
            )
            torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]))
            assert seen[f"{at}.hook_q"].shape == seen[f"{at}.hook_z"].shape == (2, length, 3, 4)


# ---- hooks --------------------------------------------------------------------------------


@torch.no_grad()
def test_identity_hooks_and_captures_change_no_bit(some: SmallSeq2Seq) -> None:
    """But for the keys and values of fuse-attention, which are computed for a hook alone."""
    clean = some(SOURCE, TARGET)
    seen: set[str] = set()

    def same(activation: Tensor, hook: Any) -> Tensor:
        return activation

    def keep(activation: Tensor, hook: Any) -> None:
        seen.add(hook.name)

    def elsewhere(name: str) -> bool:
        return not name.endswith(("fuse_attn.hook_k", "fuse_attn.hook_v"))

    for fn in (same, keep):
        with some.hooks(fwd_hooks=[(elsewhere, fn)]):
            assert torch.equal(some(SOURCE, TARGET), clean)
        with some.hooks(fwd_hooks=[(lambda name: True, fn)]):
            torch.testing.assert_close(some(SOURCE, TARGET), clean, atol=1e-10, rtol=1e-10)
    assert seen == set(some.hook_dict)
    assert torch.equal(some(SOURCE, TARGET), clean)


@torch.no_grad()
def test_every_hook_point_reaches_the_logits(some: SmallSeq2Seq) -> None:
    """But for queries, keys and scores of a fuse-attention that has one state to read: its softmax
    is 1 whatever they are."""
    model = random(replace(some.cfg, n_encoder_layers=1))
    clean = model(SOURCE, TARGET)

    def shake(activation: Tensor, hook: Any) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        noise = torch.rand(activation.shape, generator=generator, dtype=activation.dtype)
        return activation * (1 + noise)

    names = set(model.hook_dict)
    if model.cfg.norm != "post" or model.cfg.fuse != "both":
        names = {name for name in names if "fuse" in name or "second" in name or "third" in name}
    inert = set()
    for name in names:
        with model.hooks(fwd_hooks=[(name, shake)]):
            if torch.allclose(model(SOURCE, TARGET), clean, atol=1e-10, rtol=1e-10):
                inert.add(name)
    one_state = {"both": "blocks.0.fuse_attn.", "previous": "fuse_attn."}.get(model.cfg.fuse, "-")
    ends = ("hook_q", "hook_k", "hook_attn_scores")
    assert inert == {name for name in names if one_state in name and name.endswith(ends)}


@torch.no_grad()
def test_activations_have_the_shapes_and_the_meaning_of_transformer_lens(
    some: SmallSeq2Seq,
) -> None:
    seen: dict[str, Tensor] = {}

    def keep(activation: Tensor, hook: Any) -> None:
        seen[hook.name] = activation

    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    with some.hooks(fwd_hooks=[(lambda name: True, keep)]):
        some(SOURCE, TARGET, mask)
    sizes = {"encoder_blocks.1.attn": (6, 6), "decoder_blocks.1.self_attn": (5, 5)}
    sizes |= {"decoder_blocks.1.cross_attn": (5, 6)}
    for at, (queries, keys) in sizes.items():
        for name, length in (("q", queries), ("k", keys), ("v", keys), ("z", queries)):
            assert seen[f"{at}.hook_{name}"].shape == (2, length, 3, 4)
        pattern = seen[f"{at}.hook_pattern"]
        assert pattern.shape == seen[f"{at}.hook_attn_scores"].shape == (2, 3, queries, keys)
        torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]))
    assert float(seen["decoder_blocks.1.self_attn.hook_pattern"].triu(1).abs().max()) == 0
    for at in ("encoder_blocks.1.attn", "decoder_blocks.1.cross_attn"):
        assert float(seen[f"{at}.hook_pattern"][1, :, :, :2].abs().max()) == 0
    for stack in ("encoder", "decoder"):
        own, before = f"{stack}_blocks.1", f"{stack}_blocks.0"
        resid = seen[f"{own}.hook_resid_pre"]
        assert torch.equal(resid, seen[f"{before}.hook_resid_post"])
        mid = resid + seen[f"{own}.hook_attn_out"]
        if some.cfg.norm == "post":
            mid = getattr(some, f"{stack}_blocks")[1].ln1(mid)
        torch.testing.assert_close(seen[f"{own}.hook_resid_mid"], mid)
    torch.testing.assert_close(
        seen["decoder_blocks.0.cross_attn.hook_in"], some.encoded(SOURCE, mask)
    )


# ---- variants begin alike -----------------------------------------------------------------


@pytest.mark.parametrize("positions", POSITIONS)
def test_controls_have_as_many_parameters(positions: Any) -> None:
    counts = {
        fuse: sum(
            weight.numel()
            for weight in SmallSeq2Seq(
                Seq2SeqConfig(**SHAPE, fuse=fuse, positions=positions)
            ).parameters()
        )
        for fuse in FUSES
    }
    assert counts["both"] == counts["parameters"] == counts["previous"]
    of_one = 4 * 12 * 12 + 4 * 12 + 2 * 12  # four matrices with biases, and a LayerNorm
    assert counts["encoder"] - counts["none"] == 3 * of_one
    assert counts["decoder"] - counts["none"] == 2 * of_one
    assert counts["both"] - counts["none"] == 5 * of_one


def test_variants_begin_with_equal_weights() -> None:
    states = {}
    for fuse in FUSES:
        model = SmallSeq2Seq(Seq2SeqConfig(**SHAPE, fuse=fuse, norm="pre", tied=False))
        init_xavier(model, seed=3)
        states[fuse] = dict(model.named_parameters())
    for fuse, state in states.items():
        for name, weight in states["none"].items():
            assert torch.equal(state[name], weight), (fuse, name)
    assert set(states["both"]) == set(states["previous"])
    for name, weight in states["both"].items():
        assert torch.equal(states["previous"][name], weight)
    other = SmallSeq2Seq(Seq2SeqConfig(**SHAPE, norm="pre", tied=False))
    init_xavier(other, seed=4)
    drawn = [name for name in states["none"] if name.rpartition(".")[2].startswith("W_")]
    for name, weight in other.named_parameters():
        assert torch.equal(weight, states["none"][name]) == (name not in drawn)


def test_the_initial_weights_have_the_variance_of_glorot() -> None:
    cfg = Seq2SeqConfig(400, 300, 90, d_model=96, n_heads=4, d_mlp=160, positions="learned")
    model = SmallSeq2Seq(cfg)
    init_xavier(model, seed=0)
    weights = dict(model.named_parameters())
    for name, variance in {
        "embed.W_E": 1 / 96,
        "decoder_pos_embed.W_pos": 1 / 96,
        "encoder_blocks.1.attn.W_Q": 2 / (96 + 96),
        "decoder_blocks.0.cross_attn.W_O": 2 / (96 + 96),
        "decoder_blocks.1.mlp.W_in": 2 / (96 + 160),
    }.items():
        assert float(weights[name].detach().var()) == pytest.approx(variance, rel=0.06), name
    limit = math.sqrt(6 / (96 + 160))
    assert 0.99 * limit < float(weights["encoder_blocks.0.mlp.W_out"].detach().abs().max()) <= limit
    assert float(weights["b_U"].detach().abs().max()) == 0
    assert bool((weights["encoder_blocks.0.ln1.w"] == 1).all())
    with pytest.raises(OptionError, match="seed=-1: expected a whole number of 0 or more"):
        init_xavier(model, seed=-1)


# ---- precision, dropout, refusals ---------------------------------------------------------


@torch.no_grad()
def test_bfloat16_stays_near_and_finite(some: SmallSeq2Seq) -> None:
    exact = some(SOURCE, TARGET)
    found = some.bfloat16()(SOURCE, TARGET)
    assert found.dtype == torch.bfloat16
    assert bool(found.isfinite().all())
    error = (found.double() - exact).std() / exact.std()
    assert float(error) < 0.06


def test_dropout_acts_in_training_alone() -> None:
    cfg = Seq2SeqConfig(**SHAPE, fuse="both", dropout=0.5)
    model, plain = random(cfg), random(Seq2SeqConfig(**SHAPE, fuse="both"))
    expected = plain(SOURCE, TARGET)
    assert torch.equal(plain.train()(SOURCE, TARGET), expected)
    assert torch.equal(model.eval()(SOURCE, TARGET), expected)
    model.train()
    seen: dict[str, Tensor] = {}

    def keep(activation: Tensor, hook: Any) -> None:
        seen[hook.name] = activation

    torch.manual_seed(0)
    with model.hooks(fwd_hooks=[(lambda name: "_out" in name or "resid_pre" in name, keep)]):
        model(SOURCE, TARGET)
    for at in ("encoder_blocks.0", "decoder_blocks.0"):
        for name in ("attn_out", "fuse_out", "mlp_out"):
            shares = (seen[f"{at}.hook_{name}"] == 0).double().mean()
            assert 0.25 < float(shares) < 0.75, (at, name)
        assert 0.25 < float((seen[f"{at}.hook_resid_pre"] == 0).double().mean()) < 0.75


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_vocab": 0}, "d_vocab=0: expected a whole number, 1 or more"),
        ({"n_decoder_layers": 0}, "n_decoder_layers=0: expected a whole number, 1 or more"),
        ({"n_heads": 5}, "n_heads=5: expected a divisor of d_model=12"),
        ({"dropout": 1.0}, "dropout=1.0: expected a number, 0 or more and below 1"),
        ({"dropout": float("nan")}, "dropout=nan: expected a number"),
        ({"n_encoder_layers": 9_999}, "n_encoder_layers=9999 and n_decoder_layers=2: expected at"),
        ({"one_vocabulary": True}, "one_vocabulary=True, and d_vocab=29 is not d_vocab_out=23"),
        ({"d_model": 1 << 20, "n_heads": 1}, "more than 2147483648 parameters: make it smaller"),
    ],
)
def test_shapes_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Seq2SeqConfig(**{**SHAPE, **change})


@torch.no_grad()
def test_sequences_beyond_the_positions_are_refused() -> None:
    long, short = torch.ones((1, 8), dtype=torch.long), torch.ones((1, 2), dtype=torch.long)
    for positions in ("sinusoidal", "learned"):
        model = SmallSeq2Seq(Seq2SeqConfig(**SHAPE, positions=positions))
        with pytest.raises(PromptError, match="a source has 8 tokens, and the model n_ctx=7 posit"):
            model(long, short)
        with pytest.raises(PromptError, match="a target has 8 tokens, and the model n_ctx=7 posit"):
            model(short, long, None, torch.ones_like(long))
