"""Pooling functions of the user's own: in studies, by name, and refused before any work."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import interp_compose as ic
from interp_compose.errors import InterventionError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.types import Example
from tests.studies import similarity_reference as slow
from tests.studies.test_study_refusals import nothing_runs
from tests.studies.test_transplant import PAIRS

STUDIES: dict[str, Any] = {
    "cap": ic.cap_curve,
    "similarity": ic.similarity_curve,
    "transplant": ic.transplant,
}


def my_mean(vectors: Tensor) -> Tensor:
    """The mean, added up token by token."""
    total = torch.zeros_like(vectors[0])
    for vector in vectors:
        total += vector
    return total / len(vectors)


def measured(study: str, model: LensModel, examples: list[Example], **options: Any) -> Any:
    data: Any = {"cap": examples, "similarity": slow.ROWS, "transplant": PAIRS}[study]
    with slow.few_samples():
        return STUDIES[study](model, data, progress=False, **options)


@pytest.mark.parametrize("study", STUDIES)
def test_a_function_stands_beside_the_poolings_by_its_name(
    model: LensModel, examples: list[Example], tmp_path: Path, study: str
) -> None:
    result = measured(study, model, examples, pooling=[my_mean, "mean"], layers=[1, 2])
    assert result.config["pooling"] == ["my_mean", "mean"]
    assert list(dict.fromkeys(result.frame["pooling"]))[:2] == ["mean", "my_mean"]
    both = [
        result.outcomes[result.outcomes["pooling"] == name].drop(columns="pooling")
        for name in ("mean", "my_mean")
    ]
    pd.testing.assert_frame_equal(*(one.reset_index(drop=True) for one in both), atol=1e-5, rtol=0)
    assert len(both[0])
    assert "my_mean" in result.summary()
    assert "my_mean" in result.plot().to_json()
    result.save(tmp_path / "out")
    read = type(result).load(tmp_path / "out")
    pd.testing.assert_frame_equal(read.frame, result.frame)
    alone = measured(study, model, examples, pooling=my_mean, layers=[1])
    assert alone.frame["pooling"].iloc[0] == "my_mean"
    assert any("my_mean" in sentence for sentence in alone.sentences())


@pytest.mark.parametrize("study", STUDIES)
def test_what_is_no_pooling_is_refused_before_any_work(
    model: LensModel, examples: list[Example], tmp_path: Path, study: str
) -> None:
    def other(vectors: Tensor) -> Tensor:
        return vectors[0]

    other.__name__ = "my_mean"
    calls: list[Tensor] = []

    def counted(vectors: Tensor) -> Tensor:
        calls.append(vectors)
        return vectors[0] + len(calls)

    def none(vectors: Tensor) -> Any:
        return None

    def pairs(vectors: Tensor) -> Tensor:
        return vectors

    def order(vectors: Tensor) -> Tensor:
        return vectors.argmax(dim=0)

    def log(vectors: Tensor) -> Tensor:
        return vectors.log().sum(dim=0)

    def three(vectors: Tensor) -> Tensor:
        return vectors[0] + vectors[2]

    for pooling, message in (
        ([my_mean, other], r"\['my_mean', 'my_mean'\] names a pooling twice"),
        (lambda vectors: vectors[0], "a function with the name '<lambda>'"),
        (torch.mean, "the name 'mean'"),
        (partial(torch.mean, dim=0), "no name, by which results"),
        (none, "'none'"),
        (pairs, r"'pairs', given the vectors of 2 tokens .*a tensor \[2, 40\] of torch.float32"),
        (order, r"a tensor \[40\] of torch.int64"),
        (log, "NaN or infinite values"),
        (three, "of 2 tokens .*IndexError"),
        (counted, "another vector each time"),
    ):
        with nothing_runs(), pytest.raises(OptionError, match=message):
            measured(study, model, examples, pooling=pooling)
    with pytest.raises(InterventionError, match="under 'my_mean'.*pooling functions of your own"):
        measured(study, model, examples, pooling=my_mean, resume=tmp_path / "batches")


def test_two_functions_of_one_name_are_not_taken_for_the_same(
    model: LensModel, examples: list[Example]
) -> None:
    def other(vectors: Tensor) -> Tensor:
        return vectors[0]

    other.__name__ = "my_mean"
    one, another = (
        measured("cap", model, examples, pooling=how, layers=[1]) for how in (my_mean, other)
    )
    with pytest.warns(UserWarning, match="'my_mean' is another function in each: the code is not"):
        one.differences_from(another)


def test_examples_that_repeat_are_said(model: LensModel, examples: list[Example]) -> None:
    note = "1 of them repeat an earlier one: intervals and tests count each as one of its own"
    for study in (ic.cap_curve, ic.ablation_curve):
        once = study(model, examples, layers=[1], progress=False)
        twice = study(model, [*examples, examples[0]], layers=[1], progress=False)
        assert "repeated" not in once.config
        assert twice.config["repeated"] == 1
        assert any(note in one for one in twice.notes)
        assert note in twice.summary()
