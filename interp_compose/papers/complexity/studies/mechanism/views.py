"""A trained model inside: points and cosines behind complexity control's Figs 4 and 5."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.probes.geometry import embedding_geometry
from interp_compose.papers.complexity.studies.anchors.masked_outputs import (
    Mode,
    key_masked,
    second_anchor_masked,
)
from interp_compose.papers.complexity.studies.anchors.run import query_neurons
from interp_compose.papers.complexity.tasks.anchors import AnchorTask
from interp_compose.probes.condensation import condensation

Method = Literal["pca", "tsne"]
METHODS: Final[tuple[Method, ...]] = ("pca", "tsne")
PERPLEXITY: Final = 30.0
"""The released notebook of Fig. 4C has 12."""
TSNE_STEPS = 1000
STEPS: Final = (1, 2, 3, 4, 5)


def pair_points(
    model: SmallDecoderModel, task: AnchorTask, *, mode: Mode, seed: int
) -> pd.DataFrame:
    """Outputs with the key masked, in a plane (Fig. 4C): 50 of each pair of different anchors.

    Columns: ``method`` ("pca", or "tsne" with perplexity 30, by scikit-learn), ``first`` and
    ``second`` anchor, ``x`` and ``y``, and ``explained``, the share of the variance that both
    components show (NaN for t-SNE). x and y are NaN where all outputs are the same.
    """
    masked = key_masked(model, task, mode=mode, seed=seed)
    X = masked.outputs.double().numpy()
    chains = [task.chains[label] for label in masked.labels.tolist()]
    frames = []
    for method in METHODS:
        points, explained = _in_plane(X, method, seed)
        frames.append(
            pd.DataFrame(
                {
                    "method": method,
                    "first": [chain[0] for chain in chains],
                    "second": [chain[1] for chain in chains],
                    "x": points[:, 0],
                    "y": points[:, 1],
                    "explained": explained,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def anchor_cosines(
    model: SmallDecoderModel, task: AnchorTask, *, mode: Mode, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Outputs with the second anchor masked (Fig. 4D), ordered by g(x; a₁).

    First a row per output: ``sample``, ``value`` (that of g), ``key`` and ``anchor``; then their
    cosines, as :func:`pairs_of` has them.
    """
    masked = second_anchor_masked(model, task, mode=mode, seed=seed)
    names = list(task.anchors)
    samples = pd.DataFrame(
        {
            "sample": range(len(masked.labels)),
            "value": masked.labels.tolist(),
            "key": masked.keys.tolist(),
            "anchor": [names[i - 1] for i in masked.first.tolist()],
        }
    )
    unit = torch.nn.functional.normalize(masked.outputs.double(), dim=1)
    return samples, pairs_of((unit @ unit.mT).numpy())


def neuron_cosines(model: SmallDecoderModel) -> pd.DataFrame:
    """Cosines between neurons of W_Q of the first layer, heads merged, those of a common direction
    side by side (Figs 5A and 10), as :func:`pairs_of` has them."""
    neurons = condensation(query_neurons(model.lens))
    return pairs_of(neurons.cosines[neurons.order][:, neurons.order].double().cpu().numpy())


def number_embedding(
    model: SmallDecoderModel, task: AnchorTask
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The numbers' embeddings in a plane (Fig. 5B), and whether they lie in order there.

    First a row per number: ``number``, ``x``, ``y`` (its principal components) and ``explained``,
    their share of the variance; then one per step: see :class:`.StepOrder`.
    """
    low, high = task.numbers
    W_E = model.lens.embed.W_E.detach()
    components = min(2, W_E.shape[1])
    geometry = embedding_geometry(W_E, range(low, high + 1), components=components, steps=STEPS)
    points = pd.DataFrame(
        {
            "number": geometry.tokens,
            "x": geometry.coordinates[:, 0].tolist(),
            "y": geometry.coordinates[:, 1].tolist() if components == 2 else 0.0,
            "explained": float(geometry.explained[:2].sum()),
        }
    )
    orders = [
        {
            "step": order.step,
            "cosine": order.cosine,
            "null_mean": order.null_mean,
            "null_sd": order.null_sd,
            "p": order.p,
            "distance": order.distance,
            "distance_p": order.distance_p,
        }
        for order in geometry.order
    ]
    return points, pd.DataFrame(orders)


def pairs_of(cosines: Float[np.ndarray, "n n"]) -> pd.DataFrame:
    """A symmetric matrix as rows: ``row`` < ``column`` and their ``cosine``."""
    row, column = np.triu_indices(len(cosines), k=1)
    return pd.DataFrame({"row": row, "column": column, "cosine": cosines[row, column]})


def _in_plane(
    X: Float[np.ndarray, "point d"], method: Method, seed: int
) -> tuple[Float[np.ndarray, "point 2"], float]:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if np.ptp(X, axis=0).max() <= 1e-6 * max(float(np.abs(X).max()), 1e-30):
        return np.full((len(X), 2), np.nan), float("nan")
    if method == "pca":
        fitted = PCA(2, svd_solver="full").fit(X)
        return fitted.transform(X), float(fitted.explained_variance_ratio_.sum())
    embedding = TSNE(2, perplexity=PERPLEXITY, max_iter=TSNE_STEPS, init="pca", random_state=seed)
    return embedding.fit_transform(X).astype(float), float("nan")
