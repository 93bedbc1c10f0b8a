"""Folders that would be read as another model than they are; settings that are part of a model."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from interp_compose.errors import CapabilityError, CorruptFileError, OptionError
from interp_compose.models.embed import embed_texts
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.models.sentence_config import SentenceConfig, read_sentence_config
from tests import architectures
from tests.models.test_load_encoder import bert, rewrite, saved
from tests.models.test_sentence_folder import FLAGS, flags, offline, state, write  # noqa: F401
from tests.studies.similarity_reference import bert_tokenizer

# ---- settings count as weights do ---------------------------------------------------------


def gpt2(**options: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(**{**architectures._GPT2, **options})
    return transformers.GPT2LMHeadModel(config).eval()


@pytest.mark.parametrize(
    ("build", "setting"),
    [
        (bert, {"hidden_act": "relu"}),
        (bert, {"layer_norm_eps": 1e-5}),
        (bert, {"num_attention_heads": 2}),
        (gpt2, {"activation_function": "relu"}),
        (gpt2, {"layer_norm_epsilon": 1e-4}),
        (gpt2, {"n_head": 2}),
    ],
)
def test_the_digest_knows_settings_that_no_weight_shows(
    build: Any, setting: dict[str, Any]
) -> None:
    plain, other = load_model(build()), load_model(build(**setting))
    pairs = zip(plain.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    assert weights_digest(plain) != weights_digest(other)
    assert weights_digest(plain) == weights_digest(load_model(build()))


@pytest.mark.parametrize("build", [bert, gpt2])
def test_the_digest_knows_no_names(build: Any) -> None:
    named = build()
    named.config._name_or_path = "/somewhere/else"
    assert weights_digest(load_model(named)) == weights_digest(load_model(build()))


def test_the_digest_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    one = weights_digest(load_model(saved(tmp_path / "one", bert())))
    assert one == weights_digest(load_model(saved(tmp_path / "other", bert())))
    rewrite(tmp_path / "other" / "config.json", hidden_act="relu")
    assert one != weights_digest(load_model(tmp_path / "other"))


# ---- calls and folders --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BERT", "GPT-2"])
def test_a_folder_has_no_revision(name: str, tmp_path: Path) -> None:
    saved(tmp_path, architectures.build(name))
    with pytest.raises(OptionError, match=r"revision='main' is of the hub, .*folder.*leave it out"):
        load_model(tmp_path, revision="main")
    assert load_model(tmp_path).n_layers == architectures.N_LAYERS


@pytest.mark.parametrize(
    ("kind", "first", "count"),
    [
        ("BertModel", "encoder.layer.2.attention", 16),
        ("BertForMaskedLM", "bert.encoder.layer.2.attention", 16),
        pytest.param(
            "RobertaModel", "encoder.layer.2.attention", 16, marks=architectures.needs_tl4
        ),
    ],
)
def test_layers_that_the_config_does_not_have_are_refused(
    tmp_path: Path, kind: str, first: str, count: int
) -> None:
    """A model of two of its three layers would load without a word."""
    rewrite(saved(tmp_path, bert(kind)) / "config.json", num_hidden_layers=2)
    with pytest.raises(
        CorruptFileError,
        match=rf"hold '{first}[a-zA-Z.]*' \({count} such in all\), of a layer that its config",
    ):
        load_model(tmp_path)


def test_weights_beyond_the_layers_are_no_reason_to_refuse(tmp_path: Path) -> None:
    """Many checkpoints have heads of other tasks."""
    saved(tmp_path, bert())
    weights = load_file(tmp_path / "model.safetensors")
    weights["classifier.weight"] = torch.zeros(2, 40)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert load_model(tmp_path).n_layers == architectures.N_LAYERS


# ---- what a sentence-transformers folder asks for beyond us -------------------------------


def modules(folder: Path, *kinds: str) -> str:
    """A folder of these modules in this order, the pooling a mean."""
    listed = [
        {"idx": n, "path": f"{n}_{kind}", "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(kinds)
    ]
    write(folder / "modules.json", listed)
    for row, kind in zip(listed, kinds, strict=True):
        if kind == "Pooling":
            write(folder / str(row["path"]) / "config.json", flags(FLAGS[1]))
    return str(folder)


@pytest.mark.parametrize(
    "kinds",
    [
        ("Transformer", "Normalize", "Pooling"),
        ("Pooling", "Transformer"),
        ("Transformer", "Pooling", "Normalize", "Normalize"),
        ("Transformer", "Pooling", "Pooling"),
        ("Pooling",),
        ("Transformer", "Transformer", "Pooling"),
    ],
)
def test_modules_in_another_order_are_named(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    stated = read_sentence_config(modules(tmp_path, *kinds))
    assert stated is not None
    with pytest.raises(CapabilityError, match=f"the modules {', '.join(kinds)}, which is not"):
        stated.check("x")


@pytest.mark.parametrize("further", [(), ("Normalize",)])
def test_the_two_orders_that_are_done(tmp_path: Path, further: tuple[str, ...]) -> None:
    stated = read_sentence_config(modules(tmp_path, "Transformer", "Pooling", *further))
    assert stated == SentenceConfig("mean", bool(further), None, "0_Transformer")


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"transformer": {"config_args": {"hidden_act": "relu"}}}, r"config_args = \{'hidden_act"),
        ({"transformer": {"model_args": {"dtype": "float16"}}}, "model_args = "),
        ({"transformer": {"transformer_task": "fill-mask"}}, "transformer_task = 'fill-mask'"),
        ({"general": {"truncate_dim": 16}}, "vectors that are cut short"),
    ],
)
def test_options_that_are_not_followed_are_named(
    tmp_path: Path, files: dict[str, Any], named: str
) -> None:
    model = load_model(state(saved(tmp_path, bert()), **files))
    with pytest.raises(CapabilityError, match=f"states an embedding with {named}"):
        embed_texts(model, ["a dog"])
    assert embed_texts(model, ["a dog"], embedding="mean").shape == (1, 40)


def test_options_that_say_nothing_new_are_followed(tmp_path: Path) -> None:
    transformer = {
        "max_seq_length": 19,
        "do_lower_case": False,
        "config_args": {},
        "transformer_task": "feature-extraction",
        "module_output_name": "token_embeddings",
    }
    folder = state(tmp_path, transformer=transformer, general={"truncate_dim": None})
    assert read_sentence_config(str(folder)) == SentenceConfig("mean", False, 19)


def test_the_older_file_s_length_is_read(tmp_path: Path) -> None:
    state(tmp_path)
    write(tmp_path / "sentence_roberta_config.json", {"max_seq_length": 17, "do_lower_case": False})
    assert read_sentence_config(str(tmp_path)) == SentenceConfig("mean", False, 17)
    write(tmp_path / "sentence_roberta_config.json", {"max_seq_length": 17, "do_lower_case": True})
    stated = read_sentence_config(str(tmp_path))
    assert stated is not None
    assert stated.max_length == 17
    with pytest.raises(CapabilityError, match="with lower-casing, which"):
        stated.check("x")
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": 19})  # today's name wins
    assert read_sentence_config(str(tmp_path)) == SentenceConfig("mean", False, 19)


@pytest.mark.parametrize("length", [True, False, 0, -5, 3.5, "19"])
@pytest.mark.parametrize("name", ["sentence_bert_config.json", "sentence_roberta_config.json"])
def test_a_length_that_is_no_number_of_tokens_is_refused(
    tmp_path: Path, name: str, length: Any
) -> None:
    state(tmp_path)
    write(tmp_path / name, {"max_seq_length": length})
    with pytest.raises(
        CorruptFileError, match=rf"{name} of .* max_seq_length is {length!r}, not a number of tok"
    ):
        read_sentence_config(str(tmp_path))


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
    assert model.stated is not None
    assert (model.stated.pooling, model.stated.normalise) == ("mean", bool(further))
    assert model.stated.unsupported is None
    torch.testing.assert_close(embed_texts(model, ["a young dog"]), expected, atol=1e-5, rtol=1e-5)


def test_the_length_that_sentence_transformers_saves_today_is_read(tmp_path: Path) -> None:
    folder, _ = saved_by_their_package(tmp_path)
    assert load_model(folder).n_ctx == 19
