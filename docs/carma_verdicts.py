"""CARMA's claims, what the comparison measured of them, and its own tables summed up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from scipy.stats import f as f_distribution

from docs.carma_results import TASKS
from docs.measured import Table, read
from docs.verdicts import (
    BREAK,
    NOT,
    REPRODUCED,
    UNDECIDED,
    UNTESTED,
    Claims,
    Found,
    agreed,
    by_ranges,
    by_tests,
    judged,
    sure,
)
from interp_compose.papers.carma.paper import paper_numbers

CLAIMS: Final = Claims()
COMPOSITION: Final = "The gain is one of composition"
IDM, SST = TASKS
Row = Mapping[str, Any]


def compared(task: str) -> dict[str, Any]:
    """What ``interp-compose carma`` found on a shipped task."""
    return read(f"carma_mini_base_{task.replace('-', '_')}")


def differences(task: str, metric: str, second: str = "ft", family: str = "headline") -> list[Row]:
    """CARMA minus another version, by layer or rate."""
    wanted = ("carma", second, metric, family)
    names = ("first", "second", "metric", "family")
    return [r for r in compared(task)["differences"] if tuple(r[name] for name in names) == wanted]


def summary(task: str, version: str, metric: str, rate: float | None = None) -> Row:
    """Mean, spread and interval of a version's measure that has no layers."""
    wanted = (version, metric, rate)
    rows = compared(task)["summary"]
    (row,) = (r for r in rows if (r["version"], r["metric"], r["rate"]) == wanted)
    return row


def rates(task: str) -> list[float]:
    """Shares of words replaced; one if all replaced the same words."""
    every = sorted(compared(task)["config"]["rates"])
    means = {summary(task, "carma", "consist_syn", rate)["mean"] for rate in every}
    return every if len(means) > 1 else every[:1]


def ends(row: Row) -> tuple[float, float]:
    """Its 95 % interval."""
    return row["ci_low"], row["ci_high"]


def points(row: Row) -> str:
    """Like "+4.39 ± 0.64"."""
    return f"{signed(row['difference'])} ± {row['standard_error']:.2f}"


def signed(value: float, digits: int = 2) -> str:
    """With a plus or a minus in front."""
    return f"{value:+.{digits}f}".replace("-", "−")


def interval(row: Row, digits: int = 1) -> str:
    """Like "[−0.4, 3.9]"."""
    return f"[{', '.join(f'{end:.{digits}f}' for end in ends(row))}]".replace("-", "−")


def per_task(tell: Callable[[str], str]) -> str:
    """A line for each task."""
    return BREAK.join(f"`{task}`: {tell(task)}" for task in TASKS)


@CLAIMS.add(
    "Accuracy under CAP is higher with CARMA than with plain fine-tuning (+3.6, +16.9, +27.4)",
    "5.1, Figs 2 and 8",
    *TASKS,
)
def _cap() -> Found:
    def tell(task: str) -> str:
        rows = differences(task, "cap")
        gains = [f"{points(row)} at layer {row['layer']:.0f}" for row in rows if sure(row)]
        (own,) = differences(task, "accuracy")
        return (
            f"{', '.join(gains) or 'none'} ({len(gains)} of {len(rows)} layers after Holm); "
            f"accuracy without CAP {points(own)}"
        )

    text = (
        f"{per_task(tell)}{BREAK}of `{SST}` it cannot be told how much is pooling's and how much "
        "accuracy's"
    )
    return text, agreed(by_tests(differences(task, "cap")) for task in TASKS)


@CLAIMS.add("… under mean, max and sum pooling alike", "Figs 6 and 7", *TASKS)
def _protocols() -> Found:
    def of(task: str, pooling: str) -> list[Row]:
        rows = differences(task, "cap", family="protocols")
        return [row for row in rows if row["pooling"] == pooling]

    def tell(task: str) -> str:
        parts = []
        for pooling in ("mean", "max", "sum"):
            layers = [f"{row['layer']:.0f}" for row in of(task, pooling) if sure(row)]
            parts.append(f"{pooling} at {' and '.join(layers)}" if layers else f"{pooling} at none")
        return ", ".join(parts)

    verdicts = (by_tests(of(task, name)) for task in TASKS for name in ("mean", "max", "sum"))
    return f"layers higher after Holm{BREAK}{per_task(tell)}", agreed(verdicts)


