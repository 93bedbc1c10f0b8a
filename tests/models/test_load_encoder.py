"""Encoders from folders, objects and bridges; what is missing or unsupported is refused."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from interp_compose.errors import CapabilityError, CorruptFileError, OptionError
from interp_compose.models.bridge import bridge_around
from interp_compose.models.embed import embed_texts
from interp_compose.models.encoder import EncoderModel
from interp_compose.models.load import load_model
from interp_compose.models.sentence_config import SentenceConfig
from tests import architectures, real_model
from tests.models.test_load import byte_level_tokenizer
from tests.models.test_sentence_folder import FLAGS, flags, offline, state  # noqa: F401
from tests.studies.similarity_reference import bert_tokenizer
from tests.text.conftest import word_piece

TOKENS = torch.tensor([[1, 17, 3, 41, 2], [1, 5, 53, 7, 2]])
HF: Any = transformers
SHAPE = {**architectures._SHAPE, "vocab_size": 120}  # as many as the tokenizer has


def bert(kind: str = "BertModel", *, seed: int = 0, **options: Any) -> Any:
    """A random Hugging Face BERT (or another kind of its shape) in evaluation mode."""
    torch.manual_seed(seed)
    family = "Roberta" if kind.startswith("Roberta") else "Bert"
    return getattr(HF, kind)(getattr(HF, f"{family}Config")(**{**SHAPE, **options})).eval()


def saved(folder: Path, model: Any) -> Path:
    """The model and a tokenizer, as save_pretrained leaves them."""
    model.save_pretrained(folder)
    word_piece().save_pretrained(folder)
    return folder


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes), encoding="utf-8")


@torch.no_grad()
def same(model: Any, reference: Any) -> None:
    expected = reference.base_model(TOKENS).last_hidden_state
    torch.testing.assert_close(model.encode(TOKENS), expected, atol=1e-5, rtol=1e-5)


@pytest.fixture
def headless(tmp_path: Path) -> Path:
    return saved(tmp_path / "headless", bert())


@pytest.fixture
def talkative() -> Iterator[None]:
    """Hugging Face's log as it is before TransformerLens mutes it; but for its progress bars."""
    log = HF.utils.logging
    before = log.get_verbosity()
    log.disable_progress_bar(), log.set_verbosity_warning(), log.enable_propagation()
    yield
    log.enable_progress_bar(), log.set_verbosity(before), log.disable_propagation()


# ---- folders ------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["object", "folder"])
@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("BertModel", "BertModel"),
        ("BertForMaskedLM", "BertForMaskedLM"),
        ("BertForSequenceClassification", "BertModel"),
        ("BertForPreTraining", "BertModel"),
        pytest.param("RobertaModel", "RobertaModel", marks=architectures.needs_tl4),
        pytest.param("RobertaForMaskedLM", "RobertaForMaskedLM", marks=architectures.needs_tl4),
    ],
)
@torch.no_grad()
def test_encoders_are_wrapped_with_or_without_their_head(
    tmp_path: Path, kind: str, architecture: str, source: str
) -> None:
    if source == "object":
        model = load_model(bert(kind), tokenizer=word_piece())
    else:
        model = load_model(saved(tmp_path, bert(kind)))
    assert isinstance(model, EncoderModel)
    assert model.name == (kind if source == "object" else str(tmp_path))
    assert (model.architecture, model.has_head) == (architecture, kind.endswith("ForMaskedLM"))
    assert (model.training, model.dtype, model.stated) == (False, torch.float32, None)
    assert model.tokenizer("a dog").input_ids[0] == 1
    same(model, bert(kind))
    if model.has_head:
        torch.testing.assert_close(model(TOKENS), bert(kind)(TOKENS).logits, atol=1e-5, rtol=1e-5)
        return
    with pytest.raises(CapabilityError, match=rf"\({architecture}\) came without a masked-LM head"):
        model(TOKENS)


def test_the_real_folder() -> None:
    folder = real_model.real_folder()
    model = load_model(folder)
    assert (model.architecture, model.n_layers) == ("BertModel", real_model.N_LAYERS)
    assert (model.d_model, model.n_ctx) == (real_model.D_MODEL, 256)
    assert model.stated == SentenceConfig("mean", True, 256)
    same(model, HF.AutoModel.from_pretrained(folder).eval())
    model.require("forward", "resume", "positions", "hidden", "edit_resid")


@pytest.mark.parametrize(
    ("pooling", "way"), [(flags(FLAGS[0]), "cls"), ({"pooling_mode": "lasttoken"}, "last")]
)
@torch.no_grad()
def test_a_sentence_transformers_folder(tmp_path: Path, pooling: Any, way: str) -> None:
    folder = saved(tmp_path, bert())
    state(folder, pooling, further=("Normalize",), transformer={"max_seq_length": 19})
    model = load_model(folder)
    assert model.stated == SentenceConfig(way, True, 19)
    assert model.n_ctx == 19
    found = embed_texts(model, ["a young dog", "puppy"])
    for row, text in enumerate(["a young dog", "puppy"]):
        ids = torch.tensor([model.tokenizer(text).input_ids])
        one = bert()(ids).last_hidden_state[0, 0 if way == "cls" else -1]
        torch.testing.assert_close(found[row], one / one.norm(), atol=1e-5, rtol=1e-5)


