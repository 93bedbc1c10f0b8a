"""``codes``: the codes of encoders that another command pre-trained, opened up."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._versions import environment_versions, gathered_versions
from interp_compose.checks import is_whole
from interp_compose.errors import InputError, OptionError
from interp_compose.papers.cat.studies.codes.consistency import (
    Occurrences,
    compared,
    in_passages,
    in_senses,
)
from interp_compose.papers.cat.studies.codes.options import CodesCommand, CodesOptions
from interp_compose.papers.cat.studies.codes.phrases import Phrases, phrase_rows, phrases_of
from interp_compose.papers.cat.studies.codes.result import Codes
from interp_compose.papers.cat.studies.codes.sememes import WordSememes, annotated, sememe_rows
from interp_compose.papers.cat.studies.codes.words import WordPlaces, mean_codes
from interp_compose.papers.cat.studies.pretrain.finished import FinishedEncoder, finished_encoders
from interp_compose.papers.cat.studies.pretrain.measure import PLACE, VARIANTS, PretrainingRun
from interp_compose.papers.cat.training.sentences import Passages
from interp_compose.papers.shared.grid.finished import left_out
from interp_compose.progress import progress_bar
from interp_compose.runs.checksums import digest_of
from interp_compose.runs.folder import versions_of
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result

NUMBERS: Final = ("n_passages", "least", "n_words", "k")
Rows = list[dict[str, Any]]


@keywords(CodesOptions)
def codes(runs: str | os.PathLike[str], options: CodesOptions) -> Codes:
    """Open the codes of encoders that :func:`pretrain` trained, all seeds of each model that has
    some (CAT, Huang et al. 2024).

    Of the documents that were held out, passages are read whole, nothing masked. A word's codes
    are the mean of O (eq. 2) over its occurrences. From these: the words that are heaviest in each
    code of each block; and, of the last block, whose codes were guided by sememes, how many of a
    word's heaviest codes are among its annotated sememes, for words that guided and for words held
    out. Of two occurrences of a word in two passages, whether their O are nearer to each other than
    to another word's; of examples of a word's senses, whether O of one sense are nearer than those
    of two; and what a word's O in a phrase has of its O alone. Beside each stands h_cont.

    Args:
        runs: the folder that they were trained in.
        options: every option.

    Raises:
        OptionError: a model that has no codes, or is named twice; a number that cannot be.
        MissingDataError: no finished runs there, or none of a model or of one of its seeds; no
            WordNet in the folder.
        DataFormatError: a garbled WordNet.
        InputError: the folder holds something else, or no model with codes; no annotated word
            occurs often enough; a phrase that is not two words, or none of two words that the
            vocabulary has.
        CorruptFileError: a run was altered after it was done.
    """
    return _measured(_planned(runs, options), options)


class _CodesPlan(NamedTuple):
    """What is known before a model is loaded: the runs, what is read, and what a result says of
    itself."""

    opened: list[FinishedEncoder]
    names: Sequence[str]
    """Of sememes."""
    words: WordPlaces
    counted: Int[np.ndarray, "spelling"]
    sides: Mapping[str, Mapping[int, WordSememes]]
    questions: Mapping[str, Occurrences]
    phrases: Phrases | None
    config: dict[str, Any]


def _planned(runs: str | os.PathLike[str], options: CodesOptions) -> _CodesPlan:
    """Refuse what cannot be."""
    _check(options)
    opened = _opened(runs, options)
    run, data = opened[0].run, opened[0].data
    passages = Passages.of(data.held_out, run.n_ctx).first(options.n_passages)
    texts = [passages.whole(i).tolist() for i in range(len(passages))]
    words = WordPlaces.of(texts, data.tokenizer, run.n_ctx)
    counted = np.flatnonzero(words.counts >= options.least)
    sides = annotated(data, words, counted)
    phrases = None
    if options.phrases is not None:
        phrases = Phrases.of(options.phrases, data.tokenizer, run.n_ctx)
    questions = {"words": in_passages(words, counted)}
    senses = in_senses(options.wordnet, data.tokenizer, run.n_ctx)
    if senses is not None:
        questions["senses"] = senses
    config = {
        "study": "codes",
        **{name: one for name, one in asdict(run).items() if name not in PLACE},
        "models": list(dict.fromkeys(each.run.model for each in opened)),
        "seeds": sorted({each.run.seed for each in opened}),
        **{name: getattr(options, name) for name in NUMBERS},
        "phrases": 0 if options.phrases is None else len(options.phrases),
        "phrases_sha256": digest_of(list(options.phrases or ())),
        **({} if options.models else left_out(opened)),
        "wordnet": senses is not None,
    }
    assert data.guiding is not None, "annotated words have sememes"
    return _CodesPlan(opened, data.guiding.names, words, counted, sides, questions, phrases, config)


def _measured(plan: _CodesPlan, options: CodesOptions) -> Codes:
    tables: dict[str, Rows] = {table.name: [] for table in Codes.SCHEMA}
    for each in progress_bar(plan.opened, desc="codes", unit="run", disable=not options.progress):
        place = {name: getattr(each.run, name) for name in PLACE}
        for name, rows in _inside(each, plan, options).items():
            tables[name] += [{**place, **row} for row in rows]
    trained = {each.folder.name: versions_of(each.folder) for each in plan.opened}
    return Codes(
        config=plan.config,
        frames={table.name: table.of(tables[table.name]) for table in Codes.SCHEMA},
        versions=gathered_versions({"codes": environment_versions(), **trained}),
    )


def _inside(opened: FinishedEncoder, plan: _CodesPlan, options: CodesOptions) -> dict[str, Rows]:
    """The rows of one run."""
    model = opened.model()
    spelled = plan.words.named(model.tokenizer)
    word_rows = [{"word": spelled[i], "n": int(plan.words.counts[i])} for i in plan.counted]
    means = mean_codes(model, plan.words, plan.counted)
    last = max(means)
    heaviest = [
        {
            "layer": layer,
            "sememe": plan.names[row["code"]] if layer == last else "",
            **word_rows[row.pop("place")],
            **row,
        }
        for layer, block_means in means.items()
        for row in _heaviest_words(block_means, options.n_words)
    ]
    sememes = sememe_rows(means[last], plan.sides, options.k)
    return {
        "words": heaviest,
        "sememes": [{**word_rows[row.pop("place")], **row} for row in sememes],
        "consistency": [
            {"question": question, **row}
            for question, occurrences in plan.questions.items()
            for row in compared(model, occurrences)
        ],
        "phrases": [] if plan.phrases is None else list(phrase_rows(model, plan.phrases)),
    }


def _heaviest_words(means: Float[Tensor, "word code"], most: int) -> Iterator[dict[str, Any]]:
    """The words of each code with the largest weights, those of weight 0 left out."""
    weights, order = means.sort(dim=0, descending=True, stable=True)
    for code, (column, words) in enumerate(zip(weights[:most].T, order[:most].T, strict=True)):
        ranked = zip(column.tolist(), words.tolist(), strict=True)
        for rank, (weight, word) in enumerate(ranked, 1):
            if weight > 0:
                yield {"code": code, "rank": rank, "place": word, "weight": weight}


def _has_codes(run: PretrainingRun) -> bool:
    return run.composes and VARIANTS[run.model].get("composer", "codes") != "mlp"


def _opened(runs: str | os.PathLike[str], options: CodesOptions) -> list[FinishedEncoder]:
    """The runs, model by model; each has codes."""
    opened = finished_encoders(runs, options.models, condition=_has_codes)
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


def _check(options: CodesOptions) -> None:
    for name in NUMBERS:
        value = getattr(options, name)
        if not is_whole(value) or value < 1:
            raise OptionError(f"{name}={value!r}: expected a whole number, 1 or more")


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
    options = replace(
        command.study,
        models=models,
        phrases=None if command.phrases is None else phrases_of(command.phrases),
        wordnet=command.wordnet,
        progress=not output.quiet,
    )
    plan = _planned(command.runs, options)
    with held_folder(output.out, Codes, plan.config, overwrite=output.overwrite):
        result = _measured(plan, options)
        write_result(output.out, result, overwrite=output.overwrite)
    return result
