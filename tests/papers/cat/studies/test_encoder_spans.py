"""Encoders on questions whose answers are spans: windows, the best span, plain loops one window
at a time, worst variants."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import interp_compose as ic
from interp_compose.papers.cat.stats.answer_overlap import exact_match, token_f1
from interp_compose.papers.cat.studies.encoders.spans import worst
from interp_compose.papers.cat.studies.encoders.windows import windows_of
from interp_compose.papers.cat.training.classifier import ClassifierHead
from interp_compose.papers.cat.training.spans import best_spans
from tests.papers.cat.studies.test_encoders import (
    encoders,
    models_of,
    one_seed as one_seed,
    plainly,
)
from tests.papers.cat.studies.test_pretrain import NAMES

N_CTX, LONGEST = 18, 30


def question(own: str, number: int, n: int, name: str) -> ic.cat.Question:
    """Who is heard by ``name``, in so many sentences, of which one says it."""
    others = [one for one in NAMES if one != name]
    said = [
        f"{others[(number + i) % len(others)]} knows {others[(number + 2 * i) % len(others)]};"
        for i in range(n)
    ]
    said[number % n] = f"{name} hears {others[number % len(others)].upper()}."
    context = " ".join(said)
    answer = others[number % len(others)].upper()
    return ic.cat.Question(own, f"{name} hears?", context, ((context.index(answer), answer),))


TRAIN = tuple(question(f"t{i}", i, 1 + i % 5, NAMES[i % len(NAMES)]) for i in range(7))
TEST = tuple(question(f"q{i}", 3 * i + 1, 1 + i % 4, NAMES[-1 - i % 2]) for i in range(6))
ADDED = tuple(
    ic.cat.Question(f"{one.id}-{i}", one.question, f"{one.context} {extra}", one.answers)
    for one in TEST[:3]
    for i, extra in enumerate(("so hears.", f"{NAMES[0]} hears {NAMES[1]}."))
)
TASK = ic.cat.SpanTask("squad", {"train": TRAIN, "test": TEST, "addsent": (*TEST[:4], *ADDED)})


# ---- windows ------------------------------------------------------------------------------------


def slow_windows(encoder: Any, one: ic.cat.Question) -> list[dict[str, Any]]:
    """Tokens, segments, and of each word its first position and its characters, by Hugging Face's
    tokenizer and by the marks of WordPiece."""
    tokenizer = encoder.tokenizer
    asked = tokenizer(one.question, add_special_tokens=False)["input_ids"][: (N_CTX - 3) // 2]
    found = tokenizer(one.context, add_special_tokens=False, return_offsets_mapping=True)
    words: list[list[tuple[int, tuple[int, int]]]] = []
    for token, where in zip(found["input_ids"], found["offset_mapping"], strict=True):
        if not tokenizer.convert_ids_to_tokens(token).startswith("##"):
            words.append([])
        words[-1].append((token, where))
    room, first, windows = N_CTX - 3 - len(asked), 0, []
    while True:
        taken = []
        while first + len(taken) < len(words):
            if sum(map(len, taken)) + len(words[first + len(taken)]) > room:
                break
            taken.append(words[first + len(taken)])
        tokens = [tokenizer.cls_token_id, *asked, tokenizer.sep_token_id]
        segments, places = [0] * len(tokens), []
        for word in taken:
            places.append((len(tokens), (word[0][1][0], word[-1][1][1])))
            tokens += [token for token, _ in word]
        tokens.append(tokenizer.sep_token_id)
        segments += [1] * (len(tokens) - len(segments))
        windows.append({"tokens": tokens, "segments": segments, "words": places})
        if first + len(taken) == len(words):
            return windows
        first += len(taken) // 2


def positions(window: dict[str, Any], one: ic.cat.Question) -> tuple[int, int]:
    """Of the first answer's first and last word; 0, 0 where one of its characters is missing."""
    start, text = one.answers[0]
    within = [
        place
        for place, (a, b) in window["words"]
        if any(a <= i < b for i in range(start, start + len(text)))
    ]
    seen = {i for _, (a, b) in window["words"] for i in range(a, b)}
    whole = {i for i in range(start, start + len(text)) if one.context[i].isalnum()} <= seen
    return (within[0], within[-1]) if within and whole else (0, 0)


@pytest.fixture(scope="module")
def cat(one_seed: Path) -> Any:
    return next(one for name, seed, one in models_of(one_seed) if (name, seed) == ("cat", 0))


