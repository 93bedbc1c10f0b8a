"""Words transplanted and knocked out in a small translator, against runs written out by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import interp_compose as ic
from benchmarks import translators_read as read, translators_words as words
from benchmarks.translators_words import Noun, Pair
from interp_compose.interventions.transplants import VECTORS
from interp_compose.models.marian_student import MarianStudentModel
from tests.models.test_marian_student import ENCODER, write, write_pieces

LAYERS = (0, 2, ENCODER)
UNHAPPY = Noun("a unhappy dog , dog", "unhappy", "any", "affix")
CATS = Noun("a cat , cats", "cats", "any", "")
DOGS = Noun("dogs , a unhappy cat", "dogs", "any", "rare")
DOG = Noun("a unhappy dog", "dog", "any", "")  # of one piece
ANSWERS = ("um cão", "um um c")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> MarianStudentModel:
    folder = tmp_path_factory.mktemp("en-pt")
    write_pieces(folder)
    write(folder / "model.bin")
    loaded = ic.load_model(folder, dtype=torch.float64)
    assert isinstance(loaded, MarianStudentModel)
    return loaded


# ---- the same by hand, one sentence at a time --------------------------------------------


def places(model: MarianStudentModel, noun: Noun) -> tuple[Tensor, list[int]]:
    """Ids of a sentence, and where its noun's pieces are."""
    ids = model.tokenizer(noun.text).input_ids
    before = len(model.tokenizer(noun.text[: noun.span[0]].rstrip()).input_ids) - 1  # without </s>
    n_pieces = len(model.tokenizer(noun.word).input_ids) - 1
    return torch.tensor([ids]), [*range(before, before + n_pieces)]


def entering(model: MarianStudentModel, noun: Noun, layer: int) -> tuple[Tensor, list[int]]:
    """The clean residual [pos d_model] that enters an encoder block, and the noun's places."""
    ids, at = places(model, noun)
    student = model.lens
    return student.run_encoder(student.embedded(ids, None, "source"), 0, layer, None)[0], at


def instead(resid: Tensor, at: Sequence[int], vector: Tensor) -> Tensor:
    return torch.cat([resid[: at[0]], vector[None], resid[at[-1] + 1 :]])


def translated_as(
    model: MarianStudentModel, answer: str, resid: Tensor, layer: int, unread: Sequence[int] = ()
) -> float:
    """Log-probability of a translation, from what enters an encoder block; cross-attention finds
    no positions that are ``unread``."""
    student = model.lens
    memory = student.run_encoder(resid[None], layer, None, None)
    memory = memory[:, [i for i in range(memory.shape[1]) if i not in unread]]
    ids = model.tokenizer(answer).input_ids[:-1]
    start = student.embedded(torch.tensor([[0, *ids[:-1]]]), None, "target")
    logits = student.logits(student.run_decoder(start, 0, None, memory, None))[0]
    return float(logits.log_softmax(dim=1)[range(len(ids)), ids].sum())


POOLED = {"mean": lambda vectors: vectors.mean(0), "last": lambda vectors: vectors[-1]}


@torch.no_grad()
def test_transplants_are_runs_with_a_vector_in_the_place_of_the_noun(
    model: MarianStudentModel,
) -> None:
    pairs = [Pair(UNHAPPY, CATS, DOGS), Pair(CATS, DOGS, UNHAPPY), Pair(DOGS, UNHAPPY, CATS)]
    answers = [ANSWERS, ("cão", "c"), ANSWERS]
    values = words.transplanted(model, pairs, answers, LAYERS, ["mean", "last"], seed=3)
    drawn = torch.randn(3, model.d_model, generator=torch.Generator().manual_seed(3))
    assert {cell[2] for cell in values if cell[1] == "last"} == {"transplant", "own"}
    for (layer, how, vector), of_pairs in values.items():
        for pair, both, direction, row in zip(pairs, answers, drawn, of_pairs, strict=True):
            target, at = entering(model, pair.target, layer)
            pooled = {}
            for name, noun in vars(pair).items():
                resid, places_of_noun = entering(model, noun, layer)
                pooled[name] = POOLED[how](resid[places_of_noun])
            norm = pooled["source"].norm()
            by_hand = {
                "transplant": pooled["source"],
                "own": pooled["target"],
                "random phrase": pooled["other"] * norm / pooled["other"].norm(),
                "random direction": direction * norm / direction.norm(),
            }
            edited = instead(target, at, by_hand[vector])
            expected = [translated_as(model, answer, edited, layer) for answer in both]
            assert row == pytest.approx(expected, abs=1e-5)
    moved = [values[layer, "mean", "transplant"] - values[layer, "mean", "own"] for layer in LAYERS]
    assert (np.abs(moved) > 1e-3).all()


