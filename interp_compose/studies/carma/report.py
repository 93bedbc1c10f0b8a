"""A comparison as one HTML page that needs nothing else: verdicts, tables, figures, method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from interp_compose.studies.cap.result__cap_outcomes import POOLINGS
from interp_compose.studies.carma.verdicts__carma_cautions import cautions
from interp_compose.studies.core.report import escaped, figure, page, paragraph, section, table
from interp_compose.studies.carma.report__carma_report_tables import (
    dose_table,
    measures_table,
    paper_tables,
    sentences_table,
    spread_table,
    training_tables,
)
from interp_compose.studies.carma.differences__carma_values import AVERAGE, REPRESENTATIONS
from interp_compose.studies.carma.verdicts import settings, verdicts

if TYPE_CHECKING:
    from interp_compose.studies.carma.result import Comparison

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


def report_page(comparison: Comparison) -> str:
    """The page of :meth:`~interp_compose.studies.carma.result.Comparison.report`."""
    config, frame = comparison.config, comparison.frame
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
            dose_table(comparison.dose),
            measures_table(comparison, "consist_syn"),
            spread_table(frame, "consist_syn_cv", "Coefficient of variation", 4),
            spread_table(frame, "improvement_over_ft", "NI over FT (%)", 2),
            spread_table(
                comparison.frame, "improvement_over_original", "NI over the original (%)", 2
            ),
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


def _verdict_list(comparison: Comparison) -> str:
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
