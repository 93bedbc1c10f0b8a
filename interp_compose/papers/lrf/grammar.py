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
        target_roles: of each token that the decoder reads.
        units: for each way to form phrases the phrase of each source token, :data:`ALONE` where it
            is in none.
    """

    source: Sequence[str]
    target: Sequence[str]
    roles: Sequence[str]
    target_roles: Sequence[str] = ()
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
    nothing = [""] * len(source), [""] * len(target)
    return _marks([TOKEN] * len(source), [TOKEN] * len(target), *nothing)


def scan_marks(source: Sequence[str], target: Sequence[str]) -> TokenKinds:
    """Of a command of SCAN and its actions.

    The role of a word within a verb phrase ("walk around left") is when and how often the phrase is
    carried out: first or second, once, twice or thrice. Other words have none. An action has the
    role of the verb phrase that it carries out. Units: ``"phrase"`` is a verb phrase,
    ``"clause"`` a verb phrase with its repetition.
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
    # What is carried out first comes first: the clause after "after", else the first one.
    target_roles = []
    for number in sorted(set(phrases) - {ALONE}, key=lambda number: roles[phrases.index(number)]):
        phrase = [word for word, own in zip(source, phrases, strict=True) if own == number]
        n_times = {"twice": 2, "thrice": 3}.get(times.get(number, ""), 1)
        target_roles += [roles[phrases.index(number)]] * (_n_actions(phrase) * n_times)
    target_roles = [*target_roles, *[""] * len(target)][: len(target)]  # of what is no such pair
    return _marks(kinds, actions, roles, target_roles, {"phrase": phrases, "clause": clause_units})


def _n_actions(phrase: Sequence[str]) -> int:
    """Of a verb phrase of SCAN: V, V D, V opposite D or V around D."""
    of_verb = int(phrase[0] != "turn")
    if "around" in phrase:
        return 4 * (1 + of_verb)
    return of_verb + (2 if "opposite" in phrase else int(len(phrase) > 1))


def cogs_marks(source: Sequence[str], target: Sequence[str]) -> TokenKinds:
    """Of a sentence of COGS and its logical form, in which x _ i is the sentence's word i.

    A word is a noun where a predicate has its variable alone, "cake ( x _ 4 )", and a verb where a
    verb's relation has it first, "eat . agent ( x _ 2 , …". The role of a noun or proper noun is
    the verb's relation that has it second: agent, theme or recipient; none where it has no such
    relation (after a preposition). Words alone and those that are no nouns have no role. In a
    logical form that of a noun has its predicate, and that of a proper noun its name. Unit: ``"noun
    phrase"``, a determiner with its noun.
    """
    form = " ".join(target)
    if len(source) == 1:
        no_roles = [""] * len(target)
        return _marks([_primitive(source[0], form)], [*map(_sign, target)], [""], no_roles)
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
    signs = [_sign(sign) for sign in target]
    target_roles = [""] * len(target)
    for i, sign in enumerate(signs):
        # "cake ( x _ 3 )": a noun's predicate has its variable alone.
        alone = re.match(r"\( x _ (\d+) \)", " ".join(target[i + 1 : i + 6]))
        if sign == "predicate" and alone:
            target_roles[i] = role_of.get(int(alone[1]), NO_ROLE)
        elif sign == "name":  # "give . agent ( x _ 1 , Paula )"
            target_roles[i] = _relation_before(target, i)
    return _marks(kinds, signs, roles, target_roles, {"noun phrase": phrases})


def _relation_before(form: Sequence[str], name: int) -> str:
    """The relation of a verb in whose brackets a name of a logical form of COGS is, or none."""
    opening = max((i for i in range(name) if form[i] == "("), default=0)
    relation = form[opening - 1] if opening else ""
    return relation if relation in ROLES else NO_ROLE


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
    target_roles: Sequence[str],
    units: Mapping[str, Sequence[int]] | None = None,
) -> TokenKinds:
    """With the source's end and the target's start."""
    with_end = {name: [*groups, ALONE] for name, groups in (units or {}).items()}
    kinds = [*source, END], [START, *target]
    return TokenKinds(*kinds, [*roles, ""], ["", *target_roles], with_end)
