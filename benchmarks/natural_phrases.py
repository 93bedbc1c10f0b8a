"""The phrases of the other natural tasks, knocked out and transplanted: runs ``phrases_*``.

Everything is compared between two answers: a knock-out's answer and foil, a transplant's expected
and untouched answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import interp_compose as ic
from benchmarks.cap_outcomes import by_example, controls
from benchmarks.common import IMAGES, kept, plain_rows
from benchmarks.natural_outcomes import of_each_head, shares_of
from interp_compose.models.lens_model import LensModel
from interp_compose.stats.intervals import wilson_interval
from interp_compose.stats.paired_shares import paired_shares
from interp_compose.stats.seeds import holm
from interp_compose.tasks.natural import Item, natural, read
from interp_compose.types import Span

TASKS: Final = ("hypernyms", "opposites", "materials", "continents", "compounds", "definitions")
OTHERS: Final = "other words"
LAST: Final = "last word"
WHOLE: Final = "whole phrase"
ELSEWHERE: Final = "words elsewhere"
BETWEEN: Final = ((LAST, OTHERS), (LAST, ELSEWHERE), (OTHERS, ELSEWHERE))
"""Knock-outs that are compared with each other."""
AGAINST: Final = ("own", "random phrase", LAST)
"""The vectors that the transplanted mean is compared with."""
Ranges = list[tuple[int, int, str]]
"""Character ranges of a prompt, each with what it is."""
MEASURES: Final = {name: name for name in ("preferred", "expected_right")}
"""Whether the expected answer is likelier than the untouched, and than any other token."""


def phrases(
    out: Path,
    *,
    task: str,
    model: str,
    layers: Sequence[int],
    control_layers: Sequence[int],
    seed: int,
) -> dict[str, Any]:
    """Both studies of one task: what knocking out the words of a phrase costs in layer ℓ and all
    above, and which answer a transplanted phrase brings at layer ℓ."""
    lens = ic.load_model(model)
    template, items, _ = read(task)
    fitting = set(natural(task, lens.tokenizer).test)
    kept = [item for item in items if item.example(template) in fitting]
    several = [item for item in kept if len(item.parts[1].split()) > 1]
    examples = [item.example(template) for item in several]
    shown = demonstrations(template)
    besides = {
        each.prompt: beside(each, shown, n=_words(each) - 1, seed=(seed, number))
        for number, each in enumerate(examples)
    }
    studied = Studies(out, lens, "foil", seed)
    return {
        "knocked_out": studied.knocked_out(
            examples,
            {"parts": {each.prompt: parts(each) for each in examples}, "beside": besides},
            [case_of(task, item) for item in several],
            layers={"parts": layers, "beside": control_layers},
        ),
        "transplanted": studied.transplanted(
            pairs_of(template, kept, seed),
            {item.example(template).prompt: case_of(task, item) for item in kept},
            layers=layers,
        ),
    }


def demonstrations(template: str) -> int:
    """Where the demonstrations of a template end: before its last sentence, or line."""
    start = template.index("{}")
    return max(template.rfind(end, 0, start) for end in (". ", "\n")) + 1


def parts(example: ic.Example) -> Ranges:
    """Character ranges of the last word of an example's unit, and of its other words."""
    (low, high), prompt = example.spans[0], example.prompt
    words = [match.span() for match in re.finditer(r"\S+", prompt[:high]) if match.end() > low]
    return [(low, words[-2][1], OTHERS), (words[-1][0], high, LAST)]


def _words(example: ic.Example) -> int:
    return len(example.prompt[slice(*example.spans[0])].split())


def beside(example: ic.Example, end: int, *, n: int, seed: tuple[int, int]) -> Ranges:
    """Character ranges of an example's unit and, as the control, of a random run of ``n`` words
    in the prompt before ``end``; fewer where that has fewer."""
    (low, high), prompt = example.spans[0], example.prompt
    shown = [match.span() for match in re.finditer(r"\S+", prompt[:end])]
    n = min(n, len(shown))
    first = int(np.random.default_rng(seed).integers(len(shown) - n + 1))
    return [(shown[first][0], shown[first + n - 1][1], ELSEWHERE), (low, high, WHOLE)]


