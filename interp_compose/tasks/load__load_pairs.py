"""``load_pairs``: a name, or a file of your own, becomes pairs that people have judged."""

from __future__ import annotations

from pathlib import Path

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.tasks.bird import bird
from interp_compose.tasks.pairs import FILE_KINDS, PairTask, read_pairs
from interp_compose.tasks.paws import paws_qqp

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
        raise OptionError(
            f"pair task {name!r} is unknown; choose one of {', '.join(PAIR_TASK_NAMES)}, or give "
            f"the path of a file that ends in {' or '.join(FILE_KINDS)}"
        )
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
