"""GLUE's nine tasks (Wang et al. 2018), from the files that GLUE distributes.

Labels of GLUE's test splits are hidden: the development split, on which papers report as well, is
the test split here, and there is none for validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interp_compose.errors import DataFormatError
from interp_compose.papers.cat.tasks.labelled import (
    LabelledTask,
    LabelledText,
    class_of,
    counted,
    score_of,
)
from interp_compose.tasks.rows import data_files, numbered_lines, tsv_rows

Cells = Mapping[str, str]
UNSURE: Final = "-"
"""The label of MNLI's pairs on which annotators did not agree."""


@dataclass(frozen=True)
class GlueFormat:
    """The files of one task.

    Attributes:
        texts: the columns of the one text, or the two.
        target: the column of the label or score.
        labels: how the column names the classes, in their order; none: it has scores.
        metrics: as BERT's authors report it, and accuracy.
        folder: the name of the folder in GLUE's archive.
        tests: the files of the test split, and of others that are ``ood`` here.
        header: the columns where the file has no line that names them.
        lenient: whether rows with too few or too many cells are left out, and counted: QQP has
            questions with line breaks.
    """

    texts: tuple[str, ...]
    target: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    folder: str
    tests: Mapping[str, str]
    header: tuple[str, ...] = ()
    lenient: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*self.texts, self.target)


DEV: Final = {"test": "dev.tsv"}
SENTENCES: Final = ("sentence1", "sentence2")
ENTAILED: Final = ("not_entailment", "entailment")
SCORES: Final = (0.0, 5.0)
"""The ends of STS-B's scores."""
FORMATS: Final[Mapping[str, GlueFormat]] = {
    "cola": GlueFormat(
        ("sentence",),
        "label",
        ("0", "1"),
        ("matthews", "accuracy"),
        "CoLA",
        DEV,
        header=("source", "label", "mark", "sentence"),
    ),
    "sst-2": GlueFormat(("sentence",), "label", ("0", "1"), ("accuracy",), "SST-2", DEV),
    "mrpc": GlueFormat(
        ("#1 String", "#2 String"), "Quality", ("0", "1"), ("f1", "accuracy"), "MRPC", DEV
    ),
    "sts-b": GlueFormat(SENTENCES, "score", (), ("spearman", "pearson"), "STS-B", DEV),
    "qqp": GlueFormat(
        ("question1", "question2"),
        "is_duplicate",
        ("0", "1"),
        ("f1", "accuracy"),
        "QQP",
        DEV,
        lenient=True,
    ),
    "mnli": GlueFormat(
        SENTENCES,
        "gold_label",
        ("entailment", "neutral", "contradiction"),
        ("accuracy",),
        "MNLI",
        {"test": "dev_matched.tsv", "ood": "dev_mismatched.tsv"},
    ),
    "qnli": GlueFormat(("question", "sentence"), "label", ENTAILED, ("accuracy",), "QNLI", DEV),
    "rte": GlueFormat(SENTENCES, "label", ENTAILED, ("accuracy",), "RTE", DEV),
    "wnli": GlueFormat(SENTENCES, "label", ("0", "1"), ("accuracy",), "WNLI", DEV),
}


def glue(name: str, data_dir: str | Path | None) -> LabelledTask:
    """One of the tasks, from ``train.tsv`` and ``dev.tsv`` (MNLI: ``dev_matched.tsv`` and, as
    another distribution, ``dev_mismatched.tsv``).

    Raises ``MissingDataError`` where a file is not there and ``DataFormatError`` for a garbled row,
    which it names.
    """
    form = FORMATS[name]
    files = {"train": "train.tsv", **form.tests}
    hint = (
        "get it from https://gluebenchmark.com/tasks and pass the folder with "
        f"{', '.join(files.values())} ({form.folder}) as data_dir"
    )
    paths = data_files(
        name, data_dir, list(files.values()), needs=f"GLUE's {form.folder}", hint=hint
    )
    splits, left_out = {}, {}
    for split, path in zip(files, paths, strict=True):
        splits[split], left_out[f"{split}_left_out"] = glue_rows(form, path)
    report = {**counted(splits, f"{form.folder} of GLUE in {data_dir}"), **left_out}
    return LabelledTask(name, splits, form.labels, form.metrics, report)


def glue_rows(
    form: GlueFormat, path: Path, accept: Callable[[Cells], bool] = lambda cells: True
) -> tuple[tuple[LabelledText, ...], int]:
    """The rows of a file that are accepted, and how many others were left out: without a label on
    which annotators agreed or, where the format is lenient, broken or without a text."""
    rows, broken, unsure = [], list[int](), 0
    for number, cells in _cells(form, path, broken):
        if cells[form.target] == UNSURE:
            unsure += 1
        elif accept(cells):
            blank = [name for name in form.texts if not cells[name].strip()]
            if blank and form.lenient:
                broken.append(number)
                continue
            where = f"{path}, line {number}"
            if blank:
                raise DataFormatError(f"{where} has no {blank[0]}; give a text that is not blank")
            rows.append(_text(form, cells, where))
    return tuple(rows), unsure + len(broken)


def _text(form: GlueFormat, cells: Cells, where: str) -> LabelledText:
    texts, label = [cells[name] for name in form.texts], cells[form.target]
    target = class_of(label, form.labels, where) if form.labels else score_of(label, where, *SCORES)
    return LabelledText(texts[0], texts[1] if len(texts) > 1 else None, target)


def _cells(form: GlueFormat, path: Path, broken: list[int]) -> Iterator[tuple[int, Cells]]:
    """Line numbers and cells, by column."""
    if not form.header:
        yield from tsv_rows(path, form.names, broken=broken if form.lenient else None)
        return
    for number, line in numbered_lines(path):
        cells = line.split("\t")
        if len(cells) != len(form.header):
            raise DataFormatError(
                f"{path}, line {number} has {len(cells)} columns: {line[:80]!r}; expected "
                f"{len(form.header)}, without a header: {', '.join(form.header)}"
            )
        yield number, dict(zip(form.header, cells, strict=True))
