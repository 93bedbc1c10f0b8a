"""Every matrix is the one that the model multiplies by, and none is missing."""

from __future__ import annotations

import re
import warnings
from importlib.metadata import version
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import interp_compose as ic
from interp_compose.errors import CapabilityError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.weight_matrices import WeightMatrix, left_out, weight_matrices
from tests import architectures
from tests.architectures import D_VOCAB, N_CTX, N_LAYERS, load as make
from tests.interventions.shared import params

pytestmark = pytest.mark.tl3
TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])
NAMES = params(
    *("GPT-2", "Llama", "Gemma 2", "GPT-NeoX", "Phi-3", "OPT", "BLOOM", "BERT", "RoBERTa"),
    *("native", "native, positions"),
)
GROUPED = ("Llama", "Gemma 2", "Phi-3")
UNNAMED = {  # by Hugging Face's names
    "BERT": (
        "bert.embeddings.token_type_embeddings.weight",
        "cls.predictions.transform.dense.weight",
    ),
    "RoBERTa": ("roberta.embeddings.token_type_embeddings.weight", "lm_head.dense.weight"),
    "GPT-NeoX": ("gpt_neox.layers.*.attention.qkv.weight",),  # split by TransformerLens
    "BLOOM": ("transformer.h.*.self_attention.qkv.weight",),
}
BETWEEN = {  # what enters and what leaves a matrix, as hooks see it
    "W_Q": ("attn.hook_in", "attn.q.hook_out"),
    "W_K": ("attn.hook_in", "attn.k.hook_out"),
    "W_V": ("attn.hook_in", "attn.v.hook_out"),
    "W_O": ("attn.hook_z", "attn.o.hook_out"),
    "W_in": ("mlp.in.hook_in", "mlp.in.hook_out"),
    "W_gate": ("mlp.gate.hook_in", "mlp.gate.hook_out"),
    "W_out": ("mlp.out.hook_in", "mlp.out.hook_out"),
}


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest) -> tuple[str, LensModel]:
    return request.param, make(request.param)


def by_name(model: LensModel, layer: int) -> dict[str, WeightMatrix]:
    return {m.name: m for m in weight_matrices(model) if m.layer == layer}


@torch.no_grad()
def test_each_matrix_maps_what_the_hooks_see_going_in_to_what_they_see_coming_out(
    case: tuple[str, LensModel],
) -> None:
    _, model = case
    for layer in range(N_LAYERS):
        found = by_name(model, layer)
        hooks = {name: [f"blocks.{layer}.{end}" for end in BETWEEN[name]] for name in found}
        _, seen = model.capture(TOKENS, sorted({end for pair in hooks.values() for end in pair}))
        for name, matrix in found.items():
            x, y = (seen[end].flatten(2) for end in hooks[name])
            assert_linear(matrix.weight, x, y)


def assert_linear(weight: Tensor, x: Tensor, y: Tensor) -> None:
    """y = x Aᵀ + b with one b for every token."""
    bias = y - x @ weight.T
    torch.testing.assert_close(bias, bias[:1, :1].expand_as(bias), atol=3e-5, rtol=0)
    assert y.std() > 1e-3


@torch.no_grad()
def test_the_model_computes_with_these_numbers(case: tuple[str, LensModel]) -> None:
    """They are views: what is written into one changes the logits, whichever it is."""
    _, model = case
    before = model(TOKENS)
    for matrix in weight_matrices(model):
        if matrix.layer not in (-1, 1, N_LAYERS):
            continue
        kept = matrix.weight.clone()
        matrix.weight.mul_(1 + torch.rand_like(kept))  # norms would take back one factor
        moved = (model(TOKENS) - before).abs().max()
        matrix.weight.copy_(kept)
        assert moved > 1e-4, (matrix.layer, matrix.name)
    assert torch.equal(model(TOKENS), before)