def test_a_transformer_in_a_subfolder(tmp_path: Path) -> None:
    saved(tmp_path / "0_Transformer", bert())
    model = load_model(state(tmp_path, subfolder="0_Transformer"))
    assert model.stated == SentenceConfig("mean", False, subfolder="0_Transformer")
    assert model.tokenizer("a dog").input_ids[0] == 1
    same(model, bert())


def test_an_embedding_that_is_not_computed_is_refused_when_it_is_asked_for(headless: Path) -> None:
    model = load_model(state(headless, {"pooling_mode": "max"}))
    with pytest.raises(CapabilityError, match="states an embedding with pooling by max"):
        embed_texts(model, ["a dog"])
    assert embed_texts(model, ["a dog"], embedding="cls").shape == (1, 40)


@torch.no_grad()
def test_dtypes(headless: Path) -> None:
    for name in ("bfloat16", "float16", "float32"):
        model = load_model(headless, dtype=name)
        assert {weight.dtype for weight in model.parameters()} == {getattr(torch, name)}
        assert bool(model.encode(TOKENS).isfinite().all())
        model.require("hidden", "resume", "positions")
    half = load_model(headless, dtype="bfloat16").encode(TOKENS).float()
    assert float((half - bert()(TOKENS).last_hidden_state).abs().max()) < 0.3


def saved_by_their_package(tmp_path: Path, *further: str) -> tuple[Path, torch.Tensor]:
    """A folder that sentence-transformers read and saved again, and its embedding of a text."""
    source = saved(tmp_path / "by hand", bert())
    bert_tokenizer(120).save_pretrained(source)  # it pads, as that package does
    state(source, further=further, transformer={"max_seq_length": 19})
    with warnings.catch_warnings():  # of that package's, at import and on loading
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        theirs = SentenceTransformer(str(source), device="cpu")
        theirs.save(str(tmp_path / "theirs"))
        return tmp_path / "theirs", theirs.encode(
            ["a young dog"], show_progress_bar=False, convert_to_tensor=True
        )


@pytest.mark.parametrize("further", [("Normalize",), ()])
def test_what_sentence_transformers_saves_today_is_read(
    tmp_path: Path, further: tuple[str, ...]
) -> None:
    folder, expected = saved_by_their_package(tmp_path, *further)
    model = load_model(folder)
    assert model.n_ctx == 19
    assert model.stated is not None
    assert (model.stated.pooling, model.stated.normalise) == ("mean", bool(further))
    assert model.stated.unsupported is None
    torch.testing.assert_close(embed_texts(model, ["a young dog"]), expected, atol=1e-5, rtol=1e-5)


def test_nothing_is_said_on_loading(
    headless: Path, talkative: None, capfd: pytest.CaptureFixture[str], caplog: Any
) -> None:
    load_model(headless)
    assert capfd.readouterr() == ("", "")
    assert caplog.messages == []
    assert HF.utils.logging.get_verbosity() == logging.WARNING
    (headless / "model.safetensors").unlink()
    with pytest.raises(CorruptFileError, match="does not hold a model and its tokenizer"):
        load_model(headless)
    assert HF.utils.logging.get_verbosity() == logging.WARNING


# ---- damaged folders ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "first"),
    [
        ("BertModel", "encoder.layer.1.output.dense.weight"),
        ("BertForMaskedLM", "bert.encoder.layer.1.output.dense.weight"),
    ],
)
def test_weights_that_are_missing_are_named(tmp_path: Path, architecture: str, first: str) -> None:
    folder = saved(tmp_path, bert(architecture))
    weights = load_file(folder / "model.safetensors")
    assert weights.pop(first) is not None
    assert weights.pop(first.replace("layer.1", "layer.2")) is not None
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        CorruptFileError, match=rf"lack '{first}' \(2 in all\), .*random .* get the checkpoint"
    ):
        load_model(folder)


LAYER_2 = r"encoder.layer.2.attention[a-zA-Z.]*' \(16 such in all\), which the layers that its"


@pytest.mark.parametrize(
    ("kind", "change", "error", "message"),
    [
        ("BertModel", {"architectures": ["BertForMaskedLM"]}, CorruptFileError, "lack 'cls.predi"),
        ("BertModel", {"intermediate_size": 59}, CorruptFileError, "has the shape .* config"),
        ("BertModel", {"num_hidden_layers": 2}, CorruptFileError, f"hold '{LAYER_2}"),
        ("BertForMaskedLM", {"num_hidden_layers": 2}, CorruptFileError, f"hold 'bert.{LAYER_2}"),
        (
            "BertModel",
            {"position_embedding_type": "relative_key"},
            CapabilityError,
            "position_embedding_type='relative_key', which transformers no longer",
        ),
    ],
)
def test_a_config_that_is_not_of_the_weights_is_refused(
    tmp_path: Path, kind: str, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    """A model of two of its three layers would load without a word."""
    rewrite(saved(tmp_path, bert(kind)) / "config.json", **change)
    with pytest.raises(error, match=message):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["BERT", "GPT-2"])
