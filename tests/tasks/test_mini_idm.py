"""What the shipped inverse dictionary promises: sizes, held-out combinations, reserve words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

import nltk
import pytest

from interp_compose.errors import AnswerError
from interp_compose.tasks.load import load_task
from interp_compose.tasks.mini import world as mini_world
from interp_compose.tasks.mini.definitions import FAMILIES
from interp_compose.tasks.mini.idm import MAX_WORDINGS, definitions, splits
from interp_compose.tasks.mini.world import reserve_words, thesaurus
from interp_compose.tasks.task import Task
from tests.tasks.conftest import byte_tokenizer
from tests.tasks.stub import StubModel

PARTS = ("train", "validation", "test")


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return byte_tokenizer([one.answer for one in definitions()])


@pytest.fixture(scope="module")
def task(tokenizer: Any) -> Task:
    return load_task("mini-idm", StubModel(tokenizer))


def test_sizes() -> None:
    every = definitions()
    assert len({one.text for one in every}) == len(every) == 5601
    assert len({one.skeleton for one in every}) >= 250
    assert len({one.answer for one in every}) >= 120
    assert len(FAMILIES) == len({one.family for one in every}) == 18
    assert sum(map(len, splits().values())) == len(every)
    shares = {part: len(rows) / len(every) for part, rows in splits().items()}
    assert 0.65 < shares["train"] < 0.75
    assert 0.07 < shares["validation"] < 0.10
    assert 0.17 < shares["test"] < 0.23


def test_a_definition_has_one_answer_which_it_does_not_contain() -> None:
    answers = defaultdict(set)
    for one in definitions():
        answers[one.text].add(one.answer)
        # your brother's mother is your mother, and two less one is one
        if one.family not in ("relatives of relatives", "sums", "differences"):
            assert one.answer not in words_of(one.text)
    assert {len(group) for group in answers.values()} == {1}


def test_no_skeleton_outweighs_the_others() -> None:
    per_skeleton = Counter((one.skeleton, one.answer) for one in definitions())
    assert max(per_skeleton.values()) <= MAX_WORDINGS


def test_every_word_belongs_to_one_concept() -> None:
    lines = mini_world.WORDS.read_text(encoding="utf-8").splitlines()
    words = [word for line in lines for word in line.replace("|", " ").split()]
    assert not [word for word, n in Counter(words).items() if n > 1]
    assert len(thesaurus()) == len(lines)
    assert all(re.fullmatch(r"[a-z]+|\d+", word) for word in words)
    used = {concept for one in definitions() for concept in one.concepts}
    assert used == set(thesaurus())


def test_reserve_words_occur_in_no_split_and_seen_words_in_training() -> None:
    reserve = {word for one in thesaurus().values() for word in one.reserve}
    seen = {word for one in thesaurus().values() for word in one.seen}
    assert len(reserve) >= 200
    for part in PARTS:
        text = {word for one in splits()[part] for word in words_of(one.text)}
        assert not text & reserve
    assert seen <= {word for one in splits()["train"] for word in words_of(one.text)}


def test_held_out_combinations_are_new_and_their_parts_are_not() -> None:
    seen = {word for one in thesaurus().values() for word in one.seen}
    content = {
        part: {frozenset(words_of(one.text) & seen) for one in splits()[part]} for part in PARTS
    }
    assert not content["train"] & content["test"]
    assert not content["train"] & content["validation"]
    assert not content["validation"] & content["test"]
    trained = splits()["train"]
    known = {word for one in trained for word in one.words}
    skeletons = {(one.skeleton, one.answer) for one in trained}
    for part in ("validation", "test"):
        for one in splits()[part]:
            assert one.words <= known
            assert (one.skeleton, one.answer) in skeletons


def test_trees_bracket_the_words_of_the_prompt() -> None:
    for one in definitions():
        tree = nltk.Tree.fromstring(one.tree)
        assert " ".join(tree.leaves()) == one.text
        assert all(len(pre) == 1 for pre in tree.subtrees(lambda t: t.label() == "X"))
        assert not re.search(r"\ba [aeio8]|\ban [^aeio8]", one.text)


def test_the_task_is_in_the_prompt_of_the_family(tokenizer: Any, task: Task) -> None:
    assert task.template == '{} is called a "'
    assert all(one.prompt.endswith(' is called a "') for one in task.test)
    assert [len(task.split(part)) for part in PARTS] == [len(splits()[part]) for part in PARTS]
    every = task.train + task.validation + task.test
    one = next(one for one in every if one.prompt.startswith("a young cat is"))
    assert one.answer == "kitten"
    assert one.tree == "(NP (X a) (X young) (X cat))"
    assert task.report["skeletons"] == len({one.skeleton for one in definitions()})
    assert task.report["test_all"] == task.report["test_one_token"] == len(task.test)
    qwen = load_task("mini-idm", StubModel(tokenizer, "Qwen2ForCausalLM"))
    assert qwen.test[0].prompt.endswith(' is commonly known as "')


def test_the_seed_orders_and_moves_nothing(tokenizer: Any, task: Task) -> None:
    other = load_task("mini-idm", StubModel(tokenizer), seed=7)
    for part in PARTS:
        assert task.split(part) != other.split(part)
        assert set(task.split(part)) == set(other.split(part))


def test_answers_that_are_not_one_token_are_left_out_and_counted(crude: Any) -> None:
    task = load_task("mini-idm", StubModel(byte_tokenizer(["kitten"])))
    assert {one.answer for part in PARTS for one in task.split(part)} == {"kitten"}
    assert task.report["train_one_token"] == len(task.train) < task.report["train_all"]
    with pytest.raises(AnswerError, match="not one of the .* answers is a single token"):
        load_task("mini-idm", StubModel(crude))
    whole = load_task("mini-idm", StubModel(crude), multi_token_answers=True)
    assert len(whole.train) == whole.report["train_any_tokens"] == whole.report["train_all"]
    assert (whole.filtered("train"), "of one token" in task.filtered("train")) == ("", True)


def test_reserve_words_are_given_for_each_seen_word() -> None:
    given = reserve_words()
    assert given["mother"] == given["mum"] == ("mama",)
    assert not {"lion", "eight"} & set(given)
    for one in thesaurus().values():
        assert [given.get(word, ()) for word in one.seen] == [one.reserve] * len(one.seen)
