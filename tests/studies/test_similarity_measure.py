"""similarity_curve end to end, against one text and one intervention at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import interp_compose as ic
from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterventionError,
    LayerError,
    NonFiniteError,
)
from interp_compose.models.capabilities import Capabilities
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.sentence_config import SentenceConfig
from interp_compose.studies.similarity import measure as similarity_measure
from interp_compose.studies.similarity.measure import similarity_curve
from tests import architectures
from tests.studies import similarity_reference as slow

NAMES = slow.ENCODERS + slow.DECODERS
LAYERS = range(architectures.N_LAYERS)


@lru_cache
def model_of(name: str) -> LensModel:
    return slow.wrapped(name)


@lru_cache
def reference_of(name: str) -> slow.Reference:
    return slow.Reference(name)


@pytest.fixture(autouse=True, scope="module")
def short_intervals() -> Iterator[None]:
    """Intervals are tested with the result; here a curve is summarised a hundred times."""
    with slow.few_samples():
        yield


def quiet(model: LensModel, rows: Any = slow.ROWS, **options: Any) -> ic.SimilarityCurve:
    return similarity_curve(model, rows, progress=False, **options)


@pytest.fixture(scope="module")
def bert() -> LensModel:
    return model_of("BERT")


@pytest.fixture(scope="module")
def whole(bert: LensModel) -> ic.SimilarityCurve:
    """The default study, in one batch."""
    return quiet(bert)


# ---- the numbers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "embedding"),
    [
        ("text", "mean"),
        ("word", "mean"),
        ("constituent", "mean"),
        ("word", "cls"),
        ("word", "last"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_every_cosine_equals_one_intervention_by_hand(name: str, unit: str, embedding: str) -> None:
    kinds = {"cls": slow.ENCODERS, "last": slow.DECODERS}
    if name not in kinds.get(embedding, NAMES):
        with pytest.raises(InputError, match=f'embedding="{embedding}"'):
            quiet(model_of(name), embedding=embedding)
        return
    model, reference = model_of(name), reference_of(name)
    rows = slow.trees() if unit == "constituent" else slow.ROWS
    curve = quiet(model, rows, unit=unit, embedding=embedding, batch_size=4, seed=5)
    protocols = ["mean", "max", "sum", "last", "first"]
    protocols += [] if unit == "text" else ["shuffled"]
    found = curve.outcomes.set_index(["pair", "layer", "pooling"])["cosine"]
    assert len(found) == len(rows) * len(LAYERS) * len(protocols)
    for (pair, row), layer, protocol in itertools.product(enumerate(rows), LAYERS, protocols):
        expected = reference.pooled_cosine(row, unit, layer, protocol, embedding, seed=5)
        assert found[pair, layer, protocol] == pytest.approx(expected, abs=1e-5)
    untouched = curve.layer_cosines.set_index(["pair", "layer"])["cosine"]
    for (pair, row), layer in itertools.product(enumerate(rows), range(len(LAYERS) + 1)):
        expected = reference.untouched_cosine(row, layer, embedding)
        assert untouched[pair, layer] == pytest.approx(expected, abs=1e-5)
    last = untouched.xs(len(LAYERS), level="layer")
    assert curve.clean["cosine"].tolist() == last.tolist()


@pytest.mark.parametrize("unit", ["text", "word", "constituent"])
@pytest.mark.parametrize("name", slow.ENCODERS)
def test_after_the_last_block_equals_pooled_outputs_by_hand(name: str, unit: str) -> None:
    model, reference, after = model_of(name), reference_of(name), len(LAYERS)
    rows = slow.trees() if unit == "constituent" else slow.ROWS
    curve = quiet(model, rows, unit=unit, layers=[1, after], batch_size=4, seed=5)
    found = curve.outcomes.set_index(["pair", "layer", "pooling"])["cosine"]
    alone = quiet(model, rows, unit=unit, layers=after, batch_size=4, seed=5)
    pd.testing.assert_frame_equal(
        alone.outcomes, curve.outcomes[curve.outcomes["layer"] == after].reset_index(drop=True)
    )
    clean, moved = curve.clean.set_index("pair")["cosine"], 0.0
    of_sums = found.xs((after, "sum"), level=("layer", "pooling"))
    np.testing.assert_allclose(of_sums, clean[of_sums.index], rtol=0, atol=1e-6)
    assert f"! sum at layer {after}, after the last block, changes no cosine" in curve.summary()
    assert not any("after the last" in note for note in quiet(model, rows, layers=[1]).notes)
    for (pair, row), layer in itertools.product(enumerate(rows), (1, after)):
        for pooling in curve.frame["pooling"].unique():
            expected = reference.pooled_cosine(row, unit, layer, pooling, "mean", seed=5)
            assert found[pair, layer, pooling] == pytest.approx(expected, abs=1e-5)
        moved = max(moved, abs(found[pair, after, "mean"] - clean[pair]))
    assert moved > 1e-3
    assert curve.frame.loc[curve.frame["layer"] == after, "depth"].unique().tolist() == [1.5]
    assert f"{after} = after the last block" in curve.plot().chart.x_title
    assert "after the last block" not in quiet(model, rows, layers=[1]).plot().chart.x_title


def test_after_the_last_block_is_for_encoders_read_by_their_mean_and_in_no_default() -> None:
    bert, gpt2, after = model_of("BERT"), model_of("GPT-2"), len(LAYERS)
    assert sorted({*quiet(bert).outcomes["layer"]}) == [*LAYERS]
    with pytest.raises(InterventionError, match="layer 3 is after the last block.*first token"):
        quiet(bert, layers=[0, after], embedding="cls")
    with pytest.raises(LayerError, match=r"layer 4 .* 0 … 2 .* 3 after the last block, or -1 … -3"):
        quiet(bert, layers=[after + 1])
    with pytest.raises(LayerError, match=r"layer 3 is outside the model: expected 0 … 2 .*, or -1"):
        quiet(gpt2, layers=[after])
    # The last token of all is [SEP], which is in no unit.
    bert = slow.wrapped("BERT")
    bert.stated = SentenceConfig("last", False)
    with pytest.raises(InterventionError, match="first pooling at layer 3 changed no cosine"):
        quiet(bert, layers=[after], embedding="model")


@pytest.mark.parametrize("name", NAMES)
def test_protocols_and_layers_are_told_apart(name: str) -> None:
    """A comparison with numbers that are all alike would prove nothing."""
    outcomes = quiet(model_of(name), unit="text", layers=[0, 2]).outcomes
    wide = outcomes.pivot(index="pair", columns=["layer", "pooling"], values="cosine")
    for one, two in itertools.combinations(wide.columns, 2):
        apart = float(np.abs(wide[one] - wide[two]).max())
        if name in slow.DECODERS and one[1] == two[1] == "first":
            # A causal model's first token hears of nothing after it, pooled early or late.
            assert apart < 1e-5
        else:
            assert apart > 1e-3, (one, two)


@pytest.mark.parametrize(
    ("stated", "same_as"), [(SentenceConfig("cls", False), "cls"), (None, "mean")]
)
def test_the_models_own_embedding(stated: SentenceConfig | None, same_as: str) -> None:
    model = slow.wrapped("BERT")
    model.stated = stated
    own = quiet(model, layers=[1], embedding="model")
    chosen = quiet(model, layers=[1], embedding=same_as)
    pd.testing.assert_frame_equal(own.outcomes, chosen.outcomes)
    assert ("stated by the model" in own.config["reading"]) == (stated is not None)
    assert ("by default: the model states no embedding" in own.config["reading"]) != (
        stated is not None
    )


def test_normalising_changes_no_cosine(bert: LensModel, whole: ic.SimilarityCurve) -> None:
    model = slow.wrapped("BERT")
    model.stated = SentenceConfig("mean", True)
    pd.testing.assert_frame_equal(
        quiet(model, embedding="model").outcomes, whole.outcomes, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("name", NAMES)
def test_clean_cosines_are_those_of_embed_texts(name: str) -> None:
    curve = quiet(model_of(name), layers=[0], controls=False, batch_size=2)
    first, second = (
        ic.embed_texts(model_of(name), [row[key] for row in slow.ROWS], embedding="mean").double()
        for key in ("text1", "text2")
    )
    expected = torch.nn.functional.cosine_similarity(first, second)
    assert np.allclose(curve.clean["cosine"], expected, atol=1e-6, rtol=0)


# ---- batches, order, repeated texts -----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "unit"), list(zip(NAMES, ("text", "word", "word", "text"), strict=True))
)
def test_batches_change_nothing_but_rounding(name: str, unit: str) -> None:
    options = {"unit": unit, "layers": [0, 2]}
    one = quiet(model_of(name), batch_size=1, **options)
    many = quiet(model_of(name), batch_size=64, **options)
    pd.testing.assert_frame_equal(one.outcomes, many.outcomes, atol=1e-5, rtol=0)
    pd.testing.assert_frame_equal(one.layer_cosines, many.layer_cosines, atol=1e-5, rtol=0)


def test_small_calls_change_nothing_but_rounding(
    bert: LensModel, whole: ic.SimilarityCurve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarity_measure, "chunk_tokens", lambda *args, **options: 7)
    pd.testing.assert_frame_equal(quiet(bert).outcomes, whole.outcomes, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "unit"), [("BERT", "word"), ("Llama", "text")])
def test_the_order_of_pairs_and_of_their_texts_does_not_matter(name: str, unit: str) -> None:
    model = model_of(name)
    straight = quiet(model, unit=unit).outcomes
    turned = [{**row, "text1": row["text2"], "text2": row["text1"]} for row in reversed(slow.ROWS)]
    outcomes = quiet(model, turned, unit=unit).outcomes
    back = outcomes.assign(pair=len(slow.ROWS) - 1 - outcomes["pair"])
    key = ["pair", "layer", "pooling"]
    pd.testing.assert_frame_equal(
        back.set_index(key).loc[pd.MultiIndex.from_frame(straight[key])].reset_index(),
        straight,
        atol=1e-5,
        rtol=0,
    )


def test_the_list_around_a_pair_does_not_matter(bert: LensModel, whole: ic.SimilarityCurve) -> None:
    few = quiet(bert, [{**row, "subset": None} for row in slow.ROWS[:4]]).outcomes
    pd.testing.assert_frame_equal(
        few, whole.outcomes[whole.outcomes["pair"] < 4], atol=1e-5, rtol=0
    )


def test_a_text_is_the_same_in_every_pair(bert: LensModel) -> None:
    """Cosines of three texts with one another, and with themselves, fit into space."""
    texts = ["wooden house", "not alive", "the shore of a sea"]
    rows = [
        {"text1": one, "text2": two, "score": 0.1 * n}
        for n, (one, two) in enumerate(itertools.product(texts, texts))
    ]
    outcomes = quiet(bert, rows, batch_size=2).outcomes
    for _, cell in outcomes.groupby(["layer", "pooling"]):
        gram = cell.sort_values("pair")["cosine"].to_numpy().reshape(3, 3)
        assert np.allclose(gram, gram.T, atol=1e-5)
        assert np.allclose(np.diag(gram), 1.0, atol=1e-6)
        assert np.linalg.eigvalsh(gram).min() > -1e-5


# ---- what pooling cannot change ---------------------------------------------------------


@pytest.mark.parametrize(("unit", "batch_size"), [("text", 2), ("word", 1), ("word", 64)])
def test_unaffected_pairs_carry_the_clean_cosine_bit_for_bit(
    bert: LensModel, unit: str, batch_size: int
) -> None:
    curve = quiet(bert, unit=unit, batch_size=batch_size)
    plain = []
    for pair, row in enumerate(slow.ROWS):
        units = [reference_of("BERT").units(row[key], unit) for key in ("text1", "text2")]
        own = [[u for u in text if u >= 0] for text in units]
        if all(len(set(text)) == len(text) for text in own):
            plain.append(pair)
    assert {6, 7} <= set(plain) < set(range(len(slow.ROWS)))
    assert np.flatnonzero(~curve.clean["affected"]).tolist() == plain
    clean = curve.clean.set_index("pair")["cosine"]
    rows = curve.outcomes[curve.outcomes["pair"].isin(plain)]
    assert len(rows) == len(plain) * len(LAYERS) * (5 if unit == "text" else 6)
    assert np.array_equal(rows["cosine"], clean[rows["pair"]])
    affected = curve.outcomes[~curve.outcomes["pair"].isin(plain)]
    assert not np.isclose(affected["cosine"], clean[affected["pair"]], atol=1e-7).all()


def test_pairs_of_single_tokens_are_refused(bert: LensModel) -> None:
    rows = [
        {"text1": one, "text2": two, "score": n / 10}
        for n, (one, two) in enumerate([("a", "b"), ("b", "c"), ("c", "x")])
    ]
    with pytest.raises(
        InterventionError, match="none of the 3 pairs: every text is a single token"
    ):
        quiet(bert, rows)
    words = [{**row, "text1": row["text1"] + " x", "text2": row["text2"] + " x"} for row in rows]
    with pytest.raises(InterventionError, match='every word is .*unit="text" pools whole texts'):
        quiet(bert, words, unit="word")
    assert len(quiet(bert, words, layers=[0], controls=False).outcomes) == 9


def test_an_embedding_that_does_not_hear_of_the_phrase_is_refused() -> None:
    """[CLS] with attention that writes nothing: pooling what stands beside it changes nothing."""
    deaf = architectures.build("BERT")
    with torch.no_grad():
        for layer in deaf.bert.encoder.layer:
            layer.attention.output.dense.weight.zero_()
            layer.attention.output.dense.bias.zero_()
    model = load_model(deaf, tokenizer=slow.bert_tokenizer())
    with pytest.raises(
        InterventionError, match="first pooling at layer 0 changed no cosine, although 7 pairs"
    ):
        quiet(model, embedding="cls", batch_size=64)


def constant(resid: torch.Tensor, hook: Any) -> torch.Tensor:
    return torch.linspace(-1, 1, resid.shape[-1]).expand_as(resid).clone()


@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_a_layer_whose_input_does_not_depend_on_the_tokens_is_refused(name: str) -> None:
    model = model_of(name)
    with (
        model.hooks([("blocks.1.hook_resid_pre", constant)]),
        pytest.raises(InterventionError, match="pooling at layer 0 changed no cosine"),
    ):
        quiet(model)


# ---- the rotary decoder without order ---------------------------------------------------


MIRRORS = [
    {"text1": f"w{2 * n} w{2 * n + 1}", "text2": f"w{2 * n + 1} w{2 * n}", "score": n / 7}
    for n in range(6)
]
OTHERS = [{"text1": "w1 w2", "text2": f"w{n} w{n + 1}", "score": n / 30} for n in range(5, 9)]


def test_mirrors_whose_order_is_gone_have_no_correlation() -> None:
    """Rotary positions enter in attention alone: at layer 0 the mean of AB is that of BA."""
    model = load_model(architectures.build("Llama"), tokenizer=slow.bare_words())
    curve = quiet(model, MIRRORS + OTHERS, batch_size=3)
    blind = curve.outcomes[(curve.outcomes["layer"] == 0) & (curve.outcomes["pair"] < 6)]
    frame = curve.frame[curve.frame["subset"] == "mirror"].set_index(["layer", "pooling"])
    for pooling in ("mean", "max", "sum"):
        cosines = blind.loc[blind["pooling"] == pooling, "cosine"]
        assert np.allclose(cosines, 1.0, atol=1e-9, rtol=0)
        row = frame.loc[(0, pooling)]
        for metric in ("pearson", "spearman"):
            ends = ("", "_low", "_high", "_diff", "_diff_low", "_diff_high")
            assert row[[f"{metric}{end}" for end in ends]].isna().all()
            assert -1 <= row[f"clean_{metric}"] <= 1
        assert row["cosine"] == pytest.approx(1.0, abs=1e-9)
    seeing = frame.drop(index=[(0, "mean"), (0, "max"), (0, "sum")])
    assert seeing["pearson"].notna().all()
    assert curve.frame.loc[curve.frame["subset"] == "all", "pearson"].notna().all()
    layers = curve.by_layer[curve.by_layer["subset"] == "mirror"].set_index("layer")
    assert np.isnan(layers.loc[0, "pearson"])
    assert layers.loc[1:, "pearson"].notna().all()
    summary = curve.summary()
    assert "nan" in summary.split("mirror:")[1].splitlines()[2]
    assert "nan" not in summary.split("mirror:")[0]
    for figure in curve.figures().values():
        assert figure.data


def test_a_study_of_mirrors_alone_still_has_its_figures() -> None:
    model = load_model(architectures.build("Llama"), tokenizer=slow.bare_words())
    curve = quiet(model, MIRRORS, layers=[0], pooling=("mean",), controls=False)
    assert curve.frame["pearson"].isna().all()
    assert "similarity_by_layer" in curve.figures()


@pytest.mark.parametrize("name", ["BERT", "RoBERTa", "GPT-2"])
def test_absolute_positions_tell_mirrors_apart(name: str) -> None:
    """But for GPT-2's first sum: words and positions are added there, and nothing is normed."""
    model = load_model(architectures.build(name), tokenizer=slow.bare_words())
    frame = quiet(model, MIRRORS + OTHERS).frame
    blind = frame.loc[frame["pearson"].isna(), ["layer", "pooling", "subset"]]
    expected = [[0, "mean", "mirror"], [0, "sum", "mirror"]] if name == "GPT-2" else []
    assert blind.to_numpy().tolist() == expected


