"""Codes of encoders opened up: means of words read one by one in float64, sememes counted by hand,
refusals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import pandas as pd
import pytest
import torch

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import InputError, MissingDataError, OptionError
from interp_compose.papers.cat.studies.codes.consistency import in_passages
from interp_compose.papers.cat.studies.codes.phrases import phrases_of
from interp_compose.papers.cat.studies.codes.reading import answers as codes_answers
from interp_compose.papers.cat.studies.codes.sememes import sememe_rows
from interp_compose.papers.cat.studies.codes.words import WordPlaces, vectors_of
from interp_compose.papers.cat.studies.pretrain.data import kept
from interp_compose.papers.cat.training.sentences import Passages
from tests.papers.cat.studies.test_pretrain import DOCUMENTS, SEMEMES, TINY, share_of, study
from tests.studies.similarity_reference import few_samples

MODELS = ("bert", "cat", "cat-mlp", "cat-last-fixed")
TEXTS = ("text1", "text2")
WITH_CODES = ["cat", "cat-last-fixed"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    text = folder / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    study(text, folder / "out", MODELS, run=replace(TINY, max_steps=2, n_looks=1))
    return folder / "out"


NOUNS = """\
00000010 05 n 01 ann 0 000 | a name; "ann knows bob"; "then ann smiled"
00000020 05 n 02 ann 0 old_ann 0 000 | another; "bob hears ann, and Ann hears joe"; "so ann it is
"""
VERBS = """\
00000010 05 v 01 knows 0 000 | to know; "ann knows bob"; "eve knows"; "he knew joe"
00000030 05 v 01 knows 0 000 | to hear of; "kim knows kim"
00000040 05 v 01 smiled 0 000 | to smile; "joe smiled"; "bob smiled at joe"
00000050 05 v 02 hears 0 smiled 0 000 | to hear; "joe smiled"; "bob hears"
"""
SENSES = {
    ("ann", "a"): ["ann knows bob", "then ann smiled"],
    ("ann", "b"): ["bob hears ann, and Ann hears joe", "so ann it is"],
    ("knows", "a"): ["ann knows bob", "eve knows"],
    ("knows", "b"): ["kim knows kim"],
    ("smiled", "a"): ["joe smiled", "bob smiled at joe"],
    ("smiled", "b"): ["joe smiled"],
}
"""The examples of these in which a word occurs that has several of a synset, and several synsets;
"hears" has one."""
PHRASES = ["Ann knows", "kim smiled", "joe joe", "ann-kim smiled"]
"""The last word of the last one is none; a word comes twice."""


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nltk_data")
    root = folder / "corpora" / "wordnet"
    root.mkdir(parents=True)
    for name, text in {"noun": NOUNS, "verb": VERBS, "adj": "", "adv": ""}.items():
        (root / f"data.{name}").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def found(runs: Path, wordnet: Path) -> ic.cat.Codes:
    return ic.cat.codes(
        runs, least=1, n_words=3, k=2, wordnet=wordnet, phrases=PHRASES, progress=False
    )


@pytest.fixture(autouse=True)
def no_wordnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the machine's own."""
    monkeypatch.setattr(nltk.data, "path", [])


def encoders(runs: Path) -> Iterator[tuple[str, int, Any, Any]]:
    for folder in sorted((runs / "runs").iterdir()):
        about = pd.read_json(folder / "run.json", typ="series")["run"]
        if about["model"] in WITH_CODES:
            model = ic.load_model(folder / "model", device="cpu")
            yield about["model"], about["seed"], model, kept(runs, about["data"])


def codes_of(
    model: Any, ids: list[int]
) -> Iterator[tuple[int, list[torch.Tensor], list[torch.Tensor]]]:
    """The layers with codes, and of each position the mean h_cont of its word, and O of it, by
    eq. 2."""
    with torch.no_grad():
        rows = model.lens.double()(torch.tensor([ids]))
    goes_on = model.lens.continues
    for layer, block in enumerate(rows):
        if block.weights is None:
            continue
        own = model.lens.blocks[layer].composition
        vectors: list[torch.Tensor] = []
        whole: list[torch.Tensor] = []
        for i, token in enumerate(ids):
            if goes_on[token]:
                vectors.append(vectors[-1])
                whole.append(whole[-1])
                continue
            end = next((j for j in range(i + 1, len(ids)) if not goes_on[ids[j]]), len(ids))
            whole.append(block.cont[0, i:end].mean(dim=0))
            query = whole[-1] @ own.W_Q
            keys = own.codebook @ own.W_K
            cosine = (keys @ query) / (keys.norm(dim=1) * query.norm())
            weights = cosine.clamp(min=0)
            square = (weights**2).mean()
            vectors.append((weights / square.sqrt() if square > 0 else weights).detach())
        yield layer, whole, vectors


