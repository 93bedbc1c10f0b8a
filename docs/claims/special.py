"""What no general query says, by the names that ``docs/claims/*.toml`` give.

``only`` and ``names`` are functions of a line's sides, ``verdict`` and ``holds`` of the claim and
its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, Final

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.stats import chi2, f as f_distribution, ncf, pearsonr, spearmanr

from docs.claims.evaluate import Claim, Line
from docs.generalise_results import read_out
from docs.measured import read
from docs.phase_results import SURE, share
from docs.verdicts import (
    LEVEL,
    MOST_SEEDS,
    NOT,
    POWER,
    REPRODUCED,
    UNDECIDED,
    Row,
    Side,
    agreed,
    by_count,
    by_tests,
    compared,
    exactly,
    of_parts,
    points,
    side_of,
    spread,
    sure,
    t_test,
    with_seeds,
)
from interp_compose.papers.carma.paper import paper_numbers

Sides = Mapping[str, Side]
Names = dict[str, Any]
Lines = Sequence[Line]


def nothing_to_explain(claim: Claim, lines: Lines) -> str:
    """Open while what the claim explains is: that CAT agrees better."""
    numbers = claim.claims.numbers
    explained = [claim.claims[numbers[name] - 1].find()[1] for name in ("better", "better-mirror")]
    own = [verdict for line in lines for verdict in line.decided]
    return of_parts(own) if REPRODUCED in explained else UNDECIDED


def nothing_learned(claim: Claim, lines: Lines) -> str:
    """Open while codes do not name the sememes of the words that guided them."""
    guided = claim.claims[claim.claims.numbers["sememes"] - 1].find()[1]
    own = [verdict for line in lines for verdict in line.decided]
    return of_parts(own) if guided == REPRODUCED else UNDECIDED


def hundredths(sides: Sides) -> Names:
    """A hundredth less and more than the plain side."""
    side = sides["plain"]

    def shifted(by: float) -> Side:
        by_seed = {seed: value + by for seed, value in side.by_seed.items()}
        return replace(side, by_seed=by_seed, unpaired=tuple(v + by for v in side.unpaired))

    return {"least": shifted(-0.01), "most": shifted(0.01)}


# CARMA


def gains_by_layer(sides: Sides) -> Names:
    """The gains beyond chance."""
    rows = sides["cap"].rows
    gains = [f"{points(row)} at layer {row['layer']:.0f}" for row in rows if sure(row)]
    return {"gains": ", ".join(gains) or "none", "n": len(gains), "total": len(rows)}


def words_gain(sides: Sides) -> bool:
    """Words gain over seeds: p < 0.05, not corrected."""
    test = t_test(exactly(0), sides["words"])
    return bool(test and test.p < LEVEL and test.difference > 0)


def correlation(sides: Sides) -> Names:
    """Pearson's r of versions' curves, means over seeds; Fisher's z of it by seed, by the
    jackknife, with its interval as r's, and of the least r of one shape."""
    curves: dict[str, dict[int, dict[tuple[str, int], float]]] = {}
    for name, side in sides.items():
        for row in side.rows:
            of_seed = curves.setdefault(name, {}).setdefault(row["seed"], {})
            of_seed[row["pooling"], row["layer"]] = row["value"]

    def r(one: str, left: Sequence[int]) -> float:
        means = (
            [fmean(curves[name][seed][place] for seed in left) for place in curves[name][left[0]]]
            for name in (one, "plain")
        )
        return float(np.corrcoef(*means)[0, 1])

    seeds = [*curves["plain"]]
    shape = jackknife(seeds, lambda left: float(np.arctanh(r("carma", left))))
    bound = exactly(np.arctanh(0.9))
    test = t_test(bound, shape)
    assert test is not None
    low, high = (float(np.tanh(bound.mean + end)) for end in test.ci)
    of_r = {"r": r("carma", seeds), "low": low, "high": high}
    return {**of_r, "r_original": r("original", seeds), "shape": shape, "bound": bound}


