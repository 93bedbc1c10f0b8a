"""The shape of a study that measures: its input is prepared, then measured batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pandas as pd
import torch
from tqdm.auto import tqdm

from interp_compose.models.enough_memory import check_available
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.runs.batches import BatchStore, KeptBatches, kept_batches
from interp_compose.runs.files import locked, remove_if_empty
from interp_compose.studies.core.data import filtered_of, rows_of
from interp_compose.studies.core.options import Options
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.shards import FOLDER, Shard, Shards

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
) -> R:
    """Measure batch by batch. With ``resume``, a folder, finished batches are kept in it until the
    result is made; with ``start_afresh``, those of another run are discarded.

    ``keep`` is given the result before the finished batches are deleted.

    Raises:
        InterventionError: ``resume``, and hooks or functions act that no version names.
        NotEnoughMemoryError: the batches that are not finished need more than is free.
    """
    unversioned = [*prepared.model.open_blocks.unversioned, *prepared.unversioned]
    with kept_batches(resume, prepared.config, unversioned, start_afresh=start_afresh) as finished:
        frames = batch_rows(prepared, finished, range(len(prepared.batches)), progress=progress)
        result = prepared.result(pd.concat(frames, ignore_index=True))
        keep(result)
        return result


def batch_rows(
    prepared: Prepared[Any], finished: KeptBatches, numbers: Sequence[int], *, progress: bool
) -> list[pd.DataFrame]:
    """The rows of these batches; what is not ``finished`` is measured.

    Raises:
        NotEnoughMemoryError: the batches that are not finished need more than is free.
    """
    title = f"{prepared.config['study']} {prepared.model.name}"
    kept = {number: finished.get(number) for number in numbers}
    left = [prepared.batches[number] for number, rows in kept.items() if rows is None]
    if left:
        largest = max(left, key=prepared.least_bytes)
        remedies = ["set a smaller batch_size"] * (len(largest) > 1)
        remedies += ["measure fewer layers at a time"] * (
            len(prepared.config.get("layers", ())) > 1
        )
        check_available(
            prepared.least_bytes(largest),
            prepared.model.device,
            f"{title}: a batch of {len(largest)}",
            ", or ".join([", ".join(remedies)] * bool(remedies) + ["use shorter texts"]),
        )
    frames = []
    for number in tqdm(numbers, title, unit="batch", disable=not progress):
        rows = kept[number]
        if rows is None:
            with torch.no_grad():
                rows = prepared.rows(prepared.batches[number])
            finished.put(number, rows)
        frames.append(rows)
    return frames


def measured_shard(
    prepared: Prepared[R],
    shard: Shard,
    out: Path,
    *,
    progress: bool,
    start_afresh: bool,
    keep: Callable[[R], object],
) -> R | str:
    """Measure the batches of one shard. Where the others' are below ``out`` as well, the result,
    which ``keep`` is given before they are deleted; else a sentence on what is missing.

    Raises:
        InputError: there are shards of another run.
        InterventionError, NotEnoughMemoryError: as :func:`measured`.
    """
    unversioned = [*prepared.model.open_blocks.unversioned, *prepared.unversioned]
    folder, config = shard.folder(out), prepared.config
    with kept_batches(folder, config, unversioned, start_afresh=start_afresh, is_shard=True) as own:
        assert isinstance(own, BatchStore)  # a folder is named
        Shards.below(out, own)  # refuses those of another run before any work
        batch_rows(prepared, own, shard.batches(len(prepared.batches)), progress=progress)
        with locked(out, wait=MERGING):
            if own.files():
                outcome = _merged(prepared, shard, out, own, keep)
            else:  # another process has just made the result of them
                outcome = prepared.kind.load(out)
    remove_if_empty(out / FOLDER)
    return outcome


def _merged(
    prepared: Prepared[R], shard: Shard, out: Path, own: BatchStore, keep: Callable[[R], object]
) -> R | str:
    """The result of all batches, or which shards are missing."""
    every, total = Shards.below(out, own), len(prepared.batches)
    rows = every.rows()
    missing = {*range(total)} - rows.keys()
    if missing:
        n_own = len(shard.batches(total))
        return (
            f"shard {shard.number}/{shard.count} is measured, {n_own} of {total} batches. Not yet "
            f"whole in {out / FOLDER}: {shard.others(missing)}; the last of them writes the result"
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
