"""``docs/verdicts.md``: the claims of the four papers, the runs that test them, and counts."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from docs import cat_paper
from docs.claims import special
from docs.claims.evaluate import Claims
from docs.claims.runs import RUNS, Run
from docs.measured import Table, markdown
from docs.verdicts import RULES, VERDICTS

PAPERS: Final = tuple(map(Claims, ("carma", "complexity", "lrf", "cat")))

OWN_TABLES: Final[dict[str, tuple[str, Callable[[], Table]]]] = {
    "CARMA": (
        "The paper's Tables 4 and 5, CARMA compared with plain fine-tuning of the same model, task "
        "and rate, summed up. It gives neither intervals nor tests.",
        special.own_tables,
    ),
    "CAT": (
        "The paper's Table 4 (GLUE), CAT's outputs compared with BERT on its nine columns. It "
        "gives neither intervals nor tests.",
        cat_paper.glue,
    ),
}


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
BERTs and U-Nets; and two that others pre-trained, SmolLM2-135M-Instruct with weights of four bits
and the sentence encoder all-MiniLM-L6-v2. *Reproduced*
means: seen at that scale. *Not reproduced* means: at that scale the opposite was found, or no
effect. Whether a claim holds in the papers' models is open either way.
`python -m docs.verdicts --check` prints each row with the values by seed behind it.
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
        if paper.name in OWN_TABLES:
            text, own = OWN_TABLES[paper.name]
            parts += [f"### What {paper.name}'s own tables show\n\n{text}", table(*own())]
    parts.append("## The runs")
    parts += [run_section(name, run) for name, run in RUNS.items()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def check(text: str) -> bool:
    """Print each row's number, verdict and claim, and the values by seed that it rests on; whether
    ``text`` is a page with each row as the files have it, and no file is missing."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    right = True
    for paper in PAPERS:
        written = [one.splitlines() for one in sections if one.startswith(f"{paper.name}\n")]
        for number, claim in enumerate(paper, 1):
            try:
                row, values = claim.row(number), claim.by_seed()
            except FileNotFoundError as error:
                print(f"{paper.name} {number}: {claim.words}\n    NO FILE {error.filename}")
                right = False
                continue
            same = markdown(row, [row]).splitlines()[-1] in chain(*written)
            right &= same
            problem = "" if same else " (THE PAGE HAS ANOTHER ROW: python -m docs.tables writes it)"
            print(f"{paper.name} {number}: {row[-1].strip('*')}: {claim.words}{problem}")
            print("".join(f"    {line}\n" for line in values), end="")
    return right


def as_written(text: str) -> bool:
    """Whether all of a page is as the files have it, counts and sentences too; not its notice."""
    return text.endswith(page(markdown))


def main() -> None:
    """``python -m docs.verdicts --check``."""
    parser = argparse.ArgumentParser(prog="python -m docs.verdicts", description=check.__doc__)
    parser.add_argument("--check", action="store_true", required=True)
    parser.parse_args()
    page_file = Path(__file__).with_name("verdicts.md")
    text = page_file.read_text(encoding="utf-8")
    right = check(text)  # else a file may be missing, of which the page cannot be made
    if right and not as_written(text):
        print("COUNTS OR SENTENCES OF THE PAGE ARE OTHERS: python -m docs.tables writes it")
        right = False
    sys.exit(not right)
