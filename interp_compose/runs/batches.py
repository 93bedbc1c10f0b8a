"""Work that is done batch by batch, kept on disk as it goes, and resumed where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from tqdm.auto import tqdm

from interp_compose.errors import InterventionError, OptionError
from interp_compose.runs.files import locked
from interp_compose.runs.result import BatchStore, environment_versions, remove_if_empty

T = TypeVar("T")


@contextmanager
def batch_by_batch(
    batches: Sequence[T],
    compute: Callable[[T], pd.DataFrame],
    config: Mapping[str, Any],
    *,
    title: str,
    progress: bool,
    resume: str | Path | None,
    unversioned: Sequence[str],
    start_afresh: bool,
) -> Iterator[pd.DataFrame]:
    """The rows of all batches in one frame.

    With ``resume``, a folder, finished batches are stored there under ``config`` and the versions
    of what computes them, and deleted when the ``with`` block, which makes the result of them, has
    ended well. ``start_afresh`` discards the batches of another run. ``unversioned`` are the
    model's hooks that no version names (:attr:`.LensModel.unversioned_hooks`).

    Raises:
        InterventionError: ``resume`` under such hooks: nobody could tell whether they are those
            under which the stored batches were computed.
    """
    if resume is None:
        frames = [
            compute(part) for part in tqdm(batches, title, unit="batch", disable=not progress)
        ]
        yield pd.concat(frames, ignore_index=True)
        return
    if unversioned:
        raise InterventionError(
            f"resume={str(resume)!r} under {unversioned[0]!r} ({len(unversioned)} in all): "
            "a hook's name does not tell what it computes, and stored batches of another hook "
            "could be mixed in. Name it, model.hooks(…, version='strength 3'), or leave out "
            "resume; plain PyTorch hooks and edited attentions cannot be resumed."
        )
    if not isinstance(resume, str | Path) or Path(resume).is_file() or not str(resume):
        raise OptionError(f"resume={resume!r}: expected a folder for finished batches, or None")
    fingerprint = {**config, "versions": environment_versions()}
    with locked(resume):
        store = BatchStore(resume, fingerprint, replace=start_afresh)
        done = store.done()
        frames = []
        for number, part in enumerate(tqdm(batches, title, unit="batch", disable=not progress)):
            if number in done:
                frames.append(store.get(number))
                continue
            frames.append(compute(part))
            store.put(number, frames[-1])
        yield pd.concat(frames, ignore_index=True)
        store.clear()
    remove_if_empty(Path(resume))
