"""Complexity of a model's weights (complexity control, section VI): the study and its options.

One dataclass serves the API and the command line. The work is done in :mod:`.probe_measure`;
nothing heavy is imported until it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from interp_compose.studies.weights.result import ComplexityReport


@dataclass(frozen=True)
class WeightsConfig:
    """Complexity of every weight matrix of a model: stable and effective rank, and condensation of
    neurons, next to what random matrices have."""

    model: str = "mini-base"
    """Hub name ("gpt2"), folder, or shipped model (mini-base, mini-idm)."""
    out: Path = Path("out")
    """Folder for table and figures."""
    heads: bool = True
    """Also measure each attention head by itself."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of weights as they are loaded; what is computed with them is float32 at least."""
    revision: str | None = None
    """Of a model on the hub."""
    overwrite: bool = False
    """Replace another run's result in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bar, no table."""


def run(config: WeightsConfig) -> ComplexityReport:
    """Load, measure, and write ``out/``: results (Parquet, CSV), figures as HTML and as PNG.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
        InputError, ModelError, MissingDataError: before work starts; nothing is written.
    """
    from interp_compose.models.load import load_model
    from interp_compose.studies.core.output import held_folder, write_result
    from interp_compose.studies.weights.measure import measure, probe_config

    model = load_model(
        config.model, device=config.device, dtype=config.dtype, revision=config.revision
    )
    planned = probe_config(model, heads=config.heads)
    with held_folder(config.out, planned, overwrite=config.overwrite):
        report = measure(model, planned, progress=not config.quiet)
        write_result(config.out, report, report.figures(), overwrite=config.overwrite)
    return report
