"""What the page of a comparison has of its own: tables, the paper's numbers, method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.papers.carma.differences import (
    AVERAGE,
    KINDS,
    REPRESENTATIONS,
    against_ft,
    own_caveat,
    percent,
    records,
    verdict,
)
from interp_compose.papers.carma.paper import paper_numbers_for
from interp_compose.papers.carma.tables import LABELS
from interp_compose.papers.carma.verdicts import counted_prompts, overhead_sentence
from interp_compose.stats.seeds import coefficient_of_variation
from interp_compose.studies.cap.result import POOLINGS
from interp_compose.studies.core.report import HTML, paragraph, section, table
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.text import decimal, probability

SENTENCES: Final = 20
TITLES: Final = {
    "accuracy": "Accuracy (%)",
    "cap": "Accuracy under CAP (%)",
    "consist_syn": "ConsistSyn (%)",
    "same_word_cosine": "Cosine of tokens of the same word",
    "different_word_cosine": "Cosine of tokens of different words",
    "stable_rank": "Stable rank",
}
WORDNET: Final = "; similarity: 1 / number of the sense that both words share in WordNet"
PRINTED: Final = (
    "ConsistSyn is not defined alike. Eq. 12 as printed divides all prompts that are right after "
    "the replacement by all that were right before; ours counts prompts right before and after, "
    "among those in which a word was replaced, and CV is taken of it. The column beside it has "
    "ours by the printed definition."
)
ORIGINAL_CV: Final = (
    "Note: the original is one model; its ConsistSyn varies with the replaced words alone, so its "
    "coefficient of variation is not comparable and is left out."
)


def _listing(rows: Sequence[Mapping[str, str]], **options: Any) -> str:
    """A table under the names of the rows' cells; nothing without rows."""
    return table(list(rows[0]), [list(row.values()) for row in rows], **options) if rows else ""


def measures_table(comparison: StudyResult, metric: str, pooling: str = "") -> str:
    """Each version's mean and interval, CARMA minus FT, p and verdict; a row per layer or rate."""
    frame = comparison.frames["summary"]
    rows_of = frame[(frame["metric"] == metric) & (frame["pooling"] == pooling)]
    if metric != "consist_syn" and not rows_of["mean"].notna().any():
        return ""
    digits = 3 if metric.endswith("cosine") else 2
    pairs = records(against_ft(comparison.frames["differences"], metric, pooling))
    by_place = {_place(row): row for row in pairs}
    versions = [name for name in LABELS if name in set(rows_of["version"])]
    rows = []
    for _, group in rows_of.groupby(["rate", "layer"], sort=False, dropna=False):
        by_version = {row["version"]: row for row in records(group)}
        place = _place(next(iter(by_version.values())))
        cells = {LABELS[name]: _interval(by_version.get(name), digits) for name in versions}
        rows.append({"": place, **cells, **_difference(by_place.get(place), digits)})
    suffix = {"": "", AVERAGE: ", mean of the poolings"}.get(pooling, f", {pooling} pooling")
    title = f"{TITLES[metric]}{suffix}: mean over seeds [95 % interval]"
    # the first table and the page's top tell who has not converged
    caveats = (
        row["caveat"] if metric == "accuracy" else own_caveat(row) for row in by_place.values()
    )
    notes = sorted({*caveats} - {""})
    if metric == "consist_syn":
        notes += counted_prompts(comparison)
    notes = [f"Note: {text}." for text in notes]
    return _listing(rows, numbers=len(versions) + 4, caption=title, notes=notes)


def _place(row: Mapping[str, Any]) -> str:
    """Like "layer 3" or "25 % replaced"."""
    if not pd.isna(row["layer"]):
        return f"layer {row['layer']}"
    return "test split" if pd.isna(row["rate"]) else f"{percent(row['rate'])} replaced"


def _interval(row: Mapping[str, Any] | None, digits: int) -> str:
    if row is None:
        return "–"
    mean = decimal(row["mean"], digits)
    if not row["ci_low"] < row["ci_high"]:  # one seed, or one number for all
        return mean
    return f"{mean} [{decimal(row['ci_low'], digits)}, {decimal(row['ci_high'], digits)}]"


def _difference(row: Mapping[str, Any] | None, digits: int) -> dict[str, str]:
    if row is None:
        return dict.fromkeys(("CARMA − FT", "SE", "p", "p (Holm)"), "–") | {"verdict": ""}
    return {
        "CARMA − FT": decimal(row["difference"], digits, sign=True),
        "SE": decimal(row["standard_error"], digits),
        "p": probability(row["p"]),
        "p (Holm)": probability(row["p_holm"]),
        "verdict": KINDS[verdict(row).kind],
    }


