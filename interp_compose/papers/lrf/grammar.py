"""What the grammars of SCAN and COGS say of a sequence's tokens: kinds, roles, phrases.

Tokens of other tasks are all of one kind, have no role and form no phrase.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from interp_compose.papers.lrf.tasks.scan import DIRECTIONS, PRIMITIVES
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.training.sequence_objective import EncodedPair

Grammar = Literal["scan", "cogs", "none"]
ALONE: Final = -1
"""The unit of a token that is pooled with no other."""
TOKEN: Final = "token"
"""The kind of every token that no grammar tells apart."""
LEXICAL: Final = ("action", "predicate", "name")
"""Kinds of target tokens that name a word of the source."""
START, END = "start", "end"
"""The kinds of the token before a target, and of the one after a source."""

SCAN_KINDS: Final = {
    **dict.fromkeys((*PRIMITIVES, "turn"), "primitive"),
    **dict.fromkeys(DIRECTIONS, "direction"),
    **dict.fromkeys(("around", "opposite"), "modifier"),
    **dict.fromkeys(("twice", "thrice"), "repetition"),
    **dict.fromkeys(("and", "after"), "conjunction"),
}
SCAN_ACTIONS: Final = {
    **{f"I_{verb.upper()}": "action" for verb in PRIMITIVES},
    **{f"I_TURN_{direction.upper()}": "turn" for direction in DIRECTIONS},
}
ROLES: Final = ("agent", "theme", "recipient")
"""Arguments of a verb of COGS."""
NO_ROLE: Final = "none"
"""The role of a noun of COGS that is no verb's argument."""
DETERMINERS: Final = ("a", "the")
PREPOSITIONS: Final = ("in", "on", "beside", "by", "to")
RELATIONS: Final = (*ROLES, "xcomp", "ccomp", "nmod", *PREPOSITIONS[:3])
"""The words of a logical form that are neither a predicate nor a name."""
SIGNS: Final = {
    **dict.fromkeys("()", "bracket"),
    **dict.fromkeys((".", ",", "AND", "*", ";", "LAMBDA"), "connective"),
    **dict.fromkeys(("x", "_", "a", "b", "e"), "variable"),
    **dict.fromkeys(RELATIONS, "relation"),
}


@dataclass(frozen=True)
class TokenKinds:
    """What is known of the tokens of a pair, the source's end and the target's start included.

    Attributes:
        source, target: the kind of each token that the encoder reads, and the decoder.
        roles: of each source token; an empty text where it has none.
        units: for each way to form phrases the phrase of each source token, :data:`ALONE` where it
            is in none.
    """

    source: Sequence[str]
    target: Sequence[str]
    roles: Sequence[str]
    units: Mapping[str, Sequence[int]] = field(default_factory=dict)


def grammar_of(data: SequenceData) -> Grammar:
    """Whose sequences these are, judged by their vocabularies."""
    source, target = set(data.source.words), set(data.target.words)
    if source | target <= {*SCAN_KINDS, *SCAN_ACTIONS}:
        return "scan"
    return "cogs" if {"x", "_", "(", ",", "agent"} <= target else "none"


def marks_of(data: SequenceData, pairs: Sequence[EncodedPair]) -> list[TokenKinds]:
    """Kinds, roles and units of each pair's tokens."""
    marks = {"scan": scan_marks, "cogs": cogs_marks, "none": plain_marks}[grammar_of(data)]
    texts = [
        (data.source.text(pair.source.tolist()), data.target.text(pair.target.tolist()))
        for pair in pairs
    ]
    return [marks(source.split(), target.split()) for source, target in texts]


def plain_marks(source: Sequence[str], target: Sequence[str]) -> TokenKinds:
    """Of a task without a grammar here."""
    return _marks([TOKEN] * len(source), [TOKEN] * len(target), [""] * len(source))


