"""Tables of the phase diagrams, from ``benchmarks/results/``."""

from __future__ import annotations

from statistics import fmean
from typing import Any, Final

from docs.measured import Table, read
from interp_compose.papers.complexity.studies.anchors.phase import doubt_of

ONSETS: Final = {
    "pre": "pre-LN",
    "pre_unclipped": "pre-LN, gradients not clipped",
    "post": "post-LN",
}
SURE: Final = 0.005
"""A permutation test of every seed by itself is below it."""


def measured(setting: str) -> dict[str, Any]:
    """What ``benchmarks.phase_diagram`` wrote."""
    return read(f"phase_diagram_{setting}")


def phases(setting: str) -> Table:
    """A row per weight decay, a column per init rate: the phase, and OOD accuracy below it."""
    cells = measured(setting)["cells"]
    rates = sorted({cell["init_rate"] for cell in cells})
    decays = sorted({cell["weight_decay"] for cell in cells}, reverse=True)
    by_place = {(cell["init_rate"], cell["weight_decay"]): cell for cell in cells}
    rows = [
        [f"**{decay:g}**", *(_verdict(by_place[rate, decay]) for rate in rates)] for decay in decays
    ]
    return ["weight decay ↓ γ →", *(f"{rate:g}" for rate in rates)], rows


def _verdict(cell: dict[str, Any]) -> str:
    """Like "3? (.97)"."""
    if not cell["phase"]:
        return "diverged"
    return f"{_phase(cell)} ({share(cell['ood'])})"


def _phase(cell: dict[str, Any]) -> str:
    """With its question marks."""
    return f"{cell['phase']}{doubt_of(cell['agree'])}" if cell["phase"] else "diverged"


def every_cell(setting: str) -> Table:
    """A row per cell: means, and smallest to largest seed."""
    heads = [
        "weight decay",
        "γ",
        "train",
        "ID",
        "OOD",
        "commutativity",
        "stable rank",
        r"\|cosine\|",
    ]
    rows = []
    for cell in measured(setting)["cells"]:
        shares = [_spread(cell, name, share) for name in ("train", "id", "ood", "commutativity")]
        rank = _spread(cell, "stable_rank", "{:.1f}".format)
        cosine = _spread(cell, "mean_abs_cosine", share)
        place = [f"{cell['weight_decay']:g}", f"{cell['init_rate']:g}"]
        rows.append([*place, *shares, rank, cosine, _phase(cell)])
    return [*heads, "phase"], rows


def circuits(setting: str, weight_decay: float) -> Table:
    """What masks show at one weight decay: a row per init rate and mask."""
    found = measured(setting)
    phase = {(c["init_rate"], c["weight_decay"]): _phase(c) for c in found["cells"]}
    rows = []
    for row in found["circuits"]:
        if row["weight_decay"] != weight_decay:
            continue
        names = ("pair_silhouette", "twin_distance", "anchor_contrast")
        place = [f"{row['init_rate']:g}", phase[row["init_rate"], weight_decay], f"`{row['mode']}`"]
        rows.append([*place, *(_measured(row, name) for name in names)])
    heads = ["γ", "phase", "mask", "pairs apart, key masked", "(a, b) from (b, a)"]
    return [*heads, "g(x; a₁) alike, second anchor masked"], rows


def seeds(name: str) -> Table:
    """Three init rates over five seeds: a row each."""
    rows = []
    for cell in read(name)["cells"]:
        shares = [_spread(cell, name, share) for name in ("train", "id", "ood", "commutativity")]
        rank = _spread(cell, "stable_rank", "{:.1f}".format)
        rows.append([f"{cell['init_rate']:g}", *shares, rank, _phase(cell)])
    return ["γ", "train", "ID", "OOD", "commutativity", "stable rank of W_Q", "phase"], rows


def orders(name: str) -> Table:
    """How near numbers some steps apart lie, over random orders: a row per init rate."""
    rates: dict[float, list[str]] = {}
    for row in read(name)["orders"]:
        mean, low, high = (share(row[f"distance_{end}"]) for end in ("mean", "min", "max"))
        sure = " *" if row["distance_p_max"] < SURE else ""
        rates.setdefault(row["init_rate"], []).append(f"{mean} ({low}–{high}){sure}")
    heads = ["γ", *(f"{step} apart" for step in (1, 2, 3, 4, 5))]
    return heads, [[f"{rate:g}", *cells] for rate, cells in rates.items()]