def test_windows_are_those_of_a_slow_reading(cat: Any) -> None:
    asked = (*TRAIN, *TEST, *ADDED)
    found = windows_of(cat, asked)
    expected = [(i, window) for i, one in enumerate(asked) for window in slow_windows(cat, one)]
    assert len(found.windows) == len(expected) > len(asked)
    tokens, mask, segments, words = found.batch(np.arange(len(expected)))
    ends, answered = found.ends(), set()
    for number, (i, window) in enumerate(expected):
        n = len(window["tokens"])
        assert tokens[number, :n].tolist() == window["tokens"]
        assert mask[number].tolist() == [1] * n + [0] * (mask.shape[1] - n)
        assert segments[number, :n].tolist() == window["segments"]
        places = [place for place, _ in window["words"]]
        numbered = {0: 0} | {place: k for k, place in enumerate(places, start=1)}
        assert words[number].tolist() == [numbered.get(p, -1) for p in range(words.shape[1])]
        assert tuple(ends[number]) == positions(window, asked[i])
        for k, (_, (a, b)) in enumerate(window["words"], start=1):
            assert found.text(number, k, k) == asked[i].context[a:b]
        if ends[number, 0]:
            first, last = (numbered[int(place)] for place in ends[number])
            assert found.text(number, first, last) == asked[i].answers[0][1]
            answered.add(i)
    assert answered == set(range(len(asked)))
    assert (ends == 0).all(axis=1).any()
    assert not found.cut.any()


def test_long_questions_and_words_and_contexts_without_a_word(cat: Any) -> None:
    long = ic.cat.Question(
        "long", " ".join([NAMES[0]] * 9), f"x{'q' * 40} {NAMES[1]}", ((0, "xq"),)
    )
    empty = ic.cat.Question("empty", "who?", "\u200b", ((0, "\u200b"),))
    found = windows_of(cat, (long, empty))
    assert found.cut.tolist() == [True, False]
    assert [one.question for one in found.windows][-1] == 1
    assert len(found.windows[-1].begins) == 0
    assert max(found.lengths) <= N_CTX
    assert found.windows[0].n_asked == 2 + (N_CTX - 3) // 2
    seen = {one.first + i for one in found.windows[:-1] for i in range(len(one.begins))}
    assert seen == set(range(len(found.characters[0])))
    assert found.ends()[-1].tolist() == [0, 0]


# ---- the best span ------------------------------------------------------------------------------


@pytest.mark.parametrize("longest", [1, 2, 4, 30])
def test_the_best_span_is_that_of_all_that_are_tried(longest: int) -> None:
    random = np.random.default_rng(longest)
    words = torch.tensor(
        [[0, -1, 1, -1, 2, 3, 4, -1], [0, -1, 1, -1, -1, -1, -1, -1], [0] + [-1] * 7]
    )
    for _ in range(20):
        logits = torch.from_numpy(random.integers(0, 4, (3, 8, 2)).astype(float))  # many are equal
        outputs = logits.masked_fill((words < 0)[..., None], -math.inf)
        scores, spans = best_spans(outputs, words, longest)
        for row in range(3):
            place = {int(word): at for at, word in enumerate(words[row]) if word > 0}
            tried = {
                (a, b): float(outputs[row, place[a], 0] + outputs[row, place[b], 1])
                for a, b in product(place, place)
                if a <= b < a + longest
            }
            if not tried:
                assert (spans[row].tolist(), float(scores[row])) == ([0, 0], -math.inf)
                continue
            best = max(tried.values())
            assert float(scores[row]) == pytest.approx(best)
            assert tuple(spans[row].tolist()) == next(
                span for span, score in tried.items() if score == pytest.approx(best)
            )


# ---- plain loops --------------------------------------------------------------------------------


def vectors_alone(encoder: Any, output: str, window: dict[str, Any]) -> torch.Tensor:
    """[CLS]'s vector and that of each word, the mean of its tokens."""
    tokens, types = (torch.tensor([window[name]]) for name in ("tokens", "segments"))
    last = getattr(encoder.lens(tokens, torch.ones_like(tokens), types)[-1], output)[0]
    starts = [place for place, _ in window["words"]]
    ends = [*starts[1:], len(window["tokens"]) - 1]
    means = [last[a:b].mean(dim=0) for a, b in zip(starts, ends, strict=True)]
    return torch.stack([last[0], *means])


def answer_of(
    logits: list[torch.Tensor], windows: list[dict[str, Any]], one: ic.cat.Question
) -> str:
    """The most probable span of all windows, every one tried."""
    tried = []
    for own, window in zip(logits, windows, strict=True):
        logs = own.log_softmax(dim=0).tolist()
        places = [where for _, where in window["words"]]
        for a, b in product(range(len(places)), repeat=2):
            if a <= b < a + LONGEST:
                text = one.context[places[a][0] : places[b][1]]
                tried.append((logs[a + 1][0] + logs[b + 1][1], text))
    return max(tried, key=lambda pair: pair[0])[1]


def expected_of(answers: dict[str, list[str]]) -> dict[tuple[str, str], float]:
    """Means by subset and metric; with adversarial sentences, over each worst variant."""
    means = {}
    for split, own in answers.items():
        scored: dict[str, list[tuple[bool, float, float]]] = {}
        for one, text in zip(TASK.split(split), own, strict=True):
            right = [answer for _, answer in one.answers]
            row = (one.id == one.original, token_f1(text, right), exact_match(text, right))
            scored.setdefault(one.original, []).append(row)
        kept = []
        for rows in scored.values():
            variants = [row for row in rows if not row[0]] or rows
            kept.append(min(variants, key=lambda row: row[1]))
        subset = "all" if split == "test" else split
        means[subset, "token_f1"] = float(np.mean([row[1] for row in kept]))
        means[subset, "exact_match"] = float(np.mean([row[2] for row in kept]))
    return means


