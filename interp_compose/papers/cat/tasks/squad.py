"""SQuAD 1.1 (Rajpurkar et al. 2016), and its questions with adversarial sentences (Jia and Liang
2017): the answer is a span of the context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from interp_compose._public import public
from interp_compose.checks import drawn, is_whole
from interp_compose.errors import DataFormatError, InputError, OptionError
from interp_compose.papers.cat.tasks.hub import load_split
from interp_compose.runs.files import json_value
from interp_compose.tasks.rows import (
    cell,
    check_split,
    data_files,
    is_text,
    mapping_of,
    shown,
    text_of,
)
from interp_compose.tasks.shown_task import ShownTask

FILES: Final = {
    "train": "train-v1.1.json",
    "test": "dev-v1.1.json",
    "addsent": "sample1k-HCVerifyAll.json",
    "addonesent": "sample1k-HCVerifySample.json",
}
"""The file of each split, as SQuAD and Jia and Liang distribute them."""
ADVERSARIAL: Final = {"addsent": "AddSent", "addonesent": "AddOneSent"}
"""Splits with adversarial sentences, as Jia and Liang call them."""
SPLITS: Final = tuple(FILES)
Answer = tuple[int, str]


@public
@dataclass(frozen=True)
class Question:
    """A question on a text; each of its ``answers`` is the character of ``context`` that it begins
    at (from 0), and the answer's text."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]

    @property
    def original(self) -> str:
        """The question that it is a variant of, or itself: variants add "-" and more to the id."""
        return self.id.split("-")[0]


