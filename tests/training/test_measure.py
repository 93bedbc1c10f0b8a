"""What is measured between steps, against loops in the open on one example at a time."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch

from interp_compose.training import evaluate as measure
from interp_compose.training.data import TrainingExample
from interp_compose.training.evaluate import evaluate, representations
from interp_compose.training.processes import Processes
from tests.training.runs import hugging_face, made_up, shared

ITEMS = made_up(17, seed=4)


def test_evaluate_against_one_text_at_a_time() -> None:
    plain = hugging_face()
    right, losses = 0, []
    with torch.no_grad():
        for item in ITEMS:
            logits = plain(torch.tensor(item.ids)[None]).logits[0, -1].double()
            right += int(logits.argmax()) == item.answer
            losses.append(-float(torch.log_softmax(logits, 0)[item.answer]))
    found = evaluate(shared(), ITEMS, Processes(torch.device("cpu")))
    assert found == {"accuracy": right / 17, "loss": pytest.approx(np.mean(losses)), "n": 17}


def reference(items: list[TrainingExample]) -> list[tuple[float, float, float]]:
    plain = hugging_face()
    cosines: dict[tuple[int, bool], list[float]] = defaultdict(list)
    vectors: dict[int, list[np.ndarray]] = defaultdict(list)
    with torch.no_grad():
        for item in items:
            states = plain(torch.tensor(item.ids)[None], output_hidden_states=True).hidden_states
            for layer in range(3):
                h = states[layer][0].double().numpy()
                for i in range(len(item.words)):
                    if item.words[i] < 0:
                        continue
                    vectors[layer].append(h[i])
                    for j in range(len(item.words)):
                        if j != i and item.words[j] >= 0:
                            cosine = h[i] @ h[j] / np.linalg.norm(h[i]) / np.linalg.norm(h[j])
                            cosines[layer, bool(item.words[i] == item.words[j])].append(cosine)
    ranks = []
    for layer in range(3):
        values = np.linalg.svd(np.array(vectors[layer]), compute_uv=False)
        ranks.append(float((values**2).sum() / values[0] ** 2))
    return [
        (float(np.mean(cosines[layer, True])), float(np.mean(cosines[layer, False])), ranks[layer])
        for layer in range(3)
    ]


def test_representations_against_open_loops() -> None:
    rows = representations(shared(), ITEMS)
    assert [row["layer"] for row in rows] == [0, 1, 2]
    found = [
        (row["same_word_cosine"], row["different_word_cosine"], row["stable_rank"]) for row in rows
    ]
    np.testing.assert_allclose(found, reference(ITEMS), rtol=2e-4, atol=1e-6)


def test_neither_depends_on_the_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    model, alone = shared(), Processes(torch.device("cpu"))
    together, scores = representations(model, ITEMS), evaluate(model, ITEMS, alone)
    monkeypatch.setattr(measure, "EVALUATION_BATCH", 4)
    for row, other in zip(together, representations(model, ITEMS), strict=True):
        assert row == pytest.approx(other, rel=1e-4)
    assert scores == pytest.approx(evaluate(model, ITEMS, alone), rel=1e-5)


def test_only_the_first_prompts_are_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = shared()
    five, six = representations(model, ITEMS[:5]), representations(model, ITEMS[:6])
    monkeypatch.setattr(measure, "PROBED", 5)
    assert representations(model, ITEMS) == five != six


def test_texts_without_pairs_have_no_cosines() -> None:
    singles = [TrainingExample(np.array([0, 3, 4]), np.array([-1, 0, 1]), 1)]
    one_word = [TrainingExample(np.array([0, 3, 4]), np.array([-1, 0, 0]), 1)]
    assert {row["same_word_cosine"] for row in representations(shared(), singles)} == {None}
    assert None not in {row["different_word_cosine"] for row in representations(shared(), singles)}
    assert {row["different_word_cosine"] for row in representations(shared(), one_word)} == {None}


def test_a_world_of_one_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in ("1", ""):
        monkeypatch.setenv("WORLD_SIZE", size)
        alone = Processes(torch.device("cpu"))
        assert (alone.count, alone.index, alone.is_main) == (1, 0, True)
        x = torch.ones(2)
        alone.sum_([x])
        alone.wait()
        assert x.tolist() == [1, 1]
