"""Codes of encoders opened up: means of words read one by one in float64, sememes counted by hand,
refusals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import interp_compose as ic
from interp_compose.errors import InputError, OptionError
from interp_compose.studies.codes.sememes import sememe_rows
from interp_compose.studies.pretrain.data import kept
from interp_compose.training.sentences import Passages
from tests.studies.test_pretrain import DOCUMENTS, SEMEMES, TINY, share_of, study

MODELS = ("bert", "cat", "cat-mlp", "cat-last-fixed")
WITH_CODES = ["cat", "cat-last-fixed"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    text = folder / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    study(text, folder / "out", MODELS, run=replace(TINY, max_steps=2, n_looks=1))
    return folder / "out"


@pytest.fixture(scope="module")
def found(runs: Path) -> ic.Codes:
    return ic.codes(runs, least=1, n_words=3, k=2, progress=False)


def encoders(runs: Path) -> Iterator[tuple[str, int, Any, Any]]:
    for folder in sorted((runs / "runs").iterdir()):
        about = pd.read_json(folder / "run.json", typ="series")["run"]
        if about["model"] in WITH_CODES:
            model = ic.load_model(folder / "model", device="cpu")
            yield about["model"], about["seed"], model, kept(runs, about["data"])


def codes_of(model: Any, ids: list[int]) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """The layers with codes, and O of each position, by eq. 2, of the mean h_cont of its word."""
    with torch.no_grad():
        rows = model.lens.double()(torch.tensor([ids]))
    goes_on = model.lens.continues
    for layer, block in enumerate(rows):
        if block.weights is None:
            continue
        own = model.lens.blocks[layer].composition
        vectors: list[torch.Tensor] = []
        for i, token in enumerate(ids):
            if goes_on[token]:
                vectors.append(vectors[-1])
                continue
            end = next((j for j in range(i + 1, len(ids)) if not goes_on[ids[j]]), len(ids))
            query = block.cont[0, i:end].mean(dim=0) @ own.W_Q
            keys = own.codebook @ own.W_K
            cosine = (keys @ query) / (keys.norm(dim=1) * query.norm())
            weights = cosine.clamp(min=0)
            square = (weights**2).mean()
            vectors.append((weights / square.sqrt() if square > 0 else weights).detach())
        yield layer, vectors


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
        for layer, vectors in codes_of(model, ids):
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


def test_the_heaviest_words_of_each_code(occurrences: Any, found: ic.Codes) -> None:
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


def test_sememes_that_the_last_blocks_codes_name(occurrences: Any, found: ic.Codes) -> None:
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


def test_intervals_over_seeds_and_words(found: ic.Codes) -> None:
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


def test_a_result_is_kept_and_shown(found: ic.Codes, tmp_path: Path) -> None:
    again = ic.Codes.load(found.save(tmp_path / "kept"))
    pd.testing.assert_frame_equal(again.words, found.words)
    built = ic.Codes.from_rows(
        {name: found.frames[name] for name in ("words", "sememes")}, found.config
    )
    pd.testing.assert_frame_equal(built.frame, found.frame)
    assert set(found.figures()) == set(ic.Codes.FIGURES)
    chart: Any = found.figures()["codes_sememes"].chart
    assert [panel.title for panel in chart.panels] == [
        "words that guided training",
        "words held out",
    ]
    assert [line.label for line in chart.panels[0].lines] == ["codes", "commonest", "permuted"]
    assert chart.panels[1].lines[0].y == pytest.approx(
        found.frame.query("side == 'held_out' and source == 'codes' and measure == 'r_precision'")[
            "mean"
        ].tolist()
    )
    assert "cat-last-fixed" in found.summary()


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"models": ["cat", "lrf"]}, OptionError, "expected one or more of bert, cat"),
        ({"models": ["bert"]}, OptionError, "the model 'bert' has no codes"),
        ({"models": ["cat-mlp", "cat"]}, OptionError, "the model 'cat-mlp' has no codes"),
        ({"k": 0}, OptionError, "k=0"),
        ({"least": 10_000}, InputError, "none of 8 annotated words occurs often enough"),
    ],
)
def test_what_cannot_be_is_refused(
    runs: Path, asked: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        ic.codes(runs, **{"progress": False, **asked})


def test_a_folder_without_codes_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    short = replace(TINY, max_steps=1)
    study(text, tmp_path / "out", ("bert",), seeds=1, run=short, sememes=None)
    with pytest.raises(InputError, match="no model in .* has codes; train one that has"):
        ic.codes(tmp_path / "out", progress=False)