def case_of(task: str, item: Item) -> str:
    """Where the word stands that decides an item of ``opposites``, and which answer's word the last
    one of a compound is; elsewhere items are all of one case."""
    if task == "opposites":
        noun = re.search(r"\] is (an?|the)$", item.text)
        return "deciding word before a noun" if noun else "deciding word mostly the last"
    if task == "compounds":
        *others, last = item.parts[1].lower().split()
        if not others:
            return "one word"
        named = {item.answer.strip().lower(): "the answer", item.foil.strip().lower(): "the foil"}
        return f"last word is {named.get(last, 'neither')}"
    return ""


@dataclass(frozen=True)
class Studies:
    """Both studies of one model, and where they are kept; ``answers`` as studies take them."""

    out: Path
    lens: LensModel
    answers: Any
    seed: int

    def knocked_out(
        self,
        examples: Sequence[ic.Example],
        tagged: Mapping[str, Mapping[str, Ranges]],
        cases: Sequence[str],
        *,
        layers: Mapping[str, Sequence[int]],
        between: Sequence[tuple[str, str]] = BETWEEN,
    ) -> dict[str, Any]:
        """Each of the tagged ranges of each prompt in turn: two by two, in folders of their own."""
        curves = {
            name: self._knock_out(self.out / name, examples, tags, layers[name])
            for name, tags in tagged.items()
        }
        rows = pd.concat(
            curve.outcomes.merge(curve.cells, on=["example", "unit"]) for curve in curves.values()
        )
        clean = curves["parts"].clean.sort_values("example")
        return {
            "config": {name: curve.config for name, curve in curves.items()},
            "cases": list(cases),
            "table": [
                row for case in dict.fromkeys(cases) for row in of_case(rows, clean, cases, case)
            ],
            "between": [
                row
                for case in dict.fromkeys(cases)
                for row in between_groups(rows, cases, case, between)
            ],
            "clean": plain_rows(clean),
            "outcomes": by_example(rows, ("layer", "group")),
        }

    def _knock_out(
        self,
        out: Path,
        examples: Sequence[ic.Example],
        tags: Mapping[str, Ranges],
        layers: Sequence[int],
    ) -> ic.AblationCurve:
        spans = ([(low, high) for low, high, _ in tags[each.prompt]] for each in examples)
        measure = partial(
            ic.ablation_curve,
            self.lens,
            [replace(each, spans=tuple(of)) for each, of in zip(examples, spans, strict=True)],
            what="words",
            unit="span",
            tagger=tags.__getitem__,
            answers=self.answers,
            layers=layers,
            seed=self.seed,
            resume=out,
        )
        curve = kept(out, ic.AblationCurve, measure)
        print(curve.summary())
        return curve

    def transplanted(
        self,
        pairs: Sequence[ic.TransplantPair],
        case_of_source: Mapping[str, str],
        *,
        layers: Sequence[int],
    ) -> dict[str, Any]:
        """The mean of a phrase with all controls, and the mean of its last word instead."""
        of_words = [replace(pair, source_span=_last_word(pair)) for pair in pairs]
        of_mean, of_last = (
            kept(
                self.out / name,
                ic.Transplants,
                partial(
                    ic.transplant,
                    self.lens,
                    moved,
                    layers=layers,
                    pooling="mean",
                    controls=with_controls,
                    seed=self.seed,
                    resume=self.out / name,
                ),
            )
            for name, moved, with_controls in (("mean", pairs, True), ("last", of_words, False))
        )
        print(of_mean.summary(), of_last.summary(), sep="\n")
        rows = preferred(pd.concat([of_mean.outcomes, of_last.outcomes.assign(vector=LAST)]))
        other = with_another_answer(of_mean.pairs)
        clean = preferred(of_mean.clean)
        shown = of_mean.pairs[
            ["pair", "source_phrase", "target_phrase", "expected", "answer", "donor"]
        ]
        shown = shown.assign(case=[case_of_source[pairs[at].source] for at in shown["pair"]])
        of_case = {case: part["pair"] for case, part in shown.groupby("case", sort=False)}
        return {
            "config": of_mean.config,
            "table": [
                {
                    "case": case,
                    **dict(zip(("layer", "vector"), place, strict=True)),
                    **shares_of(each, MEASURES),
                }
                for case, chosen in of_case.items()
                for place, each in _by_vector(rows[rows["pair"].isin(chosen)], other)
            ],
            "clean": [
                {
                    "case": case,
                    "run": run,
                    **shares_of(each, MEASURES),
                }
                for case, chosen in of_case.items()
                for run, each in clean[clean["pair"].isin(chosen)].groupby("run", sort=False)
            ],
            "mean_less": [
                {"case": case, **row}
                for case, chosen in of_case.items()
                for row in mean_less(rows[rows["pair"].isin(chosen)], other)
            ],
            "pairs": plain_rows(shown),
            "outcomes": [
                {
                    "layer": layer,
                    "vector": vector,
                    **{one: "".join(map(str, each[one].astype(int))) for one in MEASURES},
                    "log_odds": (each["expected_logprob"] - each["answer_logprob"])
                    .round(4)
                    .tolist(),
                }
                for (layer, vector), each in rows.groupby(["layer", "vector"], sort=False)
            ],
        }


