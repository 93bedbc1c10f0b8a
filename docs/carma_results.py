"""The tables of what the comparison found, from the files in ``benchmarks/results/``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.measured import Table, read

TASKS = ("mini-idm", "mini-sst")
CLAIMS = {
    "accuracy": "accuracy",
    "cap": "CAP, all layers and protocols",
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
                *(f"{means[(*place, version)]:.1f}" for version in ("original", "ft", "carma")),
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


def protocols(task: str) -> Table:
    """Heads and rows: CARMA minus plain fine-tuning at each layer, by protocol."""
    poolings = ("mean", "max", "sum")
    found = {
        (row["layer"], row["pooling"]): _gain(row) + (" *" if _sure(row) else "")
        for row in _carma_over_ft(task, "protocols")
    }
    layers = sorted({layer for layer, _ in found})
    rows = [[f"{layer:.0f}", *(found[layer, one] for one in poolings)] for layer in layers]
    return ["layer", *poolings], rows


def representations(task: str) -> Table:
    """Heads and rows: what CARMA does to the residual streams, beside plain fine-tuning."""
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
