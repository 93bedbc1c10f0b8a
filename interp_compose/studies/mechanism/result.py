"""Trained models opened up: what their outputs, neurons and embeddings look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.runs.result import environment_versions
from interp_compose.studies.anchors.masked_outputs import MODES, Mode
from interp_compose.studies.anchors.phase import PHASES, with_phases
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import typed
from interp_compose.studies.mechanism.views import METHODS, Method

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

RATE: Final = {"init_rate": "float64"}
MODE: Final = {**RATE, "mode": "str"}
COSINE: Final = {"row": "int64", "column": "int64", "cosine": "float64"}
FRAMES: Final = {
    "models": {
        **RATE,
        "phase": "str",
        **dict.fromkeys(("id", "ood", "commutativity", "train"), "float64"),
        **dict.fromkeys(("stable_rank", "mean_abs_cosine"), "float64"),
    },
    "circuits": {
        **MODE,
        **dict.fromkeys(("pair_silhouette", "twin_distance", "anchor_contrast"), "float64"),
    },
    "pairs": {
        **MODE,
        **dict.fromkeys(("method", "first", "second"), "str"),
        **dict.fromkeys(("x", "y", "explained"), "float64"),
    },
    "samples": {**MODE, "sample": "int64", "value": "int64", "key": "int64", "anchor": "str"},
    "cosines": {**MODE, **COSINE},
    "neurons": {**RATE, "weight_decay": "float64", **COSINE},
    "embedding": {
        **RATE,
        "number": "int64",
        **dict.fromkeys(("x", "y", "explained"), "float64"),
    },
    "orders": {
        **RATE,
        "step": "int64",
        **dict.fromkeys(("cosine", "null_mean", "null_sd", "p"), "float64"),
        **dict.fromkeys(("distance", "distance_p"), "float64"),
    },
    "history": {
        **RATE,
        "step": "int64",
        **dict.fromkeys(("train", "id", "ood", "commutativity", "stable_rank"), "float64"),
    },
}
"""Every table and its columns' types."""
MAY_LACK: Final = {"pairs": ("x", "y", "explained"), "models": ("mean_abs_cosine",)}
"""NaN where all outputs are the same, or W_Q has a single neuron; t-SNE explains no variance."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class Mechanism(StudyResult):
    """Runs of a phase diagram from the inside; made by :func:`mechanism`.

    ``frames`` holds the tables behind the figures: ``models``, ``circuits`` (see
    :func:`.complexity_circuits.circuit_numbers`), ``pairs``, ``samples`` with ``cosines``,
    ``neurons``, ``embedding`` with ``orders``, and ``history``. A model that collapsed, so that no
    mask changes what it says, has no rows in the first four of them but ``models``.
    """

    TABLES = (
        "models",
        "circuits",
        "pairs",
        "samples",
        "cosines",
        "neurons",
        "embedding",
        "orders",
        "history",
    )
    FIGURES = (
        "masked_key_pca_zero",
        "masked_key_pca_exclude",
        "masked_key_tsne_zero",
        "masked_key_tsne_exclude",
        "masked_second_anchor",
        "neurons",
        "all_neurons",
        "embedding",
        "condensation_and_reasoning",
    )

    @classmethod
    def from_rows(cls, frames: Mapping[str, pd.DataFrame], config: Mapping[str, Any]) -> Mechanism:
        """A result of tables as :data:`FRAMES` describes them; one that is absent is empty.

        Raises:
            InputError: a column is missing, foreign or of the wrong type, or holds no number.
        """
        whole = {
            name: typed(
                name,
                frames.get(name, pd.DataFrame(columns=list(columns))),
                columns,
                MAY_LACK.get(name, ()),
            )
            for name, columns in FRAMES.items()
        }
        return cls(config=config, frames=whole, versions=environment_versions())

    def __post_init__(self) -> None:
        models = with_phases(self.frames.get("models"))
        object.__setattr__(self, "frames", {**self.frames, "models": models})
        super().__post_init__()

    @property
    def frame(self) -> pd.DataFrame:
        """One row per opened model: its phase, accuracies, stable rank and mean absolute cosine."""
        return self.frames["models"]

    @property
    def circuits(self) -> pd.DataFrame:
        """What masks show, as numbers: a row per model and mask."""
        return self.frames["circuits"]

    @property
    def orders(self) -> pd.DataFrame:
        """Whether numbers that are a step apart lie near each other, and differ by one direction: a
        row per model and step; see :class:`.StepOrder`."""
        return self.frames["orders"]

    def plot_masked_key(self, method: Method = "pca", mode: Mode = "exclude") -> ChartFigure:
        """Outputs by pair of anchors with the key masked (Fig. 4C), a panel per model.

        Raises:
            OptionError: an unknown method or mode.
        """
        from interp_compose.studies.mechanism.figures import masked_key_figure

        for name, value, known in (("method", method, METHODS), ("mode", mode, MODES)):
            if value not in known:
                raise OptionError(f"{name}={value!r}: expected one of {', '.join(known)}")
        return masked_key_figure(self.frames, method=method, mode=mode, config=self.config)

    def plot_masked_second_anchor(self) -> ChartFigure:
        """Cosines of outputs with the second anchor masked (Fig. 4D), a row per mask."""
        from interp_compose.studies.mechanism.figures import masked_second_anchor_figure

        return masked_second_anchor_figure(self.frames, config=self.config)

    def plot_neurons(self) -> ChartFigure:
        """Cosines between neurons of W_Q of the opened models (Fig. 5A)."""
        from interp_compose.studies.mechanism.figures import neurons_figure

        return neurons_figure(self.frames, config=self.config)

    def plot_all_neurons(self) -> ChartFigure:
        """Cosines between neurons of W_Q over the whole diagram (Fig. 10)."""
        from interp_compose.studies.mechanism.figures import all_neurons_figure

        return all_neurons_figure(self.frames, config=self.config)

    def plot_embedding(self) -> ChartFigure:
        """The numbers' embeddings in a plane (Fig. 5B), a panel per model."""
        from interp_compose.studies.mechanism.figures import embedding_figure

        return embedding_figure(self.frames, config=self.config)

    def plot_training(self) -> ChartFigure:
        """Which comes first, condensation or reasoning: stable rank, as a share of its largest
        value, and accuracies over training, a panel per model."""
        from interp_compose.studies.mechanism.figures import training_figure

        return training_figure(self.frames, config=self.config)

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure, by the name its files get."""
        masked = {
            f"masked_key_{method}_{mode}": self.plot_masked_key(method, mode)
            for method in METHODS
            for mode in MODES
        }
        return {
            **masked,
            "masked_second_anchor": self.plot_masked_second_anchor(),
            "neurons": self.plot_neurons(),
            "all_neurons": self.plot_all_neurons(),
            "embedding": self.plot_embedding(),
            "condensation_and_reasoning": self.plot_training(),
        }

    def summary(self) -> str:
        """Models as aligned text: what they can do, and what stands behind each picture."""
        lines = [
            f"weight decay {self.config['weight_decay']:g}, seed {self.config['seed']}",
            "",
            "    γ phase      ID     OOD  stable rank  |cosine|",
        ]
        for row in self.frame.to_dict("records"):
            lines.append(
                f"{row['init_rate']:>5g}{row['phase']:>6}{row['id']:>8.3f}{row['ood']:>8.3f}"
                f"{row['stable_rank']:>13.2f}{row['mean_abs_cosine']:>10.3f}"
            )
        lines += ["", "    γ mask     pair_silhouette  twin_distance  anchor_contrast"]
        for row in self.circuits.to_dict("records"):
            lines.append(
                f"{row['init_rate']:>5g} {row['mode']:<8}{row['pair_silhouette']:>16.3f}"
                f"{row['twin_distance']:>15.3f}{row['anchor_contrast']:>17.3f}"
            )
        for title, measure, p in (
            ("distance of numbers a step apart, over random orders' (p)", "distance", "distance_p"),
            ("cosine of such differences (p)", "cosine", "p"),
        ):
            lines += ["", f"    γ {title}"]
            for rate, own in self.orders.groupby("init_rate", sort=False):
                told = "".join(
                    f"   {row['step']}: {row[measure]:.2f} ({row[p]:.3f})"
                    for row in own.to_dict("records")
                )
                lines.append(f"{rate:>5g}{told}")
        phases = sorted(set(self.frame["phase"]))
        return "\n".join([*lines, "", *(f"{phase:>4}  {PHASES[phase]}" for phase in phases)])
