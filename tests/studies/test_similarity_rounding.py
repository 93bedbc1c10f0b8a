"""Ties that rounding breaks, half precision, interventions around a study, texts not to be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import interp_compose as ic
from interp_compose.errors import (
    InterventionError,
    NonFiniteError,
    OptionError,
    PromptError,
)
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.embed import embed_texts
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.stats.agreement import rounding
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.studies.similarity.measure import similarity_curve
from interp_compose.studies.similarity.result import SimilarityCurve
from tests import architectures
from tests.studies import similarity_reference as slow

N, N_LAYERS = 40, 1
TIED = np.arange(N) % 2 == 0
PLAIN_ROWS = [{key: row[key] for key in ("text1", "text2", "score")} for row in slow.ROWS[:4]]


@pytest.fixture(autouse=True, scope="module")
def short_intervals() -> Iterator[None]:
    with slow.few_samples():
        yield


@pytest.fixture(scope="module")
def bert() -> LensModel:
    return slow.wrapped("BERT")


def quiet(model: LensModel, rows: Any = slow.ROWS, **options: Any) -> SimilarityCurve:
    return similarity_curve(model, rows, progress=False, **options)


# ---- ties -------------------------------------------------------------------------------


def about(kind: str, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    target = rng.random(N) if kind == "score" else rng.permutation(np.arange(N) % 2)
    table = {"pair": np.arange(N), "text1": "a b", "text2": "b a", "target": target.astype(float)}
    table |= {"subset": "", "mirror": False, "affected": True, "n_tokens1": 2, "n_tokens2": 2}
    return pd.DataFrame({**table, "n_groups1": 1, "n_groups2": 1, **columns})


def curve_of(
    kind: str, cosines: np.ndarray, *, clean: np.ndarray | None = None, **columns: Any
) -> SimilarityCurve:
    """One layer, one protocol; the clean model as well, which is another where it is given."""
    cells = {("none", 0): cosines, ("none", 1): cosines if clean is None else clean}
    cells["mean", 0] = cosines
    tables = [
        pd.DataFrame({"pair": np.arange(N), "layer": layer, "pooling": name, "cosine": values})
        for (name, layer), values in cells.items()
    ]
    config = {"model": "tiny", "task": "x", "unit": "text", "kind": kind, "embedding": "mean"}
    return SimilarityCurve.from_outcomes(
        pd.concat(tables, ignore_index=True), about(kind, **columns), config, n_layers=N_LAYERS
    )


def spread(seed: int) -> np.ndarray:
    """Half of the cosines differ by 1e-14 … 1e-13 from 1, in random order; half clearly."""
    rng = np.random.default_rng(seed)
    return np.where(TIED, 1 - rng.uniform(1e-14, 1e-13, N), rng.uniform(-0.9, 0.9, N).round(3))


@pytest.mark.parametrize("seed", range(3))
def test_cosines_that_differ_by_rounding_are_ties(seed: int) -> None:
    cosines, other = spread(seed), spread(seed + 10)
    assert len(set(cosines[TIED])) > 10
    tied, target = cosines.round(6), about("score")["target"].to_numpy()
    assert len(set(tied[TIED])) == 1
    curve = curve_of("score", cosines, clean=other)
    row, layer = curve.frame.iloc[0], curve.by_layer.iloc[0]
    expected = spearmanr(tied, target).statistic
    assert abs(expected - spearmanr(cosines, target).statistic) > 1e-4
    assert row["spearman"] == pytest.approx(expected, abs=1e-12)
    assert layer["spearman"] == pytest.approx(expected, abs=1e-12)
    clean = spearmanr(other.round(6), target).statistic
    assert row["clean_spearman"] == pytest.approx(clean, abs=1e-12)
    assert row["spearman_diff"] == pytest.approx(expected - clean, abs=1e-12)
    assert row["pearson"] == pytest.approx(np.corrcoef(cosines, target)[0, 1], abs=1e-12)
    labels = about("label")["target"].to_numpy()
    row = curve_of("label", cosines, clean=other).frame.iloc[0]
    area = roc_auc_score(labels, tied)
    assert abs(area - roc_auc_score(labels, cosines)) > 1e-4
    assert row["auc"] == pytest.approx(area, abs=1e-12)
    assert row["clean_auc"] == pytest.approx(roc_auc_score(labels, other.round(6)), abs=1e-12)


def test_pearson_sees_the_cosines_as_they_are() -> None:
    """Differences of 3e-6 are not rounding: ranks see steps of them, Pearson all of them."""
    rng = np.random.default_rng(0)
    cosines, target = 0.3 + rng.uniform(0, 3e-6, N), about("score")["target"].to_numpy()
    row = curve_of("score", cosines).frame.iloc[0]
    exact = float(np.corrcoef(cosines, target)[0, 1])
    assert abs(exact - np.corrcoef(cosines.round(6), target)[0, 1]) > 1e-4
    assert row["pearson"] == pytest.approx(exact, abs=1e-9)
    assert row["spearman"] == pytest.approx(spearmanr(cosines.round(6), target).statistic)


@pytest.mark.parametrize("level", [1 - 3e-8, 0.4, 0.4 - 5e-7, 0.0, -0.8])
def test_cosines_that_are_one_number_up_to_rounding_correlate_with_nothing(level: float) -> None:
    cosines = level + np.random.default_rng(0).uniform(0, 3e-8, N)
    frame = curve_of("score", cosines, clean=spread(0)).frame.iloc[0]
    for metric in ("pearson", "spearman"):
        ends = ("", "_low", "_high", "_diff", "_diff_low", "_diff_high")
        assert frame[[f"{metric}{end}" for end in ends]].isna().all()
        assert -1 <= frame[f"clean_{metric}"] <= 1
    assert frame["cosine"] == pytest.approx(level, abs=1e-7)
    assert curve_of("label", cosines).frame.iloc[0]["auc"] == 0.5


def scrambled() -> list[dict[str, Any]]:
    """Six words in two orders, and pairs that share none or some of them; labels at random."""
    rng, rows = np.random.default_rng(5), []
    for n in range(24):
        words = rng.permutation(20)
        first, second = words[:6], rng.permutation(words[:6])
        if n % 3 == 0:
            second = words[4:10]
        texts = [" ".join(f"w{word}" for word in text) for text in (first, second)]
        rows.append({"text1": texts[0], "text2": texts[1], "label": int(rng.integers(2))})
    return rows


def test_scrambled_pairs_score_the_same_in_batches_of_any_size() -> None:
    """At the first layer of a rotary model only rounding tells the words' orders apart."""
    model = load_model(architectures.build("Llama"), tokenizer=slow.bare_words())
    rows = scrambled()
    labels, same = [row["label"] for row in rows], np.arange(24) % 3 != 0
    areas = []
    for batch_size in (1, 24):
        curve = quiet(model, rows, layers=[0], controls=False, batch_size=batch_size)
        frame = curve.frame[curve.frame["subset"] == "all"].set_index("pooling")
        wide = curve.outcomes.pivot(index="pair", columns="pooling", values="cosine")
        for pooling in ("mean", "max", "sum"):
            cosines = wide[pooling].to_numpy()
            assert np.allclose(cosines[same], 1.0, atol=1e-6, rtol=0)
            assert cosines[~same].max() < 0.999
            area = roc_auc_score(labels, np.where(same, 1.0, cosines))
            assert frame.loc[pooling, "auc"] == pytest.approx(area, abs=1e-12)
        areas.append(frame.loc[["mean", "max", "sum"], "auc"].tolist())
    assert areas[0] == pytest.approx(areas[1], abs=1e-12)


