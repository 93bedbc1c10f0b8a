"""BLEU against its formula, and what is refused."""

from __future__ import annotations

import math
import sys
from collections import Counter

import pytest

from interp_compose.errors import InputError, MissingPackageError, OptionError
from interp_compose.papers.lrf.stats.bleu import bleu


def by_formula(translations: list[list[str]], references: list[list[str]]) -> float:
    """100 · brevity · geometric mean of the precisions of 1- to 4-grams over the corpus."""
    logs = []
    for n in range(1, 5):
        hits = total = 0
        for ours, theirs in zip(translations, references, strict=True):
            have, want = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (ours, theirs)
            )
            hits += sum((have & want).values())
            total += sum(have.values())
        logs.append(math.log(hits / total))
    lengths = [sum(map(len, texts)) for texts in (translations, references)]
    return 100 * math.exp(min(0, 1 - lengths[1] / lengths[0]) + sum(logs) / 4)


def test_bleu_of_characters_is_the_formula() -> None:
    ours = ["狗 把 他 的 车 给 了 他 。", "每 天 狗 在 公 园 玩"]
    theirs = ["狗把他自己的车给了他。", "每天，狗都会在公园里玩耍。"]
    score, signature = bleu(ours, theirs)
    characters = [[list(text.replace(" ", "")) for text in texts] for texts in (ours, theirs)]
    assert score == pytest.approx(by_formula(*characters), abs=1e-9)
    assert "tok:zh" in signature
    assert "version:" in signature
    assert bleu(theirs, theirs)[0] == pytest.approx(100)


def test_bleu_of_words() -> None:
    ours, theirs = ["the cat sat on the red mat"], ["the cat sat on the mat today"]
    score, _ = bleu(ours, theirs, tokenize="none")
    assert score == pytest.approx(by_formula([ours[0].split()], [theirs[0].split()]), abs=1e-9)


def test_what_cannot_be_scored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for ours, theirs in ((["a"], ["a", "b"]), ([], [])):
        with pytest.raises(InputError, match=f"{len(ours)} translations and {len(theirs)} refere"):
            bleu(ours, theirs)
    with pytest.raises(OptionError, match="tokenize='cn'; expected one of 'zh', '13a'"):
        bleu(["a"], ["a"], tokenize="cn")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'interp-compose\[seq2seq\]'"):
        bleu(["a"], ["a"])