def values_of(found: ic.cat.EncoderScores, **place: Any) -> dict[tuple[str, str], float]:
    rows = found.frames["scores"]
    for name, value in place.items():
        rows = rows[rows[name] == value]
    assert set(rows["embedding"]) == {"words"}
    values: dict[tuple[str, str], float] = rows.set_index(["subset", "metric"])["value"].to_dict()
    return values


TUNING = {"epochs": 3, "lr": 0.005, "batch_size": 4}


@pytest.mark.parametrize(("way", "output"), [("frozen", "cont"), ("end-to-end", "mix")])
def test_it_is_a_plain_loop(
    one_seed: Path, tmp_path: Path, cat: Any, way: str, output: str
) -> None:
    asked: dict[str, Any] = {"models": ["cat"], "outputs": [output], "tuned": [way], **TUNING}
    found = encoders(one_seed, {"squad": TASK}, tmp_path, shares=[0.6], **asked)
    chosen = [TRAIN[i] for i in np.random.default_rng([0, 7]).permutation(7)[:4]]
    windows = [(one, window) for one in chosen for window in slow_windows(cat, one)]
    head = ClassifierHead(cat.d_model, 2, seed=0)
    mean, scale = torch.zeros(cat.d_model), torch.ones(cat.d_model)
    if way == "frozen":
        with torch.no_grad():
            each = torch.cat([vectors_alone(cat, output, one)[1:] for _, one in windows]).double()
        mean, scale = each.mean(dim=0).float(), each.std(dim=0, correction=0).float()

    def logits(window: dict[str, Any]) -> torch.Tensor:
        vectors = vectors_alone(cat, output, window)
        vectors = vectors.detach() if way == "frozen" else vectors
        out: torch.Tensor = head((vectors - mean) / scale)
        return out

    def loss(i: int) -> torch.Tensor:
        one, window = windows[i]
        places = [0, *(place for place, _ in window["words"])]
        first, last = (places.index(place) for place in positions(window, one))
        logs = logits(window).log_softmax(dim=0)
        return -(logs[first, 0] + logs[last, 1]) / 2

    config = ic.TrainConfig(**TUNING, seed=0)  # type: ignore[arg-type]
    trained = [head] if way == "frozen" else [cat.lens, head]
    state = {name: one.clone() for name, one in cat.lens.state_dict().items()}
    plainly(trained, loss, len(windows), config)
    answers = {}
    with torch.no_grad():
        for split in ("test", "addsent"):
            answers[split] = [
                answer_of([logits(window) for window in own], own, one)
                for one in TASK.split(split)
                for own in [slow_windows(cat, one)]
            ]
    cat.lens.load_state_dict(state)
    expected = expected_of(answers)
    assert values_of(found, seed=0) == pytest.approx(expected)
    assert 0 < expected["all", "token_f1"] < 1
    rows = found.frames["scores"]
    assert rows.query("subset == 'addsent'")["n"].eq(4).all()
    assert rows.query("subset == 'all'")["n"].eq(6).all()
    assert set(rows["tuned"]) == {way}


def test_answers_can_be_learned(one_seed: Path, tmp_path: Path) -> None:
    task = {"own": ic.cat.SpanTask("own", {"train": TRAIN, "test": TRAIN})}
    asked: dict[str, Any] = {"models": ["cat"], "outputs": ["cont"], "tuned": ["end-to-end"]}
    found = encoders(one_seed, task, tmp_path, **asked, epochs=30, lr=0.02, batch_size=16)
    assert found.frame.query("metric == 'token_f1'")["mean"].iloc[0] > 0.9
    again = ic.cat.EncoderScores.from_rows({"scores": found.frames["scores"]}, found.config)
    assert {"encoders_exact_match", "encoders_token_f1"} == set(again.figures())


def test_each_output_has_a_head_of_its_own(one_seed: Path, tmp_path: Path) -> None:
    few = encoders(one_seed, {"squad": TASK}, tmp_path, models=["cat"], limit=3, epochs=1)
    counts = few.frames["scores"].groupby(["output", "subset", "metric"])["n"].unique().to_dict()
    places = product(("cont", "comp", "mix"), ("all", "addsent"), ("exact_match", "token_f1"))
    assert {place: list(n) for place, n in counts.items()} == {one: [3] for one in places}


def test_the_worst_variant_of_a_question() -> None:
    ids = ["a", "a-1", "a-2", "b", "c-1", "c", "c-2", "d-1", "d-2"]
    asked = [ic.cat.Question(one, "?", "x", ((0, "x"),)) for one in ids]
    values = [0.0, 0.8, 0.5, 0.7, 0.9, 0.1, 1.0, 0.4, 0.4]
    assert worst(asked, values) == [2, 3, 4, 7]
