"""``sst``: the Stanford Sentiment Treebank as two classes of whole sentences, as in SST-2."""

from __future__ import annotations

from pathlib import Path

from interp_compose.papers.cat.tasks.labelled import LabelledTask, LabelledText, counted
from interp_compose.tasks.published import named
from interp_compose.tasks.sst import DATA, FILES, labelled_trees, sst_files


def sst_labelled(data_dir: str | Path | None) -> LabelledTask:
    """The sentences of the official splits as SST-2 labels them: 0 and 1 negative, 3 and 4
    positive, 2 left out. (GLUE's training split has phrases too, and its test labels are hidden.)

    Raises ``MissingDataError`` and ``DataFormatError`` as :func:`.tasks.sst.sst`.
    """
    splits: dict[str, tuple[LabelledText, ...]] = {}
    left_out: dict[str, int] = {}
    read: dict[str, list[str]] = {}
    for split, path in zip(FILES, sst_files(data_dir), strict=True):
        trees = list(labelled_trees(path))
        read[split] = [tree for *_, tree in trees]
        splits[split] = tuple(
            LabelledText(text, None, float(root > 2)) for root, text, _ in trees if root != 2
        )
        left_out[f"{split}_neutral_left_out"] = len(trees) - len(splits[split])
    name, source = named("sst", DATA, data_dir, read)
    report = counted(splits, source) | left_out
    return LabelledTask(name, splits, ("negative", "positive"), ("accuracy",), report)