@public
@dataclass(frozen=True, repr=False)
class SpanTask(ShownTask):
    """Questions whose answers are spans of a text, in named splits.

    Raises:
        OptionError: a split that there is none of.
        InputError: no training or no test questions; a text that is blank; a question without an
            answer, or with one that is not in the context where it says; an id given twice
            in a split.
    """

    name: str
    splits: Mapping[str, tuple[Question, ...]]
    """``"train"`` and ``"test"``, perhaps ``"addsent"`` and ``"addonesent"``: test questions whose
    contexts have misleading sentences."""
    report: Mapping[str, int | str | float] = field(default_factory=dict)
    """Counts, and where the data are from."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.splits if name not in SPLITS]
        if unknown:
            raise OptionError(
                f"splits of {self.name!r} name {unknown[0]!r}: expected some of {', '.join(SPLITS)}"
            )
        for split in ("train", "test"):
            if not self.splits.get(split):
                raise InputError(
                    f"the {split} split of {self.name!r} is empty: expected one question or more"
                )
        for split, items in self.splits.items():
            seen = set[str]()
            for item in items:
                where = f"the question {item.id!r} of the {split} split of {self.name!r}"
                problem = _problem(item.question, item.context, item.answers)
                if item.id in seen:
                    problem = "is there twice; expected ids that differ"
                if problem:
                    raise InputError(f"{where} {problem}")
                seen.add(item.id)

    def split(self, name: str) -> tuple[Question, ...]:
        """The questions of a split, none where the task has none of that name.

        Raises:
            OptionError: a name that no task has.
        """
        check_split(name, SPLITS)
        return self.splits.get(name, ())

    def limited(self, limit: int | None) -> SpanTask:
        """So many questions of each split at most, drawn at random, always the same ones, with all
        their variants."""
        splits = {}
        for name, items in self.splits.items():
            originals = {*drawn([*dict.fromkeys(item.original for item in items)], limit)}
            splits[name] = tuple(item for item in items if item.original in originals)
        return SpanTask(self.name, splits, self.report)


@public
def load_squad(data_dir: str | Path) -> SpanTask:
    """SQuAD 1.1, and its questions with adversarial sentences, from their files in JSON.

    Args:
        data_dir: the folder with ``train-v1.1.json`` and ``dev-v1.1.json``, which is the test
            split, and Jia and Liang's ``sample1k-HCVerifyAll.json`` (AddSent) and
            ``sample1k-HCVerifySample.json`` (AddOneSent).

    Raises:
        MissingDataError: a file is not there; says where to get it.
        DataFormatError: a file is no such JSON, a field is missing or an answer is not
            where its ``answer_start`` says; names article, paragraph and question.
        InputError: a file without a question.
    """
    hint = (
        f"get {FILES['train']} and {FILES['test']} from "
        "https://rajpurkar.github.io/SQuAD-explorer/ (SQuAD 1.1) and "
        f"{FILES['addsent']} and {FILES['addonesent']} from https://worksheets.codalab.org/"
        "worksheets/0xc86d3ebe69a3427d91f9aaa63f7d1e7d/, and pass their folder as data_dir"
    )
    needs = "SQuAD 1.1 and its adversarial questions"
    paths = data_files("squad", data_dir, list(FILES.values()), needs=needs, hint=hint)
    splits = {split: tuple(_of_articles(path)) for split, path in zip(FILES, paths, strict=True)}
    return SpanTask("squad", splits, _counted(splits, f"SQuAD 1.1 in {data_dir}"))


@public
def squad_from_hub(
    source: str = "rajpurkar/squad", *, adversarial: str | None = "stanfordnlp/squad_adversarial"
) -> SpanTask:
    """The same through ``datasets``: a hub name, or a folder of files in JSON lines or Parquet.

    Columns are ``id``, ``question``, ``context`` and ``answers``, which has ``text`` and
    ``answer_start``.

    Args:
        source: what ``datasets.load_dataset`` takes, with the splits ``train`` and ``validation``,
            which is the test split.
        adversarial: another, whose configs ``AddSent`` and ``AddOneSent`` have the split
            ``validation``; None: no adversarial sentences.

    Raises:
        MissingPackageError: ``datasets`` is not installed.
        MissingDataError: there is no such data set, config or split, or it cannot be fetched.
        DataFormatError: a column is missing; an answer is not where its ``answer_start``
            says; names the row and the question.
        InputError: as :class:`SpanTask`.
    """
    sources: dict[str, tuple[str, str | None, str]] = {
        "train": (source, None, "train"),
        "test": (source, None, "validation"),
    }
    if adversarial is not None:
        for split, config in ADVERSARIAL.items():
            sources[split] = (adversarial, config, "validation")
    splits = {split: tuple(_of_rows(*place)) for split, place in sources.items()}
    return SpanTask("squad", splits, _counted(splits, f"{source} (datasets)"))


def _counted(splits: Mapping[str, Sequence[Question]], source: str) -> dict[str, int | str | float]:
    """The source, how many rows each split has and, where that differs, of how many questions."""
    report: dict[str, int | str | float] = {"source": source}
    for split, items in splits.items():
        report[f"{split}_all"] = len(items)
        if split in ADVERSARIAL:
            report[f"{split}_originals"] = len({item.original for item in items})
    return report


def _of_articles(path: Path) -> Iterator[Question]:
    """The questions of a file: ``{"data": [{"title", "paragraphs": [{"context", "qas": [{"id",
    "question", "answers": [{"answer_start", "text"}]}]}]}]}``."""
    text = text_of(path)
    try:
        document = json_value(text)
    except ValueError as error:
        raise DataFormatError(f"{path} is not JSON ({error}); get the file again") from error
    for i, article in enumerate(_listed(document, "data", str(path))):
        where = f"{path}, article {i}{_called(article, 'title')}"
        for j, paragraph in enumerate(_listed(article, "paragraphs", where)):
            place = f"{where}, paragraph {j}"
            for k, row in enumerate(_listed(paragraph, "qas", place)):
                name = f"{place}, question {k}{_called(row, 'id')}"
                answers = [
                    (one.get("answer_start"), one.get("text"))
                    for one in (
                        mapping_of(one, f"an answer of {name}", "an object with answer_start, text")
                        for one in _listed(row, "answers", name)
                    )
                ]
                yield _checked(row, paragraph.get("context"), answers, name)


def _of_rows(source: str, config: str | None, split: str) -> Iterator[Question]:
    columns = ("id", "question", "context", "answers")
    data, split_name = load_split(source, config, split, columns)
    for number, row in enumerate(data):
        where = f"row {number} of {split_name}{_called(row, 'id')}"
        expected = "an object with answer_start and text"
        answers = mapping_of(row["answers"], f"the column answers of {where}", expected)
        starts, texts = (_listed(answers, name, where) for name in ("answer_start", "text"))
        if len(starts) != len(texts):
            raise DataFormatError(
                f"{where} has {len(starts)} answer_start and {len(texts)} text; expected as many"
            )
        yield _checked(row, row["context"], list(zip(starts, texts, strict=True)), where)


def _listed(row: Any, key: str, where: str) -> list[Any]:
    value = mapping_of(row, where, f"an object with {key}").get(key)
    if not isinstance(value, list):
        raise DataFormatError(
            f"{where} has {cell(row, key)}; expected a list, as the format of SQuAD 1.1 has it"
        )
    return value


def _called(row: Any, key: str) -> str:
    """What a row calls itself, in parentheses."""
    return f" ({row[key]!r})" if isinstance(row, Mapping) and is_text(row.get(key)) else ""


def _checked(
    row: Mapping[str, Any], context: Any, answers: Sequence[tuple[Any, Any]], where: str
) -> Question:
    problem = _problem(row.get("question"), context, answers)
    if not is_text(row.get("id")):
        problem = f"has {cell(row, 'id')}; expected a text that is not blank"
    if problem:
        raise DataFormatError(f"{where} {problem}")
    return Question(row["id"], row["question"], context, tuple(answers))


def _problem(question: Any, context: Any, answers: Sequence[tuple[Any, Any]]) -> str | None:
    """What is wrong with a question, as a message goes on after its name."""
    for name, text in (("question", question), ("context", context)):
        if not is_text(text):
            return f"has {cell({name: text}, name)}; expected a text that is not blank"
    if not answers:
        return "has no answers; expected one or more, as SQuAD 1.1 has (not 2.0)"
    for start, text in answers:
        if not is_text(text):
            return f"has an answer with {cell({'text': text}, 'text')}; expected a text"
        if not is_whole(start):
            return (
                f"has the answer {shown(text)} with {cell({'answer_start': start}, 'answer_start')}"
                "; expected a whole number"
            )
        span = context[start : start + len(text)] if start >= 0 else ""
        if span != text:
            return (
                f"has the answer {shown(text)} with answer_start={start}, where the context has "
                f"{shown(span)}; expected the character of the context, counted from 0, that the "
                "answer begins at"
            )
    return None
