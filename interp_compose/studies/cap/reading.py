"""What a CAP curve says, in sentences: whether one vector per unit suffices at a layer, and whether
that is the unit's doing or any spans'.

At each layer paired differences are decided (:func:`relation`), and the first of :data:`READINGS`
that they meet is what the layer shows. Accuracy is compared, or the answer's log-probability where
a curve compares that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from interp_compose.studies.core.decided import (
    ABOVE,
    ACCURACY,
    BELOW,
    NATS,
    NEAR,
    OPEN,
    Row,
    layers_named,
    records,
    relation,
    would_decide,
)

if TYPE_CHECKING:
    from interp_compose.studies.cap.result import CapCurve

MEASURES: Final = {"accuracy": ACCURACY, "target_logprob": NATS}
"""Whose margins, within which a difference is called none, are 5 points and .1 nats an answer."""

WORD, EDGES, NONE = "word", "edges", "none"
LAST, FIRST, EITHER = "the last token", "the first token", "either end"
SPANS: Final = {"straddling": "spans one token off", "shuffled": "spans elsewhere"}
OVERWRITTEN: Final = {"deleting": "overwriting", "losing positions": "overwriting positions"}
"""Words of a meaning, and those for broadcasting, which puts a vector into all places of a unit and
loses none."""


@dataclass(frozen=True)
class Reading:
    """What a layer shows where each of these states is one of those named (of none: any).

    ``mean``: against clean; ``alone``: the better of ``last`` and ``first`` against clean, of which
    ``which`` are near it; ``spans``: ``straddling``, or ``shuffled`` where that did not run,
    against ``mean``; ``kept``: ``mean`` against the better of ``last`` and ``first``.
    """

    mean: tuple[str, ...]
    alone: tuple[str, ...]
    spans: tuple[str, ...]
    meaning: str
    shows: str = NONE
    which: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def meets(self, states: Mapping[str, str]) -> bool:
        """All of its conditions hold."""
        return all(
            states[name] in allowed
            for name in ("mean", "alone", "spans", "which", "kept")
            if (allowed := getattr(self, name))
        )


_NEAR, _BELOW, _NOT_BELOW, _ANY = (NEAR, ABOVE), (BELOW,), (NEAR, ABOVE), ()
READINGS: Final = (
    Reading(
        *(_NEAR, _NEAR, _BELOW),
        "{which} alone already holds the {unit}: deleting the others costs nothing, so that "
        "pooling is not what keeps it",
    ),
    Reading(
        *(_NEAR, _BELOW, _BELOW),
        "pooling keeps what deleting loses, and over the {unit}'s own tokens alone",
        WORD,
        kept=(ABOVE,),
    ),
    Reading(
        *(_NEAR, _BELOW, _NOT_BELOW),
        "pooling keeps what deleting loses, but over other spans as well: the {unit}'s edges are "
        "not what matters",
        kept=(ABOVE,),
    ),
    Reading(
        *(_NEAR, _BELOW, _ANY),
        "deleting costs something, and pooling is not set apart from it",
        kept=(NEAR, BELOW),
    ),
    Reading(
        *(_NEAR, _NEAR, _NOT_BELOW),
        "the model hardly reads these positions any more: deleting all but one of a {unit}'s "
        "tokens costs nothing, whichever is kept",
        which=(EITHER,),
    ),
    Reading(
        *(_NEAR, _NEAR, _NOT_BELOW),
        "{which} alone holds the {unit}, and neither deleting the others nor pooling any spans "
        "costs anything",
    ),
    Reading(
        *(_BELOW, _ANY, (ABOVE,)),
        "pooling {unit}s costs more than pooling as many tokens elsewhere",
    ),
    Reading(
        *(_BELOW, _NEAR, (BELOW, NEAR)),
        "{which} alone holds the {unit}, and pooling it with the others destroys that",
        kept=_BELOW,
    ),
    Reading(
        *(_BELOW, _NEAR, (BELOW, NEAR)),
        "{which} alone holds the {unit}, and pooling costs something, but is not set apart from it",
        kept=(NEAR, ABOVE),
    ),
    Reading(
        *(_BELOW, _BELOW, _BELOW),
        "pooling costs something, but less than over spans that cross the {unit}'s edges",
        EDGES,
    ),
    Reading(
        *(_BELOW, _BELOW, (NEAR,)),
        "pooling keeps part of what deleting loses, and over other spans as well",
        kept=(ABOVE,),
    ),
    Reading(
        *(_BELOW, _BELOW, (NEAR,)),
        "pooling costs more than deleting, over {unit}s as over other spans",
        kept=_BELOW,
    ),
    Reading(
        *(_BELOW, _BELOW, (NEAR,)),
        "losing positions costs something, in whatever way they are lost",
        kept=(NEAR,),
    ),
)
"""In the order in which they are tried. Of the states that are decided, one of them is met."""


_Layer = tuple[int, Reading | None, dict[str, Row]]


def answers(curve: CapCurve) -> list[str]:
    """One or two sentences that answer what the curve asks."""
    names = list(dict.fromkeys(curve.frame["pooling"]))
    value, measure = curve._value, MEASURES[curve._value]
    if value == "target_logprob" and len(curve.clean) == 1:
        return []
    spans = next((name for name in ("straddling", "shuffled") if name in names), None)
    cost, costs = _cost(curve, names[0], spans)
    can_fall = float((curve.clean["correct"] & curve.clean["affected"]).mean())
    if value == "accuracy" and can_fall <= 2 * measure.margin:
        few = (
            f"Pooling can cost at most {measure.amount(can_fall)}, since "
            f"{measure.number(can_fall)} % of the examples are right and have a unit of several "
            f"tokens: a cost within {measure.limit} is not called none here."
        )
        return [cost, few] if costs else [few]
    if "mean" in names and spans and {"last", "first"} <= {*names}:
        return [cost, _reading(curve, spans)]
    return [cost]


def _cost(curve: CapCurve, pooling: str, spans: str | None) -> tuple[str, bool]:
    """What pooling costs at the layer that keeps least, and other spans there; whether it costs
    anything at some layer."""
    value, units, measure = curve._value, plural(curve), MEASURES[curve._value]
    margin, rows = measure.margin, records(curve.differences(pooling, value=value))
    least = min(rows, key=lambda row: float(row["difference"]))
    costly = [row for row in rows if relation(row, margin) == BELOW]
    if not costly:
        none = all(row["ci_low"] >= -margin for row in rows)
        start = (
            f"Pooling {units} by {pooling} costs no more than {measure.amount(margin)}"
            if none
            else f"No cost of pooling {units} by {pooling} is established"
        )
        lowest = min(rows, key=lambda row: float(row["ci_low"]))
        where = "where least is left"
        if not none and least["ci_low"] >= -margin:  # what is open is another layer
            least, where = lowest, "where the interval reaches lowest"
        change = measure.between(least["ci_low"], least["ci_high"])
        kept = f"at layer {least['layer']}, {where}, {change} than clean is kept (95 %)"
        return f"{start}: {kept}.", False
    worst = min(costly, key=lambda row: float(row["difference"]))
    most = "most" if worst is least else "most, where a cost is established,"
    text = (
        f"Pooling {units} by {pooling} costs {most} at layer {worst['layer']}: "
        f"{measure.amount(-worst['difference'])} "
        f"[{measure.number(-worst['ci_high'])}, {measure.number(-worst['ci_low'])}]"
    )
    if spans is None or pooling != "mean":
        return f"{text}.", True
    other = curve.differences(spans, "mean", value=value)
    row = other[other["layer"] == worst["layer"]].iloc[0]
    kept = measure.between(row["ci_low"], row["ci_high"])
    return f"{text}; {SPANS[spans]} keep {kept} (95 %).", True


def _reading(curve: CapCurve, spans: str) -> str:
    """Where one vector per unit suffices, or that none is in sight, or why it is open."""
    unit, measure = str(curve.config["unit"]), MEASURES[curve._value]
    margin = measure.margin
    layers = list(_layers(curve, spans))
    shown: dict[str, list[int]] = {}
    for layer, found, _ in layers:
        shown.setdefault(found.shows if found else OPEN, []).append(layer)
    other = "spans across its edges" if spans == "straddling" else SPANS[spans]
    if WORD in shown:
        at_them = [rows["mean"] for layer, _, rows in layers if layer in shown[WORD]]
        near = all(relation(row, margin) == NEAR for row in at_them)
        gains = all(relation(row, margin) == ABOVE for row in at_them)
        mean = (
            f"stays within {measure.amount(margin)} of clean"
            if near
            else f"keeps more than clean{'' if gains else ', or stays near it'}"
        )
        return (
            f"One vector per {unit} suffices at {layers_named(shown[WORD])}: mean {mean}, while "
            f"its first or last token alone and {other} keep less."
        )
    if EDGES in shown:
        edges = (
            f"a {unit}'s edges matter, and it is not yet one vector"
            if spans == "straddling"
            else f"a {unit} is not yet one vector"
        )
        least = min(rows["mean"]["ci_low"] for layer, _, rows in layers if layer in shown[EDGES])
        small = f", though no more than {measure.amount(margin)}," if least >= -margin else ""
        than = "spans across the edges" if spans == "straddling" else SPANS[spans]
        return (
            f"At {layers_named(shown[EDGES])} {edges}: mean costs something{small or ','} and "
            f"less than {than}."
        )
    meaning = _commonest(layers, unit, curve.config.get("mode", "collapse"))
    if OPEN not in shown:
        return f"No evidence of one vector per {unit}: {meaning}."
    undecided = [
        row
        for _, found, rows in layers
        if found is None
        for row in rows.values()
        if relation(row, margin) == OPEN
    ]
    start = (
        f"No evidence of one vector per {unit}: {meaning}"
        if NONE in shown
        else f"Nothing can be said about one vector per {unit}"
    )
    return (
        f"{start}; open at {layers_named(shown[OPEN])}, where an interval reaches beyond "
        f"{measure.amount(margin)} or a difference is in doubt: "
        f"{would_decide(undecided, margin, n_compared=len(layers))}."
    )


def _commonest(layers: Sequence[_Layer], unit: str, mode: str) -> str:
    """What most layers show at which pooling costs something, or if there are none, most of all; ""
    where all are open."""
    shown: dict[str, list[int]] = {}
    decided = [(layer, found) for layer, found, _ in layers if found]
    costly = [each for each in decided if each[1].mean == _BELOW]
    for layer, found in costly or decided:
        shown.setdefault(found.meaning, []).append(layer)
    if not shown:
        return ""
    meaning, places = max(shown.items(), key=lambda each: len(each[1]))
    for word, instead in OVERWRITTEN.items() if mode == "broadcast" else ():
        meaning = meaning.replace(word, instead)
    return f"at {layers_named(places)}, {meaning.replace('{unit}', unit)}"


def _layers(curve: CapCurve, spans: str) -> Iterator[_Layer]:
    """Of each layer, what it shows (None: open), and the differences."""
    pairs = {
        **{name: (name, "clean") for name in ("mean", "last", "first")},
        "spans": (spans, "mean"),
        **{f"mean − {name}": ("mean", name) for name in ("last", "first")},
    }
    value = curve._value
    frames = {
        name: curve.differences(*pair, value=value).set_index("layer")
        for name, pair in pairs.items()
    }
    for layer in frames["mean"].index:
        rows = {name: frame.loc[layer].to_dict() for name, frame in frames.items()}
        yield int(layer), reading(rows, MEASURES[value].margin), rows


def reading(rows: Mapping[str, Row], margin: float) -> Reading | None:
    """What these differences show, None where one that matters is open."""
    each = {name: relation(row, margin) for name, row in rows.items()}
    near = [name for name in ("last", "first") if each[name] in (NEAR, ABOVE)]
    better = max(near or ("last", "first"), key=lambda name: rows[name]["difference"])
    states = {
        "mean": each["mean"],
        "alone": NEAR if near else BELOW if each["last"] == each["first"] == BELOW else OPEN,
        "which": EITHER if len(near) == 2 else LAST if near == ["last"] else FIRST,
        "spans": each["spans"],
        "kept": each[f"mean − {better}"],
    }
    met = next((one for one in READINGS if one.meets(states)), None)
    if met is None:
        return None
    return replace(met, meaning=met.meaning.replace("{which}", states["which"]))


def plural(curve: CapCurve) -> str:
    """What is pooled, of several."""
    return f"{curve.config['unit']}s"