def by_hand(model: Any, data: Any) -> dict[tuple[int, str], list[np.ndarray]]:
    """O of every occurrence of each word in the held-out passages, by layer and word."""
    passages = Passages.of(data.held_out, TINY.n_ctx)
    tokenizer = data.tokenizer
    occurrences: dict[tuple[int, str], list[np.ndarray]] = defaultdict(list)
    for low, high in passages.bounds.tolist():
        tokens = data.held_out.tokens[data.held_out.starts[low] : data.held_out.starts[high]]
        ids = [tokenizer.cls_token_id, *tokens.tolist(), tokenizer.sep_token_id]
        assert len(ids) <= TINY.n_ctx
        names = tokenizer.convert_ids_to_tokens(ids)
        for layer, _, vectors in codes_of(model, ids):
            for i, name in enumerate(names[1:-1], start=1):
                if name.startswith("##"):
                    continue
                rest = "".join(takewhile_continuing(names[i + 1 :]))
                occurrences[layer, name + rest].append(vectors[i].numpy())
    return occurrences


@pytest.fixture(scope="module")
def occurrences(runs: Path) -> dict[tuple[str, int], dict[tuple[int, str], list[np.ndarray]]]:
    """:func:`by_hand` of each run."""
    return {(model, seed): by_hand(one, data) for model, seed, one, data in encoders(runs)}


def takewhile_continuing(names: list[str]) -> Iterator[str]:
    for name in names:
        if not name.startswith("##"):
            return
        yield name[2:]


def test_the_heaviest_words_of_each_code(occurrences: Any, found: ic.cat.Codes) -> None:
    n_layers = set()
    for (model, seed), by_word in occurrences.items():
        means = {place: (np.mean(own, axis=0), len(own)) for place, own in by_word.items()}
        layers = sorted({layer for layer, _ in means})
        n_layers.add(len(layers))
        rows = found.words.query(f"model == '{model}' and seed == {seed}")
        expected = []
        for layer in layers:
            own = {word: value for (at, word), value in means.items() if at == layer}
            for code in range(len(next(iter(own.values()))[0])):
                heaviest = sorted(own, key=lambda word: -own[word][0][code])[:3]
                for rank, word in enumerate(heaviest, start=1):
                    weight, n = own[word][0][code], own[word][1]
                    if weight > 0:
                        expected.append((layer, code, rank, weight, n))
        assert len(expected) > 5
        columns = ["layer", "code", "rank", "weight"]
        np.testing.assert_allclose(
            rows[columns].to_numpy(), [row[:4] for row in expected], atol=1e-4
        )
        for row in rows.to_dict("records"):  # words of equal weights may come in another order
            mean, n = means[row["layer"], row["word"]]
            assert mean[row["code"]] == pytest.approx(row["weight"], abs=1e-4)
            assert row["n"] == n
            is_sememe = row["layer"] == layers[-1]
            assert row["sememe"] == (SEMEMES.names[row["code"]] if is_sememe else "")
    assert n_layers == {1, 2}


def test_sememes_that_the_last_blocks_codes_name(occurrences: Any, found: ic.cat.Codes) -> None:
    rows = found.frames["sememes"].set_index(["model", "seed", "source", "word"])
    rows = rows.sort_index()
    assert list(dict.fromkeys(found.frames["sememes"]["model"])) == WITH_CODES
    for (model, seed), by_word in occurrences.items():
        last = max(layer for layer, _ in by_word)
        words = {word for layer, word in by_word if layer == last} & set(SEMEMES.words)
        assert set(rows.loc[model, seed, "codes"].index) == words
        for word in words:
            mean = np.mean(by_word[last, word], axis=0)
            ranked = [code for code in np.argsort(-mean, kind="stable") if mean[code] > 0]
            own = set(SEMEMES.words[word])
            row = rows.loc[(model, seed, "codes", word)]
            assert row["side"] == ("held_out" if share_of(word) < 0.3 else "guiding")
            assert row["n_sememes"] == len(own)
            assert row["n"] == len(by_word[last, word])
            hits = len(own & set(ranked[: len(own)]))
            assert row["r_precision"] == pytest.approx(hits / len(own))
            assert row["precision"] == pytest.approx(len(own & set(ranked[:2])) / 2)
            assert row["recall"] == pytest.approx(len(own & set(ranked[:2])) / len(own))


