"""Trained models opened up: what their outputs, neurons and embeddings look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.studies.anchors.masked_outputs import MODES, Mode
from interp_compose.papers.complexity.studies.anchors.phase import PHASES, phase_name, with_phases
from interp_compose.papers.complexity.studies.anchors.titles import legend
from interp_compose.papers.complexity.studies.mechanism.views import METHODS, Method
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import Summary, counted, decimal, text_table

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

COSINE: Final = "row int, column int, cosine float"


def _table(name: str, columns: str, *key: str) -> Table:
    """Of the opened models, by their init rate; a result may lack it."""
    key = ("init_rate", *key)
    return Table(name, f"init_rate float, {columns}", key=key, may_be_empty=True)


SCHEMA: Final = (
    _table(
        "models",
        "phase str, id float, ood float, commutativity float, train float, stable_rank float, "
        "mean_abs_cosine float null",  # NaN where W_Q has a single neuron
    ),
    _table(
        "circuits",
        "mode str, pair_silhouette float, twin_distance float, anchor_contrast float",
        "mode",
    ),
    Table(
        "pairs",
        "init_rate float, mode str, method str, first str, second str, x float null, y float null, "
        "explained float null",  # NaN where all outputs are the same; t-SNE explains no variance
        may_be_empty=True,
    ),
    _table("samples", "mode str, sample int, value int, key int, anchor str", "mode", "sample"),
    _table("cosines", f"mode str, {COSINE}", "mode", "row", "column"),
    _table("neurons", f"weight_decay float, {COSINE}", "weight_decay", "row", "column"),
    _table("embedding", "number int, x float, y float, explained float", "number"),
    _table(
        "orders",
        "step int, cosine float, null_mean float, null_sd float, p float, distance float, "
        "distance_p float",
        "step",
    ),
    _table(
        "history",
        "step int, train float, id float, ood float, commutativity float, stable_rank float",
        "step",
    ),
)
MODEL_COLUMNS: Final = (
    ("γ", "init_rate", ">5g"),
    ("phase", "phase", ">6"),
    ("ID", "id", ">8.3f"),
    ("OOD", "ood", ">8.3f"),
    ("stable rank", "stable_rank", ">13.2f"),
    ("|cosine|", "mean_abs_cosine", ">10.3f"),
)
CIRCUIT_COLUMNS: Final = (
    ("γ", "init_rate", ">5g"),
    ("", "gap", ">1"),
    ("mode", "mode", "<8"),
    ("pair_silhouette", "pair_silhouette", ">16.3f"),
    ("twin_distance", "twin_distance", ">15.3f"),
    ("anchor_contrast", "anchor_contrast", ">17.3f"),
)
ORDER_COLUMNS: Final = (
    ("γ", "init_rate", ">5g"),
    ("step", "step", ">6"),
    ("distance", "distance", ">10.3f"),
    ("p", "distance_p", ">8.3f"),
    ("cosine", "cosine", ">10.4f"),
    ("random", "null_mean", ">10.4f"),
    ("p", "p", ">8.3f"),
)
"""Of the summary's tables."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class Mechanism(StudyResult):
    """Runs of a phase diagram from the inside; made by :func:`mechanism`.

    ``frames`` holds the tables behind the figures; in all but ``neurons``, init_rate alone names a
    model. A model that collapsed, so that no knockout changes what it says, has no rows in
    circuits, pairs, samples and cosines.

    - models, circuits: per model, and mode; see :func:`.masked_outputs.circuit_numbers`
    - pairs: per output with the key knocked out: mode, method, the anchors first and second, x, y,
      and explained, the share of the variance (NaN of t-SNE)
    - samples, cosines: per output with the second anchor knocked out: value (g(x; a₁)), key,
      anchor; and per two of these: row, column, cosine
    - neurons: per two neurons of W_Q, of every run of the seed; embedding: per number: x, y,
      explained; orders: per model and step, see :class:`.StepOrder`; history: per evaluation
    """

    SCHEMA = SCHEMA
    TABLES = tuple(table.name for table in SCHEMA)
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
        """A result of tables as :data:`SCHEMA` describes them; one that is absent is empty.

        Raises:
            InputError: a column is missing, foreign or of the wrong type, or holds no number.
        """
        return cls._checked(frames, config)

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
        """What knockouts show, as numbers: a row per model and mode."""
        return self.frames["circuits"]

    @property
    def orders(self) -> pd.DataFrame:
        """Whether numbers that are a step apart lie near each other, and differ by one direction: a
        row per model and step; see :class:`.StepOrder`."""
        return self.frames["orders"]

    def plot_masked_key(self, method: Method = "pca", mode: Mode = "exclude") -> ChartFigure:
        """Outputs by pair of anchors with the key knocked out (Fig. 4C), a panel per model.

        Raises:
            OptionError: an unknown method or mode.
        """
        from interp_compose.papers.complexity.studies.mechanism.figures import masked_key_figure

        for name, value, known in (("method", method, METHODS), ("mode", mode, MODES)):
            if value not in known:
                raise OptionError(f"{name}={value!r}: expected one of {', '.join(known)}")
        return masked_key_figure(self.frames, method=method, mode=mode, config=self.config)

    def plot_masked_second_anchor(self) -> ChartFigure:
        """Cosines of outputs with the second anchor knocked out (Fig. 4D), a row per mode."""
        from interp_compose.papers.complexity.studies.mechanism.figures import (
            masked_second_anchor_figure,
        )

        return masked_second_anchor_figure(self.frames, config=self.config)

    def plot_neurons(self) -> ChartFigure:
        """Cosines between neurons of W_Q of the opened models (Fig. 5A)."""
        from interp_compose.papers.complexity.studies.mechanism.figures import neurons_figure

        return neurons_figure(self.frames, config=self.config)

    def plot_all_neurons(self) -> ChartFigure:
        """Cosines between neurons of W_Q over the whole diagram (Fig. 10)."""
        from interp_compose.papers.complexity.studies.mechanism.figures import all_neurons_figure

        return all_neurons_figure(self.frames, config=self.config)

    def plot_embedding(self) -> ChartFigure:
        """The numbers' embeddings in a plane (Fig. 5B), a panel per model."""
        from interp_compose.papers.complexity.studies.mechanism.figures import embedding_figure

        return embedding_figure(self.frames, config=self.config)

    def plot_training(self) -> ChartFigure:
        """Which comes first, condensation or reasoning: stable rank, as a share of its largest
        value, and accuracies over training, a panel per model."""
        from interp_compose.papers.complexity.studies.mechanism.figures import training_figure

        return training_figure(self.frames, config=self.config)

    def _head(self) -> tuple[str, str]:
        decay, seed = self.config["weight_decay"], self.config["seed"]
        return counted(len(self.frame), "models"), f"weight decay {decay:g}, seed {seed}"

    def _answers(self) -> list[str]:
        from interp_compose.papers.complexity.studies.mechanism.reading import answers

        return answers(self.frame, self.orders)

    def sentences(self) -> list[str]:
        """In which models numbers are in order; each model's phase, accuracy on unseen pairs and
        stable rank."""
        findings = "; ".join(
            f"γ {row['init_rate']:g} {phase_name(row['phase'])}, OOD accuracy "
            f"{decimal(row['ood'], 3)}, stable rank of W_Q {decimal(row['stable_rank'], 2)}"
            for row in self.frame.to_dict("records")
        )
        return [
            *self._answers(),
            f"Asked: what stands behind the phases of {counted(len(self.frame), 'models')} trained "
            f"with weight decay {self.config['weight_decay']:g}: {findings}.",
            f"These are single models, all of seed {self.config['seed']}: there is no spread over "
            "seeds, and that one measure moves with another does not show which causes which.",
        ]

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

    def _summary(self) -> Summary:
        """Models as aligned text: what they can do, and what stands behind each picture."""
        lines = [
            "embeddings e of numbers t and t + step: mean distance, over that in random orders",
            "(1: no order); mean cosine of e(t + step) − e(t) of different t, then random orders';",
            "p: share of random orders that are as near, or have as large a cosine; uncorrected",
        ]
        models = text_table(self.frame, MODEL_COLUMNS)
        circuits = text_table(self.circuits.assign(gap=""), CIRCUIT_COLUMNS)
        orders = text_table(self.orders, ORDER_COLUMNS)
        signs = legend({phase: PHASES[phase] for phase in sorted({*self.frame["phase"]})})
        return self._told([self.head(), "", models, "", circuits, "", *lines, orders, "", signs])
