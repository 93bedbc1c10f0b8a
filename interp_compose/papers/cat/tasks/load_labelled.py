"""``load_labelled``: labelled texts by the name of a task."""

from __future__ import annotations

from pathlib import Path

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.papers.cat.tasks.labelled import LabelledTask
from interp_compose.tasks.table import names_of, row_of


@public
def load_labelled(name: str, *, data_dir: str | Path | None = None) -> LabelledTask:
    """Texts, or pairs of texts, with a class or a score each, in named splits.

    Args:
        name: ``"sst"`` (sentences of the Stanford Sentiment Treebank, negative or positive); of
            GLUE ``"cola"``, ``"sst-2"``, ``"mrpc"``, ``"sts-b"``, ``"qqp"``, ``"mnli"``,
            ``"qnli"``, ``"rte"`` and ``"wnli"``; with another distribution next to that of training
            ``"paws-swap"``, ``"imdb-sst2"``, ``"stsb-images-msrvid"``,
            ``"mnli-telephone-letters"`` and ``"amazon-music-video"``.
        data_dir: the folder with the data in their own format.

    Raises:
        OptionError: an unknown name.
        MissingDataError: the data is not there; says where to get it.
        DataFormatError: a garbled file; names the line.
        InputError: a split is empty, or all training texts are of one class.
    """
    row = row_of("labelled", name)
    if row is None:
        raise OptionError(
            f"labelled task {name!r} is unknown; choose one of {', '.join(names_of('labelled'))}, "
            "or make an ic.cat.LabelledTask of your own texts"
        )
    task: LabelledTask = row.load(name=name, data_dir=data_dir)
    return task