def test_a_text_beside_itself_is_within_the_bounds(bert: LensModel) -> None:
    texts = [*slow.TREES, "small sea", "house of wood"]
    rows = [{"text1": text, "text2": text, "score": n / 10} for n, text in enumerate(texts)]
    mixed = quiet(bert, rows + PLAIN_ROWS, batch_size=3).outcomes
    same = mixed["pair"] < len(rows)
    assert np.allclose(mixed.loc[same, "cosine"], 1.0, atol=1e-9, rtol=0)
    assert mixed.loc[~same, "cosine"].abs().max() < 1 - 1e-6
    with pytest.raises(InterventionError, match="changed no cosine"):
        quiet(bert, rows)


# ---- half precision ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "scale"),
    [
        ("BERT", {"unit": "word"}, 0.1),
        pytest.param("RoBERTa", {"embedding": "cls"}, 1.0, marks=architectures.needs_tl4),
        ("OPT", {}, 1.0),
    ],
)
def test_a_study_in_bfloat16_is_not_taken_for_one_that_changed_nothing(
    name: str, options: dict[str, Any], scale: float
) -> None:
    """Where no cosine moves by four units in the last place, which is much of a cosine's range."""
    half = architectures.build(name)
    with torch.no_grad():
        for parameter in half.parameters():
            parameter.mul_(scale if parameter.ndim == 2 else 1.0)
    model = load_model(half.to(torch.bfloat16), tokenizer=slow.tokenizer_for(name))
    curve = quiet(model, PLAIN_ROWS, **options)
    assert curve.config["dtype"] == "bfloat16"
    clean = curve.clean.set_index("pair")["cosine"]
    moved = (curve.outcomes["cosine"] - curve.outcomes["pair"].map(clean)).abs()
    most = moved.groupby([curve.outcomes["layer"], curve.outcomes["pooling"]]).max()
    assert rounding("bfloat16") < most.min() < 4 * torch.finfo(torch.bfloat16).eps