def onsets() -> Table:
    """Which came first, reasoning or condensation: a row per diagram."""
    rows = []
    for setting, name in ONSETS.items():
        runs = measured(setting)["onsets"]
        both = [
            run["condenses"] - run["reasons"]
            for run in runs
            if None not in (run["condenses"], run["reasons"])
        ]
        alone = {
            event: sum(run[event] is not None for run in runs) - len(both)
            for event in ("reasons", "condenses")
        }
        signs = (sum(d < 0 for d in both), sum(d == 0 for d in both), sum(d > 0 for d in both))
        counts = (len(runs), len(both), *signs, alone["reasons"], alone["condenses"])
        rows.append([name, *map(str, counts)])
    heads = ["", "runs", "both happen", "condenses first", "same evaluation", "reasons first"]
    return [*heads, "only reasons", "only condenses"], rows


def post_ln() -> Table:
    """What moves the post-LN model at γ 0.8: a row per variant, unseen pairs seed by seed."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for run in read("post_ln")["runs"]:
        runs.setdefault(run["variant"], []).append(run)
    rows = []
    for variant, own in runs.items():
        each = [" ".join(run["phase"] for run in own), " ".join(share(run["ood"]) for run in own)]
        shares = [_over([run[name] for run in own], share) for name in ("id", "commutativity")]
        rank = _over([run["stable_rank"] for run in own], "{:.1f}".format)
        start = share(fmean(run["attention_share"] for run in own))
        rows.append([variant, *each, *shares, rank, start])
    heads = ["", "phase of each seed", "OOD of each", "ID", "commutativity", "stable rank"]
    return [*heads, "attention's share"], rows


def unseen_sum() -> Table:
    """What models answer to unseen pairs whose sum was seen or not: a row per norm and task."""
    tasks: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for run in read("unseen_sum")["runs"]:
        tasks.setdefault((run["norm"], run["d"]), []).append(run)
    rows = []
    for (norm, d), own in tasks.items():
        place = [f"{norm}-LN", _whole(d), _whole(own[0]["sum"]), "yes" if own[0]["seen"] else "no"]
        names = ("right", "nearest_sums", "other_sums", "else", "id", "commutativity")
        shares = [_over([run[name] for run in own], share) for name in names]
        rank = _over([run["stable_rank"] for run in own], "{:.1f}".format)
        rows.append([*place, " ".join(run["phase"] for run in own), *shares, rank])
    heads = ["model", "d", "c + d", "seen", "phases", "right", "next seen sums", "another seen sum"]
    return [*heads, "else", "ID", "commutativity", "stable rank"], rows


def _whole(number: int) -> str:
    return str(number).replace("-", "−")


def answers(norm: str) -> Table:
    """What models answer to unseen pairs at weight decay 0.01: a row per init rate."""
    runs: dict[float, list[dict[str, Any]]] = {}
    for run in read(f"unseen_pairs_{norm}")["runs"]:
        runs.setdefault(run["init_rate"], []).append(run)
    names = ("right", "nearest_sums", "other_sums", "else")
    rows = [
        [f"{rate:g}", *(_over([run[name] for run in own], share) for name in names)]
        for rate, own in sorted(runs.items())
    ]
    heads = ["γ", "right: x − 10", "x − 16 or x − 7", "another seen sum", "anything else"]
    return heads, rows


def _over(values: list[float], style: Any) -> str:
    """Mean, and smallest to largest."""
    mean, low, high = (style(f(values)) for f in (fmean, min, max))
    return mean if low == high else f"{mean} ({low}–{high})"


def _measured(row: dict[str, Any], name: str) -> str:
    mean, low, high = (row[f"{name}_{end}"] for end in ("mean", "min", "max"))
    return f"{share(mean)} ({share(low)} to {share(high)})"


def _spread(cell: dict[str, Any], name: str, style: Any) -> str:
    if cell[name] is None:
        return "–"
    low, high = style(cell[f"{name}_low"]), style(cell[f"{name}_high"])
    mean = style(cell[name])
    return mean if low == high else f"{mean} ({low}–{high})"


def hundredths(value: float) -> float:
    """Rounded to two decimals, as percentages in the figures are."""
    return float(f"{100 * value:.0f}") / 100


def share(value: float) -> str:
    """Like ".97", "1.00", "−.02"."""
    text = f"{abs(hundredths(value)):.2f}"
    return "−" * (hundredths(value) < 0) + text.removeprefix("0")
