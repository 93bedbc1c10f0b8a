"""``complexity_report``: stable rank, spectrum and condensation of every weight matrix."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose._versions import environment_versions
from interp_compose.errors import NonFiniteError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.models.weight_matrices import (
    EMBEDDINGS,
    WeightMatrix,
    check_plain,
    left_out,
    weight_matrices,
)
from interp_compose.probes.condensation import condensation
from interp_compose.probes.rank import (
    SPECTRUM_LIMIT,
    frobenius,
    spectrum,
    stable_rank,
)
from interp_compose.progress import progress_bar
from interp_compose.studies.core.command import loaded
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result
from interp_compose.studies.weights.options import WeightsCommand, WeightsOptions
from interp_compose.studies.weights.result import MATRICES, MERGED, ComplexityReport

TABLES: Final = (*EMBEDDINGS, "W_U")
COMPARED: Final = 4096
"""Rows of a larger table that are compared with one another, evenly spaced."""


@keywords(WeightsOptions)
def complexity_report(model: LensModel, options: WeightsOptions) -> ComplexityReport:
    """Stable rank, spectrum and condensation of every weight matrix of every layer.

    Matrices go by the field's names, one row each: W_E, W_pos, W_Q, W_K, W_V, W_O (per head and
    merged), W_in, W_gate, W_out, W_U, and of an encoder–decoder W_E_target, W_pos_target,
    W_Q_cross, …; see :attr:`ComplexityReport.frame` for the columns and
    :mod:`interp_compose.models.weight_matrices` for their orientation. Weights are read one at a
    time where they lie, and computed with in float32 at least: no copy of the model is made.
    Training mode, hooks and open interventions do not matter, since nothing is run.

    Args:
        model: from :func:`load_model`, of any kind.
        options: every option.

    Raises:
        CapabilityError: before any work: a weight is quantised, sparse, or not in memory.
        NonFiniteError: a weight holds NaN or infinity; names layer and matrix.
    """
    return measure(model, config_of(model, options), progress=options.progress)


def run(command: WeightsCommand) -> ComplexityReport:
    """The command ``interp-compose weights``: results (Parquet, CSV), figures as HTML and as PNG.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
        InputError, ModelError: before work starts; nothing is written.
    """
    output = command.output
    model = loaded(command.model)
    config = config_of(model, command.study)
    with held_folder(output.out, ComplexityReport, config, overwrite=output.overwrite):
        report = measure(model, config, progress=not output.quiet)
        write_result(output.out, report, overwrite=output.overwrite)
    return report


def config_of(model: LensModel, options: WeightsOptions) -> dict[str, Any]:
    """What is to be measured, checked; the digest of the weights takes a second a gigabyte."""
    check_plain(model)
    return {
        "study": "weights",
        "model": model.name,
        "architecture": model.architecture,
        "n_layers": model.n_layers,
        "d_model": model.d_model,
        "n_heads": model.n_heads,
        "dtype": str(model.dtype).removeprefix("torch."),
        "heads": options.heads,
        "left_out": list(left_out(model)),
        "weights_sha256": weights_digest(model),
    }


@torch.no_grad()
def measure(
    model: LensModel, config: Mapping[str, Any], *, progress: bool = True
) -> ComplexityReport:
    """:func:`complexity_report` of a checked model."""
    rows: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of hooks, of which the next reading tells
        total = sum(1 for _ in weight_matrices(model))
    bar = progress_bar(
        weight_matrices(model),
        total=total,
        desc=f"weights of {model.name}",
        unit="matrix",
        disable=not progress,
    )
    for matrix in bar:
        try:
            rows += _tied(rows, matrix) if matrix.tied_to else _rows(matrix, config["heads"])
        except NonFiniteError as broken:
            raise NonFiniteError(
                f"{model.name!r}: {matrix.name} of layer {matrix.layer} has NaN or infinite "
                f"entries ({broken})"
            ) from broken
    return ComplexityReport(
        config=config, frames={"matrices": MATRICES.of(rows)}, versions=environment_versions()
    )


def random_stable_rank(rows: int, cols: int) -> float:
    """Of a matrix of independent Gaussian entries, where both sides are large.

    ‖A‖_F² tends to mn σ² and ‖A‖₂ to (√m + √n) σ (Bai and Yin 1993), so that the ratio is
    mn / (√m + √n)², a quarter of the side for a square matrix.
    """
    return rows * cols / (math.sqrt(rows) + math.sqrt(cols)) ** 2


def _tied(rows: list[dict[str, Any]], matrix: WeightMatrix) -> Iterator[dict[str, Any]]:
    """The rows of the matrix that this one is, under its own name."""
    for row in rows[:]:
        if row["matrix"] == matrix.tied_to:
            yield {**row, "layer": matrix.layer, "matrix": matrix.name, "tied_to": matrix.tied_to}


def _rows(matrix: WeightMatrix, heads: bool) -> Iterator[dict[str, Any]]:
    """One row for the merged matrix, and one for each head."""
    yield from _measured(matrix, matrix.weight[None], [MERGED])
    if heads and matrix.heads is not None:
        yield from _measured(matrix, matrix.heads, list(range(len(matrix.heads))))


def _measured(
    matrix: WeightMatrix, stack: Float[Tensor, "n row col"], numbers: list[int]
) -> Iterator[dict[str, Any]]:
    """One row per matrix of a stack."""
    n_rows, n_cols = stack.shape[1:]
    norms = [float(frobenius(one.float())) for one in stack]
    if min(n_rows, n_cols) > SPECTRUM_LIMIT:
        stable, entropies = stable_rank(stack).tolist(), [math.nan] * len(stack)
    else:
        stable, entropies = (values.tolist() for values in spectrum(stack))
    for i, head in enumerate(numbers):
        compared = _compared(matrix.name, stack[i])
        directions = condensation(compared)
        yield {
            "layer": matrix.layer,
            "matrix": matrix.name,
            "head": head,
            "rows": n_rows,
            "cols": n_cols,
            "stable_rank": stable[i],
            "random_stable_rank": random_stable_rank(n_rows, n_cols),
            "effective_rank": math.exp(entropies[i]) if norms[i] != 0 else 0.0,
            "spectral_entropy": entropies[i],
            "frobenius_norm": norms[i],
            "mean_abs_cosine": directions.mean_abs_cosine,
            "random_abs_cosine": directions.random_abs_cosine,
            "n_directions": directions.n_directions,
            "largest_direction": max(directions.sizes, default=0),
            "compared": len(compared),
            "tied_to": "",
        }


def _compared(name: str, weight: Float[Tensor, "row col"]) -> Float[Tensor, "some col"]:
    """All rows, or of a larger table so many evenly spaced ones: never 50 000² cosines."""
    rows = len(weight)
    if name not in TABLES or rows <= COMPARED:
        return weight
    return weight[torch.arange(COMPARED, device=weight.device) * rows // COMPARED]
