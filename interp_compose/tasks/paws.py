"""``paws-qqp``: questions with nearly the same words, labelled 1 where they mean the same.

Zhang, Baldridge and He 2019, "PAWS: Paraphrase Adversaries from Word Scrambling" (NAACL). The
official split is kept. A few pairs are in a file more than once, and some of the test are in
the training split too, in one order or the other: the first are kept once, both are counted in
the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from interp_compose.errors import DataFormatError, shortened
from interp_compose.tasks.pairs import Pair, PairTask, pair_from_text
from interp_compose.tasks.published import rows_sha256
from interp_compose.tasks.rows import data_files, tsv_rows

FILES = {"train": "train.tsv", "test": "dev_and_test.tsv"}
COLUMNS: Final = ("sentence1", "sentence2", "label")


def paws_qqp(data_dir: str | Path | None) -> PairTask:
    """The labelled pairs of ``train.tsv`` and ``dev_and_test.tsv``, each distinct pair once.

    Raises ``MissingDataError`` where a file is not there and ``DataFormatError`` for a garbled
    row, or a repeated pair with another label, which it names.
    """
    hint = (
        "make it from the Quora Question Pairs as https://github.com/google-research-datasets/paws "
        f"describes, and pass the folder with {' and '.join(FILES.values())} "
        "as data_dir (--data-dir)"
    )
    names = list(FILES.values())
    paths = data_files("paws-qqp", data_dir, names, needs="the data set PAWS-QQP", hint=hint)
    report: dict[str, int | str | float] = {}
    kept: dict[str, tuple[Pair, ...]] = {}
    for split, path in zip(FILES, paths, strict=True):
        kept[split], rows = read_distinct(path)
        report[f"{split}_rows"] = rows
        report[f"{split}_repeated"] = rows - len(kept[split])
        report[f"{split}_all"] = len(kept[split])
        report[f"{split}_paraphrases"] = sum(pair.label == 1 for pair in kept[split])
    trained = {frozenset((pair.text1, pair.text2)) for pair in kept["train"]}  # in either order
    report["test_also_in_train"] = sum(
        frozenset((pair.text1, pair.text2)) in trained for pair in kept["test"]
    )
    # everybody makes the files anew: there are none to compare them with
    digests = " and ".join(map(rows_sha256, kept.values()))
    report["source"] = f"PAWS-QQP in {data_dir} (SHA-256 of its pairs: {digests})"
    return PairTask("paws-qqp", report=report, **kept)


def read_distinct(path: Path) -> tuple[tuple[Pair, ...], int]:
    """The distinct pairs of one file in their order, and the number of its rows."""
    rows = ((f"line {number}", cells) for number, cells in tsv_rows(path, COLUMNS))
    return distinct(rows, str(path))


def distinct(
    rows: Iterable[tuple[str, Mapping[str, Any]]], source: str
) -> tuple[tuple[Pair, ...], int]:
    """The distinct pairs of rows in their order, each with its place in the source, and the number
    of rows."""
    first: dict[tuple[str, str], tuple[Pair, str]] = {}
    count = 0
    for place, cells in rows:
        texts = {"text1": cells["sentence1"], "text2": cells["sentence2"]}
        if all(text[:2] in ("b'", 'b"') and text[-1:] == text[1] for text in texts.values()):
            raise DataFormatError(
                f"{source}, {place} holds texts as Python writes bytes, such as "
                f"{shortened(texts['text1'], 40)}, as the generator of PAWS does under Python 3; "
                "decode them first: ast.literal_eval(text).decode()"
            )
        pair = pair_from_text({**texts, "label": str(cells["label"])}, f"{source}, {place}")
        known, earlier = first.setdefault((pair.text1, pair.text2), (pair, place))
        if known.label != pair.label:
            raise DataFormatError(
                f"{source}, {place} repeats the pair of {earlier}, but its label is "
                f"{pair.label} and not {known.label}; correct one of them, or get the file again"
            )
        count += 1
    return tuple(pair for pair, _ in first.values()), count
