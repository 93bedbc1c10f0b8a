"""What a comparison's numbers allow to be said, in sentences, and the table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.papers.carma.differences import (
    AVERAGE,
    KINDS,
    REPRESENTATIONS,
    against_ft,
    not_converged,
    own_caveat,
    percent,
    records,
    saturated_rates,
    verdict,
)
from interp_compose.papers.carma.tables import LABELS
from interp_compose.studies.core.decided import LIES, Measure, changed, layers_named
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.text import Summary, about, counted, decimal, interval, text_table

CHANGED_ENOUGH: Final = 0.9  # of the prompts: no caution


def cautions(comparison: StudyResult) -> list[str]:
    """What a reader must know before believing a figure: runs unfinished, sets too easy, …"""
    training = comparison.frames["training"]
    lines = [f"{text}." for text in not_converged(training, reasons=True).values()]
    lines += _one_token(comparison.frames["accuracy"])
    lines += [f"{text}." for text in counted_prompts(comparison, below=CHANGED_ENOUGH)]
    lines += _same_replacements(comparison.frames["replacements"])
    easy = saturated_rates(comparison.frames["summary"])
    if easy:
        lines.append(
            f"ConsistSyn is saturated at {easy}: this set does not discriminate "
            "(every version above 95 %)."
        )
    lines += _got_worse(comparison.frames["differences"])
    if len(set(comparison.frames["accuracy"]["seed"])) < 2:
        lines.append("One seed: nothing is said about differences; run at least 5.")
    return lines


def counted_prompts(comparison: StudyResult, *, below: float = 1.0) -> list[str]:
    """For each rate how many prompts ConsistSyn counts, where it is a smaller share than that."""
    lines = []
    for rate, rows in comparison.frames["synonyms"].groupby("rate"):
        n, n_test = (int(number) for number in rows.sort_values("n")[["n", "n_test"]].iloc[0])
        if n < below * n_test:
            lines.append(
                f"At {percent(rate)}, ConsistSyn counts the {n} of {n_test} prompts in which a "
                "word was replaced (smallest over seeds)"
            )
    return lines


def _got_worse(differences: pd.DataFrame) -> list[str]:
    """That plain fine-tuning ends below the model that it started from."""
    rows = differences[(differences["first"] == "ft") & (differences["second"] == "original")]
    return [
        f"Plain fine-tuning ends below the original model: accuracy "
        f"{decimal(row['mean_first'], 2)} % against {decimal(row['mean_second'], 2)} %, over "
        f"{counted(row['n_seeds'], 'seeds')} a difference of "
        f"{interval(*(row[end] for end in ('difference', 'ci_low', 'ci_high')))} points."
        for row in records(rows[(rows["metric"] == "accuracy") & (rows["difference"] < 0)])
    ]


def _one_token(accuracy: pd.DataFrame) -> list[str]:
    """Versions that give the same answer to everything; the original is one model, not runs."""
    several = accuracy[accuracy["n"] > 1]
    lines = []
    for version, rows in several.groupby("version", sort=False):
        stuck = int((rows["n_distinct"] == 1).sum())
        if stuck and version == "original":
            lines.append("The original answers every prompt with the same token.")
        elif stuck:
            runs = f"{stuck} of {len(rows)} {version} runs"
            lines.append(f"{runs} answer every prompt with the same token.")
    return lines


def _same_replacements(replacements: pd.DataFrame) -> list[str]:
    """Rates at which the very same words were replaced: no second observation."""
    columns = ["seed", "example", "position", "replacement"]
    words = {
        rate: frozenset(rows[columns].itertuples(index=False, name=None))
        for rate, rows in replacements.groupby("rate")
    }
    return [
        f"At {percent(low)} and {percent(high)} the same words were replaced "
        f"({len(words[low])} words, over all seeds): these texts have too few words that can be, "
        "and the two rates are one observation."
        for low, high in pairwise(words)
        if words[low] == words[high]
    ]


TIMED: Final = 10
"""Steps that a run needs before the time of one is told."""
SYMBOLS: Final = {
    "weight": "λ, weight of both terms",
    "mi_weight": "γ, mutual information",
    "stability_weight": "η, stability",
    "layers": "layers of mutual information",
    "stability_layers": "layers of stability",
    "temperature": "τ, temperature",
}


POINTS: Final = Measure("points", 1.0)
"""Of accuracies and ConsistSyn in per cent; a difference within one point is called none."""


def answers(differences: pd.DataFrame) -> list[str]:
    """Whether accuracy, clean and pooled, and consistency under synonyms differ between CARMA and
    plain fine-tuning: a sentence each, decided by the paired t test over seeds and Holm.

    Args:
        differences: as :attr:`.Comparison.differences` has them.
    """
    parts = [against_ft(differences, name, at) for name, at in (("accuracy", ""), ("cap", AVERAGE))]
    return [
        changed(
            rows,
            POINTS,
            act=f"{subject} of CARMA",
            what="that of plain fine-tuning",
            than="that of plain fine-tuning",
            places=_places,
            of="seeds",
            saying=LIES,
        )
        for subject, part in (
            ("The accuracy", pd.concat(parts)),
            ("The ConsistSyn", against_ft(differences, "consist_syn")),
        )
        if (rows := _spread(part))
    ]


def _spread(differences: pd.DataFrame) -> Sequence[Mapping[str, Any]]:
    """Those that are defined, with ``n``; without those that all seeds agree on, which leaves no
    spread to test against, where there are others."""
    known = differences[differences["difference"].notna()]
    tested = known[known["ci_low"].notna()]
    shown = tested if len(tested) else known
    return records(shown.assign(n=shown["n_seeds"]))


def _places(rows: Sequence[Mapping[str, Any]]) -> str:
    """``in clean runs and when pooled at layers 0 and 1``, ``with 25 % of words replaced``."""
    texts = ["in clean runs"] if any(row["metric"] == "accuracy" for row in rows) else []
    if layers := [int(row["layer"]) for row in rows if row["metric"] == "cap"]:
        texts.append(f"when pooled at {layers_named(layers)}")
    if rates := [percent(row["rate"]) for row in rows if row["metric"] == "consist_syn"]:
        texts.append(f"with {', '.join(rates)} of words replaced")
    return " and ".join(texts)


def verdicts(comparison: StudyResult) -> list[tuple[str, str]]:
    """What CARMA changes beside plain fine-tuning: (subject, sentence), the most telling first."""
    differences = comparison.frames["differences"]
    pairs = [("Accuracy", _sentence(row)) for row in records(against_ft(differences, "accuracy"))]
    cap = against_ft(differences, "cap", AVERAGE)
    if len(cap):
        pairs.append(("CAP, mean of the poolings", _by_layer(cap)))
    for row in records(against_ft(differences, "consist_syn")):
        place = f"{percent(row['rate'])} replaced"
        pairs.append((f"ConsistSyn, {place}", _sentence(row)))
        pairs.append(
            (f"CV of ConsistSyn, {place}", _variation(comparison.frames["summary"], row["rate"]))
        )
    for metric in REPRESENTATIONS:
        part = against_ft(differences, metric)
        if part["difference"].notna().any():
            pairs.append((metric.replace("_", " ").capitalize(), _by_layer(part)))
    if len(comparison.frames["overhead"]):
        pairs.append(("Overhead", overhead_sentence(comparison)))
    return pairs


def overhead_sentence(comparison: StudyResult) -> str:
    """Like "a step takes 1.05 times as long (1.03 … 1.08 over 5 seeds); …"; no ratio where a run
    has fewer than :data:`TIMED` steps."""
    overhead = comparison.frames["overhead"]
    steps = int(comparison.frames["training"]["steps"].min())
    if steps < TIMED:
        return (
            f"{steps} step{'s' if steps != 1 else ''} a run cannot time CARMA beside plain "
            f"fine-tuning; train for {TIMED} or more"
        )
    step = overhead["carma_step_seconds"].median() / overhead["ft_step_seconds"].median()
    low, high = overhead["step_ratio"].min(), overhead["step_ratio"].max()
    whole = overhead["carma_seconds"].median() / overhead["ft_seconds"].median()
    seeds = f"{len(overhead)} seed" + ("s" if len(overhead) > 1 else "")
    return (
        f"a step of CARMA takes {step:.2f} times as long as one of plain fine-tuning "
        f"({low:.2f} … {high:.2f} over {seeds}), a whole training {whole:.2f} times"
    )


def dose_sentences(dose: pd.DataFrame) -> list[str]:
    """Like "25 % replaced: 1.0 of 4.1 words a prompt (1.0 wanted, 1.9 eligible), …"."""
    return [
        f"{percent(row['rate'])} replaced: {row['replaced']:.2f} of {row['words']:.2f} words a "
        f"prompt ({row['wanted']:.2f} wanted, {row['eligible']:.2f} eligible), a mean dose of "
        f"{100 * row['dose']:.1f} %"
        for row in records(dose)
    ]


def summary_lines(comparison: StudyResult) -> Summary:
    """A row per headline measure, a column per version, the paired difference and its verdict."""
    frame, differences = comparison.frames["summary"], comparison.frames["differences"]
    seeds = len(set(comparison.frames["accuracy"]["seed"]))
    versions = [name for name in LABELS if name in set(frame["version"])]
    columns = [("mean over seeds", "measure", "<26")]
    columns += [(LABELS[name], name, ">10") for name in versions]
    columns += [("CARMA − FT (SE) ", "difference", ">20"), (" verdict", "verdict", "")]
    rows = []
    ends = {
        measure_name(row): _end(row)
        for metric, pooling in (("accuracy", ""), ("cap", AVERAGE), ("consist_syn", ""))
        for row in records(against_ft(differences, metric, pooling))
    }
    is_main = frame["pooling"].isin(["", AVERAGE])
    is_main &= frame["metric"].isin(["accuracy", "cap", "consist_syn", "consist_syn_cv"])
    for _, part in frame[is_main].groupby(["metric", "rate", "layer"], sort=False, dropna=False):
        name = measure_name(records(part)[0])
        means = dict(zip(part["version"], part["mean"], strict=True))
        digits = 1
        if (part["metric"] == "consist_syn_cv").any():
            digits = 3
            means["original"] = None  # one model: it varies with the replaced words alone
        cells = {version: decimal(means.get(version), digits) for version in versions}
        end = ends.get(name, {"difference": "", "verdict": ""})
        rows.append({"measure": name, **cells, **end})
    lines: Summary = [
        about(comparison.config, ("model", "task"), f"{seeds} seed{'s' if seeds > 1 else ''}"),
        *answers(differences),
        "",
        text_table(pd.DataFrame(rows), columns),
        "",
        *dose_sentences(comparison.frames["dose_summary"]),
        "",
        *(f"! {text}" for text in cautions(comparison)),
    ]
    if len(comparison.frames["overhead"]):
        lines.append(overhead_sentence(comparison))
    while not lines[-1]:
        lines.pop()
    return lines


def measure_name(row: Mapping[str, Any]) -> str:
    """Like "CAP at layer 3 (%)" or "ConsistSyn (%), 25 %"."""
    if row["metric"] == "accuracy":
        return "accuracy (%)"
    if row["metric"] == "cap":
        return f"CAP at layer {row['layer']} (%)"
    name = "ConsistSyn (%)" if row["metric"] == "consist_syn" else "CV of ConsistSyn"
    return f"{name}, {percent(row['rate'])}"


def _sentence(row: Mapping[str, Any]) -> str:
    """Verdict, interval and caveat of one row; runs unfinished are told elsewhere."""
    text = str(row["verdict"]).replace("carma", "CARMA")
    if row["n_seeds"] > 1:
        ends = dict.fromkeys(_signed(row[end]) for end in ("ci_low", "ci_high"))
        text += (
            f"; difference {_signed(row['difference'])} points, standard error "
            f"{decimal(row['standard_error'], 2)}, 95 % interval {' … '.join(ends)}, "
            f"{row['n_seeds']} seeds"
        )
    return text + _caveat(row)


def _caveat(row: Mapping[str, Any]) -> str:
    caveat = own_caveat(row)
    return f". {caveat[0].upper()}{caveat[1:]}" if caveat else ""


def _variation(summary: pd.DataFrame, rate: float) -> str:
    """The coefficients of variation of both; no test, but whether their intervals overlap."""
    rows = summary[(summary["metric"] == "consist_syn_cv") & (summary["rate"] == rate)]
    ft, carma = (rows[rows["version"] == name].iloc[0] for name in ("ft", "carma"))
    if not np.isfinite([ft["ci_low"], ft["ci_high"], carma["ci_low"], carma["ci_high"]]).all():
        return "undefined, or without an interval: no statement"
    values = ", ".join(
        f"{name} {decimal(row['mean'], 4)} "
        f"[{decimal(row['ci_low'], 4)}, {decimal(row['ci_high'], 4)}]"
        for name, row in (("CARMA", carma), ("FT", ft))
    )
    if carma["ci_high"] < ft["ci_low"] or ft["ci_high"] < carma["ci_low"]:
        steadier = "CARMA" if carma["mean"] < ft["mean"] else "FT"
        return f"{steadier} steadier, the 95 % intervals do not overlap: {values}"
    return f"{KINDS['none']}, the 95 % intervals overlap: {values}"


def _by_layer(rows: pd.DataFrame) -> str:
    """Layers with the same verdict in one breath."""
    rows = rows[rows["difference"].notna()]
    kinds = [verdict(row).kind for row in records(rows)]
    points = " points" if rows["metric"].iloc[0] == "cap" else ""
    texts = []
    for kind, words in KINDS.items():
        part = rows[np.array(kinds) == kind]
        if len(part):
            text = f"{words} at {_layers(part['layer'].astype(int).tolist())}"
            text += " (does not survive correction, or has no spread)" if kind == "hint" else ""
            low, high = part["difference"].min(), part["difference"].max()
            span = " … ".join(dict.fromkeys((_signed(low), _signed(high))))
            texts.append(text + ("" if kind == "one seed" else f" (difference {span}{points})"))
    return "; ".join(texts) + _caveat(records(rows)[0])


def _layers(layers: list[int]) -> str:
    """Like "layers 0–3, 5"."""
    runs: list[list[int]] = []
    for layer in sorted(layers):
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(parts)}"


def _end(row: Mapping[str, Any]) -> dict[str, str]:
    """The end of a row: difference, standard error, verdict."""
    difference = decimal(row["difference"], 2, sign=True)
    error = "" if difference == "–" else f"({decimal(row['standard_error'], 2)})"
    text = str(row["verdict"]).replace("carma", "CARMA")
    text = KINDS["hint"] if verdict(row).kind == "hint" else text  # the report says why
    return {"difference": f"{difference:>12} {error:<7}", "verdict": f"  {text}"}


def _signed(value: float) -> str:
    return decimal(value, 2, sign=True)
