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
REVIEWS: Final = (
    "Review: the film is a lovely and moving portrait of a family .\nSentiment: positive\n\n"
    "Review: a dull , lifeless mess .\nSentiment: negative\n\n"
    "Review: the story takes place in a small town in France .\nSentiment: neutral\n\n"
    "Review: {}\nSentiment:"
)


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
    """Test sentences of SST: the loader's prompt, and one with a demonstration of each label."""
    folder = Path(os.environ["INTERP_COMPOSE_TEST_DATA"], "sst")
    task = ic.load_task("sst", lens, data_dir=folder)
    before, after = task.template.split("{}")
    prompts: dict[str, list[Prompt]] = {"sentiment, loader's": [], "sentiment, demonstrations": []}
    for example in drawn(task.test, reviews, seed):
        others = tuple(label for label in task.labels if label != example.answer)
        text = example.prompt.removeprefix(before).removesuffix(after)
        shown = (example.prompt, REVIEWS.replace("{}", text))
        for name, prompt in zip(prompts, shown, strict=True):
            prompts[name].append(Prompt(prompt, example.answer, others))
    return prompts


def in_chat(lens: LensModel, items: int, seed: int) -> dict[str, list[Prompt]]:
    """Items of every task, as they are and in the model's chat format, in which the prompt is what
    is asked for and, once more, the beginning of the answer."""
    prompts: dict[str, list[Prompt]] = {}
    for name in ("agreement", *TASKS):
        for each in drawn(ic.load_task(name, lens).test, items, seed):
            asked = [{"role": "user", "content": REQUEST.format(each.prompt)}]
            begun = lens.tokenizer.apply_chat_template(
                asked, tokenize=False, add_generation_prompt=True
            )
            for form, text in (("plain", each.prompt), ("chat", begun + each.prompt)):
                prompt = Prompt(text, each.answer, (each.foil,))
                prompts.setdefault(f"{name}, {form}", []).append(prompt)
    return prompts


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
