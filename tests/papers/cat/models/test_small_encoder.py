"""Small encoders against Hugging Face's BERT, CAT's equations written out, and themselves."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import interp_compose as ic
from interp_compose.errors import CorruptFileError, InputError, OptionError, PromptError
from interp_compose.models.own_folder import WEIGHTS, save_model
from interp_compose.papers.cat.models.bert import EncoderConfig, SmallEncoder
from interp_compose.papers.cat.models.composition import (
    Composition,
    DenseComposition,
    code_weights,
    same_word,
    word_means,
)
from interp_compose.papers.cat.models.init import init_bert
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel, small_encoder
from interp_compose.papers.cat.text.wordpiece import WordPieceTokenizer
from interp_compose.runs.checksums import SUMS, digests_of, write_sums

PLAIN = EncoderConfig(
    d_vocab=31, n_ctx=9, n_layers=3, d_model=12, n_heads=3, d_mlp=17, n_codes=13, n_last_codes=19
)
CAT = replace(PLAIN, composition="every")
TOKENS = torch.tensor([[2, 17, 6, 30, 11, 7, 3], [2, 13, 20, 6, 8, 3, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0]])
CONTINUING = (20, 30)
"""Entries that go on with a word: the third word of the first row is two tokens."""


def random(cfg: EncoderConfig, *, seed: int = 0, scale: float = 0.4) -> SmallEncoder:
    """Every parameter random, biases and LayerNorm's among them, in float64."""
    model = SmallEncoder(cfg).double().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64) * scale
        weight.data = 1 + noise if name.endswith(".w") else noise
    model.continues[list(CONTINUING)] = True
    return model


def hugging_face(model: SmallEncoder) -> Any:
    """BertForMaskedLM with the weights of a model without composition."""
    from transformers import BertConfig, BertForMaskedLM

    cfg = model.cfg
    theirs = BertForMaskedLM(
        BertConfig(
            vocab_size=cfg.d_vocab,
            hidden_size=cfg.d_model,
            num_hidden_layers=cfg.n_layers,
            num_attention_heads=cfg.n_heads,
            intermediate_size=cfg.d_mlp,
            max_position_embeddings=cfg.n_ctx,
            hidden_act="gelu",
            layer_norm_eps=cfg.eps,
            attn_implementation="eager",
        )
    ).double()
    own: dict[str, Tensor] = dict(model.named_parameters())
    state = {
        "bert.embeddings.word_embeddings.weight": own["embed.W_E"],
        "bert.embeddings.position_embeddings.weight": own["pos_embed.W_pos"],
        "bert.embeddings.token_type_embeddings.weight": own["token_type_embed.W_token_type"],
        "cls.predictions.transform.dense.weight": own["mlm_head.W"].mT,
        "cls.predictions.transform.dense.bias": own["mlm_head.b"],
        "cls.predictions.decoder.weight": own["embed.W_E"],
        "cls.predictions.decoder.bias": own["b_U"],
        "cls.predictions.bias": own["b_U"],
    }
    norms = {
        "bert.embeddings.LayerNorm": "embed_ln",
        "cls.predictions.transform.LayerNorm": "mlm_head.ln",
    }
    for i in range(cfg.n_layers):
        at, block = f"bert.encoder.layer.{i}", f"blocks.{i}"
        for letter, name in zip("QKV", ("query", "key", "value"), strict=True):
            state[f"{at}.attention.self.{name}.weight"] = (
                own[f"{block}.attn.W_{letter}"].transpose(0, 1).flatten(1).mT
            )
            state[f"{at}.attention.self.{name}.bias"] = own[f"{block}.attn.b_{letter}"].flatten()
        state[f"{at}.attention.output.dense.weight"] = own[f"{block}.attn.W_O"].flatten(0, 1).mT
        state[f"{at}.attention.output.dense.bias"] = own[f"{block}.attn.b_O"]
        for part, name in (("in", "intermediate"), ("out", "output")):
            state[f"{at}.{name}.dense.weight"] = own[f"{block}.mlp.W_{part}"].mT
            state[f"{at}.{name}.dense.bias"] = own[f"{block}.mlp.b_{part}"]
        norms |= {f"{at}.attention.output.LayerNorm": f"{block}.ln1"}
        norms |= {f"{at}.output.LayerNorm": f"{block}.ln2"}
    for theirs_name, name in norms.items():
        state |= {
            f"{theirs_name}.weight": own[f"{name}.w"],
            f"{theirs_name}.bias": own[f"{name}.b"],
        }
    missing, unknown = theirs.load_state_dict(state, strict=False)
    assert not unknown
    assert all("position_ids" in name for name in missing)
    return theirs.eval()


