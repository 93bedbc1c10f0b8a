"""Predictions among a set of labels: eq. 10 against a slow reference, and what is refused."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from interp_compose.errors import AnswerError, InputError, OptionError
from interp_compose.studies.core.inputs import outcome_of
from interp_compose.text.label_set import checked_answers, foil_ids, label_ids, predicted, stacked
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example
from tests.studies.conftest import splitting_tokenizer

ROWS = st.lists(st.sampled_from([-2.0, -1.0, 0.5, 0.5, 1.0, 3.0]), min_size=7, max_size=7)


def slow(logits: list[float], labels: list[int], answer: int) -> tuple[int, float, int]:
    """Eq. 10 with probabilities written out: P(label | sentence), then the largest."""
    total = sum(math.exp(logits[label]) for label in labels)
    share = {label: math.exp(logits[label]) / total for label in labels}
    order = sorted(labels, key=lambda label: (-logits[label], label))
    return order[0], math.log(share[answer]), 1 + order.index(answer)


@given(
    rows=st.lists(ROWS, min_size=1, max_size=4),
    labels=st.sets(st.integers(0, 6), min_size=2, max_size=6),
    data=st.data(),
)
def test_outcomes_are_those_among_the_labels(
    rows: list[list[float]], labels: set[int], data: st.DataObject
) -> None:
    ordered = sorted(labels)
    answers = [data.draw(st.sampled_from(ordered)) for _ in rows]
    logits = torch.tensor(rows, dtype=torch.float64)
    candidates = torch.tensor([ordered] * len(rows))
    found = outcome_of(logits, torch.tensor(answers), candidates)
    assert predicted(logits, candidates).tolist() == found[:, 0].long().tolist()
    for row, answer, (token, logprob, rank, finite) in zip(
        rows, answers, found.tolist(), strict=True
    ):
        expected = slow(row, ordered, answer)
        assert (token, rank) == (expected[0], expected[2])
        assert logprob == pytest.approx(expected[1], abs=1e-6)
        assert finite == 1


def test_each_row_has_candidates_of_its_own_and_others_are_ignored() -> None:
    logits = torch.tensor([[9.0, 1.0, 2.0, 3.0], [9.0, 4.0, 2.0, 3.0]])
    candidates = torch.tensor([[1, 2], [1, 3]])
    assert predicted(logits, candidates).tolist() == [2, 1]
    assert predicted(logits).tolist() == [0, 0]
    found = outcome_of(logits, torch.tensor([2, 3]), candidates)
    assert found[:, 2].tolist() == [1, 2]  # ranks among two labels; 3 among the vocabulary
    assert outcome_of(logits, torch.tensor([2, 3]))[:, 2].tolist() == [3, 3]
    # broken logits of tokens that cannot be chosen are still reported
    logits[0, 0] = float("nan")
    assert outcome_of(logits, torch.tensor([2, 3]), candidates)[:, 3].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("labels", "answers='labels': expected 'vocabulary', 'foil' (each example's answer or its"),
        ([["a"], ["b"]], "answers=[['a'], ['b']]: expected 'vocabulary', 'foil'"),
        (["a"], "answers=['a']: expected 'vocabulary', 'foil'"),
        (["foil"], "answers=['foil']: expected 'vocabulary', 'foil'"),
        (["a", "a", "b"], "a list of two or more, each once"),
        (["a", ""], "a list of two or more"),
        (["a", 3], "a list of two or more"),
        (None, "answers=None: expected 'vocabulary'"),
        ({"a": 1, "b": 2}, "expected 'vocabulary'"),
    ],
)
def test_what_is_no_set_of_labels_is_refused(answers: Any, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)) as refused:
        checked_answers(answers)
    assert len(str(refused.value)) < 500


def test_ids_of_the_labels_by_example() -> None:
    tokenizer = splitting_tokenizer()
    rows = [Example('a small house "', "b"), Example('x "', "d")]
    prompts = tokenize_prompts(tokenizer, rows)
    ids = label_ids(tokenizer, rows, prompts, ["d", "b", "c"])
    expected = sorted(tokenizer.convert_tokens_to_ids(["b", "c", "d"]))
    assert ids.tolist() == [expected, expected]
    assert stacked([np.array([3, 4]), np.array([1, 2])]).tolist() == [[3, 4], [1, 2]]  # type: ignore[union-attr]
    assert stacked([None, None]) is None
    with pytest.raises(AnswerError, match="example 1 has the answer 'd', which is none of the"):
        label_ids(tokenizer, rows, prompts, ["b", "c"])
    with pytest.raises(OptionError, match=r"the label 'quixotic' after .* tokens, .* to be one"):
        label_ids(tokenizer, rows, prompts, ["b", "d", "quixotic"])
    assert issubclass(AnswerError, InputError)


class Blind:
    """A tokenizer to which an answer "c" is "b"."""

    unk_token_id = None

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, texts: Any, **options: Any) -> Any:
        one = isinstance(texts, str)
        changed = [text.replace('"c', '"b') for text in ([texts] if one else texts)]
        return self.inner(changed[0] if one else changed, **options)


def test_labels_that_are_one_token_are_refused() -> None:
    tokenizer = Blind(splitting_tokenizer())
    rows = [Example('x "', "b")]
    prompts = tokenize_prompts(tokenizer.inner, rows)
    with pytest.raises(AnswerError, match="example 0: two of the labels"):
        label_ids(tokenizer, rows, prompts, ["b", "c"])


def test_ids_of_answers_and_their_foils() -> None:
    tokenizer = splitting_tokenizer()
    rows = [
        Example('a small house "', "b", foil="d"),
        Example('x "', "d", foil="b"),
        Example('x "', "c", foil="b"),
    ]
    ids = foil_ids(tokenizer, rows, tokenize_prompts(tokenizer, rows))
    b, c, d = tokenizer.convert_tokens_to_ids(["b", "c", "d"])
    assert ids.tolist() == [sorted(pair) for pair in ([b, d], [d, b], [c, b])]


@pytest.mark.parametrize(
    ("answer", "foil", "message"),
    [
        ("b", "", "example 1, with the answer 'b', has no foil, which answers='foil' needs: give"),
        ("b", "b", "example 1: the foil 'b' is its answer; give a wrong one"),
        ("b", "quixotic", "example 1: the foil 'quixotic' after 'x \"' is"),
        ("quixotic", "b", "example 1: the answer 'quixotic' after 'x \"' is"),
        ("b", "é☃", "example 1: the foil 'é☃' after 'x \"' is"),
    ],
)
def test_foils_that_are_no_single_other_token_are_refused(
    answer: str, foil: str, message: str
) -> None:
    tokenizer = splitting_tokenizer()
    rows = [Example('x "', "c", foil="d"), Example('x "', answer, foil=foil)]
    prompts = tokenize_prompts(tokenizer, rows)
    with pytest.raises(AnswerError, match=re.escape(message)) as refused:
        foil_ids(tokenizer, rows, prompts)
    assert "multi_token_answers" not in str(refused.value)
    assert "; " in str(refused.value) or ": give" in str(refused.value)  # what to do


def test_a_foil_that_is_unknown_or_the_same_token_is_refused() -> None:
    inner = splitting_tokenizer()
    rows = [Example('x "', "b", foil="c")]
    prompts = tokenize_prompts(inner, rows)
    with pytest.raises(AnswerError, match="example 0: the foil 'c' is the same token as the answ"):
        foil_ids(Blind(inner), rows, prompts)
    unknowing = Blind(inner)
    unknowing.unk_token_id = inner.convert_tokens_to_ids("d")  # type: ignore[assignment]
    rows = [Example('x "', "b", foil="d")]
    with pytest.raises(AnswerError, match="the foil 'd' after .* is unknown .* another foil, or l"):
        foil_ids(unknowing, rows, prompts)
