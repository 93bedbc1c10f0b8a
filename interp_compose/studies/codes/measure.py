"""``codes``: the codes of encoders that another command pre-trained, opened up."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from interp_compose._versions import environment_versions, gathered_versions
from interp_compose.checks import is_whole
from interp_compose.errors import InputError, OptionError
from interp_compose.runs.folder import versions_of
from interp_compose.studies.codes.options import CodesCommand, CodesOptions
from interp_compose.studies.codes.result import Codes
from interp_compose.studies.codes.sememes import annotated, sememe_rows
from interp_compose.studies.codes.words import Words, mean_codes
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result
from interp_compose.studies.pretrain.finished import FinishedEncoder, finished_encoders
from interp_compose.studies.pretrain.run import PLACE, VARIANTS, PretrainingRun
from interp_compose.training.sentences import Passages

Rows = list[dict[str, Any]]


@keywords(CodesOptions)
def codes(runs: str | os.PathLike[str], asked: CodesOptions) -> Codes:
    """Open the codes of encoders that :func:`pretrain` trained, all seeds of each model that has
    some (CAT, Huang et al. 2024).

    Of the documents that were held out, passages are read whole, nothing masked. A word's codes
    are the mean of O (eq. 2) over its occurrences. From these: the words that are heaviest in each
    code of each block; and, of the last block, whose codes were guided by sememes, how many of a
    word's heaviest codes are among its annotated sememes, for words that guided and for words held
    out.

    Args:
        runs: the folder that they were trained in.
        asked: every option.

    Raises:
        OptionError: a model that has no codes, or is named twice; a number that cannot be.
        MissingDataError: no finished runs there, or none of a model or of one of its seeds.
        InputError: the folder holds something else, or no model with codes; no word, or no
            annotated word, occurs often enough.
        CorruptFileError: a run was altered after it was done.
    """
    _check(asked)
    opened = _opened(runs, asked)
    data = opened[0].data
    n_ctx = opened[0].run.n_ctx
    passages = Passages.of(data.held_out, n_ctx).first(asked.n_passages)
    texts = [passages.whole(i).tolist() for i in range(len(passages))]
    words = Words.of(texts, data.tokenizer, n_ctx)
    counted = np.flatnonzero(words.counts >= asked.least)
    sides = annotated(data, words, counted)
    assert data.guiding is not None
    names, spelled = data.guiding.names, words.named(data.tokenizer)
    about = [{"word": spelled[i], "n": int(words.counts[i])} for i in counted]
    tables: dict[str, Rows] = {table.name: [] for table in Codes.SCHEMA}
    for each in tqdm(opened, desc="codes", unit="run", disable=not asked.progress):
        place = {name: getattr(each.run, name) for name in PLACE}
        found = mean_codes(each.model(), words, counted)
        for layer, means in found.items():
            of_layer = names if layer == max(found) else ()
            for row in _heaviest_words(means, asked.n_words):
                code, word = row.pop("code"), about[row.pop("word")]
                sememe = of_layer[code] if code < len(of_layer) else ""
                own = {"layer": layer, "code": code, "sememe": sememe}
                tables["words"].append({**place, **own, **word, **row})
        for row in sememe_rows(found[max(found)], sides, asked.k):
            tables["sememes"].append({**place, **about[row.pop("place")], **row})
    trained = {each.folder.name: versions_of(each.folder) for each in opened}
    return Codes(
        config=_config(opened, asked),
        frames={table.name: table.of(tables[table.name]) for table in Codes.SCHEMA},
        versions=gathered_versions({"codes": environment_versions(), **trained}),
    )


def _heaviest_words(means: Float[Tensor, "word code"], most: int) -> Iterator[dict[str, Any]]:
    """The words of each code with the largest weights, those of weight 0 left out."""
    weights, order = means.sort(dim=0, descending=True, stable=True)
    for code, (own, words) in enumerate(zip(weights[:most].T, order[:most].T, strict=True)):
        for rank, (weight, word) in enumerate(zip(own.tolist(), words.tolist(), strict=True), 1):
            if weight > 0:
                yield {"code": code, "rank": rank, "word": word, "weight": weight}


def _has_codes(run: PretrainingRun) -> bool:
    return run.composes and VARIANTS[run.model].get("composer", "codes") != "mlp"


def _opened(runs: str | os.PathLike[str], asked: CodesOptions) -> list[FinishedEncoder]:
    """The runs, model by model; each has codes."""
    opened = finished_encoders(runs, asked.models, of=_has_codes)
    if not opened:
        raise InputError(
            f"no model in {runs} has codes; train one that has, such as cat: interp-compose "
            "pretrain --models bert,cat --sememes …"
        )
    for each in opened:
        if not _has_codes(each.run):
            raise OptionError(
                f"the model {each.run.model!r} has no codes; leave it out (models), or name "
                "others, such as 'cat'"
            )
    return opened


def _check(asked: CodesOptions) -> None:
    for name in ("n_passages", "least", "n_words", "k"):
        value = getattr(asked, name)
        if not is_whole(value) or value < 1:
            raise OptionError(f"{name}={value!r}: expected a whole number, 1 or more")


def _config(opened: Sequence[FinishedEncoder], asked: CodesOptions) -> dict[str, Any]:
    """What a result says of itself."""
    return {
        "study": "codes",
        **{name: one for name, one in asdict(opened[0].run).items() if name not in PLACE},
        "models": list(dict.fromkeys(each.run.model for each in opened)),
        "seeds": sorted({each.run.seed for each in opened}),
        **{name: getattr(asked, name) for name in ("n_passages", "least", "n_words", "k")},
    }


def run(command: CodesCommand) -> Codes:
    """The command ``interp-compose codes``: results (Parquet, CSV), figures as HTML and PNG.

    Raises:
        InputError: ``out`` is ``runs``, or holds another study's result and ``overwrite`` is off.
    """
    output = command.output
    if output.out.resolve() == command.runs.resolve():
        raise InputError(
            f"--out and --runs are both {output.out}; choose another --out, so that the tables of "
            "the training stay"
        )
    models = None if command.models is None else command.models.split(",")
    asked = replace(command.study, models=models, progress=not output.quiet)
    _check(asked)
    config = _config(_opened(command.runs, asked), asked)
    with held_folder(output.out, Codes, config, overwrite=output.overwrite):
        result = codes(command.runs, **vars(asked))
        write_result(output.out, result, overwrite=output.overwrite)
    return result
