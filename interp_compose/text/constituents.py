"""Phrases: constituents of a bracketed tree, as character spans of a prompt.

A constituent's *height* is 1 for a word with its tag, else one more than its highest child's.
Chosen are the *maximal* constituents, those not inside another one, that

- are at most ``height`` high, and
- have one of ``labels`` (the whole tree too, if its label is among them), whatever other function
  tags and indices it has: NP is the label of NP-SBJ-1 and NP=2 too, NP-SBJ of NP-TTL-SBJ-1.

Either may be left out. With neither, the height is 3: on SST's binary trees these are phrases of
two to four words, which hold 61 % of all words at 2.7 words each (height 2 makes pairs only, for
47 % of the words; height 4 reaches up to eight words); on Penn trees, noun phrases without a
clause inside and short prepositional ones. A constituent of one word stays a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from interp_compose.errors import AlignmentError, DataFormatError, OptionError, shortened, warn
from interp_compose.types import Span

if TYPE_CHECKING:
    from nltk import Tree

ESCAPES = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "\\/": "/",
    "\\*": "*",
}


def without_escapes(word: str) -> str:
    """A leaf as it is written in running text; quotation marks are left as they are."""
    for escape, character in ESCAPES.items():
        word = word.replace(escape, character)
    return word


DEFAULT_HEIGHT = 3

_LABEL = re.compile(r"\(\s*([^\s()]+)")
_QUOTES = {"``": '"“„«', "''": '"”“»', '"': "“”„«»", "`": "'‘", "'": "’‘"}


def tree_spans(
    tree: str,
    prompt: str,
    *,
    labels: frozenset[str] | None = None,
    height: int | None = None,
) -> tuple[Span, ...]:
    """Character ranges of ``prompt`` that the chosen constituents of ``tree`` cover, in order.

    ``tree`` is a bracketing as in the Penn Treebank or SST. Its leaves have to occur in the
    prompt one after the other, with nothing but blanks (or nothing) between them; the prompt may
    hold more text around them. Penn's escapes (``-LRB-``, ``\\/``, its quotes, …) match themselves
    and the characters they encode; traces (``-NONE-``) are skipped.

    Raises ``DataFormatError`` for a garbled tree, ``AlignmentError`` where a leaf is not found or
    the sentence occurs twice, ``OptionError`` for a height below 1 or an empty set of labels.
    """
    check_choice(labels, height)
    parsed = read_tree(tree)
    spans = leaf_spans(leaves(parsed), prompt)
    chosen = choose(parsed, labels=labels, height=height)
    return tuple((spans[first][0], spans[last - 1][1]) for first, last in chosen)


def read_tree(tree: str) -> Tree:
    """Parse a bracketing and drop its traces; ``DataFormatError`` if it is garbled or empty."""
    from nltk import Tree  # here, since nltk takes long to import, and few tasks have trees

    try:
        parsed = Tree.fromstring(tree)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise DataFormatError(
            f"the tree {tree[:80]!r} is not a bracketing: {reason}; "
            "expected one like '(NP (DT the) (NN dog))'"
        ) from error
    words = _without_traces(parsed) if "-NONE-" in tree else parsed
    if words is None or not words.leaves():
        raise DataFormatError(
            f"the tree {tree[:80]!r} has no words; expected one like '(NP (DT the) (NN dog))'"
        )
    return words


def leaves(tree: Tree) -> list[str]:
    words: list[str] = tree.leaves()
    return words


def check_choice(labels: frozenset[str] | None, height: int | None) -> None:
    """Refuse a choice of constituents that could not choose any."""
    if height is not None and height < 1:
        raise OptionError(f"height {height} chooses nothing; a word is 1 high, a phrase 2 or more")
    if labels is not None and not labels:
        raise OptionError("labels is empty and chooses nothing; leave it out or name some, as 'NP'")


def choose(
    tree: Tree, *, labels: frozenset[str] | None = None, height: int | None = None
) -> list[tuple[int, int]]:
    """Leaf ranges ``[first, last)`` of the maximal constituents, of two leaves or more."""
    if labels is None and height is None:
        height = DEFAULT_HEIGHT
    chosen: list[tuple[int, int]] = []
    first = 0  # leaves passed so far
    ahead: list[Any] = [tree]
    while ahead:
        node = ahead.pop()
        if isinstance(node, str):  # a leaf
            first += 1
        elif (labels is None or any(is_called(node.label(), label) for label in labels)) and (
            height is None or node.height() - 1 <= height  # nltk counts a bare leaf as 1
        ):
            last = first + len(node.leaves())
            if last - first > 1:
                chosen.append((first, last))
            first = last
        else:
            ahead.extend(reversed(node))
    return chosen


def is_called(label: str, wanted: str) -> bool:
    """Whether a Penn label has the category of ``wanted`` and all of its function tags and indices:
    NP-TTL-SBJ-1 is called NP, NP-SBJ, NP-SBJ-1. One that begins with a hyphen (-LRB-) has no tags.
    """
    (category, *tags), (wanted_category, *wanted_tags) = _parts(label), _parts(wanted)
    return category == wanted_category and set(wanted_tags) <= set(tags)


@lru_cache(maxsize=2**12)
def _parts(label: str) -> list[str]:
    return [label] if label.startswith("-") else re.split("(?=[-=|])", label)


def warn_of_absent(labels: frozenset[str] | None, trees: Iterable[str]) -> None:
    """Name, in a warning, the given labels that none of these bracketings has."""
    present = {one for tree in trees for one in _LABEL.findall(tree)}
    absent = [one for one in sorted(labels or ()) if not any(is_called(it, one) for it in present)]
    if absent:
        have = ", ".join(sorted({_parts(one)[0] for one in present}))
        names = f"{', '.join(map(repr, absent))}, so it pools nothing; the trees have {have}"
        warn(shortened(f"labels: no tree has {names}"))


def leaf_spans(words: Sequence[str], prompt: str) -> list[Span]:
    """Character ranges of the leaves in the prompt, where they occur one after the other.

    An occurrence that begins and ends at the edges of words is preferred to one inside a word; two
    equally good ones are refused.
    """
    forms = [_forms(word) for word in words]
    by_end: dict[int, list[Span]] = {}  # of overlapping rows the longest: it begins first
    reached = 0
    # of each form of the first leaf every occurrence, also those that overlap
    matches = (re.finditer(f"(?={re.escape(form)})", prompt) for form in forms[0])
    for start in sorted({match.start() for of_form in matches for match in of_form}):
        row = _row_at(prompt, start, forms)
        reached = max(reached, len(row))
        if len(row) == len(forms):
            by_end.setdefault(row[-1][1], row)
    rows = list(by_end.values())
    if not rows:
        raise AlignmentError(
            f"the tree's leaf {words[reached]!r} (number {reached + 1} of {len(words)}) does not "
            f"follow the leaves before it in the prompt {prompt!r}; the prompt has to hold the "
            "tree's words in order with only blanks between them: correct the tree or the prompt"
        )
    whole = [row for row in rows if not _inside_word(prompt, row[0][0], row[-1][1])]
    best = whole or rows
    if len(best) > 1:
        raise AlignmentError(
            f"the tree's sentence {' '.join(words)!r} occurs {len(best)} times in the prompt "
            f"{prompt!r}, at characters {[row[0][0] for row in best]}, and either may be "
            "meant: change the prompt so that it occurs once"
        )
    return best[0]


def _row_at(prompt: str, start: int, forms: Sequence[Sequence[str]]) -> list[Span]:
    """The ranges of as many leaves as follow one another from ``start`` on."""
    row: list[Span] = []
    place = start
    for options in forms:
        while row and place < len(prompt) and prompt[place].isspace():
            place += 1
        match = next((form for form in options if prompt.startswith(form, place)), None)
        if match is None:
            break
        row.append((place, place + len(match)))
        place += len(match)
    return row


@lru_cache(maxsize=2**16)
def _forms(word: str) -> tuple[str, ...]:
    """The texts that a leaf may encode: itself first, then with Penn's escapes undone."""
    return tuple(dict.fromkeys([word, without_escapes(word), *_QUOTES.get(word, "")]))


def _inside_word(prompt: str, start: int, end: int) -> bool:
    cut_left = start > 0 and prompt[start - 1].isalnum() and prompt[start].isalnum()
    cut_right = end < len(prompt) and prompt[end].isalnum() and prompt[end - 1].isalnum()
    return cut_left or cut_right


def _without_traces(tree: Tree) -> Tree | None:
    if tree.label() == "-NONE-":
        return None
    nodes = [node if isinstance(node, str) else _without_traces(node) for node in tree]
    nodes = [node for node in nodes if node is not None]
    return type(tree)(tree.label(), nodes) if nodes else None