# ---- options ----------------------------------------------------------------------------


def test_options_shape_the_tables(bert: LensModel) -> None:
    curve = quiet(bert, layers=[2, 0.0, 0], pooling=("sum",), controls=False)
    cells = curve.frame[["layer", "pooling", "subset"]].drop_duplicates().to_numpy().tolist()
    assert cells == [[k, "sum", name] for name in ("all", "short", "mirror") for k in (0, 2)]
    assert curve.config["layers"] == [0, 2]
    assert sorted(set(curve.layer_cosines["layer"])) == [0, 1, 2, 3]
    assert "shuffled" in set(quiet(bert, unit="word", layers=[0]).frame["pooling"])
    assert "shuffled" not in set(quiet(bert, layers=[0]).frame["pooling"])


def test_the_config_says_what_was_run(bert: LensModel, whole: ic.SimilarityCurve) -> None:
    config = whole.config
    assert (config["study"], config["kind"], config["unit"]) == ("similarity", "score", "text")
    assert (config["n_pairs"], config["n_layers"]) == (len(slow.ROWS), 3)
    assert config["reading"] == "mean over all tokens (chosen, encoder)"
    other = [{**slow.ROWS[0], "score": 0.71}, *slow.ROWS[1:]]
    again = quiet(bert, other, layers=[0]).config
    assert again["pairs_sha256"] != config["pairs_sha256"]
    assert again["weights_sha256"] == config["weights_sha256"]