def test_heads_are_slices_of_the_merged_matrix(case: tuple[str, LensModel]) -> None:
    name, model = case
    for matrix in weight_matrices(model):
        if matrix.name not in ("W_Q", "W_K", "W_V", "W_O"):
            assert matrix.heads is None
            continue
        assert matrix.heads is not None
        grouped = name in GROUPED and matrix.name in ("W_K", "W_V")
        assert len(matrix.heads) == (2 if grouped else model.n_heads)
        along = 1 if matrix.name == "W_O" else 0
        parts = matrix.weight.chunk(len(matrix.heads), dim=along)
        for head, part in zip(matrix.heads, parts, strict=True):
            assert torch.equal(head, part)


@torch.no_grad()
def test_heads_are_the_models_own(case: tuple[str, LensModel]) -> None:
    """Head h of W_O reads hook_z of head h and no other."""
    _, model = case
    matrix = by_name(model, 1)["W_O"]
    assert matrix.heads is not None
    entering, leaving = (f"blocks.1.{end}" for end in BETWEEN["W_O"])
    _, seen = model.capture(TOKENS, [entering, leaving])
    z = seen[entering].flatten(2).unflatten(2, (model.n_heads, -1))
    bias = seen[leaving] - torch.einsum("bphd,hmd->bpm", z, matrix.heads)
    torch.testing.assert_close(bias, bias[:1, :1].expand_as(bias), atol=3e-5, rtol=0)


def test_every_parameter_is_in_a_matrix_or_named(case: tuple[str, LensModel]) -> None:
    name, model = case
    unnamed = left_out(model)
    assert unnamed == UNNAMED.get(name, ())
    held = {place for matrix in weight_matrices(model) for place in places(matrix.weight)}
    for own, weight in model.lens.named_parameters():
        if name == "OPT" and "embed_positions" in own:
            weight = weight[2:]
        plain = re.sub(r"\.\d+\.", ".*.", own.replace("_original_component.", ""))
        if weight.ndim > 1:
            assert held.isdisjoint(places(weight)) == (plain in unnamed), plain
            assert held.issuperset(places(weight)) == (plain not in unnamed), plain


def places(weight: Tensor) -> list[int]:
    """The address of every entry."""
    steps = [torch.arange(n) * step for n, step in zip(weight.shape, weight.stride(), strict=True)]
    offsets = sum(torch.meshgrid(*steps, indexing="ij")).flatten()
    found: list[int] = (weight.data_ptr() + weight.element_size() * offsets).tolist()
    return found


def test_ends_of_the_model(case: tuple[str, LensModel]) -> None:
    name, model = case
    first = by_name(model, -1)
    last = by_name(model, N_LAYERS)
    assert first["W_E"].weight.shape == (D_VOCAB, model.d_model)
    assert list(last) == ["W_U"]
    assert last["W_U"].weight.shape == (D_VOCAB, model.d_model)
    tied = torch.equal(first["W_E"].weight, last["W_U"].weight)
    assert last["W_U"].tied_to == ("W_E" if tied else "")
    has_table = name in ("GPT-2", "OPT", "BERT", "RoBERTa", "native, positions")
    assert ("W_pos" in first) == has_table
    if has_table:
        assert first["W_pos"].weight.shape[0] in (N_CTX, N_CTX + 2)  # OPT's has two more


@torch.no_grad()
def test_the_embedding_is_what_enters_and_the_unembedding_what_leaves() -> None:
    for name in ("Llama", "native"):  # positions are turned inside, so the embedding enters bare
        model = make(name)
        rows = by_name(model, -1)["W_E"].weight[TOKENS]
        _, seen = model.capture(TOKENS, ["blocks.0.hook_resid_pre"])
        torch.testing.assert_close(seen["blocks.0.hook_resid_pre"], rows)
    llama = make("Llama")
    hidden = llama.encode(TOKENS)
    torch.testing.assert_close(hidden @ by_name(llama, N_LAYERS)["W_U"].weight.T, llama(TOKENS))


def test_only_what_is_asked_for_in_the_order_of_the_pass() -> None:
    model = make("Llama")
    found = [(m.layer, m.name) for m in weight_matrices(model, ("W_out", "W_Q"))]
    assert found == [(k, name) for k in range(N_LAYERS) for name in ("W_Q", "W_out")]
    whole = [(m.layer, m.name) for m in weight_matrices(model)]
    assert whole[0] == (-1, "W_E")
    assert whole[-1] == (N_LAYERS, "W_U")
    assert [name for layer, name in whole if layer == 0] == [
        "W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate", "W_out",
    ]  # fmt: skip


