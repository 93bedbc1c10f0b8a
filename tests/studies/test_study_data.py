"""A study takes its data as rows, pairs of texts, a frame or a task, and gives the same result."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose.errors import DataFormatError, OptionError
from interp_compose.models.lens_model import LensModel


@pytest.fixture(scope="module")
def model() -> LensModel:
    return ic.load_model("mini-idm", device="cpu")


@pytest.fixture(scope="module")
def task(model: LensModel) -> ic.Task:
    return ic.load_task("mini-idm", model)[:6]


def test_what_data_may_come_as(model: LensModel, task: ic.Task) -> None:
    expected = ic.cap_curve(
        model, task.test, layers=[model.n_layers - 1], pooling=("mean",), progress=False
    )
    rows = [(example.prompt, example.answer) for example in task.test]
    frame = pd.DataFrame(rows, columns=["prompt", "answer"])
    for data in (task, rows, frame):
        found = ic.cap_curve(model, data, layers=-1, pooling="mean", progress=False)
        pd.testing.assert_frame_equal(found.outcomes, expected.outcomes)
        name = "mini-idm (test)" if data is task else ""
        assert found.config == {**expected.config, "task": name}
    named = ic.cap_curve(model, task, layers=[0], task="mine", progress=False)
    assert named.config["task"] == "mine"
    with pytest.raises(DataFormatError, match="example 0 has 3 as its answer"):
        ic.cap_curve(model, [("a cat is called a", 3)], progress=False)


def test_a_tasks_name_is_no_data(model: LensModel) -> None:
    with pytest.raises(OptionError, match="a tuple of 2.* or a task of ic.load_task or a DataF"):
        ic.cap_curve(model, "mini-idm", progress=False)  # type: ignore[arg-type]


def test_pairs_may_be_a_frame(model: LensModel) -> None:
    texts = [("a big dog", "a small dog", 0.9), ("a red car", "an old ship", 0.1)]
    texts += [("a young cat", "a kitten", 0.8), ("one tall tree", "a pine", 0.5)]
    frame = pd.DataFrame(texts, columns=["text1", "text2", "score"])
    measured = [
        ic.similarity_curve(model, data, layers=[-1], pooling="sum", unit="text", progress=False)
        for data in (frame, frame.to_dict("records"))
    ]
    pd.testing.assert_frame_equal(measured[0].frame, measured[1].frame)


def test_a_part_of_a_task(task: ic.Task) -> None:
    assert [len(task.split(name)) for name in ("train", "validation", "test")] == [6, 6, 6]
    assert len(task) == 18
    assert task[1:3].test == task.test[1:3]
    assert task[1:3].template == task.template
    example = task.train[0]
    assert repr(task) == (
        "Task('mini-idm', train: 6, validation: 6, test: 6, such as "
        f"{example.prompt!r} → {example.answer!r})"
    )
    assert repr(replace(task, train=(), validation=(), test=())).endswith("test: 0)")
