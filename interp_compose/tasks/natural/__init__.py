"""Tasks in plain English that a small language model can do: one JSONL file each.

The first line of a file is ``{"template": …}``, the prompt around a text, and may say that the task
is ``"made_for"`` another choice of ``answers=`` than the vocabulary: ``"foil"``. Each other line is
an item of its own: ``text``, in which brackets mark the unit that decides the answer; the
``answer``, its leading space included; and a ``foil``, an answer of the same kind that is wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from interp_compose.tasks.task import Task
from interp_compose.text.answers import keep_fitting
from interp_compose.types import Example

MOST_LABELS = 3
"""Answers of a task that is a classification, at most."""


@dataclass(frozen=True)
class Item:
    """A line of a file."""

    text: str
    answer: str
    foil: str

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before the brackets, in them and after them."""
        before, unit, after = self.text.replace("]", "[").split("[")
        return before, unit, after

    def example(self, template: str) -> Example:
        """The prompt without brackets, and the unit's place in it."""
        before, unit, after = self.parts
        start = template.index("{}") + len(before)
        prompt = template.replace("{}", before + unit + after, 1)
        span = (start, start + len(unit))
        return Example(prompt, self.answer, spans=(span,), foil=self.foil)


@cache
def read(name: str) -> tuple[str, tuple[Item, ...], str]:
    """A task's template, its items in the order of the file, and what it is made for."""
    lines = files(__name__).joinpath(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    first, *rows = map(json.loads, lines)
    items = tuple(Item(**row) for row in rows)
    return first["template"], items, first.get("made_for", "vocabulary")


def natural(name: str, tokenizer: Any, *, several: bool = False) -> Task:
    """The task for one model, all of it as the test split: items whose answers are one token for
    it, or ``several``; labels where the task has few answers.

    ``AnswerError`` where no answer is.
    """
    template, items, made_for = read(name)
    examples = [item.example(template) for item in items]
    kept = keep_fitting(tokenizer, examples, of_target=False, several=several)
    report: dict[str, int | str | float] = {
        "source": "shipped with interp_compose",
        "made_for": f"answers={made_for!r}",
        "test_all": len(examples),
        f"test_{'any_tokens' if several else 'one_token'}": len(kept),
    }
    answers = dict.fromkeys(item.answer for item in items)
    labels = tuple(answers) if len(answers) <= MOST_LABELS else ()
    return Task(name, template, test=kept, report=report, labels=labels)