# ---- what stands around a study ---------------------------------------------------------


def half_as_long(resid: torch.Tensor, hook: Any) -> torch.Tensor:
    return resid * torch.linspace(0.5, 1.5, resid.shape[-1])


@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
def test_nothing_is_measured_inside_pool_at(
    model: LensModel, examples: list[ic.Example], mode: str
) -> None:
    tokens = torch.tensor([[5, 17, 3]])
    for measure in (
        lambda: quiet(model, layers=[0]),
        lambda: cap_curve(model, examples, layers=[0], progress=False),
        lambda: embed_texts(model, ["not alive", "x"]),
    ):
        with pool_at(model, 1, torch.tensor([[0, 0, 1]]), "mean", mode=mode):
            model(tokens)
            message = "inside a block of pool_at, .* end the block"
            with pytest.raises(InterventionError, match=message):
                measure()
        assert not model.open_blocks.wraps_calls
        measure()


def test_hooks_around_a_study_are_recorded(bert: LensModel) -> None:
    points = ["blocks.0.hook_resid_pre", "blocks.1.hook_resid_pre"]
    with bert.hooks([(point, half_as_long) for point in points[::-1]]):
        hooked = quiet(bert, layers=[0], controls=False)
        recorded = list(bert.active_hooks)
    plain = quiet(bert, layers=[0], controls=False)
    assert hooked.config["active_hooks"] == recorded
    for shown in (hooked.head(), *(one.chart.subtitle for one in hooked.figures().values())):
        assert "under blocks." in shown
    assert set(points) <= set(recorded)
    assert {name.split(".")[1] for name in recorded} == {"0", "1"}  # a point may have two names
    assert plain.config["active_hooks"] == list(bert.active_hooks) == []
    assert not np.allclose(hooked.outcomes["cosine"], plain.outcomes["cosine"], atol=1e-3)


# ---- embeddings -------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_text_whose_embedding_is_not_finite_is_named(bad: float) -> None:
    own = architectures.build("BERT")
    model = load_model(own, tokenizer=slow.bert_tokenizer())
    texts = ["small sea", "a house", "the sea", "a wooden house"]
    assert embed_texts(model, texts).isfinite().all()  # and so the probe is behind us
    house = model.tokenizer.convert_tokens_to_ids("house")
    with torch.no_grad():
        own.bert.embeddings.word_embeddings.weight[house] = bad
    for batch_size in (1, None):
        with pytest.raises(
            NonFiniteError, match=r"embedding of text 1 has NaN .*\(2 of 4 texts\)\. .*weights"
        ):
            embed_texts(model, texts, batch_size=batch_size)
    assert embed_texts(model, texts[::2]).isfinite().all()


def test_no_cls_where_the_tokenizer_puts_none() -> None:
    bare = slow.bare_words()
    bare.backend_tokenizer.post_processor = None
    model = load_model(architectures.build("BERT"), tokenizer=bare)
    assert bare("w1 w2").input_ids == [3, 4]
    match = r"puts no special token in front .* no \[CLS\] to read; choose embedding=\"mean\""
    with pytest.raises(OptionError, match=match):
        embed_texts(model, ["w1 w2"], embedding="cls")
    rows = scrambled()
    with pytest.raises(OptionError, match=match):
        quiet(model, rows, embedding="cls")
    assert embed_texts(model, ["w1 w2"], embedding="mean").shape == (1, model.d_model)
    assert len(quiet(model, rows, layers=[0], controls=False).outcomes) == 3 * len(rows)


@architectures.needs_tl4
def test_roberta_s_padding_inside_a_text_is_refused() -> None:
    """RoBERTa numbers positions past the tokens that it takes for padding, mask or not."""
    model = slow.wrapped("RoBERTa")
    assert model.pad_id == model.tokenizer.pad_token_id == 0
    taken = r"holds the token 0, which .* takes for padding: 'small \[PAD\] sea'. Take it out"
    with pytest.raises(PromptError, match=f"text 1 {taken}"):
        embed_texts(model, ["a", "small [PAD] sea"])
    for key in ("text1", "text2"):
        rows = [*slow.ROWS[:3], {**slow.ROWS[3], key: "small [PAD] sea"}]
        with pytest.raises(PromptError, match=f"{key} of row 4 {taken}"):
            quiet(model, rows)
    assert embed_texts(slow.wrapped("BERT"), ["small [PAD] sea"]).isfinite().all()