def test_labels_choose_constituents(bert: LensModel) -> None:
    by_label = quiet(bert, slow.trees(), unit="constituent", labels=frozenset({"VP", "NP"}))
    groups = by_label.clean.set_index("text1")["n_groups1"]
    assert groups["someone who bakes bread"] == 3  # someone, who, [bakes bread]
    assert groups["the mother of a father"] == 3  # [the mother], of, [a father]
    low = quiet(bert, slow.trees(), unit="constituent", height=2).clean.set_index("text1")
    assert low["n_groups1"]["the mother of a father"] == 3
    high = quiet(bert, slow.trees(), unit="constituent", height=9).clean
    assert high["n_groups1"].tolist() == [1] * len(high)


# ---- models that break ------------------------------------------------------------------


def test_an_embedding_of_zero_has_no_cosine() -> None:
    zero = architectures.build("GPT-2")
    with torch.no_grad():
        zero.transformer.ln_f.weight.zero_()
    model = load_model(zero, tokenizer=slow.tokenizer_for("GPT-2"))
    model.proofs.take_over(Capabilities(model_of("GPT-2").capabilities.probes))
    with pytest.raises(NonFiniteError, match="at layer 3 without .*an embedding is zero, NaN or"):
        quiet(model)


def test_numbers_that_only_pooling_breaks_are_laid_to_it(bert: LensModel) -> None:
    bert.require("resume", "positions")  # proven before it breaks
    real = bert.resume

    def broken(*args: Any, **options: Any) -> torch.Tensor:
        return real(*args, **options) * float("nan")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bert, "resume", broken)
        with pytest.raises(NonFiniteError, match=r"pair of row \d .* layer 0 after mean pooling"):
            quiet(bert)


def test_alibi_cannot_be_shortened() -> None:
    model = load_model(architectures.build("BLOOM"), tokenizer=slow.tokenizer_for("GPT-2"))
    with pytest.raises(CapabilityError, match="BloomForCausalLM cannot do 'positions'.*ALiBi"):
        quiet(model)
