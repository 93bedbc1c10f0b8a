"""Several similarity curves in one figure."""

from __future__ import annotations

import pytest

from interp_compose.errors import (
    InputError,
    OptionError,
)
from interp_compose.studies.similarity.measure import similarity_curve
from interp_compose.studies.similarity.result import SimilarityCurve, compare_similarities
from tests.studies import similarity_reference as slow
from tests.studies.test_similarity_result import make


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
    with pytest.raises(InputError, match="'a decoder' has no protocol 'max'; it has .*mean"):
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
