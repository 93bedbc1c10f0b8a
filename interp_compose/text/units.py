"""Tokens ↔ words by character offsets.

A *unit* is what CAP pools into one vector (CARMA, section 4.3):

``word``
    A word by spaCy's rule-based English tokenizer (``spacy.blank("en")``, no download): punctuation
    is separate and contractions are two words, ``do`` and ``n't``. Where a token spans several
    words, they are one group: GPT-2 splits ``don`` + ``'t``, so ``don't`` is one there; a single
    token ``."`` is one group of two punctuation marks.
``pretoken``
    The tokenizer's boundaries, as the original CAP code reads them: a group begins where a blank
    precedes the token (which ``Ġ`` and ``▁`` encode; newlines count as well), and with WordPiece at
    every token without ``##``. (That code also joins BOS to the first word.)
``constituent``
    The constituents that :mod:`~interp_compose.text.constituents` chooses; words elsewhere.
``span``
    The example's own ``spans``; every token outside them is a group of its own.

Always: special tokens are in no group, every other token in exactly one. Tokens that share a
character share a group, blanks belong to what follows them (:func:`.alignment.group_tokens`), but
not outside spans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int

from interp_compose._public import public
from interp_compose.errors import AlignmentError, DataFormatError, OptionError, SpanError
from interp_compose.text import alignment
from interp_compose.text.encoding import Encoded, encode
from interp_compose.text.spacy_words import word_starts
from interp_compose.types import Example, Span


@dataclass(frozen=True, eq=False)
class TokenizedPrompt:
    """A prompt's tokens and the unit each belongs to.

    ``ids`` are the tokenizer's, special tokens included; ``groups`` is -1 for these and
    else counts the units 0, 1, …, never decreasing; ``offsets`` are character ranges of ``text``,
    (0, 0) for specials.
    """

    text: str
    ids: Int[np.ndarray, "pos"]
    groups: Int[np.ndarray, "pos"]
    offsets: Int[np.ndarray, "pos 2"]
    n_source: int | None = None
    """Tokens before the target's, in a row of an encoder–decoder; None where there is one text."""

    @property
    def n_groups(self) -> int:
        return int(self.groups.max(initial=-1)) + 1

    @property
    def n_pooled(self) -> int:
        """Positions after a collapse: units and special tokens."""
        return self.n_groups + int((self.groups < 0).sum())

    @property
    def affected(self) -> bool:
        """Whether pooling changes anything: some unit has several tokens."""
        return bool((self.group_sizes() > 1).any())

    @property
    def n_before_change(self) -> int:
        """Tokens before the first unit of several; all of them where there is none."""
        several = np.flatnonzero(self.group_sizes() > 1)
        places = np.flatnonzero(np.isin(self.groups, several))
        return int(places[0]) if len(places) else len(self.ids)

    def group_text(self, i: int) -> str:
        """The text of unit ``i``, without blanks around it."""
        begin, end = self.offsets[self.groups == i].T
        return self.text[begin.min() : end.max()].strip()

    def group_sizes(self) -> Int[np.ndarray, "group"]:
        """How many tokens each unit has."""
        return np.bincount(self.groups[self.groups >= 0])

    def with_last_apart(self) -> TokenizedPrompt:
        """The same prompt with the token of its last position, where the answer is predicted, as
        a group of its own. Unchanged if it is one already, or is a special token.
        """
        last = self.groups[-1]
        if last < 0 or np.count_nonzero(self.groups == last) == 1:
            return self
        groups = self.groups.copy()
        groups[-1] = last + 1
        return replace(self, groups=groups)

    def followed_by(self, ids: Sequence[int]) -> TokenizedPrompt:
        """The same prompt, and behind it tokens that are in no group."""
        if not ids:
            return self
        return replace(
            self,
            ids=np.append(self.ids, ids),
            groups=np.append(self.groups, [-1] * len(ids)),
            offsets=np.append(self.offsets, np.zeros((len(ids), 2), dtype=np.int64), axis=0),
        )


Unit = Literal["word", "pretoken", "constituent", "span"]
_BATCH = 4096  # prompts that share a character axis; bounds the memory


