"""Prompts of the wordings that were tried, and how they are counted."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

import interp_compose as ic
from benchmarks.tried_wordings import (
    CAPITALS,
    FOLDER,
    NUMBERS,
    Prompt,
    capitals,
    comparisons,
    in_chat,
    shares,
    sums,
)

VALUES = {name: value for value, name in enumerate(NUMBERS.split())}


def test_sums_are_right_and_their_foils_are_one_off() -> None:
    for name, prompts in sums(60, 0).items():
        assert len({prompt.text for prompt in prompts}) == 60
        for text, answer, (foil,) in prompts:
            last = re.split(r"[.\n]", text)[-1].lower()
            values = [VALUES[word] for word in re.findall(r"\w+", last) if word in VALUES]
            assert VALUES[answer.strip()] == sum(values), (name, text)
            assert abs(VALUES[foil.strip()] - sum(values)) == 1
            assert answer.startswith(" ") == foil.startswith(" ") == (not text.endswith("-"))


def test_neither_place_nor_size_gives_a_comparison_away() -> None:
    for name, prompts in comparisons().items():
        assert len({prompt.text for prompt in prompts}) == len(prompts) == 76
        if name == "comparison, compared with":
            assert Counter(prompt.answer for prompt in prompts) == {" small": 38, " big": 38}
            continue
        places: Counter[bool] = Counter()
        for text, answer, (foil,) in prompts:
            last = text[max(text.rfind("."), text.rfind("\n")) :]
            assert answer in last
            assert foil in last
            places[last.index(answer) < last.index(foil)] += 1
        assert places == {True: 38, False: 38}, name


def test_in_chat_a_prompt_is_asked_for_and_begins_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Tokenizer:
        def apply_chat_template(
            self, asked: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
        ) -> str:
            assert add_generation_prompt
            assert not tokenize
            return "".join(f"<{one['role']}>{one['content']}" for one in asked) + "<assistant>"

    task = SimpleNamespace(test=[ic.Example("The sky is", " blue", foil=" red")])
    monkeypatch.setattr(ic, "load_task", lambda name, lens: task)
    prompts = in_chat(SimpleNamespace(tokenizer=Tokenizer()), 5, 0)  # type: ignore[arg-type]
    assert prompts["opposites, plain"] == [Prompt("The sky is", " blue", (" red",))]
    ((text, answer, others),) = prompts["opposites, chat"]
    assert re.fullmatch(r"<user>.+\nThe sky is<assistant>The sky is", text)
    assert (answer, others) == (" blue", (" red",))
    assert len(prompts) == 14


def test_shares_are_those_counted_from_the_logits() -> None:
    model = ic.load_model("mini-base")
    prompts = [
        Prompt(text, answer, others)
        for text in ("a young dog is", "the mother of a horse is", "not cold")
        for answer, others in ((" called", (" a",)), (" a", (" called", " the")))
    ]
    vocabulary = among = 0
    for text, answer, others in prompts:
        logits = model.forward(model.tokenizer(text, return_tensors="pt").input_ids)[0, -1]
        first = [
            model.tokenizer(word, add_special_tokens=False).input_ids[0]
            for word in (answer, *others)
        ]
        vocabulary += logits.argmax().item() == first[0]
        among += torch.argmax(logits[first]).item() == 0
    measured = shares(model, prompts)
    assert (measured["n"], measured["first_prompt"]) == (6, "a young dog is")
    assert measured["vocabulary"] == pytest.approx(vocabulary / 6)
    assert measured["foil"] == pytest.approx(among / 6)
    assert 0 < among < 6
    assert measured["foil_low"] < among / 6 < measured["foil_high"]


def test_whole_capitals_count(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (FOLDER / "capitals.tsv").read_text(encoding="utf-8").splitlines()
    places = [line.split("\t") for line in lines]
    assert all(len(place) == 2 and all(part.strip() == part for part in place) for place in places)
    assert len({name for name, _ in places}) == len(places)
    for wording in CAPITALS.values():
        # No demonstration gives an item away.
        assert not any(name in wording or f" {capital}" in wording for name, capital in places)

    def cap_curve(lens: object, examples: list[ic.Example], **options: object) -> SimpleNamespace:
        assert options["multi_token_answers"]
        for example, (name, capital) in zip(examples, places, strict=True):
            assert example.answer == f" {capital}"
            assert [example.prompt[low:high] for low, high in example.spans or ()] == [name]
        right = [number == 1 for number in range(len(examples))]
        return SimpleNamespace(
            clean=pd.DataFrame({"example": range(len(examples)), "correct": right})
        )

    monkeypatch.setattr(ic, "cap_curve", cap_curve)
    for row in capitals(SimpleNamespace()):  # type: ignore[arg-type]
        assert row["vocabulary"] == 1 / len(places)
        assert row["outcomes"] == "01" + "0" * (len(places) - 2)