def _right(rows: pd.DataFrame, cases: Sequence[str], case: str) -> pd.DataFrame:
    """Whether each example of a case is right, by layer and what is knocked out."""
    right = rows.pivot(index="example", columns=["layer", "group"], values="correct")
    return right.sort_index().loc[[one == case for one in cases]]


def of_case(
    rows: pd.DataFrame, clean: pd.DataFrame, cases: Sequence[str], case: str
) -> list[dict[str, Any]]:
    """Accuracy of each knock-out with Wilson's interval, less the clean model's (McNemar, Holm
    over the case)."""
    right = _right(rows, cases, case)
    before = clean.set_index("example")["correct"][right.index].to_numpy(bool)
    table = []
    for place, each in right.items():
        low, high = wilson_interval(int(each.sum()), len(each))
        paired = paired_shares(each.to_numpy(bool), before)
        table.append(
            {
                "case": case,
                **dict(zip(("layer", "group"), place, strict=True)),
                "clean": float(before.mean()),
                "accuracy": float(each.mean()),
                "low": float(low),
                "high": float(high),
                **vars(paired),
            }
        )
    return _corrected(table)


def between_groups(
    rows: pd.DataFrame,
    cases: Sequence[str],
    case: str,
    groups: Sequence[tuple[str, str]] = BETWEEN,
) -> list[dict[str, Any]]:
    """Accuracies of two knock-outs compared, example by example; Holm over the case."""
    right = _right(rows, cases, case)
    table = []
    for first, second in groups:
        for layer in right.columns.unique("layer"):
            if (layer, first) in right and (layer, second) in right:
                one, two = (right[layer, group].to_numpy(bool) for group in (first, second))
                place = {"case": case, "layer": layer, "first": first, "second": second}
                table.append({**place, **vars(paired_shares(one, two))})
    return _corrected(table)


