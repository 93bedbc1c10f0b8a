"""A comparison as one HTML page that needs nothing else: verdicts, tables, figures, method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.stats.seeds import coefficient_of_variation
from interp_compose.studies.cap.result import POOLINGS
from interp_compose.studies.carma.differences import (
    AVERAGE,
    REPRESENTATIONS,
    against_ft,
    own_caveat,
    percent,
    records,
    verdict,
)
from interp_compose.studies.carma.paper import paper_numbers_for
from interp_compose.studies.carma.tables import VERSIONS
from interp_compose.studies.carma.verdicts import (
    LABELS,
    cautions,
    counted_prompts,
    overhead_sentence,
    settings,
    verdicts,
)
from interp_compose.studies.core.report import (
    escaped,
    figure,
    page,
    paragraph,
    probability,
    section,
    table,
)
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.text import decimal

SENTENCES: Final = 20
TITLES: Final = {
    "accuracy": "Accuracy (%)",
    "cap": "Accuracy under CAP (%)",
    "consist_syn": "ConsistSyn (%)",
    "same_word_cosine": "Cosine of tokens of the same word",
    "different_word_cosine": "Cosine of tokens of different words",
    "stable_rank": "Stable rank",
}
SHORT: Final = {
    "higher": "CARMA higher",
    "lower": "CARMA lower",
    "hint": "hint only",
    "none": "no difference established",
    "one seed": "one seed: no statement",
    "undefined": "undefined",
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


def measures_table(comparison: StudyResult, metric: str, pooling: str = "") -> str:
    """Each version's mean and interval, CARMA minus FT, p and verdict; a row per layer or rate."""
    frame = comparison.frames["summary"]
    rows_of = frame[(frame["metric"] == metric) & (frame["pooling"] == pooling)]
    if metric != "consist_syn" and not rows_of["mean"].notna().any():
        return ""
    digits = 3 if metric.endswith("cosine") else 2
    pairs = against_ft(comparison.frames["differences"], pooling)
    by_place = {_place(row): row for row in records(pairs[pairs["metric"] == metric])}
    versions = [name for name in VERSIONS if name in set(rows_of["version"])]
    rows = []
    for _, group in rows_of.groupby(["rate", "layer"], sort=False, dropna=False):
        mine = {row["version"]: row for row in records(group)}
        place = _place(next(iter(mine.values())))
        cells = [_interval(mine.get(name), digits) for name in versions]
        rows.append([place, *cells, *_difference(by_place.get(place), digits)])
    head = ["", *(LABELS[name] for name in versions)]
    head += ["CARMA − FT", "SE", "p", "p (Holm)", "verdict"]
    how = {"": "", AVERAGE: ", mean of the protocols"}.get(pooling, f", {pooling} pooling")
    title = f"{TITLES[metric]}{how}: mean over seeds [95 % interval]"
    # the first table and the page's top tell who has not converged
    caveats = (
        row["caveat"] if metric == "accuracy" else own_caveat(row) for row in by_place.values()
    )
    notes = sorted({*caveats} - {""})
    if metric == "consist_syn":
        notes += counted_prompts(comparison)
    shown = table(head, rows, numbers=len(versions) + 4, caption=title)
    return shown + "".join(paragraph(f"Note: {text}.", "note") for text in notes)


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


def _difference(row: Mapping[str, Any] | None, digits: int) -> list[str]:
    if row is None:
        return ["–"] * 4 + [""]
    return [
        decimal(row["difference"], digits, sign=True),
        decimal(row["standard_error"], digits),
        probability(row["p"]),
        probability(row["p_holm"]),
        SHORT[verdict(row).kind],
    ]


def spread_table(frame: pd.DataFrame, metric: str, title: str, digits: int) -> str:
    """Version by version and rate by rate, a mean and its interval."""
    rows = records(frame[(frame["metric"] == metric) & frame["mean"].notna()])
    cells, note = [], ""
    for row in rows:
        numbers = [decimal(row[name], digits) for name in ("mean", "ci_low", "ci_high")]
        if not row["ci_low"] < row["ci_high"]:  # one seed, or one number for all
            numbers[1:] = ["–", "–"]
        if metric == "consist_syn_cv" and row["version"] == "original":
            numbers, note = ["–"] * 3, paragraph(ORIGINAL_CV, "note")
        cells.append([LABELS[row["version"]], percent(row["rate"]), *numbers])
    head = ("version", "replaced", title, "low", "high")
    caption = f"{title}, with its 95 % interval"
    return table(head, cells, numbers=4, caption=caption) + note if rows else ""