def jackknife(seeds: Sequence[int], statistic: Callable[[list[int]], float]) -> Side:
    """Values by seed of a statistic of all seeds: n times that of all less n − 1 times that
    without one, of which the mean has Student's t."""
    n, every = len(seeds), statistic([*seeds])
    each = {s: n * every - (n - 1) * statistic([x for x in seeds if x != s]) for s in seeds}
    return of_seeds(each)


def within_both_bounds(claim: Claim, lines: Lines) -> str:
    """Above the one bound and below the other; not so where it is beyond one of them."""
    return of_parts(lines[0].decided)


def spreads(sides: Sides) -> Names:
    """Pitman's and Morgan's test of two variances, two-sided: versions of a seed begin alike and
    see the same batches, so that an F test, which takes them as independent, is not one of them.

    Sums and differences of pairs correlate where the variances differ.
    """
    return _compared_spreads(_pairs(sides))


def variations(sides: Sides) -> Names:
    """The same test of two coefficients of variation, standard deviations over their means: of
    values divided by their version's mean, as if the means were known exactly."""
    pairs = _pairs(sides)
    return _compared_spreads(pairs / pairs.mean(0))


def clearer(sides: Sides) -> Names:
    """How many times the plain version's coefficient of variation is CARMA's, at few and at many of
    the words; and the logarithm of the one less that of the other by seed, by the jackknife."""
    values = {name: side.by_seed for name, side in sides.items()}
    seeds = [seed for seed in values["plain_few"] if all(seed in of for of in values.values())]

    def ratios(left: list[int]) -> tuple[float, float]:
        few, many = (
            np.divide(*(variation([values[f"{v}_{rate}"][s] for s in left]) for v in VERSIONS))
            for rate in ("few", "many")
        )
        return float(few), float(many)

    def apart(left: list[int]) -> float:
        few, many = ratios(left)
        return float(np.log(many / few))

    few, many = ratios(seeds)
    return {"few": few, "many": many, "apart": jackknife(seeds, apart)}


VERSIONS: Final = ("plain", "carma")


def variation(values: Sequence[float]) -> float:
    """The coefficient of variation."""
    return float(np.std(values, ddof=1) / np.mean(values))


def _compared_spreads(pairs: Float[np.ndarray, "seed 2"]) -> Names:
    p = float(pearsonr(pairs.sum(1), pairs[:, 0] - pairs[:, 1]).pvalue)
    plain, carma = map(float, pairs.std(0, ddof=1))
    return {
        "p": p,
        "way": REPRODUCED if carma < plain else NOT,
        "plain_sd": plain,
        "carma_sd": carma,
        "correlation": float(np.corrcoef(pairs.T)[0, 1]),
        "n": len(pairs),
    }


def _pairs(sides: Sides) -> Float[np.ndarray, "seed 2"]:
    """Values of both versions, plain first."""
    plain, carma = (sides[version].by_seed for version in ("plain", "carma"))
    return np.array([[plain[seed], carma[seed]] for seed in plain.keys() & carma.keys()])


def ratio_power(ratio: float, n: int, correlation: float, level: float = LEVEL) -> float:
    """Of Pitman's and Morgan's test of ``n`` pairs, two-sided at a ``level``, where one standard
    deviation is so many times the other, and the values of a pair are normal and correlate.

    With the sums given, the t of the correlation of sums and differences is noncentral by
    ρ / √(1 − ρ²) · √q, q being χ² with n − 1 degrees of freedom, over which the mean is taken.
    """
    between = 2 * correlation * ratio
    rho = (ratio**2 - 1) / np.sqrt((ratio**2 + 1) ** 2 - between**2)
    q = chi2.ppf((np.arange(100) + 0.5) / 100, n - 1)
    least = f_distribution.ppf(1 - level, 1, n - 2)  # t² is noncentral F
    off = np.maximum(rho**2 / (1 - rho**2) * q, 1e-9)  # of 0, scipy gives less than 0
    return float(ncf.sf(least, 1, n - 2, off).mean())


