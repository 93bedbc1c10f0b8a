"""``watch``: measures of a model while it is trained, within a budget of time."""

from __future__ import annotations

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
def watch(model: LensModel | nn.Module, options: WatchOptions) -> Watcher:
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
        options: every option.

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
    check_names("measures", options.measures, NAMES)
    if options.every < 1:
        raise OptionError(f"every={options.every!r}: expected an integer, 1 or more")
    if options.budget is not None and not 0 < options.budget <= 1:
        raise OptionError(
            f"budget={options.budget!r}: expected a share of the training time above 0 and at most "
            "1, or None for looks whatever they take"
        )
    if options.matrices is not None:
        check_names("matrices", options.matrices, MATRICES)
    _check_read("matrices", options.matrices, options, tuple(OF_WEIGHTS))
    _check_read("examples", options.examples, options, OF_EXAMPLES)
    _check_read("pairs", options.pairs, options, OF_PAIRS)
    _check_read("layers", options.layers, options, OF_EXAMPLES + OF_PAIRS)
    for name, readers in {"unit": OF_EXAMPLES, "pooling": ("cap", *OF_PAIRS)}.items():
        value = getattr(options, name)
        _check_read(name, None if value == getattr(WatchOptions, name) else value, options, readers)
    for name in (*OF_EXAMPLES, *OF_PAIRS):
        needed = "examples" if name in OF_EXAMPLES else "pairs"
        if name in options.measures and getattr(options, needed) is None:
            raise OptionError(f"measures: {name!r} is measured on {needed}=…, which is missing")
    if options.path is not None and Path(options.path).is_dir():
        raise OptionError(
            f"path={str(options.path)!r} is a folder; expected a file, such as rows.jsonl"
        )
    if isinstance(model, LensModel) and options.tokenizer is not None:
        raise OptionError(
            f"{model.name!r} is loaded and reads with the tokenizer that load_model gave it, so "
            "tokenizer= would change nothing; leave it out, or pass it to "
            "load_model(…, tokenizer=…)."
        )
    # Read once, by several measures and models.
    read_once = {"examples": options.examples, "pairs": options.pairs}
    lists: dict[str, Any] = {
        name: rows_in(rows) for name, rows in read_once.items() if rows is not None
    }
    return Watcher(model, replace(options, **lists))


def _check_read(name: str, value: object, options: WatchOptions, readers: tuple[str, ...]) -> None:
    """Refuse an option that none of the measures reads."""
    if value is not None and not set(readers) & set(options.measures):
        verb = "are" if name.endswith("s") else "is"
        raise OptionError(
            f"{name} {verb} read by {', '.join(readers)} alone, and the measures are "
            f"{', '.join(options.measures)}; leave {name} out, or add one of these"
        )