def dose_table(dose: pd.DataFrame) -> str:
    """What share of the words was asked for, and what was reached; a row per rate."""
    rows = [
        [
            percent(row["rate"]),
            *(decimal(row[name], 2) for name in ("words", "eligible", "wanted", "replaced")),
            *(decimal(100 * row[name], 1) for name in ("dose", "dose_of_changed", "reached")),
        ]
        for row in records(dose)
    ]
    head = ["rate", "words", "eligible", "wanted", "replaced", "dose (%)"]
    head += ["dose of changed prompts (%)", "prompts that reach the rate (%)"]
    caption = "Words of a prompt's own text, and how many were replaced: means over prompts, seeds"
    return table(head, rows, numbers=7, caption=caption)


def training_tables(comparison: StudyResult) -> list[str]:
    """Overhead in words, then a row per run."""
    rows = [
        [
            LABELS[row["version"]],
            str(row["seed"]),
            str(row["steps"]),
            decimal(row["seconds"], 1),
            decimal(1000 * row["step_seconds"], 1),
            decimal(row["first_loss"], 3),
            decimal(row["last_loss"], 3),
            decimal(100 * row["validation_accuracy"], 1),
            ("yes" if row["converged"] else f"no: {row['why']}")
            + (", stopped early" if row["stopped_early"] else ""),
        ]
        for row in records(comparison.frames["training"])
    ]
    if not rows:
        return []
    head = (
        *("version", "seed", "steps", "seconds", "step (ms)", "first loss", "last loss"),
        *("validation (%)", "converged"),
    )
    said = overhead_sentence(comparison) if len(comparison.frames["overhead"]) else ""
    return [
        paragraph(f"{said[0].upper()}{said[1:]}.") if said else "",
        table(head, rows, numbers=7, caption="Each run; a step is the median of its steps"),
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
    rows = [
        [
            names.get(row["metric"], row["metric"]),
            row["printed"],
            decimal(_ours(comparison, row), digits := 4 if row["metric"] == "cv" else 2),
            decimal(_as_printed(comparison, row), digits),
            LABELS[row["version"]],
            "" if pd.isna(row["rate"]) else percent(row["rate"]),
            str(row["table"]),
            row["note"],
        ]
        for row in records(paper)
    ]
    head = ["measure", "paper, as printed", "ours", "ours by eq. 12 as printed"]
    head += ["version", "replaced", "table", "note"]
    return [
        paragraph(
            f"Matched by the model's {matched}. Times depend on the machine; prompts, words "
            "replaced and training steps may differ from the authors'.",
            "note",
        ),
        paragraph(PRINTED, "note"),
        table(head, rows, numbers=3),
    ]


def _ours(comparison: StudyResult, row: Mapping[str, Any]) -> float | None:
    """Our number for a row of the paper, if there is one."""
    overhead, version = comparison.frames["overhead"], row["version"]
    if row["metric"] in ("minutes", "overhead"):
        if overhead.empty:
            return None
        seconds = {name: overhead[f"{name}_seconds"].median() for name in ("ft", "carma")}
        ratio = seconds["carma"] / seconds["ft"]
        return float(seconds[version] / 60 if row["metric"] == "minutes" else ratio)
    metric = {"cv": "consist_syn_cv"}.get(row["metric"], row["metric"])
    frame = comparison.frames["summary"]
    mine = frame[(frame["metric"] == metric) & (frame["version"] == version)]
    mine = mine[mine["rate"] == row["rate"]]
    return float(mine["mean"].iloc[0]) if len(mine) else None


def _as_printed(comparison: StudyResult, row: Mapping[str, Any]) -> float | None:
    """ConsistSyn as eq. 12 prints it, over all prompts, and its CV; means over seeds."""
    if row["metric"] not in ("consist_syn", "cv"):
        return None
    cell = {"version": row["version"], "rate": row["rate"]}
    synonyms, accuracy = (
        frame[(frame[list(names)] == [cell[name] for name in names]).all(axis=1)]
        for frame, names in (
            (comparison.frames["synonyms"], ("version", "rate")),
            (comparison.frames["accuracy"], ("version",)),
        )
    )
    both = synonyms.merge(accuracy[["seed", "n_correct"]], on="seed")
    if both.empty or (both["n_correct"] == 0).any():
        return None
    # A prompt in which nothing was replaced is right after if it was before.
    after = both["n_correct"] - both["n_before"] + both["n_after"]
    shares = (100 * after / both["n_correct"]).tolist()
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
            [
                str(first["prompt"]),
                str(first["replaced"]),
                ", ".join(swaps),
                percent(first["rate"]),
                str(first["seed"]),
            ]
        )
    replaced = "replaced (similarity)" if measured else "replaced"
    head = ("prompt", "with synonyms", replaced, "rate", "seed")
    caption = f"{len(rows)} of {len(changed)} changed prompts"
    caption += WORDNET if measured and source.lower() == "wordnet" else ""
    return table(head, rows, numbers=0, caption=caption) if rows else ""


