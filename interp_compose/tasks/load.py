"""``load_task``: a name, or a file of your own, becomes the examples for one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.tasks.examples import KEYS as EXAMPLE_KEYS, read_examples
from interp_compose.tasks.pairs import FILE_KINDS, KEYS as PAIR_KEYS, PairTask, read_pairs
from interp_compose.tasks.prompts import ALONE, prompt_for
from interp_compose.tasks.rows import unknown_task
from interp_compose.tasks.sst import sst_files
from interp_compose.tasks.table import names_of, row_of
from interp_compose.tasks.task import Task
from interp_compose.text.targets import TargetTokenizer
from interp_compose.types import Example


@public
def load_pairs(name: str | Path, *, data_dir: str | Path | None = None) -> PairTask:
    """The pairs of a data set, or of your own file.

    Args:
        name: ``"bird"`` (bigrams, scored), ``"paws-qqp"`` (questions, labelled), or the path of a
            ``.tsv`` or ``.jsonl`` file as :func:`.pairs.read_pairs` reads it, all of which
            becomes the test split.
        data_dir: for ``"bird"`` the folder with ``BiRD.txt``, for ``"paws-qqp"`` the folder with
            ``train.tsv`` and ``dev_and_test.tsv``; a file of your own takes none.

    Raises:
        OptionError: an unknown name, or a ``data_dir`` with a file.
        MissingDataError: the data is not there; says where to get it.
        DataFormatError: a garbled file; names the line.
    """
    name = str(name)
    row = row_of("pairs", name)
    if row is not None:
        task: PairTask = row.load(data_dir=data_dir)
        return task
    if not name.endswith(FILE_KINDS):
        subject, known = f"pair task {name!r} is", names_of("pairs")
        raise unknown_task(subject, name, known, PAIR_KEYS, "similarity_curve", FILE_KINDS)
    if data_dir is not None:
        raise OptionError(
            f"the file {name!r} needs no data_dir; leave {str(data_dir)!r} out, and give the "
            "file's whole path as the name"
        )
    pairs = read_pairs(name)
    report: dict[str, int | str | float] = {
        "source": name,
        "test_all": len(pairs),
        "test_mirror": sum(pair.is_mirror for pair in pairs),
    }
    return PairTask(name, (), pairs, report)


@runtime_checkable
class HasTokenizer(Protocol):
    """What a task reads of a model."""

    name: str
    architecture: str
    tokenizer: Any


@public
def load_task(
    name: str | Path,
    model: HasTokenizer,
    *,
    data_dir: str | Path | None = None,
    seed: int = 42,
    multi_token_answers: bool = False,
) -> Task:
    """The train, validation and test examples of a task, in the prompt of the model's family.

    Args:
        name: ``"idm"`` (WordNet definitions), ``"sst"`` (Stanford Sentiment Treebank) or
            ``"sst-few-shot"`` (after demonstrations), the shipped ``"mini-idm"``, ``"mini-sst"``,
            ``"agreement"``, ``"materials"`` and others in plain English, for language models, or
            the path of a ``.jsonl`` file of your own. Of the last two kinds all becomes the test
            split.
        model: read for its ``tokenizer`` (which answers are one token) and its ``architecture``
            (which chooses the prompt; an encoder–decoder reads the text alone, and the answer is
            the first token of its target).
        data_dir: for ``"idm"`` a folder laid out as NLTK's data is (else ``NLTK_DATA``), for
            ``"sst"`` and ``"sst-few-shot"`` the folder with ``train.txt``, ``dev.txt`` and
            ``test.txt``.
        seed: splits WordNet; orders the shipped tasks. Official splits and files keep theirs.
        multi_token_answers: keep answers of several tokens as well, which :func:`cap_curve`,
            :func:`ablation_curve` and :func:`transplant` take on request, and training does not.
            A file's answers are not looked at here.

    Raises:
        OptionError: an unknown name, or a ``data_dir`` for a task that reads none.
        MissingDataError: the data is not there; says where to get it.
        DataFormatError: a garbled file; names the line.
        AnswerError: the answers are not single tokens for this model, or have unknown ones.
    """
    name = str(name)
    examples = check_task(name, data_dir)
    if examples is not None:
        report: dict[str, int | str | float] = {"source": name, "test_all": len(examples)}
        return Task(Path(name).stem, "{}", (), (), examples, report)
    if model.tokenizer is None:
        raise OptionError(
            f"the model {model.name!r} has no tokenizer, which task {name!r} needs; "
            "load the model with tokenizer=..."
        )
    tokenizer = model.tokenizer
    row = row_of("prompts", name)
    assert row is not None
    prompt = None  # the task's own
    if "prompt" in row.takes:
        prompt = prompt_for(model.architecture, name.removeprefix("mini-"))
    if hasattr(model, "start_ids"):  # an encoder–decoder
        if prompt is None:
            raise OptionError(
                f"task {name!r} is text that goes on, for decoders, and {model.name!r} answers in "
                "a target; measure it on examples of your own"
            )
        prompt, tokenizer = ALONE, TargetTokenizer(tokenizer)
    task: Task = row.load(
        name=name,
        tokenizer=tokenizer,
        prompt=prompt,
        data_dir=data_dir,
        seed=seed,
        several=multi_token_answers,
    )
    return task


def check_task(name: str, data_dir: str | Path | None) -> tuple[Example, ...] | None:
    """Refuse what :func:`load_task` refuses of a task without its model; the examples of a file."""
    is_file = name.endswith(".jsonl")
    row = row_of("prompts", name)
    if row is None and name in names_of("pairs"):
        raise OptionError(
            f"task {name!r} holds pairs of texts, not prompts; load it with load_pairs and measure "
            "it with similarity_curve (interp-compose similarity)"
        )
    if row is None and not is_file:
        raise unknown_task(
            f"task {name!r} is", name, names_of("prompts"), EXAMPLE_KEYS, "cap_curve", (".jsonl",)
        )
    if data_dir is not None and (row is None or "data_dir" not in row.takes):
        raise OptionError(f"task {name!r} reads no data_dir; leave {str(data_dir)!r} out")
    if name in ("sst", "sst-few-shot"):
        sst_files(data_dir)
    return read_examples(name) if is_file else None