@CLAIMS.add(
    f"{COMPOSITION}: tokens are bound into structured meaning",
    "abstract, 5.1",
    "controls",
)
def _controls() -> Found:
    gain = {
        (row["pooling"], row["layer"]): row
        for row in read("carma_controls_mini_idm")["differences"]
    }
    layers = [layer for name, layer in gain if name == "mean" and ends(gain[name, layer])[0] > 0]
    lines = [
        f"layer {layer:.0f}: words {points(gain['mean', layer])}, random spans "
        f"{points(gain['shuffled', layer])}, last token alone {points(gain['last', layer])}"
        for layer in layers
    ]
    half = all(
        ends(gain["shuffled", layer])[0] > 0
        and gain["shuffled", layer]["difference"] > gain["mean", layer]["difference"] / 2
        for layer in layers
    )
    text = BREAK.join(
        [
            "CARMA's gain, by what is pooled to its mean",
            *lines,
            "whether words gain more than random spans was not tested",
        ]
    )
    return text, judged(UNDECIDED, bool(layers) and half)


@CLAIMS.add(
    "Early layers gain most, middle ones some, deep ones hardly anything",
    "5.1, Figs 2 and 8",
    *TASKS,
)
def _layers() -> Found:
    def tell(task: str) -> str:
        rows = differences(task, "cap")
        first, last = (
            f"[{signed(low, 1)}, {signed(high, 1)}]" for low, high in map(ends, (rows[0], rows[-1]))
        )
        return f"{', '.join(map(points, rows))}; 95 % of the first {first}, of the last {last}"

    of = {task: differences(task, "cap") for task in TASKS}
    verdicts = (by_ranges(ends(rows[-1]), ends(rows[0])) for rows in of.values())
    return f"from the first layer to the last{BREAK}{per_task(tell)}", agreed(verdicts)


@CLAIMS.add("Plain fine-tuning and CARMA have curves of one shape", "App. E", *TASKS)
def _shapes() -> Found:
    def r(task: str) -> float:
        rows = differences(task, "cap", family="protocols")
        first, second = ([row[f"mean_{one}"] for row in rows] for one in ("first", "second"))
        return float(np.corrcoef(first, second)[0, 1])

    text = per_task(lambda task: f"r = {r(task):.3f}")
    text = f"correlation over layers and poolings{BREAK}{text}"
    return text, judged(REPRODUCED, min(r(task) for task in TASKS) > 0.9)


@CLAIMS.add("The gain is clearer in the inverse dictionary than in sentiment", "App. E", *TASKS)
def _idm_over_sc() -> Found:
    both = [*zip(differences(IDM, "cap"), differences(SST, "cap"), strict=True)]
    larger = sum(a["difference"] > b["difference"] for a, b in both)
    verdicts = [by_ranges(ends(b), ends(a)) for a, b in both]
    overlap = verdicts.count(UNDECIDED)
    text = (
        f"larger on `{IDM}` at {larger} of {len(both)} layers; the 95 % intervals of the two tasks "
        f"overlap at {overlap}"
    )
    return text, agreed(verdicts)


@CLAIMS.add(
    "Consistency under synonyms (ConsistSyn) matches or exceeds plain fine-tuning's",
    "5.2, Tables 1, 4 and 5",
    *TASKS,
)
def _consistency() -> Found:
    def tell(task: str) -> str:
        rows = differences(task, "consist_syn")[: len(rates(task))]
        return ", ".join(f"{points(row)} at {100 * row['rate']:g} %" for row in rows)

    return per_task(tell), agreed(by_tests(differences(task, "consist_syn")) for task in TASKS)


@CLAIMS.add(
    "Its coefficient of variation over seeds is consistently lower",
    "abstract, 5.2, Tables 1, 4 and 5",
    *TASKS,
)
def _cv() -> Found:
    return _cv_at(0)


@CLAIMS.add("At 40 % of the words that advantage is clearer than at 25 %", "5.2", *TASKS)
def _dose() -> Found:
    if any(len(rates(task)) == 1 for task in TASKS):
        return "both rates replace the same words of these prompts", UNTESTED
    return _cv_at(-1)


def _cv_at(which: int) -> Found:
    def rows(task: str) -> list[Row]:
        rate = rates(task)[which]
        return [summary(task, version, "consist_syn_cv", rate) for version in ("carma", "ft")]

    def tell(task: str) -> str:
        own, ft = (f"{row['mean']:.3f} {interval(row, 3)}" for row in rows(task))
        return f"at {100 * rates(task)[which]:g} % CARMA {own}, plain {ft}"

    return per_task(tell), agreed(by_ranges(*map(ends, rows(task))) for task in TASKS)