CAPTIONS: Final = {
    "cap_average": "Accuracy when the tokens of each word are pooled into one at some depth, mean "
    "of the protocols (CARMA, figures 2 and 8).",
    "cap_protocols": "The same, protocol by protocol (CARMA, figures 6 and 7).",
    "consistency": "Of the prompts answered rightly, the share still answered rightly after words "
    "were replaced by synonyms.",
    "representations": "Cosines between residuals of two tokens of one word, and of two words, on "
    "validation prompts.",
    "training": "The task's own loss, without CARMA's terms, so that both versions can be read "
    "on one scale.",
}
METHOD: Final = (
    "Accuracy (eq. 11) is the share of test prompts whose single answer token is the most likely.",
    "CAP pools the tokens of each word into one vector at the entry of a layer; the average is "
    "the mean of the protocols' accuracies, taken run by run.",
    "ConsistSyn (eq. 12) counts prompts right before and after the replacement over those right "
    "before, among the prompts in which a word was replaced; as printed, newly right prompts could "
    "lift it past 100.",
    "A rate asks for max(1, ⌊words · rate⌋) words of a prompt's own text, the template's not "
    "counted. Where fewer words have a synonym, all of those are replaced; the dose is the share "
    "of the words that was replaced.",
    "CV (eq. 13) is the standard deviation over seeds (n − 1) over their mean, with Vangel's "
    "interval. NI (eq. 14) is the relative gain in ConsistSyn in per cent, taken seed by seed.",
    "Differences are paired by seed (same start, same batches): mean, standard error and "
    "two-sided t test of the differences. Intervals are 95 %, Student's t over seeds. It knows "
    "nothing of the bounds 0 and 100 %, and may pass them; figures draw it as far as it is "
    "possible.",
    "p is corrected (Holm) within a family: accuracy, CAP averaged at each layer and ConsistSyn at "
    "each rate are one; CAP per protocol another; the representations a third. A difference is "
    "established at corrected p < 0.05; one below 0.05 only before correction is a hint, and so "
    "is one that is exactly the same in all seeds, which leaves no spread to test against: it has "
    "no p and no interval. Two rates of ConsistSyn with the same numbers count once.",
    "The original model is one model: its accuracy has no spread over seeds, and its ConsistSyn "
    "varies only with the words that are replaced.",
)


def report_page(comparison: StudyResult) -> str:
    """The page of :meth:`~interp_compose.studies.carma.result.Comparison.report`."""
    config, frame = comparison.config, comparison.frames["summary"]
    model, task = str(config.get("model", "a model")), str(config.get("task", "a task"))
    seeds = len(set(comparison.frames["accuracy"]["seed"]))
    title = f"CARMA beside plain fine-tuning: {model} on {task}"
    warn = cautions(comparison)
    figures = comparison.figures()
    drawn = [figure(name, one, CAPTIONS[name]) for name, one in figures.items()]
    count = "1 seed." if seeds == 1 else f"{seeds} seeds, paired: same start, same batches."
    source = config.get("synonyms")
    source_name = str(source.get("name", "")) if isinstance(source, Mapping) else ""
    return page(
        title,
        f"<h1>{escaped(title)}</h1>",
        paragraph(count, "lead"),
        *(paragraph(text, "caution") for text in warn),
        section("What came out", _verdict_list(comparison)),
        section("What was compared", table(("setting", "value"), settings(config), numbers=0)),
        section("Accuracy", measures_table(comparison, "accuracy")),
        section("Constituent-aware pooling, averaged", measures_table(comparison, "cap", AVERAGE)),
        section(
            "Constituent-aware pooling, by protocol",
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
        section("Figures", *drawn),
        section("Beside the paper's numbers", *paper_tables(comparison)),
        section(
            "Sentences with synonyms",
            sentences_table(comparison.frames["replacements"], source_name),
        ),
        section("How the numbers are computed", _items(METHOD)),
        section(
            "Versions",
            table(
                ("", "version"),
                [one for one in comparison.versions.items() if one[0] != "runs"],
                numbers=0,
            ),
        ),
    )


def _verdict_list(comparison: StudyResult) -> str:
    rows = "\n".join(
        f"<dt>{escaped(subject)}</dt><dd>{escaped(said[0].upper() + said[1:])}.</dd>"
        for subject, said in verdicts(comparison)
    )
    note = "CARMA minus plain fine-tuning (FT), paired by seed."
    if not rows:
        return paragraph("FT and CARMA were not both trained, so nothing is compared.", "note")
    return paragraph(note, "note") + f'<dl class="verdicts">\n{rows}\n</dl>'


def _items(texts: tuple[str, ...]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escaped(text)}</li>" for text in texts) + "\n</ul>"
