"""Small encoder–decoders behind the one surface: resumed, pooled, masked, saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import interp_compose as ic
from interp_compose.errors import CorruptFileError, InputError
from interp_compose.models.small_seq2seq import SmallSeq2SeqModel
from interp_compose.text.vocabulary import Vocabulary

KINDS = [
    *(("both", "sinusoidal", "post"), ("both", "relative", "pre"), ("encoder", "learned", "pre")),
    *(("decoder", "relative", "post"), ("previous", "sinusoidal", "pre")),
    *(("parameters", "relative", "post"), ("none", "sinusoidal", "post")),
]
"""fuse, positions, norm."""


def made(fuse: str, positions: str, norm: str, **more: Any) -> SmallSeq2SeqModel:
    shape = {"d_model": 8, "n_heads": 2, "d_mlp": 12, "n_encoder_layers": 3, "n_decoder_layers": 2}
    kind: dict[str, Any] = {"fuse": fuse, "positions": positions, "norm": norm}
    model = ic.small_seq2seq(ic.Seq2SeqConfig(11, 9, 12, **shape, **kind), seed=0, **more)
    assert isinstance(model, SmallSeq2SeqModel)
    with torch.no_grad():  # biases are zero at first
        generator = torch.Generator().manual_seed(1)
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


@pytest.fixture(params=KINDS, ids=str)
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
    words = {
        "source_words": Vocabulary(tuple("abcdefgh")),
        "target_words": Vocabulary(tuple("ABCDEF")),
    }
    model = made("both", "relative", "pre", **words)
    folder = ic.save_model(model, tmp_path / "model")
    again = ic.load_model(folder)
    assert isinstance(again, SmallSeq2SeqModel)
    assert again.source_words == words["source_words"]
    assert again.lens.cfg == model.lens.cfg
    tokens, mask = model.join(SOURCE, TARGET, MASK)
    logits = [one(tokens, attention_mask=mask)[:, 6:] for one in (model, again)]
    assert torch.equal(*logits)
    config = folder / "seq2seq.json"
    config.write_text(config.read_text().replace("relative", "learned"))
    with pytest.raises(CorruptFileError, match="checksums"):
        ic.load_model(folder)


def test_a_vocabulary_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match="source vocabulary has 5 words.*expected 11"):
        made("none", "learned", "post", source_words=Vocabulary(("a", "b")))