@CLAIMS.add("Consistency is above the original model's (NI, +14.6 %)", "5.2", *TASKS)
def _improvement() -> Found:
    def row(task: str, version: str = "carma") -> Row:
        return summary(task, version, "improvement_over_original", rates(task)[0])

    def tell(task: str) -> str:
        own, ft = row(task), row(task, "ft")
        return f"{signed(own['mean'], 1)} % {interval(own)}; plain {signed(ft['mean'], 1)} %"

    return per_task(tell), agreed(by_ranges((0, 0), ends(row(task))) for task in TASKS)


@CLAIMS.add(
    "Accuracy is far above the original model's (+150 %, +89.6 %, +122.5 %)",
    "5.3, Figs 3 and 4",
    *TASKS,
)
def _over_original() -> Found:
    def tell(task: str) -> str:
        values = (summary(task, v, "accuracy")["mean"] for v in ("original", "carma", "ft"))
        return "{:.1f} → {:.1f} %; plain {:.1f} %".format(*values)

    return per_task(tell), agreed(
        by_tests(differences(task, "accuracy", "original")) for task in TASKS
    )


@CLAIMS.add(
    "Accuracy is above plain fine-tuning's in the inverse dictionary (+5 %, +1.7 %)",
    "5.3, Fig. 3",
    IDM,
)
def _accuracy() -> Found:
    (row,) = differences(IDM, "accuracy")
    return f"{points(row)} points, p = {row['p_holm']:.2f} after Holm", by_tests([row])


@CLAIMS.add("… and comparable to it in sentiment", "5.3, Fig. 4", SST)
def _accuracy_sc() -> Found:
    (row,) = differences(SST, "accuracy")
    apart = by_ranges((0, 0), ends(row)) != UNDECIDED
    near = max(map(abs, ends(row))) < 1
    text = f"{points(row)} points, 95 % {interval(row)}; comparable: all of it within ±1"
    return text, NOT if apart else REPRODUCED if near else UNDECIDED


@CLAIMS.add("CARMA reduces the variability that fine-tuning introduces", "abstract", *TASKS)
def _variability() -> Found:
    def test(task: str) -> tuple[float, float, float]:
        ft, own = (summary(task, version, "accuracy") for version in ("ft", "carma"))
        freedom = own["n_seeds"] - 1
        below = float(f_distribution.cdf((own["sd"] / ft["sd"]) ** 2, freedom, freedom))
        return ft["sd"], own["sd"], 2 * min(below, 1 - below)

    def verdict(ft: float, own: float, p: float) -> str:
        return UNDECIDED if p >= 0.05 else REPRODUCED if own < ft else NOT

    text = per_task(lambda task: "{:.2f} → {:.2f} points (F test, p = {:.2f})".format(*test(task)))
    text = f"standard deviation of accuracy over seeds, plain → CARMA{BREAK}{text}"
    return text, agreed(verdict(*test(task)) for task in TASKS)


@CLAIMS.add("It stabilises token representations and prevents drift", "abstract, 5.3", *TASKS)
def _drift() -> Found:
    names = {
        "same_word_cosine": "cosines within words",
        "different_word_cosine": "between words",
        "stable_rank": "stable rank",
    }

    def farther(task: str, metric: str) -> tuple[int, int]:
        of = {
            (row["first"], row["layer"]): abs(row["difference"])
            for row in compared(task)["differences"]
            if (row["metric"], row["second"]) == (metric, "original")
        }
        layers = [layer for version, layer in of if version == "carma"]
        return sum(of["carma", one] > of["ft", one] for one in layers), len(layers)

    def tell(task: str) -> str:
        return ", ".join("{} {} of {}".format(n, *farther(task, m)) for m, n in names.items())

    found = [farther(task, metric) for task in TASKS for metric in names]
    every, none = all(a == b for a, b in found), all(a == 0 for a, _ in found)
    text = (
        "layers moved farther from the original model than without CARMA (claimed: none)"
        f"{BREAK}{per_task(tell)}"
    )
    return text, NOT if every else REPRODUCED if none else UNDECIDED


@CLAIMS.add(
    "Mutual information regularisation improves compositionality (RQ1)", "3.2", "search", "controls"
)
def _mi() -> Found:
    rows = read("carma_search_mini_idm")["held_out"]
    own = [row for row in rows if row["claim"] == "cap" and row["setting"].startswith("MI")]
    lines = [f"{row['setting']}: {points(row)}, p = {row['p_holm']:.3f}" for row in own]
    text = BREAK.join(
        [
            "accuracy under CAP, that term alone",
            *lines,
            f"by claim {CLAIMS.number(COMPOSITION)} such a gain need not be one of composition; "
            "no control was run with that term alone",
        ]
    )
    return text, judged(UNDECIDED, by_tests(own) == REPRODUCED and UNDECIDED in _controls()[1])