def ratios_seen(lines: Lines) -> str:
    """What the tests would have found on the lines that are open (of none, on all), and how many
    seeds find the ratios found there."""
    level = LEVEL / len(lines)
    names_of = [line.names for line in lines]
    open_lines = [names for names in names_of if names["verdict"] == UNDECIDED] or names_of
    each = [_ratio_seen(names, level) for names in open_lines]
    least, ratios, needed = ([*one] for one in zip(*each, strict=True))
    seeds = dict.fromkeys(
        f"more than {MOST_SEEDS}" if n > MOST_SEEDS else str(n) for n in (min(needed), max(needed))
    )
    seen_here = " or ".join(f"{ratio:.1f}" for ratio in least)
    found_here = " and ".join(f"{ratio:.2f}" for ratio in ratios)
    alike = " and ".join(f"{names['correlation']:.2f}" for names in open_lines)
    return (
        f"power: of spreads, one {seen_here} times the other would be found in 80 % of cases; "
        f"those found here, one {found_here} times the other and versions of a seed that correlate "
        f"by {alike}, take {' to '.join(seeds)} seeds"
    )


def _ratio_seen(names: Names, level: float) -> tuple[float, float, int]:
    """Of a line: the ratio of spreads that its seeds find, the one found, and the seeds that it
    takes (one more than the most that are told, where it takes more)."""
    ratio = max(names["plain_sd"] / names["carma_sd"], names["carma_sd"] / names["plain_sd"])

    def short(ratio: float, n: int) -> float:
        return ratio_power(ratio, n, names["correlation"], level) - POWER

    least = brentq(lambda ratio: short(ratio, names["n"]), 1, 1e3)
    needed = next((n for n in range(4, MOST_SEEDS + 1) if short(ratio, n) >= 0), MOST_SEEDS + 1)
    return least, ratio, needed


def drift(sides: Sides) -> Names:
    """Of each measure, the layers at which CARMA is farther from the original than fine-tuning."""
    moved, moved_plain = (
        {(row["metric"], row["layer"]): abs(row["difference"]) for row in sides[version].rows}
        for version in ("carma", "plain")
    )
    names, counts = dict[str, str](), []
    for measure in ("same_word_cosine", "different_word_cosine", "stable_rank"):
        farther = [moved[at] > moved_plain[at] for at in moved if at[0] == measure]
        names[measure] = f"{sum(farther)} of {len(farther)}"
        counts += farther
    return {**names, "verdict": by_count(len(counts) - sum(counts), len(counts))}


def gain_of_one_term(claim: Claim, lines: Lines) -> bool:
    """The term gains, and of such gains it is not decided whether they are composition's."""
    gains = by_tests(row for line in lines for row in line.sides["gain"].rows)
    composition = claim.claims[claim.claims.numbers["composition"] - 1].find()[1]
    return gains == REPRODUCED and UNDECIDED in composition


def faster_than_the_paper(claim: Claim, lines: Lines) -> bool:
    """Every median is less than the least that the paper gives."""
    least = paper_numbers().query("metric == 'overhead'")["value"].min()
    return all(line.sides["step"]["median"] < least for line in lines)


def as_long(claim: Claim, lines: Lines) -> bool:
    """All ratios are within a twentieth of 1."""
    least, most = lines[0].sides["after"]["range"]
    return least > 0.95 and most < 1.05


def trained_but_not_to_the_end(claim: Claim, lines: Lines) -> bool:
    """Both versions gain, and in every run the loss was still falling at the end."""
    training = read("carma_lr_mini_idm")["training"]
    trained = agreed(lines[0].verdicts()) == REPRODUCED
    return trained and not any(run["converged"] for run in training)