def test_weights_are_read_when_it_is_their_turn_and_carry_no_graph() -> None:
    model = make("GPT-2")
    first = by_name(model, 0)["W_Q"]
    assert not first.weight.requires_grad
    with torch.no_grad():
        model.lens.blocks[0].attn.q.weight.fill_(3.0)
    assert bool((by_name(model, 0)["W_Q"].weight == 3).all())


def test_an_encoder_without_a_head_has_no_unembedding() -> None:
    import transformers as hf

    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=D_VOCAB, hidden_size=40, intermediate_size=53, num_hidden_layers=N_LAYERS,
        num_attention_heads=4,
    )  # fmt: skip
    model = load_model(hf.BertModel(config).eval())
    assert "W_U" not in {matrix.name for matrix in weight_matrices(model)}
    assert "W_E" in {matrix.name for matrix in weight_matrices(model)}


@pytest.mark.skipif(
    not version("transformer-lens").startswith("3."),
    reason="transformer-lens 4 removed HookedTransformer (make test-tl3 runs this)",
)
@pytest.mark.parametrize("grouped", [False, True])
@torch.no_grad()
def test_a_hooked_transformers_matrices(grouped: bool) -> None:
    import transformer_lens

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 3.9 announces the end of the class
        config = transformer_lens.HookedTransformerConfig(
            n_layers=N_LAYERS, d_model=40, n_heads=4, d_head=10, d_mlp=53, n_ctx=N_CTX,
            d_vocab=D_VOCAB, act_fn="gelu", seed=0, initializer_range=0.2, init_weights=True,
            n_key_value_heads=2 if grouped else None, gated_mlp=grouped,
        )  # fmt: skip
        model = load_model(transformer_lens.HookedTransformer(config).eval())
    assert left_out(model) == ()
    ends = {
        "W_Q": ("ln1.hook_normalized", "attn.hook_q"),
        "W_K": ("ln1.hook_normalized", "attn.hook_k"),
        "W_V": ("ln1.hook_normalized", "attn.hook_v"),
        "W_O": ("attn.hook_z", "hook_attn_out"),
        "W_in": ("ln2.hook_normalized", "mlp.hook_pre_linear" if grouped else "mlp.hook_pre"),
        "W_gate": ("ln2.hook_normalized", "mlp.hook_pre"),
        "W_out": ("mlp.hook_post", "hook_mlp_out"),
    }
    names = {f"blocks.1.{end}" for pair in ends.values() for end in pair}
    _, seen = model.capture(TOKENS, sorted(names & set(model.hook_names)))
    found = by_name(model, 1)
    assert set(found) == set(ends) - (set() if grouped else {"W_gate"})
    for name, matrix in found.items():
        x, y = (seen[f"blocks.1.{end}"].flatten(2) for end in ends[name])
        assert_linear(matrix.weight, x, y)
    assert found["W_K"].heads is not None
    assert len(found["W_K"].heads) == (2 if grouped else 4)
    assert list(by_name(model, N_LAYERS)) == ["W_U"]


# ---- refused -----------------------------------------------------------------------------------


def put(model: LensModel, weight: Tensor) -> None:
    """``weight`` in the place of layer 1's W_in."""
    linear: Any = getattr(model.lens.blocks[1].mlp, "in").original_component
    linear.weight = nn.Parameter(weight, requires_grad=False)