@CLAIMS.add("Layer-wise stability preserves compositional integrity", "3.2", "search")
def _stability() -> Found:
    rows = read("carma_search_mini_idm")["search"]
    own = [row for row in rows if row["claim"] == "cap" and row["setting"].startswith("stab")]
    lines = [f"{row['setting']}: {points(row)}" for row in own]
    text = BREAK.join(["accuracy under CAP, that term alone, two search seeds", *lines])
    return text, agreed(by_ranges((0, 0), ends(row)) for row in own)


@CLAIMS.add(
    "Training takes 1.3 to 7.6 times as long",
    "App. E.1, Tables 6 and 7",
    "overhead",
)
def _overhead() -> Found:
    found = read("carma_gpt2-small_cpu_float32")["overhead"]["paper's layers (1-3)"]
    least = paper_numbers().query("metric == 'overhead'")["value"].min()
    low, high = found["range"]
    text = (
        f"a step {found['median']:.2f} ({low:.2f}–{high:.2f}) times as long as a plain one, on one "
        "CPU, which is little evidence about their training"
    )
    return text, judged(UNDECIDED, high < least)


CLAIMS.untested("… inference no longer", "App. E.1", "inference was not timed")
ONE_SIZE: Final = "models of one size were trained"
CLAIMS.untested("Larger models benefit most", "5.3, App. E", ONE_SIZE)
CLAIMS.untested("Larger models need a larger λ (0.4, 0.5)", "App. B.3", ONE_SIZE)
CLAIMS.untested(
    "Gains depend on tokenisation, vocabulary and languages covered", "5.1, 5.2", "one tokenizer"
)
CLAIMS.untested(
    "Gains shrink when deeper layers are regularised", "3.2", "no setting has deep layers alone"
)
CLAIMS.untested(
    "Answers over-generalise less (*neuron* → *cell*, *positive* → *neutral*)",
    "Fig. 5, App. A",
    "errors are not sorted into kinds",
)
CLAIMS.untested(
    "A learning rate of 0.006 after 500 steps of warm-up trains these models",
    "App. B.5",
    "none of its models was trained",
)


@CLAIMS.add(
    "If low complexity lets a model compose, CARMA's weights are less complex",
    "crossed with complexity control",
    "carma-watched",
)
def _complexity() -> Found:
    rows = {row["measure"]: row for row in read("carma_watched_mini_idm")["differences"]}
    each = []
    for name, words, digits in (
        ("stable_rank", "stable rank (lower)", 2),
        ("mean_abs_cosine", "condensation (higher)", 4),
    ):
        row = rows[name]
        before, plain, own = (f"{row[at]:.{digits}f}" for at in ("start", "ft", "carma"))
        gain, low, high = (signed(one, digits) for one in (row["difference"], *ends(row)))
        each.append(
            f"{words}: {before} before, {plain} fine-tuned, {own} with CARMA, difference {gain} "
            f"({low} to {high})"
        )
    ranks, cosines = ends(rows["stable_rank"]), ends(rows["mean_abs_cosine"])
    head = "mean over matrices after the last step; in brackets 95 %, paired by seed"
    verdict = agreed([by_ranges(ranks, (0, 0)), by_ranges((0, 0), cosines)])
    return BREAK.join([head, *each]), verdict


def own_tables() -> Table:
    """Heads and rows: CARMA compared with plain fine-tuning in the paper's tables 4 and 5."""
    names = {"consist_syn": ("ConsistSyn, %", "higher"), "cv": ("CV", "lower")}
    rows = []
    paper = paper_numbers().query("table in (4, 5)")
    for metric, (name, better) in names.items():
        chosen = paper[paper["metric"] == metric]
        both = chosen.pivot(index=["label", "task", "rate"], columns="version", values="value")
        gain = both["carma"] - both["ft"]
        counted = [(gain > 0).sum(), (gain < 0).sum(), (gain == 0).sum(), len(gain)]
        ratio = np.exp(np.log(both["carma"] / both["ft"]).abs().max())
        rows.append([name, better, *map(str, counted), signed(gain.mean(), 4), f"{ratio:.1f}"])
    heads = ["", "claimed", "CARMA higher", "lower", "the same", "pairs", "mean difference"]
    return [*heads, "larger over smaller, at most"], rows