def test_scores_and_baselines_by_hand() -> None:
    codes = torch.tensor(
        [[0.0, 3, 2, 1], [5, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.float64
    )
    sides: Any = {"guiding": {0: (1, 3), 1: (0, 1), 2: (1,)}, "held_out": {3: (2,)}}
    rows = pd.DataFrame(sememe_rows(codes, sides, k=3)).set_index(["source", "place"])
    rows = rows.sort_index()
    columns = ["r_precision", "precision", "recall"]
    expected = {
        ("codes", 0): [1 / 2, 2 / 3, 1],
        ("codes", 1): [1 / 2, 1 / 3, 1 / 2],  # one code is all that it has
        ("codes", 2): [0, 1 / 3, 1],  # of equal weights the first come first
        ("codes", 3): [0, 0, 0],
        # sememe 1 is that of three words, 0 and 3 of one each
        ("commonest", 0): [1 / 2, 2 / 3, 1],
        ("commonest", 1): [1, 2 / 3, 1],
        ("commonest", 2): [1, 1 / 3, 1],
        ("commonest", 3): [0, 0, 0],
        ("permuted", 3): [0, 0, 0],  # one word alone
    }
    for place, values in expected.items():
        assert rows.loc[place, columns].tolist() == pytest.approx(values), place
    # over all permutations word 0 (codes 1, 2, 3) would have the mean of its scores with (1, 3),
    # (0, 1) and (1,)
    assert rows.loc[("permuted", 0), "r_precision"] == pytest.approx((0.5 + 0.5 + 1) / 3, abs=0.12)
    assert 0 < rows.loc[("permuted", 2), "r_precision"] < 1


# ---- cosines --------------------------------------------------------------------------------


def read_alone(model: Any, data: Any, text: str, word: str, nth: int = 0) -> dict[Any, np.ndarray]:
    """O and h_cont of the nth occurrence of a word in a text, by layer and vector."""
    tokenizer = data.tokenizer
    (pieces,), (ids,) = tokenizer.pieces([word]), tokenizer.pieces([text])
    starts = [i for i in range(len(ids)) if ids[i : i + len(pieces)] == pieces]
    at = 1 + starts[nth]
    found = {}
    for layer, whole, vectors in codes_of(
        model, [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
    ):
        found[layer, "codes"], found[layer, "cont"] = vectors[at].numpy(), whole[at].numpy()
    return found


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    lengths = np.linalg.norm(x) * np.linalg.norm(y)
    return float(x @ y / lengths) if lengths else 0.0


def area(same: list[float], other: list[float]) -> float:
    """Cosines that differ by 1e-6 at most are alike."""
    won = [1.0 if a - b > 1e-6 else 0.5 if b - a <= 1e-6 else 0.0 for a in same for b in other]
    return float(np.mean(won))


def check(rows: pd.DataFrame, place: Any, same: Any, other: Any) -> None:
    """A row of consistency, of cosines by word and by (layer, vector)."""
    for layer, vector in place:
        row = rows.loc[layer, vector]
        own, others = same[layer, vector], other[layer, vector]
        assert row["n"] == len(own)
        assert row["same"] == pytest.approx(np.mean([np.mean(one) for one in own]), abs=1e-5)
        assert row["other"] == pytest.approx(np.mean([np.mean(one) for one in others]), abs=1e-5)
        areas = np.array([area(a, b) for a, b in zip(own, others, strict=True)])
        assert row["auc"] == pytest.approx(areas.mean())
        assert row["low"] <= row["auc"] <= row["high"]
        of_cont = zip(same[layer, "cont"], other[layer, "cont"], strict=True)
        apart = areas - np.array([area(a, b) for a, b in of_cont])
        assert row["over_cont"] == pytest.approx(apart.mean())
        assert row["over_low"] <= row["over_cont"] <= row["over_high"]


def test_senses_are_told_apart_as_their_examples_say(runs: Path, found: ic.cat.Codes) -> None:
    rows = found.consistency.query("question == 'senses'")
    for model, seed, encoder, data in encoders(runs):
        same: Any = defaultdict(list)
        other: Any = defaultdict(list)
        for word in ("ann", "knows", "smiled"):
            examples = {
                (synset, text): read_alone(encoder, data, text.lower(), word)
                for (of, synset), texts in SENSES.items()
                for text in texts
                if of == word
            }
            for place in next(iter(examples.values())):
                kinds: dict[bool, list[float]] = {True: [], False: []}
                for one, two in combinations(examples, 2):
                    if one[1] != two[1]:
                        value = cosine(examples[one][place], examples[two][place])
                        kinds[one[0] == two[0]].append(value)
                same[place].append(kinds[True])
                other[place].append(kinds[False])
        own = rows.query(f"model == '{model}' and seed == {seed}").set_index(["layer", "vector"])
        assert set(own.index) == set(same)
        check(own, same, same, other)


def test_a_word_again_is_compared_with_other_words(runs: Path, found: ic.cat.Codes) -> None:
    rows = found.consistency.query("question == 'words'")
    for model, seed, encoder, data in encoders(runs):
        passages = Passages.of(data.held_out, TINY.n_ctx)
        texts = [passages.whole(i).tolist() for i in range(len(passages))]
        words = WordPlaces.of(texts, data.tokenizer, TINY.n_ctx)
        pairs = in_passages(words, np.arange(len(words.spellings)))
        row, spelling = words.row, words.spelling
        several = {one for one in set(spelling) if len(set(row[spelling == one])) > 1}
        same: Any = defaultdict(list)
        other: Any = defaultdict(list)
        seen = []
        read = [list(codes_of(encoder, list(text))) for text in words.texts]

        def of(index: int, words: Any = words, read: Any = read, data: Any = data) -> Any:
            ids = words.texts[words.row[index]]
            names = data.tokenizer.convert_ids_to_tokens(list(ids))
            starts = [i for i, name in enumerate(names) if not name.startswith("##")]
            at = starts[words.number[index]]
            length = len(words.spellings[words.spelling[index]])
            assert tuple(ids[at : at + length]) == words.spellings[words.spelling[index]]
            for layer, whole, vectors in read[words.row[index]]:
                yield (layer, "codes"), vectors[at].numpy()
                yield (layer, "cont"), whole[at].numpy()

        for ((first, second),), ((again, third),) in zip(pairs.same, pairs.other, strict=True):
            assert first == again
            assert spelling[first] == spelling[second] != spelling[third]
            assert row[first] not in (row[second], row[third])
            seen.append(spelling[first])
            for (place, x), (_, y), (_, z) in zip(of(first), of(second), of(third), strict=True):
                same[place].append([cosine(x, y)])
                other[place].append([cosine(x, z)])
        assert sorted(seen) == sorted(several)
        own = rows.query(f"model == '{model}' and seed == {seed}").set_index(["layer", "vector"])
        check(own, same, same, other)


def test_words_of_a_phrase_beside_the_words_alone(runs: Path, found: ic.cat.Codes) -> None:
    place = ["model", "seed", "phrase", "position", "layer"]
    rows = found.phrases.set_index(place).sort_index()
    assert set(found.phrases["phrase"]) == {"ann knows", "kim smiled", "joe joe"}
    for model, seed, encoder, data in encoders(runs):
        for phrase in ("ann knows", "kim smiled", "joe joe"):
            parts = phrase.split()
            for i, word in enumerate(parts):
                inside = read_alone(encoder, data, phrase, word, i if phrase == "joe joe" else 0)
                for prefix, alone in (("", word), ("other_", parts[1 - i])):
                    single = read_alone(encoder, data, alone, alone)
                    for layer in {layer for layer, _ in inside}:
                        row = rows.loc[(model, seed, phrase, i + 1, layer)]
                        x, y = inside[layer, "codes"], single[layer, "codes"]
                        assert row["word"] == word
                        assert row[f"{prefix}cosine"] == pytest.approx(cosine(x, y), abs=1e-5)
                        one, two = set(np.flatnonzero(x)), set(np.flatnonzero(y))
                        jaccard = len(one & two) / max(1, len(one | two))
                        assert row[f"{prefix}jaccard"] == pytest.approx(jaccard)
                        x, y = inside[layer, "cont"], single[layer, "cont"]
                        assert row[f"{prefix}cont"] == pytest.approx(cosine(x, y), abs=1e-5)
    over = found.inside_phrases.query("model == 'cat' and layer == 1 and measure == 'jaccard'")
    values = found.phrases.query("model == 'cat' and layer == 1")
    for alone, column in (("itself", "jaccard"), ("other", "other_jaccard")):
        row = over[over["alone"] == alone].iloc[0]
        seeds = values.groupby("seed")[column].mean()
        assert row["mean"] == pytest.approx(seeds.mean())
        assert [row["smallest"], row["largest"]] == pytest.approx([seeds.min(), seeds.max()])
        assert [row["n"], row["n_seeds"]] == [6, 2]


def test_vectors_come_in_the_order_in_which_words_are_chosen(runs: Path) -> None:
    *_, encoder, data = next(encoders(runs))
    texts = data.tokenizer.pieces(["ann knows bob", "joe", "kim smiled"])
    words = WordPlaces.of(texts, data.tokenizer, 18)
    assert words.named(data.tokenizer) == ["ann", "knows", "bob", "joe", "kim", "smiled"]
    chosen = np.array([5, 0, 3])
    for layer, vectors in vectors_of(encoder, words, chosen).items():
        for place, index in enumerate(chosen):
            alone = vectors_of(encoder, words, np.array([index]))[layer]
            for one, other in zip(vectors, alone, strict=True):
                torch.testing.assert_close(one[place], other[0], rtol=1e-4, atol=1e-5)


def test_texts_that_are_too_long_lose_their_last_word(runs: Path) -> None:
    *_, data = next(encoders(runs))
    (text,) = data.tokenizer.pieces(["ann knows bob then kim"])
    words = WordPlaces.of([text], data.tokenizer, len(text) + 2)
    assert words.named(data.tokenizer) == ["ann", "knows", "bob", "then"]
    assert WordPlaces.of([text], data.tokenizer, len(text) + 3).named(data.tokenizer)[-1] == "kim"
    unknown = WordPlaces.of(data.tokenizer.pieces(["ann \u4e00 bob"]), data.tokenizer, 18)
    assert unknown.named(data.tokenizer) == ["ann", "bob"]
    assert unknown.number.tolist() == [1, 3]


# ---- other commands on these models ---------------------------------------------------------


def test_agreement_with_people_is_read_at_the_output_that_is_asked_for(
    runs: Path, tmp_path: Path
) -> None:
    """With words pooled at a block (CAP), too."""
    folder = next(
        one
        for one in sorted((runs / "runs").iterdir())
        if '"cat"' in (one / "run.json").read_text(encoding="utf-8")
    )
    rows: Any = [
        {"text1": "ann knows", "text2": "knows ann", "score": 0.2},
        {"text1": "kim smiled", "text2": "joe hears", "score": 0.5},
        {"text1": "bob", "text2": "then bob smiled", "score": 0.9},
        {"text1": "so joe", "text2": "joe knows eve", "score": 0.4},
    ]
    own: Any = ic.load_model(folder / "model", device="cpu")
    asked: Any = {"unit": "word", "pooling": ["mean"], "controls": False, "layers": [1]}
    curves = {}
    with few_samples():
        for output in ("cont", "comp", "mix"):
            model = own.with_output(output)
            curves[output] = ic.similarity_curve(model, rows, progress=False, **asked)
            expected = [
                cosine(*(ic.embed_texts(model, [row[of]])[0].double().numpy() for of in TEXTS))
                for row in rows
            ]
            assert curves[output].clean["cosine"].tolist() == pytest.approx(expected, abs=1e-5)
        for one, other in combinations(curves.values(), 2):
            assert not np.allclose(one.outcomes["cosine"], other.outcomes["cosine"])
        lines = ["text1\ttext2\tscore", *("\t".join(map(str, row.values())) for row in rows)]
        (tmp_path / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
        options = "--output comp --unit word --pooling mean --no-controls --layers 1 -q"
        places = ["--model", folder / "model", "--task", tmp_path / "pairs.tsv", "--out", tmp_path]
        cli.main(["similarity", *map(str, places), *options.split()])
    shown = ic.SimilarityCurve.load(tmp_path)
    assert str(shown.config["model"]).endswith("(comp)")
    pd.testing.assert_frame_equal(shown.outcomes, curves["comp"].outcomes)


def test_a_folder_of_bird_or_a_file_gives_phrases(tmp_path: Path) -> None:
    head = "term1\tterm2\tterm2: unigram or bigram\trelatedness score"
    lines = ["water body\tbody water\tbigram\t0.4", "water body\triver\tunigram\t0.8"]
    (tmp_path / "BiRD.txt").write_text("\n".join([head, *lines]), encoding="utf-8")
    assert phrases_of(tmp_path) == ["water body", "body water"]
    (tmp_path / "mine.txt").write_text("ann knows\n\nkim smiled\n", encoding="utf-8")
    assert phrases_of(tmp_path / "mine.txt") == ["ann knows", "kim smiled"]


# ---- the result -----------------------------------------------------------------------------


def test_intervals_over_seeds_and_words(found: ic.cat.Codes) -> None:
    values = found.frames["sememes"]
    for row in found.frame.to_dict("records"):
        own = values.query(
            f"model == '{row['model']}' and source == '{row['source']}' and side == '{row['side']}'"
        )
        seeds = own.groupby("seed")[row["measure"]].mean()
        assert row["mean"] == pytest.approx(seeds.mean())
        assert [row["smallest"], row["largest"]] == pytest.approx([seeds.min(), seeds.max()])
        assert [row["n"], row["n_seeds"]] == [own["word"].nunique(), 2]
        assert 0 <= row["words_low"] <= row["words_high"] <= 1
    assert len(found.frame) == 2 * 3 * 2 * 3
    for row in found.differences.to_dict("records"):
        own = values.query(f"model == '{row['model']}' and side == '{row['side']}'")
        means = own.groupby("source")[row["measure"]].mean()
        assert row["difference"] == pytest.approx(means["codes"] - means[row["other"]])
        assert row["words_low"] <= row["difference"] <= row["words_high"]


def test_a_result_is_kept_and_shown(found: ic.cat.Codes, tmp_path: Path) -> None:
    again = ic.cat.Codes.load(found.save(tmp_path / "kept"))
    pd.testing.assert_frame_equal(again.words, found.words)
    built = ic.cat.Codes.from_rows(
        {table.name: found.frames[table.name] for table in ic.cat.Codes.SCHEMA}, found.config
    )
    pd.testing.assert_frame_equal(built.frame, found.frame)
    assert set(found.figures()) == set(ic.cat.Codes.FIGURES)
    figure: Any = found.figures()["codes_consistency"].chart
    assert [panel.title for panel in figure.panels] == WITH_CODES
    rows = found.consistency.query(
        "model == 'cat' and question == 'words' and vector == 'cont' and layer == 1"
    )
    line = next(one for one in figure.panels[0].lines if one.label == "contextual, other word")
    assert [line.y[1], line.low[1], line.high[1]] == pytest.approx(
        [rows["other"].mean(), rows["other"].min(), rows["other"].max()]
    )
    chart: Any = found.figures()["codes_sememes"].chart
    assert [panel.title for panel in chart.panels] == [
        "words that guided training",
        "words held out",
    ]
    assert [line.label for line in chart.panels[0].lines] == [
        "codes", "commonest sememes (control)", "permuted words (control)"
    ]  # fmt: skip
    assert (
        "cat: every block composes · cat-last: the last block composes · -fixed: random"
        in chart.subtitle
    )
    assert chart.panels[1].lines[0].y == pytest.approx(
        found.frame.query("side == 'held_out' and source == 'codes' and measure == 'r_precision'")[
            "mean"
        ].tolist()
    )
    codes, *baselines = chart.panels[1].lines
    assert codes.low == codes.high == codes.y
    rows = found.differences.query("side == 'held_out' and measure == 'r_precision'")
    for line, other in zip(baselines, ("commonest", "permuted"), strict=True):
        change = rows[rows["other"] == other]
        expected = np.array(codes.y) - change["words_high"].to_numpy()
        assert line.low == pytest.approx(expected.clip(0).tolist())
    assert "bars: 95 % intervals of the difference to codes, paired by word" in chart.subtitle
    shown = found.summary()
    assert "cat-last-fixed" in shown
    assert "of a word in two examples of one sense" in shown
    assert "codes of a word in a phrase" in shown


def test_without_wordnet_and_phrases(runs: Path) -> None:
    plain = ic.cat.codes(runs, models=["cat"], least=1, n_passages=1, progress=False)
    assert plain.phrases.empty
    assert plain.inside_phrases.empty
    assert plain.consistency.empty  # one passage alone
    assert set(plain.figures()) == {"codes_sememes"}
    assert "no word occurs in two passages" in plain.summary()
    some = ic.cat.codes(runs, models=["cat"], least=1, progress=False)
    assert set(some.consistency["question"]) == {"words"}
    assert "NLTK finds no WordNet" in some.summary()


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"models": ["cat", "lrf"]}, OptionError, "expected one or more of bert, cat"),
        ({"models": ["bert"]}, OptionError, "the model 'bert' has no codes"),
        ({"models": ["cat-mlp", "cat"]}, OptionError, "the model 'cat-mlp' has no codes"),
        ({"k": 0}, OptionError, "k=0"),
        ({"least": 10_000}, InputError, "none of 8 annotated words occurs often enough"),
        ({"phrases": ["ann knows bob"]}, InputError, "'ann knows bob' has 3 words: expected two"),
        ({"phrases": ["an-n bob", "\u4e00 bob"]}, InputError, "none of 2 phrases has two words"),
        ({"phrases": []}, InputError, "none of 0 phrases"),
        ({"wordnet": "nosuch"}, MissingDataError, "WordNet is not in nosuch"),
    ],
)
def test_what_cannot_be_is_refused(
    runs: Path, asked: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        ic.cat.codes(runs, **{"progress": False, **asked})


def test_a_folder_without_codes_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    short = replace(TINY, max_steps=1)
    study(text, tmp_path / "out", ("bert",), seeds=1, run=short, sememes=None)
    with pytest.raises(InputError, match="no model in .* has codes; train one that has"):
        ic.cat.codes(tmp_path / "out", progress=False)


CODES_DECIDED = {
    "above one, below the other": (
        [(0.3, 0.2, 0.4), (-0.2, -0.3, -0.1)],
        "is below that of its baseline for cat (permuted), by 0.20 [0.10, 0.30] (95 %); it is "
        "above it for cat (commonest), by 0.30 [0.20, 0.40] (95 %).",
    ),
    "at the margin": (
        [(0.0, -0.05, 0.05), (0.01, -0.02, 0.04)],
        "is nowhere further than 0.05 from that of its baseline: most for cat (commonest), where "
        "it is between 0.05 less and 0.05 more than that of its baseline (95 %).",
    ),
    "across the margin": (
        [(0.3, 0.2, 0.4), (0.02, -0.03, 0.07)],
        "is above that of its baseline for cat (commonest), by 0.30 [0.20, 0.40] (95 %); it is "
        "open for cat (permuted): between 0.03 less and 0.07 more than that of its baseline "
        "(95 %); about 300 words would decide it, were it as measured.",
    ),
}


@pytest.mark.parametrize("case", CODES_DECIDED)
def test_codes_in_a_sentence(case: str) -> None:
    numbers, sentence = CODES_DECIDED[case]
    assert codes_answers(codes_differences(*numbers)) == [
        f"The R-precision of codes on held-out words {sentence}"
    ]


def test_codes_without_a_spread_over_words_say_so() -> None:
    for numbers in ([(0.3, 0.3, 0.3), (0.2, 0.1, 0.3)], [(0.0, 0.0, 0.0)]):
        assert codes_answers(codes_differences(*numbers)) == [
            "Whether the R-precision of codes on held-out words differs from that of its baseline "
            "is not known: there is no interval of 100 words."
        ]


def codes_differences(*numbers: tuple[float, float, float]) -> pd.DataFrame:
    """Of the baselines, after rows of words that guided, which are not said."""
    others = ("commonest", "permuted")
    rows = [("cat", "guiding", "r_precision", "commonest", 0.9, 0.8, 1.0, 100, 3)]
    rows += [
        ("cat", "held_out", "r_precision", other, *three, 100, 3)
        for other, three in zip(others, numbers, strict=False)
    ]
    rows += [("cat", "held_out", "recall", "commonest", 0.9, 0.8, 1.0, 100, 3)]
    columns = ["model", "side", "measure", "other", "difference", "words_low", "words_high"]
    return pd.DataFrame(rows, columns=[*columns, "n", "n_seeds"])