@torch.no_grad()
def test_the_own_noun_is_pooled_as_everywhere_and_one_piece_changes_nothing(
    model: MarianStudentModel,
) -> None:
    nouns, texts = [UNHAPPY, CATS, DOGS], [noun.text for noun in (UNHAPPY, CATS, DOGS)]
    pairs = [Pair(noun, noun, CATS) for noun in nouns]
    values = words.transplanted(model, pairs, [ANSWERS] * 3, LAYERS, ["mean"], seed=0)
    for n_answer, answer in enumerate(ANSWERS):
        examples = [ic.Example(noun.text, answer, spans=(noun.span,)) for noun in nouns]
        options: dict[str, Any] = {"layers": LAYERS, "multi_token_answers": True}
        curve = ic.cap_curve(
            model, examples, unit="span", pooling="mean", controls=False, progress=False, **options
        )
        by_place = curve.outcomes.set_index(["layer", "example"])["target_logprob"]
        for layer in LAYERS:
            own = values[layer, "mean", "own"][:, n_answer]
            assert own == pytest.approx(by_place[layer].sort_index().to_numpy(), abs=1e-4)
            # A noun given to its own sentence is its own noun.
            assert values[layer, "mean", "transplant"][:, n_answer] == pytest.approx(own, abs=1e-5)
    alone = words.transplanted(model, [Pair(DOG, DOG, CATS)], [ANSWERS], LAYERS, ["mean"], seed=0)
    clean = words.clean_logprobs(model, [DOG.text, *texts], [ANSWERS] * 4)
    for layer in LAYERS:
        for vector in ("transplant", "own"):
            assert alone[layer, "mean", vector] == pytest.approx(clean[:1], abs=1e-5)
        assert np.abs(alone[layer, "mean", "random phrase"] - clean[:1]).min() > 1e-3
    for noun, row in zip((DOG, *nouns), clean, strict=True):
        resid = entering(model, noun, 0)[0]
        by_hand = [translated_as(model, answer, resid, 0) for answer in ANSWERS]
        assert row == pytest.approx(by_hand, abs=1e-4)


def test_a_noun_of_one_piece_is_refused(model: MarianStudentModel) -> None:
    words.check_pieces(model, [UNHAPPY, CATS, DOGS])
    with pytest.raises(ValueError, match="'dog' is one piece in 'a unhappy dog'"):
        words.check_pieces(model, [CATS, DOG])


@torch.no_grad()
def test_what_is_not_read_is_not_there(model: MarianStudentModel) -> None:
    """Without cross-attention to a position the decoder has what it has without the position; a
    noun that is hidden is one whose pieces are no keys at all."""
    nouns = [UNHAPPY, CATS, DOGS]
    items = words.prepared(model, nouns, ["um cão", "um um c", "cão"])
    spans = {
        "word": [words.pieces_of(item) for item in items],
        "control": read.elsewhere(items, seed=1),
    }
    values = read.knocked_out(model, items, spans, LAYERS)
    assert len(values) == 2 * (3 + 2 * len(LAYERS))
    for (layer, span, run), nats in values.items():
        start = max(layer, 0)
        for noun, item, of_span, value in zip(nouns, items, spans[span], nats, strict=True):
            resid, noun_at = entering(model, noun, start)
            at = of_span.nonzero()[0].tolist()
            assert span == "control" or at == noun_at
            unread = at
            if layer != read.CLEAN:
                resid, unread = instead(resid, at, resid[at].mean(0)), at[:1]
            if run == "hidden":
                resid = torch.cat([resid[: at[0]], resid[at[-1] + 1 :]])
            by_hand = translated_as(
                model, item.example.answer, resid, start, unread if run == "unread" else ()
            )
            assert value == pytest.approx(by_hand, abs=1e-6), (layer, span, run)
    for span in spans:
        # Of the encoder's output, the pooled position and the pieces leave the same.
        last = values[ENCODER, span, "unread"]
        assert last == pytest.approx(values[read.CLEAN, span, "unread"], abs=1e-4)
        for layer in LAYERS:
            lost = values[layer, span, "read"] - values[layer, span, "unread"]
            assert (np.abs(lost) > 1e-5).all()


