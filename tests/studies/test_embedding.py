"""Embeddings of texts against sentence-transformers and against loops in float64."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from interp_compose.errors import CapabilityError, InputError, OptionError, TrainingModeError
from interp_compose.models.embed import EmbeddingReader, embed_texts, embedding_reader
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.sentence_config import SentenceConfig
from interp_compose.tensors import pad_left
from tests import architectures, real_model
from tests.models.test_load_encoder import bert
from tests.studies.conftest import TEXTS
from tests.text.conftest import word_piece

PHRASES = [
    "water body",
    "a",
    "body water",
    "The quick brown fox jumps over the lazy dog, unbelievably: antidisestablishmentarianism!",
    "déjà vu …",
    "not\talive\n at all",
]


@pytest.fixture(scope="module")
def real() -> LensModel:
    return load_model(real_model.real_folder())


@pytest.fixture(scope="module")
def reference() -> Any:
    with warnings.catch_warnings():  # of that package's, at import and on loading
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(real_model.real_folder()), device="cpu")


@pytest.fixture(scope="module")
def encoder() -> LensModel:
    """A random BERT shape whose tokenizer gives [CLS] … [SEP]."""
    model = load_model(bert(), tokenizer=word_piece())
    assert len(model.tokenizer) == model.d_vocab
    return model


# ---- against sentence-transformers --------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_a_folder_s_own_embedding_is_sentence_transformers(
    real: LensModel, reference: Any, batch_size: int
) -> None:
    expected = torch.from_numpy(reference.encode(PHRASES, show_progress_bar=False))
    found = embed_texts(real, PHRASES, batch_size=batch_size)
    assert found.shape == (len(PHRASES), real_model.D_MODEL)
    assert (found.dtype, found.device.type) == (torch.float32, "cpu")
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(len(PHRASES)))
    reading = EmbeddingReader("mean", True, True, "stated by the model")
    assert embedding_reader(real, "model") == reading
    assert str(reading) == "mean over all tokens (stated by the model)"
    assert real.n_ctx == 256  # stated, below the 512 of its table


@torch.no_grad()
def test_mean_and_cls_are_read_as_they_are(real: LensModel, reference: Any) -> None:
    hidden = reference.encode(PHRASES, output_value="token_embeddings", show_progress_bar=False)
    mean = torch.stack([tokens.double().mean(dim=0) for tokens in hidden]).float()
    first = torch.stack([tokens[0] for tokens in hidden])
    found = embed_texts(real, PHRASES, embedding="mean")
    torch.testing.assert_close(found, mean, atol=1e-5, rtol=1e-5)
    assert float((found.norm(dim=1) - 1).abs().min()) > 0.1
    torch.testing.assert_close(
        embed_texts(real, PHRASES, embedding="cls"), first, atol=1e-5, rtol=1e-5
    )


def test_a_text_beyond_the_stated_length_is_refused_not_cut(real: LensModel) -> None:
    longest = "dog " * 254  # and [CLS] and [SEP]
    assert embed_texts(real, [longest]).shape == (1, real_model.D_MODEL)
    with pytest.raises(
        InputError, match=r"text 1 has 257 tokens and .* reads 256: 'dog dog .*Shorten"
    ):
        embed_texts(real, ["a", longest + "dog"])


# ---- decoders and encoders on random weights ----------------------------------------------


@torch.no_grad()
def test_a_decoder_s_mean_leaves_bos_out_and_its_last_token_is_one(model: LensModel) -> None:
    mean = embed_texts(model, TEXTS, embedding="mean", batch_size=2)
    last = embed_texts(model, TEXTS, embedding="last", batch_size=3)
    for i, text in enumerate(TEXTS):
        ids = torch.tensor([model.tokenizer(text).input_ids])
        assert ids[0, 0] == model.tokenizer.bos_token_id
        hidden = architectures.build("Llama").model(ids).last_hidden_state[0]
        expected = hidden[1:].double().mean(dim=0).float()
        torch.testing.assert_close(mean[i], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(last[i], hidden[-1], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(mean[i], hidden.mean(dim=0), atol=1e-3)


def test_batches_and_order_change_nothing(encoder: LensModel) -> None:
    together = embed_texts(encoder, TEXTS)
    backwards = embed_texts(encoder, TEXTS[::-1], batch_size=2, progress=True).flip(0)
    alone = torch.cat([embed_texts(encoder, [text]) for text in TEXTS])
    torch.testing.assert_close(backwards, together, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(alone, together, atol=1e-5, rtol=1e-5)
    assert not together.requires_grad


# ---- which reading ------------------------------------------------------------------------


def test_what_is_stated_by_nobody_is_the_mean_and_said_to_be(
    model: LensModel, encoder: LensModel
) -> None:
    for wrapped in (model, encoder):
        reading = embedding_reader(wrapped, "model")
        assert reading == EmbeddingReader(
            "mean",
            wrapped.bidirectional,
            False,
            "by default: the model states no embedding",
        )
    assert str(embedding_reader(encoder, "model")).startswith("mean over all tokens (by default")
    assert str(embedding_reader(model, "model")).startswith(
        "mean over the text's tokens (by default"
    )


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("normalise", [False, True])
@torch.no_grad()
def test_what_a_folder_states_is_done(
    encoder: LensModel, monkeypatch: pytest.MonkeyPatch, pooling: str, normalise: bool
) -> None:
    monkeypatch.setattr(encoder, "stated", SentenceConfig(pooling, normalise))
    found = embed_texts(encoder, TEXTS)
    for i, text in enumerate(TEXTS):
        ids = torch.tensor([encoder.tokenizer(text).input_ids])
        hidden = bert()(ids).last_hidden_state[0].double()
        expected = {"mean": hidden.mean(dim=0), "cls": hidden[0], "last": hidden[-1]}[pooling]
        if normalise:
            expected = expected / expected.square().sum().sqrt()
        torch.testing.assert_close(found[i], expected.float(), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_what_a_decoder_s_folder_states_counts_bos(
    model: LensModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "stated", SentenceConfig("mean", False))
    ids = torch.tensor([model.tokenizer(TEXTS[0]).input_ids])
    expected = architectures.build("Llama").model(ids).last_hidden_state[0].double().mean(dim=0)
    found = embed_texts(model, TEXTS[:1])[0]
    torch.testing.assert_close(found, expected.float(), atol=1e-5, rtol=1e-5)


def test_a_stated_embedding_beyond_us_is_refused_and_others_are_not(
    encoder: LensModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = SentenceConfig("mean", False, unsupported="pooling by max_tokens")
    monkeypatch.setattr(encoder, "stated", stated)
    with pytest.raises(CapabilityError, match=r"pooling by max_tokens, .*choose embedding=.mean"):
        embed_texts(encoder, TEXTS)
    assert embed_texts(encoder, TEXTS, embedding="mean").shape == (len(TEXTS), encoder.d_model)


def test_readings_without_a_meaning_are_refused(model: LensModel, encoder: LensModel) -> None:
    with pytest.raises(OptionError, match="embedding='max'; expected one of 'mean', 'cls', 'l"):
        embed_texts(model, TEXTS, embedding="max")
    with pytest.raises(OptionError, match=r'embedding="cls" .*a decoder, .*choose "mean" or "last'):
        embed_texts(model, TEXTS, embedding="cls")
    with pytest.raises(OptionError, match=r'"last" is for decoders, .*encoder; choose "mean" or'):
        embed_texts(encoder, TEXTS, embedding="last")


# ---- bad input ----------------------------------------------------------------------------


def test_no_list_of_texts_is_refused(encoder: LensModel) -> None:
    with pytest.raises(InputError, match=r"texts=.*expected a list of at least one text"):
        embed_texts(encoder, [])
    with pytest.raises(OptionError, match="texts='a dog' is a str; expected a sequence"):
        embed_texts(encoder, "a dog")


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_an_empty_text_is_refused_by_its_number(encoder: LensModel, empty: str) -> None:
    with pytest.raises(InputError, match="^text 1: the prompt .* is empty"):
        embed_texts(encoder, ["a dog", empty])


def test_a_model_in_training_mode_or_without_tokenizer_is_refused(encoder: LensModel) -> None:
    encoder.train()
    try:
        with pytest.raises(TrainingModeError, match=r"in training mode.*model\.eval\(\)"):
            embed_texts(encoder, TEXTS)
    finally:
        encoder.eval()
    with pytest.raises(InputError, match="came without a tokenizer"):
        embed_texts(load_model(architectures.build("BERT")), TEXTS)


def test_a_tokenizer_of_another_model_is_refused(real: LensModel) -> None:
    other = load_model(architectures.build("BERT"), tokenizer=real.tokenizer)
    with pytest.raises(InputError, match=r"the tokenizer gives token \d+ and .* knows 97"):
        embed_texts(other, ["a hummingbird"])


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_size_below_one_is_refused(encoder: LensModel, batch_size: int) -> None:
    with pytest.raises(InputError, match=f"batch_size={batch_size}"):
        embed_texts(encoder, TEXTS, batch_size=batch_size)


# ---- the reading on its own ---------------------------------------------------------------


def by_loops(reading: EmbeddingReader, hidden: Tensor, mask: Tensor, special: Tensor) -> Tensor:
    """The definition, position by position, in float64."""
    rows = []
    for row in range(hidden.shape[0]):
        read = [
            hidden[row, at].double()
            for at in range(hidden.shape[1])
            if mask[row, at] and (reading.specials or not special[row, at])
        ]
        if reading.how == "mean":
            out = sum(read[1:], read[0]) / len(read)
        else:
            out = read[0] if reading.how == "cls" else read[-1]
        rows.append(out / out.square().sum().sqrt() if reading.normalise else out)
    return torch.stack(rows)


@pytest.mark.parametrize("filler", [0.0, float("nan"), float("inf"), 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("how", ["mean", "cls", "last"])
def test_a_reading_is_its_definition_whatever_the_padding_holds(
    how: str, dtype: torch.dtype, filler: float
) -> None:
    generator = torch.Generator().manual_seed(11)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0, 0]])
    special = torch.tensor([[0, 0, 1, 0, 0, 0, 1], [1, 0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0]])
    hidden = torch.randn(3, 7, 5, generator=generator).to(dtype)
    hidden = hidden.masked_fill(mask[:, :, None] == 0, filler)
    for specials in (True, False):
        for normalise in (True, False):
            reading = EmbeddingReader(how, specials, normalise, "here")
            found = reading(hidden, mask, special)
            assert found.dtype == torch.float32
            expected = by_loops(reading, hidden, mask, special)
            torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=1e-6)


def test_texts_are_padded_on_the_left() -> None:
    ids = [np.array([5, 7, 2]), np.array([3, 11, 13, 17, 2])]
    tokens, mask, special = pad_left(ids, [np.array([1, 0, 1]), np.array([1, 0, 0, 0, 1])])
    assert tokens.tolist() == [[0, 0, 5, 7, 2], [3, 11, 13, 17, 2]]
    assert mask.tolist() == [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
    assert special.tolist() == [[0, 0, 1, 0, 1], [1, 0, 0, 0, 1]]
    assert {tensor.dtype for tensor in (tokens, mask, special)} == {torch.int64}


@torch.no_grad()
def test_bfloat16_weights_give_float32_embeddings() -> None:
    model = load_model(bert().to(torch.bfloat16), tokenizer=word_piece())
    found = embed_texts(model, TEXTS, batch_size=1)
    assert found.dtype == torch.float32
    for i, text in enumerate(TEXTS):
        ids = torch.tensor([model.tokenizer(text).input_ids])
        hidden = bert().to(torch.bfloat16)(ids).last_hidden_state[0].double()
        torch.testing.assert_close(found[i], hidden.mean(dim=0).float(), atol=0.05, rtol=0)
