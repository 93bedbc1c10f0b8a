"""The phrases of reviews, knocked out, whole reviews, transplanted, and heads: runs ``*_sst``.

Of reviews that are not neutral, the two largest phrases are compared where exactly one of them has
the review's sentiment by SST's own labels, and is not the longer one (in words): else knocking it
out takes more away. SST's sentences are not to be distributed and are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

import interp_compose as ic
from benchmarks import natural_phrases
from benchmarks.cap_outcomes import by_example, controls
from benchmarks.common import kept, plain_rows
from benchmarks.natural_phrases import ELSEWHERE, WHOLE, Ranges, Studies, pairs_of
from interp_compose.checks import drawn
from interp_compose.tasks.natural import Item
from interp_compose.tasks.sst import FEW_SHOT, sentiment
from interp_compose.text.constituents import leaf_spans, leaves, read_tree

DECIDES: Final = "phrase of its sentiment"
OTHER: Final = "other phrase"
BETWEEN: Final = ((DECIDES, OTHER), (DECIDES, ELSEWHERE), (OTHER, ELSEWHERE))
NEUTRAL: Final = " neutral"
SENTIMENTS: Final = (" negative", " positive")
KEPT: Final = {
    "clean": [
        *("example", "answer", "prediction_text", "correct"),
        *("target_logprob", "target_rank", "n_tokens"),
    ],
    "pairs": ["pair", "expected", "answer", "donor", "case"],
}
"""Columns without text of reviews."""


class Review(NamedTuple):
    """An example whose sentiment the shorter of its two phrases has, where both are, and which
    sentiment the other one has."""

    example: ic.Example
    phrases: Ranges
    other: str

    @property
    def case(self) -> str:
        """Later tokens of a review have read its first phrase, also where that is knocked out."""
        return "its phrase first" if self.phrases[0][2] == DECIDES else "its phrase last"

    def n_words(self, tag: str) -> int:
        (text,) = (self.example.prompt[low:high] for low, high, of in self.phrases if of == tag)
        return len(text.split())


def reviews(
    out: Path,
    *,
    model: str,
    data_dir: str,
    n: int,
    layers: Sequence[int],
    control_layers: Sequence[int],
    seed: int,
) -> dict[str, Any]:
    """Both studies: of ``n`` reviews drawn from the test split each, of the whole ones half of
    them positive and half negative."""
    lens = ic.load_model(model)
    task = ic.load_task("sst-few-shot", lens, data_dir=data_dir)
    deciding = [each for each in map(review, task.test) if each is not None]
    chosen = drawn(deciding, n, seed)
    items = items_of(task.test, n, seed)
    pairs = pairs_of(task.template, items, seed)
    studied = Studies(out, lens, task.labels, seed)
    knocked_out = studied.knocked_out(
        [each.example for each in chosen],
        {
            "parts": {each.example.prompt: each.phrases for each in chosen},
            "beside": {each.example.prompt: beside(each, seed) for each in chosen},
        },
        [each.case for each in chosen],
        layers={"parts": layers, "beside": control_layers},
        between=BETWEEN,
    )
    transplanted = studied.transplanted(
        pairs, dict.fromkeys((pair.source for pair in pairs), ""), layers=layers
    )
    return {
        "n_deciding": len(deciding),
        "reviews": [
            {
                "other_phrase": each.other,
                **{tag: each.n_words(tag) for tag in (DECIDES, OTHER)},
            }
            for each in chosen
        ],
        "knocked_out": {**knocked_out, "clean": without_text("clean", knocked_out["clean"])},
        "transplanted": {**transplanted, "pairs": without_text("pairs", transplanted["pairs"])},
    }


def heads(out: Path, *, model: str, data_dir: str, n: int, seed: int) -> dict[str, Any]:
    """Every head's mean ablation, of ``n`` reviews, half of them positive, between these two
    answers: a head that shifts all answers to one of them changes nothing in the mean."""
    lens = ic.load_model(model)
    task = ic.load_task("sst-few-shot", lens, data_dir=data_dir)
    measure = partial(
        ic.ablation_curve,
        lens,
        balanced(task.test, n, seed),
        what="heads",
        how="mean",
        answers=SENTIMENTS,
        seed=seed,
        resume=out,
    )
    curve = kept(out, ic.AblationCurve, measure)
    print(curve.summary())
    return {
        "config": curve.config,
        "clean": without_text("clean", plain_rows(curve.clean)),
        "heads": natural_phrases.heads(curve),
    }


def words(
    out: Path, *, model: str, data_dir: str, n: int, layers: Sequence[int], seed: int
) -> dict[str, Any]:
    """CAP of the words of reviews that are of several tokens, and of nothing else in the prompt, of
    those of ``n`` reviews that have one: ``unit="word"`` pools the template's words too."""
    lens = ic.load_model(model)
    task = ic.load_task("sst-few-shot", lens, data_dir=data_dir)
    examples = [
        replace(each, spans=spans)
        for each in drawn(task.test, n, seed)
        if (spans := natural_phrases.several_tokens(lens.tokenizer, each))
    ]
    measure = partial(
        ic.cap_curve,
        lens,
        examples,
        unit="span",
        answers=task.labels,
        layers=layers,
        seed=seed,
        task="words of reviews",
        resume=out,
    )
    curve = kept(out, ic.CapCurve, measure)
    print(curve.summary())
    return {
        "config": curve.config,
        "n_words": sum(len(each.spans or ()) for each in examples),
        "curve": plain_rows(curve.frame),
        "clean": without_text("clean", plain_rows(curve.clean)),
        "controls": controls(curve),
        "outcomes": by_example(curve.outcomes),
    }