def own_tables() -> tuple[list[str], list[list[str]]]:
    """Heads and rows: CARMA compared with plain fine-tuning in the paper's tables 4 and 5."""
    rows = []
    paper = paper_numbers().query("table in (4, 5)")
    for metric, name, better in (("consist_syn", "ConsistSyn, %", "higher"), ("cv", "CV", "lower")):
        chosen = paper[paper["metric"] == metric]
        both = chosen.pivot(index=["label", "task", "rate"], columns="version", values="value")
        apart = both["carma"] - both["ft"]
        counted = [(apart > 0).sum(), (apart < 0).sum(), (apart == 0).sum(), len(apart)]
        ratio = np.exp(np.log(both["carma"] / both["ft"]).abs().max())
        rows.append([name, better, *map(str, counted), f"{apart.mean():+.4f}", f"{ratio:.1f}"])
    heads = ["", "claimed", "CARMA higher", "lower", "the same", "pairs", "mean difference"]
    return [*heads, "larger over smaller, at most"], rows


# Complexity control

RANKS: Final = {"1": 0, "2": 1, "2c": 1, "3": 2}
"""The phases in order; a cell of no phase (diverged, not fitted) is in none."""
FITTED: Final = 0.9
"""The least training accuracy of data that are fitted."""


def phases(sides: Sides) -> Names:
    """The phase of each side that is a cell, as the page calls it."""
    names = {"0": "not fitted", "": "diverged"}
    each = {name: side["phase"] for name, side in sides.items() if len(side.rows) == 1}
    return {f"{name}_phase": names.get(p, f"phase {p}") for name, p in each.items()}


def does_not_generalise(sides: Sides) -> bool:
    """With little weight decay the data are fitted, and at most half of the unseen pairs right."""
    little = sides["little"]
    return little.mean <= 0.5 and fmean(row["train"] for row in little.rows) >= FITTED


def sequence(sides: Sides) -> Names:
    """Rule 4, of the phases along γ; and how many seeds are in a cell's, where not all are."""
    cells = sorted(sides["cells"].rows, key=lambda cell: float(cell["init_rate"]))
    ranks = [RANKS[cell["phase"]] for cell in cells]
    texts = []
    for cell, rank in zip(cells, ranks, strict=True):
        runs = [run for run in sides["runs"].rows if run["init_rate"] == cell["init_rate"]]
        n = sum(RANKS.get(run["phase"]) == rank for run in runs)
        share_of = f" ({n} of {len(runs)})" * (n < len(runs))
        texts.append(f"{cell['init_rate']:g}: {cell['phase']}{share_of}")
    holds = ranks == sorted(ranks) and set(ranks) == {0, 1, 2}
    return {"phases": ", ".join(texts), "verdict": REPRODUCED if holds else NOT}


def in_three_phases(claim: Claim, lines: Lines) -> str:
    """Of each training the last cell reasons, and the phases are as claimed."""
    verdicts = []
    for training in dict.fromkeys(line.stated["training"] for line in lines):
        own = [line for line in lines if line.stated["training"] == training]
        (reasons,) = own[-1].decided
        ranks = [RANKS.get(line.sides["cell"]["phase"]) for line in own]
        as_claimed = ranks == [0, 1, 2][-len(ranks) :]  # the smallest γ was measured in one
        verdicts.append(reasons if as_claimed else NOT)
    return agreed(verdicts)


def parts(sides: Sides) -> Names:
    """The runs with commutativity, of two seeds or more, are at smaller starts (a larger γ), in the
    mean of a seed."""
    without, commutes = sides["without"], sides["with"]
    seeds = {row["seed"] for row in commutes.rows}
    rates: dict[float, set[float]] = {}
    for row in (*without.rows, *commutes.rows):
        rates.setdefault(row["weight_decay"], set()).add(row["init_rate"])
    pair = _mean_of_seeds(without), _mean_of_seeds(commutes)
    ends = f", γ {commutes.low:g} to {commutes.high:g}; mean γ of a seed {{:share}} and {{:share}}"
    means = ends.format(*pair) if seeds else ""
    if len(seeds) == 1:
        return {"means": means, "verdict": UNDECIDED}  # one seed decides nothing
    if not seeds:  # in two γ or fewer a second part can have been missed
        wide = max(map(len, rates.values())) > 2
        return {"means": means, "verdict": NOT if wide else UNDECIDED}
    test = t_test(*pair)
    told = f" (p {test.p:.2g})" if test else ""
    return {"means": means + told, "verdict": compared(*pair)}


