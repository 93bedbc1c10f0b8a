"""Pairs of SCAN commands between which a phrase is exchanged.

The phrase is a verb phrase of several words, or a primitive:
``look twice after [walk left]`` and ``[run right] and jump``. What is predicted is the first action
in which the composed command differs from the target; the actions before it, which both share, are
given.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Final

import numpy as np

from interp_compose.papers.lrf.tasks.scan import DIRECTIONS, PRIMITIVES, commands
from interp_compose.papers.shared.text.vocabulary import BOS, SPECIALS
from interp_compose.tasks.transplants import TransplantPair
from interp_compose.types import Span

VERB: Final = "|".join(PRIMITIVES)
DIRECTION: Final = "|".join(DIRECTIONS)
PHRASES: Final = {
    "verb phrase": rf"(?:{VERB})(?: around| opposite)? (?:{DIRECTION})",
    "primitive": VERB,
}
"""What each kind of phrase looks like; *turn*, which has no action of its own, is in none. (Of two
directions none is left to be a random phrase.)"""


N_PAIRS: Final = 400
"""Pairs of each kind of phrase."""


def default_pairs(seed: int) -> tuple[TransplantPair, ...]:
    """As many pairs as a study takes."""
    return scan_transplants(N_PAIRS, seed=seed)


def scan_transplants(n: int, *, seed: int) -> tuple[TransplantPair, ...]:
    """``n`` pairs of each kind of phrase, drawn at random from all commands without *turn*, in
    random order.

    Expected, the target's own and the source's own action are three; the source's own is the one in
    the same place of its sequence.
    """
    actions = {text: means.split() for text, means in commands() if "turn" not in text.split()}
    random = np.random.default_rng(seed)
    pairs: dict[tuple[str, str, Span, Span], TransplantPair] = {}
    for number, kind in enumerate(PHRASES, 1):
        phrase = re.compile(rf"\b(?:{PHRASES[kind]})\b")
        spans_of = {text: [match.span() for match in phrase.finditer(text)] for text in actions}
        texts = [text for text, spans in spans_of.items() if spans]
        while len(pairs) < n * number:
            source, target = (texts[i] for i in random.integers(len(texts), size=2))
            taken, replaced = (
                spans_of[text][random.integers(len(spans_of[text]))] for text in (source, target)
            )
            pair = _pair(actions, source, taken, target, replaced, kind)
            if pair is not None:
                pairs[source, target, taken, replaced] = pair
    mixed = list(pairs.values())
    return tuple(mixed[i] for i in random.permutation(len(mixed)))


def _pair(
    actions: dict[str, list[str]], source: str, taken: Span, target: str, replaced: Span, kind: str
) -> TransplantPair | None:
    """None where the commands mean the same, one goes on where the other ends, the source has ended
    by then, or two of the three answers are one."""
    composed = f"{target[: replaced[0]]}{source[slice(*taken)]}{target[replaced[1] :]}"
    all_of = [actions[command] for command in (composed, target, source)]
    at = next(i for i in count() if i >= min(map(len, all_of)) or all_of[0][i] != all_of[1][i])
    answers = {each[at] for each in all_of if at < len(each)}
    if len(answers) < len(all_of):
        return None
    composed, target, source = (
        " ".join([command, SPECIALS[BOS], *means[:at]])
        for command, means in zip((composed, target, source), all_of, strict=True)
    )
    expected, answer, source_answer = (f" {means[at]}" for means in all_of)
    return TransplantPair(
        source, taken, target, replaced, expected, answer, composed, kind, kind, source_answer
    )
