"""A similarity run that is interrupted goes on, and ends in the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose.errors import InputError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.similarity import measure as similarity_measure
from interp_compose.studies.similarity.measure import similarity_curve
from tests import architectures
from tests.studies import similarity_reference as slow


@pytest.fixture(autouse=True, scope="module")
def short_intervals() -> Iterator[None]:
    """Intervals are tested with the result."""
    with slow.few_samples():
        yield


@pytest.fixture(scope="module")
def bert() -> LensModel:
    return slow.wrapped("BERT")


@pytest.fixture(scope="module")
def whole(bert: LensModel) -> ic.SimilarityCurve:
    """The default study, in one batch."""
    return quiet(bert)


def quiet(model: LensModel, rows: Any = slow.ROWS, **options: Any) -> ic.SimilarityCurve:
    return similarity_curve(model, rows, progress=False, **options)


def interrupted_at(call: int, patch: pytest.MonkeyPatch) -> list[int]:
    """From its ``call``-th batch on, ``_measure`` is interrupted; how often it was called."""
    real: Callable[..., pd.DataFrame] = similarity_measure._measure
    calls: list[int] = []

    def dies(*args: Any, **options: Any) -> pd.DataFrame:
        calls.append(len(calls) + 1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return real(*args, **options)

    patch.setattr(similarity_measure, "_measure", dies)
    return calls


def test_an_interrupted_run_resumes_to_the_same_result(
    bert: LensModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = quiet(bert, batch_size=2)
    calls = interrupted_at(2, monkeypatch)
    folder = tmp_path / "batches"
    with pytest.raises(KeyboardInterrupt):
        quiet(bert, batch_size=2, resume=folder)
    assert len(list(folder.glob("*.parquet"))) == 1
    resumed = quiet(bert, batch_size=2, resume=folder)
    assert len(calls) == 2 + 4  # the first of five batches was not computed again
    for name, frame in whole.frames.items():
        pd.testing.assert_frame_equal(resumed.frames[name], frame)
    assert resumed.config == whole.config
    assert not folder.exists()


def test_a_resumed_run_of_other_options_pairs_or_weights_is_refused(
    bert: LensModel, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"batch_size": 2, "resume": tmp_path}
    with pytest.MonkeyPatch.context() as patch:
        interrupted_at(2, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet(bert, **options)
    with pytest.raises(InputError, match="different run: .*embedding"):
        quiet(bert, embedding="cls", **options)
    with pytest.raises(InputError, match="seed"):
        quiet(bert, seed=1, **options)
    with pytest.raises(InputError, match="pairs_sha256"):
        quiet(bert, [{**slow.ROWS[0], "score": 0.8}, *slow.ROWS[1:]], **options)
    other = load_model(architectures.build("BERT", seed=1), tokenizer=slow.bert_tokenizer())
    with pytest.raises(InputError, match="weights_sha256"):
        quiet(other, **options)
    assert len(quiet(bert, **options).clean) == len(slow.ROWS)


def test_a_damaged_batch_is_computed_again(
    bert: LensModel, whole: ic.SimilarityCurve, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupted_at(3, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet(bert, batch_size=2, resume=tmp_path)
    damaged = sorted(tmp_path.glob("*.parquet"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.MonkeyPatch.context() as patch:
        calls = interrupted_at(99, patch)
        resumed = quiet(bert, batch_size=2, resume=tmp_path)
    assert len(calls) == 4
    pd.testing.assert_frame_equal(resumed.outcomes, whole.outcomes, atol=1e-5, rtol=0)
