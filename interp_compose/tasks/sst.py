"""``sst``: the Stanford Sentiment Treebank as three-way sentiment, its trees kept for phrases.

Labels 0 … 4 of the root become scores 0, 0.25, … 1. CARMA (appendix B.2) prints thresholds
that leave no negatives; as in the authors' released code, up to 0.4 is negative, from 0.6
positive, between them neutral. The official splits and their order are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from interp_compose.errors import DataFormatError
from interp_compose.runs.files import read_bytes
from interp_compose.tasks.prompts import Prompt
from interp_compose.tasks.published import named
from interp_compose.tasks.rows import data_files
from interp_compose.tasks.task import Task
from interp_compose.text.answers import require_fitting
from interp_compose.text.constituents import without_escapes
from interp_compose.types import Example

FILES = {"train": "train.txt", "validation": "dev.txt", "test": "test.txt"}
DATA = "Stanford Sentiment Treebank"
LABELS = ("negative", "neutral", "positive")
FEW_SHOT = Prompt(
    "Review: the film is a lovely and moving portrait of a family .\nSentiment: positive\n\n"
    "Review: a dull , lifeless mess .\nSentiment: negative\n\n"
    "Review: the story takes place in a small town in France .\nSentiment: neutral\n\n"
    "Review: {}\nSentiment:",
    "sst-few-shot (every family)",
)
"""A demonstration of each label, written for this project."""

_TOKEN = re.compile(r"\(|\)|[^ \t()]+")  # a no-break space is part of a word, as in "8 1/2"


def sst(
    tokenizer: Any, prompt: Prompt, data_dir: str | Path | None, *, several: bool = False
) -> Task:
    """The task for one model, from the official ``train.txt``, ``dev.txt`` and ``test.txt``.

    Raises ``MissingDataError`` where a file is not there, ``DataFormatError`` for a garbled line,
    and ``AnswerError`` where a label is not one token after the prompt, or ``several``.
    """
    labels = tuple(prompt.lead + label for label in LABELS)
    require_fitting(tokenizer, prompt.before("A film ."), labels, several=several)
    report: dict[str, int | str | float] = {"source": "", "template_of": prompt.family}
    kept: dict[str, tuple[Example, ...]] = {}
    for split, path in zip(FILES, sst_files(data_dir), strict=True):
        kept[split] = read_trees(path, prompt)
        report[f"{split}_all"] = len(kept[split])
        for label in LABELS:
            of_label = [one for one in kept[split] if one.answer == prompt.lead + label]
            report[f"{split}_{label}"] = len(of_label)
    trees = {split: [one.tree for one in examples] for split, examples in kept.items()}
    name, report["source"] = named("sst", DATA, data_dir, trees)
    return Task(name, prompt.template, report=report, labels=labels, **kept)


def sst_few_shot(tokenizer: Any, data_dir: str | Path | None, *, several: bool = False) -> Task:
    """:func:`sst` after a demonstration of each label; the unit of an example is the sentence."""
    task = sst(tokenizer, FEW_SHOT, data_dir, several=several)
    start, after = map(len, FEW_SHOT.template.split("{}"))

    def with_span(example: Example) -> Example:
        return replace(example, spans=((start, len(example.prompt) - after),))

    splits = {split: tuple(map(with_span, task.split(split))) for split in FILES}
    name = task.name.replace("sst", "sst-few-shot", 1)
    return Task(name, task.template, report=task.report, labels=task.labels, **splits)


def sst_files(data_dir: str | Path | None) -> list[Path]:
    """The files of the three splits; ``MissingDataError`` where one is not there."""
    hint = (
        "unpack https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip and "
        "pass the folder with train.txt, dev.txt and test.txt as data_dir (--data-dir)"
    )
    needs = "the Stanford Sentiment Treebank"
    return data_files("sst", data_dir, list(FILES.values()), needs=needs, hint=hint)


def read_trees(path: Path, prompt: Prompt) -> tuple[Example, ...]:
    """One example per line of a file of labelled trees; ``DataFormatError`` names a bad line."""
    return tuple(
        Example(prompt(text), prompt.lead + sentiment(root / 4), tree=tree)
        for root, text, tree in labelled_trees(path)
    )


def labelled_trees(path: Path) -> Iterator[tuple[int, str, str]]:
    """The root's label, the text and the tree of each line."""
    number = 0
    for number, line in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            tree = line.decode("utf-8").strip()
            root, words = parse_tree(tree)
        except ValueError as error:
            raise DataFormatError(
                f"{path}, line {number}: {error}; expected one tree a line with a label from 0 to "
                f"4 at every node, like (3 (2 It) (4 shines)), but it begins {line[:60]!r}. "
                "Get the file again"
            ) from error
        yield root, " ".join(decode_leaf(word) for word in words), tree
    if not number:
        raise DataFormatError(f"{path} is empty; expected one labelled tree a line")


def parse_tree(tree: str) -> tuple[int, list[str]]:
    """The root's label and the words of a labelled tree; ``ValueError`` says what is wrong.

    Every node is ``(label children)`` with a label 0 … 4, and has nodes or one word inside.
    """
    tokens = _TOKEN.findall(tree)
    words: list[str] = []
    children: list[int] = []  # of every open node: 0 none yet, 1 a word, 2 nodes
    for i, token in enumerate(tokens):
        if token == "(":
            if i and not children:
                raise ValueError("there is more than one tree")
            if children and children[-1] == 1:
                raise ValueError(f"a node holds the word {words[-1]!r} and another node")
            if children:
                children[-1] = 2
            children.append(0)
        elif not children:
            raise ValueError("a tree begins with a bracket" if not i else "brackets do not match")
        elif token == ")":
            if children.pop() == 0:
                raise ValueError("a node is empty")
        elif tokens[i - 1] == "(":
            if token not in ("0", "1", "2", "3", "4"):
                raise ValueError(f"the label {token!r} is not 0, 1, 2, 3 or 4")
        elif children[-1] != 0:
            raise ValueError(f"the word {token!r} has no label of its own")
        else:
            children[-1] = 1
            words.append(token)
    if children or not tokens:
        raise ValueError("brackets do not match" if tokens else "the line is empty")
    return int(tokens[1]), words


def decode_leaf(word: str) -> str:
    """The text of a leaf: Penn's escapes for brackets, quotes and slashes undone."""
    return without_escapes(word).replace("``", '"').replace("''", '"')


def sentiment(score: float) -> str:
    """Three labels of a score in [0, 1]: up to 0.4 negative, from 0.6 positive, else neutral."""
    if score <= 0.4:
        return "negative"
    return "positive" if score >= 0.6 else "neutral"
