"""The similarity curve: its numbers by other means."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, spearmanr, t
from sklearn.metrics import roc_auc_score

from interp_compose.errors import InputError, OptionError
from interp_compose.studies.similarity.measure import similarity_curve
from interp_compose.studies.similarity.result import SimilarityCurve, compare_similarities
from tests.studies import similarity_reference as slow

N, N_LAYERS = 11, 3
POOLINGS = ("mean", "max", "sum", "last", "first", "shuffled")
CONFIG = {"model": "tiny", "task": "bird", "unit": "text", "kind": "score", "embedding": "mean"}
MIRRORS, NAMED, PLAIN = [0, 3, 4, 8], [1, 2, 3, 9, 10], [5, 6]


def make_pairs(kind: str = "score", seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = np.arange(N)
    target = np.round(rng.random(N), 1) if kind == "score" else rng.permutation(rows % 2)
    if kind == "label":
        target[MIRRORS[:2]], target[NAMED[:2]] = [0, 1], [1, 0]
    return pd.DataFrame(
        {
            "pair": rows,
            "text1": [f"water {n}" for n in rows],
            "text2": [f"{n} water" for n in rows],
            "target": target.astype(float),
            "subset": ["nouns" if n in NAMED else "" for n in rows],
            "mirror": [n in MIRRORS for n in rows],
            "affected": [n not in PLAIN for n in rows],
            "n_tokens1": 4,
            "n_tokens2": 5,
            "n_groups1": 1,
            "n_groups2": 1,
        }
    )


def make_cosines(
    pairs: pd.DataFrame,
    layers: tuple[int, ...] = (0, 2),
    poolings: tuple[str, ...] = ("mean", "last"),
    seed: int = 1,
) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    cells = [(layer, "none") for layer in range(N_LAYERS + 1)]
    cells += list(itertools.product(layers, poolings))
    rows = []
    clean = dict(zip(pairs["pair"], rng.uniform(-1, 1, len(pairs)), strict=True))
    for pair, (layer, pooling) in itertools.product(pairs["pair"], cells):
        copied = (layer, pooling) == (N_LAYERS, "none")
        copied |= pooling != "none" and pair in PLAIN
        cosine = clean[pair] if copied else float(np.round(rng.uniform(-1, 1), 1))
        rows.append({"pair": pair, "layer": layer, "pooling": pooling, "cosine": cosine})
    return pd.DataFrame(rows)


def make(kind: str = "score", **changes: Any) -> SimilarityCurve:
    pairs = make_pairs(kind)
    return SimilarityCurve.from_outcomes(
        make_cosines(pairs, **changes), pairs, {**CONFIG, "kind": kind}, n_layers=N_LAYERS
    )


def value_of(metric: str, x: np.ndarray, y: np.ndarray) -> float:
    """The metric from its definition or by SciPy, NaN where it does not exist."""
    if metric == "auc":
        if not 0 < y.sum() < len(y):
            return np.nan
        ones, zeros = x[y == 1][:, None], x[y == 0][None]
        return float(np.mean((ones > zeros) + 0.5 * (ones == zeros)))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    if metric == "pearson":
        return float(np.corrcoef(x, y)[0, 1])
    return float(spearmanr(x, y).statistic)


def bootstrapped(
    metric: str, x: np.ndarray, clean: np.ndarray, y: np.ndarray
) -> dict[str, np.ndarray]:
    """Expanded percentiles of the value, of the clean value and of their difference, sample by
    sample."""
    rng = np.random.default_rng(0)
    values, cleans = [], []
    for _ in range(1000):
        drawn = rng.integers(0, len(y), len(y))
        values.append(value_of(metric, x[drawn], y[drawn]))
        cleans.append(value_of(metric, clean[drawn], y[drawn]))
    gaps = np.subtract(values, cleans)
    n = len(y)
    share = norm.cdf(-np.sqrt(n / (n - 1)) * t.ppf(0.975, n - 1))
    return {
        name: np.nanquantile(numbers, [share, 1 - share])
        for name, numbers in (("", values), ("clean_", cleans), ("_diff", gaps))
    }


def test_few_pairs_are_told_with_what_becomes_of_intervals() -> None:
    assert make().notes == ["11 pairs, fewer than 30: see how wide the intervals are"]
    pairs = make_pairs().head(6)
    few = SimilarityCurve.from_outcomes(make_cosines(pairs), pairs, CONFIG, n_layers=N_LAYERS)
    assert few.notes == ["6 pairs, fewer than 30: no intervals, for which 10 are needed"]
    assert few.frame["pearson_low"].isna().all()


SUBSETS = {"all": list(range(N)), "nouns": NAMED, "mirror": MIRRORS}


@pytest.mark.parametrize("kind", ["score", "label"])
def test_every_number_of_the_frame_by_other_means(kind: str) -> None:
    curve = make(kind, poolings=POOLINGS)
    metrics = ["pearson", "spearman"] if kind == "score" else ["auc"]
    assert list(curve.metrics) == metrics
    wide = curve.outcomes.pivot(index="pair", columns=["layer", "pooling"], values="cosine")
    target = curve.clean["target"].to_numpy()
    clean = curve.clean["cosine"].to_numpy()
    keys = list(itertools.product(SUBSETS, POOLINGS, (0, 2)))
    found = list(curve.frame[["subset", "pooling", "layer"]].itertuples(index=False, name=None))
    assert found == keys
    for row in curve.frame.to_dict("records"):
        chosen = SUBSETS[row["subset"]]
        x = wide[row["layer"], row["pooling"]].to_numpy()[chosen]
        for metric in metrics:
            value = value_of(metric, x, target[chosen])
            was = value_of(metric, clean[chosen], target[chosen])
            assert row[metric] == pytest.approx(value, abs=1e-9)
            assert row[f"clean_{metric}"] == pytest.approx(was, abs=1e-9)
            assert row[f"{metric}_diff"] == pytest.approx(value - was, abs=1e-9)
        assert row["cosine"] == pytest.approx(x.mean())
        assert row["cosine_low"] <= row["cosine"] <= row["cosine_high"]
        assert row["depth"] == row["layer"] / (N_LAYERS - 1)
        assert row["n"] == len(chosen)
        assert row["n_affected"] == len(set(chosen) - set(PLAIN))


@pytest.mark.parametrize("metric", ["pearson", "spearman", "auc"])
def test_intervals_and_the_paired_difference_sample_by_sample(metric: str) -> None:
    curve = make("label" if metric == "auc" else "score", layers=(2,), poolings=("mean",))
    row = curve.frame.set_index("subset").loc["all"]
    x = curve.outcomes["cosine"].to_numpy()
    clean, target = curve.clean["cosine"].to_numpy(), curve.clean["target"].to_numpy()
    expected = bootstrapped(metric, x, clean, target)
    for name, ends in expected.items():
        column = f"{name}{metric}" if name == "clean_" else f"{metric}{name}"
        assert row[[f"{column}_low", f"{column}_high"]].to_list() == pytest.approx(
            ends.tolist(), abs=1e-9
        )
    paired = row[f"{metric}_diff_high"] - row[f"{metric}_diff_low"]
    assert paired != pytest.approx(
        (row[f"{metric}_high"] - row[f"{metric}_low"])
        + (row[f"clean_{metric}_high"] - row[f"clean_{metric}_low"])
    )


@pytest.mark.parametrize("kind", ["score", "label"])
def test_every_number_by_layer_by_other_means(kind: str) -> None:
    curve = make(kind)
    wide = curve.layer_cosines.pivot(index="pair", columns="layer", values="cosine")
    target = curve.clean["target"].to_numpy()
    keys = list(itertools.product(SUBSETS, range(N_LAYERS + 1)))
    found = list(curve.by_layer[["subset", "layer"]].itertuples(index=False, name=None))
    assert found == keys
    for row in curve.by_layer.to_dict("records"):
        chosen = SUBSETS[row["subset"]]
        x = wide[row["layer"]].to_numpy()[chosen]
        for metric in curve.metrics:
            expected = value_of(metric, x, target[chosen])
            assert row[metric] == pytest.approx(expected, abs=1e-9)
        assert row["cosine"] == pytest.approx(x.mean())
        assert row["depth"] == row["layer"] / N_LAYERS
        assert row["n"] == len(chosen)
    last = curve.by_layer[curve.by_layer["layer"] == N_LAYERS].set_index("subset")
    cells = curve.frame.drop_duplicates("subset").set_index("subset")
    for metric in curve.metrics:
        for end in ("", "_low", "_high"):
            expected = cells[f"clean_{metric}{end}"].tolist()
            found = last[f"{metric}{end}"].tolist()
            assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


def columns_of(metric: str) -> list[str]:
    ends = ("", "_low", "_high")
    names = [f"{metric}{end}" for end in ends] + [f"{metric}_diff{end}" for end in ends]
    return names + [f"clean_{metric}{end}" for end in ends]


def test_the_columns_are_the_ones_documented() -> None:
    tail = ["cosine", "cosine_low", "cosine_high", "n"]
    for kind, metrics in (("score", ["pearson", "spearman"]), ("label", ["auc"])):
        curve = make(kind)
        wanted = [column for metric in metrics for column in columns_of(metric)]
        assert list(curve.frame) == [
            "layer", "depth", "pooling", "subset", *wanted, *tail, "n_affected",
        ]  # fmt: skip
        wanted = [f"{m}{end}" for m in metrics for end in ("", "_low", "_high")]
        assert list(curve.by_layer) == ["layer", "depth", "subset", *wanted, *tail]
        assert list(curve.outcomes) == ["pair", "layer", "pooling", "cosine"]
        assert list(curve.layer_cosines) == ["pair", "layer", "cosine"]
        assert list(curve.clean) == [*make_pairs().columns, "cosine"]
    for table in (SimilarityCurve.frame, SimilarityCurve.by_layer):
        about = table.__doc__ or ""
        for word in ("layer", "depth", "subset", "m_low", "m_high", "cosine_low", "n"):
            assert word in about
    for word in ("clean_m_low", "m_diff", "m_diff_low", "n_affected", "pooling"):
        assert word in (SimilarityCurve.frame.__doc__ or "")


def test_an_unaffected_subset_differs_from_clean_by_nothing() -> None:
    pairs = make_pairs().assign(affected=False)
    cosines = make_cosines(pairs)
    clean = cosines[(cosines["layer"] == N_LAYERS)].set_index("pair")["cosine"]
    pooled = cosines["pooling"] != "none"
    cosines.loc[pooled, "cosine"] = cosines.loc[pooled, "pair"].map(clean)
    frame = SimilarityCurve.from_outcomes(cosines, pairs, CONFIG, n_layers=N_LAYERS).frame
    for column in (c for c in frame if "_diff" in c):
        assert (frame[column].dropna() == 0).all()
    assert (frame["pearson_diff"] == 0).all()


@pytest.mark.parametrize(("number", "is_subset"), [(2, False), (3, True)])
def test_mirror_pairs_are_a_subset_from_three_on(number: int, is_subset: bool) -> None:
    pairs = make_pairs().assign(mirror=lambda t: t["pair"] < number)
    curve = SimilarityCurve.from_outcomes(make_cosines(pairs), pairs, CONFIG, n_layers=N_LAYERS)
    assert ("mirror" in set(curve.frame["subset"])) is is_subset
    assert ("order_sensitivity" in curve.figures()) is is_subset
    assert (": too few, or judged alike" in curve.summary()) is not is_subset


# ---- seen -------------------------------------------------------------------------------


def test_an_unknown_kind_is_refused() -> None:
    pairs = make_pairs()
    message = r"config\['kind'\] is 'rank': expected one of score, label"
    with pytest.raises(OptionError, match=message):
        SimilarityCurve.from_outcomes(
            make_cosines(pairs), pairs, {**CONFIG, "kind": "rank"}, n_layers=N_LAYERS
        )


def test_figures_and_metrics() -> None:
    curve = make()
    assert set(curve.figures()) == {"similarity_curve", "similarity_by_layer", "order_sensitivity"}
    assert "Spearman" in str(curve.plot("spearman", normalised_depth=True).to_json())
    assert "Spearman" in str(curve.plot_layers("spearman").to_json())
    with pytest.raises(OptionError, match="'auc' was not measured on pairs with a score; .*pears"):
        curve.plot("auc")
    with pytest.raises(OptionError, match="'pearson' was not measured on pairs with a label"):
        make("label").plot_layers("pearson")


def test_the_summary_holds_the_frame() -> None:
    curve = make(poolings=POOLINGS)
    summary = curve.summary()
    first = curve.frame.iloc[0]
    assert f"all: {N} pairs, {N - len(PLAIN)} affected; pearson of the clean model" in summary
    assert f"{first['clean_pearson']:.3f} [{first['clean_pearson_low']:.3f}" in summary
    for part, (subset, rows) in zip(
        summary.split("\n\n")[1:], curve.frame.groupby("subset", sort=False), strict=True
    ):
        assert part.startswith(f"{subset}: ")
        table = rows.pivot(index="layer", columns="pooling", values="pearson")[list(POOLINGS)]
        lines = [line.split() for line in part.splitlines()[2:] if not line.startswith("!")]
        assert [line[2:] for line in lines] == [
            [f"{value:.3f}" for value in row] for row in table.to_numpy()
        ]


def test_labels_give_an_area_and_nothing_else() -> None:
    rows = [
        {"text1": row["text1"], "text2": row["text2"], "label": n % 2}
        for n, row in enumerate(slow.ROWS)
    ]
    curve = similarity_curve(slow.wrapped("BERT"), rows, layers=[0], progress=False)
    assert curve.metrics == ("auc",)
    assert not [column for column in curve.frame if "pearson" in column or "spearman" in column]
    row = curve.frame.query("subset == 'all' and pooling == 'mean'").iloc[0]
    x = curve.outcomes.query("pooling == 'mean'")["cosine"]
    assert row["auc"] == pytest.approx(roc_auc_score(curve.clean["target"], x))
    assert "auc of the clean model" in curve.summary()


# ---- several in one figure --------------------------------------------------------------


@pytest.fixture(scope="module")
def encoder() -> SimilarityCurve:
    return similarity_curve(slow.wrapped("BERT"), slow.ROWS, progress=False)


@pytest.fixture(scope="module")
def decoder() -> SimilarityCurve:
    return similarity_curve(
        slow.wrapped("GPT-2"), slow.ROWS, layers=[0, 2], pooling=("mean",), progress=False
    )


def test_an_encoder_and_a_decoder_stand_on_one_plot(
    encoder: SimilarityCurve, decoder: SimilarityCurve
) -> None:
    figure = compare_similarities({"an encoder": encoder, "a decoder": decoder})
    names = {trace.name for trace in figure.data}
    assert {"an encoder", "a decoder"} <= names
    drawn = {
        trace.name: [float(y) for y in trace.y]
        for trace in figure.data
        if trace.name in ("an encoder", "a decoder") and trace.xaxis in (None, "x")
        and trace.mode is not None and "markers" in trace.mode
    }  # fmt: skip
    for label, curve in (("an encoder", encoder), ("a decoder", decoder)):
        rows = curve.frame.query("subset == 'all' and pooling == 'mean'")
        assert drawn[label] == pytest.approx(rows["pearson"].tolist())
    compare_similarities({"one": encoder}, metric="spearman", pooling="last")


def test_what_cannot_be_compared_is_refused(
    encoder: SimilarityCurve, decoder: SimilarityCurve
) -> None:
    both = {"an encoder": encoder, "a decoder": decoder}
    with pytest.raises(InputError, match="'a decoder' has no pooling 'max'; it has .*mean"):
        compare_similarities(both, pooling="max")
    with pytest.raises(OptionError, match="metric 'auc' was not measured"):
        compare_similarities(both, metric="auc")
    with pytest.raises(InputError, match="nothing to compare; pass at least one"):
        compare_similarities({})
    with pytest.raises(InputError, match="'an encoder' and 'toy' were measured on different pairs"):
        compare_similarities({"an encoder": encoder, "toy": make()})
    other = [{**slow.ROWS[0], "score": 0.71}, *slow.ROWS[1:]]
    rescored = similarity_curve(
        slow.wrapped("BERT"), other, layers=[0], controls=False, progress=False
    )
    with pytest.raises(InputError, match="different pairs"):
        compare_similarities({"an encoder": encoder, "rescored": rescored})
