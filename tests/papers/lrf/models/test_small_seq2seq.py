"""Small encoder–decoders behind the one surface: resumed, pooled, masked, saved."""

from __future__ import annotations

import copy
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import interp_compose as ic
from interp_compose.errors import CapabilityError, CorruptFileError, InputError
from interp_compose.interventions.leak import attention_leak
from interp_compose.interventions.pooling import PooledLayout
from interp_compose.interventions.pooling_sweep import SweptPooling, sweep
from interp_compose.interventions.streams import resumed
from interp_compose.models.base import Streams
from interp_compose.models.weight_matrices import weight_matrices
from interp_compose.papers.lrf.models import seq2seq
from interp_compose.papers.lrf.models.small_seq2seq import SmallSeq2SeqModel
from interp_compose.papers.shared.text.vocabulary import Vocabulary

KINDS = [
    *(("parameters", "relative", "post"), ("both", "sinusoidal", "post")),
    *(("both", "relative", "pre"), ("encoder", "learned", "pre"), ("decoder", "relative", "post")),
    *(("previous", "sinusoidal", "pre"), ("none", "sinusoidal", "post")),
]
"""fuse, positions, norm."""


def made(fuse: str, positions: str, norm: str, **more: Any) -> SmallSeq2SeqModel:
    shape = {"d_model": 8, "n_heads": 2, "d_mlp": 12, "n_encoder_layers": 3, "n_decoder_layers": 2}
    kind: dict[str, Any] = {"fuse": fuse, "positions": positions, "norm": norm}
    model = ic.lrf.small_seq2seq(ic.lrf.Seq2SeqConfig(11, 9, 12, **shape, **kind), seed=0, **more)
    assert isinstance(model, SmallSeq2SeqModel)
    with torch.no_grad():  # biases are zero at first
        generator = torch.Generator().manual_seed(1)
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


@pytest.fixture(params=KINDS, ids=str, scope="module")
def model(request: pytest.FixtureRequest) -> SmallSeq2SeqModel:
    return made(*request.param)


SOURCE = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 10, 3, 4, 0, 0], [0, 0, 5, 5, 6, 7]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
TARGET = torch.tensor([[1, 3, 4, 5], [1, 6, 7, 8], [1, 8, 3, 3]])


@torch.no_grad()
def test_it_computes_what_its_module_does_whatever_is_padded(model: SmallSeq2SeqModel) -> None:
    tokens, mask = model.join(SOURCE, TARGET, MASK)
    logits = model(tokens, attention_mask=mask)
    assert logits[:, :6].isnan().all()  # sources have none
    for row in range(3):
        source = SOURCE[row][MASK[row] == 1][None]
        alone = model.lens(source, TARGET[row : row + 1])
        torch.testing.assert_close(logits[row : row + 1, 6:], alone, atol=2e-6, rtol=1e-5)


@torch.no_grad()
def test_it_is_resumed_exactly_at_every_layer(model: SmallSeq2SeqModel) -> None:
    tokens, mask = model.join(SOURCE, TARGET, MASK)
    expected = model(tokens, attention_mask=mask)[:, 6:]
    places = {"attention_mask": mask, "position_ids": model.positions(tokens, mask)}
    for layer in range(model.n_layers):
        resid = model.resid_pre(tokens, layer, attention_mask=mask)
        assert torch.equal(model.resume(resid, layer, **places, read="logits")[:, 6:], expected)


def slow_pooled(model: SmallSeq2SeqModel, layer: int, word: list[int]) -> Tensor:
    """Logits of row 0 where, before encoder block ``layer``, the tokens of ``word`` became their
    mean: in every residual so far, which fuse-attention will read."""
    lens = model.lens
    resids = [lens.source_embedded(SOURCE[:1])]
    resids = lens.run_encoder(resids, 0, layer)
    kept = [i for i in range(6) if i not in word[:-1]]  # the last one stands for the word
    pooled = []
    for resid in resids:
        one = resid.clone()
        one[:, word[-1]] = resid[:, word].mean(dim=1)
        pooled.append(one[:, kept])
    for block in lens.encoder_blocks:
        if hasattr(block.attn, "W_R"):
            block.attn.positions = torch.tensor([kept])
    resids = lens.run_encoder(pooled, layer, 3)
    for block in lens.encoder_blocks:
        if hasattr(block.attn, "W_R"):
            block.attn.positions = None
    memory = lens.encoder_final(resids[-1])
    logits: Tensor = lens.logits(lens.decoded(TARGET[:1], memory))
    return logits


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_pooling_a_word_pools_all_that_later_layers_read(
    model: SmallSeq2SeqModel, layer: int
) -> None:
    tokens, mask = model.join(SOURCE[:1], TARGET[:1])
    groups = torch.full_like(tokens, -1)
    groups[:, 2:5] = 0
    with ic.pool_at(model, layer, groups):
        logits = model(tokens, attention_mask=mask)[:, -4:]
    torch.testing.assert_close(logits, slow_pooled(model, layer, [2, 3, 4]))
    assert not torch.allclose(logits, model(tokens, attention_mask=mask)[:, -4:], atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 1])