def test_a_folder_has_no_revision(name: str, tmp_path: Path) -> None:
    saved(tmp_path, architectures.build(name))
    with pytest.raises(OptionError, match=r"revision='main' is of the hub, .*folder.*leave it out"):
        load_model(tmp_path, revision="main")
    assert load_model(tmp_path).n_layers == architectures.N_LAYERS


def test_weights_beyond_the_layers_are_no_reason_to_refuse(tmp_path: Path) -> None:
    """Many checkpoints have heads of other tasks."""
    saved(tmp_path, bert())
    weights = load_file(tmp_path / "model.safetensors")
    weights["classifier.weight"] = torch.zeros(2, 40)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert load_model(tmp_path).n_layers == architectures.N_LAYERS


# ---- objects ------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_attention_becomes_eager(implementation: str) -> None:
    model = load_model(bert(attn_implementation=implementation))
    assert model.lens.original_model.config._attn_implementation == "eager"
    _, seen = model.capture(TOKENS, ["blocks.1.attn.hook_pattern"], read="hidden")
    torch.testing.assert_close(seen["blocks.1.attn.hook_pattern"].sum(dim=-1), torch.ones(2, 4, 5))
    same(model, bert())


def test_objects_keep_dtype_mode_and_weights() -> None:
    own = bert().to(torch.bfloat16).train()
    table = own.embeddings.word_embeddings.weight
    model = load_model(own)
    assert model.training
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert any(weight is table for weight in model.parameters())


@torch.no_grad()
def test_a_bridge() -> None:
    bridge = bridge_around(bert("BertForMaskedLM"))
    model = load_model(bridge, tokenizer=word_piece())
    assert isinstance(model, EncoderModel)
    assert model.lens is bridge
    same(model, bert("BertForMaskedLM"))
    expected = bert("BertForMaskedLM")(TOKENS).logits
    torch.testing.assert_close(model(TOKENS), expected, atol=1e-5, rtol=1e-5)


def test_the_bridge_of_an_encoder_without_a_head_still_has_none() -> None:
    model = load_model(bert())
    with pytest.raises(CapabilityError, match="without a masked-LM head"):
        load_model(model.lens)(TOKENS)


def test_an_object_can_be_wrapped_again() -> None:
    own = bert()
    load_model(own)
    same(load_model(own), bert())


# ---- refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM", "BertLMHeadModel"])
def test_an_encoder_turned_decoder_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match=rf"{kind}.* is_decoder=True: .*is_decoder=False"):
        load_model(bert(kind, is_decoder=True))
    with pytest.raises(CapabilityError, match=r"with is_decoder=True"):
        load_model(saved(tmp_path, bert(kind, is_decoder=True)))
    if kind == "BertForMaskedLM":
        with pytest.raises(CapabilityError, match="with is_decoder=True"):
            load_model(bridge_around(bert(kind, is_decoder=True)))


@pytest.mark.parametrize("name", ["DistilBERT", "MPNet"])
@pytest.mark.parametrize("head", [True, False])
def test_encoders_that_are_not_known_are_refused_by_name(
    name: str, head: bool, tmp_path: Path
) -> None:
    model = architectures.build(name)
    model = model if head else model.base_model
    kind = type(model).__name__
    with pytest.raises(CapabilityError, match=f"does not know how to wrap a {kind} "):
        load_model(model)
    saved(tmp_path, model)
    for folder in (tmp_path, state(tmp_path)):  # the second time with a modules.json
        with pytest.raises(CapabilityError, match=rf"does not know the architecture .*{kind}"):
            load_model(folder)


# ---- decoders -----------------------------------------------------------------------------


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    architectures.build("GPT-2").save_pretrained(tmp_path)
    byte_level_tokenizer(300).save_pretrained(tmp_path)
    return tmp_path


@torch.no_grad()
def test_a_decoder_folder_may_state_an_embedding(decoder: Path) -> None:
    plain = load_model(decoder)
    assert (plain.stated, plain.bidirectional, plain.pad_id) == (None, False, None)
    model = load_model(state(decoder, {"pooling_mode": "lasttoken"}, further=("Normalize",)))
    assert model.stated == SentenceConfig("last", True)
    assert model.architecture == "GPT2LMHeadModel"
    tokens = torch.tensor([[5, 17, 3]])
    assert torch.equal(model(tokens), plain(tokens))
    expected = architectures.build("GPT-2").transformer(tokens).last_hidden_state
    torch.testing.assert_close(model.encode(tokens), expected, atol=1e-5, rtol=1e-5)


def test_a_decoder_folder_may_state_a_length(decoder: Path) -> None:
    assert load_model(state(decoder, transformer={"max_seq_length": 19})).n_ctx == 19
