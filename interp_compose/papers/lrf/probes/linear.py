"""Linear probes: what can be read from vectors by a linear map that is fitted on others.

A probe's accuracy says little alone, since a probe may learn its task itself: it is compared with
that of a *control task*, whose labels are random (Hewitt and Liang 2019, "Designing and
Interpreting Probes with Control Tasks"). The difference is called selectivity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int

STRENGTH: Final = 1.0
"""C of the logistic regression: the summed loss's weight against ½‖W‖²."""
RIDGE: Final = 1e-3
"""The ridge, of the mean variance of the inputs, times their number."""
MOST_STEPS: Final = 1000


@dataclass(frozen=True)
class Probed:
    """What a probe gets right.

    Attributes:
        accuracy: of the test tokens whose label is one of the training tokens'; others are left
            out.
        majority: of the commonest label of the training tokens.
        n_labels: different ones among the training tokens.
        n_train, n: training and test tokens.
    """

    accuracy: float
    majority: float
    n_labels: int
    n_train: int
    n: int


def linear_probe(
    train: Float[np.ndarray, "train d_model"],
    labels: Int[np.ndarray, "train"],
    test: Float[np.ndarray, "test d_model"],
    test_labels: Int[np.ndarray, "test"],
) -> Probed:
    """Multinomial logistic regression on standardised vectors, fitted on some, tested on others.

    It minimises ½‖W‖² + C Σᵢ −log softmax(W zᵢ + b)[yᵢ] with C = 1, z being the vectors less the
    training vectors' mean, over their standard deviation.
    """
    known = np.isin(test_labels, labels)
    known_test, answers = test[known], test_labels[known]
    names, counts = np.unique(labels, return_counts=True)
    common = names[counts.argmax()]
    predicted = np.full(len(known_test), common)
    if len(names) > 1 and len(known_test):
        predicted = _fitted(*standardised(train, known_test), labels)
    return Probed(
        accuracy=float(np.mean(predicted == answers)) if len(known_test) else float("nan"),
        majority=float(np.mean(answers == common)) if len(known_test) else float("nan"),
        n_labels=len(names),
        n_train=len(labels),
        n=len(known_test),
    )


def _fitted(
    train: Float[np.ndarray, "train d_model"],
    test: Float[np.ndarray, "test d_model"],
    labels: Int[np.ndarray, "train"],
) -> Int[np.ndarray, "test"]:
    from sklearn.linear_model import LogisticRegression

    probe = LogisticRegression(C=STRENGTH, max_iter=MOST_STEPS).fit(train, labels)
    predicted: Int[np.ndarray, "test"] = probe.predict(test)
    return predicted


def standardised(
    train: Float[np.ndarray, "train d_model"], test: Float[np.ndarray, "test d_model"]
) -> tuple[Float[np.ndarray, "train d_model"], Float[np.ndarray, "test d_model"]]:
    """Both less the mean of ``train``, over its standard deviation where there is one."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    return (train - mean) / scale, (test - mean) / scale


def labels_of_words(
    words: Sequence[int], labels: Int[np.ndarray, "train"], seed: int
) -> dict[int, int]:
    """A control task: a random label for each word, always the same one, drawn from the labels of
    the tokens (Hewitt and Liang 2019, section 2)."""
    random = np.random.default_rng(seed)
    return {word: int(random.choice(labels)) for word in sorted(set(words))}


def read_back(
    train: Float[np.ndarray, "train d_model"],
    train_targets: Float[np.ndarray, "train d_target"],
    test: Float[np.ndarray, "test d_model"],
    test_targets: Float[np.ndarray, "test d_target"],
) -> float:
    """R² of a ridge regression from vectors to others, on vectors that it was not fitted on.

    1 − Σ‖y − ŷ‖² / Σ‖y − ȳ‖², the sums over test vectors and ȳ the training targets' mean. With X
    and Y the centred training vectors and targets, ŷ = ȳ + (x − x̄)(XᵀX + λ tr(XᵀX)/d · I)⁻¹ XᵀY
    and λ = 1e-3.
    """
    mean, target_mean = train.mean(axis=0), train_targets.mean(axis=0)
    X, Y = train - mean, train_targets - target_mean
    gram = X.T @ X  # [d_model d_model]
    ridge = (RIDGE * np.trace(gram) / len(gram) or 1.0) * np.eye(len(gram))  # 1 where all is 0
    weights = np.linalg.solve(gram + ridge, X.T @ Y)  # [d_model d_target]
    residuals = test_targets - target_mean - (test - mean) @ weights  # y − ŷ
    deviations = test_targets - target_mean
    return 1 - float((residuals**2).sum() / (deviations**2).sum())
