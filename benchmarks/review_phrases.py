"""The phrases of reviews, knocked out, and whole reviews, transplanted: run ``phrases_sst``.

Of reviews that are not neutral, the two largest phrases are compared where exactly one of them has
the review's sentiment by SST's own labels, and is not the longer one (in words): else knocking it
out takes more away. SST's sentences are not to be distributed and are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import interp_compose as ic
from benchmarks.natural_phrases import ELSEWHERE, Ranges, Studies, beside, demonstrations, pairs_of
from interp_compose.checks import drawn
from interp_compose.tasks.natural import Item
from interp_compose.tasks.sst import sentiment
from interp_compose.text.constituents import leaf_spans, leaves, read_tree

DECIDES: Final = "phrase of its sentiment"
OTHER: Final = "other phrase"
BETWEEN: Final = ((DECIDES, OTHER), (DECIDES, ELSEWHERE), (OTHER, ELSEWHERE))
NEUTRAL: Final = " neutral"


class Review(NamedTuple):
    """An example whose sentiment the shorter of its two phrases has, and where both are."""

    example: ic.Example
    phrases: Ranges

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
    """Both studies: of ``n`` reviews drawn from the test split, whole ones drawn by their label."""
    lens = ic.load_model(model)
    task = ic.load_task("sst-few-shot", lens, data_dir=data_dir)
    deciding = [each for each in map(review, task.test) if each is not None]
    chosen = drawn(deciding, n, seed)
    examples = [each.example for each in chosen]
    n_words = {tag: [each.n_words(tag) for each in chosen] for tag in (DECIDES, OTHER)}
    shown = demonstrations(task.template)
    besides = {
        each.example.prompt: beside(
            each.example, shown, n=each.n_words(DECIDES), seed=(seed, number)
        )
        for number, each in enumerate(chosen)
    }
    of_labels = [items_of(task.test, label) for label in task.labels]
    items = [item for each in of_labels for item in drawn(each, n // len(of_labels), seed)]
    pairs = pairs_of(task.template, items, seed)
    studied = Studies(out, lens, task.labels, seed)
    kept = {
        "n_deciding": len(deciding),
        "n_words": n_words,
        "knocked_out": studied.knocked_out(
            examples,
            {"parts": {each.example.prompt: each.phrases for each in chosen}, "beside": besides},
            [""] * len(examples),
            layers={"parts": layers, "beside": control_layers},
            between=BETWEEN,
        ),
        "transplanted": studied.transplanted(
            pairs, dict.fromkeys((pair.source for pair in pairs), ""), layers=layers
        ),
    }
    for rows in (kept["knocked_out"]["clean"], kept["transplanted"]["pairs"]):
        for row in rows:
            for name in ("prompt", "source_phrase", "target_phrase"):
                row.pop(name, None)
    return kept


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
    found = Review(example, ranges)
    return found if found.n_words(DECIDES) <= found.n_words(OTHER) else None


def _has_words(node: Any) -> bool:
    return any(character.isalnum() for leaf in node.leaves() for character in leaf)


def items_of(examples: Sequence[ic.Example], label: str) -> list[Item]:
    """Whole reviews of one label, for transplants; those with brackets are left out."""
    texts = (
        each.prompt[slice(*each.spans[0])]
        for each in examples
        if each.spans and each.answer == label
    )
    return [Item(f"[{text}]", label, "") for text in texts if not set("[]{}") & set(text)]
