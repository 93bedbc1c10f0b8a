"""``idm``: the inverse dictionary of CARMA (appendix B.2), WordNet's definition → word.

Every lemma of every synset gives a definition and a word. They are filtered in this order, and
the task's report counts what each step leaves:

1. words of lower-case letters only: no phrases, names, abbreviations or numbers;
2. definitions are cleaned as the paper says: what is in parentheses goes, then special
   characters and punctuation (a hyphen or apostrophe inside a word stays), then extra spaces;
3. a definition must not be empty or contain the word itself;
4. the word must be one token for this model's tokenizer, unless several are allowed (after its
   prompt with a stand-in for the definition; what is left in the end is checked after its own);
5. one word for each definition: of the words that share one, the most frequent in this sense
   (WordNet's counts; in a tie the first), since only one answer can be counted as correct;
6. one definition for each word: that of its most frequent sense (in a tie the first).

What to do about words and definitions that occur several times is not said in the paper; 5 and 6
are ours, and leave no word and no definition in two splits. Words are split 80/10/10, shuffled
with the seed, *before* 2 to 6, so that a word is on the same side for every model; the sizes are
therefore not exactly 80/10/10 (nor are the paper's: 9563/1154/1231).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from interp_compose.errors import AnswerError
from interp_compose.tasks.prompts import Prompt
from interp_compose.tasks.task import SPLITS, Task
from interp_compose.tasks.wordnet import Sense, wordnet_senses, wordnet_version
from interp_compose.text.answers import fitting, some_tokens
from interp_compose.types import Example

PAPER_SIZES = {"train": 9563, "validation": 1154, "test": 1231}

_WORD = re.compile(r"[a-z]+")
_PARENTHESES = re.compile(r"\([^()]*\)")
_SPECIAL = re.compile(r"[^\w\s'-]|_")


def wordnet_idm(
    tokenizer: Any,
    prompt: Prompt,
    data_dir: str | Path | None,
    seed: int,
    *,
    several: bool = False,
) -> Task:
    """The task for one model, from WordNet in ``data_dir`` or where NLTK finds it.

    ``MissingDataError`` where it is not, ``AnswerError`` where no word is one token; with
    ``several``, words may be several.
    """
    task = idm_from_senses(wordnet_senses(data_dir), tokenizer, prompt, seed, several=several)
    source = f"WordNet {wordnet_version(data_dir)} through NLTK"
    return replace(task, report={**task.report, "source": source})


def idm_from_senses(
    senses: Sequence[Sense], tokenizer: Any, prompt: Prompt, seed: int, *, several: bool = False
) -> Task:
    """The filters above, on any list of senses."""
    report: dict[str, int | str | float] = {
        "source": "WordNet",
        "template_of": prompt.family,
        "senses": len(senses),
    }
    kept = [one for one in senses if _WORD.fullmatch(one.word)]
    report["single_lower_case_words"] = len(kept)
    side = _sides(sorted({one.word for one in kept}), seed)
    kept = [replace(one, definition=clean_definition(one.definition)) for one in kept]
    kept = [
        one for one in kept if one.definition and one.word not in one.definition.lower().split()
    ]
    report["usable_definitions"] = len(kept)
    words = sorted({one.word for one in kept})
    texts = [(prompt.before("a thing"), prompt.lead + word) for word in words]
    fits = fitting(tokenizer, texts, several=several)
    what = "any_tokens" if several else "one_token"
    whole = {word for word, fit in zip(words, fits, strict=True) if fit}
    kept = [one for one in kept if one.word in whole]
    report[what] = len(kept)
    kept = _most_frequent(kept, lambda one: one.definition)
    report["one_word_a_definition"] = len(kept)
    kept = _most_frequent(kept, lambda one: one.word)
    report["one_definition_a_word"] = len(kept)
    texts = [(prompt.before(one.definition), prompt.lead + one.word) for one in kept]
    fits = fitting(tokenizer, texts, several=several)
    kept = [one for one, fit in zip(kept, fits, strict=True) if fit]
    report[f"{what}_in_context"] = len(kept)
    if not kept:
        raise AnswerError(
            f"none of {len(side)} words of WordNet is {some_tokens(several)} for this tokenizer "
            f"after {prompt.template!r}; use a model whose tokenizer has whole words"
        )
    random.Random(seed).shuffle(kept)
    split = {
        name: tuple(
            Example(prompt(one.definition), prompt.lead + one.word)
            for one in kept
            if side[one.word] == name
        )
        for name in SPLITS
    }
    for name in SPLITS:
        report[name] = len(split[name])
        report[f"{name}_in_paper"] = PAPER_SIZES[name]
    return Task("idm", prompt.template, labels=(), report=report, **split)


def clean_definition(text: str) -> str:
    """A definition without parentheses, special characters, punctuation and extra spaces."""
    before = ""
    while before != text:  # innermost first
        before, text = text, _PARENTHESES.sub(" ", text)
    words = (word.strip("'-") for word in _SPECIAL.sub(" ", text).split())
    return " ".join(word for word in words if word)


def _sides(words: list[str], seed: int) -> dict[str, str]:
    """Word → split; 80 % train, 10 % validation, the rest test."""
    random.Random(seed).shuffle(words)
    first, second = int(0.8 * len(words)), int(0.9 * len(words))
    bounds = {"train": words[:first], "validation": words[first:second], "test": words[second:]}
    return {word: name for name, chosen in bounds.items() for word in chosen}


def _most_frequent(senses: Sequence[Sense], key: Callable[[Sense], str]) -> list[Sense]:
    """Of the senses that share a key the one with the highest count, the first in a tie."""
    best: dict[str, Sense] = {}
    for one in senses:
        if key(one) not in best or one.count > best[key(one)].count:
            best[key(one)] = one
    return list(best.values())
