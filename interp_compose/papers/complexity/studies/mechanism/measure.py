"""``mechanism``: trained runs opened up, one beside the other."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import pandas as pd

from interp_compose._versions import environment_versions, gathered_versions
from interp_compose.checks import check_package, is_whole
from interp_compose.errors import CapabilityError, InputError, OptionError
from interp_compose.papers.complexity.studies.anchors.grid import (
    FinishedPhaseRun,
    chosen,
    finished_runs,
    setting_of,
)
from interp_compose.papers.complexity.studies.anchors.masked_outputs import MODES, circuit_numbers
from interp_compose.papers.complexity.studies.anchors.phase import SHARES, phase_of
from interp_compose.papers.complexity.studies.mechanism.options import (
    MechanismCommand,
    MechanismOptions,
)
from interp_compose.papers.complexity.studies.mechanism.result import SCHEMA, Mechanism
from interp_compose.papers.complexity.studies.mechanism.views import (
    anchor_cosines,
    neuron_cosines,
    number_embedding,
    pair_points,
)
from interp_compose.papers.shared.grid.finished import left_out
from interp_compose.progress import progress_bar
from interp_compose.runs.folder import versions_of
from interp_compose.studies.core.grid import checked, numbers
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result


@keywords(MechanismOptions)
def mechanism(
    runs: str | os.PathLike[str], init_rates: Sequence[float], options: MechanismOptions
) -> Mechanism:
    """Open some runs of a phase diagram, and all of them as far as their neurons go.

    Of each init rate: outputs with a token knocked out, as the paper does it and so that nothing
    leaks (complexity control, section V, Fig. 4); embeddings of numbers (Fig. 5B); what came first
    in training. Of every run of the seed: cosines between neurons of W_Q (Figs 5A and 10).

    Args:
        runs: the folder that :func:`.phase_diagram` trained in.
        init_rates: γ of the runs to open.
        options: every option.

    Raises:
        OptionError: init rates that repeat or are none; a weight decay that is no number; a seed
            or draw that is no whole number.
        MissingDataError: no runs there, or none at one of the init rates.
        InputError: the folder holds something else, or a run diverged.
        CorruptFileError: a run was altered after it was done.
        MissingPackageError: scikit-learn is not installed.
    """
    check_package("sklearn", "papers")
    rates = checked(init_rates, "init_rates")
    seed, draw = options.seed, options.draw
    for name, value in (("draw", draw), ("seed", 0 if seed is None else seed)):
        if not is_whole(value) or not 0 <= value < 2**32:
            raise OptionError(f"{name}={value!r}: expected a whole number from 0 to 2³² − 1")
    decay = checked([options.weight_decay], "weight_decay")[0]
    finished = finished_runs(runs, seed)
    opened = chosen(finished, rates, decay)
    sound = [each for each in finished if each.is_sound]
    rows: dict[str, list[pd.DataFrame]] = {table.name: [] for table in SCHEMA}
    with progress_bar(
        total=len(opened) + len(sound), desc="mechanism", unit="run", disable=not options.progress
    ) as bar:
        for each in opened:
            for name, frame in _inside(each, int(draw)).items():
                frame.insert(0, "init_rate", each.run.init_rate)
                rows[name].append(frame)
            bar.update()
        for each in sound:
            neurons = neuron_cosines(each.model())
            neurons.insert(0, "weight_decay", each.run.weight_decay)
            neurons.insert(0, "init_rate", each.run.init_rate)
            rows["neurons"].append(neurons)
            bar.update()
    config = {
        "study": "mechanism",
        **setting_of(opened[0].run),
        "init_rates": rates,
        "weight_decay": opened[0].run.weight_decay,
        "seed": opened[0].run.seed,
        "draw": int(draw),
        "runs": {each.folder.name: each.run.init_rate for each in opened},
        **left_out(finished),
    }
    trained = {each.folder.name: versions_of(each.folder) for each in finished}
    return Mechanism(
        config=config,
        frames={t.name: t.of(pd.concat(rows[t.name]) if rows[t.name] else ()) for t in SCHEMA},
        versions=gathered_versions({"mechanism": environment_versions(), **trained}),
    )


def _inside(opened: FinishedPhaseRun, draw: int) -> dict[str, pd.DataFrame]:
    """Every frame of one run but that of the neurons."""
    model, task = opened.model(), opened.run.task
    frames: dict[str, list[pd.DataFrame]] = {
        name: [] for name in ("circuits", "pairs", "samples", "cosines")
    }
    for mode in MODES:
        try:
            numbers = circuit_numbers(model, task, mode=mode, seed=draw)
        except CapabilityError:  # no edit of its attention changes what it says
            continue
        samples, cosines = anchor_cosines(model, task, mode=mode, seed=draw)
        tables = {
            "circuits": pd.DataFrame([numbers]),
            "pairs": pair_points(model, task, mode=mode, seed=draw),
            "samples": samples,
            "cosines": cosines,
        }
        for name, frame in tables.items():
            frame.insert(0, "mode", mode)
            frames[name].append(frame)
    points, orders = number_embedding(model, task)
    by_mode = {name: pd.concat(parts) for name, parts in frames.items() if parts}
    history = pd.DataFrame(opened.rows)[["step", "train", "id", "ood", "commutativity"]]
    history["stable_rank"] = [row["stable_rank"] for row in opened.rows]
    return {
        "models": pd.DataFrame([_last(opened.rows[-1])]),
        **by_mode,
        "embedding": points,
        "orders": orders,
        "history": history.astype({"stable_rank": float}),
    }


def _last(row: dict[str, Any]) -> dict[str, Any]:
    shares = {name: row[name] for name in SHARES}
    cosine = row["mean_abs_cosine"]  # None of a single neuron
    return {
        "phase": phase_of(**shares),
        **shares,
        "stable_rank": row["stable_rank"],
        "mean_abs_cosine": math.nan if cosine is None else cosine,
    }


def run(command: MechanismCommand) -> Mechanism:
    """The command ``interp-compose mechanism``: results (Parquet, CSV), figures as HTML and PNG.

    Raises:
        InputError: ``out`` is ``runs``, or holds another study's result and ``overwrite`` is off.
    """
    out, options = command.output.out, command.study
    rates = numbers(command.gammas, "gammas")
    if out.resolve() == command.runs.resolve():
        raise InputError(
            f"--out and --runs are both {out}; choose another --out, so that the tables of the "
            "diagram stay"
        )
    config: dict[str, Any] = {"study": "mechanism", "init_rates": rates}
    config |= {"weight_decay": options.weight_decay, "draw": options.draw}
    config |= {} if options.seed is None else {"seed": options.seed}
    with held_folder(out, Mechanism, config, overwrite=command.output.overwrite):
        result = mechanism(
            command.runs, rates, **vars(options) | {"progress": not command.output.quiet}
        )
        write_result(out, result, overwrite=command.output.overwrite)
    return result
