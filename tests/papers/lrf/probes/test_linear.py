"""Linear probes and reading back, against what they minimise, written out."""

from __future__ import annotations

import numpy as np
import pytest

from interp_compose.papers.lrf.probes.linear import (
    _fitted,
    labels_of_words,
    linear_probe,
    read_back,
    standardised,
)


def vectors(n: int, d: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)) * np.arange(1, d + 1) + 3.0


def test_the_probe_is_the_minimum_of_its_loss() -> None:
    """Fitted on standardised vectors; the slow one descends the written-out objective."""
    X, y = vectors(30, 3), np.arange(30) % 4
    test = vectors(40, 3, seed=1)
    Z, Z_test = ((each - X.mean(axis=0)) / X.std(axis=0) for each in (X, test))
    W, b = np.zeros((4, 3)), np.zeros(4)
    for _ in range(400):  # gradient descent on ½‖W‖² + Σ −log softmax(W z + b)[y]
        of_W, of_b = W.copy(), np.zeros(4)
        for z, label in zip(Z, y, strict=True):
            scores = np.exp(W @ z + b)
            error = scores / scores.sum() - np.eye(4)[label]
            of_W += np.outer(error, z)
            of_b += error
        W, b = W - 0.08 * of_W, b - 0.08 * of_b
    slow = np.array([int(np.argmax(W @ z + b)) for z in Z_test])
    np.testing.assert_allclose(standardised(X, test)[1], Z_test)
    found = _fitted(Z, Z_test, y)
    margins = np.sort(Z_test @ W.T + b, axis=1)
    clear = margins[:, -1] - margins[:, -2] > 1e-2  # the fit stops at a tolerance
    assert clear.sum() > 30
    assert (found[clear] == slow[clear]).all()
    labels = np.arange(40) % 4
    probed = linear_probe(X, y, test, labels)
    assert probed.accuracy == np.mean(found == labels)
    assert (probed.n_labels, probed.n_train, probed.n, probed.majority) == (4, 30, 40, 0.25)


def test_labels_that_training_lacks_are_left_out() -> None:
    X, test = vectors(6, 2), vectors(5, 2, seed=1)
    probed = linear_probe(X, np.array([1, 1, 1, 1, 5, 5]), test, np.array([1, 7, 5, 1, 7]))
    assert (probed.n_labels, probed.n) == (2, 3)
    assert probed.majority == pytest.approx(2 / 3)
    constant = linear_probe(X, np.full(6, 2), test, np.array([2, 2, 3, 3, 3]))
    assert (constant.accuracy, constant.majority, constant.n) == (1.0, 1.0, 2)
    nothing = linear_probe(X, np.full(6, 2), test, np.full(5, 3))
    assert nothing.n == 0
    assert np.isnan([nothing.accuracy, nothing.majority]).all()


def test_words_apart_are_told_apart_and_a_constant_direction_does_no_harm() -> None:
    labels = np.arange(60) % 5
    X = np.eye(5)[labels] + 0.01 * np.random.default_rng(0).normal(size=(60, 5))
    X = np.hstack([X, np.ones((60, 1))])
    assert linear_probe(X[:40], labels[:40], X[40:], labels[40:]).accuracy == 1.0


def test_a_control_gives_each_word_one_label_of_the_tokens() -> None:
    labels = np.array([0] * 90 + [1] * 10)
    words = [word % 200 for word in range(1000)]
    found = labels_of_words(words, labels, seed=3)
    assert set(found) == set(range(200))
    assert set(found.values()) == {0, 1}
    assert np.mean([*found.values()]) == pytest.approx(0.1, abs=0.06)  # as often as in the tokens
    assert found == labels_of_words([*reversed(words)], labels, seed=3)
    assert found != labels_of_words(words, labels, seed=4)


def test_reading_back_is_ridge_regression_written_out() -> None:
    X, test = vectors(12, 3), vectors(7, 3, seed=1)
    random = np.random.default_rng(2)
    mixed = random.normal(size=(3, 2))
    Y, Y_test = (np.tanh(each @ mixed) for each in (X, test))
    x_mean, y_mean = X.mean(axis=0), Y.mean(axis=0)
    gram, cross = np.zeros((3, 3)), np.zeros((3, 2))
    for x, y in zip(X, Y, strict=True):
        gram += np.outer(x - x_mean, x - x_mean)
        cross += np.outer(x - x_mean, y - y_mean)
    strength = 1e-3 * (gram[0, 0] + gram[1, 1] + gram[2, 2]) / 3
    weights = np.linalg.inv(gram + strength * np.eye(3)) @ cross
    left = whole = 0.0
    for x, y in zip(test, Y_test, strict=True):
        left += float(sum((y - y_mean - (x - x_mean) @ weights) ** 2))
        whole += float(sum((y - y_mean) ** 2))
    assert read_back(X, Y, test, Y_test) == pytest.approx(1 - left / whole, abs=1e-10)


def test_reading_back_of_itself_of_noise_and_of_nothing() -> None:
    X, test = vectors(200, 4), vectors(100, 4, seed=1)
    assert read_back(X, X, test, test) > 0.999
    noise = vectors(200, 4, seed=2), vectors(100, 4, seed=3)
    assert read_back(X, noise[0], test, noise[1]) < 0.05
    same = np.ones((200, 4)), np.ones((100, 4))
    assert abs(read_back(same[0], X, same[1], test)) < 0.05  # the mean, of other vectors
