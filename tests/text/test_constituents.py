"""Which constituents a tree gives, and where they stand in the prompt."""

from __future__ import annotations

import os
import re
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from nltk import Tree

from interp_compose.errors import AlignmentError, DataFormatError, OptionError, SpanError
from interp_compose.text.constituents import tree_spans
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example

SENTENCE = (
    "(S (NP (NP (DT the) (JJ old) (NN man)) (PP (IN of) (NP (DT the) (NN sea))))"
    " (VP (VBD slept) (ADVP (RB well))) (. .))"
)
PROMPT = "the old man of the sea slept well ."


def texts(tree: str, prompt: str, **choice: object) -> list[str]:
    return [prompt[a:b] for a, b in tree_spans(tree, prompt, **choice)]  # type: ignore[arg-type]


def test_heights_by_hand() -> None:
    assert texts(SENTENCE, PROMPT, height=1) == []
    assert texts(SENTENCE, PROMPT, height=2) == ["the old man", "the sea"]
    assert texts(SENTENCE, PROMPT, height=3) == ["the old man", "of the sea", "slept well"]
    assert texts(SENTENCE, PROMPT, height=4) == ["the old man of the sea", "slept well"]
    assert texts(SENTENCE, PROMPT, height=5) == [PROMPT]
    assert texts(SENTENCE, PROMPT) == texts(SENTENCE, PROMPT, height=3)


def test_labels_choose_the_outermost() -> None:
    np_only = frozenset({"NP"})
    assert texts(SENTENCE, PROMPT, labels=np_only) == ["the old man of the sea"]
    assert texts(SENTENCE, PROMPT, labels=frozenset({"PP", "VP"})) == ["of the sea", "slept well"]
    assert texts(SENTENCE, PROMPT, labels=frozenset({"S", "NP"})) == [PROMPT]
    assert texts(SENTENCE, PROMPT, labels=frozenset({"QP"})) == []
    assert texts(SENTENCE, PROMPT, labels=np_only, height=2) == ["the old man", "the sea"]


TAGGED = (
    "(S (NP-SBJ-1 (DT the) (NN dog)) (VP (VBD saw) (NP=2 (DT a) (NN cat))"
    " (ADVP|PRT (RB right) (RB up)) (NP-TMP (DT that) (NN day)) (-LRB- (x a) (x b))))"
)
TAGGED_PROMPT = "the dog saw a cat right up that day a b"


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP", ["the dog", "a cat", "that day"]),
        ("NP-SBJ", ["the dog"]),
        ("NP-SBJ-1", ["the dog"]),
        ("NP-TMP", ["that day"]),
        ("NP=2", ["a cat"]),
        ("ADVP", ["right up"]),
        ("ADVP|PRT", ["right up"]),
        ("-LRB-", ["a b"]),
        ("N", []),
        ("NP-SB", []),
        ("PRT", []),
        ("", []),
        ("-", []),
        ("-LRB", []),
    ],
)
def test_a_label_is_that_of_its_tags_and_indices_too(label: str, expected: list[str]) -> None:
    assert texts(TAGGED, TAGGED_PROMPT, labels=frozenset({label})) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP-SBJ", ["the dog"]),
        ("NP-TTL", ["the dog"]),
        ("NP-SBJ-TTL", ["the dog"]),
        ("NP-1", ["the dog"]),
        ("PP-PRD", ["in it"]),
        ("PP-LOC-PRD", ["in it"]),
        ("PP-SBJ", []),
        ("NP-PRD", []),
        ("NP-LOC-SBJ", []),
    ],
)
def test_a_function_tag_may_have_others_in_front(label: str, expected: list[str]) -> None:
    tree = "(S (NP-TTL-SBJ-1 (DT the) (NN dog)) (VP (VBD sat) (PP-LOC-PRD (IN in) (PRP it))))"
    assert texts(tree, "the dog sat in it", labels=frozenset({label})) == expected


def test_labels_that_no_tree_has_are_named(tokenizers: dict[str, Any]) -> None:
    examples = [Example(TAGGED_PROMPT, "", tree=TAGGED), Example(PROMPT, "", tree=SENTENCE)]

    def warned(*labels: str, trees: list[Example] = examples) -> list[str]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            chosen = {"unit": "constituent", "labels": frozenset(labels)}
            tokenize_prompts(tokenizers["bpe"], trees, **chosen)  # type: ignore[arg-type]
        return [str(one.message) for one in told]

    assert warned("NP", "NP-SBJ", "JJ") == []
    (text,) = warned("np", "NP", "QP")
    assert "no tree has 'QP', 'np', so it pools nothing; the trees have -LRB-, ., ADVP, " in text
    assert len(warned("NP", *(f"label-{i:03}" for i in range(200)))[0]) <= 500
    with pytest.raises(SpanError, match="choose no constituent"):
        warned("QP")


def test_a_constituent_of_one_word_is_a_word() -> None:
    assert tree_spans("(S (NP (NN dogs)) (VP (VBP bark)))", "dogs bark", height=2) == ()
    assert tree_spans("(NN dogs)", "dogs") == ()


