"""``docs/panels.md``: each panel of complexity control's Figs 6 and 7, drawn from our runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from docs.claims.evaluate import Claim
from docs.measured import frame, markdown, table
from docs.verdict_page import PAPERS


@dataclass(frozen=True)
class Panel:
    """A panel of the paper, and where ours is: runs of the verdicts' page, and pictures of
    ``images/`` with what they show."""

    figure: str
    title: str
    paper: str
    runs: tuple[str, ...]
    pictures: tuple[tuple[str, str], ...]
    page: str

    @property
    def claims(self) -> list[Claim]:
        """Of the paper about this panel."""
        _, complexity, *_ = PAPERS
        return [claim for claim in complexity if claim.where.endswith(self.figure)]


PANELS: Final = (
    Panel(
        "Fig. 6B",
        "concept graphs",
        "U-Nets with three levels on 5,000 images, rendered by Blender (28 × 28 pixels; 64 × 64 in "
        "the released code), 300 epochs, weights drawn from a uniform. Images at 010 and 011, from "
        "small init rates to large ones: triangles become circles.",
        ("concepts",),
        (("concept_graphs_images", "Images of seed 0, by node and init rate"),),
        "concept-graphs.md#results",
    ),
    Panel(
        "Fig. 7A",
        "SCAN, turn left",
        "GPT-2 small from scratch, 5,000 epochs; the share of composite commands with turn left "
        "that is right, by the size of the training set. γ 0.7 with a weight decay of 0.1 lies "
        "above γ 0.5 with 0.01 at each.",
        ("turn-left",),
        (
            (
                "task_phases_scan_turn_left_accuracy",
                "Exact match on turn left by the number of training sequences, at the two settings",
            ),
        ),
        "task-phases.md#scan-fig-7a",
    ),
    Panel(
        "Fig. 7B",
        "COGS",
        "The same model and settings; within the distribution and out of it, by the size of the "
        "training set. With 20,000 sequences both are right in more than 99 % within; out of it "
        "they stay apart.",
        ("cogs-decoders",),
        (
            (
                "task_phases_cogs_types",
                "Exact match by type of generalisation of COGS, at the two settings",
            ),
            (
                "task_phases_cogs_accuracy",
                "Exact match on COGS by the number of training sequences, at the two settings",
            ),
        ),
        "task-phases.md#cogs-fig-7b",
    ),
    Panel(
        "Fig. 7C",
        "addition",
        "Numbers from 0 to 999, all pairs from 400 to 600 held out (`inside`; `outside` are others "
        "that are held out here). From scratch, with two layers and one head and with GPT-2's "
        "shape, and fine-tuned from GPT-2. Small initialisations, or large weight decays, find the "
        "rule; the others leave holes in the square.",
        ("addition", "fine-tuned"),
        (
            (
                "task_phases_addition_99_square",
                "Share of right sums in each block of the square that was held out",
            ),
            (
                "task_phases_addition_99_mini_base_square",
                "Share of right sums in each block of the square, fine-tuned",
            ),
        ),
        "task-phases.md#addition-fig-7c",
    ),
    Panel(
        "Fig. 7D",
        "language modelling",
        "GPT-2 medium on 40 billion tokens of SlimPajama: its GitHub section, and that with "
        "Wikipedia. On both, perplexity is lower with smaller initialisations.",
        ("text",),
        (),
        "task-phases.md#language-modelling",
    ),
    Panel(
        "Fig. 7E",
        "PrOntoQA",
        "GPT-2's architecture; test accuracy of True or False and steps until the training data "
        "are fitted, by the size of the training set. γ 0.5 with a weight decay of 0.01 (top): "
        "convergence gets slower with more data, then faster, and accuracy rises. γ 0.7 with 0.1 "
        "(bottom): faster, and more accurate, at each size.",
        ("proofs",),
        (),
        "task-phases.md#prontoqa-fig-7e",
    ),
)
INTRODUCTION: Final = """\
# Figs 6 and 7, redrawn

Section VII of complexity control says that a small initialisation (a large init rate γ) and a
large weight decay favour reasoning on tasks that people care about. Here are the panels of its
figures as small models draw them; **none of the paper's models was trained**. Fig. 6A is a drawing
of the [data](concept-graphs.md). The [verdicts](verdicts.md#complexity-control) have the numbers.
"""
MINUTES: Final = """\
## Minutes of a run

The training of one run on one core, without its evaluations: the time of a step, the median and the
range over runs of three seeds and all sizes that were timed for a hundred steps each, times the
steps of a whole run with the largest set (`python -m benchmarks.speed panel_minutes`).
"""


def page() -> str:
    """The page's text."""
    heads = ["panel", "what is claimed", "verdict"]
    parts = [INTRODUCTION, markdown(heads, _overview()), *map(_section, PANELS)]
    columns = {
        "panel": "{panel}",
        "run": "[{run}](verdicts.md#run-{run})",
        "steps": "{steps:,}",
        "ms a step": "{step_seconds:.0f} ({low:.0f}–{high:.0f})",
        "runs timed": "{n}",
        "minutes": "{minutes:.1f}",
    }
    minutes = frame("panel_minutes_cpu", "panels")
    minutes[["step_seconds", "low", "high"]] *= 1000
    parts += [MINUTES, markdown(*table(minutes, columns))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _overview() -> list[list[str]]:
    rows = []
    for panel in PANELS:
        name = f"[{panel.figure}, {panel.title}](#{_anchor(panel)})"
        for claim in panel.claims:
            rows.append([name, claim.words, f"**{claim.find()[1]}**"])
            name = ""
    return rows


def _section(panel: Panel) -> str:
    runs = " and ".join(f"[{run}](verdicts.md#run-{run})" for run in panel.runs)
    return "\n\n".join(
        [
            f"({_anchor(panel)})=\n## {panel.figure}: {panel.title}",
            f"**In the paper.** {panel.paper}",
            f"**Here.** {runs}: [results]({panel.page}).",
            *(f"![{shown}](images/{name}.png)" for name, shown in panel.pictures),
        ]
    )


def _anchor(panel: Panel) -> str:
    return panel.figure.lower().replace(". ", "-")
