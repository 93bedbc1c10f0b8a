"""``fusion``: encoder–decoders that another command trained, opened up one beside the other."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import Any

from interp_compose._versions import environment_versions, gathered_versions
from interp_compose.checks import check_package, is_whole
from interp_compose.errors import InputError, OptionError
from interp_compose.papers.lrf.grammar import grammar_of, marks_of
from interp_compose.papers.lrf.studies.fusion.options import FusionCommand, FusionOptions
from interp_compose.papers.lrf.studies.fusion.pooling import cap_rows
from interp_compose.papers.lrf.studies.fusion.probing import FEWEST, probe_rows, probe_sentences
from interp_compose.papers.lrf.studies.fusion.reading import cut_rows
from interp_compose.papers.lrf.studies.fusion.result import SCHEMA, Fusion
from interp_compose.papers.lrf.studies.fusion.tokens import token_rows
from interp_compose.papers.lrf.studies.generalise.measure import (
    PLACE,
    FinishedSequenceRun,
    finished_runs,
)
from interp_compose.papers.lrf.studies.generalise.reads import reads_by_kind
from interp_compose.papers.shared.grid.finished import left_out
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import exact_match
from interp_compose.progress import progress_bar
from interp_compose.runs.folder import versions_of
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result

Tables = dict[str, list[dict[str, Any]]]


@keywords(FusionOptions)
def fusion(runs: str | os.PathLike[str], options: FusionOptions) -> Fusion:
    """Open encoder–decoders that :func:`generalise` trained, those of one seed side by side.

    Of each: what fuse-attention reads, by kind of token, and its entropy; exact match that is left
    with an earlier layer knocked out in it (before the softmax, so that nothing leaks); linear
    probes of every residual of both stacks for words and roles, beside control tasks (Hewitt and
    Liang 2019), and of each of the two across values of the other (Bernardi et al. 2020); how well
    the embeddings can be read back from there; exact match with phrases of the source pooled
    (CARMA's CAP); which kinds of target tokens are predicted right.

    Args:
        runs: the folder that they were trained in.
        options: every option.

    Raises:
        OptionError: a model that is named twice; a seed or number that cannot be.
        MissingDataError: no finished runs there, or none of a model or of the seed.
        InputError: the folder holds something else; too few training sentences for a probe.
        CorruptFileError: a run was altered after it was done.
        MissingPackageError: scikit-learn is not installed.
    """
    check_package("sklearn", "papers")
    _check(options)
    opened = finished_runs(runs, options.models, options.seed)
    data = opened[0].data
    probe_sentences(data, options.n_probe)
    tables: Tables = {table.name: [] for table in SCHEMA}
    for each in progress_bar(opened, desc="fusion", unit="model", disable=not options.progress):
        for name, rows in _inside(each, options).items():
            tables[name] += [{"model": each.run.model, **row} for row in rows]
    config = {
        "study": "fusion",
        **{name: one for name, one in asdict(opened[0].run).items() if name not in PLACE},
        "grammar": grammar_of(data),
        "splits": list(data.splits),
        "models": [each.run.model for each in opened],
        "seed": opened[0].run.seed,
        "n_pairs": options.n_pairs,
        "n_probe": options.n_probe,
        **({} if options.models else left_out(opened)),
    }
    trained = {each.folder.name: versions_of(each.folder) for each in opened}
    return Fusion(
        config=config,
        frames={table.name: table.of(tables[table.name]) for table in SCHEMA},
        versions=gathered_versions({"fusion": environment_versions(), **trained}),
    )


def _check(options: FusionOptions) -> None:
    seed = 0 if options.seed is None else options.seed
    for name, value, least in (
        ("seed", seed, 0),
        ("n_pairs", options.n_pairs, 1),
        ("n_probe", options.n_probe, FEWEST),
    ):
        if not is_whole(value) or value < least:
            raise OptionError(f"{name}={value!r}: expected a whole number, {least} or more")


def _inside(opened: FinishedSequenceRun, options: FusionOptions) -> Tables:
    """The rows of one model."""
    model, data = opened.model(), opened.data
    tables: Tables = {"reads": [], "entropies": [], "cuts": [], "cap": [], "tokens": []}
    for split, places in data.places(options.n_pairs).items():
        pairs = [data.splits[split][i] for i in places]
        marks = marks_of(data, pairs)
        types = [data.kinds[split][i] for i in places]
        reads, entropies = reads_by_kind(model.lens, pairs, marks)
        split_tables = {
            "reads": reads,
            "entropies": entropies,
            "cuts": cut_rows(model.lens, pairs),
            "cap": cap_rows(model, pairs, marks, exact_match(model.lens, pairs, BOS)),
            "tokens": token_rows(model.lens, pairs, marks, types),
        }
        for name, rows in split_tables.items():
            tables[name] += [{"split": split, **row} for row in rows]
    return {**tables, **probe_rows(model.lens, data, options.n_probe)}


def run(command: FusionCommand) -> Fusion:
    """The command ``interp-compose fusion``: results (Parquet, CSV), figures as HTML and PNG.

    Raises:
        InputError: ``out`` is ``runs``, or holds another study's result and ``overwrite`` is off.
    """
    out = command.output.out
    if out.resolve() == command.runs.resolve():
        raise InputError(
            f"--out and --runs are both {out}; choose another --out, so that the tables of the "
            "comparison stay"
        )
    models = None if command.models is None else command.models.split(",")
    options = replace(command.study, models=models, progress=not command.output.quiet)
    config: dict[str, Any] = {"study": "fusion", "n_pairs": options.n_pairs}
    config |= {"n_probe": options.n_probe}
    config |= {} if options.seed is None else {"seed": options.seed}
    config |= {} if models is None else {"models": models}
    with held_folder(out, Fusion, config, overwrite=command.output.overwrite):
        result = fusion(command.runs, **vars(options))
        write_result(out, result, overwrite=command.output.overwrite)
    return result
