"""BLEU, as sacrebleu computes it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

from interp_compose._public import public
from interp_compose.checks import check_package
from interp_compose.errors import InputError

Tokenizer = Literal["zh", "13a", "intl", "char", "none"]
"""sacrebleu's tokenizers that need no other package."""


@public
def bleu(
    translations: Sequence[str], references: Sequence[str], *, tokenize: Tokenizer = "zh"
) -> tuple[float, str]:
    """BLEU of a corpus in [0, 100], and sacrebleu's signature, to be published with it.

    Post 2018, "A Call for Clarity in Reporting BLEU Scores" (WMT). One reference for each
    translation. With ``tokenize="zh"``, for Chinese, blanks are first removed from both: they only
    part tokens of the model. The others are sacrebleu's tokenizers too ("13a" for English).

    Raises:
        InputError: no translations, or another number of references.
        MissingPackageError: sacrebleu is not installed.
    """
    check_package("sacrebleu", "seq2seq")
    metrics: Any = import_module("sacrebleu.metrics")
    if not translations or len(translations) != len(references):
        raise InputError(
            f"there are {len(translations)} translations and {len(references)} references; "
            "expected one reference for each, and at least one"
        )
    if tokenize == "zh":
        translations, references = (
            ["".join(text.split()) for text in texts] for texts in (translations, references)
        )
    metric = metrics.BLEU(tokenize=tokenize)
    score = metric.corpus_score(list(translations), [list(references)]).score
    return float(score), str(metric.get_signature())
