"""The folder a run writes to, looked at before the run starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interp_compose._files import differences, plain_json
from interp_compose.errors import CorruptFileError, InputError, MissingDataError
from interp_compose.plots.export import save_html, save_png
from interp_compose.plots.interactive import ChartFigure
from interp_compose.results import Result

FIGURES = (
    "cap_curve",
    "ablation_curve",
    "ablation_words",
    "ablation_heads",
    "similarity_curve",
    "similarity_by_layer",
    "order_sensitivity",
    "cap_average",
    "cap_protocols",
    "consistency",
    "representations",
    "training",
    "stable_rank",
    "condensation",
    "phase_curve",
    "phase_map",
    "phase_bubbles",
    "masked_key_pca_zero",
    "masked_key_pca_exclude",
    "masked_key_tsne_zero",
    "masked_key_tsne_exclude",
    "masked_second_anchor",
    "neurons",
    "all_neurons",
    "embedding",
    "condensation_and_reasoning",
    "fitting_epochs",
    "fitting_epochs_by_loss",
    "fitting_pairs",
    "violations_roc",
)
"""Of every study."""


def check_folder(out: Path, config: Mapping[str, Any], *, overwrite: bool) -> None:
    """Before any work: hours of it must not vanish because two runs were given one folder.

    Raises:
        InputError: ``out`` is a file or, unless ``overwrite``, holds another run's result.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose a folder for --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as refusal:
        raise InputError(
            f"{out} cannot be made ({refusal.strerror}); choose another --out."
        ) from refusal
    if overwrite:
        return
    try:
        earlier = Result.load(out).config
    except MissingDataError:
        return
    except CorruptFileError as damaged:
        raise InputError(f"{damaged}. Or replace it with --overwrite.") from damaged
    here = plain_json(config, "config")
    differing = differences({name: earlier[name] for name in here if name in earlier}, here)
    if differing:
        raise InputError(
            f"{out} holds the result of another run: {differing}. Choose another --out, or replace "
            "it with --overwrite."
        )


def check_larger(out: Path, grid: dict[str, Any]) -> None:
    """Tables and figures of a grid are replaced by those of a larger one alone.

    Raises:
        InputError: ``out`` holds the tables of a grid with values that this one lacks.
    """
    try:
        earlier = Result.load(out).config
    except MissingDataError:
        return
    for axis, values in grid.items():
        lost = sorted(set(earlier[axis]) - set(values))
        if lost:
            raise InputError(
                f"{out} holds tables of a grid with {axis} {', '.join(f'{v:g}' for v in lost)}, "
                "which this one lacks; name them too, choose another --out, or replace the tables "
                "with --overwrite (runs stay)"
            )


def write_result(
    out: Path,
    result: Result,
    figures: Mapping[str, ChartFigure],
    *,
    overwrite: bool,
) -> None:
    """The result's tables, and each figure as a page and as a picture.

    Figures of an earlier run, of any study, go first: none is left beside tables that it does not
    show.

    Raises:
        InputError: another run's result has appeared in ``out`` in the meantime.
    """
    check_folder(out, result.config, overwrite=overwrite)
    for name in (*FIGURES, "report"):
        (out / f"{name}.html").unlink(missing_ok=True)
        (out / f"{name}.png").unlink(missing_ok=True)
    result.save(out, overwrite=True)
    for name, figure in figures.items():
        save_html(figure, out / f"{name}.html")
        save_png(figure, out / f"{name}.png")
