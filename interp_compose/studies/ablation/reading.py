"""What ablations say, in a sentence: where knocking out a word, a head or a block changes the
answer's log-probability, where it does not, and where that is open."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from interp_compose.studies.core.decided import NATS, Row, changed, paired, records
from interp_compose.studies.core.text import counted

if TYPE_CHECKING:
    from interp_compose.studies.ablation.result import AblationCurve

ACTS: Final = {
    "heads": "Ablating a head",
    "layers": "Ablating a block",
    "attn": "Ablating attention",
    "mlp": "Ablating the MLP",
}
REACHES: Final = {"from": "from a layer on", "at": "in one layer", "until": "up to a layer"}


def answers(curve: AblationCurve) -> list[str]:
    """The sentence that answers what the curve asks."""
    what = curve.config["what"]
    words = f"Knocking out a {curve.config.get('unit') or 'word'} at a time"
    act, rows, of_heads = ACTS.get(what, words), differences(curve), None
    if what == "heads":
        of_heads = partial(_heads, n_heads=len(rows))
    else:
        act = f"{act} {REACHES[curve.config['reach']]}"
    return [changed(rows, NATS, act=act, what="the answer's log-probability", places=of_heads)]


def differences(curve: AblationCurve) -> list[Row]:
    """The answer's log-probability less the clean model's, paired by example, at each layer of the
    first group, or of each head: a mean over an example's cells; Holm over all of them."""
    heads = curve.config["what"] == "heads"
    axes = ["layer", "unit"] if heads else ["layer"]
    clean = curve.clean.set_index("example")["target_logprob"]
    wide = curve.outcomes.pivot_table(index="example", columns=axes, values="target_logprob")
    names = curve.cells.drop_duplicates("unit").set_index("unit")["text"]
    places = {
        key: {"layer": int(key[0]), "head": names[key[1]]} if heads else {"layer": int(key)}
        for key in wide.columns
    }
    if len(wide) == 1:
        lacking = {"ci_low": float("nan"), "n": 1}
        return [{**place, **lacking} for place in places.values()]
    known = clean[wide.index]
    return records(paired([(place, wide[key], known) for key, place in places.items()]))


def _heads(rows: Sequence[Row], n_heads: int) -> str:
    """One by its name, several by their number."""
    if len(rows) == 1:
        return f"for head {rows[0]['head']} of layer {rows[0]['layer']}"
    return f"for {len(rows)} of {counted(n_heads, 'heads')}"
