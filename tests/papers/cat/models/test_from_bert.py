"""CAT's modules on a BERT: the BERT's own vectors below them, and what is trained."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

import interp_compose as ic
from interp_compose.errors import CapabilityError, InterventionError, OptionError
from interp_compose.papers.cat.text.wordpiece import WordPieceTokenizer
from tests import architectures
from tests.real_model import real_folder
from tests.studies.conftest import splitting_tokenizer

TEXTS = ["the water body", "a body of water, watery", "unbodied waters of the body"]
TOKENIZER = WordPieceTokenizer.trained(TEXTS * 3, 45)


def bert(**changes: Any) -> Any:
    """A masked-LM BERT, every parameter random."""
    config = architectures.build("BERT").config
    config.update({"vocab_size": len(TOKENIZER), "attn_implementation": "eager", **changes})
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


@torch.no_grad()
@pytest.mark.parametrize("head", [True, False])
def test_its_contextual_vectors_are_the_berts(head: bool) -> None:
    plain = bert()
    expected = plain.base_model(**TOKENIZER(TEXTS, padding=True, return_tensors="pt"))
    loaded = ic.load_model(plain if head else plain.base_model, tokenizer=TOKENIZER)
    made: Any = ic.cat.composed_encoder(loaded, seed=0, n_codes=11)
    inputs = TOKENIZER(TEXTS, padding=True, return_tensors="pt")
    found = made.encode(inputs.input_ids, attention_mask=inputs.attention_mask)
    real = inputs.attention_mask.bool()
    torch.testing.assert_close(found[real], expected.last_hidden_state[real], rtol=1e-4, atol=1e-4)
    assert float(found[real].std()) > 0.1  # not the equality of zeros
    composed = made.with_output("comp").encode(
        inputs.input_ids, attention_mask=inputs.attention_mask
    )
    assert not torch.allclose(composed[real], found[real], atol=1e-2)


def test_what_is_trained() -> None:
    loaded = ic.load_model(bert(), tokenizer=TOKENIZER)
    made: Any = ic.cat.composed_encoder(loaded, seed=0, n_codes=11, n_last_codes=13)
    assert made.lens.blocks[-1].composition.codebook.shape[0] == 13
    assert not made.lens.blocks[0].composes
    trained = {name for name, one in made.lens.named_parameters() if one.requires_grad}
    assert {name.split(".")[0] for name in trained} == {"blocks", "mlm_head", "pair_head", "b_U"}
    inside = {name.split(".")[2] for name in trained if name.startswith("blocks")}
    assert inside == {"composition", "mix_attn", "ln_mix"}
    whole: Any = ic.cat.composed_encoder(loaded, seed=0, composition="every", frozen=False)
    assert all(one.requires_grad for one in whole.lens.parameters())
    assert all(block.composes for block in whole.lens.blocks)
    other: Any = ic.cat.composed_encoder(loaded, seed=1)
    last = made.n_layers - 1
    assert not torch.equal(
        made.lens.blocks[last].composition.W_Q, other.lens.blocks[last].composition.W_Q
    )


@torch.no_grad()
def test_on_real_weights() -> None:
    model = ic.load_model(str(real_folder()), device="cpu")
    made = ic.cat.composed_encoder(model, seed=0, n_codes=50)
    texts = ["water body", "a body of unfathomable water"]
    torch.testing.assert_close(
        ic.embed_texts(made, texts, embedding="mean"),
        ic.embed_texts(model, texts, embedding="mean"),
        rtol=1e-4,
        atol=1e-5,
    )


def test_what_is_refused() -> None:
    with pytest.raises(CapabilityError, match="expected a BERT as Hugging Face has it"):
        ic.cat.composed_encoder(ic.load_model("mini-base"), seed=0)
    loaded = ic.load_model(bert(hidden_act="silu"), tokenizer=TOKENIZER)
    with pytest.raises(CapabilityError, match="hidden_act = 'silu'; expected gelu"):
        ic.cat.composed_encoder(loaded, seed=0)
    loaded = ic.load_model(bert(), tokenizer=TOKENIZER)
    with loaded.hooks([("blocks.0.hook_resid_pre", lambda resid, hook: resid)]):
        loaded.encode(torch.tensor([[2, 5, 3]]))
        with pytest.raises(InterventionError, match="has open interventions"):
            ic.cat.composed_encoder(loaded, seed=0)
    with pytest.raises(OptionError, match="seed=-1"):
        ic.cat.composed_encoder(loaded, seed=-1)
    wide = bert(vocab_size=200)
    with pytest.raises(OptionError, match="expected one of WordPiece"):
        ic.cat.composed_encoder(ic.load_model(wide, tokenizer=splitting_tokenizer()), seed=0)