def test_pooling_in_the_decoder_pools_what_it_and_cross_attention_read(
    model: SmallSeq2SeqModel, layer: int
) -> None:
    """A source word in the encoder's output, and a target word in every residual of the decoder."""
    lens = model.lens
    tokens, mask = model.join(SOURCE[:1], TARGET[:1])
    groups = torch.tensor([[-1, -1, 0, 0, -1, -1, -1, 1, 1, -1]])
    with ic.pool_at(model, 3 + layer, groups):
        found = model(tokens, attention_mask=mask)[:, -3:]
    memory = lens.encoded(SOURCE[:1])
    memory[:, 3] = memory[:, 2:4].mean(dim=1)
    memory = memory[:, [0, 1, 3, 4, 5]]
    clean = lens.encoded(SOURCE[:1])
    resids = lens.run_decoder([lens.target_embedded(TARGET[:1])], 0, layer, clean)
    for resid in resids:
        resid[:, 2] = resid[:, 1:3].mean(dim=1)
    kept = torch.tensor([[0, 2, 3]])
    attentions: list[Any] = [block.self_attn for block in lens.decoder_blocks]  # type: ignore[union-attr]
    for attention in attentions:
        if hasattr(attention, "W_R"):
            attention.positions = kept
    resids = lens.run_decoder([resid[:, kept[0]] for resid in resids], layer, 2, memory)
    for attention in attentions:
        if hasattr(attention, "W_R"):
            attention.positions = None
    torch.testing.assert_close(found, lens.logits(lens.decoder_final(resids[-1])))
    plain = model(tokens, attention_mask=mask)[:, [6, 8, 9]]
    assert not torch.allclose(found, plain, atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("model", KINDS[:3], indirect=True, ids=str)
def test_nothing_of_a_pooled_word_passes_by(model: SmallSeq2SeqModel) -> None:
    """Nobody attends to a token until its word is pooled; from there every token of the word has
    the last one's vector. What the token was then moves nothing, although its position goes on,
    where fuse-attention reads every earlier layer."""
    tokens, _ = model.join(SOURCE[:1], TARGET[:1])
    other = tokens.clone()
    other[0, 2] = 10
    others = [position for position in range(10) if position != 2]
    groups = torch.full_like(tokens, -1)
    groups[:, 2:4] = 0
    for layer in (1, 2):
        with (
            ic.mask_attention(model, keys=[2], queries=others, layers=list(range(layer))),
            ic.pool_at(model, layer, groups, "last", mode="broadcast"),
        ):
            one, two = model(tokens)[:, 6:], model(other)[:, 6:]
        assert torch.equal(one, two)
    with (
        ic.mask_attention(model, keys=[2], queries=others, layers=[0]),
        ic.pool_at(model, 1, groups, "mean", mode="broadcast"),
    ):
        assert not torch.equal(model(tokens)[:, 6:], model(other)[:, 6:])


@torch.no_grad()
@pytest.mark.parametrize("model", KINDS[:3], indirect=True, ids=str)
def test_one_pass_over_all_layers_equals_one_call_for_each(model: SmallSeq2SeqModel) -> None:
    tokens, mask = model.join(SOURCE, TARGET, MASK)
    groups = torch.full_like(tokens, -1)
    groups[:, 2:4], groups[:, 7:9] = 0, 1
    positions, layers = model.positions(tokens, mask), list(range(5))

    def finish(streams: Streams, layer: int, row: Tensor) -> Tensor:
        return resumed(model, streams, layer)[:, -1]

    found = sweep(
        model,
        lambda layer: model.resid_pre(tokens, layer, attention_mask=mask),
        mask,
        positions,
        [SweptPooling("mean", "mean", PooledLayout.from_groups(groups, mask))],
        layers,
        finish,
        mode="collapse",
        max_tokens=40,
    )
    for layer in layers:
        with ic.pool_at(model, layer, groups):
            expected = model.forward(tokens, attention_mask=mask, read="last")[:, -1]
        torch.testing.assert_close(found[layer, 0], expected)


@torch.no_grad()
@pytest.mark.parametrize("model", KINDS[:1], indirect=True, ids=str)
def test_heads_and_neurons_are_replaced(model: SmallSeq2SeqModel) -> None:
    """A second self-attention counts as self-attention."""
    tokens, _ = model.join(SOURCE[:1], TARGET[:1])
    clean = model(tokens)[:, 6:]
    of: dict[str, dict[str, Any]] = {
        "encoder_blocks.1.[as]*.hook_z": {"heads": [(1, 1)]},
        "decoder_blocks.1.s*.hook_z": {"heads": [(4, 1)], "attention": "self"},
        "decoder_blocks.0.cross_attn.hook_z": {"heads": [(3, 1)], "attention": "cross"},
        "encoder_blocks.2.mlp.hook_post": {"neurons": [(2, 1)]},
    }
    for pattern, what in of.items():

        def zero(activation: Tensor, hook: Any) -> Tensor:
            activation = activation.clone()
            activation[:, :, 1] = 0
            return activation

        with ic.ablate(model, **what):
            found = model(tokens)[:, 6:]
        with model.hooks([(partial(fnmatchcase, pat=pattern), zero)]):
            assert torch.equal(found, model(tokens)[:, 6:])
        assert not torch.equal(found, clean)


WORDS = {
    "source_words": Vocabulary(tuple("abcdefgh")),
    "target_words": Vocabulary(tuple("ABCDEF")),
}


@torch.no_grad()
def test_a_curve_of_texts_in_its_own_words() -> None:
    model = made("both", "sinusoidal", "post", **WORDS)
    examples = [
        ic.Example("a b c d", "B", spans=((0, 3),)),
        ic.Example("h a a", " A", spans=((2, 5),), target="D E"),
    ]
    curve = ic.cap_curve(model, examples, unit="span", pooling=["mean"], progress=False)
    outcomes = curve.frames["outcomes"].query("pooling == 'mean'").set_index(["example", "layer"])
    calls = [([3, 4, 5, 6, 2], [1], [0, 0, -1, -1, -1, -1]), ([10, 3, 3, 2], [1, 6, 7], None)]
    for index, (source, target, groups) in enumerate(calls):
        tokens, _ = model.join(torch.tensor([source]), torch.tensor([target]))
        unit = torch.tensor([groups or [-1, 0, 0, -1, -1, -1, -1]])
        clean = model.forward(tokens, read="last")[0, -1]
        row = curve.frames["clean"].set_index("example").loc[index]
        assert row["prediction"] == int(clean.argmax())
        names = ("<pad>", "<bos>", "<eos>", *WORDS["target_words"].words)
        assert row["prediction_text"] == names[int(clean.argmax())]
        for layer in (0, 2, 4):
            with ic.pool_at(model, layer, unit):
                logp = model.forward(tokens, read="last")[0, -1].log_softmax(-1)
            answer = [4, 3][index]
            found = outcomes.loc[(index, layer)]
            assert float(found["target_logprob"]) == pytest.approx(float(logp[answer]), abs=1e-5)
    with pytest.raises(InputError, match="'x' in 'a x' is not among the 8 words"):
        ic.cap_curve(model, [ic.Example("a x", "A", spans=((0, 3),))], unit="span", progress=False)
    with pytest.raises(InputError, match="'Z' .*is not among the 6 words"):
        ic.cap_curve(model, [ic.Example("a b", "Z", spans=((0, 3),))], unit="span", progress=False)


def test_cap_is_watched_while_it_trains() -> None:
    """Each look is the curve of the weights of that step, and the answer becomes right; by the
    model and by its module alone, with one tokenizer."""
    model = made("both", "sinusoidal", "post", **WORDS)
    examples = [ic.Example("a b c d", "B", spans=((0, 3),))]
    asked: dict[str, Any] = {"examples": examples, "unit": "span", "layers": [0, 3]}
    watchers = [
        ic.watch(one, measures=("cap",), every=1, budget=None, **asked, **passed)
        for one, passed in ((model, {}), (model.lens, {"tokenizer": model.tokenizer}))
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    source, target = torch.tensor([[3, 4, 5, 6, 2]]), torch.tensor([[1]])
    expected = []
    for step in range(3):
        for watcher in watchers:
            watcher(step)
        curve = ic.cap_curve(model, pooling="mean", controls=False, progress=False, **asked)
        expected += [curve.frame["clean_accuracy"][0], *curve.frame["accuracy"]]
        logits = model.lens.train()(source, target)[:, -1]
        cross_entropy(logits, torch.tensor([4])).backward()
        optimizer.step()
        optimizer.zero_grad()
        model.lens.eval()
    assert expected[:3] == [0, 0, 0]
    assert expected[-3:] == [1, 1, 1]
    for watcher in watchers:
        assert watcher.frame["value"].tolist() == expected
        assert watcher.frame["layer"].tolist() == [-1, 0, 3] * 3


@torch.no_grad()
def test_a_source_word_that_nothing_attends_to_has_no_effect(model: SmallSeq2SeqModel) -> None:
    """Fuse-attention reads the same position alone, so that no edge remains."""
    tokens, _ = model.join(SOURCE[:1], TARGET[:1])
    other = tokens.clone()
    other[0, 2] = 10
    others = [position for position in range(10) if position != 2]
    assert not torch.equal(model(tokens)[:, 6:], model(other)[:, 6:])
    with ic.mask_attention(model, keys=[2], queries=others):
        one, two = model(tokens)[:, 6:], model(other)[:, 6:]
    assert torch.equal(one, two)


@torch.no_grad()
def test_hooks_at_the_entry_of_a_block_act_on_its_residual(model: SmallSeq2SeqModel) -> None:
    """Identity is bit-equal; an edit acts in a resumed call as in a whole one."""
    tokens, mask = model.join(SOURCE, TARGET, MASK)
    plain = model(tokens, attention_mask=mask)[:, 6:]
    for name in ("encoder_blocks.1.hook_resid_pre", "decoder_blocks.1.hook_resid_pre"):
        with model.hooks([(name, lambda resid, hook: resid)]):
            assert torch.equal(model(tokens, attention_mask=mask)[:, 6:], plain)
        with model.hooks([(name, lambda resid, hook: resid * 0.5)]):
            edited = model(tokens, attention_mask=mask)[:, 6:]
            layer = 1 if name.startswith("encoder") else 4
            resid = model.resid_pre(tokens, layer, attention_mask=mask)
        places = {"attention_mask": mask, "position_ids": model.positions(tokens, mask)}
        assert torch.equal(model.resume(resid, layer, **places, read="logits")[:, 6:], edited)
        assert not torch.allclose(edited, plain, atol=1e-3)
    assert torch.equal(model(tokens, attention_mask=mask)[:, 6:], plain)


def test_saved_and_loaded_with_its_vocabularies(tmp_path: Path) -> None:
    model = made("both", "relative", "pre", **WORDS)
    folder = ic.save_model(model, tmp_path / "model")
    again = ic.load_model(folder)
    assert isinstance(again, SmallSeq2SeqModel)
    assert again.source_words == WORDS["source_words"]
    assert again.tokenizer.target_tokenizer("B A")["input_ids"] == [4, 3, 2]
    assert again.tokenizer.decode([5, 3]) == "c a"
    assert again.lens.cfg == model.lens.cfg
    tokens, mask = model.join(SOURCE, TARGET, MASK)
    logits = [one(tokens, attention_mask=mask)[:, 6:] for one in (model, again)]
    assert torch.equal(*logits)
    config = folder / "seq2seq.json"
    config.write_text(config.read_text().replace("relative", "learned"))
    with pytest.raises(CorruptFileError, match="it is not what SHA256SUMS beside it lists"):
        ic.load_model(folder)


def test_one_embedding_of_both_sides_stays_one(tmp_path: Path) -> None:
    both = Vocabulary(("a", "A", "b"))
    shape = {"d_model": 8, "n_heads": 2, "d_mlp": 12, "one_vocabulary": True}
    config = ic.lrf.Seq2SeqConfig(len(both), len(both), 6, **shape)
    model = ic.lrf.small_seq2seq(config, seed=0, source_words=both, target_words=both)
    loaded = ic.load_model(ic.save_model(model, tmp_path / "model"))
    for lens in (model.lens, copy.deepcopy(model.lens), loaded.lens.double()):
        assert lens.decoder_embed.W_E is lens.embed.W_E
        names = [name for name, _ in lens.named_parameters() if name.endswith("W_E")]
        assert names == ["embed.W_E"]
        assert torch.equal(lens.embed.W_E.float(), model.lens.embed.W_E)
    tied = {one.name: one.tied_to for one in weight_matrices(model) if one.tied_to}
    assert tied == {"W_E_target": "W_E"}


def test_a_decoder_that_reads_later_tokens_fails_the_probe_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what relies on it is refused."""

    def padding(length: int, mask: Tensor | None, device: torch.device) -> Tensor:
        masked = torch.zeros((1, 1, length, length), dtype=torch.bool, device=device)
        return masked if mask is None else masked | (mask == 0)[:, None, None, :]

    monkeypatch.setattr(seq2seq, "causally_masked", padding)
    model = made("both", "sinusoidal", "post")
    probe = model.capabilities["causal"]
    assert not probe.held
    assert "the last token moves those before by" in probe.detail
    assert model.capabilities["forward"].held
    with pytest.raises(CapabilityError, match="cannot do 'causal'"):
        attention_leak(model, model.join(SOURCE, TARGET)[0], keys=-2)


def test_a_vocabulary_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match="source vocabulary has 5 words.*expected 11"):
        made("none", "learned", "post", source_words=Vocabulary(("a", "b")))
