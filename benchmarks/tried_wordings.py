"""Accuracies of wordings that SmolLM2 does not follow well enough for a task in plain English, of
sentiment, and of the tasks themselves in the model's chat format: run ``tried_wordings``.

SST lies under ``INTERP_COMPOSE_TEST_DATA``. An answer that begins with a token is right when that
token is the likeliest of the vocabulary (``vocabulary``), or likelier than that of its foil
(``foil``; of sentiment, than those of the other labels).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

import interp_compose as ic
from benchmarks.natural_phrases import TASKS
from interp_compose.checks import drawn
from interp_compose.models.lens_model import LensModel
from interp_compose.stats.intervals import wilson_interval

FOLDER: Final = Path(__file__).parent
NUMBERS: Final = """zero one two three four five six seven eight nine ten eleven twelve thirteen
    fourteen fifteen sixteen seventeen eighteen nineteen"""
TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

SMALL_SUMS: Final = {
    "is": "three plus four is seven. six plus two is eight. nine plus five is fourteen. "
    "{} plus {} is",
    "symbols": "three + four = seven\nsix + two = eight\nnine + five = fourteen\n{} + {} =",
    "equals": "three plus four equals seven. one plus two equals three. six plus two equals eight. "
    "nine plus five equals fourteen. four plus seven equals eleven. {} plus {} equals",
}
LARGE_SUMS: Final = {
    "blank": "twenty three plus four is twenty seven. fifty one plus five is fifty six. "
    "eighty two plus two is eighty four. {} {} plus {} is {}",
    "hyphen": "Twenty-three plus four is twenty-seven. Fifty-one plus five is fifty-six. "
    "Eighty-two plus two is eighty-four. {}-{} plus {} is {}-",
}
COMPARED: Final = {
    "the smaller of": "The larger of a sheep and a beetle is the sheep. The smaller of a bottle "
    "and a thimble is the thimble. The smaller of a ring and a barn is the ring. The larger of a "
    "shoe and a castle is the castle. The {size} of {first} and {second} is the",
    "between": "Between a sheep and a beetle, the larger one is the sheep. Between a bottle and a "
    "thimble, the smaller one is the thimble. Between a ring and a barn, the smaller one is the "
    "ring. Between a shoe and a castle, the larger one is the castle. Between {first} and "
    "{second}, the {size} one is the",
    "which": "Which is larger: a sheep or a beetle? The sheep.\nWhich is smaller: a bottle or a "
    "thimble? The thimble.\nWhich is smaller: a ring or a barn? The ring.\nWhich is larger: a shoe "
    "or a castle? The castle.\nWhich is {size}: {first} or {second}? The",
}
COMPARED_WITH: Final = (
    "Compared with a sheep, a beetle is small. Compared with a thimble, a bottle is big. Compared "
    "with a ring, a barn is big. Compared with a castle, a shoe is small. Compared with {}, {} is"
)
SIZES: Final = """mouse elephant, cat horse, bee cow, ant dog, rabbit bear, frog lion, duck whale,
    snail tiger, wasp camel, hen goat, coin wheel, cup bath, spoon shovel, nail hammer, button coat,
    pencil table, book shelf, key door, chair house, bike truck, car train, boat ship, pond lake,
    hill mountain, village city, room hotel, bush tree, leaf forest, seed pumpkin, cherry melon,
    grape apple, pea potato, egg cake, crumb loaf, finger arm, toe leg, baby giant, moon sun"""
CAPITALS: Final = {
    "sentences": "The capital of the Kingdom of Tonga is Nukualofa. The capital of the Republic of "
    "Panama is Panama City. The capital of the Province of Ontario is Toronto. The capital of the "
    "{} is",
    "lines": "Capital of the Republic of Panama: Panama City\nCapital of the Kingdom of Tonga: "
    "Nukualofa\nCapital of the Province of Ontario: Toronto\nCapital of the {}:",
    "no demonstrations": "The capital of the {} is",
}
REQUEST: Final = "Continue this text with one word:\n{}"


class Prompt(NamedTuple):
    """A prompt, its answer, and the answers that are wrong."""

    text: str
    answer: str
    others: tuple[str, ...]


def measured(*, model: str, items: int, reviews: int, seed: int) -> dict[str, Any]:
    """Of every wording, with Wilson's 95 % intervals."""
    lens = ic.load_model(model)
    wordings = {**sums(items, seed), **comparisons(), **in_chat(lens, items, seed)}
    rows = [{"wording": name, **shares(lens, prompts)} for name, prompts in wordings.items()]
    for name, prompts in sentiments(lens, reviews, seed).items():
        rows.append({"wording": name, **shares(lens, prompts)})
    rows += capitals(lens)
    for row in rows:
        print(row)
    return {"model": lens.name, "seed": seed, "rows": rows}


def sums(items: int, seed: int) -> dict[str, list[Prompt]]:
    """Sums of two numbers up to nine, and of a number of two digits and one that changes its last
    digit; the foil is one more or one less."""
    names = NUMBERS.split()
    rng = random.Random(seed)
    small = rng.sample([*product(range(1, 10), repeat=2)], items)
    digits = [(one, two) for one, two in product(range(1, 9), repeat=2) if one + two <= 9]
    large = rng.sample([(ten, *pair) for ten in TENS for pair in digits], items)

    def prompt(text: str, lead: str, one: int, two: int) -> Prompt:
        wrong = one + two + (1 if one * two % 2 else -1)
        return Prompt(text, lead + names[one + two], (lead + names[wrong],))

    prompts: dict[str, list[Prompt]] = {}
    for name, wording in SMALL_SUMS.items():
        prompts[f"sum, {name}"] = [
            prompt(wording.format(names[one], names[two]), " ", one, two) for one, two in small
        ]
    for name, wording in LARGE_SUMS.items():
        lead = " " if name == "blank" else ""
        prompts[f"sum, {name}"] = [
            prompt(
                wording.format(ten if lead else ten.title(), names[one], names[two], ten),
                lead,
                one,
                two,
            )
            for ten, one, two in large
        ]
    return prompts


