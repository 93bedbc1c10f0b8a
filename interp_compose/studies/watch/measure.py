"""``watch``: measures of a model while it is trained, within a budget of time."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from interp_compose.checks import check_names
from interp_compose.errors import OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.weight_matrices import MATRICES
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.watch.measures import OF_EXAMPLES, OF_PAIRS, OF_WEIGHTS
from interp_compose.studies.watch.options import WatchOptions
from interp_compose.studies.watch.result import NAMES
from interp_compose.studies.watch.watcher import Watcher
from interp_compose.tasks.rows import rows_in


@keywords(WatchOptions)
def watch(model: LensModel | nn.Module, asked: WatchOptions) -> Watcher:
    """Measure a model while it is trained: stable ranks, condensation, CAP, and their like.

    The watcher is called with the number of steps done, in a loop of your own; it is ``track`` of
    :func:`finetune`; :meth:`.watcher.Watcher.callback` is for Hugging Face's ``Trainer``. Training
    is not changed by a look: modes, random states and gradients stay, and the weights come out
    the same to the bit. Where the time of looks would exceed the budget, they are skipped, and the
    skipped steps are recorded.

    Args:
        model: what is trained, before its first step: from :func:`load_model`, a ``SmallDecoder``
            and its like, a ``HookedTransformer``, a ``TransformerBridge``, all looked at where
            they are; or a Hugging Face model, of which each look wraps a copy.
        asked: every option.

    Raises:
        OptionError: before training: an unknown measure or matrix, ``every`` below 1, a budget
            outside (0, 1], data that a measure lacks or that none reads, a tokenizer for a loaded
            model.
        LayerError: a layer outside the model.
        CapabilityError: a model that is compiled or sharded, or does not honour what a measure
            needs; weights that are quantised or sparse; none of the matrices.
        InputError, InterventionError: examples or pairs that cannot be read, or in which nothing
            would be pooled.
    """
    check_names("measures", asked.measures, NAMES)
    if asked.every < 1:
        raise OptionError(f"every={asked.every!r}: expected an integer, 1 or more")
    if asked.budget is not None and not 0 < asked.budget <= 1:
        raise OptionError(
            f"budget={asked.budget!r}: expected a share of the training time above 0 and at most "
            "1, or None for looks whatever they take"
        )
    if asked.matrices is not None:
        check_names("matrices", asked.matrices, MATRICES)
    _check_read("matrices", asked.matrices, asked, tuple(OF_WEIGHTS))
    _check_read("examples", asked.examples, asked, OF_EXAMPLES)
    _check_read("pairs", asked.pairs, asked, OF_PAIRS)
    _check_read("layers", asked.layers, asked, OF_EXAMPLES + OF_PAIRS)
    for name, readers in {"unit": OF_EXAMPLES, "pooling": ("cap", *OF_PAIRS)}.items():
        value = getattr(asked, name)
        _check_read(name, None if value == getattr(WatchOptions, name) else value, asked, readers)
    for name in (*OF_EXAMPLES, *OF_PAIRS):
        needed = "examples" if name in OF_EXAMPLES else "pairs"
        if name in asked.measures and getattr(asked, needed) is None:
            raise OptionError(f"measures: {name!r} is measured on {needed}=…, which is missing")
    if asked.path is not None and _is_folder(asked.path):
        raise OptionError(
            f"path={str(asked.path)!r} is a folder; expected a file, such as rows.jsonl"
        )
    if isinstance(model, LensModel) and asked.tokenizer is not None:
        raise OptionError(
            f"{model.name!r} is loaded and reads with the tokenizer that load_model gave it, so "
            "tokenizer= would change nothing; leave it out, or pass it to "
            "load_model(…, tokenizer=…)."
        )
    read_once = {"examples": asked.examples, "pairs": asked.pairs}  # by several measures and models
    lists: dict[str, Any] = {
        name: rows_in(rows) for name, rows in read_once.items() if rows is not None
    }
    return Watcher(model, replace(asked, **lists))


def _check_read(option: str, value: object, asked: WatchOptions, readers: tuple[str, ...]) -> None:
    """Refuse an option that none of the measures reads."""
    if value is not None and not set(readers) & set(asked.measures):
        verb = "are" if option.endswith("s") else "is"
        raise OptionError(
            f"{option} {verb} read by {', '.join(readers)} alone, and the measures are "
            f"{', '.join(asked.measures)}; leave {option} out, or add one of these"
        )


def _is_folder(path: str | os.PathLike[str]) -> bool:
    return Path(path).is_dir()
