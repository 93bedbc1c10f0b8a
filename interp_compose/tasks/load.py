"""``load_task``: a name, or a file of your own, becomes the examples for one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.tasks.bird import bird
from interp_compose.tasks.examples import KEYS as EXAMPLE_KEYS, read_examples
from interp_compose.tasks.glue import FORMATS, glue
from interp_compose.tasks.labelled import LabelledTask
from interp_compose.tasks.pairs import FILE_KINDS, KEYS as PAIR_KEYS, PairTask, read_pairs
from interp_compose.tasks.paws import paws_qqp
from interp_compose.tasks.prompts import ALONE, prompt_for
from interp_compose.tasks.rows import unknown_task
from interp_compose.tasks.shifted import (
    amazon_music,
    imdb_sst2,
    mnli_telephone,
    paws_swap,
    stsb_images,
)
from interp_compose.tasks.sst import sst, sst_files, sst_labelled
from interp_compose.tasks.task import Task
from interp_compose.text.targets import TargetTokenizer
from interp_compose.types import Example

PAIR_TASK_NAMES = ("bird", "paws-qqp")


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
        OptionError: an unknown name, or a ``data_dir`` beside a file.
        MissingDataError: the data is not there; says where to get it.
        DataFormatError: a garbled file; names the line.
    """
    name = str(name)
    if name == "bird":
        return bird(data_dir)
    if name == "paws-qqp":
        return paws_qqp(data_dir)
    if not name.endswith(FILE_KINDS):
        said = f"pair task {name!r} is"
        raise unknown_task(said, name, PAIR_TASK_NAMES, PAIR_KEYS, "similarity_curve", FILE_KINDS)
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


LABELLED_LOADERS: Final[Mapping[str, Callable[[str | Path | None], LabelledTask]]] = {
    "sst": sst_labelled,
    **{name: partial(glue, name) for name in FORMATS},
    "paws-swap": paws_swap,
    "imdb-sst2": imdb_sst2,
    "stsb-images-msrvid": stsb_images,
    "mnli-telephone-letters": mnli_telephone,
    "amazon-music-video": amazon_music,
}
LABELLED_NAMES: Final = tuple(LABELLED_LOADERS)


@public
def load_labelled(name: str, *, data_dir: str | Path | None = None) -> LabelledTask:
    """Texts, or pairs of texts, with a class or a score each, in named splits.

    Args:
        name: ``"sst"`` (sentences of the Stanford Sentiment Treebank, negative or positive); of
            GLUE ``"cola"``, ``"sst-2"``, ``"mrpc"``, ``"sts-b"``, ``"qqp"``, ``"mnli"``,
            ``"qnli"``, ``"rte"`` and ``"wnli"``; with another distribution beside that of training
            ``"paws-swap"``, ``"imdb-sst2"``, ``"stsb-images-msrvid"``,
            ``"mnli-telephone-letters"`` and ``"amazon-music-video"``.
        data_dir: the folder with the data in their own format.

    Raises:
        OptionError: an unknown name.
        MissingDataError: the data is not there; says where to get it.
        DataFormatError: a garbled file; names the line.
        InputError: a split is empty, or all training texts are of one class.
    """
    if name not in LABELLED_LOADERS:
        raise OptionError(
            f"labelled task {name!r} is unknown; choose one of {', '.join(LABELLED_NAMES)}, or "
            "make an ic.LabelledTask of your own texts"
        )
    return LABELLED_LOADERS[name](data_dir)


@runtime_checkable
class HasTokenizer(Protocol):
    """What a task reads of a model."""

    name: str
    architecture: str
    tokenizer: Any


TASK_NAMES = ("idm", "sst", "mini-idm", "mini-sst")


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
        name: ``"idm"`` (WordNet definitions), ``"sst"`` (Stanford Sentiment Treebank), the
            shipped ``"mini-idm"`` and ``"mini-sst"``, or the path of a ``.jsonl`` file of your
            own, all of which becomes the test split.
        model: read for its ``tokenizer`` (which answers are one token) and its ``architecture``
            (which chooses the prompt; an encoder–decoder reads the text alone, and the answer is
            the first token of its target).
        data_dir: for ``"idm"`` a folder laid out as NLTK's data is (else ``NLTK_DATA``), for
            ``"sst"`` the folder with ``train.txt``, ``dev.txt`` and ``test.txt``.
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
        return Task(Path(name).name, "{}", (), (), examples, report)
    if model.tokenizer is None:
        raise OptionError(
            f"the model {model.name!r} has no tokenizer, which task {name!r} needs; "
            "load the model with tokenizer=..."
        )
    tokenizer = model.tokenizer
    prompt = prompt_for(model.architecture, name.removeprefix("mini-"))
    if hasattr(model, "start_ids"):  # an encoder–decoder
        prompt, tokenizer = ALONE, TargetTokenizer(tokenizer)
    if name == "mini-idm":
        from interp_compose.tasks.mini.idm import mini_idm

        return mini_idm(tokenizer, prompt, seed, several=multi_token_answers)
    if name == "mini-sst":
        from interp_compose.tasks.mini.sst import mini_sst

        return mini_sst(tokenizer, prompt, seed, several=multi_token_answers)
    if name == "idm":
        from interp_compose.tasks.idm import wordnet_idm

        return wordnet_idm(tokenizer, prompt, data_dir, seed, several=multi_token_answers)
    return sst(tokenizer, prompt, data_dir, several=multi_token_answers)


def check_task(name: str, data_dir: str | Path | None) -> tuple[Example, ...] | None:
    """Refuse what :func:`load_task` refuses of a task without its model; the examples of a file."""
    is_file = name.endswith(".jsonl")
    if name in PAIR_TASK_NAMES:
        raise OptionError(
            f"task {name!r} holds pairs of texts, not prompts; load it with load_pairs and measure "
            "it with similarity_curve (interp-compose similarity)"
        )
    if name not in TASK_NAMES and not is_file:
        raise unknown_task(
            f"task {name!r} is", name, TASK_NAMES, EXAMPLE_KEYS, "cap_curve", (".jsonl",)
        )
    if data_dir is not None and name not in ("idm", "sst"):
        raise OptionError(f"task {name!r} reads no data_dir; leave {str(data_dir)!r} out")
    if name == "sst":
        sst_files(data_dir)
    return read_examples(name) if is_file else None
