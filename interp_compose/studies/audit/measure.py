"""``audit``: what of a model behind TransformerLens is as it claims to be."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from tqdm.auto import tqdm

from interp_compose._versions import environment_versions
from interp_compose.errors import CapabilityError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.studies.audit.hook_checks import check_hooks, hook_points
from interp_compose.studies.audit.model_checks import check_model
from interp_compose.studies.audit.options import AuditCommand, AuditOptions
from interp_compose.studies.audit.outcomes import Outcome
from interp_compose.studies.audit.result import CHECKS, Audit
from interp_compose.studies.core.command import loaded
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result

LENGTH: Final = 7
"""Tokens of each row."""
LOADS: Final = "loads, with the numbers of its own forward pass"


@keywords(AuditOptions)
def audit(source: str | Path | nn.Module | LensModel, asked: AuditOptions) -> Audit:
    """What of a model behind TransformerLens is not what it claims to be.

    The model: everything that studies rely on (:data:`.capabilities.MEANING`), equal bits twice,
    independence of neighbours and of the side of padding, gradients against finite differences,
    what an error in a hook leaves behind, and hooks under ``torch.compile``. Each hook point:
    whether it fires, whether a random edit moves the output, and whether it shows what its name
    says, recomputed from other activations and from what the wrapped modules returned. Hooks and
    edits of yours that are open take no part.

    Args:
        source: whatever :func:`load_model` takes; a model that it refuses is a finding.
        asked: every option.

    Raises:
        OptionError, MissingDataError: no model.
    """
    model, config = _opened(lambda: load_model(source), _name(source), asked)
    return measure(model, config, progress=asked.progress)


def _opened(
    load: Callable[[], LensModel], name: str, asked: AuditOptions
) -> tuple[LensModel | str, dict[str, Any]]:
    """The model, or why it was refused; and what a result says of itself."""
    config = {"study": "audit", "model": name, "architecture": "", "quick": asked.quick}
    try:
        model = load()
    except CapabilityError as refusal:
        return str(refusal), config
    return model, config | {
        "model": model.name,
        "architecture": model.architecture,
        "n_layers": model.n_layers,
        "d_model": model.d_model,
        "dtype": str(model.dtype).removeprefix("torch."),
        "weights_sha256": weights_digest(model),
    }


def _name(source: str | Path | nn.Module | LensModel) -> str:
    return str(source) if isinstance(source, str | Path) else type(source).__name__


@torch.no_grad()
def measure(model: LensModel | str, config: Mapping[str, Any], *, progress: bool = True) -> Audit:
    """:func:`audit` of a model, or of one that was refused with these words."""
    rows: list[dict[str, Any]] = []

    def add(name: str, check: str, outcome: Outcome) -> None:
        place = {"part": "hook" if name else "model", "name": name, "check": check}
        rows.append({**place, "status": outcome.status, "detail": outcome.detail})

    if isinstance(model, str):
        add("", LOADS, Outcome("refused", model))
    else:
        add("", LOADS, Outcome("holds", "load_model compared them"))
        hooks = {} if config["quick"] else hook_points(model)
        bar = tqdm(total=len(hooks), desc=f"audit of {model.name}", disable=not progress)
        with bar, model.bare(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what edits cost
            generator = torch.Generator().manual_seed(0)
            tokens = model.random_tokens(2, min(LENGTH, model.n_ctx), generator).to(model.device)
            for check, outcome in check_model(model, tokens, compiled=not config["quick"]):
                add("", check, outcome)
            if hooks:
                for name, check, outcome in check_hooks(model, tokens, bar.update):
                    add(name, check, outcome)
    return Audit(config, {"checks": CHECKS.of(rows)}, environment_versions())


def run(command: AuditCommand) -> Audit:
    """The command ``interp-compose audit``: the page ``audit.html``, and the table of checks.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
    """
    output, asked = command.output, command.study
    model, config = _opened(lambda: loaded(command.model), command.model.model, asked)
    with held_folder(output.out, Audit, config, overwrite=output.overwrite):
        result = measure(model, config, progress=not output.quiet)
        write_result(output.out, result, overwrite=output.overwrite)
    return result
