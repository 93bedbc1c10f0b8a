"""A study takes its data as rows, pairs of texts, a frame or a task, and gives the same result."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import interp_compose as ic
from interp_compose.errors import DataFormatError, InputError, OptionError
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
    with pytest.raises(OptionError, match="a sequence.* or a task of ic.load_task or a DataF"):
        ic.cap_curve(model, "mini-idm", progress=False)


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


ROWS = [('a young dog is called a "', "puppy"), ('a young cat is called a "', "kitten")]


def test_every_entry_takes_the_same_rows(model: LensModel) -> None:
    table = pa.Table.from_pylist(
        [dict(zip(("prompt", "answer"), row, strict=True)) for row in ROWS]
    )
    expected = ic.cap_curve(model, ROWS, layers=[0], progress=False).outcomes
    for data in (table, table.to_pandas()[:2], table.to_pydict(), iter(ROWS)):
        found = ic.cap_curve(model, data, layers=[0], progress=False)
        pd.testing.assert_frame_equal(found.outcomes, expected)
    knocked = ic.ablation_curve(model, table, what="mlp", layers=[0], progress=False)
    assert list(knocked.clean["prompt"]) == [prompt for prompt, _ in ROWS]
    bare = ic.ablation_curve(model, table["prompt"], what="mlp", layers=[0], progress=False)
    assert list(bare.clean["prompt"]) == [prompt for prompt, _ in ROWS]
    pairs = [("a dog", "a puppy", 0.9), ("a cat", "a big kitten", 0.5), ("a dog", "a cat", 0.1)]
    similar = ic.similarity_curve(model, pairs, unit="text", layers=[0], progress=False)
    named = [ic.Pair(*pair) for pair in pairs]
    again = ic.similarity_curve(model, named, unit="text", layers=[0], progress=False)
    pd.testing.assert_frame_equal(similar.outcomes, again.outcomes)
    rows = [('a young dog is called a "', (2, 11), 'a young cat is called a "', (2, 11))]
    moved = [(*row, "puppy", "kitten") for row in rows]
    frame = pd.DataFrame([asdict(ic.TransplantPair(*one)) for one in moved])
    options: Any = {"layers": [0], "controls": False, "progress": False}
    (first, second) = (ic.transplant(model, data, **options) for data in (moved, frame))
    pd.testing.assert_frame_equal(first.outcomes, second.outcomes)
    with pytest.raises(DataFormatError, match="pair 0 has no expected"):
        ic.transplant(model, frame.assign(expected=pd.NA), **options)  # type: ignore[arg-type]
    assert ic.watch(model, measures=["cap"], examples=table)
    assert ic.watch(model, measures=["agreement"], pairs=iter(pairs))
    with pytest.raises(DataFormatError, match="example 1 has no answer"):
        ic.watch(model, measures=["cap"], examples=[ROWS[0], {"prompt": "a", "answer": pd.NA}])


def test_a_bad_row_of_a_frame_is_named_without_its_values(model: LensModel) -> None:
    frame = pd.DataFrame([*ROWS, ("a dog", None)], columns=["prompt", "answer"])
    with pytest.raises(DataFormatError, match="^example 2 has no answer"):
        ic.cap_curve(model, [row for _, row in frame.iterrows()], progress=False)


def test_a_task_of_rows_and_training_on_them(model: LensModel) -> None:
    task = ic.Task(train=ROWS, validation=pd.DataFrame(ROWS, columns=["prompt", "answer"]))
    assert task.train == task.validation == tuple(ic.Example(*row) for row in ROWS)
    assert (task.name, task.template, task.test, task.report, task.labels) == (
        "rows",
        "{}",
        (),
        {},
        (),
    )
    assert replace(task, test=[ROWS[0]]).test == task.train[:1]  # type: ignore[arg-type]
    with pytest.raises(DataFormatError, match="^test row 2 has no answer"):
        ic.Task(test=[*ROWS[:1], ("a", pd.NA)])
    config = ic.TrainConfig(max_steps=1)
    trained = [
        ic.finetune(model, data, config=config, progress=False)
        for data in (ROWS, pd.DataFrame(ROWS, columns=["prompt", "answer"]), ic.Task(train=ROWS))
    ]
    settings = [one.history.config for one in trained]
    assert settings[0] == settings[1] == settings[2]
    assert (settings[0]["task"], settings[0]["n_train"], settings[0]["n_validation"]) == (
        "rows",
        2,
        0,
    )
    with pytest.raises(InputError, match=r"patience=1 .*ic.Task\(train=…, validation=…\)"):
        ic.finetune(model, ROWS, config=ic.TrainConfig(max_steps=1, patience=1), progress=False)
    with pytest.raises(DataFormatError, match="^train row 1 has 3 as its answer"):
        ic.finetune(model, [("a", 3)], progress=False)
