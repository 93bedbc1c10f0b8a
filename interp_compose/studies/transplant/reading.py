"""What transplants say, in a sentence: where a phrase's vector is taken for the phrase.

It is where the expected answer is given more often than under each random control, paired by pair;
Holm over layers and poolings for each of them. Without controls the clean model on the target
stands for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from interp_compose.studies.core.decided import (
    ABOVE,
    ACCURACY,
    Row,
    layers_named,
    paired,
    records,
    relation,
    would_decide,
)
from interp_compose.studies.core.text import counted

if TYPE_CHECKING:
    from interp_compose.studies.transplant.result import Transplants

RANDOM: Final = ("random phrase", "random direction")
CLEAN: Final = "the clean target"


def answers(found: Transplants) -> list[str]:
    """The sentence that answers what the transplants ask."""
    margin = ACCURACY.margin
    by_control = differences(found)
    names = [f"a {name}" if name in RANDOM else name for name in by_control]
    than = " and ".join(names)
    at_places = [*zip(*by_control.values(), strict=True)]
    states = [[relation(row, margin) for row in rows] for rows in at_places]
    # At each place, the control that the transplant exceeds least.
    places = [min(rows, key=lambda row: float(row["difference"])) for rows in at_places]
    carried = [
        row
        for row, decided in zip(places, states, strict=True)
        if all(state == ABOVE for state in decided)
    ]
    undecided = [
        row
        for rows, decided in zip(at_places, states, strict=True)
        if not all(state == ABOVE for state in decided)
        and all(row["ci_high"] > margin for row in rows)
        for row, state in zip(rows, decided, strict=True)
        if state != ABOVE
    ]
    first = found.frame.iloc[0]
    composed = float(first["composed_expected"]) if first["n_composed"] else float("nan")
    ceiling = ""
    if first["n_composed"]:
        ceiling = f"; the prompts composed as text get it in {_percent(composed)}"
    needed = would_decide(undecided, margin, "pairs") if undecided else ""
    if carried:
        most = max(carried, key=lambda row: float(row["difference"]))
        share = found.frame.query(
            "layer == @most['layer'] and pooling == @most['pooling'] and vector == 'transplant'"
        )["expected_accuracy"].item()
        where = f" at {_named(carried)}, most" if len(carried) > 1 else ""
        also = f"; open at {_named(undecided)}: {needed}" if undecided else ""
        return [
            f"A phrase's vector is taken for the phrase{where} at {_named([most])}: the expected "
            f"answer is given in {_percent(share)} of {counted(int(first['n']), 'pairs')}, more "
            f"often than with {than}, {ACCURACY.change(most)} (95 %){ceiling}{also}."
        ]
    most = max(places, key=lambda row: float(row["ci_high"]))
    change = ACCURACY.between(most["ci_low"], most["ci_high"])
    than_most = f"a {most['second']}" if most["second"] in RANDOM else CLEAN
    change = f"{change} than with {than_most} (95 %)"
    if len(places) > 1:
        change = f"at {_named([most])}, where the interval reaches highest, {change}"
    if composed <= 2 * margin:
        return [
            "Whether a phrase's vector is taken for the phrase cannot be told: the model gives the "
            f"expected answer in {_percent(composed)} of the prompts composed as text as well."
        ]
    if not undecided:
        return [
            f"A phrase's vector is not taken for the phrase: the expected answer is given nowhere "
            f"more than {ACCURACY.amount(margin)} more often than with {than}: {change}"
            f"{ceiling}."
        ]
    return [
        f"Whether a phrase's vector is taken for the phrase is open at {_named(undecided)}: the "
        f"expected answer is given {change}; {needed}{ceiling}."
    ]


def differences(found: Transplants) -> dict[str, list[Row]]:
    """The expected answer with the transplant less that with each random control, at each layer
    and pooling."""
    wide = found.outcomes.pivot(
        index="pair", columns=["vector", "layer", "pooling"], values="expected_right"
    )
    clean = found.clean[found.clean["run"] == "target"].set_index("pair")["expected_right"]
    frame = found.frame.drop_duplicates(["layer", "pooling"])
    places = [*zip(frame["layer"].tolist(), frame["pooling"].tolist(), strict=True)]
    present = set(found.frame["vector"])
    names = [name for name in RANDOM if name in present] or [CLEAN]
    return {
        name: records(
            paired(
                [
                    (
                        {"layer": layer, "pooling": pooling, "second": name},
                        wide["transplant", layer, pooling].astype(bool),
                        clean[wide.index].astype(bool)
                        if name == CLEAN
                        else wide[name, layer, pooling].astype(bool),
                    )
                    for layer, pooling in places
                ]
            )
        )
        for name in names
    }


def _named(rows: Sequence[Row]) -> str:
    """``layer 0 (mean, sum), layers 0 and 1 (max)``."""
    layers: dict[str, list[int]] = {}
    for row in rows:
        if row["layer"] not in layers.setdefault(row["pooling"], []):
            layers[row["pooling"]].append(row["layer"])
    poolings: dict[str, list[str]] = {}
    for pooling, some in layers.items():
        poolings.setdefault(layers_named(some), []).append(pooling)
    return ", ".join(f"{some} ({', '.join(names)})" for some, names in poolings.items())


def _percent(share: float) -> str:
    return f"{ACCURACY.number(share)} %"