def scan_marks(source: Sequence[str], target: Sequence[str]) -> TokenKinds:
    """Of a command of SCAN and its actions.

    The role of a word within a verb phrase ("walk around left") is when and how often the phrase is
    carried out: first or second, once, twice or thrice. Other words have none. Units: ``"phrase"``
    is a verb phrase, ``"clause"`` a verb phrase with its repetition.
    """
    kinds = [SCAN_KINDS[word] for word in source]
    clause, clauses = 0, []
    for kind in kinds:
        clause += kind == "conjunction"
        clauses.append(clause)
    order = ("second", "first") if "after" in source else ("first", "second")
    times = {
        clauses[i]: word for i, (word, kind) in enumerate(zip(source, kinds, strict=True))
        if kind == "repetition"
    }  # fmt: skip
    roles, phrases, clause_units = [], [], []
    for kind, number in zip(kinds, clauses, strict=True):
        is_verb_phrase = kind not in ("conjunction", "repetition")
        place = order[min(number, 1)] if clause else "first"
        roles.append(f"{place}, {times.get(number, 'once')}" if is_verb_phrase else "")
        phrases.append(number if is_verb_phrase else ALONE)
        clause_units.append(ALONE if kind == "conjunction" else number)
    actions = [SCAN_ACTIONS[action] for action in target]
    return _marks(kinds, actions, roles, {"phrase": phrases, "clause": clause_units})


def cogs_marks(source: Sequence[str], target: Sequence[str]) -> TokenKinds:
    """Of a sentence of COGS and its logical form, in which x _ i is the sentence's word i.

    A word is a noun where a predicate has its variable alone, "cake ( x _ 4 )", and a verb where a
    verb's relation has it first, "eat . agent ( x _ 2 , …". The role of a noun or proper noun is
    the verb's relation that has it second: agent, theme or recipient; none where it has no such
    relation (after a preposition). Words alone and those that are no nouns have no role. Unit:
    ``"noun phrase"``, a determiner with its noun.
    """
    form = " ".join(target)
    if len(source) == 1:
        return _marks([_primitive(source[0], form)], [_sign(sign) for sign in target], [""])
    nouns = {int(number) for number in re.findall(r"\( x _ (\d+) \)", form)}
    heads = re.findall(r"(\w+) \. \w+ \( x _ (\d+) ,", form)
    verbs = {int(number) for head, number in heads if head != "nmod"}
    role_of: dict[int, str] = {}
    relations = rf"\. ({'|'.join(ROLES)}) \( x _ \d+ , (?:x _ (\d+)|(\S+)) \)"
    for role, index, name in re.findall(relations, form):
        places = [int(index)] if index else [i for i, word in enumerate(source) if word == name]
        for place in places:
            role_of.setdefault(place, role)
    kinds = []
    for i, word in enumerate(source):
        if word.lower() in DETERMINERS:
            kinds.append("determiner")
        elif i in nouns:
            kinds.append("noun")
        elif i in verbs:
            kinds.append("verb")
        elif word in PREPOSITIONS and i + 1 not in verbs:  # not "needed to cook"
            kinds.append("preposition")
        else:
            kinds.append("proper noun" if word[0].isupper() else "other")
    roles = [
        role_of.get(i, NO_ROLE) if kind in ("noun", "proper noun") else ""
        for i, kind in enumerate(kinds)
    ]
    phrases = [ALONE] * len(source)
    for i in range(len(source) - 1):
        if kinds[i : i + 2] == ["determiner", "noun"]:
            phrases[i : i + 2] = i, i
    return _marks(kinds, [_sign(sign) for sign in target], roles, {"noun phrase": phrases})


def _primitive(word: str, form: str) -> str:
    """The kind of a word that COGS shows alone: "LAMBDA a . cake ( a )", or a verb's relations."""
    if word[0].isupper():
        return "proper noun"
    return "verb" if any(f". {role} (" in form for role in ROLES) else "noun"


def _sign(sign: str) -> str:
    """The kind of a token of a logical form of COGS."""
    if sign.isdigit():
        return "variable"
    return SIGNS.get(sign, "name" if sign[0].isupper() else "predicate")


def _marks(
    source: Sequence[str],
    target: Sequence[str],
    roles: Sequence[str],
    units: Mapping[str, Sequence[int]] | None = None,
) -> TokenKinds:
    """With the source's end and the target's start."""
    with_end = {name: [*groups, ALONE] for name, groups in (units or {}).items()}
    return TokenKinds([*source, END], [START, *target], [*roles, ""], with_end)