@torch.no_grad()
def test_without_composition_it_is_bert() -> None:
    model = random(PLAIN)
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 0]])
    theirs = hugging_face(model)(
        TOKENS, attention_mask=MASK, token_type_ids=segments, output_hidden_states=True
    )
    outputs = model(TOKENS, MASK, segments)
    real = MASK.bool()
    for own, expected in zip(outputs, theirs.hidden_states[1:], strict=True):
        torch.testing.assert_close(own.mix[real], expected[real], rtol=1e-9, atol=1e-9)
    logits = model.logits(outputs[-1].cont)
    torch.testing.assert_close(logits[real], theirs.logits[real], rtol=1e-9, atol=1e-9)


# ---- CAT's equations -----------------------------------------------------------------------------


def array(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().double().numpy()


def composed(module: Composition, h: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Eq. 2 of one vector, code by code."""
    e, w_q, w_k, w_v = (array(getattr(module, name)) for name in ("codebook", "W_Q", "W_K", "W_V"))
    query = h @ w_q
    cosines = []
    for code in e:
        key = code @ w_k
        cosines.append(query @ key / (np.linalg.norm(query) * np.linalg.norm(key)))
    relu = np.maximum(cosines, 0)
    root = math.sqrt(float(np.mean(relu**2)))
    weights = relu / root if root > 0 else relu
    return weights, sum(o * (code @ w_v) for o, code in zip(weights, e, strict=True))


def mixed(block: Any, comp: NDArray[Any], cont: NDArray[Any]) -> NDArray[Any]:
    """Eq. 3 of one sentence without padding, head by head."""
    both, attn = np.concatenate([comp, cont]), block.mix_attn
    out = np.zeros_like(both) + array(attn.b_O)
    for head in range(attn.n_heads):
        q, k, v = (
            both @ array(getattr(attn, f"W_{x}"))[head] + array(getattr(attn, f"b_{x}"))[head]
            for x in "QKV"
        )
        scores = q @ k.T / math.sqrt(q.shape[1])
        pattern = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        out += pattern @ v @ array(attn.W_O)[head]
    half = len(cont)
    return 0.5 * (out[:half] + out[half:])


@torch.no_grad()
@pytest.mark.parametrize(("level", "mix"), [("word", "bare"), ("token", "layer")])
def test_blocks_compose_as_the_equations_say(level: Any, mix: Any) -> None:
    model = random(replace(CAT, level=level, mix=mix))
    words_of_rows = [[[0], [1], [2, 3], [4], [5], [6]], [[0], [1, 2], [3], [4], [5]]]
    outputs = model(TOKENS, MASK)
    for row, words in enumerate(words_of_rows):
        n = int(MASK[row].sum())
        for block, out in zip(model.blocks, outputs, strict=True):
            cont = array(out.cont[row, :n])
            groups = words if level == "word" else [[i] for i in range(n)]
            comp, weights = np.zeros_like(cont), {}
            for group in groups:
                o, vector = composed(block.composition, cont[group].mean(axis=0))
                for token in group:
                    comp[token], weights[token] = vector, o
            assert out.comp is not None
            assert out.weights is not None
            np.testing.assert_allclose(array(out.comp[row, :n]), comp, rtol=1e-6, atol=1e-8)
            for token in range(n):
                found = array(out.weights[row, token])
                np.testing.assert_allclose(found, weights[token], rtol=1e-6, atol=1e-9)
            expected = mixed(block, comp, cont)
            if mix == "layer":
                total = expected + 0.5 * (comp + cont)
                centred = total - total.mean(axis=1, keepdims=True)
                spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + model.cfg.eps)
                expected = centred / spread * array(block.ln_mix.w) + array(block.ln_mix.b)
            np.testing.assert_allclose(array(out.mix[row, :n]), expected, rtol=1e-6, atol=1e-9)


def test_a_row_that_begins_with_what_continues_a_word() -> None:
    """Its first token is a word of its own, and not a part of the next."""
    model = random(CAT)
    tokens = torch.tensor([[20, 4, 7, 8, 30], [0, 0, 20, 30, 4], [20, 30, 4, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    found = model.words_of(tokens, mask).tolist()
    assert found == [[0, 1, 2, 3, 3], [-1, -1, 0, 0, 1], [0, 0, 1, -1, -1]]
    assert model.words_of(tokens[:1]).tolist() == found[:1]


@torch.no_grad()
def test_each_block_reads_what_the_one_below_mixed() -> None:
    model = random(CAT)
    outputs = model(TOKENS, MASK)
    words, masked = model.words_of(TOKENS, MASK), (MASK == 0)[:, None, None, :]
    for i in (1, 2):
        same = same_word(words, torch.float64)
        again = model.blocks[i](outputs[i - 1].mix, masked, same)
        torch.testing.assert_close(again.mix, outputs[i].mix, rtol=0, atol=0)
    alone = random(replace(PLAIN, composition="last"))(TOKENS, MASK)
    assert [out.comp is None for out in alone] == [True, True, False]
    assert [out.mix is out.cont for out in alone] == [True, True, False]


@torch.no_grad()
def test_hooks_of_composition_hold_what_the_equations_give_and_edits_of_them_act() -> None:
    """h_cont by Hugging Face's layers; the third word is two tokens."""
    lens, plain, sentence = random(replace(CAT, mix="bare")), random(PLAIN), TOKENS[:1]
    plain.load_state_dict(lens.state_dict(), strict=False)
    theirs = hugging_face(plain).bert
    model = SmallEncoderModel(lens, name="cat", output="mix")
    parts = ("hook_cont", "composition.hook_codes", "hook_comp", "hook_mix")
    names = [f"blocks.{i}.{part}" for i in range(3) for part in parts]
    logits, cache = model.run_with_cache(sentence, names)
    entry = theirs.embeddings(sentence)
    for i, block in enumerate(lens.blocks):
        at = f"blocks.{i}"
        cont = array(cache[f"{at}.hook_cont"][0])
        given = array(theirs.encoder.layer[i](entry)[0].reshape(cont.shape))
        np.testing.assert_allclose(cont, given, rtol=1e-9, atol=1e-9)
        comp = np.zeros_like(cont)
        for word in ([0], [1], [2, 3], [4], [5], [6]):
            o, comp[word] = composed(block.composition, cont[word].mean(axis=0))
            for codes in array(cache[f"{at}.composition.hook_codes"][0, word]):
                np.testing.assert_allclose(codes, o, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(array(cache[f"{at}.hook_comp"][0]), comp, rtol=1e-6, atol=1e-8)
        entry = cache[f"{at}.hook_mix"]
        np.testing.assert_allclose(array(entry[0]), mixed(block, comp, cont), rtol=1e-6, atol=1e-8)
    for name in names:
        same = model.run_with_hooks(sentence, [(name, lambda value, hook: value)])
        assert torch.equal(same, logits)
        halved = model.run_with_hooks(sentence, [(name, lambda value, hook: value / 2)])
        assert float((halved - logits).abs().max()) > 1e-3, name


@torch.no_grad()
def test_a_vector_that_is_like_no_code_is_composed_of_none() -> None:
    module = Composition(4, 3).double()
    for name, weight in module.named_parameters():
        weight.data = (torch.ones(3, 4) if name == "codebook" else torch.eye(4)).double()
    weights, comp = module(torch.tensor([[[-1.0, -1, -1, -1], [0, 0, 0, 0]]]).double())
    assert weights.tolist() == [[[0.0] * 3] * 2]
    assert comp.tolist() == [[[0.0] * 4] * 2]
    weights, _ = module(torch.ones(1, 1, 4).double())
    np.testing.assert_allclose(weights[0, 0].numpy(), [1.0, 1, 1], rtol=1e-6)


@torch.no_grad()
def test_codes_of_the_norm_one_are_the_same_functions_of_another_w_v() -> None:
    """Both give the same weights O, of the root mean square 1."""
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    printed, unit = Composition(6, 9).double(), Composition(6, 9, norm="unit").double()
    for name, weight in printed.named_parameters():
        weight.data = torch.randn_like(weight)
        unit.get_parameter(name).data = weight * (3.0 if name == "W_V" else 1.0)
    found, expected = unit(x), printed(x)
    assert torch.equal(found[0], expected[0])
    np.testing.assert_allclose(found[1].numpy(), expected[1].numpy(), rtol=1e-12)
    codes, values = (one.numpy() for one in (unit.codebook, unit.W_V))
    o = array(found[0][0, 0])
    by_hand = (o / np.linalg.norm(o)) @ codes @ values
    np.testing.assert_allclose(found[1][0, 0].numpy(), by_hand, rtol=1e-9)
    block: Any = SmallEncoder(replace(CAT, code_norm="unit")).blocks[0]
    assert block.composition.scale == CAT.n_codes**-0.5


@torch.no_grad()
def test_without_a_norm_weights_are_the_cosines_above_0() -> None:
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    plain = Composition(6, 9, norm="none").double()
    for weight in plain.parameters():
        weight.data = torch.randn_like(weight)
    weights, comp = plain(x)
    codes, W_V = array(plain.codebook), array(plain.W_V)
    keys = codes @ array(plain.W_K)
    for row, column in np.ndindex(2, 3):
        query = array(x[row, column]) @ array(plain.W_Q)
        cosines = keys @ query / np.linalg.norm(keys, axis=1) / np.linalg.norm(query)
        o = np.maximum(cosines, 0)
        np.testing.assert_allclose(array(weights[row, column]), o, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(array(comp[row, column]), o @ codes @ W_V, rtol=1e-9)
        np.testing.assert_allclose(array(plain.cosines(x[row, column])), cosines, rtol=1e-9)
    normed = Composition(6, 9).double()
    normed.load_state_dict(plain.state_dict())
    np.testing.assert_allclose(array(normed(x)[0]), array(code_weights(plain.cosines(x))), rtol=0)
    assert not torch.equal(normed(x)[0], weights)
    block: Any = SmallEncoder(replace(CAT, code_norm="none")).blocks[0]
    assert (block.composition.is_normed, block.composition.scale) == (False, 1.0)


def written_out(cosines: Tensor) -> Tensor:
    """ReLU and RMSNorm, a row that has nothing left over."""
    kept = torch.stack([torch.clamp(one, min=0) for one in cosines])
    mean = kept.pow(2).sum(dim=-1, keepdim=True) / kept.shape[-1]
    return kept / torch.where(mean > 0, mean, torch.ones_like(mean)).sqrt()


@pytest.mark.parametrize(
    ("dtype", "apart"), [(torch.float64, 1e-9), (torch.float32, 1e-5), (torch.bfloat16, 0.03)]
)
def test_the_gradient_of_a_codes_weights_is_autograds(dtype: torch.dtype, apart: float) -> None:
    """One row has no code, which has the gradient 0, and one has a single one."""
    generator = torch.Generator().manual_seed(3)
    cosines = torch.rand(2, 5, 7, generator=generator, dtype=torch.float64) * 2 - 1
    cosines[0, 1] = -cosines[0, 1].abs()
    cosines[1, 2] = torch.tensor([-0.5] * 6 + [0.25])
    into = torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    one, other = (cosines.to(kind).clone().requires_grad_() for kind in (dtype, torch.float64))
    found, expected = code_weights(one), written_out(other)
    found.backward(into.to(dtype))
    expected.backward(into)
    assert found.dtype == dtype
    assert one.grad is not None
    assert other.grad is not None
    assert one.grad.dtype == dtype
    for ours, theirs in ((found, expected), (one.grad, other.grad)):
        np.testing.assert_allclose(array(ours), array(theirs), rtol=apart, atol=10 * apart)
    assert one.grad[0, 1].tolist() == [0.0] * 7
    if dtype == torch.float64:
        assert torch.autograd.gradcheck(code_weights, (cosines.clone().requires_grad_(),))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_word_means(dtype: torch.dtype) -> None:
    x = torch.arange(24, dtype=dtype).view(2, 4, 3)
    words = torch.tensor([[0, 0, 5, -1], [3, 1, 3, 3]])  # with gaps, in any order
    found = word_means(x, same_word(words, dtype)).float()
    assert found[0, 0].tolist() == found[0, 1].tolist() == [1.5, 2.5, 3.5]
    assert found[0, 2].tolist() == x[0, 2].tolist()
    assert found[0, 3].tolist() == [0, 0, 0]
    three = [(12 + 18 + 21) / 3, (13 + 19 + 22) / 3, (14 + 20 + 23) / 3]
    for token in (0, 2, 3):
        np.testing.assert_allclose(found[1, token].numpy(), three, rtol=1e-2)
    x[0, 3] = torch.nan  # padding
    assert bool(word_means(x, same_word(words, dtype)).isfinite().all())
    single = torch.arange(4).repeat(2, 1)
    torch.testing.assert_close(
        word_means(x[:, :3], same_word(single[:, :3], dtype)), x[:, :3], rtol=0, atol=0
    )


def test_the_controls() -> None:
    codes, dense = Composition(12, 19), DenseComposition(12, 19)
    count = [sum(p.numel() for p in one.parameters()) for one in (codes, dense)]
    assert abs(count[0] - count[1]) <= 12  # within one neuron
    outputs = random(replace(CAT, composer="mlp"))(TOKENS, MASK)
    assert all(out.weights is None and out.comp is not None for out in outputs)
    fixed = random(replace(CAT, composer="fixed"))
    frozen = {name for name, p in fixed.named_parameters() if not p.requires_grad}
    assert frozen == {f"blocks.{i}.composition.codebook" for i in range(3)}
    torch.testing.assert_close(
        fixed(TOKENS, MASK)[-1].mix, random(CAT)(TOKENS, MASK)[-1].mix, rtol=0, atol=0
    )


# ---- behind the one surface ----------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("composition", ["none", "last", "every"])
def test_what_it_honours(composition: Any) -> None:
    model: Any = small_encoder(replace(PLAIN, composition=composition), seed=0)
    model.lens.continues[list(CONTINUING)] = True
    held = {"forward", "resume", "positions", "hidden", "edit_resid", "edit_pattern"}
    held |= {"edit_scores", "edit_z", "edit_post", "mask_attention"}
    for output in model.lens.outputs:
        probes = model.with_output(output).capabilities.probes
        assert {name for name, probe in probes.items() if probe.held} - {"unembed"} == held
        assert probes["unembed"].held == (output == model.lens.outputs[-1])


@torch.no_grad()
@pytest.mark.parametrize("output", ["cont", "comp", "mix"])
def test_padding_on_either_side_changes_nothing(output: Any) -> None:
    lens = random(CAT).float()
    model = SmallEncoderModel(lens, name="cat", output=output)
    alone = model.encode(TOKENS[1:, :6])
    left = torch.cat([torch.zeros(1, 1, dtype=torch.long), TOKENS[1:, :6]], dim=1)
    for tokens, mask, own in (
        (TOKENS[1:], MASK[1:], slice(0, 6)),
        (left, torch.tensor([[0, 1, 1, 1, 1, 1, 1]]), slice(1, 7)),
    ):
        found = model.encode(tokens, attention_mask=mask)[:, own]
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("output", ["cont", "comp", "mix"])
def test_nothing_of_a_word_that_is_cut_out_reaches_others(output: Any) -> None:
    model = SmallEncoderModel(random(CAT), name="cat", output=output)
    model.lens.float()
    other = TOKENS[:1].clone()
    other[0, 2:4] = torch.tensor([8, 20])  # another word of two tokens
    found = []
    for tokens in (TOKENS[:1], other):
        with ic.mask_attention(model, keys=[2, 3]):
            found.append(model.encode(tokens))
    kept = [0, 1, 4, 5, 6]
    assert torch.equal(found[0][:, kept], found[1][:, kept])
    with ic.mask_attention(model, keys=[2, 3], layers=[0, 1]):
        through_an_open_layer = [model.encode(tokens) for tokens in (TOKENS[:1], other)]
    moved = (through_an_open_layer[0] - through_an_open_layer[1])[:, kept].abs().max()
    assert float(moved) > 1e-4


@torch.no_grad()
def test_pooling_a_word_is_pooling_its_tokens() -> None:
    model = SmallEncoderModel(random(CAT).float(), name="cat", output="comp")
    groups = torch.tensor([[0, 1, 2, 2, 3, 4, 5]])
    clean = model.resid_pre(TOKENS[:1], 1, attention_mask=MASK[:1])
    with ic.pool_at(model, 1, groups, mode="collapse"):
        pooled = model.encode(TOKENS[:1])
    by_hand = torch.cat([clean[:, :2], clean[:, 2:4].mean(1, keepdim=True), clean[:, 4:]], dim=1)
    outputs = model.lens.run(by_hand, 1, 3, torch.ones(1, 6).long(), torch.arange(6)[None])
    torch.testing.assert_close(pooled, outputs[-1].comp, rtol=1e-5, atol=1e-5)


def test_saved_and_loaded_with_tokenizer_and_words(tmp_path: Path) -> None:
    texts = ["the water body", "body of water, watery", "unbodied waters"] * 3
    tokenizer = WordPieceTokenizer.trained(texts, 40)
    cfg = replace(CAT, d_vocab=len(tokenizer))
    model: Any = small_encoder(cfg, seed=1, tokenizer=tokenizer)
    entries = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    assert model.lens.continues.tolist() == [one.startswith("##") for one in entries]
    assert 0 < int(model.lens.continues.sum()) < len(tokenizer)
    save_model(model.with_output("comp"), tmp_path / "cat")
    again: Any = ic.load_model(tmp_path / "cat")
    assert again.output == "comp"
    assert again.lens.cfg == cfg
    assert torch.equal(again.lens.continues, model.lens.continues)
    texts = ["waters", "a body"]
    assert torch.equal(
        ic.embed_texts(again, texts), ic.embed_texts(model.with_output("comp"), texts)
    )
    assert not torch.equal(ic.embed_texts(again, texts), ic.embed_texts(model, texts))


OTHERS: list[dict[str, Any]] = [
    {"composition": "none"},
    {"composition": "last"},
    {"composition": "every"},
    {"composition": "every", "composer": "mlp"},
    {"composition": "every", "mix": "bare"},
    {"composition": "every", "n_codes": 14},
    {"composition": "every", "n_last_codes": 18},
]


def test_weights_of_another_composition_are_refused(tmp_path: Path) -> None:
    models = [small_encoder(replace(PLAIN, **change), seed=0) for change in OTHERS]
    for i, model in enumerate(models):
        ic.save_weights(model, tmp_path / f"{i}.safetensors")
        save_model(model, tmp_path / str(i))
    for (i, model), j in product(enumerate(models), range(len(models))):
        if i == j:
            ic.load_weights(model, tmp_path / f"{j}.safetensors")
            continue
        before = {name: one.clone() for name, one in model.state_dict().items()}
        with pytest.raises(InputError):
            ic.load_weights(model, tmp_path / f"{j}.safetensors")
        assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
        folder = tmp_path / f"{i}-{j}"  # a whole folder with the other's shape, sums and all
        shutil.copytree(tmp_path / str(i), folder)
        described = (tmp_path / str(j) / "encoder.json").read_bytes()
        (folder / "encoder.json").write_bytes(described)
        with pytest.raises(CorruptFileError, match="encoder.json"):
            ic.load_model(folder)
        write_sums(folder / SUMS, digests_of(folder, ("encoder.json", WEIGHTS)))
        with pytest.raises(CorruptFileError, match="does not hold a small encoder"):
            ic.load_model(folder)


def test_equal_seeds_give_equal_weights_where_models_have_the_same() -> None:
    plain, cat = (dict(small_encoder(cfg, seed=3).lens.named_parameters()) for cfg in (PLAIN, CAT))
    assert set(plain) < set(cat)
    assert all(torch.equal(weight, cat[name]) for name, weight in plain.items())
    wide = SmallEncoder(replace(PLAIN, d_model=48, d_vocab=5000))
    init_bert(wide, seed=0)
    assert float(wide.embed.W_E.detach().std()) == pytest.approx(
        0.02 * math.sqrt(768 / 48), rel=0.01
    )
    assert bool((wide.embed_ln.w == 1).all())
    assert not wide.b_U.any()


def test_what_is_refused() -> None:
    with pytest.raises(PromptError, match="a sequence has 10 tokens, and the model n_ctx=9"):
        random(PLAIN)(torch.zeros(1, 10, dtype=torch.long))
    for change, message in (
        ({"n_codes": 0}, "n_codes=0"),
        ({"n_heads": 5}, "n_heads=5"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"n_layers": 100_000}, "n_layers=100000"),
        ({"d_vocab": 2**31}, "would have more than"),
    ):
        with pytest.raises(OptionError, match=message):
            replace(PLAIN, **change)
    model: Any = small_encoder(PLAIN, seed=0)
    with pytest.raises(OptionError, match="output='comp': expected one of cont"):
        model.with_output("comp")
    with pytest.raises(OptionError, match="seed=-1"):
        small_encoder(PLAIN, seed=-1)
    with pytest.raises(OptionError, match="the tokenizer is a int: expected one of WordPiece"):
        small_encoder(PLAIN, seed=0, tokenizer=0)
    tokenizer = WordPieceTokenizer.trained(["ab abc abcd abcd abc ab"] * 2, 13)
    with pytest.raises(InputError, match="expected at most 12"):
        small_encoder(replace(PLAIN, d_vocab=12), seed=0, tokenizer=tokenizer)
