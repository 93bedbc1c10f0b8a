"""What a CAP curve says, in sentences: whether one vector per unit suffices at a layer, and whether
that is the unit's doing or any spans'.

At each layer paired differences are decided (:func:`relation`), and the first of :data:`READINGS`
that they meet is what the layer shows. Accuracy is compared, or the answer's log-probability where
a curve compares that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from interp_compose.studies.core.text import counted

if TYPE_CHECKING:
    from interp_compose.studies.cap.result import CapCurve

BELOW, ABOVE, NEAR, OPEN = "below", "above", "near", "open"
LEVEL: Final = 0.05
MARGINS: Final = {"accuracy": 0.05, "target_logprob": 0.1}
"""Within which a difference is called none: 5 points of accuracy, or .1 nats an answer."""

WORD, EDGES, NONE = "word", "edges", "none"
LAST, FIRST, EITHER = "the last token", "the first token", "either end"
SPANS: Final = {"straddling": "spans one token off", "shuffled": "spans elsewhere"}
OVERWRITTEN: Final = {"deleting": "overwriting", "losing positions": "overwriting positions"}
"""Words of a meaning, and those for broadcasting, which puts a vector into all places of a unit and
loses none."""
Row = Mapping[str, Any]


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


def relation(row: Row, margin: float) -> str:
    """How the first of a paired difference lies to the second: below or above it where p after
    Holm's correction is below .05 and the interval does not hold 0, near it where the interval lies
    within ``margin`` on both sides, else open."""
    low, high = row["ci_low"], row["ci_high"]
    if row["p_holm"] < LEVEL and not low <= 0 <= high:
        return ABOVE if low > 0 else BELOW
    return NEAR if -margin <= low and high <= margin else OPEN


def examples_needed(row: Row, margin: float) -> int:
    """So many examples decide an open difference if it stays as it is: the interval, whose sides
    shrink with √n, then ends at 0, or at the margin where that takes fewer. More than there are,
    since Holm's correction may leave open what its interval alone would decide."""
    difference: float = row["difference"]
    wider: float = max(difference - row["ci_low"], row["ci_high"] - difference)
    side = max(abs(difference), margin - abs(difference))
    return max(ceil(float(row["n"]) * (wider / side) ** 2), int(row["n"]) + 1)


_Layer = tuple[int, Reading | None, dict[str, Row]]


def answers(curve: CapCurve) -> list[str]:
    """One or two sentences that answer what the curve asks."""
    names = list(dict.fromkeys(curve.frame["pooling"]))
    value = curve._value
    if value == "target_logprob" and len(curve.clean) == 1:
        return []
    spans = next((name for name in ("straddling", "shuffled") if name in names), None)
    cost, costs = _cost(curve, names[0], spans)
    can_fall = float((curve.clean["correct"] & curve.clean["affected"]).mean())
    if value == "accuracy" and can_fall <= 2 * MARGINS[value]:
        few = (
            f"Pooling can cost at most {amount(can_fall, value)}, since "
            f"{_number(can_fall, value)} % of the examples are right and have a unit of several "
            f"tokens: a cost within {amount(MARGINS[value], value)} is not called none here."
        )
        return [cost, few] if costs else [few]
    if "mean" in names and spans and {"last", "first"} <= {*names}:
        return [cost, _reading(curve, spans)]
    return [cost]


def _cost(curve: CapCurve, pooling: str, spans: str | None) -> tuple[str, bool]:
    """What pooling costs at the layer that keeps least, and other spans there; whether it costs
    anything at some layer."""
    value, units = curve._value, plural(curve)
    margin, frame = MARGINS[value], curve.differences(pooling, value=value)
    rows: list[Row] = [
        {str(name): cell for name, cell in row.items()} for row in frame.to_dict("records")
    ]
    least = min(rows, key=lambda row: float(row["difference"]))
    costly = [row for row in rows if relation(row, margin) == BELOW]
    if not costly:
        none = all(row["ci_low"] >= -margin for row in rows)
        start = (
            f"Pooling {units} by {pooling} costs no more than {amount(margin, value)}"
            if none
            else f"No cost of pooling {units} by {pooling} is established"
        )
        lowest = min(rows, key=lambda row: float(row["ci_low"]))
        where = "where least is left"
        if not none and least["ci_low"] >= -margin:  # what is open is another layer
            least, where = lowest, "where the interval reaches lowest"
        change = between(least["ci_low"], least["ci_high"], value)
        kept = f"at layer {least['layer']}, {where}, {change} than clean is kept (95 %)"
        return f"{start}: {kept}.", False
    worst = min(costly, key=lambda row: float(row["difference"]))
    most = "most" if worst is least else "most, where a cost is established,"
    text = (
        f"Pooling {units} by {pooling} costs {most} at layer {worst['layer']}: "
        f"{amount(-worst['difference'], value)} "
        f"[{_number(-worst['ci_high'], value)}, {_number(-worst['ci_low'], value)}]"
    )
    if spans is None or pooling != "mean":
        return f"{text}.", True
    other = curve.differences(spans, "mean", value=value)
    row = other[other["layer"] == worst["layer"]].iloc[0]
    kept = between(row["ci_low"], row["ci_high"], value)
    return f"{text}; {SPANS[spans]} keep {kept} (95 %).", True