def spread_table(frame: pd.DataFrame, metric: str, title: str, digits: int) -> str:
    """Version by version and rate by rate, a mean and its interval."""
    rows, notes = [], []
    for row in records(frame[(frame["metric"] == metric) & frame["mean"].notna()]):
        numbers = [decimal(row[name], digits) for name in ("mean", "ci_low", "ci_high")]
        if not row["ci_low"] < row["ci_high"]:  # one seed, or one number for all
            numbers[1:] = ["–", "–"]
        if metric == "consist_syn_cv" and row["version"] == "original":
            numbers, notes = ["–"] * 3, [ORIGINAL_CV]
        place = {"version": LABELS[row["version"]], "replaced": percent(row["rate"])}
        rows.append(place | dict(zip((title, "low", "high"), numbers, strict=True)))
    return _listing(rows, numbers=4, caption=f"{title}, with its 95 % interval", notes=notes)


def dose_table(dose: pd.DataFrame) -> str:
    """What share of the words was asked for, and what was reached; a row per rate."""
    rows = [
        {
            "rate": percent(row["rate"]),
            **{name: decimal(row[name], 2) for name in ("words", "eligible", "wanted", "replaced")},
            "dose (%)": decimal(100 * row["dose"], 1),
            "dose of changed prompts (%)": decimal(100 * row["dose_of_changed"], 1),
            "prompts with all wanted replaced (%)": decimal(100 * row["reached"], 1),
        }
        for row in records(dose)
    ]
    caption = "Words of a prompt's own text, and how many were replaced: means over prompts, seeds"
    return _listing(rows, numbers=7, caption=caption)


def training_tables(comparison: StudyResult) -> list[str]:
    """Overhead in words, then a row per run."""
    rows = [
        {
            "version": LABELS[row["version"]],
            "seed": str(row["seed"]),
            "steps": str(row["steps"]),
            "seconds": decimal(row["seconds"], 1),
            "step (ms)": decimal(1000 * row["step_seconds"], 1),
            "first loss": decimal(row["first_loss"], 3),
            "last loss": decimal(row["last_loss"], 3),
            "validation (%)": decimal(100 * row["validation_accuracy"], 1),
            "converged": ("yes" if row["converged"] else f"no: {row['why']}")
            + (", stopped early" if row["stopped_early"] else ""),
        }
        for row in records(comparison.frames["training"])
    ]
    sentence = overhead_sentence(comparison) if len(comparison.frames["overhead"]) else ""
    return [
        paragraph(f"{sentence[0].upper()}{sentence[1:]}.") if sentence else "",
        _listing(rows, numbers=7, caption="Each run; a step is the median of its steps"),
    ]


def paper_tables(comparison: StudyResult) -> list[str]:
    """The paper's rows for this model and task, with ours."""
    config = comparison.config
    n_layers = config.get("n_layers")
    paper = paper_numbers_for(str(config.get("model", "")), str(config.get("task", "")), n_layers)
    matched = "name" if n_layers is None else "name and number of layers"
    if paper.empty:
        return [paragraph("CARMA prints no numbers for this model and task.", "note")]
    names = {"consist_syn": "ConsistSyn (%)", "cv": "CV", "minutes": "training (min)"}
    rows = []
    for row in records(paper):
        digits = 4 if row["metric"] == "cv" else 2
        rows.append(
            {
                "measure": names.get(row["metric"], row["metric"]),
                "paper, as printed": row["printed"],
                "ours": decimal(_ours(comparison, row), digits),
                "ours by eq. 12 as printed": decimal(_as_printed(comparison, row), digits),
                "version": LABELS[row["version"]],
                "replaced": "" if pd.isna(row["rate"]) else percent(row["rate"]),
                "table": str(row["table"]),
                "note": row["note"],
            }
        )
    return [
        paragraph(
            f"Matched by the model's {matched}. Times depend on the machine; prompts, words "
            "replaced and training steps may differ from the authors'.",
            "note",
        ),
        paragraph(PRINTED, "note"),
        _listing(rows, numbers=3),
    ]


def _ours(comparison: StudyResult, row: Mapping[str, Any]) -> float | None:
    """Our number for a row of the paper, if there is one."""
    if row["metric"] in ("minutes", "overhead"):
        overhead = comparison.frames["overhead"]
        if overhead.empty:
            return None
        seconds = {name: overhead[f"{name}_seconds"].median() for name in ("ft", "carma")}
        ratio = seconds["carma"] / seconds["ft"]
        return float(seconds[row["version"]] / 60 if row["metric"] == "minutes" else ratio)
    metric = {"cv": "consist_syn_cv"}.get(row["metric"], row["metric"])
    frame = comparison.frames["summary"]
    rows = frame[(frame["metric"] == metric) & (frame["version"] == row["version"])]
    rows = rows[rows["rate"] == row["rate"]]
    return float(rows["mean"].iloc[0]) if len(rows) else None


