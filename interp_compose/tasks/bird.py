"""``bird``: human scores of how related two bigrams are, from BiRD.

Asaadi, Mohammad and Kiritchenko 2019, "Big BiRD: A Large, Fine-Grained, Bigram Relatedness
Dataset for Examining Semantic Composition" (NAACL); CAT is judged on it. A bigram is compared
with a bigram or with a single word, which composes nothing and is left out. BiRD-ABBA are the
mirror pairs within, "water body" and "body water": those whose ``Pair.is_mirror`` is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from interp_compose.errors import DataFormatError
from interp_compose.tasks.pairs import Pair, PairTask, check_pairs, pair_from_text
from interp_compose.tasks.published import named
from interp_compose.tasks.rows import data_files, tsv_rows

FILE = "BiRD.txt"
KIND = "term2: unigram or bigram"
SCORE = "relatedness score"
KINDS = ("unigram", "bigram")


def bird(data_dir: str | Path | None) -> PairTask:
    """The bigram–bigram pairs of ``BiRD.txt`` as the test split, scored in [0, 1].

    Raises ``MissingDataError`` where the file is not there and ``DataFormatError`` for a garbled
    row, which it names.
    """
    hint = (
        "get it from http://saifmohammad.com/WebPages/BiRD.html and pass the folder with "
        f"{FILE} as data_dir (--data-dir)"
    )
    needs = "the Bigram Relatedness Dataset"
    (path,) = data_files("bird", data_dir, [FILE], needs=needs, hint=hint)
    rows = list(_rows(path))
    check_pairs([pair for _, _, pair in rows], where=[where for where, _, _ in rows])
    test = tuple(pair for _, kind, pair in rows if kind == "bigram")
    if not test:
        raise DataFormatError(
            f"{path} has no pair of two bigrams among its {len(rows)} rows; get the file again"
        )
    name, source = named("bird", "BiRD", data_dir, {"test": test})
    report: dict[str, int | str | float] = {
        "source": source,
        "rows": len(rows),
        "unigram_pairs_left_out": len(rows) - len(test),
        "test_all": len(test),
        "test_mirror": sum(pair.is_mirror for pair in test),
    }
    return PairTask(name, (), test, report)


def _rows(path: Path) -> Iterator[tuple[str, str, Pair]]:
    """Where a row is, whether its second term is a unigram or a bigram, and its pair."""
    for number, cells in tsv_rows(path, ("term1", "term2", KIND, SCORE)):
        where = f"{path}, line {number}"
        if cells[KIND] not in KINDS:
            raise DataFormatError(
                f"{where} has {cells[KIND]!r} in the column {KIND!r}; expected one of "
                f"{', '.join(KINDS)}. Get the file again"
            )
        texts = {"text1": cells["term1"], "text2": cells["term2"]}
        pair = pair_from_text({**texts, "score": cells[SCORE]}, where)
        if pair.score is None or not 0 <= pair.score <= 1:
            raise DataFormatError(
                f"{where} has {pair.score} as its score; BiRD's lie in [0, 1]. Get the file again"
            )
        yield where, cells[KIND], pair