def comparisons() -> dict[str, list[Prompt]]:
    """Two things, one much larger; which is first, and which is meant, is the same in halves."""
    pairs = [pair.split() for pair in SIZES.split(",")]
    prompts: dict[str, list[Prompt]] = {name: [] for name in (*COMPARED, "compared with")}
    for number, pair in enumerate(pairs):
        for meant, size in enumerate(("smaller", "larger")):
            answer, foil = pair[meant], pair[1 - meant]
            order = (answer, foil) if (number + meant) % 2 else (foil, answer)
            first, second = map(with_article, order)
            for name, wording in COMPARED.items():
                text = wording.format(size=size, first=first, second=second)
                prompts[name].append(Prompt(text, f" {answer}", (f" {foil}",)))
            sizes = (" small", " big")
            text = COMPARED_WITH.format(with_article(foil), with_article(answer))
            prompts["compared with"].append(Prompt(text, sizes[meant], (sizes[1 - meant],)))
    return {f"comparison, {name}": each for name, each in prompts.items()}


def with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def sentiments(lens: LensModel, reviews: int, seed: int) -> dict[str, list[Prompt]]:
    """Test sentences of SST: the loader's prompt, the one with a demonstration of each label, and
    that one in the chat format."""
    prompts = {}
    for task, name in (("sst", "loader's"), ("sst-few-shot", "demonstrations")):
        loaded = ic.load_task(
            task, lens, data_dir=Path(os.environ["INTERP_COMPOSE_TEST_DATA"], "sst")
        )
        prompts[f"sentiment, {name}"] = [
            Prompt(each.prompt, each.answer, tuple(sorted({*loaded.labels} - {each.answer})))
            for each in drawn(loaded.test, reviews, seed)
        ]
    prompts["sentiment, demonstrations in chat"] = [
        prompt._replace(text=asked(lens, prompt.text))
        for prompt in prompts["sentiment, demonstrations"]
    ]
    return prompts


def capitals(lens: LensModel) -> list[dict[str, Any]]:
    """Capitals of countries and states under names of several words; whole answers count."""
    lines = (FOLDER / "capitals.tsv").read_text(encoding="utf-8").splitlines()
    rows = []
    for name, wording in CAPITALS.items():
        start = wording.index("{}")
        examples = [
            ic.Example(
                wording.replace("{}", place), f" {capital}", spans=((start, start + len(place)),)
            )
            for place, capital in (line.split("\t") for line in lines)
        ]
        clean = ic.cap_curve(
            lens,
            examples,
            unit="span",
            layers=[0],
            pooling="mean",
            controls=False,
            multi_token_answers=True,
        ).clean
        n, k = len(clean), int(clean["correct"].sum())
        low, high = wilson_interval(k, n)
        rows.append(
            {
                "wording": f"capital, {name}",
                **{"n": n, "first_prompt": examples[0].prompt, "answer": examples[0].answer},
                **{"vocabulary": k / n, "vocabulary_low": float(low)},
                "vocabulary_high": float(high),
                "outcomes": "".join(map(str, clean.sort_values("example")["correct"].astype(int))),
            }
        )
    return rows


def in_chat(lens: LensModel, items: int, seed: int) -> dict[str, list[Prompt]]:
    """Items of every task, as they are and in the model's chat format."""
    prompts: dict[str, list[Prompt]] = {}
    for name in ("agreement", *TASKS):
        for each in drawn(ic.load_task(name, lens).test, items, seed):
            for form, text in (("plain", each.prompt), ("chat", asked(lens, each.prompt))):
                prompt = Prompt(text, each.answer, (each.foil,))
                prompts.setdefault(f"{name}, {form}", []).append(prompt)
    return prompts


def asked(lens: LensModel, text: str) -> str:
    """A prompt in the model's chat format: what is asked for, and the beginning of the answer."""
    request = [{"role": "user", "content": REQUEST.format(text)}]
    begun: str = lens.tokenizer.apply_chat_template(
        request, tokenize=False, add_generation_prompt=True
    )
    return begun + text


def shares(lens: LensModel, prompts: list[Prompt]) -> dict[str, Any]:
    """How many are right, of the vocabulary and of the answer and its foils."""
    n = len(prompts)
    right = list(correct(lens, prompts))
    kept: dict[str, Any] = {"n": n, "first_prompt": prompts[0].text, "answer": prompts[0].answer}
    if "sentiment" in prompts[0].text.lower():
        del kept["first_prompt"]  # SST's sentences are not shipped
    for number, name in enumerate(("vocabulary", "foil")):
        k = sum(each[number] for each in right)
        low, high = wilson_interval(k, n)
        kept |= {name: k / n, f"{name}_low": float(low), f"{name}_high": float(high)}
    return kept


@torch.no_grad()
def correct(lens: LensModel, prompts: Iterable[Prompt]) -> Iterator[tuple[bool, bool]]:
    def token(answer: str) -> int:
        (first, *_) = lens.tokenizer(answer, add_special_tokens=False).input_ids
        return int(first)

    for text, answer, others in prompts:
        tokens = torch.tensor([lens.tokenizer(text).input_ids])
        logits = lens.forward(tokens, read="last")[0, -1]
        target = token(answer)
        yield (
            int(logits.argmax()) == target,
            all(bool(logits[target] > logits[token(other)]) for other in others),
        )
