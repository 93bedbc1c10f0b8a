"""Labelled texts from the Hugging Face hub, or from a folder, through ``datasets``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from interp_compose._public import public
from interp_compose.errors import DataFormatError, MissingDataError, MissingPackageError, first_line
from interp_compose.hub_waits import told_once
from interp_compose.papers.cat.tasks.labelled import LabelledTask, LabelledText, counted, score_of
from interp_compose.tasks.rows import shown

SPLITS: Mapping[str, str] = {"train": "train", "test": "test"}


@public
def labelled_from_hub(
    source: str,
    *,
    texts: Sequence[str],
    target: str = "label",
    config: str | None = None,
    splits: Mapping[str, str] = SPLITS,
    labels: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
) -> LabelledTask:
    """A labelled task of a data set that ``datasets`` loads: a hub name, such as
    ``"nyu-mll/glue"``, or a folder of files in CSV, JSON lines or Parquet.

    Args:
        source: what ``datasets.load_dataset`` takes.
        texts: the column of the text, or the two columns of a pair.
        target: the column of the class, or the score.
        config: of a data set that has several, such as ``"rte"``.
        splits: the data set's split for each of the task's: ``"train"``, ``"test"``, and perhaps
            ``"validation"`` and ``"ood"``.
        labels: names of the classes, in the order of their numbers; by default those that the data
            set states. Where there are none, the column has scores.
        metrics: as :class:`LabelledTask` has them; by default accuracy, of scores Pearson's and
            Spearman's correlation.

    Raises:
        MissingPackageError: ``datasets`` is not installed.
        MissingDataError: there is no such data set or split, or it cannot be fetched.
        DataFormatError: no column of texts, or more than two; a column is missing; a class that is
            none, or no number.
        OptionError, InputError: as :class:`LabelledTask`.
    """
    if not 1 <= len(texts) <= 2:
        raise DataFormatError(f"texts={list(texts)!r}: expected one column, or two")
    items: dict[str, tuple[LabelledText, ...]] = {}
    for name, split in splits.items():
        items[name], stated = hub_texts(source, config, split, texts=texts, target=target)
        labels = labels or stated
    usual = ("accuracy",) if labels else ("pearson", "spearman")
    name = source if config is None else f"{source} {config}"
    return LabelledTask(
        name, items, tuple(labels), tuple(metrics or usual), counted(items, f"{name} (datasets)")
    )


def hub_texts(
    source: str,
    config: str | None,
    split: str,
    *,
    texts: Sequence[str],
    target: str,
    only: tuple[str, str] | None = None,
    ends: tuple[float, float] | None = None,
) -> tuple[tuple[LabelledText, ...], tuple[str, ...]]:
    """The texts of a split, and the names of classes that it states.

    ``only``, a column and a value, keeps the rows that have it; ``ends`` are those of the scores.
    Raises as :func:`load_split`, and ``DataFormatError`` for a bad row, which it names.
    """
    column, value = only or ("", "")
    columns = (*texts, target, *([column] if only else []))
    data, where = load_split(source, config, split, columns)
    items = tuple(
        _text(row, texts, target, f"row {number} of {where}", ends)
        for number, row in enumerate(data)
        if only is None or row[column] == value
    )
    return items, tuple(getattr(data.features[target], "names", None) or ())


def load_split(
    source: str, config: str | None, split: str, columns: Sequence[str]
) -> tuple[Any, str]:
    """These ``columns`` of a split of a data set that ``datasets`` loads, and how messages
    call the split.

    Raises ``MissingPackageError`` where ``datasets`` is not installed, ``MissingDataError`` where
    there is no such data set or split, or it cannot be fetched, and ``DataFormatError`` where it
    lacks a column.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingPackageError(
            f"{source!r} is loaded by datasets, which cannot be imported ({error}); install it: "
            "pip install 'interp-compose[hub]'"
        ) from error
    try:
        with told_once():
            data = datasets.load_dataset(source, config, split=split)
    except (OSError, ValueError, LookupError, datasets.exceptions.DatasetsError) as error:
        raise MissingDataError(
            f"the split {split!r} of {source!r} cannot be loaded ({first_line(error)}); check the "
            "name, config and splits, and whether the hub can be reached"
        ) from error
    where = f"split {split!r} of {source if config is None else f'{source} {config}'}"
    missing = [name for name in columns if name not in data.column_names]
    if missing:
        raise DataFormatError(
            f"{where} has no column {missing[0]!r}; it has {', '.join(data.column_names)}"
        )
    return data.select_columns(list(columns)), where


def _text(
    row: Mapping[str, Any],
    texts: Sequence[str],
    target: str,
    where: str,
    ends: tuple[float, float] | None,
) -> LabelledText:
    parts, value = [row[name] for name in texts], row[target]
    for name, text in zip(texts, parts, strict=True):
        if not isinstance(text, str) or not text.strip():
            raise DataFormatError(f"{where} has {shown(text)} as its {name}; expected a text")
    if not isinstance(value, Real) or not math.isfinite(value):
        raise DataFormatError(
            f"{where} has {shown(value)} as its {target}; expected the number of a class, or a "
            "score"
        )
    score = float(value) if ends is None else score_of(str(value), where, *ends)
    return LabelledText(parts[0], parts[1] if len(parts) > 1 else None, score)
