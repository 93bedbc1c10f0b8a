"""``audit``: what of a model behind TransformerLens is as it claims to be."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from interp_compose._versions import environment_versions
from interp_compose.errors import CapabilityError
from interp_compose.models.hooks import in_evaluation_mode
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.models.outcomes import Outcome, guarded
from interp_compose.models.save_pretrained import compared_with_new
from interp_compose.models.shown import hook_points
from interp_compose.models.untouched import random_states_kept
from interp_compose.progress import progress_bar
from interp_compose.studies.audit.hook_checks import check_hooks
from interp_compose.studies.audit.model_checks import called_again, checks_of
from interp_compose.studies.audit.options import AuditCommand, AuditOptions
from interp_compose.studies.audit.result import CHECKS, Audit
from interp_compose.studies.core.command import loaded
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result
from interp_compose.types import Read

LENGTH: Final = 7
"""Tokens of each row."""
Source = str | Path | nn.Module | LensModel
LOADS: Final = "loads, with the numbers of its own forward pass"
AGAIN: Final = "a second call gives the same bits"


@keywords(AuditOptions)
def audit(source: Source, options: AuditOptions) -> Audit:
    """What of a model behind TransformerLens is not what it claims to be.

    The model: everything that studies rely on (:data:`.capabilities.MEANING`), equal bits twice,
    independence of neighbours and of the side of padding, gradients against finite differences,
    what an error in a hook leaves behind, and hooks under ``torch.compile``. Each hook point:
    whether it fires, whether a random edit moves the output, and a copy of what it is shown does
    not, and whether it shows what its name says, recomputed from other activations and from what
    the wrapped modules returned. Hooks and edits of yours that are open take no part. Whether a
    second call gives the same bits is asked in the mode in which the model comes, so that dropout
    in training mode is a finding; all else in evaluation mode.

    Args:
        source: whatever :func:`load_model` takes; of a model that it cannot wrap, or that does not
            run, the only row is that, "refused".
        options: every option.

    Raises:
        OptionError, CorruptFileError, DeviceError: no model; as :func:`load_model`.
    """
    model, loads, config = _opened(lambda: load_model(source), source, options)
    return measure(model, loads, config, progress=options.progress)


def _opened(
    load: Callable[[], LensModel], source: Source, options: AuditOptions
) -> tuple[LensModel | None, Outcome, dict[str, Any]]:
    """The model, unless it was refused; what loading came to; and what a result says of itself."""
    name = str(source) if isinstance(source, str | Path) else type(source).__name__
    config = {"study": "audit", "model": name, "architecture": "", "quick": options.quick}
    try:
        model = load()
        model.check_in_place()
    except CapabilityError as refusal:
        return None, Outcome("refused", str(refusal)), config
    metadata = {
        "model": model.name,
        "architecture": model.architecture,
        "n_layers": model.n_layers,
        "d_model": model.d_model,
        "dtype": str(model.dtype).removeprefix("torch."),
        "weights_sha256": weights_digest(model),
    }
    loads = guarded(lambda: _compared(source, model))
    return None if loads.status == "refused" else model, loads, config | metadata


def _compared(source: Source, model: LensModel) -> Outcome:
    """What :func:`load_model` compared with the model's own forward pass, as it made it; an object
    may have been altered before or since, and is compared now."""
    with torch.no_grad(), random_states_kept(model.lens):  # whether it runs at all, as it is now
        tokens = model.random_tokens(1, min(2, model.n_ctx), torch.Generator().manual_seed(0))
        read: Read = "hidden" if model.bidirectional else "last"
        model.probing(tokens, torch.ones_like(tokens), read=read)
    module = getattr(model.lens, "original_model", None)
    kind = type(module).__module__.partition(".")[0]
    if module is None or kind == "transformer_lens":
        return Outcome("not tried", "transformers has no such model")
    if isinstance(source, str | Path):
        return Outcome("holds", "load_model compared them")
    with random_states_kept(model.lens):
        return compared_with_new(model)


@torch.no_grad()
def measure(
    model: LensModel | None, loads: Outcome, config: Mapping[str, Any], *, progress: bool = True
) -> Audit:
    """:func:`audit` of a model, or of one that was refused."""
    rows: list[dict[str, Any]] = []

    def add(name: str, check: str, outcome: Outcome) -> None:
        place = {"part": "hook" if name else "model", "name": name, "check": check}
        rows.append({**place, "status": outcome.status, "detail": outcome.detail})

    add("", LOADS, loads)
    if model is not None:
        hooks = {} if config["quick"] else hook_points(model)
        generator = torch.Generator().manual_seed(0)
        tokens = model.random_tokens(2, min(LENGTH, model.n_ctx), generator).to(model.device)
        checks = checks_of(model, tokens, compiled=not config["quick"])
        total = 1 + len(checks) + len(hooks)
        bar = progress_bar(total=total, desc=f"audit of {model.name}", disable=not progress)
        with bar, model.bare(evaluating=False), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what edits cost
            add("", AGAIN, guarded(lambda: called_again(model, tokens)))
            bar.update()
            with in_evaluation_mode(model.lens):
                for check, outcome_of in checks.items():
                    add("", check, outcome_of())
                    bar.update()
                if hooks:
                    for name, check, outcome in check_hooks(model, tokens, bar.update):
                        add(name, check, outcome)
    return Audit(config, {"checks": CHECKS.of(rows)}, environment_versions())


def run(command: AuditCommand) -> Audit:
    """The command ``interp-compose audit``: ``report.html``, and the table of checks.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
    """
    output, options = command.output, command.study
    name = command.model.name or command.model.model
    model, loads, config = _opened(lambda: loaded(command.model), name, options)
    with held_folder(output.out, Audit, config, overwrite=output.overwrite):
        result = measure(model, loads, config, progress=not output.quiet)
        write_result(output.out, result, overwrite=output.overwrite)
    return result
