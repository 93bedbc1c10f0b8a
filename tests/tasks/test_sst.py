"""SST's trees: labels, text, splits and garbled lines."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import nltk
import pytest

from interp_compose.errors import AnswerError, DataFormatError, MissingDataError
from interp_compose.tasks.load import load_task
from interp_compose.tasks.published import PUBLISHED
from interp_compose.tasks.sst import decode_leaf, parse_tree, sentiment
from tests.tasks.conftest import byte_tokenizer
from tests.tasks.stub import StubModel

SHA = PUBLISHED["Stanford Sentiment Treebank"]
LABELS = ["negative", "neutral", "positive"]
TREE = r"(3 (2 It) (4 (2 (2 's) (2 -LRB-)) (4 (2 a\/b) (2 ``))))"


@pytest.fixture
def model() -> StubModel:
    return StubModel(byte_tokenizer(LABELS))


def folder(tmp_path: Path, train: bytes) -> Path:
    for name in ("dev.txt", "test.txt"):
        (tmp_path / name).write_text("(1 (2 So) (0 dull))\n")
    (tmp_path / "train.txt").write_bytes(train)
    return tmp_path


@pytest.mark.parametrize("label", range(5))
def test_three_labels_of_five(label: int) -> None:
    expected = ["negative", "negative", "neutral", "positive", "positive"][label]
    assert sentiment(label / 4) == expected


def test_thresholds_belong_to_the_outer_labels() -> None:
    assert [sentiment(x) for x in (0.4, 0.41, 0.59, 0.6)] == [
        "negative",
        "neutral",
        "neutral",
        "positive",
    ]


def test_text_tree_and_answer(tmp_path: Path, model: StubModel) -> None:
    task = load_task("sst", model, data_dir=folder(tmp_path, TREE.encode() + b"\n"))
    (one,) = task.train
    assert task.name == "sst (altered)"
    assert str(task.report["source"]).endswith(f"…; published {SHA['test'][:8]}…)")
    assert one.prompt == 'The sentiment of It \'s ( a/b " is "'
    assert one.answer == "positive"
    assert one.tree == TREE
    assert task.test[0].answer == "negative"
    assert task.report["train_all"] == task.report["train_positive"] == 1
    assert task.report["train_negative"] == 0


@pytest.mark.parametrize(
    ("leaf", "text"),
    [("-RSB-", "]"), ("''", '"'), (r"1\/2", "1/2"), (r"\*", "*"), ("'s", "'s"), ("-LRB-x", "(x")],
)
def test_penn_escapes(leaf: str, text: str) -> None:
    assert decode_leaf(leaf) == text


GARBLED = [
    (b"", "the line is empty"),
    (b"(3 (2 a) (2 b)", "brackets do not match"),
    (b"(3 (2 a) (2 b)))", "brackets do not match"),
    (b"(3 (2 a) (2 b)) (2 c)", "there is more than one tree"),
    (b"3 (2 a)", "a tree begins with a bracket"),
    (b"(5 (2 a) (2 b))", "the label '5' is not 0, 1, 2, 3 or 4"),
    (b"(NP (2 a) (2 b))", "the label 'NP' is not"),
    (b"(3 (2 a) b)", "the word 'b' has no label of its own"),
    (b"(3 a b)", "the word 'b' has no label of its own"),
    (b"(3 a (2 b))", "a node holds the word 'a' and another node"),
    (b"(3 (2 a) (2))", "a node is empty"),
    (b"()", "a node is empty"),
    (b"(3 (2 \xff))", "'utf-8' codec"),
]


@pytest.mark.parametrize(("line", "wrong"), GARBLED)
def test_a_garbled_line_is_named(line: bytes, wrong: str, tmp_path: Path, model: StubModel) -> None:
    here = folder(tmp_path, TREE.encode() + b"\n" + line + b"\n" + TREE.encode())
    with pytest.raises(
        DataFormatError, match=f"train.txt, line 2: .*{re.escape(wrong)}.*one tree a"
    ):
        load_task("sst", model, data_dir=here)


def test_missing_files_say_where_to_get_them(tmp_path: Path, model: StubModel) -> None:
    with pytest.raises(MissingDataError, match=r"needs the Stanford.*nlp.stanford.edu.*--data-dir"):
        load_task("sst", model)
    with pytest.raises(MissingDataError, match=r"there is no .*train.txt: unpack https"):
        load_task("sst", model, data_dir=tmp_path)
    folder(tmp_path, b"")
    with pytest.raises(DataFormatError, match=r"train.txt is empty"):
        load_task("sst", model, data_dir=tmp_path)


def test_labels_of_several_tokens_are_refused_before_reading(tmp_path: Path) -> None:
    poor = StubModel(byte_tokenizer(["negative", "positive"]))
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").touch()  # empty, which reading would refuse
    with pytest.raises(AnswerError, match="the answer 'neutral' after .* is not a single token"):
        load_task("sst", poor, data_dir=tmp_path)


@pytest.mark.data
def test_official_splits(data_dir: Path, model: StubModel) -> None:
    task = load_task("sst", model, data_dir=data_dir / "sst")
    assert (len(task.train), len(task.validation), len(task.test)) == (8544, 1101, 2210)
    assert task.name == "sst"
    assert task.report["source"] == f"Stanford Sentiment Treebank in {data_dir / 'sst'}"
    assert Counter(one.answer for one in task.test) == {
        "negative": 279 + 633,
        "neutral": 389,
        "positive": 510 + 399,
    }
    for one in task.validation:
        tree = nltk.Tree.fromstring(one.tree)
        assert parse_tree(str(one.tree)) == (int(tree.label()), tree.leaves())
        assert "-LRB-" not in one.prompt
        assert "``" not in one.prompt


def test_after_demonstrations_the_sentence_is_the_unit(tmp_path: Path) -> None:
    model = StubModel(byte_tokenizer([f" {label}" for label in LABELS]))
    task = load_task("sst-few-shot", model, data_dir=folder(tmp_path, TREE.encode() + b"\n"))
    assert task.name == "sst-few-shot (altered)"
    assert task.labels == (" negative", " neutral", " positive")
    for example, text, answer in (
        (task.train[0], "It 's ( a/b \"", " positive"),
        (task.test[0], "So dull", " negative"),
    ):
        ((start, end),) = example.spans or ()
        assert example.prompt[start:end] == text
        assert example.prompt.endswith(f"Review: {text}\nSentiment:")
        assert example.answer == answer
        # Each label is demonstrated once, as the answer is to be given.
        shown = re.findall(r"Sentiment:( \w+)\n", example.prompt)
        assert sorted(shown) == sorted(task.labels)