def _mean_of_seeds(side: Side) -> Side:
    values: dict[int, list[float]] = {}
    for row, value in zip(side.rows, side.values, strict=True):
        values.setdefault(row["seed"], []).append(value)
    return of_seeds({seed: fmean(own) for seed, own in sorted(values.items())})


def falls(claim: Claim, lines: Lines) -> str:
    """Rule 4: the smallest γ, of the weight decays that have one."""
    decays = (lines[0].sides[name] for name in ("none", "little", "some", "much"))
    rates = [side.low for side in decays if side.rows]
    falling = all(a >= b for a, b in pairwise(rates)) and rates[0] > rates[-1]
    return REPRODUCED if falling else NOT


def commutativity(sides: Sides) -> Names:
    """The lowest of the runs that generalise is .7 or more."""
    lowest = spread(run["commutativity"] for side in sides.values() for run in side.rows)
    return {"lowest": lowest, "verdict": REPRODUCED if lowest.low >= 0.7 else NOT}


def first_reasoning(sides: Sides) -> Names:
    """The cell of phase 3 at the smallest γ, and its scale over the default's; and the scale of the
    small start."""
    rate = min(float(cell["init_rate"]) for cell in sides["reasons"].rows)
    seeds = {run["seed"]: run["ood"] for run in sides["every"].rows if run["init_rate"] == rate}
    first = with_seeds(spread(seeds.values()), seeds)
    width: int = sides["config"]["d_model"]
    small = float(sides["small"].rows[0]["init_rate"])
    scales = {"scale": width ** (0.5 - rate), "scale_small": width ** (0.5 - small)}
    return {"rate": rate, "first": first, **scales}


def much_smaller(claim: Claim, lines: Lines) -> bool:
    """It reasons at little more than the default's init rate, and better at a larger one."""
    rate, scale, first = (lines[0].names[name] for name in ("rate", "scale", "first"))
    better = compared(first, lines[0].sides["small"]) == REPRODUCED
    return rate > 0.5 and scale > 0.75 and better


def leaks(sides: Sides) -> Names:
    """Rule 4, of the models: none leaks."""
    (models,) = sides["models"].rows
    changes = (
        f"{name} {model['zero_largest']:.1f} of {model['unmasked_largest']:.1f}"
        for name, model in models.items()
    )
    tight = sum(model["zero_largest"] <= 0 for model in models.values())
    return {"changes": ", ".join(changes), "verdict": by_count(tight, len(models))}


PHASES: Final = {
    "one": ("1",),
    "two": ("2", "2c"),
    "plain": ("2",),
    "commuting": ("2c",),
    "three": ("3",),
}


def by_phase(sides: Sides) -> Names:
    """Of the runs of each phase, the mean of each seed's values, and how many runs there are; of
    phase 3, how many are no higher than a run of phase 2."""
    place = ("init_rate", "weight_decay", "seed")
    phases = {tuple(run[key] for key in place): run["phase"] for run in sides["runs"].rows}
    circuits = sides["circuits"]
    values: dict[str, dict[int, list[float]]] = {name: {} for name in PHASES}
    for row, value in zip(circuits.rows, circuits.values, strict=True):
        for name, among in PHASES.items():
            if phases[tuple(row[key] for key in place)] in among:
                values[name].setdefault(row["seed"], []).append(value)
    names: Names = {}
    for name, own in values.items():
        names[name] = of_seeds({seed: fmean(own[seed]) for seed in sorted(own)})
        names[f"n_{name}"] = sum(map(len, own.values()))
    two, three = (list(chain(*values[name].values())) for name in ("two", "three"))
    return {**names, "low": sum(value <= max(two) for value in three) if two else 0}


