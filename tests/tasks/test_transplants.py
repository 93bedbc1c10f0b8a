"""Pairs of mini-idm, whose exchanged words are counted again here; pairs from files."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import interp_compose as ic
from interp_compose.errors import AnswerError, DataFormatError, InputError, OptionError
from interp_compose.models.load import load_model
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.tasks.anchor_transplants import anchor_transplants
from interp_compose.papers.lrf.grammar import SCAN_ACTIONS, SCAN_KINDS
from interp_compose.papers.lrf.tasks.scan_transplants import scan_transplants
from interp_compose.papers.shared.models.decoder import DecoderConfig
from interp_compose.papers.shared.text.vocabulary import Vocabulary
from interp_compose.tasks.mini.idm import definitions, splits
from interp_compose.tasks.mini.transplants import exchanges, head_place
from interp_compose.tasks.transplants import TransplantPair, load_transplants, read_transplants
from tests.papers.lrf.tasks.test_scan import meaning


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model("mini-idm", device="cpu")


@pytest.mark.parametrize(
    ("tree", "head"),
    [
        ("(NP (X a) (X young) (X cat))", "cat"),
        ("(NP (NP (X the) (X offspring)) (PP (X of) (NP (X a) (X cat))))", "offspring"),
        ("(NP (X someone) (SBAR (X who) (S (VP (X bakes) (NP (X bread))))))", "someone"),
        ("(NP (NP (X a) (X cat)) (X and) (NP (X its) (X like)) (ADVP (X together)))", "cat"),
        ("(ADJP (X not) (X cold))", "cold"),
        ("(NP (X what) (S (NP (X we)) (VP (X eat))) (PP (X of) (NP (X a) (X cow))))", "what"),
    ],
)
def test_heads(tree: str, head: str) -> None:
    words = [leaf.split(")")[0] for leaf in tree.split("(X ")[1:]]
    assert words[head_place(tree)] == head


def test_every_exchange_is_another_definition_of_the_world() -> None:
    answers = {one.text: one.answer for one in definitions()}
    tests = {one.text for one in splits()["test"]}
    for target, place, composed, source, at, role in exchanges():
        words = target.text.split()
        word = source.text.split()[at]
        assert words[place] != word
        assert [*words[:place], word, *words[place + 1 :]] == composed.text.split()
        assert answers[composed.text] == composed.answer
        assert len({composed.answer, target.answer, source.answer}) == 3
        assert {target.text, source.text} <= tests
        assert (head_place(target.tree) == place) == (role == "head")
        assert (head_place(source.tree) == at) == (role == "head")


def test_pairs_of_a_model(model: Any) -> None:
    pairs = load_transplants("mini-idm", model, seed=7)
    assert Counter(pair.source_type for pair in pairs) == Counter(role for *_, role in exchanges())
    texts = {target.text: target for target, *_ in exchanges()}
    for pair in random.Random(0).sample(pairs, 50):
        assert pair.target.endswith(' is called a "')
        target = texts[pair.target.removesuffix(' is called a "')]
        assert pair.target_phrase in target.words
        assert pair.answer == target.answer
        assert len({pair.answer, pair.expected, pair.source_answer}) == 3
        start, end = pair.target_span
        assert pair.composed == pair.target[:start] + pair.source_phrase + pair.target[end:]
    again = load_transplants("mini-idm", model, seed=8)
    assert again != pairs
    assert sorted(map(str, again)) == sorted(map(str, pairs))


def test_names_and_models_are_refused(model: Any) -> None:
    with pytest.raises(
        OptionError, match="pairs 'idm' are unknown; choose one of mini-idm, anchors"
    ):
        load_transplants("idm", model)
    without: Any = ic.complexity.small_decoder(init_rate=0.5, seed=0)
    with pytest.raises(OptionError, match="has no tokenizer, which the pairs 'mini-idm' need"):
        load_transplants("mini-idm", without)
    without.tokenizer = ic.complexity.anchor_tokenizer(ic.complexity.AnchorTask())
    with pytest.raises(AnswerError, match="the answers of not one of 1246 pairs are single"):
        load_transplants("mini-idm", without)


def test_rows_of_a_file(tmp_path: Path, model: Any) -> None:
    row = {"source": "a b", "source_span": [0, 1], "target": "c d", "target_span": [0, 1]}
    row |= {"expected": "x", "answer": "y"}
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(row) + "\n\n" + json.dumps({**row, "composed": "a d"}))
    first, second = load_transplants(path, model)
    assert first == TransplantPair("a b", (0, 1), "c d", (0, 1), "x", "y")
    assert (first.source_phrase, first.target_phrase, second.composed) == ("a", "c", "a d")
    assert read_transplants([{**row, "composed": float("nan")}]) == (first,)
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, "target_span": [0, 1.5]}))
    with pytest.raises(
        DataFormatError, match=r"pairs.jsonl, line 2 has \[0, 1.5\] as its target_span"
    ):
        load_transplants(path, model)


def test_anchor_pairs_by_the_operations_of_eq_2() -> None:
    task = ic.complexity.AnchorTask()
    shifts = {"a": 5, "b": 1, "c": -2, "d": -8}
    pairs = anchor_transplants(task, task.sample("id", 300, seed=1), seed=2)
    assert len(pairs) > 200
    tokens = ic.complexity.anchor_tokenizer(task)
    for pair in pairs:
        source, target = pair.source.split(), pair.target.split()
        at = next(i for i, word in enumerate(target) if word in shifts)
        assert source[at] in shifts  # the same position
        moved, replaced = source[at : at + 2], target[at : at + 2]
        assert (pair.source_phrase.split(), pair.target_phrase.split()) == (moved, replaced)
        assert at + 2 < len(target)
        key, other = int(target[at - 1]), int(source[at - 1])
        results = [
            key + shifts[moved[0]] + shifts[moved[1]],
            key + shifts[replaced[0]] + shifts[replaced[1]],
            other + shifts[moved[0]] + shifts[moved[1]],
        ]
        given = [pair.expected, pair.answer, pair.source_answer]
        assert [tokens.convert_tokens_to_ids(one.strip()) for one in given] == results
        assert len(set(results)) == 3
        assert pair.composed.split() == [*target[:at], *moved, *target[at + 2 :]]
    assert anchor_transplants(task, task.sample("id", 300, seed=1), seed=2) == pairs
    with pytest.raises(InputError, match="none of 1 sequences has a partner"):
        anchor_transplants(task, task.sample("id", 1, seed=1))


def test_a_phrase_of_scan_is_exchanged() -> None:
    pairs = scan_transplants(40, seed=1)
    shapes = {"verb phrase": "verb( around| opposite)? side", "primitive": "verb"}
    for pair in pairs:
        source, target, composed = (
            text.split(" <bos>") for text in (pair.source, pair.target, pair.composed)
        )
        low, high = pair.target_span
        assert composed[0] == target[0][:low] + pair.source_phrase + target[0][high:]
        shown = [target[1].split(), composed[1].split(), source[1].split()]
        whole = [meaning(command[0]) for command in (target, composed, source)]
        n = len(shown[0])
        assert [actions[:n] for actions in whole] == shown
        answers = [f" {actions[n]}" for actions in whole]
        assert answers == [pair.answer, pair.expected, pair.source_answer]
        assert len(set(answers)) == 3
        assert shown[0] == shown[1]  # up to the first difference
        for phrase in (pair.source_phrase, pair.target_phrase):
            shape = re.sub("walk|look|run|jump", "verb", re.sub("left|right", "side", phrase))
            assert re.fullmatch(shapes[pair.source_type], shape)
    assert Counter(pair.target_type for pair in pairs) == dict.fromkeys(shapes, 40)
    assert scan_transplants(40, seed=1) == pairs
    assert scan_transplants(40, seed=2) != pairs


def test_pairs_of_scan_are_measured_on_a_decoder_of_its_words() -> None:
    words = Vocabulary((*SCAN_KINDS, *SCAN_ACTIONS))
    config = DecoderConfig(d_vocab=len(words), n_ctx=60, n_layers=1, d_model=8, n_heads=2)
    lens = ic.complexity.small_decoder(config, init_rate=0.3, seed=0).lens
    decoder = SmallDecoderModel(lens, name="scan", words=words)
    pairs = load_transplants("scan", decoder, seed=1)
    found = ic.transplant(decoder, pairs[:60], pooling="mean", progress=False)
    assert len(pairs) == 800
    assert (found.frame["n"] == found.frame["n_composed"]).all()
    assert set(found.frame["n_remembered"]) == {60}


def test_anchors_by_name(model: Any) -> None:
    assert len(load_transplants("anchors", model, seed=3)) > 1000