def _reading(curve: CapCurve, spans: str) -> str:
    """Where one vector per unit suffices, or that none is in sight, or why it is open."""
    unit, margin = str(curve.config["unit"]), MARGINS[curve._value]
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
            f"stays within {amount(margin, curve._value)} of clean"
            if near
            else f"keeps more than clean{'' if gains else ', or stays near it'}"
        )
        return (
            f"One vector per {unit} suffices at {_places(shown[WORD])}: mean {mean}, while its "
            f"first or last token alone and {other} keep less."
        )
    if EDGES in shown:
        edges = (
            f"a {unit}'s edges matter, and it is not yet one vector"
            if spans == "straddling"
            else f"a {unit} is not yet one vector"
        )
        least = min(rows["mean"]["ci_low"] for layer, _, rows in layers if layer in shown[EDGES])
        small = f", though no more than {amount(margin, curve._value)}," if least >= -margin else ""
        than = "spans across the edges" if spans == "straddling" else SPANS[spans]
        return (
            f"At {_places(shown[EDGES])} {edges}: mean costs something{small or ','} and less than "
            f"{than}."
        )
    meaning = _commonest(layers, unit, curve.config.get("mode", "collapse"))
    if OPEN not in shown:
        return f"No evidence of one vector per {unit}: {meaning}."
    needed = max(
        examples_needed(row, margin)
        for _, found, rows in layers
        if found is None
        for row in rows.values()
        if relation(row, margin) == OPEN
    )
    start = (
        f"No evidence of one vector per {unit}: {meaning}"
        if NONE in shown
        else f"Nothing can be said about one vector per {unit}"
    )
    return (
        f"{start}; open at {_places(shown[OPEN])}, where an interval reaches beyond "
        f"{amount(margin, curve._value)} or a difference is in doubt: about "
        f"{counted(100 * ceil(needed / 100), 'examples')} would decide it, were it as measured."
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
    return f"at {_places(places)}, {meaning.replace('{unit}', unit)}"


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
        yield int(layer), reading(rows, MARGINS[value]), rows


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


def amount(number: float, value: str) -> str:
    """``5 points`` of accuracy, ``0.10 nats an answer``."""
    unit = "points" if value == "accuracy" else "nats an answer"
    return f"{_number(number, value)} {unit}"


def between(low: float, high: float, value: str) -> str:
    """An interval of differences: ``between 4 points less and 2 more``."""
    unit = "points" if value == "accuracy" else "nats an answer"
    ends = [_number(abs(end), value) for end in (low, high)]
    if low < 0 < high:
        return f"between {ends[0]} {unit} less and {ends[1]} more"
    more, ends = ("more", ends) if low >= 0 else ("less", ends[::-1])
    return f"between {ends[0]} and {ends[1]} {unit} {more}"


def _number(number: float, value: str) -> str:
    """In whole points, or one decimal below 10; nats with one, or two below 10."""
    if value != "accuracy":
        return f"{number:.{1 if abs(number) >= 10 else 2}f}".replace("-", "−")
    points = 100 * number
    return f"{points:.0f}" if abs(points) >= 10 else f"{points:.1f}".removesuffix(".0")


def _places(layers: Sequence[int]) -> str:
    """``layer 3``, ``layers 0, 1 and 4 to 8``."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    texts: list[str] = []
    for run in runs:
        texts += map(str, run) if len(run) < 3 else [f"{run[0]} to {run[-1]}"]
    whole = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    return f"layer{'s' * (len(layers) > 1)} {whole}"
