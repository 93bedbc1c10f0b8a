"""The shape of a study that measures: its input is prepared, then measured batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd
import torch
from tqdm.auto import tqdm

from interp_compose.models.enough_memory import check_available
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.runs.batches import kept_batches
from interp_compose.studies.core.data import filtered_of, rows_of
from interp_compose.studies.core.options import Options
from interp_compose.studies.core.result import StudyResult

OptionsT = TypeVar("OptionsT", bound=Options)
R = TypeVar("R", bound=StudyResult)
PreparedT = TypeVar("PreparedT", bound="Prepared[Any]")


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
    title = f"{prepared.config['study']} {prepared.model.name}"
    unversioned = [*prepared.model.open_blocks.unversioned, *prepared.unversioned]
    with kept_batches(resume, prepared.config, unversioned, start_afresh=start_afresh) as finished:
        kept = [finished.get(number) for number in range(len(prepared.batches))]
        left = [each for each, rows in zip(prepared.batches, kept, strict=True) if rows is None]
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
        batches = tqdm(prepared.batches, title, unit="batch", disable=not progress)
        for number, batch in enumerate(batches):
            rows = kept[number]
            if rows is None:
                with torch.no_grad():
                    rows = prepared.rows(batch)
                finished.put(number, rows)
            frames.append(rows)
        result = prepared.result(pd.concat(frames, ignore_index=True))
        keep(result)
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