def _as_printed(comparison: StudyResult, row: Mapping[str, Any]) -> float | None:
    """ConsistSyn as eq. 12 prints it, over all prompts, and its CV; means over seeds."""
    if row["metric"] not in ("consist_syn", "cv"):
        return None
    accuracy = comparison.frames["accuracy"][["version", "seed", "n_correct"]]
    counts = comparison.frames["synonyms"].merge(accuracy, on=["version", "seed"])
    counts = counts[(counts["version"] == row["version"]) & (counts["rate"] == row["rate"])]
    if counts.empty or (counts["n_correct"] == 0).any():
        return None
    # A prompt in which nothing was replaced is right after if it was before.
    n_after = counts["n_correct"] - counts["n_before"] + counts["n_after"]
    shares = (100 * n_after / counts["n_correct"]).tolist()
    return coefficient_of_variation(shares) if row["metric"] == "cv" else float(np.mean(shares))


def sentences_table(replacements: pd.DataFrame, source: str = "") -> str:
    """Prompts spread evenly over all that were changed, with what became of their words.

    Where every similarity is 1, none was measured, and none is shown. ``source``: the synonyms'.
    """
    measured = bool((replacements["similarity"] != 1).any())
    changed = list(replacements.groupby(["rate", "seed", "example"], sort=True))
    picked = changed[:: max(1, len(changed) // SENTENCES)][:SENTENCES]
    rows = []
    for _, words in picked:
        first = words.iloc[0]
        swaps = [
            f"{row['original']} → {row['replacement']}"
            + (f" ({decimal(row['similarity'], 2)})" if measured else "")
            for row in records(words)
        ]
        rows.append(
            {
                "prompt": first["prompt"],
                "with synonyms": first["replaced"],
                "replaced (similarity)" if measured else "replaced": ", ".join(swaps),
                "rate": percent(first["rate"]),
                "seed": str(first["seed"]),
            }
        )
    caption = f"{len(rows)} of {len(changed)} changed prompts"
    caption += WORDNET if measured and source.lower() == "wordnet" else ""
    return _listing(rows, numbers=0, caption=caption)


METHOD: Final = (
    "Accuracy (eq. 11) is the share of test prompts whose single answer token is the most likely.",
    "CAP pools the tokens of each word into one vector at the entry of a layer; the average is "
    "the mean of the poolings' accuracies, taken run by run.",
    "ConsistSyn (eq. 12) counts prompts right before and after the replacement over those right "
    "before, among the prompts in which a word was replaced; as printed, newly right prompts could "
    "lift it past 100.",
    "A rate asks for max(1, ⌊words · rate⌋) words of a prompt's own text, the template's not "
    "counted. Where fewer words have a synonym, all of those are replaced; the dose is the share "
    "of the words that was replaced.",
    "CV (eq. 13) is the standard deviation over seeds (n − 1) over their mean, with Vangel's "
    "interval. NI (eq. 14) is the relative gain in ConsistSyn in per cent, taken seed by seed.",
    "Differences are paired by seed (same start, same batches): mean, standard error and "
    "two-sided t test of the differences. Intervals are 95 %, Student's t over seeds, not "
    "corrected for their number. An interval knows nothing of the bounds 0 and 100 %, and may "
    "pass them; figures draw it as far as it is possible.",
    "p is corrected (Holm) within a family: accuracy, CAP averaged at each layer and ConsistSyn at "
    "each rate are one; CAP per pooling another; the representations a third. A difference is "
    "established at corrected p < 0.05; one below 0.05 only before correction is a hint, and so "
    "is one that is exactly the same in all seeds, which leaves no spread to test against: it has "
    "no p and no interval. Two rates of ConsistSyn with the same numbers count once.",
    "The original model is one model: its accuracy has no spread over seeds, and its ConsistSyn "
    "varies only with the words that are replaced.",
)


def sections(comparison: StudyResult) -> list[str]:
    """Every table, the paper's numbers, sentences with synonyms, and how numbers are computed."""
    frame, source = comparison.frames["summary"], comparison.config.get("synonyms")
    source_name = str(source.get("name", "")) if isinstance(source, Mapping) else ""
    return [
        section("Accuracy", measures_table(comparison, "accuracy")),
        section("Constituent-aware pooling, averaged", measures_table(comparison, "cap", AVERAGE)),
        section(
            "Constituent-aware pooling, by pooling",
            *(measures_table(comparison, "cap", name) for name in POOLINGS),
        ),
        section(
            "Synonyms",
            dose_table(comparison.frames["dose_summary"]),
            measures_table(comparison, "consist_syn"),
            spread_table(frame, "consist_syn_cv", "Coefficient of variation", 4),
            spread_table(frame, "improvement_over_ft", "NI over FT (%)", 2),
            spread_table(frame, "improvement_over_original", "NI over the original (%)", 2),
        ),
        section("Training: time and convergence", *training_tables(comparison)),
        section("Representations", *(measures_table(comparison, name) for name in REPRESENTATIONS)),
        section("Beside the paper's numbers", *paper_tables(comparison)),
        section(
            "Sentences with synonyms",
            sentences_table(comparison.frames["replacements"], source_name),
        ),
        section("How the numbers are computed", HTML.bullets(METHOD)),
    ]