@public
def tokenize_prompts(
    tokenizer: Callable[..., Any],
    examples: Sequence[Example | str],
    *,
    unit: Unit = "word",
    labels: frozenset[str] | None = None,
    height: int | None = None,
    parser: str | None = None,
) -> list[TokenizedPrompt]:
    """Tokenize prompts and group their tokens into units; results in the order of ``examples``,
    which may be bare texts.

    ``labels``, ``height`` and ``parser`` belong to ``unit="constituent"``: which constituents
    (:func:`.constituents.tree_spans`), and who parses (:func:`.parsers.parse_spans`); without a
    parser the examples' own trees are read.

    Special tokens are in no unit; nor are those that the text itself has, but inside given spans.

    Raises ``OptionError`` for an unknown unit or an option of another unit, ``PromptError`` for
    an empty prompt, ``SpanError`` for missing or impossible spans, ``AlignmentError`` where
    tokens and text cannot be matched with certainty.
    """
    if unit != "constituent" and (labels, height, parser) != (None, None, None):
        raise OptionError(
            f"labels, height and parser choose constituents and mean nothing for unit {unit!r}; "
            'leave them out, or pass unit="constituent"'
        )
    rows = [Example(one, "") if isinstance(one, str) else one for one in examples]
    alignment.refuse_empty([row.prompt for row in rows])
    spans: Sequence[Sequence[Span]] = ()
    if unit == "span":
        spans = [_given_spans(row, i) for i, row in enumerate(rows)]
    elif unit == "constituent":
        spans = _constituents(rows, labels, height, parser)
    out: list[TokenizedPrompt] = []
    for first in range(0, len(rows), _BATCH):
        batch = slice(first, first + _BATCH)
        axis = alignment.lay_out([row.prompt for row in rows[batch]], first)
        encoded = encode(tokenizer, axis.prompts, first=first)
        if unit == "pretoken":
            starts = _pretoken_starts(tokenizer, axis, encoded)
        elif unit == "span":
            starts = alignment.blocks(axis, np.ones_like(axis.visible), spans[batch])
        else:
            starts = word_starts(axis.text, axis.visible)
            if unit == "constituent":
                starts = alignment.blocks(axis, starts, spans[batch])
        groups, offsets = alignment.group_tokens(
            axis,
            starts,
            encoded.offsets,
            encoded.special,
            encoded.text_of,
            spans=spans[batch] if unit == "span" else None,
            first=first,
        )
        ends = np.cumsum(encoded.counts).tolist()
        for prompt, low, high in zip(axis.prompts, [0, *ends], ends, strict=False):
            of_prompt = groups[low:high]
            if unit != "span" and encoded.written[low:high].any():
                of_prompt = np.where(encoded.written[low:high], -1, of_prompt)
                # 0, 1, … again; a unit that such a token divides is two.
                begins = (np.diff(of_prompt, prepend=-1) != 0) & (of_prompt >= 0)
                of_prompt = np.where(of_prompt >= 0, np.cumsum(begins) - 1, -1)
            out.append(TokenizedPrompt(prompt, encoded.ids[low:high], of_prompt, offsets[low:high]))
    return out


def _pretoken_starts(
    tokenizer: Any, axis: alignment.CharacterAxis, encoded: Encoded
) -> Bool[np.ndarray, "char"]:
    """Starts after every blank; with WordPiece, at every token that does not continue a word."""
    prefix = getattr(
        getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None),
        "continuing_subword_prefix",
        None,
    )
    starts = np.append(True, ~axis.visible[:-1])
    if prefix:
        distinct, index = np.unique(encoded.ids, return_inverse=True)
        surfaces = tokenizer.convert_ids_to_tokens(distinct.tolist())
        begins = np.array([not surface.startswith(prefix) for surface in surfaces])[index]
        chosen = np.flatnonzero(begins & (encoded.offsets[:, 0] < encoded.offsets[:, 1]))
        starts[axis.next[encoded.offsets[chosen, 0] + axis.base[encoded.text_of[chosen]]]] = True
    return starts


def _given_spans(example: Example, index: int) -> Sequence[Span]:
    """The example's spans, refused unless they are ranges of the prompt that do not overlap."""
    remedy = "spans are (start, end) character ranges of the prompt, end not included"
    if example.spans is None:
        raise SpanError(
            f'example {index} has no spans, which unit="span" pools; {remedy}; '
            "give it spans=(), in a table [], if none of its tokens is to be pooled"
        )
    prompt = example.prompt
    for low, high in example.spans:
        if not 0 <= low < high <= len(prompt):
            raise SpanError(
                f"example {index}: the span ({low}, {high}) is empty or leaves the prompt's "
                f"{len(prompt)} characters; {remedy}"
            )
        if prompt[low:high].isspace():
            raise SpanError(
                f"example {index}: the span ({low}, {high}) of {prompt!r} holds only blanks; "
                f"{remedy}, with at least one that is not blank"
            )
    ordered = sorted(example.spans)
    for one, two in pairwise(ordered):
        if two[0] < one[1]:
            raise SpanError(
                f"example {index}: the spans {one} and {two} overlap; {remedy}, "
                "and a token is pooled once: drop or shorten one"
            )
    return ordered


def _constituents(
    examples: Sequence[Example],
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
) -> Sequence[Sequence[Span]]:
    if parser is not None:
        from interp_compose.text.parsers import parse_spans

        prompts = [example.prompt for example in examples]
        return _some(parse_spans(prompts, parser, labels=labels, height=height), labels, height)
    from interp_compose.text.constituents import tree_spans, warn_of_absent

    spans = []
    for i, example in enumerate(examples):
        if example.tree is None:
            raise SpanError(
                f'example {i} has no tree, from which unit="constituent" reads constituents; '
                'give it one, or pass parser="benepar", "stanza" or "spacy"'
            )
        try:
            spans.append(tree_spans(example.tree, example.prompt, labels=labels, height=height))
        except (AlignmentError, DataFormatError) as error:
            raise type(error)(f"example {i}: {error}") from error
    chosen = _some(spans, labels, height)
    warn_of_absent(labels, (example.tree or "" for example in examples))
    return chosen


def _some(
    spans: Sequence[Sequence[Span]], labels: frozenset[str] | None, height: int | None
) -> Sequence[Sequence[Span]]:
    """Refuse a choice of constituents that chooses none: words would be pooled instead."""
    if any(spans) or not spans:
        return spans
    raise SpanError(
        f"labels={sorted(labels) if labels else None}, height={height} choose no constituent in "
        f"any of {len(spans)} trees; see which labels the trees have, or raise the height"
    )