def phases_one_to_three(sides: Sides) -> bool:
    """There are cells of each."""
    return all(sides[name].rows for name in ("one", "two", "three"))


def same_phase(sides: Sides) -> Names:
    """How many cells have the phase that fresh seeds have, and whether that is more than four in
    five."""
    n, total = sides["cells"]["same"]
    return {"n": n, "total": total, "verdict": REPRODUCED if n > 0.8 * total else UNDECIDED}


def growth(sides: Sides) -> Names:
    """The least of Spearman's ρ with γ; at how many γ the largest decay condenses more than none,
    and at how many of its other steps more decay does; and the most that it falls at one."""
    rows: dict[float, dict[float, float]] = {}
    for cell in sides["cells"].rows:
        rows.setdefault(cell["weight_decay"], {})[cell["init_rate"]] = cell["mean_abs_cosine"]
    rho = min(float(spearmanr(list(row), list(row.values())).statistic) for row in rows.values())
    decays = sorted(rows)

    def more(less: float, much: float) -> list[float]:
        both = rows[less].keys() & rows[much].keys()
        return [rows[much][rate] - rows[less][rate] for rate in both]

    ends = more(decays[0], decays[-1])
    steps = [one for less, much in pairwise(decays) for one in more(less, much)]
    return {
        "rho": rho,
        "fall": -min(steps),
        **{"n": sum(rise > 0 for rise in ends), "total": len(ends)},
        **{"n_steps": sum(rise > 0 for rise in steps), "total_steps": len(steps)},
    }


def of_seeds(values: Mapping[int, float]) -> Side:
    """The side of values by seed."""
    rows = tuple({"seed": seed} for seed in values)
    return with_seeds(spread(values.values(), rows), values)


def grows(claim: Claim, lines: Lines) -> str:
    """Steadily with γ, and with weight decay at each; undecided where it does between the ends of
    the decays and not at each step."""
    names = [line.names for line in lines]
    if not all(n["rho"] > 0.8 and n["n"] == n["total"] for n in names):
        return NOT
    at_each = all(n["n_steps"] == n["total_steps"] for n in names)
    return REPRODUCED if at_each else UNDECIDED


def orders(sides: Sides) -> dict[tuple[float, str], list[Row]]:
    """How near numbers some steps apart lie, by γ and phase of the model: of each number of steps
    the mean over seeds, and the largest p of one."""
    by_step: dict[float, dict[int, list[Row]]] = {}
    for row in sides["orders"].rows:
        by_step.setdefault(row["init_rate"], {}).setdefault(row["step"], []).append(row)
    return {
        (cell["init_rate"], cell["phase"]): [
            {
                "step": step,
                "distance": fmean(row["distance"] for row in rows),
                "p": max(row["distance_p"] for row in rows),
            }
            for step, rows in by_step[cell["init_rate"]].items()
        ]
        for cell in sides["cells"].rows
    }


def apart(rows: Sequence[Row]) -> str:
    """Like "3 apart .84, 4 apart .80"."""
    return ", ".join(f"{row['step']} apart {share(row['distance'])}" for row in rows)


def nearer(rows: Sequence[Row]) -> list[Row]:
    """The steps at which numbers are nearer than in random orders, on every seed by itself."""
    return [row for row in rows if row["p"] < SURE]


def in_order(sides: Sides) -> Names:
    """Numbers 3 and 4 apart are nearer, in each model that is of phase 3 by its means."""
    each = {f"γ {rate:g}: {apart(rows)}": rows for (rate, _), rows in orders(sides).items()}
    steps = f", {'; '.join(each)}" if each else ": by means, none of its 3 γ is in phase 3"
    holds = [{3, 4} <= {row["step"] for row in nearer(rows)} for rows in each.values()]
    return {"steps": steps, "holds": holds}


def each_in_order(claim: Claim, lines: Lines) -> str:
    """Rule 5: an architecture without phase 3 decides nothing."""
    holds = [one for line in lines for one in line.names["holds"]]
    return REPRODUCED if holds and all(holds) else NOT


