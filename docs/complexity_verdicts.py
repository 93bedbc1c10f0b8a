"""Complexity control's claims, and what the phase diagrams and fitting speeds say to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from scipy.stats import spearmanr

from docs import task_verdicts, watch_results
from docs.measured import read
from docs.phase_results import SURE, share
from docs.verdicts import (
    BREAK,
    NOT,
    REPRODUCED,
    UNDECIDED,
    Claims,
    Found,
    agreed,
    by_ranges,
    judged,
)

CLAIMS: Final = Claims()
RANKS: Final = {"1": 0, "2": 1, "2c": 1, "3": 2}
"""The phases in order; a cell of no phase (diverged, not fitted) is in none."""
NORMS: Final = ("pre", "post")
Cell = Mapping[str, Any]


def cells_of(setting: str) -> list[Cell]:
    """The cells of a phase diagram, by weight decay and init rate."""
    cells = read(f"phase_diagram_{setting}")["cells"]
    return sorted(cells, key=lambda cell: (cell["weight_decay"], cell["init_rate"]))


def along(setting: str, decay: float) -> dict[float, Cell]:
    """The cells of one weight decay by init rate."""
    return {c["init_rate"]: c for c in cells_of(setting) if c["weight_decay"] == decay}


def decays(setting: str) -> list[float]:
    """The weight decays of a diagram."""
    return sorted({cell["weight_decay"] for cell in cells_of(setting)})


def ends(cell: Cell, name: str) -> tuple[float, float]:
    """Smallest and largest seed."""
    return cell[f"{name}_low"], cell[f"{name}_high"]


def told(cell: Cell, name: str) -> str:
    """Like ".94 (.91 to .97)"."""
    mean, low, high = map(share, (cell[name], *ends(cell, name)))
    return mean if low == high else f"{mean} ({low} to {high})"


def phase_name(cell: Cell) -> str:
    """As the page calls it."""
    return {"0": "not fitted", "": "diverged"}.get(cell["phase"], f"phase {cell['phase']}")


def lines(head: str, *rest: str) -> str:
    """A cell of several lines."""
    return BREAK.join([head, *rest])


def first_reasoning(decay: float) -> float | None:
    """The smallest init rate of phase 3, pre-LN."""
    found = along("pre", decay).items()
    return min((rate for rate, cell in found if cell["phase"] == "3"), default=None)


@CLAIMS.add("A small initialisation makes a model generalise to unseen pairs", "IV, Fig. 3A", "pre")
def _small_init() -> Found:
    cells = along("pre", 0.01)
    text = (
        f"OOD at weight decay 0.01: γ 0.4 {told(cells[0.4], 'ood')}, 0.8 {told(cells[0.8], 'ood')}"
    )
    return text, by_ranges(ends(cells[0.4], "ood"), ends(cells[0.8], "ood"))


@CLAIMS.add("… and so does a large weight decay", "IV, Fig. 3B", "pre")
def _large_decay() -> Found:
    low, high = along("pre", 0.01), along("pre", 1.0)
    rates = [rate for rate, cell in low.items() if cell["ood"] <= 0.5]
    found = agreed(by_ranges(ends(low[rate], "ood"), ends(high[rate], "ood")) for rate in rates)
    each = (f"γ {r:g}: {told(low[r], 'ood')} → {told(high[r], 'ood')}" for r in rates)
    head = (
        "OOD at weight decay 0.01 → 1 at every γ where it is at most .5 at 0.01 (to generalise: "
        "mean above .5, and ranges apart)"
    )
    over = all(high[rate]["ood"] > 0.5 for rate in rates)
    return lines(head, *each), found if over or found == NOT else UNDECIDED


@CLAIMS.add("Along γ the phases follow each other: 1, 2, 3", "IV, Fig. 3A", "pre")
def _sequence() -> Found:
    cells = [cell for cell in along("pre", 0.01).values() if cell["phase"] in RANKS]
    ranks = [RANKS[cell["phase"]] for cell in cells]
    text = ", ".join(f"{cell['init_rate']:g}: {cell['phase']}" for cell in cells)
    holds = ranks == sorted(ranks) and set(ranks) == {0, 1, 2}
    text = f"phase by γ at weight decay 0.01, where the data are fitted: {text}"
    return text, REPRODUCED if holds else NOT


@CLAIMS.add("The post-LN model is in phases 1, 2 and 3 at γ 0.2, 0.5 and 0.8", "Fig. 5A", "post")
def _one_head() -> Found:
    cells = [along("post", 0.01)[rate] for rate in (0.2, 0.5, 0.8)]
    text = BREAK.join(
        f"γ {cell['init_rate']:g}: {phase_name(cell)}, OOD {told(cell, 'ood')}" for cell in cells
    )
    reasons = by_ranges((0.5, 0.5), ends(cells[-1], "ood"))
    ranks = [RANKS.get(cell["phase"]) for cell in cells]
    return text, NOT if reasons == REPRODUCED and ranks != [0, 1, 2] else reasons


@CLAIMS.add("In phase 1 the model memorises its training data", "IV", *NORMS)
def _memorises() -> Found:
    each, verdicts = [], []
    for norm in NORMS:
        cells = [cell for cell in cells_of(norm) if cell["phase"] == "1"]
        n = sum(cell["train"] >= 0.99 for cell in cells)
        each.append(f"{norm}-LN: {n} of {len(cells)} cells of phase 1")
        verdicts.append(REPRODUCED if n == len(cells) else UNDECIDED if n else NOT)
    return lines("training accuracy of .99 or more (claimed: all)", *each), agreed(verdicts)


@CLAIMS.add(
    "Phase 2 parts in two: at smaller starts symmetric pairs are one (commutativity)",
    "IV, Fig. 3B",
    "pre",
)
def _splits() -> Found:
    return _parts("pre")


@CLAIMS.add("… in the post-LN model as well", "V-A, Fig. 4C", "post")
def _splits_post() -> Found:
    return _parts("post")


def _parts(norm: str) -> Found:
    cells = cells_of(norm)
    without, with_ = ([c["init_rate"] for c in cells if c["phase"] == one] for one in ("2", "2c"))
    text = f"{len(without)} cells of phase 2 without commutativity, {len(with_)} with"
    if not with_:
        return text, NOT
    before, after = fmean(without), fmean(with_)
    text += f"; mean γ {before:.2f} and {after:.2f}"
    return text, REPRODUCED if after > before else NOT


@CLAIMS.add("More weight decay lets larger starts reason", "IV, Fig. 3B", "pre")
def _boundary() -> Found:
    found = {decay: first_reasoning(decay) for decay in decays("pre")}
    text = ", ".join(f"{decay:g}: γ {rate}" for decay, rate in found.items())
    rates = [rate for rate in found.values() if rate is not None]
    falls = all(a >= b for a, b in pairwise(rates)) and rates[0] > rates[-1]
    return f"smallest γ of phase 3 by weight decay, {text}", REPRODUCED if falls else NOT


@CLAIMS.add("The pattern held consistently across trials", "IV", *NORMS)
def _trials() -> Found:
    each, verdicts = [], []
    for norm in NORMS:
        cells = cells_of(norm)
        n = sum(cell["agree"] == 1 for cell in cells)
        each.append(f"{norm}-LN: {n} of {len(cells)}")
        verdicts.append(REPRODUCED if n > 0.8 * len(cells) else NOT)
    same, of = read("phase_diagram_pre")["again"]["same"]
    each[0] += f"; on three fresh seeds {same} of {of} cells have the same phase"
    head = "cells in whose phase every seed is by itself (consistently: more than four in five)"
    return lines(head, *each), agreed(verdicts)


@CLAIMS.add("High OOD accuracy comes with commutativity", "footnote 2", *NORMS)
def _commutes() -> Found:
    found = {norm: [c for c in cells_of(norm) if c["ood"] > 0.9] for norm in NORMS}
    lowest = min(cell["commutativity"] for cells in found.values() for cell in cells)
    each = " and ".join(f"{len(cells)} {norm}-LN" for norm, cells in found.items())
    text = f"at least {share(lowest)} in the cells with OOD above .9 ({each})"
    return text, REPRODUCED if lowest >= 0.7 else NOT


@CLAIMS.add(
    "Often an initialisation *much* smaller than the default (γ 0.5) is needed", "II", "pre"
)
def _much_smaller() -> Found:
    cells, rate = along("pre", 0.01), first_reasoning(0.01)
    assert rate is not None
    ratio = read("phase_diagram_pre")["config"]["d_model"] ** (0.5 - rate)
    names = {0.5: "0.5", rate: f"{rate:g} ({ratio:.2f} times that scale)", 0.8: "0.8"}
    text = BREAK.join(f"γ {name}: OOD {told(cells[one], 'ood')}" for one, name in names.items())
    better = by_ranges(ends(cells[rate], "ood"), ends(cells[0.8], "ood")) == REPRODUCED
    return text, judged(UNDECIDED, rate > 0.5 and ratio > 0.75 and better)


CLUSTERED: Final = (0.3, 0.4, 0.45, 0.8)


def masked(rate: float, mode: str) -> Cell:
    """What is measured under a mask in the post-LN model at weight decay 0.01."""
    rows = read("phase_diagram_post")["circuits"]
    wanted = (rate, 0.01, mode)
    (row,) = (r for r in rows if (r["init_rate"], r["weight_decay"], r["mode"]) == wanted)
    names = {"_mean": "", "_min": "_low", "_max": "_high"}
    found = {}
    for key, value in row.items():
        end = next((old for old in names if key.endswith(old)), "")
        found[key.removesuffix(end) + names.get(end, "")] = value
    return found


@CLAIMS.add(
    "With the key masked, pairs are mixed up in phase 1 and apart in phase 2; with commutativity "
    "symmetric ones merge",
    "V-A, Fig. 4C",
    "post",
)
def _clusters() -> Found:
    return _clusters_under("zero")


@CLAIMS.add(
    "… which is what the model makes of the anchors, the key's information excluded",
    "V, V-A",
    "post",
)
def _clusters_hidden() -> Found:
    text, verdict = _clusters_under("exclude")
    return lines("under a mask that lets nothing through", text), verdict


def _clusters_under(mode: str) -> Found:
    cells = {rate: masked(rate, mode) for rate in CLUSTERED}
    phases = (f"{rate:g} in {phase_name(along('post', 0.01)[rate])}" for rate in CLUSTERED)
    mixed, *apart, merged = cells.values()
    pairs, twins = "pair_silhouette", "twin_distance"

    def each(name: str, rates: Iterable[float]) -> str:
        return ", ".join(f"γ {rate:g} {told(cells[rate], name)}" for rate in rates)

    text = lines(
        f"γ {', '.join(phases)}",
        f"silhouette of pairs (clusters: above .1): {each(pairs, CLUSTERED[:-1])}",
        f"distance of symmetric pairs: {each(twins, CLUSTERED[1:])}",
    )
    least = (max(mixed[f"{pairs}_high"], 0.1),) * 2
    clusters = agreed(by_ranges(least, ends(cell, pairs)) for cell in apart)
    merge = agreed(by_ranges(ends(merged, twins), ends(cell, twins)) for cell in apart)
    both = [clusters, merge]
    return text, NOT if NOT in both else agreed(both)


@CLAIMS.add(
    "Masking after the softmax excludes a token's information", "V, Figs 4A and 4B", "leaks"
)
def _leak() -> Found:
    found = read("circuits_cpu")["leaks"].items()
    each = (f"{name} {r['zero_largest']:.1f} of {r['unmasked_largest']:.1f}" for name, r in found)
    text = lines("largest change of a logit by the masked token, of that unmasked", ", ".join(each))
    leaks = [row["zero_largest"] > 0 for _, row in found]
    return text, NOT if all(leaks) else UNDECIDED if any(leaks) else REPRODUCED


@CLAIMS.add(
    "With the second anchor masked, outputs of equal g(x; a₁) are alike in phase 3 and not in "
    "phase 2",
    "V-B, Fig. 4D",
    *reversed(NORMS),
)
def _second_anchor() -> Found:
    each, verdicts = [], []
    for norm in reversed(NORMS):
        phases = {(c["init_rate"], c["weight_decay"]): c["phase"] for c in cells_of(norm)}
        for mode in ("zero", "exclude"):
            found: dict[int, list[float]] = {1: [], 2: []}
            for row in read(f"phase_diagram_{norm}")["circuits"]:
                rank = RANKS.get(phases[row["init_rate"], row["weight_decay"]])
                if row["mode"] == mode and rank in found:
                    found[rank].append(row["anchor_contrast_mean"])
            two, three = ((min(values), max(values)) for values in found.values())
            verdicts.append(by_ranges(two, three))
            spans = (f"{share(low)} to {share(high)}" for low, high in (two, three))
            each.append(f"{norm}-LN, `{mode}`: {' | '.join(spans)}".replace("|", "and"))
    return lines("contrast in cells of phase 2 and 3, by mask", *each), agreed(verdicts)


@CLAIMS.add(
    "Condensation of W_Q is none, mild and strong at γ 0.2, 0.5 and 0.8", "VI-A, Fig. 5A", "post"
)
def _condensation() -> Found:
    cells, name = along("post", 0.01), "mean_abs_cosine"
    text = ", ".join(f"γ {rate:g} {told(cells[rate], name)}" for rate in (0.2, 0.5, 0.8))
    steps = pairwise(ends(cells[rate], name) for rate in (0.2, 0.5, 0.8))
    return f"mean absolute cosine of neurons: {text}", agreed(by_ranges(*step) for step in steps)


@CLAIMS.add("Condensation grows with γ and with weight decay", "App. C, Fig. 10", *NORMS)
def _grows() -> Found:
    each, holds = [], True
    for norm in NORMS:
        rows = [
            [cell["mean_abs_cosine"] for cell in along(norm, decay).values()]
            for decay in decays(norm)
        ]
        least = min(float(spearmanr(range(len(row)), row).statistic) for row in rows)
        n = sum(a < b for a, b in zip(rows[0], rows[-1], strict=True))
        each.append(f"{norm}-LN: ρ of {least:.2f} or more; higher at {n} of {len(rows[0])} γ")
        holds &= least > 0.8 and n == len(rows[0])
    head = "Spearman's ρ with γ; at weight decay 1 over that at 0"
    return lines(head, *each), judged(REPRODUCED, holds)


SEEDS: Final = {"pre": "phase_seeds", "post": "phase_seeds_post"}


def steps_in_order(norm: str, *phases: str) -> dict[tuple[float, str], dict[int, Cell]]:
    """How near numbers some steps apart lie over five seeds, by γ and phase of the model."""
    found = read(SEEDS[norm])
    return {
        (cell["init_rate"], cell["phase"]): {
            row["step"]: row for row in found["orders"] if row["init_rate"] == cell["init_rate"]
        }
        for cell in found["cells"]
        if cell["phase"] in phases
    }


def ordered(steps: Mapping[int, Cell]) -> dict[int, str]:
    """The steps at which numbers are nearer than in random orders, on every seed by itself."""
    return {
        step: f"{step} apart {share(row['distance_mean'])}"
        for step, row in steps.items()
        if row["distance_p_max"] < SURE
    }


@CLAIMS.add(
    "In phase 3 embeddings are in order by steps of 3 and 4",
    "VI-B, Fig. 5B",
    "seeds-pre",
    "seeds-post",
)
def _order() -> Found:
    each = [
        f"pre-LN, γ {rate:g}: "
        + ", ".join(f"{step} apart {share(row['distance_mean'])}" for step, row in steps.items())
        for (rate, _), steps in steps_in_order("pre", "3").items()
    ]
    if not steps_in_order("post", "3"):
        each.append("post-LN: none of its 3 γ is in phase 3")
    cells = [c for norm in SEEDS for c in steps_in_order(norm, "3").values()]
    holds = bool(cells) and all({3, 4} <= set(ordered(steps)) for steps in cells)
    text = lines("distance over that in random orders", *each)
    return text, REPRODUCED if holds else NOT


@CLAIMS.add("… and in phases 1 and 2 in no order", "VI-B, Fig. 5B", "seeds-pre", "seeds-post")
def _no_order() -> Found:
    each, verdicts = [], []
    for norm in SEEDS:
        known = {
            f"γ {rate:g} (phase {phase})": ", ".join(ordered(steps).values())
            for (rate, phase), steps in steps_in_order(norm, "1", "2", "2c").items()
        }
        told = "; ".join(f"{place} {steps or 'none'}" for place, steps in known.items())
        each.append(f"{norm}-LN: {told}")
        verdicts.append(NOT if any(known.values()) else REPRODUCED)
    return lines("nearer on every seed", *each), agreed(verdicts)


def ranks_by_phase() -> list[list[float]]:
    """Stable ranks of the pre-LN cells of phases 1, 2 and 3."""
    cells = [cell for cell in cells_of("pre") if cell["phase"] in RANKS]
    return [[c["stable_rank"] for c in cells if RANKS[c["phase"]] == rank] for rank in range(3)]


@CLAIMS.add("The stable rank of W_Q falls with the phase", "VI-C, Fig. 5C", "pre")
def _stable_rank() -> Found:
    found = ranks_by_phase()
    text = ", ".join(
        f"phase {n} {fmean(ranks):.1f} ({min(ranks):.1f} to {max(ranks):.1f})"
        for n, ranks in enumerate(found, 1)
    )
    spans = [(min(ranks), max(ranks)) for ranks in found]
    steps = (by_ranges(after, before) for before, after in pairwise(spans))
    return f"mean over cells, smallest to largest cell: {text}", agreed(steps)


@CLAIMS.add("… and is about the same within a phase", "VI-C, Fig. 5C", "pre")
def _constant() -> Found:
    spans = [(min(ranks), max(ranks)) for ranks in ranks_by_phase()]
    text = ", ".join(f"phase {n} {a:.1f} to {b:.1f}" for n, (a, b) in enumerate(spans, 1))
    return f"of cells: {text}", judged(NOT, max(high / low for low, high in spans) > 2)


@CLAIMS.add(
    "Low complexity is the key factor that lets a model reason",
    "abstract, VI",
    *NORMS,
    "watched",
)
def _key_factor() -> Found:
    commutes = [c["stable_rank"] for c in cells_of("post") if c["phase"] == "2c"]
    reasons = [c["stable_rank"] for c in cells_of("pre") if c["phase"] == "3"]
    simple, complex_ = sum(rank < 2 for rank in commutes), sum(rank > 10 for rank in reasons)
    _, condense, of_post = _onsets("post")
    without, _, of_pre = _onsets("pre")
    in_time = _order_in_time()
    text = lines(
        f"against it, post-LN: {simple} of {len(commutes)} cells of phase 2c have a stable rank "
        f"below 2; {condense} of {of_post} runs condense and never reason",
        f"against it, pre-LN: {complex_} of {len(reasons)} cells of phase 3 have one above 10; "
        f"{without} of "
        f"{of_pre} runs reason without condensing",
        in_time,
    )
    counts = (simple, complex_, condense, without)
    return text, judged(NOT, min(counts) > 0 and bool(in_time))


def _order_in_time() -> str:
    """What watched models show before unseen pairs are right; nothing where no rank falls first."""
    known = watch_results.cells()
    steps = sorted({step for *_, step in known if step >= 0})

    def at(measure: str, split: str, step: int) -> Cell:
        return known[0.8, split, measure, -1, step]

    def shown(row: Cell, told: Callable[[float], str]) -> str:
        mean, low, high = (told(row[end]) for end in ("mean", "min", "max"))
        return f"{mean} ({low} to {high})"

    before = max(step for step in steps if at("cap", "ood", step)["max"] <= 0.5)
    start, then, end = (at("stable_rank", "id", step) for step in (0, before, -1))
    if then["max"] >= start["min"]:
        return ""
    ranks = [shown(row, "{:.1f}".format) for row in (start, then, end)]
    unseen = [shown(at("cap", "ood", step), share) for step in (before, -1)]
    return (
        "for it, pre-LN at γ 0.8, watched, mean over matrices: the stable rank falls first, from "
        f"{ranks[0]} to {ranks[1]} at step {before}, where unseen pairs are at {unseen[0]}; after "
        f"the last step {ranks[2]} and {unseen[1]}"
    )


def _onsets(norm: str) -> tuple[int, int, int]:
    """Runs that only reason, that only condense, and all."""
    runs = read(f"phase_diagram_{norm}")["onsets"]
    missing = [(run["reasons"] is None, run["condenses"] is None) for run in runs]
    return missing.count((False, True)), missing.count((True, False)), len(runs)


@CLAIMS.add(
    "Right answers to unseen pairs show that single anchors were learned and composed",
    "IV, V-B",
    "sums",
)
def _composed() -> Found:
    runs, each, verdicts = read("unseen_sum")["runs"], [], []
    for norm in reversed(NORMS):
        ood: dict[bool, list[float]] = {False: [], True: []}
        for run in runs:
            if run["norm"] == norm:
                ood[run["seen"]].append(run["ood"])
        new, known = ((min(found), max(found)) for found in ood.values())
        each.append(
            f"{norm}-LN: {' to '.join(map(share, new))} where no seen pair adds what the unseen "
            f"ones add, {' to '.join(map(share, known))} where one does"
        )
        verdicts.append(NOT if by_ranges(new, known) == REPRODUCED else UNDECIDED)
    return lines("OOD of single runs", *each), agreed(verdicts)


@CLAIMS.add(
    "Phase 3 composes what single anchors do, phase 2 maps pairs", "IV; crossed with CAP", "watched"
)
def _pooled() -> Found:
    known = watch_results.cells()

    def span(rate: float, split: str, layer: int) -> tuple[float, float]:
        row = known[rate, split, "cap", layer, -1]
        return row["min"], row["max"]

    told, verdicts = [], []
    for split, name in watch_results.SPLITS.items():
        each = []
        for rate, phase in ((0.5, 2), (0.8, 3)):
            whole, pooled = (" to ".join(map(share, span(rate, split, at))) for at in (-1, 0))
            each.append(f"phase {phase} {pooled} (not pooled {whole})")
        told.append(f"{name} pairs: {', '.join(each)}")
        verdicts.append(by_ranges(span(0.5, split, 0), span(0.8, split, 0)))
    head = "accuracy with the pair pooled into one vector at the embeddings, pre-LN"
    return lines(head, *told), agreed(verdicts)


SPEEDS: Final = {"pre": "fitting_speed", "post": "fitting_speed_post"}
SPEED_RUNS: Final = ("speed-pre", "speed-post")


def fits(rate: float, norm: str) -> dict[int, list[Cell]]:
    """Fitting speeds at one init rate: by depth, in order of violating groups."""
    found: dict[int, list[Cell]] = {}
    for cell in read(SPEEDS[norm])["cells"]:
        if cell["init_rate"] == rate:
            found.setdefault(cell["n_layers"], []).append(cell)
    return {depth: sorted(c, key=lambda one: one["violations"]) for depth, c in found.items()}


def all_fits(rate: float) -> dict[str, list[Cell]]:
    """The same of both architectures, by a name like "pre-LN, 2 layers"."""
    return {
        f"{norm}-LN, {depth} layers": cells
        for norm in SPEEDS
        for depth, cells in fits(rate, norm).items()
    }


def epochs(cell: Cell) -> str:
    """Like "24.0 (22–26)"."""
    return f"{cell['loss_epochs']:.1f} ({cell['loss_low']:g}–{cell['loss_high']:g})"


def all_epochs(rate: float) -> str:
    """A line for each architecture and depth."""
    each = (f"{name}: {' / '.join(map(epochs, cells))}" for name, cells in all_fits(rate).items())
    return lines(f"epochs to a loss of 0.05 at γ {rate:g}, 0 / 1 / 5 violating groups", *each)


@CLAIMS.add(
    "At a large initialisation (γ 0.5) data that break the rule are fitted as fast as others",
    "VIII, Fig. 8A",
    *SPEED_RUNS,
)
def _insensitive() -> Found:
    verdicts = []
    for cells in all_fits(0.5).values():
        means = [cell["loss_epochs"] for cell in cells]
        ratio = max(means) / min(means) if None not in means else 9.0
        apart = by_ranges(ends(cells[0], "loss"), ends(cells[-1], "loss")) == REPRODUCED
        verdicts.append(REPRODUCED if ratio <= 1.1 else NOT if apart else UNDECIDED)
    return all_epochs(0.5), agreed(verdicts)


@CLAIMS.add("At a small one (γ 0.8) they take longer", "VIII, Fig. 8A", *SPEED_RUNS)
def _sensitive() -> Found:
    verdicts = (
        by_ranges(ends(cells[0], "loss"), ends(cell, "loss"))
        for cells in all_fits(0.8).values()
        for cell in cells[1:]
    )
    return all_epochs(0.8), agreed(verdicts)


@CLAIMS.add("… and the longer, the more groups break the rule", "VIII, Fig. 8A", *SPEED_RUNS)
def _graded() -> Found:
    pairs = {name: cells[-2:] for name, cells in all_fits(0.8).items()}
    each = (
        f"{name} " + f"{b['loss_epochs'] - a['loss_epochs']:+.1f}".replace("-", "−")
        for name, (a, b) in pairs.items()
    )
    verdicts = (by_ranges(ends(a, "loss"), ends(b, "loss")) for a, b in pairs.values())
    return f"epochs, five groups beyond one: {'; '.join(each)}", agreed(verdicts)


@CLAIMS.add(
    "In the post-LN model wrong data slow the small start and not the large one",
    "VIII, Fig. 8A",
    "speed-post",
)
def _speed_post() -> Found:
    verdicts, each = [], []
    for depth, large in fits(0.5, "post").items():
        small = fits(0.8, "post")[depth]
        apart = [by_ranges(ends(c[0], "loss"), ends(c[-1], "loss")) for c in (large, small)]
        slowed, small_slowed = (one == REPRODUCED for one in apart)
        verdicts.append(UNDECIDED if slowed == small_slowed else NOT if slowed else REPRODUCED)
        means = (c[-1]["loss_epochs"] - c[0]["loss_epochs"] for c in (large, small))
        later = " and ".join(f"{mean:+.1f}" for mean in means)
        each.append(f"{depth} layers: {later}{'; apart at γ 0.5 alone' if slowed else ''}")
    text = lines(
        "epochs that five violating groups cost on average at γ 0.5 and at 0.8; where the ranges "
        "over seeds lie apart",
        *each,
        f"at γ 0.8 this model does not reason (claim {CLAIMS.number('The post-LN model')}), as the "
        "paper's does",
    )
    return text, agreed(verdicts)


@CLAIMS.add(
    "With (a, b) and (b, a) wrong, these, (a, a) and (b, b) are learned notably later",
    "VIII, Fig. 8B",
    *SPEED_RUNS,
)
def _touched() -> Found:
    each, holds = [], {}
    for norm in SPEEDS:
        four, others = _later(norm)
        told = (
            f"{name} {fmean(own):.1f} ({min(own):.1f} to {max(own):.1f})".replace("-", "−")
            for name, own in (("these four", four), ("the other twelve", others))
        )
        each.append(f"{norm}-LN: {', '.join(told)}")
        holds[norm] = min(four) > 1 and fmean(four) > 2 * fmean(others)
    text = lines("epochs later than on right data, 2 layers, γ 0.8", *each)
    return text, judged(UNDECIDED, holds == {"pre": True, "post": False})


def _later(norm: str) -> tuple[list[float], list[float]]:
    """Epochs later with one violating group: the pairs that violate or are touched, and others."""
    cells = {
        (cell["violations"], cell["pair"]): cell
        for cell in read(SPEEDS[norm])["pair_cells"]
        if (cell["init_rate"], cell["n_layers"]) == (0.8, 2)
    }
    later: dict[bool, list[float]] = {True: [], False: []}
    for (violations, pair), cell in cells.items():
        if violations == 1:
            marked = cell["violates"] or cell["touched"]
            later[marked].append(cell["epochs"] - cells[0, pair]["epochs"])
    return later[True], later[False]


@CLAIMS.add(
    "Samples that break the rule show, to a certain extent, by their slow convergence",
    "VIII",
    *SPEED_RUNS,
)
def _lateness() -> Found:
    cells = {
        f"{name}, {cell['violations']} wrong": cell
        for name, own in all_fits(0.8).items()
        for cell in own
        if cell["auc"] is not None
    }
    each = (f"{name}: {told(cell, 'auc')}" for name, cell in cells.items())
    head = "area under the ROC curve by violating groups, γ 0.8 (chance: .5; claimed: above)"
    verdicts = (by_ranges((0.5, 0.5), ends(cell, "auc")) for cell in cells.values())
    return lines(head, *each), agreed(verdicts)


@CLAIMS.add("A preference for reasoning may cost memory", "IX", *NORMS)
def _memory() -> Found:
    each, verdicts = [], []
    for norm in NORMS:
        cells = [along(norm, decay)[1.0] for decay in (0.01, 1.0)]
        own = ", ".join(f"weight decay {c['weight_decay']:g}: {told(c, 'train')}" for c in cells)
        each.append(f"{norm}-LN, {own}")
        smaller, larger = (ends(cell, "train") for cell in reversed(cells))
        verdicts.append(by_ranges(smaller, larger))
    return lines("training accuracy at γ 1", *each), agreed(verdicts)


CLAIMS.untested(
    "What holds for one head holds for many", "III-D", "every run on anchor functions has one head"
)
CLAIMS += task_verdicts.CLAIMS