def test_the_control_is_as_many_pieces_elsewhere(model: MarianStudentModel) -> None:
    items = words.prepared(model, [UNHAPPY, CATS, DOGS], ["um"] * 3)
    for seed in range(20):
        for item, control in zip(items, read.elsewhere(items, seed), strict=True):
            noun, at = words.pieces_of(item), control.nonzero()[0]
            assert len(at) == noun.sum() == 2
            assert not (control & noun).any()
            assert at[1] == at[0] + 1 < int(item.prompt.n_source or 0) - 1
    short = words.prepared(model, [Noun("a cats", "cats", "any", "")], ["um"])
    with pytest.raises(ValueError, match="'a cats' has no 2 pieces beside its noun"):
        read.elsewhere(short, 0)


# ---- pairs and figures -------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "pt"])
def test_every_noun_is_exchanged_once_within_its_agreement(language: str) -> None:
    nouns = words.nouns_of(language)
    assert len({noun.text for noun in nouns}) == len({noun.word for noun in nouns}) == len(nouns)
    assert len(nouns) > 100
    kinds = {noun.kind for noun in nouns}
    assert kinds == ({"rare", "affix", "compound"} if language == "en" else {""})
    pairs = words.drawn_pairs(nouns, language, seed=0)
    assert pairs != words.drawn_pairs(nouns, language, seed=1)
    for role in ("target", "source", "other"):
        assert Counter(getattr(pair, role) for pair in pairs) == Counter(nouns)
    for pair in pairs:
        three = [pair.target, pair.source, pair.other]
        assert len({noun.text for noun in three}) == 3
        assert len({noun.agreement for noun in three}) == 1
        assert pair.composed.replace(pair.source.word, pair.target.word) == pair.target.text
        if language == "en":
            assert " a a" not in pair.composed.lower()
            assert " a o" not in pair.composed.lower()
    with pytest.raises(ValueError, match="2 any nouns: expected 3 or more"):
        words.drawn_pairs([UNHAPPY, CATS], "en", 0)


def test_english_articles_stay_right() -> None:
    after = {"A cat sat.": "cat", "an owl": "owl", "the cat": "cat", "banana cat": "cat"}
    fits = {
        text: [words.follows_article(Noun(text, word, "", ""), one) for one in ("dog", "ant")]
        for text, word in after.items()
    }
    assert fits == {
        "A cat sat.": [True, False],
        "an owl": [False, True],
        "the cat": [True, True],
        "banana cat": [True, True],
    }


def test_figures_of_transplants_by_hand() -> None:
    rng = np.random.default_rng(0)
    cells = [(layer, how, v) for layer in (0, 1) for how in ("mean", "last") for v in VECTORS]
    values: Any = {
        cell: rng.normal(size=(6, 2))
        for cell in cells
        if cell[1] == "mean" or cell[2] in ("transplant", "own")
    }
    clean = {"own": rng.normal(size=(6, 2)) - [3, 0], "composed": rng.normal(size=(6, 2))}
    kept = words.compared(values, clean, [0, 1], ["mean", "last"])
    for row in kept["table"]:
        both = values[row["layer"], row["pooling"], row["vector"]]
        nats = both[:, 0] - both[:, 1]
        assert row["share"] == pytest.approx(sum(nats > 0) / 6, rel=1e-5)
        assert row["odds"] == pytest.approx(nats.mean(), rel=1e-5)
    against = {(r["pooling"], r["against"], r["layer"]): r for r in kept["differences"]}
    assert len(against) == 2 * (5 + 2)
    row = against["mean", "random phrase", 1]
    nats = words.odds(values[1, "mean", "transplant"])
    other = words.odds(values[1, "mean", "random phrase"])
    assert row["mean"] == pytest.approx((nats - other).mean(), rel=1e-5)
    assert row["p"] == pytest.approx(stats.ttest_rel(nats, other).pvalue, rel=1e-4)
    other = words.odds(clean["composed"])
    assert against["last", "composed text", 0]["mean"] == pytest.approx(
        (words.odds(values[0, "last", "transplant"]) - other).mean(), rel=1e-5
    )
    assert against["mean", "last", 1]["mean"] == pytest.approx(
        (nats - words.odds(values[1, "last", "transplant"])).mean(), rel=1e-5
    )
    lost = {(r["pooling"], r["answer"], r["layer"]): r["mean"] for r in kept["nats"]}
    by_hand = values[0, "mean", "own"][:, 1] - clean["own"][:, 1]
    assert lost["mean", "own", 0] == pytest.approx(by_hand.mean(), rel=1e-5)
    by_hand = values[1, "last", "transplant"][:, 0] - clean["composed"][:, 0]
    assert lost["last", "composed", 1] == pytest.approx(by_hand.mean(), rel=1e-5)
    kinds = words.of_kinds(
        values, clean, ["rare", "", "rare", "affix", "affix", "rare"], [0], "mean"
    )
    assert {kind: of_kind["n"] for kind, of_kind in kinds.items()} == {"rare": 3, "affix": 2}
    (row,) = (r for r in kinds["rare"]["table"] if (r["layer"], r["vector"]) == (0, "own"))
    by_hand = words.odds(values[0, "mean", "own"])[[0, 2, 5]].mean()
    assert row["odds"] == pytest.approx(by_hand, rel=1e-5)