def in_no_order(sides: Sides) -> Names:
    """No step is nearer, in no model."""
    steps = {place: nearer(rows) for place, rows in orders(sides).items()}
    each = (f"γ {rate:g} (phase {p}) {apart(rows) or 'none'}" for (rate, p), rows in steps.items())
    return {"steps": "; ".join(each), "verdict": NOT if any(steps.values()) else REPRODUCED}


def constant_within_two_phases(claim: Claim, lines: Lines) -> bool:
    """In phase 3 alone the largest is more than twice the smallest."""
    factors = {name: phase.high / phase.low for name, phase in lines[0].sides.items()}
    return [name for name, factor in factors.items() if factor > 2] == ["three"]


def order_in_time(sides: Sides) -> Names:
    """The stable rank at the first step, at the last before unseen pairs are right, and at the
    end."""
    ranks, unseen = (
        {row["step"]: side_of(row, "mean", "min", "max") for row in side.rows}
        for side in (sides["ranks"], sides["unseen"])
    )
    before = max(step for step, pairs in unseen.items() if pairs.high <= 0.5)
    last = max(ranks)
    names = {"start": ranks[0], "then": ranks[before], "end": ranks[last], "before": before}
    return {**names, "unseen_then": unseen[before], "unseen_end": unseen[last]}


def fitted_onsets(sides: Sides) -> Names:
    """How many fitted runs halve the stable rank and reason, either or both; and the stable ranks,
    at the end, of runs that reason without it and of those of phase 1."""
    places = ("init_rate", "weight_decay", "seed")
    runs = {tuple(row[name] for name in places): row for row in sides["runs"].rows}
    fitted = [
        (row, runs[place])
        for row in sides["onsets"].rows
        if runs[place := tuple(row[name] for name in places)]["phase"] != "0"
    ]
    condense = [(one, run) for one, run in fitted if one["condenses"] is not None]
    reason = [(one, run) for one, run in fitted if one["reasons"] is not None]
    uncondensed = [run["stable_rank"] for one, run in reason if one["condenses"] is None]
    return {
        "condense": len(condense),
        "alone": sum(one["reasons"] is None for one, _ in condense),
        "reason": len(reason),
        "uncondensed": len(uncondensed),
        "left": sum(run["phase"] == "1" for _, run in reason),
        "ranks": spread(uncondensed),
        "first": spread(run["stable_rank"] for _, run in fitted if run["phase"] == "1"),
    }


def key_factor(claim: Claim, lines: Lines) -> bool:
    """Open: runs of either kind, whose stable ranks lie below all of phase 1, and the order in time
    of one."""
    pre, post, watched = lines
    below = pre.names["ranks"].high < pre.names["first"].low
    in_time = watched.names["then"].high < watched.names["start"].low
    return bool(pre.names["uncondensed"] and post.names["alone"]) and below and in_time


def helped_by_known_sums(claim: Claim, lines: Lines) -> str:
    """Against it: runs are right more often where seen pairs add the same."""
    helped = [verdict for line in lines for verdict in line.decided]
    return agreed(NOT if verdict == REPRODUCED else UNDECIDED for verdict in helped)


def single_runs(sides: Sides) -> Names:
    """Of the runs in which no seen pair adds the same numbers: the ends, and how many reason."""
    runs = sides["new"].rows
    reason = sum(run["phase"] == "3" for run in runs)
    return {"single": spread([run["ood"] for run in runs]), "reason": reason, "n_runs": len(runs)}


def fitted_as_fast(claim: Claim, lines: Lines) -> str:
    """Means within a tenth of each other; not so where five groups take longer."""
    verdicts = []
    for line in lines:
        means = [cell.mean for cell in line.sides.values()]
        near = REPRODUCED if max(means) / min(means) <= 1.1 else UNDECIDED
        verdicts.append(NOT if line.decided == [NOT] else near)
    return agreed(verdicts)


