"""``docs/findings.md``: what was found here that none of the papers says, each with its figure.

``python -m docs.finding_page`` draws the figures; ``python -m docs.tables`` writes the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib.pyplot as plt

from docs.claims.evaluate import Claim, Claims, Line
from docs.claims.runs import RUNS
from docs.verdicts import BREAK, REPRODUCED, Side, TTest
from interp_compose.plots.theme import BLUE, GREEN, VERMILLION

FINDINGS: Final = Claims("findings")
IMAGES: Final = Path(__file__).parent / "images"
COLOURS: Final = (BLUE, VERMILLION, GREEN)
HEIGHT: Final = 0.45
"""Inches of a row."""


def page() -> str:
    """The page's text."""
    parts = [f"# {FINDINGS.name}", FINDINGS.about, *map(section, FINDINGS)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def section(finding: Claim) -> str:
    """A finding, its figure, its numbers, what it does not show, and how to make it again.

    Raises:
        ValueError: the rule does not support it.
    """
    measured, verdict = finding.find()
    stated = finding.stated
    if verdict != REPRODUCED:
        raise ValueError(f"{stated['title']}: the rule gives {verdict}; it is no finding")
    head, *lines = _signed(measured).split(BREAK)
    runs = [RUNS[name] for name in finding.runs]
    commands = "\n".join(f"$ {run.command}" for run in runs)
    return "\n\n".join(
        [
            f"## {stated['title']}",
            f"**{finding.words}** (Compare {finding.where}.)",
            f"![{head}]({IMAGES.name}/{picture(finding)})",
            f"{head[0].upper()}{head[1:]} (a dot each; bars: means):",
            "\n".join(f"- {line}" for line in lines),
            *filter(None, [_tests(finding)]),
            f"*What it does not show.* {stated['limits'].strip()}",
            *(f"{run.tell()}. Numbers: `benchmarks/results/{run.file}.json`." for run in runs),
            f"```console\n{commands}\n```",
        ]
    )


def _tests(finding: Claim) -> str:
    """The test of each comparison, in a sentence; of a count there is none."""
    told = [
        f"{_compared(line, names)}: {test}{_fewer(pair, test)}"
        for line in finding.decided_lines()
        for (names, pair), test in zip(line.compared().items(), line.tests, strict=True)
    ]
    text = "Differences, 95 %, t tests over seeds: "
    return _signed(f"{text}{'; '.join(told)}.") if told else ""


def _compared(line: Line, names: str) -> str:
    """What is compared with what, or with 0."""
    smaller, larger = names.split(" → ")
    called = line.stated["names_of_sides"]
    less = f" less {called[smaller]}" if smaller in called else ""
    return ", ".join(filter(None, (line.show("label"), called[larger] + less)))


def _fewer(pair: Sequence[Side], test: TTest | None) -> str:
    """How many seeds both sides have, where one has more."""
    more = test is not None and any(len(side.by_seed) > test.n for side in pair)
    return f" ({test.n} seeds)" if test and more else ""


def _signed(text: str) -> str:
    # With a minus before numbers, of exponents too, and a hyphen inside words.
    return re.sub(r"(?<![^\We])-(?=[.\d])", "−", text)


def picture(finding: Claim) -> str:
    """The name of its figure."""
    return f"finding_{finding.stated['figure']}.png"


def drawn(finding: Claim) -> str:
    """What a figure shows: the values of each side of each line; the file of the figure has it."""
    return str(
        [[*map(float, side.values)] for line in finding.lines() for side in line.sides.values()]
    )


def draw(finding: Claim) -> None:
    """Each value of each side of each line, and the side's mean; where there are several lines,
    sides of a name have a colour."""
    lines = finding.lines()
    rows = [(line, name) for line in lines for name in line.sides]
    figure, axes = plt.subplots(figsize=(7, 0.8 + HEIGHT * len(rows)), layout="constrained")
    for place, (line, name) in enumerate(rows):
        side = line.sides[name]
        colour = COLOURS[list(line.sides).index(name) if len(lines) > 1 else 0]
        axes.plot(side.values, [place] * len(side.values), "o", color=colour, alpha=0.5, mew=0)
        axes.plot([side.mean], [place], "|", color=colour, markersize=18, mew=2)
    axes.set_yticks(range(len(rows)), [_name(line, name) for line, name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(finding.stated["axis"])
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / picture(finding), dpi=130, metadata={"Description": drawn(finding)})
    plt.close(figure)


def _name(line: Line, side: str) -> str:
    named = line.stated.get("names_of_sides", {}).get(side, "")
    return ", ".join(filter(None, (line.show("label"), named)))


if __name__ == "__main__":
    for each in FINDINGS:
        draw(each)