REFUSED = {
    "int8": (lambda w: w.to(torch.int8), r"is quantised \(int8\).*load the model unquantised"),
    "4 bits": (
        lambda w: torch.zeros(w.numel() // 2, 1, dtype=torch.uint8),
        r"is quantised \(uint8\).*unquantised",
    ),
    "float8": (
        lambda w: w.to(torch.float8_e4m3fn),
        r"is quantised \(float8_e4m3fn\).*unquantised",
    ),
    "sparse": (lambda w: w.to_sparse(), r"is sparse \(torch.sparse_coo\); make it dense first"),
    "meta": (lambda w: w.to("meta"), r"is not in memory .*load the model whole"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_weights_whose_numbers_cannot_be_read_are_refused_by_name(kind: str) -> None:
    change, message = REFUSED[kind]
    model = make("Llama")
    put(model, change(model.lens.blocks[1].mlp.W_in.detach().T.contiguous()))
    where = r"LlamaForCausalLM.*model\.layers\.1\.mlp\.up_proj\.weight "
    with pytest.raises(CapabilityError, match=where + message):
        next(iter(weight_matrices(model)))


def test_a_subclass_of_tensor_is_refused() -> None:
    class Packed(Tensor):
        def __tensor_flatten__(self) -> tuple[list[str], None]:
            return [], None

    model = make("Llama")
    weight = model.lens.blocks[1].mlp.W_in.detach().T.contiguous()
    put(model, weight.as_subclass(Packed))
    with pytest.raises(CapabilityError, match=r"up_proj\.weight is a .*, not a plain tensor"):
        next(iter(weight_matrices(model)))


def test_a_matrix_that_no_layer_has() -> None:
    with pytest.raises(CapabilityError, match="GPT2LMHeadModel offers none of W_gate"):
        list(weight_matrices(make("GPT-2"), ("W_gate",)))


def test_matrices_of_a_block_that_composes() -> None:
    """Rows are outputs: the formulas of CAT's eqs 2 and 3 with the matrices as they are given."""
    sizes: Any = {"d_vocab": 30, "n_ctx": 8, "n_layers": 1, "d_model": 8, "n_heads": 2, "d_mlp": 12}
    model: Any = ic.cat.small_encoder(
        ic.cat.EncoderConfig(**sizes, composition="every", n_codes=7), seed=0
    )
    found = {one.name: one for one in weight_matrices(model) if one.layer == 0}
    composition, h = model.lens.blocks[0].composition, torch.randn(1, 5, 8)
    queries = torch.nn.functional.normalize(h @ found["W_Q_comp"].weight.mT, dim=-1)
    book = found["codebook"].weight
    keys = torch.nn.functional.normalize(book @ found["W_K_comp"].weight.mT, dim=-1)
    cosines = torch.relu(queries @ keys.mT)
    weights = cosines / cosines.square().mean(dim=-1, keepdim=True).sqrt()
    theirs, comp = composition(h)
    torch.testing.assert_close(theirs, weights)
    torch.testing.assert_close(comp, weights @ book @ found["W_V_comp"].weight.mT)
    heads = found["W_Q_mix"].heads
    assert heads is not None
    assert torch.equal(heads, model.lens.blocks[0].mix_attn.W_Q.mT)
    control: Any = ic.cat.EncoderConfig(**sizes, composition="last", composer="mlp")
    dense: Any = ic.cat.small_encoder(control, seed=0)
    named = {one.name: one.weight for one in weight_matrices(dense)}
    hidden = torch.nn.functional.gelu(h @ named["W_in_comp"].mT)
    expected = dense.lens.blocks[0].composition(h)[1]
    torch.testing.assert_close(hidden @ named["W_out_comp"].mT, expected)
    assert not {"W_Q_comp", "codebook"} & set(named)
    assert len(ic.complexity_report(model, progress=False).frame.query("matrix == 'codebook'")) == 1


@pytest.mark.parametrize("side", ["encoder", "decoder", "shared"])
def test_a_table_that_no_stack_looks_up_is_not_shown(side: str) -> None:
    """T5's stacks have an embedding each, tied to the one that TransformerLens shows."""
    if version("transformer-lens").startswith("3."):
        pytest.skip("encoder–decoders need transformer-lens 4")
    whole: Any = architectures.build("T5")
    tied = load_model(whole)
    assert torch.equal(tied.weight("W_E"), whole.encoder.embed_tokens.weight)
    whole = architectures.build("T5")
    table = nn.Embedding(*whole.shared.weight.shape)
    if side == "shared":
        whole.shared = table  # nobody looks up there
    else:
        getattr(whole, side).embed_tokens = table
    model = load_model(whole)
    with pytest.raises(CapabilityError, match="looks tokens up in a table of its own"):
        model.weight("W_E")
    with pytest.raises(CapabilityError, match="looks tokens up in a table of its own"):
        ic.complexity_report(model, progress=False)
