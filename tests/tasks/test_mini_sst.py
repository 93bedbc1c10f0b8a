"""The shipped sentiment grammar: labels against a second, recursive reading of the tree."""

from __future__ import annotations

from typing import Any

import nltk
import pytest

from interp_compose.errors import AnswerError
from interp_compose.tasks.load import load_task
from interp_compose.tasks.mini.sst import SIZES, intensify, join, negate, sentences
from tests.tasks.conftest import byte_tokenizer
from tests.tasks.stub import StubModel

GOOD = set("good nice charming clever moving lively warm fresh graceful witty".split())  # noqa: SIM905
BAD = set("bad dull clumsy stale boring silly weak shallow sloppy bland".split())  # noqa: SIM905
LABELS = ["negative", "neutral", "positive"]


def reading(tree: nltk.Tree) -> int:
    """The label from the words alone, as the docstring's table says; -2 … 2."""
    if len(tree) == 1:
        word = tree[0]
        return 1 if word in GOOD else -1 if word in BAD else 0
    first, second = tree
    head = first.leaves()[0] if len(first) == 1 else None
    a, b = reading(first), reading(second)
    if head in ("very", "really", "truly"):
        return 2 * (b > 0) - 2 * (b < 0)
    if head in ("not", "never"):
        return -1 if b > 0 else 1 if b == -1 else 0
    if head == "and" or head == "but" or head == "," or head == "although":
        return b
    joiner = second.leaves()[0]
    if joiner == "and":
        return max(-2, min(2, a + b))
    if joiner in ("but", ","):
        return b
    return b if a == 0 else a


def test_labels_follow_from_the_words() -> None:
    seen = set()
    for phrase in (one for part in sentences().values() for one in part):
        tree = nltk.Tree.fromstring(phrase.tree)
        for node in tree.subtrees():
            assert int(node.label()) == reading(node) + 2, str(node)
        seen.add(phrase.label)
    assert seen == {0, 1, 2, 3, 4}


def test_rules_on_every_label() -> None:
    assert [negate(label) for label in range(5)] == [2, 3, 2, 1, 1]
    assert [intensify(label) for label in range(5)] == [0, 0, 2, 4, 4]
    assert [join(1, label) for label in range(5)] == [0, 0, 1, 2, 3]


def test_sizes_are_even_and_sentences_distinct() -> None:
    trees = [one.tree for part in sentences().values() for one in part]
    assert len(set(trees)) == len(trees)
    for part, size in SIZES.items():
        labels = [one.label for one in sentences()[part]]
        assert len(labels) == size
        assert sum(label < 2 for label in labels) == labels.count(2) == size // 3


def test_test_pairs_are_new_and_their_parts_are_not() -> None:
    pairs = {
        part: {pair for one in rows for pair in one.pairs} for part, rows in sentences().items()
    }
    for one in sentences()["test"]:
        assert one.pairs - pairs["train"]
    for one in sentences()["validation"]:
        assert one.pairs - pairs["train"] - pairs["test"]
    trained = {
        word for one in sentences()["train"] for word in nltk.Tree.fromstring(one.tree).leaves()
    }
    assert {word for pair in pairs["test"] for word in pair} <= trained


def test_the_task_and_its_refusal(crude: Any) -> None:
    task = load_task("mini-sst", StubModel(byte_tokenizer(LABELS)))
    assert task.template == 'The sentiment of {} is "'
    assert {one.answer for one in task.test} == set(LABELS) == set(task.labels)
    assert task.answer_set("labels") == task.labels
    assert task.answer_set("vocabulary") == "vocabulary"
    assert (len(task.train), len(task.validation), len(task.test)) == (2400, 300, 600)
    assert task.report["test_positive"] == 200
    one = task.test[0]
    assert " ".join(nltk.Tree.fromstring(one.tree).leaves()) in one.prompt
    llama = load_task(
        "mini-sst", StubModel(byte_tokenizer([" " + x for x in LABELS]), "LlamaForCausalLM")
    )
    assert {one.answer for one in llama.test} == {" negative", " neutral", " positive"}
    assert set(llama.labels) == {" negative", " neutral", " positive"}
    with pytest.raises(AnswerError, match="'negative' after .* is not a single token"):
        load_task("mini-sst", StubModel(crude))
