"""Trained models from the inside: complexity control's Figs 4, 5A, 5B and 10.

Figures take the tables of a :class:`.mechanism.result.Mechanism`, which
says what their columns hold; ``config`` names what the models share, for the titles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.ticker import MaxNLocator

from interp_compose.papers.complexity.studies.anchors.phase import phase_name
from interp_compose.papers.complexity.studies.anchors.titles import remarks_of
from interp_compose.papers.shared.grid.figures import RATE_AXIS
from interp_compose.plots.chart import Chart, Panel, subtitle_of
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.matrices import MatrixGrid, MatrixPanel
from interp_compose.plots.scatter import Group, Scatter, ScatterPanel, pair_styles
from interp_compose.plots.theme import BLUE, GREEN, INK, VERMILLION, Style
from interp_compose.studies.core.figures import line_of

Frames = Mapping[str, pd.DataFrame]
AXES: Final = {
    "pca": ("first principal component", "second principal component"),
    "tsne": ("t-SNE, first axis", "t-SNE, second axis"),
}
MASKS: Final = {
    "zero": "knocked out after the softmax",
    "exclude": "knocked out before the softmax",
}
ORDER: Final = "distance of numbers 1, 3 and 4 apart, of that in random orders:"
MODELS: Final = "trained model, by its init rate γ"
LINES: Final = {
    "stable_rank": ("stable rank, share of largest", Style(GREEN, "diamond", width=2.2)),
    "id": ("seen pairs (ID)", Style(BLUE, "circle", width=1.8)),
    "ood": ("unseen pairs (OOD)", Style(VERMILLION, "square", width=2.6)),
}


def masked_key_figure(
    frames: Frames, *, method: str, mode: str, config: Mapping[str, Any]
) -> ChartFigure:
    """Outputs by pair of anchors, the key knocked out (Fig. 4C); (a, b) and (b, a) share a hue."""
    pairs = frames["pairs"]
    points = pairs[(pairs["method"] == method) & (pairs["mode"] == mode)]
    circuits = frames["circuits"]
    silhouettes = circuits[circuits["mode"] == mode].set_index("init_rate")["pair_silhouette"]
    styles = pair_styles(list(zip(points["first"], points["second"], strict=True)))
    panels = []
    for rate, phase in _models(frames):
        cell = points[points["init_rate"] == rate]
        groups = [
            Group(f"({one}, {other})", style, x=rows["x"].tolist(), y=rows["y"].tolist())
            for (one, other), style in styles.items()
            if len(rows := cell[(cell["first"] == one) & (cell["second"] == other)])
        ]
        note = f" · silhouette {_two_digits(silhouettes[rate])}" if rate in silhouettes else ""
        panels.append(ScatterPanel(groups, f"{_name(rate, phase)}{note}"))
    x_title, y_title = AXES[method]
    return draw(
        Scatter(
            title=f"Outputs with the key {MASKS[mode]}, by pair of anchors",
            subtitle=f"{_subtitle(config)} · silhouettes of the outputs themselves",
            x_title=x_title,
            y_title=y_title,
            panels=panels,
        )
    )


def embedding_figure(frames: Frames, *, config: Mapping[str, Any]) -> ChartFigure:
    """Embeddings of the numbers along their principal components (Fig. 5B)."""
    orders, embedding = frames["orders"], frames["embedding"]
    panels, order = [], []
    for rate, phase in _models(frames):
        points = embedding[embedding["init_rate"] == rate]
        steps = orders[orders["init_rate"] == rate].set_index("step")
        shares = ", ".join(f"{100 * steps['distance'][step]:.0f}" for step in (1, 3, 4))
        order.append(f"{shares} % (γ {rate:g})")
        share = points["explained"].iloc[0]
        group = Group(
            "",
            Style(INK, "circle"),
            x=points["x"].tolist(),
            y=points["y"].tolist(),
            texts=[str(number) for number in points["number"]],
        )
        panels.append(ScatterPanel([group], f"{_name(rate, phase)} · {share:.0%} of variance"))
    return draw(
        Scatter(
            title="Embeddings of the numbers",
            subtitle=f"{_subtitle(config)} · {ORDER} {'; '.join(order)}",
            x_title=AXES["pca"][0],
            y_title=AXES["pca"][1],
            panels=panels,
        )
    )


def masked_second_anchor_figure(frames: Frames, *, config: Mapping[str, Any]) -> ChartFigure:
    """Cosines of outputs, the second anchor knocked out (Fig. 4D): ordered by g(x; a₁), a row per
    way to do it."""
    models, circuits = _models(frames), frames["circuits"].set_index(["mode", "init_rate"])
    cosines, samples = frames["cosines"], frames["samples"]
    return draw(
        MatrixGrid(
            title="Outputs with the second anchor knocked out, ordered by g(x; a₁)",
            subtitle=f"{_subtitle(config)} · g(x; a₁) rises from left to right",
            x_title=MODELS,
            y_title="how attention to the anchor is knocked out",
            columns=[_name(*model) for model in models],
            rows=[mask.removeprefix("knocked out ") for mask in MASKS.values()],
            panels=[
                [
                    _outputs(
                        cosines.query("init_rate == @rate and mode == @mode"),
                        samples.query("init_rate == @rate and mode == @mode"),
                        circuits["anchor_contrast"].get((mode, rate)),
                    )
                    for rate, _ in models
                ]
                for mode in MASKS
            ],
            value_name="cosine",
        )
    )


def neurons_figure(frames: Frames, *, config: Mapping[str, Any]) -> ChartFigure:
    """Cosines between neurons of W_Q of the first layer (Fig. 5A), those of a common direction side
    by side."""
    models = frames["models"]
    neurons = frames["neurons"].query("weight_decay == @config['weight_decay']")
    return draw(
        MatrixGrid(
            title="Neurons of W_Q of the first layer",
            subtitle=_subtitle(config),
            x_title=MODELS,
            y_title="",
            columns=[_name(*model) for model in _models(frames)],
            rows=[""],
            panels=[
                [
                    _matrix(
                        neurons[neurons["init_rate"] == row["init_rate"]],
                        f"stable rank {row['stable_rank']:.1f}",
                    )
                    for row in models.to_dict("records")
                ]
            ],
            value_name="cosine",
        )
    )


def all_neurons_figure(frames: Frames, *, config: Mapping[str, Any]) -> ChartFigure:
    """Cosines between neurons of W_Q over init rates and weight decays (Fig. 10)."""
    neurons = frames["neurons"]
    rates = sorted(neurons["init_rate"].unique().tolist())
    decays = sorted(neurons["weight_decay"].unique().tolist(), reverse=True)
    cells = dict(iter(neurons.groupby(["init_rate", "weight_decay"])))
    return draw(
        MatrixGrid(
            title="Neurons of W_Q of the first layer, over the diagram",
            subtitle=subtitle_of(_model(config), f"seed {config['seed']}", *remarks_of(config)),
            x_title=RATE_AXIS,
            y_title="weight decay",
            columns=[f"{rate:g}" for rate in rates],
            rows=[f"{decay:g}" for decay in decays],
            panels=[
                [_matrix(cells[rate, decay]) if (rate, decay) in cells else None for rate in rates]
                for decay in decays
            ],
            value_name="cosine",
        )
    )


def training_figure(frames: Frames, *, config: Mapping[str, Any]) -> ChartFigure:
    """Stable rank, as a share of its largest value, beside accuracies over training."""
    panels, last = [], float(frames["history"]["step"].max())
    ticks = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0.0, last)
    for rate, phase in _models(frames):
        rows = frames["history"].query("init_rate == @rate")
        shares = rows.assign(stable_rank=rows["stable_rank"] / rows["stable_rank"].max(), runs=1)
        lines = [
            line_of(label, style, shares, "step", name, name, name, n="runs")
            for name, (label, style) in LINES.items()
        ]
        panels.append(Panel(lines, [], title=_name(rate, phase)))
    return draw(
        Chart(
            title="Condensation of W_Q, and reasoning",
            subtitle=_subtitle(config),
            x_title="optimiser step",
            y_title="accuracy, or share of the largest rank",
            panels=panels,
            x_name="step",
            x_ticks=[float(tick) for tick in ticks if tick <= last],
            x_step=last / 16,
        )
    )


def matrix_of(pairs: pd.DataFrame) -> Float[np.ndarray, "n n"]:
    """The symmetric matrix of rows ``row`` < ``column`` and their ``cosine``; its diagonal is 1."""
    n = int(pairs["column"].max()) + 1
    matrix = np.eye(n)
    row, column = pairs["row"].to_numpy(), pairs["column"].to_numpy()
    matrix[row, column] = matrix[column, row] = pairs["cosine"].to_numpy()
    return matrix


def _models(frames: Frames) -> Sequence[tuple[float, str]]:
    models = frames["models"]
    return list(zip(models["init_rate"].tolist(), models["phase"].tolist(), strict=True))


def _name(rate: float, phase: str) -> str:
    return f"γ {rate:g} ({phase_name(phase)})"


def _subtitle(config: Mapping[str, Any]) -> str:
    """Like "post-LN, 2 layers, d_model 64 · weight decay 0.01 · seed 200"."""
    run = [f"weight decay {config['weight_decay']:g}", f"seed {config['seed']}"]
    return subtitle_of(_model(config), *run, *remarks_of(config))


def _model(config: Mapping[str, Any]) -> str:
    return f"{config['norm']}-LN, {config['n_layers']} layers, d_model {config['d_model']}"


def _outputs(
    cosines: pd.DataFrame, samples: pd.DataFrame, contrast: float | None
) -> MatrixPanel | None:
    """None of a model that has collapsed."""
    if not len(cosines) or contrast is None:
        return None
    values = samples["value"].to_numpy()
    return MatrixPanel(
        matrix_of(cosines),
        text=f"anchor contrast {_two_digits(contrast)}",
        names=[
            f"g = {value}: {key} {anchor}"
            for value, key, anchor in zip(values, samples["key"], samples["anchor"], strict=True)
        ],
        blocks=(np.flatnonzero(np.diff(values)) + 1).tolist(),
    )


def _matrix(pairs: pd.DataFrame, text: str = "") -> MatrixPanel | None:
    """None of a single neuron, which forms no pair."""
    return MatrixPanel(matrix_of(pairs), text) if len(pairs) else None


def _two_digits(value: float) -> str:
    """Two digits behind the point, with a minus where one belongs."""
    text = f"{abs(value):.2f}"
    return f"−{text}" if value < 0 and float(text) else text
