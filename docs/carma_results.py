"""The tables of what the comparison found, from the files in ``benchmarks/results/``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.measured import Table, read

TASKS = ("mini-idm", "mini-sst")
CLAIMS = {
    "accuracy": "accuracy",
    "cap": "CAP, all layers and poolings",
    "consist_syn": "ConsistSyn, 25 %",
}


def outcomes(task: str) -> Table:
    """Heads and rows: each headline measure, by version, and CARMA minus plain fine-tuning."""
    result = read(f"carma_mini_base_{task.replace('-', '_')}")
    means = {
        (row["metric"], row["rate"], row["layer"], row["pooling"], row["version"]): row["mean"]
        for row in result["summary"]
    }
    rows = []
    for row in result["differences"]:
        if (row["first"], row["second"], row["family"]) != ("carma", "ft", "headline"):
            continue
        place = (row["metric"], row["rate"], row["layer"], row["pooling"])
        rows.append(
            [
                _name(row),
                *(f"{means[(*place, version)]:.2f}" for version in ("original", "ft", "carma")),
                f"{row['difference']:+.2f} ± {row['standard_error']:.2f}".replace("-", "−"),
                _p(row["p"]),
                _p(row["p_holm"]),
                str(row["verdict"]).partition(":")[0].partition(" by ")[0].partition(",")[0],
            ]
        )
    heads = ["%", "original", "FT", "CARMA", "CARMA − FT, ± SE", "p", "p (Holm)", "verdict"]
    return heads, rows


def controls(task: str) -> Table:
    """Heads and rows: CARMA minus plain fine-tuning under CAP and its two controls."""
    result = read(f"carma_controls_{task.replace('-', '_')}")
    rows: dict[int, list[str]] = {}
    for row in result["differences"]:
        rows.setdefault(row["layer"], [str(row["layer"])]).append(_gain(row))
    return ["layer", "mean", "last", "shuffled"], list(rows.values())


def watched(task: str) -> Table:
    """Heads and rows: what a watcher found before training and after it, by version."""
    names = {"stable_rank": "stable rank", "mean_abs_cosine": "condensation"}
    rows = []
    for row in read(f"carma_watched_{task.replace('-', '_')}")["differences"]:
        at = "clean" if row["layer"] < 0 else f"layer {row['layer']}"
        is_share = row["measure"] == "cap"
        scale, digits = (100, 1) if is_share else (1, 4 if row["start"] < 1 else 2)
        start, ft, carma = (f"{scale * row[key]:.{digits}f}" for key in ("start", "ft", "carma"))
        ends = (f"{scale * row[key]:+.{digits}f}" for key in ("difference", "ci_low", "ci_high"))
        difference, low, high = (end.replace("-", "−") for end in ends)
        what = f"CAP, {at}, %" if is_share else names[row["measure"]]
        rows.append([what, start, ft, carma, f"{difference} ({low} to {high})"])
    return ["", "before", "FT", "CARMA", "CARMA − FT"], rows


def search(task: str) -> Table:
    """Heads and rows: every setting tried, and what it gained on the search seeds."""
    result = read(f"carma_search_{task.replace('-', '_')}")
    rows = []
    for setting in result["settings"]:
        gains = {row["claim"]: row for row in result["search"] if row["setting"] == setting}
        rows.append([setting, *(_gain(gains[claim]) for claim in CLAIMS)])
    return ["setting", *CLAIMS.values()], rows


def held_out(task: str) -> Table:
    """Heads and rows: the chosen settings on seeds that nothing was chosen on."""
    result = read(f"carma_search_{task.replace('-', '_')}")
    rows = [
        [row["setting"], CLAIMS[row["claim"]], _gain(row), _p(row["p"]), _p(row["p_holm"])]
        for row in result["held_out"]
    ]
    return ["setting", "measure", "CARMA − FT, ± SE", "p", "p (Holm)"], rows


def stability(task: str) -> Table:
    """Heads and rows: how measures vary over seeds, and improvements; CARMA's last."""
    result = read(f"carma_mini_base_{task.replace('-', '_')}")
    names = {
        "consist_syn_cv": "CV of ConsistSyn",
        "improvement_over_original": "NI over the original, %",
        "improvement_over_ft": "NI over plain fine-tuning, %",
    }
    rows: dict[tuple[str, float], list[str]] = {}
    for metric, name in names.items():
        for rate in result["config"]["rates"]:
            own = {
                row["version"]: _with_interval(row)
                for row in result["summary"]
                if (row["metric"], row["rate"]) == (metric, rate)
            }
            cells = [own.get(version, "–") for version in ("original", "ft", "carma")]
            rows[metric, rate] = [f"{name}, {100 * rate:g} %", *cells]
    return ["95 % intervals over seeds", "original", "FT", "CARMA"], list(rows.values())


def poolings(task: str) -> Table:
    """Heads and rows: CARMA minus plain fine-tuning at each layer, by pooling."""
    poolings = ("mean", "max", "sum")
    found = {
        (row["layer"], row["pooling"]): _gain(row) + (" *" if _sure(row) else "")
        for row in _carma_over_ft(task, "protocols")
    }
    layers = sorted({layer for layer, _ in found})
    rows = [[f"{layer:.0f}", *(found[layer, one] for one in poolings)] for layer in layers]
    return ["layer", *poolings], rows