def cost(sides: Sides) -> Names:
    """What four groups more cost on average."""
    return {"five_beyond_one": sides["five"].mean - sides["one"].mean}


def slowed(sides: Sides) -> Names:
    """What five groups cost each start."""
    starts = ("large", "small")
    return {name: sides[f"{name}_5"].mean - sides[f"{name}_0"].mean for name in starts}


def large_start_unslowed(claim: Claim, lines: Lines) -> str:
    """The small start is slowed, and the large one is not shown to be; at each depth."""
    verdicts = [(line.decided[0] == NOT, line.decided[1] == REPRODUCED) for line in lines]
    return agreed(
        UNDECIDED if large == small else NOT if large else REPRODUCED for large, small in verdicts
    )


def later_pairs(sides: Sides) -> Names:
    """Epochs of the pairs that violate, of those that are touched, of the others, and of each pair
    ("a_b"), and how many more than on right data: the mean of each seed where rows are of seeds."""

    def key(row: Row) -> tuple[Any, ...]:
        return row["pair"], row.get("seed")

    right = {key(row): row["epochs"] for row in sides["right"].rows}
    each: dict[str, dict[Any, list[float]]] = {}
    for row in sides["wrong"].rows:
        name = "violating" if row["violates"] else "touched" if row["touched"] else "others"
        of = row.get("seed", row["pair"])
        for group in (name, row["pair"].replace(" ", "_")):
            each.setdefault(group, {}).setdefault(of, []).append(row["epochs"])
            later = row["epochs"] - right[key(row)]
            each.setdefault(f"{group}_later", {}).setdefault(of, []).append(later)
    seeds = "seed" in sides["wrong"].rows[0]
    names: Names = {}
    for name, values in each.items():
        means = {of: fmean(own) for of, own in values.items()}
        names[name] = replace(spread(means.values()), by_seed=means if seeds else {})
    return names


def holes(sides: Sides) -> Names:
    """Seeds with wrong sums: all of the one setting, and none of the other, a bound of ours; so
    against it where the large starts have none."""
    names: Names = {}
    for name, side in sides.items():
        names[f"n_{name}"] = len({row["seed"] for row in side.rows})
        wrong = {row["seed"] for row in side.rows if row["n_right"] < row["n"]}
        names[f"{name}_holed"] = len(wrong)
        names[f"{name}_wrong"] = 1 - sum(r["n_right"] for r in side.rows) / sum(
            r["n"] for r in side.rows
        )
    all_large = names["large_holed"] == names["n_large"]
    holds = REPRODUCED if all_large and names["small_holed"] == 0 else UNDECIDED
    return {**names, "verdict": holds if names["large_holed"] else NOT}


def gaps(sides: Sides) -> Names:
    """Of each setting, the loss of held-out text less that of training text, by seed."""
    names: Names = {}
    for setting in ("large", "small"):
        held_out, train = sides[f"{setting}_held_out"], sides[f"{setting}_train"]
        gap = {seed: loss - train.by_seed[seed] for seed, loss in held_out.by_seed.items()}
        names[setting] = with_seeds(spread(gap.values(), held_out.rows), gap)
    return names


# LRF


def roles_rise(claim: Claim, lines: Lines) -> bool:
    """From the first layer to the last."""
    return agreed(verdict for line in lines for verdict in line.decided) == REPRODUCED


def cuts(sides: Sides) -> Names:
    """Of the layers and what each reads: the share that is left with that knocked out, by seed."""
    left: dict[str, dict[int, float]] = {}
    for row in sides["cuts"].rows:
        place = f"{row['stack']} block {row['layers']} without {read_out(row['earlier'])}"
        left.setdefault(place, {})[row["seed"]] = row["n_right"] / row["n_clean"]
    each = {place: of_seeds(values) for place, values in left.items()}
    called = {f"cut{number}": place for number, place in enumerate(each)}
    return {
        "places": ", ".join(f"{place} {side:seeds}" for place, side in each.items()),
        "called": called,
        **{name: each[place] for name, place in called.items()},
    }