def test_leaves_match_whatever_blanks_stand_between() -> None:
    tree = "(S (NP (PRP It)) (VP (VBZ 's) (NP (DT a) (NN film))) (. .))"
    assert texts(tree, "It's  a\nfilm.", labels=frozenset({"NP"})) == ["a\nfilm"]
    assert texts(tree, "It 's a film .", labels=frozenset({"VP"})) == ["'s a film"]


def test_the_prompt_may_hold_more_around_the_sentence() -> None:
    prompt = 'The sentiment of the old man of the sea slept well . is "'
    assert texts(SENTENCE, prompt, height=2) == ["the old man", "the sea"]


@pytest.mark.parametrize(
    ("leaf", "text"),
    [
        ("-LRB-", "("),
        ("-RSB-", "]"),
        ("``", '"'),
        ("''", "”"),
        ("``", "``"),
        ("1\\/2", "1/2"),
        ("\\*\\*\\*", "***"),
        ("1\\/2", "1\\/2"),
        ("\\/", "\\/"),
        ("'", "’"),
    ],
)
def test_penn_escapes(leaf: str, text: str) -> None:
    tree = f"(S (X {leaf}) (NP (DT the) (NN dog)))"
    prompt = f"say {text} the dog"
    assert texts(tree, prompt, height=2) == ["the dog"]
    assert texts(tree, prompt, height=3) == [f"{text} the dog"]


def test_a_hard_space_parts_two_leaves() -> None:
    tree = "(S (CD 8\u00a01\\/2) (NP (DT the) (NN dog)))"
    assert texts(tree, "8\u00a01/2 the dog", height=2) == ["8\u00a01/2", "the dog"]


def test_traces_are_skipped() -> None:
    tree = "(S (NP (-NONE- *T*-1)) (VP (VB eat) (NP (DT the) (NN pie) (-NONE- 0))))"
    assert texts(tree, "eat the pie", labels=frozenset({"NP"})) == ["the pie"]
    with pytest.raises(DataFormatError, match="has no words"):
        tree_spans("(NP (-NONE- *))", "x")
    with pytest.raises(DataFormatError, match="has no words"):
        tree_spans("(NP )", "x")


def test_a_row_at_word_edges_is_preferred() -> None:
    assert tree_spans("(NP (NN art) (NN is))", "party art is", height=2) == ((6, 12),)
    assert tree_spans("(NP (NN ar) (NN t))", "party", height=2) == ((1, 4),)


def test_a_missing_leaf_is_shown() -> None:
    with pytest.raises(AlignmentError, match=r"leaf 'man' \(number 3 of 9\) does not follow"):
        tree_spans(SENTENCE, PROMPT.replace("man", "woman"))
    with pytest.raises(AlignmentError, match=r"leaf '\.' \(number 9 of 9\)"):
        tree_spans(SENTENCE, PROMPT[:-1])
    with pytest.raises(AlignmentError, match=r"leaf 'b' .*in order with only blanks between"):
        tree_spans("(X (A a) (B b))", "b a")


def test_a_sentence_that_occurs_twice_is_refused() -> None:
    with pytest.raises(AlignmentError, match=r"'a b' occurs 2 times .* at characters \[0, 4\]"):
        tree_spans("(X (A a) (B b))", "a b a b")


@pytest.mark.parametrize("tree", ["(S (NP a)", "", "a b", "(S a) (S b)", ")("])
def test_a_garbled_tree_is_refused(tree: str) -> None:
    with pytest.raises(DataFormatError, match=r"is not a bracketing: .*expected one like"):
        tree_spans(tree, "a b")


def test_empty_choices_are_refused() -> None:
    with pytest.raises(OptionError, match="height 0 chooses nothing"):
        tree_spans(SENTENCE, PROMPT, height=0)
    with pytest.raises(OptionError, match="labels is empty"):
        tree_spans(SENTENCE, PROMPT, labels=frozenset())


DATA = os.environ.get("INTERP_COMPOSE_TEST_DATA")


def reference(node: Tree | str, height: int) -> list[list[str]]:
    """Maximal subtrees, from the definition."""
    if isinstance(node, str):
        return []
    deepest = max(len(at) for at in node.treepositions("leaves"))
    if deepest <= height:
        return [node.leaves()] if len(node.leaves()) > 1 else []
    return [found for child in node for found in reference(child, height)]


@pytest.mark.data
@pytest.mark.skipif(DATA is None, reason="INTERP_COMPOSE_TEST_DATA is not set")
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_every_sst_tree_lands_in_its_sentence(split: str) -> None:
    lines = (Path(str(DATA)) / "sst" / f"{split}.txt").read_text(encoding="utf8").splitlines()
    trees = [line for line in lines if line.strip()]
    assert len(trees) == {"train": 8544, "dev": 1101, "test": 2210}[split]
    for n, line in enumerate(trees):
        leaves = [leaf for word in re.findall(r"([^()]+)\)", line) for leaf in word.split()[1:]]
        prompt = f'Review: {" ".join(leaves)} Sentiment: "'
        spans = tree_spans(line, prompt)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        assert all(prompt[a:b] == prompt[a:b].strip() for a, b in spans)
        if n % 20 == 0:
            tree = Tree.fromstring(line)
            assert leaves == tree.leaves()
            found = [prompt[a:b] for a, b in spans]
            assert found == [" ".join(words) for words in reference(tree, 3)]