def representations(task: str) -> Table:
    """Heads and rows: how CARMA changes the residual streams, compared with plain fine-tuning."""
    names = {
        "same_word_cosine": "cosine within words",
        "different_word_cosine": "between words",
        "stable_rank": "stable rank",
    }
    found = {
        (row["layer"], row["metric"]): _gain(row, 3) + (" *" if _sure(row) else "")
        for row in _carma_over_ft(task, "representations")
    }
    layers = sorted({layer for layer, _ in found})
    rows = [[f"{layer:.0f}", *(found[layer, one] for one in names)] for layer in layers]
    return ["layer", *names.values()], rows


def dose() -> Table:
    """Heads and rows: how many words the synonym replacement asked for and reached, by task."""
    rows = []
    for task in TASKS:
        for row in read(f"carma_mini_base_{task.replace('-', '_')}")["dose"]:
            counts = (f"{row[name]:.2f}" for name in ("words", "eligible", "wanted", "replaced"))
            shares = (f"{100 * row[name]:.0f} %" for name in ("dose", "reached"))
            rows.append([f"`{task}`", f"{100 * row['rate']:g} %", *counts, *shares])
    heads = ["task", "asked for", "words a prompt", "eligible", "wanted", "replaced"]
    return [*heads, "mean dose", "prompts with all wanted replaced"], rows


def gains() -> Table:
    """Heads and rows: how CARMA's gain under CAP depends on layer and task."""
    names = {
        "mean": "mean of all layers",
        "early_minus_late": "first layer − last",
        "slope": "slope, per layer",
    }
    rows = []
    for metric, name in names.items():
        for task in TASKS:
            row = read(f"carma_mini_base_{task.replace('-', '_')}")["gain_by_layer"][metric]
            interval = f"[{row['ci_low']:.2f}, {row['ci_high']:.2f}]".replace("-", "−")
            rows.append([name, f"`{task}`", _gain(row), interval, _p(row["p"])])
    return ["CARMA − FT, points", "task", "± SE", "95 %", "p"], rows


def labels() -> Table:
    """Heads and rows: accuracy on mini-sst over the vocabulary and among the labels."""
    result = read("carma_labels_mini_sst")
    names = {
        "original": "original",
        "mini-idm": "`mini-idm`, tuned on another task",
        "ft": "FT",
        "carma": "CARMA",
    }
    means = {(row["version"], row["answers"], row["metric"], row["layer"]): row
             for row in result["means"]}  # fmt: skip
    rows = []
    for version, name in names.items():
        cells = []
        for metric, layer in (("accuracy", None), ("cap", 0)):
            for answers in ("vocabulary", "labels"):
                row = means[version, answers, metric, layer]
                ends = f" ({row['low']:.1f}–{row['high']:.1f})" if row["n_seeds"] > 1 else ""
                cells.append(f"{row['mean']:.1f}{ends}")
        rows.append([name, *cells])
    heads = ["%", "accuracy, vocabulary", "labels", "CAP at layer 0, vocabulary", "labels"]
    return heads, rows


def search_choice(task: str) -> str:
    """What the settings were chosen on, and what else a reader of the search must know."""
    result = read(f"carma_search_{task.replace('-', '_')}")
    seeds = ", ".join(map(str, result["search_seeds"]))
    said = f"Settings were chosen by their gains on the {result['chosen_on']} split (seeds {seeds})"
    if result["chosen_on"] == "test":
        said += (
            ", on whose prompts the held-out runs are scored too: their *seeds* are held out, the "
            "prompts are not, so that the gains below may be too large by what fits these prompts. "
            "`benchmarks.carma_search` chooses on the validation split now; it was not run again"
        )
    if result["rates_of"] == "eligible words":
        said += (
            ". ConsistSyn is of 25 % of the *eligible* words, which on this task replaces as many "
            "words as 25 % of all in 1133 of 1140 prompts"
        )
    return said + "."


def _carma_over_ft(task: str, family: str) -> list[dict[str, Any]]:
    rows = read(f"carma_mini_base_{task.replace('-', '_')}")["differences"]
    wanted = ("carma", "ft", family)
    return [r for r in rows if (r["first"], r["second"], r["family"]) == wanted]


def _sure(row: Mapping[str, Any]) -> bool:
    """Beyond chance after the correction."""
    return row["p_holm"] is not None and row["p_holm"] < 0.05


def _with_interval(row: Mapping[str, Any]) -> str:
    digits = 3 if row["metric"] == "consist_syn_cv" else 1
    mean, *ends = (f"{row[name]:.{digits}f}" for name in ("mean", "ci_low", "ci_high"))
    return f"{mean} [{', '.join(ends)}]".replace("-", "−")


def _name(row: Mapping[str, Any]) -> str:
    if row["metric"] == "accuracy":
        return "accuracy"
    if row["metric"] == "cap":
        return f"CAP at layer {row['layer']:.0f}"
    return f"ConsistSyn, {100 * row['rate']:g} %"


def _gain(row: Mapping[str, Any], digits: int = 2) -> str:
    text = f"{row['difference']:+.{digits}f} ± {row['standard_error']:.{digits}f}"
    return text.replace("-", "−")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