def test_what_moved_far_by_hand() -> None:
    pair = Pair(UNHAPPY, DOGS, CATS)
    assert (UNHAPPY.n_before, DOGS.n_before, CATS.n_before, pair.moved) == (1, 0, 3, 1)
    moved, nats = [0, 1, 2, 5, 3], [4.0, 3.0, -1.0, -2.0, 2.0]
    values: Any = {(0, "mean", "transplant"): np.array([[each, 0.0] for each in nats])}
    near, far = words.by_distance(values, moved, [0], "mean")
    ranked = stats.pearsonr([1, 2, 3, 5, 4], [5, 4, 2, 1, 3])  # by hand, without ties
    for row in (near, far):
        assert row["rho"] == pytest.approx(ranked.statistic, rel=1e-5)
    assert (near["near"], near["n"], near["share"], near["odds"]) == (True, 2, 1, 3.5)
    assert (far["n"], far["share"]) == (3, pytest.approx(1 / 3, rel=1e-5))
    assert far["odds"] == pytest.approx(-1 / 3, rel=1e-5)


def test_figures_of_knock_outs_by_hand() -> None:
    word = {"read": -3.0, "unread": -8.0}
    control = {"read": -2.0, "unread": -4.0}
    unpooled = {"clean": -1.0, "unread": -7.0, "hidden": -10.0}
    noise = np.array([0.1, -0.1, 0.2, -0.2])
    values: Any = {
        **{(0, "word", run): nats + noise for run, nats in word.items()},
        **{(0, "control", run): nats - noise for run, nats in control.items()},
        **{(-1, "word", run): nats + noise * k for k, (run, nats) in enumerate(unpooled.items())},
        **{(-1, "control", run): nats + 3 + noise for run, nats in unpooled.items()},
    }
    kept = read.compared(values, [0], [0])
    assert {row["what"]: row["mean"] for row in kept["differences"]} == pytest.approx(
        {
            "pooled": -2,
            "read": 5,
            "read, control": 2,
            "read, word − control": 3,
            "elsewhere": 2,
            "pooling elsewhere": -1,
        }
    )
    assert {row["what"]: row["mean"] for row in kept["whole"]} == pytest.approx(
        {
            "read": 6,
            "read, control": 3,
            "read, word − control": 3,
            "elsewhere": 3,
            "hidden": 9,
        }
    )


@pytest.mark.parametrize("name", ["en_pt", "pt_en"])
def test_the_kept_runs_agree_where_they_have_to(name: str) -> None:
    """Own nouns of the pairs and pooled words of the knock-outs are the same runs."""
    results = Path(words.__file__).parent / "results"
    transplants, knocked_out = (
        json.loads((results / f"translators_{study}_{name}.json").read_text(encoding="utf-8"))
        for study in ("words", "read")
    )
    at = {row["text"]: i for i, row in enumerate(knocked_out["sentences"])}
    order = [at[pair["target"]] for pair in transplants["pairs"]]
    pooled = {
        row["layer"]: np.array(row["target_logprob"])[order]
        for row in knocked_out["outcomes"]
        if (row["span"], row["run"]) == ("word", "read")
    }
    for row in transplants["outcomes"]:
        if (row["pooling"], row["vector"]) == ("mean", "own"):
            assert row["own"] == pytest.approx(pooled[row["layer"]].tolist(), abs=2e-3)
