"""The shape of a study that measures: its input is prepared, then measured batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pandas as pd
import torch

from interp_compose.models.enough_memory import check_available, free_bytes, rows_that_fit
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.progress import progress_bar
from interp_compose.runs.batches import BatchStore, kept_batches
from interp_compose.runs.files import locked
from interp_compose.studies.core.data import filtered_of, rows_of
from interp_compose.studies.core.options import Options
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.shards import NotTheLastError, Shard, Shards
from interp_compose.tensors import devices_of

OptionsT = TypeVar("OptionsT", bound=Options)
R = TypeVar("R", bound=StudyResult)
PreparedT = TypeVar("PreparedT", bound="Prepared[Any]")
MERGING: Final = 600.0
"""Seconds that a shard waits for another one to make the result."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared(ABC, Generic[R]):
    """A study whose input has been checked: nothing in it is left to be refused.

    Attributes:
        kind: of the result.
        model: that is measured.
        config: what the result says of itself; the model's weights and the data by their SHA-256.
        batches: parts of the data, of which one after another is measured.
        unversioned: functions of the user's that act in it; no version names them.
    """

    kind: type[R]
    model: LensModel
    config: Mapping[str, Any]
    batches: Sequence[Any]
    unversioned: Sequence[str] = ()

    def least_bytes(self, batch: Any) -> int:
        """Bytes that measuring a batch holds at least, beyond the weights (:mod:`.enough_memory`);
        0 where that is not known."""
        return 0

    def expected_bytes(self, batch: Any) -> int | None:
        """An estimate of what it holds; None where there is none."""
        return None

    @abstractmethod
    def rows(self, batch: Any) -> pd.DataFrame:
        """The rows of one batch."""

    @abstractmethod
    def result(self, rows: pd.DataFrame) -> R:
        """The result of all rows."""


def measured(
    prepared: Prepared[R],
    *,
    progress: bool = True,
    resume: str | Path | None = None,
    start_afresh: bool = False,
    keep: Callable[[R], object] = lambda result: None,
    shard: Shard | None = None,
) -> R:
    """Measure batch by batch. With ``resume``, a folder, finished batches are kept in it until the
    result is made; with ``start_afresh``, those of another run are discarded.

    ``keep`` is given the result before the finished batches are deleted. Of a ``shard``, ``resume``
    is its :meth:`.Shard.folder`, and its batches alone are measured; where those of the others are
    there as well, the result is made of all.

    Raises:
        InterventionError: ``resume``, and hooks or functions act that no version names.
        NotEnoughMemoryError: the batches that are not finished need more than is free.
        InputError: there are shards of another run.
        NotTheLastError: other shards are not finished.
    """
    title = f"{prepared.config['study']} {prepared.model.name}"
    unversioned = [*prepared.model.open_blocks.unversioned, *prepared.unversioned]
    numbers = range(len(prepared.batches))
    with kept_batches(
        resume, prepared.config, unversioned, start_afresh=start_afresh, is_shard=shard is not None
    ) as finished:
        if shard is not None and isinstance(finished, BatchStore):
            # Refuses those of another run, or deletes them, before any work.
            Shards.beside(finished, replace=start_afresh)
            numbers = shard.batches(len(prepared.batches))
        kept = {number: finished.get(number) for number in numbers}
        _check_memory(prepared, [n for n in numbers if kept[n] is None], title)
        frames = []
        for number in progress_bar(numbers, title, unit="batch", disable=not progress):
            rows = kept[number]
            if rows is None:
                with torch.no_grad():
                    rows = prepared.rows(prepared.batches[number])
                finished.put(number, rows)
            frames.append(rows)
        if shard is not None and isinstance(finished, BatchStore):
            return _of_all_shards(prepared, shard, finished, keep)
        result = prepared.result(pd.concat(frames, ignore_index=True))
        keep(result)
        return result


def _check_memory(prepared: Prepared[Any], left: Sequence[int], title: str) -> None:
    """Refuse the largest batch that is left to be measured, if it does not fit, and warn if it may
    not; both propose the batch that would."""
    if not left:
        return
    largest = max((prepared.batches[number] for number in left), key=prepared.least_bytes)
    devices = devices_of(prepared.model.parameters())
    expected, fitting = prepared.expected_bytes(largest), 0
    free = free_bytes(devices)
    if expected is not None and free is not None and expected > free:
        fitting = rows_that_fit(
            lambda n: prepared.expected_bytes(largest[-n:]) or 0,  # of the longest
            len(largest) - 1,
            devices,
        )
    smaller = f"batch_size={fitting}, which would fit" if fitting else "a smaller batch_size"
    remedies = [f"set {smaller}"] * (len(largest) > 1)
    remedies += ["measure fewer layers at a time"] * (len(prepared.config.get("layers", ())) > 1)
    check_available(
        prepared.least_bytes(largest),
        devices,
        f"{title}: a batch of {len(largest)}",
        ", or ".join([", ".join(remedies)] * bool(remedies) + ["use shorter texts"]),
        expected=expected,
    )


def _of_all_shards(
    prepared: Prepared[R], shard: Shard, own: BatchStore, keep: Callable[[R], object]
) -> R:
    """The result of all batches, unless some are missing."""
    out = own.folder.parents[1]
    with locked(out, wait=MERGING):
        if not own.files():  # another process has just made the result of them
            return prepared.kind.load(out)
        every, total = Shards.beside(own), len(prepared.batches)
        rows = every.rows()
        missing = {*range(total)} - rows.keys()
        if missing:
            raise NotTheLastError(
                f"shard {shard.number}/{shard.count} is measured, {len(shard.batches(total))} of "
                f"{total} batches. Not yet whole in {own.folder.parent}: {shard.others(missing)}; "
                "the last of them writes the result"
            )
        result = prepared.result(pd.concat([rows[n] for n in range(total)], ignore_index=True))
        keep(result)
        every.clear()
        return result


def prepared_of(
    prepare: Callable[[LensModel, Any, OptionsT], PreparedT],
    model: LensModel,
    data: Any,
    options: OptionsT,
) -> PreparedT:
    """What ``prepare`` makes of a task's test split, of a table or of a list."""
    rows, options = rows_of(data, options)
    return noting(prepare(model, rows, options), filtered=filtered_of(data))


def noting(prepared: PreparedT, **entries: str) -> PreparedT:
    """The same, whose result's config says more; empty texts are left out."""
    more = {name: text for name, text in entries.items() if text}
    return replace(prepared, config={**prepared.config, **more}) if more else prepared


def config_of(study: str, model: LensModel, options: Options, **settled: Any) -> dict[str, Any]:
    """What a result says of itself: model, options, and what of them was ``settled`` otherwise."""
    values = {
        each.name: _plain(getattr(options, each.name))
        for each in fields(options)
        if each.name not in ("progress", "resume", "on_bad")
    }
    return {
        "study": study,
        "model": model.name,
        "architecture": model.architecture,
        "n_layers": model.n_layers,
        **values,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "active_hooks": list(model.active_hooks),
        "weights_sha256": weights_digest(model),
        **settled,
    }


def _plain(value: Any) -> Any:
    """In JSON's types; a set in order, an empty one as None."""
    if isinstance(value, frozenset):
        return sorted(value) or None
    return value if isinstance(value, str) or not isinstance(value, Sequence) else list(value)
