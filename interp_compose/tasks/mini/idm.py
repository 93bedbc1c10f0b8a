"""``mini-idm``: the shipped inverse dictionary, whose definitions compose.

Every definition is a skeleton (``definitions.txt``) with a synonym (``world.txt``) in
each of its slots: *a young cat*, *a newborn feline*. The splits hold out **combinations**: the
set of content words of a validation or test definition never occurs as a training definition's
set, in whatever phrasing, although every single word and every skeleton's meaning does. The data
is one fixed list; a seed orders it, and moves nothing between splits, because the shipped models
were trained on the one training split.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from interp_compose.tasks.mini.definitions import FAMILIES
from interp_compose.tasks.mini.world import thesaurus
from interp_compose.tasks.prompts import Prompt
from interp_compose.tasks.task import Task, shuffled
from interp_compose.text.answers import keep_fitting
from interp_compose.types import Example

MAX_WORDINGS = 12
"""Wordings kept of one skeleton: three slots of synonyms must not outweigh two."""

_SPLIT_SEED = 20240
_ROW_SLOT = re.compile(r"<(\d)>")
_CONCEPT_SLOT = re.compile(r"<(\w+)>")
_LEAF = re.compile(r"(?<=\s)[^\s()]+")


@dataclass(frozen=True)
class Definition:
    """One definition: its tree, what it defines, and the synonyms chosen."""

    tree: str
    answer: str
    family: str
    skeleton: str
    words: frozenset[str]
    concepts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The definition as it is written in a prompt."""
        return " ".join(_LEAF.findall(self.tree))


@cache
def definitions() -> tuple[Definition, ...]:
    """Every definition of the world, in a fixed order, each text once."""
    return tuple(_all())


@cache
def splits() -> dict[str, tuple[Definition, ...]]:
    """The definitions of ``train``, ``validation`` and ``test``.

    Of the wordings of each tuple of concepts about 8 % go to validation and 17 % to test, at
    least one to test where there are four or more; a wording whose removal would leave one of
    its words, or its skeleton, without a training definition stays in training.
    """
    by_words: dict[frozenset[str], list[Definition]] = defaultdict(list)
    by_concepts: dict[tuple[str, ...], list[frozenset[str]]] = defaultdict(list)
    for one in definitions():
        if one.words not in by_words:
            by_concepts[one.concepts].append(one.words)
        by_words[one.words].append(one)
    left: dict[str, int] = defaultdict(int)  # training definitions of each word and skeleton
    for one in definitions():
        for part in (*one.words, one.skeleton):
            left[part] += 1
    side: dict[frozenset[str], str] = {}
    rng = random.Random(_SPLIT_SEED)
    for wordings in by_concepts.values():
        rng.shuffle(wordings)
        n_test = round(len(wordings) / 6 + 0.3) if len(wordings) > 3 else 0
        n_validation = int(len(wordings) / 12 + rng.random())
        wanted = ["test"] * n_test + ["validation"] * n_validation
        for words, split in zip(wordings, wanted, strict=False):
            parts = [part for one in by_words[words] for part in (*one.words, one.skeleton)]
            if all(left[part] > parts.count(part) for part in parts):
                side[words] = split
                for part in parts:
                    left[part] -= 1
    return {
        split: tuple(one for one in definitions() if side.get(one.words, "train") == split)
        for split in ("train", "validation", "test")
    }


def _all() -> Iterator[Definition]:
    rng = random.Random(_SPLIT_SEED)
    for family in FAMILIES:
        for phrasing in family.phrasings:
            for answer, row in family.rows:
                columns = map(int, _ROW_SLOT.findall(phrasing))
                skeleton = _filled(_ROW_SLOT, phrasing, [f"<{row[i]}>" for i in columns])
                concepts = _CONCEPT_SLOT.findall(skeleton)
                choices = list(product(*(thesaurus()[concept].seen for concept in concepts)))
                if len(choices) > MAX_WORDINGS:
                    choices = sorted(rng.sample(choices, MAX_WORDINGS))
                for words in choices:
                    tree = _filled(_CONCEPT_SLOT, skeleton, words)
                    # each leaf under a tag of its own, so that heights are those of a treebank's
                    tree = _LEAF.sub(lambda leaf: f"(X {leaf[0]})", tree)
                    # "an" where the next leaf begins with a vowel, or is the digit 8
                    tree = re.sub(r"(?<=\(X )a(?=\)\s\(X [aeio8])", "an", tree)
                    yield Definition(
                        tree=tree,
                        answer=answer,
                        family=family.name,
                        skeleton=" ".join(_LEAF.findall(skeleton)),
                        words=frozenset(words),
                        concepts=tuple(sorted(concepts)),
                    )


def _filled(slot: re.Pattern[str], text: str, words: Sequence[str]) -> str:
    """The slots of a text, from left to right, replaced by as many words."""
    rest = iter(words)
    return slot.sub(lambda _: next(rest), text)


def mini_idm(tokenizer: Any, prompt: Prompt, seed: int, *, several: bool = False) -> Task:
    """The task for one model: definitions in its template, answers that are one token for it, or
    ``several``.

    ``AnswerError`` where no answer is; ``seed`` orders each split.
    """
    counts: dict[str, int | str | float] = {
        "source": "shipped with interp_compose",
        "template_of": prompt.family,
        "skeletons": len({one.skeleton for one in definitions()}),
        "answers": len({one.answer for one in definitions()}),
    }
    kept: dict[str, tuple[Example, ...]] = {}
    for split, rows in splits().items():
        examples = [
            Example(prompt(one.text), prompt.lead + one.answer, tree=one.tree) for one in rows
        ]
        kept[split] = keep_fitting(tokenizer, examples, of_target=prompt.two_texts, several=several)
        counts[f"{split}_all"] = len(examples)
        counts[f"{split}_{'any_tokens' if several else 'one_token'}"] = len(kept[split])
        kept[split] = shuffled(kept[split], seed)
    return Task("mini-idm", prompt.template, report=counts, labels=(), **kept)