def without_text(table: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns of :data:`KEPT`."""
    return [{name: row[name] for name in KEPT[table]} for row in rows]


def balanced(examples: Sequence[ic.Example], n: int, seed: int) -> list[ic.Example]:
    """``n`` examples drawn, half of them of each of :data:`SENTIMENTS`."""
    of_labels = ([each for each in examples if each.answer == label] for label in SENTIMENTS)
    return [each for of in of_labels for each in drawn(of, n // len(SENTIMENTS), seed)]


def review(example: ic.Example) -> Review | None:
    """None where both phrases have the review's sentiment, or neither, or the longer one."""
    if example.answer == NEUTRAL or example.tree is None:
        return None
    tree = read_tree(example.tree)
    places = leaf_spans(leaves(tree), example.prompt)
    node, start = tree, 0
    while True:
        if len(node) != 2 or isinstance(node[0], str):
            return None
        first, second = node
        middle = start + len(first.leaves())
        end = middle + len(second.leaves())
        if not _has_words(second):
            node = first
        elif not _has_words(first):
            node, start = second, middle
        else:
            break
    decides = [f" {sentiment(int(child.label()) / 4)}" == example.answer for child in node]
    if sum(decides) != 1:
        return None
    ranges = [
        (places[low][0], places[high - 1][1], DECIDES if own else OTHER)
        for (low, high), own in zip(((start, middle), (middle, end)), decides, strict=True)
    ]
    other = node[decides.index(False)]
    found = Review(example, ranges, sentiment(int(other.label()) / 4))
    return found if found.n_words(DECIDES) <= found.n_words(OTHER) else None


def _has_words(node: Any) -> bool:
    return any(character.isalnum() for leaf in node.leaves() for character in leaf)


def beside(each: Review, seed: int) -> Ranges:
    """Character ranges of the whole review and, as the control, of a random run of as many words of
    one demonstrated review as are in the deciding phrase, or of as many as the longest has."""
    start, shown = len(FEW_SHOT.template.split("{}")[0]), []
    for text in re.finditer(r"Review: (.*)\n", each.example.prompt[:start]):
        shown.append([match.span() for match in re.finditer(r"\S+", text[1])])
        shown[-1] = [(low + text.start(1), high + text.start(1)) for low, high in shown[-1]]
    n = min(each.n_words(DECIDES), max(map(len, shown)))
    runs = [(of[at][0], of[at + n - 1][1]) for of in shown for at in range(len(of) - n + 1)]
    rng = np.random.default_rng((seed, crc32(each.example.prompt.encode())))
    (whole,) = each.example.spans or ()
    return [(*runs[int(rng.integers(len(runs)))], ELSEWHERE), (*whole, WHOLE)]


def items_of(examples: Sequence[ic.Example], n: int, seed: int) -> list[Item]:
    """Whole reviews for transplants, as :func:`balanced` draws them; of those without brackets."""
    items = []
    for each in balanced(
        [each for each in examples if not set("[]{}") & set(_text(each))], n, seed
    ):
        items.append(Item(f"[{_text(each)}]", each.answer, ""))
    return items


def _text(example: ic.Example) -> str:
    (unit,) = example.spans or ()
    return example.prompt[slice(*unit)]
