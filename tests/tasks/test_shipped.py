"""The shipped models keep what their README says, and the script that makes them runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from interp_compose.errors import OptionError
from interp_compose.runs.files import file_sha256
from interp_compose.shipped import SHIPPED, build, corpus, shipped_folder, training
from interp_compose.tasks.mini.idm import definitions, splits
from interp_compose.tasks.mini.sst import sentences
from interp_compose.tasks.mini.world import thesaurus
from interp_compose.tasks.sst import LABELS, parse_tree

PROMPT = '{} is called a "'


@pytest.fixture(scope="module", autouse=True)
def no_bars() -> Iterator[None]:
    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(shipped_folder("mini-idm"))


def load(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def sizes(tokenizer: Any, words: list[str]) -> np.ndarray:
    """Tokens of each word as it stands inside a text."""
    encoded = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    return np.array([len(ids) for ids in encoded])


def test_names_and_folders() -> None:
    assert list(SHIPPED) == ["mini-base", "mini-idm"]
    assert shipped_folder("mini-idm").name == "mini-idm"
    with pytest.raises(OptionError, match="no model 'mini' is shipped; choose one of mini-base, m"):
        shipped_folder("mini")


def test_folders_are_small_and_their_checksums_hold() -> None:
    total = 0
    for folder in SHIPPED.values():
        lines = (folder / "SHA256SUMS").read_text().splitlines()
        listed = dict(line.split("  ")[::-1] for line in lines)
        assert set(listed) == {file.name for file in folder.iterdir()} - {"SHA256SUMS"}
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(listed)
        assert {name: file_sha256(folder / name) for name in listed} == listed
        total += sum(file.stat().st_size for file in folder.iterdir())
    assert total <= 8_000_000


def test_both_models_have_one_tokenizer() -> None:
    one, two = (folder / "tokenizer.json" for folder in SHIPPED.values())
    assert one.read_bytes() == two.read_bytes()


def test_most_words_are_several_tokens(tokenizer: Any) -> None:
    kinds = sizes(tokenizer, [word for one in thesaurus().values() for word in one.seen])
    assert (kinds > 1).mean() > 0.9
    assert ((kinds == 2) | (kinds == 3)).mean() > 0.5
    assert 2.2 < kinds.mean() < 3.6
    running = sizes(tokenizer, [word for one in definitions() for word in one.text.split()])
    assert (running > 1).mean() > 0.5  # words of grammar and all
    assert running.mean() > 1.7
    film = [
        word for rows in sentences().values() for one in rows for word in parse_tree(one.tree)[1]
    ]
    assert (sizes(tokenizer, film) > 1).mean() > 0.3


def test_answers_are_one_token_after_the_prompt_and_bos_comes_first(tokenizer: Any) -> None:
    for answer in {one.answer for one in definitions()} | set(LABELS):
        before = tokenizer('a cat is called a "')["input_ids"]
        after = tokenizer('a cat is called a "' + answer)["input_ids"]
        assert after[:-1] == before
        assert before[0] == tokenizer.bos_token_id == 0
    assert tokenizer.is_fast


def test_the_tokenizer_gives_any_text_back(tokenizer: Any) -> None:
    for text in ("a young cat", "naïve 🐈‍⬛\n  cat's", "\x00", "Ġ <pad>"):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == text


def accuracy_of(folder: Path, tokenizer: Any, chosen: list[Any]) -> float:
    """One prompt at a time, over the whole vocabulary."""
    model, right = load(folder), 0
    for one in chosen:
        ids = torch.tensor([tokenizer(PROMPT.format(one.text))["input_ids"]])
        with torch.no_grad():
            best = int(model(ids).logits[0, -1].argmax())
        right += tokenizer.convert_ids_to_tokens(best) == one.answer
    return right / len(chosen)


def test_accuracies_on_the_held_out_test(tokenizer: Any) -> None:
    chosen = list(splits()["test"])[::3]
    assert accuracy_of(shipped_folder("mini-idm"), tokenizer, chosen) >= 0.80
    assert 0.2 <= accuracy_of(shipped_folder("mini-base"), tokenizer, chosen) <= 0.6


def test_pooling_the_embeddings_hurts_most(tokenizer: Any) -> None:
    """The paper's drop at layer 0, by hand: the mean of a word's vectors takes their place."""
    model = load(shipped_folder("mini-idm"))
    chosen = list(splits()["test"])[::8]
    right = np.zeros(4)
    for one in chosen:
        prompt = PROMPT.format(one.text)
        out = tokenizer(prompt, return_offsets_mapping=True)
        starts = [low == 0 or prompt[low] == " " for low, _ in out["offset_mapping"][1:]]
        words = np.cumsum([0, *starts])  # BOS is 0
        right += [
            tokenizer.convert_ids_to_tokens(best) == one.answer
            for best in pooled_predictions(model, out["input_ids"], words)
        ]
    curve = right / len(chosen)
    assert curve[0] < 0.6
    assert curve[0] < curve[1] - 0.15
    assert curve[3] > 0.9
    assert (np.diff(curve) > -0.02).all()


@torch.no_grad()
def pooled_predictions(model: Any, ids: list[int], words: np.ndarray) -> list[int]:
    """The first choice after pooling at each layer."""
    states = model.transformer(torch.tensor([ids]), output_hidden_states=True).hidden_states
    best = []
    for layer in range(len(model.transformer.h)):
        resid = torch.stack([states[layer][0, words == word].mean(0) for word in np.unique(words)])
        resid = resid[None]
        for block in model.transformer.h[layer:]:
            resid = block(resid)
        best.append(int(model.lm_head(model.transformer.ln_f(resid[0, -1])).argmax()))
    return best


def test_no_held_out_definition_is_in_the_text_that_mini_base_reads() -> None:
    content = {word for one in thesaurus().values() for word in one.seen}
    held = {one.words for part in ("validation", "test") for one in splits()[part]}
    lines = corpus.base_corpus(0, build.BuildConfig().called_share)
    quoted = [line for line in lines if '"' in line and "sentiment" not in line]
    assert len(quoted) > 10_000
    for line in quoted:
        definition = line.partition('"')[0] + line.rpartition('"')[2]
        words = {word for word in definition.rstrip(".").split() if word in content}
        assert frozenset(words) not in held, line
    reviews = {line for line in lines if "sentiment" in line}
    for part in ("validation", "test"):
        for one in sentences()[part]:
            text = " ".join(parse_tree(one.tree)[1])
            assert not any(f" {text} is " in line for line in reviews)


def test_loss_and_batches_against_a_slow_reference() -> None:
    torch.manual_seed(0)
    config = build._architecture(build.BuildConfig(n_layers=1, d_model=8, n_heads=2), 11)
    model = build.GPT2LMHeadModel(config).double().eval()
    rows: list[training.Row] = [[0, 3, 4, 5], [0, 7, 9], [0, 1]]
    objective = training.NextTokenOfLines(rows)
    _, targets = batch = objective.collate(training.PooledOrder(rows, 1, 3, seed=5).at(0))
    assert objective.sizes(batch) == (6,)
    losses = []
    for ids in rows:
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0]
        for at in range(1, len(ids)):
            losses.append(float(cross_entropy(logits[at - 1], torch.tensor(ids[at]))))
    mean = sum(losses) / len(losses)
    assert float(objective.loss(model, batch, [1.0], 0)[0].detach()) == pytest.approx(mean)
    seen = [line[line != training.IGNORED].tolist() for line in targets]
    assert sorted(seen) == [[1], [3, 4, 5], [7, 9]]


def test_every_row_comes_once_before_any_comes_twice() -> None:
    rows: list[training.Row] = [[0] * (1 + i % 3) + [i] for i in range(1, 40)]
    epoch = -(-len(rows) // 2)
    order = training.PooledOrder(rows, 2 * epoch, 2, seed=3)
    lasts = [[rows[i][-1] for i in order.at(step)] for step in range(2 * epoch)]
    first, second = lasts[:epoch], lasts[epoch:]
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(1, 40))
    assert first != second


TINY = build.BuildConfig(
    n_layers=1, d_model=16, n_heads=2, batch_size=4, base_steps=3, idm_steps=3, called_share=0.01
)


def test_the_build_runs_end_to_end_and_follows_from_its_seed(tmp_path: Path) -> None:
    old = tmp_path / "a" / "mini-idm"
    old.mkdir(parents=True)
    (old / "stale").touch()
    for part in "ab":
        figures = build.build(tmp_path / part, TINY, quiet=True)
        assert set(figures) == {"mini-base", "mini-idm"}
        assert all(0 <= figure < 0.2 for figure in figures.values())
        names = sorted(path.name for path in (tmp_path / part).iterdir())
        assert names == ["mini-base", "mini-idm"]
    sums = [(tmp_path / part / "mini-idm" / "SHA256SUMS").read_text() for part in "ab"]
    assert sums[0] == sums[1]
    assert not (old / "stale").exists()
    tokenizer = AutoTokenizer.from_pretrained(old)
    assert load(old).config.vocab_size == len(tokenizer)


def test_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    config = build._architecture(build.BuildConfig(n_layers=1, d_model=16, n_heads=2), 5)
    model = build.GPT2LMHeadModel(config)
    rows: list[training.Row] = [[0, 1, 2], [0, 3, 4]]
    loss = training.train(
        model, rows, steps=150, batch_size=2, lr=1e-2, seed=0, label="x", quiet=True
    )
    assert loss < 0.5  # half of a coin: which row it is cannot be known
    assert not model.training
    assert training.accuracy(model, rows) == 1.0
    assert training.accuracy(model, [[0, 1, 4], [0, 3, 4]]) == 0.5


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        build.main([])
    assert "--out" in capsys.readouterr().err
    calls: list[Any] = []
    monkeypatch.setattr(build, "build", lambda *given: calls.append(given) or {"mini-idm": 0.5})
    build.main(["--out", str(tmp_path), "--seed", "3"])
    assert calls == [(tmp_path, build.BuildConfig(seed=3))]
    assert capsys.readouterr().out == '{"mini-idm": 0.5}\n'
