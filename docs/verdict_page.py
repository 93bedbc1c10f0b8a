"""``docs/verdicts.md``: the claims of the four papers, the runs that test them, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from docs.claims import special
from docs.claims.evaluate import Claims
from docs.claims.runs import RUNS, Run
from docs.measured import Table
from docs.verdicts import RULES, VERDICTS

PAPERS: Final = tuple(map(Claims, ("carma", "complexity", "lrf", "cat")))


def counts() -> Table:
    """Heads and rows: claims by paper and verdict."""
    rows, every = [], Counter[str]()
    for paper in PAPERS:
        of_paper = paper.counts()
        every += of_paper
        link = f"[{paper.name}](#{paper.name.lower().replace(' ', '-')})"
        rows.append(
            [link, *(str(of_paper[verdict]) for verdict in VERDICTS), str(of_paper.total())]
        )
    rows.append(["all", *(str(every[verdict]) for verdict in VERDICTS), str(every.total())])
    return ["", *VERDICTS, "claims"], rows


def run_section(name: str, run: Run) -> str:
    """What a run is, how to make it again, and where its numbers are."""
    return (
        f"### Run {name}\n\n{run.tell()}. Numbers: `benchmarks/results/{run.file}.json`.\n\n"
        f"```console\n$ {run.command}\n```"
    )


INTRODUCTION: Final = """\
# Verdicts

Every testable claim of the four papers, and four that join two of them (*crossed*), with its
verdict here. **None of the papers' own models was measured.** Ours are small and trained in
minutes: GPT-2s of four layers, 128 wide, on shipped data
([models](models.md)), decoders and encoder–decoders of two to four layers, 64 to 128 wide, small
BERTs and U-Nets; and, pre-trained by others, the sentence encoder all-MiniLM-L6-v2. *Reproduced*
means: seen at that scale. *Not reproduced* means that it was tested at that scale, and the
opposite was found, or no effect. Whether a claim holds in the papers' models is open either way.
"""


RELY: Final = """\
## What can be relied on?

At the scale above, and by the rules below."""


def _relied_on(paper: Claims) -> str:
    """A list of sentences, of a paper."""
    sentences = (f"- {sentence}" for sentence in paper.rely())
    return "\n".join([f"**{paper.name}**", "", *sentences])


def page(table: Callable[[Sequence[str], Iterable[Sequence[str]]], str]) -> str:
    """The page's text; ``table`` writes Markdown."""
    parts = [INTRODUCTION, RELY, *(_relied_on(paper) for paper in PAPERS), table(*counts())]
    parts.append(f"## How a verdict comes about\n\n{RULES}")
    for paper in PAPERS:
        parts += [f"## {paper.name}\n\n{paper.about}", table(*paper.table())]
        if paper.name == "CARMA":
            parts.append(
                "### What its own tables show\n\nThe paper's Tables 4 and 5, CARMA compared with "
                "plain fine-tuning of the same model, task and rate, summed up. It gives neither "
                "intervals nor tests."
            )
            parts.append(table(*special.own_tables()))
    parts.append("## The runs")
    parts += [run_section(name, run) for name, run in RUNS.items()]
    return "\n\n".join(part.strip() for part in parts) + "\n"