def _corrected(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    corrected = holm([row["p"] for row in rows])
    return [
        {**row, "layer": int(row["layer"]), "p_holm": p}
        for row, p in zip(rows, corrected, strict=True)
    ]


def pairs_of(template: str, items: Sequence[Item], seed: int) -> list[ic.TransplantPair]:
    """Each item's unit in the place of another's, whose answer differs and whose text is the same
    around the unit: of these the next, in a random order, that has been a target least often. Items
    without such a partner have no pair."""
    order = np.random.default_rng(seed).permutation(len(items)).tolist()
    used: Counter[int] = Counter()
    pairs = []
    for place, number in enumerate(order):
        item = items[number]
        partners = [
            at
            for at in (*order[place:], *order[:place])
            if items[at].parts[::2] == item.parts[::2] and items[at].answer != item.answer
        ]
        if not partners:
            continue
        chosen = min(partners, key=used.__getitem__)
        used[chosen] += 1
        source, target = item.example(template), items[chosen].example(template)
        pairs.append(
            ic.TransplantPair(
                source=source.prompt,
                source_span=source.spans[0],
                target=target.prompt,
                target_span=target.spans[0],
                expected=item.answer,
                answer=items[chosen].answer,
                composed=source.prompt,
            )
        )
    return pairs


def _last_word(pair: ic.TransplantPair) -> Span:
    _, end = pair.source_span
    return end - len(pair.source_phrase.split()[-1]), end


def with_another_answer(pairs: pd.DataFrame) -> frozenset[int]:
    """Pairs whose random phrase has neither their expected nor their untouched answer; where a task
    has two answers alone, those whose random phrase has the untouched one."""
    of_donor = pairs["donor"].map(pairs.set_index("pair")["expected"])
    other = of_donor != pairs["expected"]
    if pairs["expected"].nunique() > 2:
        other &= of_donor != pairs["answer"]
    return frozenset(pairs["pair"][other].tolist())


def _by_vector(
    rows: pd.DataFrame, other: frozenset[int]
) -> Iterator[tuple[tuple[int, str], pd.DataFrame]]:
    """Rows by layer and vector, a random phrase's of pairs of ``other`` alone."""
    for (layer, vector), each in rows.groupby(["layer", "vector"], sort=False):
        yield (layer, vector), _comparable(each, vector, other)


def _comparable(rows: pd.DataFrame, vector: str, other: frozenset[int]) -> pd.DataFrame:
    return rows[rows["pair"].isin(other)] if vector == "random phrase" else rows


def preferred(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Outcomes pair by pair, with whether the expected answer is likelier than the untouched."""
    rows = outcomes.sort_values("pair", kind="stable")
    return rows.assign(preferred=rows["expected_logprob"] > rows["answer_logprob"])


def mean_less(rows: pd.DataFrame, other: frozenset[int]) -> list[dict[str, Any]]:
    """The share of pairs in which the transplanted mean brings the expected answer, less that of
    each of :data:`AGAINST`, paired by pair; Holm over layers. A random phrase is compared in the
    pairs of ``other``."""
    differences = []
    for measure in MEASURES:
        for vector in AGAINST:
            brought = _comparable(rows, vector, other).pivot(
                index="pair", columns=["layer", "vector"], values=measure
            )
            shares = []
            for layer in rows["layer"].unique().tolist():
                mean, second = (
                    brought[layer, one].to_numpy(bool) for one in ("transplant", vector)
                )
                place = {"layer": layer, "against": vector, "measure": measure}
                shares.append({**place, **vars(paired_shares(mean, second))})
            differences += _corrected(shares)
    return differences


def words_pooled(out: Path, *, model: str) -> dict[str, Any]:
    """CAP at the level of words: of the phrases of all tasks, the words of several tokens."""
    lens = ic.load_model(model)
    examples, names = [], []
    for task in ("agreement", *TASKS):
        for example in ic.load_task(task, lens).test:
            spans = several_tokens(lens.tokenizer, example)
            if spans:
                examples.append(replace(example, spans=spans))
                names.append(task)
    task_name = "words of several tokens"
    measure = partial(
        ic.cap_curve, lens, examples, unit="span", answers="foil", task=task_name, resume=out
    )
    curve = kept(out, ic.CapCurve, measure)
    print(curve.summary())
    curve.plot().save(IMAGES / "cap_words.png")
    return {
        "config": curve.config,
        "tasks": names,
        "curve": plain_rows(curve.frame),
        "clean": plain_rows(curve.clean),
        "controls": controls(curve),
        "outcomes": by_example(curve.outcomes),
    }


def several_tokens(tokenizer: Any, example: ic.Example) -> tuple[Span, ...]:
    """The words of an example's unit that are of several tokens."""
    offsets = tokenizer(example.prompt, return_offsets_mapping=True)["offset_mapping"]
    (low, high), prompt = example.spans[0], example.prompt
    words = (match.span() for match in re.finditer(r"\S+", prompt[:high]))
    return tuple(
        (start, end)
        for start, end in words
        if start >= low and sum(a < end and b > start for a, b in offsets) > 1
    )


def heads(curve: ic.AblationCurve) -> list[dict[str, Any]]:
    """What ablating each head changes of the log-odds of answer and foil, which is the difference
    of their logits: their log-probability has no room above where one is nearly sure. Of examples
    whose log-odds are below :data:`MOST_ODDS` in the clean model."""
    clean = curve.clean.assign(log_odds=log_odds(curve.clean["target_logprob"]))
    clean = clean[clean["log_odds"] < 0.999 * MOST_ODDS]
    outcomes = curve.outcomes[curve.outcomes["example"].isin(clean["example"])]
    outcomes = outcomes.assign(log_odds=log_odds(outcomes["target_logprob"]))
    return of_each_head(outcomes, clean, "log_odds")


MOST_ODDS: Final = math.log(1e4)
"""Nearer to certainty, rounding of logits in float32 would count: one step of a log-probability is
2e-6."""


def log_odds(logprob: pd.Series[float]) -> pd.Series[float]:
    """ln p − ln(1 − p) of ln p, p being a share of two; at most :data:`MOST_ODDS`."""
    highest = -math.log1p(math.exp(-MOST_ODDS))
    log_share = logprob.clip(upper=highest)
    return log_share - np.log(-np.expm1(log_share))
