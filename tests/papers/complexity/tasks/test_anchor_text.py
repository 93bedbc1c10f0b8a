"""Anchor sequences as text: the library's own alignment, answers and CAP read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from interp_compose.errors import AnswerError, InputError
from interp_compose.models.load import load_model
from interp_compose.papers.complexity.tasks.anchor_text import anchor_examples, anchor_tokenizer
from interp_compose.papers.complexity.tasks.anchors import AnchorTask
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.text.answers import answer_ids
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example

TASKS = [
    AnchorTask(),
    AnchorTask(anchors={"+5": 5, "don't": -3}, unseen=(("+5", "don't"),)),
    AnchorTask(anchors={"double": lambda x: 2 * x}, unseen=(), n_anchors=3, length=6, d_vocab=900),
    AnchorTask(n_anchors=1, unseen=(), noise=(5, 9)),
]


@pytest.mark.parametrize("task", TASKS)
def test_text_and_tokens_are_one_another(task: AnchorTask) -> None:
    tokenizer = anchor_tokenizer(task)
    data = task.sample("train", 40, seed=0)
    examples = anchor_examples(task, data)
    assert tokenizer([one.prompt for one in examples])["input_ids"] == data.tokens.tolist()
    assert tokenizer.batch_decode(data.tokens) == [one.prompt for one in examples]
    assert len(tokenizer) == task.vocabulary
    assert tokenizer.bos_token is tokenizer.eos_token is None
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id) == (0, 0)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("unit", ["word", "pretoken"])
def test_words_align_and_answers_are_one_token(task: AnchorTask, unit: str) -> None:
    tokenizer = anchor_tokenizer(task)
    data = task.sample("id", 40, seed=1)
    examples = anchor_examples(task, data)
    tokenized = tokenize_prompts(tokenizer, examples, unit=unit)
    for prompt, example in zip(tokenized, examples, strict=True):
        assert prompt.groups.tolist() == list(range(task.length))
        words = [prompt.group_text(i) for i in range(task.length)]
        assert words == example.prompt.split()
    assert answer_ids(tokenizer, examples, tokenized).tolist() == data.targets.tolist()


@pytest.mark.parametrize("task", TASKS)
def test_the_span_is_the_chain(task: AnchorTask) -> None:
    data = task.sample("train", 40, seed=2)
    examples = anchor_examples(task, data)
    for i, example in enumerate(examples):
        assert example.spans is not None
        ((begin, end),) = example.spans
        assert example.prompt[begin:end] == " ".join(task.chains[data.chains[i]])
    tokenized = tokenize_prompts(anchor_tokenizer(task), examples, unit="span")
    for position, prompt in zip(data.positions.tolist(), tokenized, strict=True):
        sizes = np.ones(task.length + 1 - task.n_anchors, dtype=int)
        sizes[position + 1] = task.n_anchors
        assert prompt.group_sizes().tolist() == sizes.tolist()


def test_the_papers_example_reads_as_the_paper_prints_it() -> None:
    task = AnchorTask()
    at = [torch.tensor([value]) for value in (23, task.chains.index(("a", "b")), 0)]
    one = task.build(*at, torch.Generator().manual_seed(0))
    rest = " ".join(map(str, one.tokens[0, 3:].tolist()))
    assert anchor_examples(task, one) == (Example(f"23 a b {rest}", " 29", spans=((3, 6),)),)


def test_a_target_that_is_an_anchors_id_is_that_anchor() -> None:
    """20 - 8 - 8 = 4, the id of d, for which there is one text."""
    task = AnchorTask()
    at = [torch.tensor([value]) for value in (20, task.chains.index(("d", "d")), 3)]
    data = task.build(*at, torch.Generator())
    examples = anchor_examples(task, data)
    tokenizer = anchor_tokenizer(task)
    assert data.targets.tolist() == [4]
    assert examples[0].answer == " d"
    tokenized = tokenize_prompts(tokenizer, examples)
    assert answer_ids(tokenizer, examples, tokenized).tolist() == [4]
    assert tokenizer("3 4 5 0")["input_ids"] == [0, 0, 5, 0]


def test_a_target_of_nought_is_refused() -> None:
    task = AnchorTask(numbers=(16, 99))
    at = [torch.tensor([value]) for value in (16, task.chains.index(("d", "d")), 0)]
    data = task.build(*at, torch.Generator())
    with pytest.raises(AnswerError, match="target of sequence 0 is 0, .*raise the task's smallest"):
        anchor_examples(task, data)


def test_blanks_of_any_kind_part_words_and_other_words_are_none() -> None:
    tokenizer = anchor_tokenizer(AnchorTask())
    ids = tokenizer(" 23  a\tb\n43 e 110 109")["input_ids"]
    assert ids == [23, 1, 2, 43, 0, 0, 109]
    assert tokenizer.decode(ids) == "23 a b 43 <none> <none> 109"


def test_a_saved_tokenizer_is_the_same(tmp_path: Path) -> None:
    task = AnchorTask()
    anchor_tokenizer(task).save_pretrained(tmp_path)
    again = hf.AutoTokenizer.from_pretrained(tmp_path)
    data = task.sample("train", 5, seed=0)
    prompts = [one.prompt for one in anchor_examples(task, data)]
    assert again(prompts)["input_ids"] == data.tokens.tolist()
    assert again.batch_decode(data.tokens) == prompts


@pytest.mark.parametrize("name", ["7", "two words", "<none>", " a", "٣", "a<none>"])
def test_an_anchor_that_is_no_word_of_its_own_is_refused(name: str) -> None:
    task = AnchorTask(anchors={name: 1}, unseen=())
    with pytest.raises(InputError, match="the anchor .*(give it a name without blanks|rename it)"):
        anchor_tokenizer(task)


def test_data_of_another_task_are_refused() -> None:
    data = AnchorTask(numbers=(20, 199)).sample("train", 50, seed=0)
    with pytest.raises(InputError, match="expected less than 110; pass the task that it was"):
        anchor_examples(AnchorTask(), data)
    with pytest.raises(InputError, match="sequences have 9 tokens: expected the task's 11"):
        anchor_examples(AnchorTask(length=11), data)


def test_cap_pools_the_chain() -> None:
    """End to end, on a random-weight GPT-2 that reads the task's own tokens."""
    task = AnchorTask()
    config = hf.GPT2Config(
        vocab_size=task.vocabulary, n_positions=task.length, n_embd=12, n_layer=2, n_head=2
    )
    torch.manual_seed(0)
    model = load_model(hf.GPT2LMHeadModel(config).eval(), tokenizer=anchor_tokenizer(task))
    data = task.sample("ood", 12, seed=0)
    curve: Any = cap_curve(model, anchor_examples(task, data), unit="span")
    assert curve.clean["affected"].tolist() == (data.positions < 6).tolist()
