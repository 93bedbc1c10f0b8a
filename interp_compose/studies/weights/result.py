"""What a probe of a model's weights found: one row per matrix and head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import Summary, about, counted, decimal, text_table

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

MERGED: Final = -1
"""``head`` of a whole matrix."""
MATRICES: Final = Table(
    "matrices",
    "layer int, matrix str, head int, rows int, cols int, stable_rank float, "
    "random_stable_rank float, effective_rank float null, spectral_entropy float null, "
    "frobenius_norm float, mean_abs_cosine float null, random_abs_cosine float, "
    "n_directions int, largest_direction int, compared int, tied_to str",
    key=("layer", "matrix", "head"),
)
MEASURES: Final = (
    *("stable_rank", "effective_rank", "spectral_entropy", "frobenius_norm"),
    *("mean_abs_cosine", "n_directions", "largest_direction"),
)
"""What :meth:`ComplexityReport.plot` draws."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class ComplexityReport(StudyResult):
    """How complex every weight matrix of a model is; made by :func:`complexity_report`.

    ``config["left_out"]`` names the parameters that no row covers, such as token types.
    """

    SCHEMA = (MATRICES,)
    TABLES = ("matrices",)
    FIGURES = ("stable_rank", "condensation")

    @classmethod
    def from_rows(cls, rows: pd.DataFrame, config: Mapping[str, Any]) -> ComplexityReport:
        """A report of rows as :attr:`frame` describes them.

        Raises:
            InputError: a column is missing, foreign or of the wrong type, or holds no number.
        """
        return cls._checked({"matrices": rows}, config)

    @property
    def frame(self) -> pd.DataFrame:
        """One row per matrix and head.

        ==================== ==================================================================
        layer                0 … n_layers-1; -1 for W_E and W_pos, n_layers for W_U
        matrix               W_E, W_pos, W_Q, W_K, W_V, W_O, W_in, W_gate, W_out, W_U; of an
                             encoder–decoder W_E_target, W_pos_target, W_Q_cross, … as well
        head                 0, 1, … (of W_K and W_V: key-value heads); -1 all heads merged
        rows, cols           the shape as it was measured: a row is a neuron's input weights, of
                             W_E and W_pos a token or a position
        stable_rank          ‖A‖_F² / ‖A‖₂² (complexity control)
        random_stable_rank   its value for independent Gaussian entries: mn / (√m + √n)², the
                             limit for large matrices
        effective_rank       exp of the entropy of σ / Σσ (Roy and Vetterli 2007)
        spectral_entropy     that entropy, in nats; both NaN if both sides exceed 8192
        frobenius_norm       ‖A‖_F
        mean_abs_cosine      mean ``|cos|`` of two different rows; NaN where fewer than two are
                             not zero
        random_abs_cosine    its expectation for random directions in ``cols`` dimensions
        n_directions         condensed directions: groups of at least two rows that the greedy
                             reordering at cos > 0.4 finds (complexity control, section VI-A)
        largest_direction    rows in its largest group; 1 where nothing is condensed
        compared             rows that the four columns before were computed on: all, or so many
                             evenly spaced ones of a larger matrix
        tied_to              "W_E" where W_U is the embedding itself (measured once), else "";
                             "W_E_target" where it is that of the decoder
        ==================== ==================================================================
        """
        return self.frames["matrices"]

    @property
    def merged(self) -> pd.DataFrame:
        """The rows of whole matrices."""
        return self.frame[self.frame["head"] == MERGED].reset_index(drop=True)

    @property
    def heads(self) -> pd.DataFrame:
        """The rows of single heads."""
        return self.frame[self.frame["head"] != MERGED].reset_index(drop=True)

    def plot(self, measure: str = "stable_rank") -> ChartFigure:
        """Layers × matrices, coloured by one of :data:`MEASURES`; heads merged.

        Raises:
            OptionError: an unknown measure.
        """
        from interp_compose.studies.weights.figures import complexity_figure

        if measure not in MEASURES:
            raise OptionError(f"unknown measure {measure!r}: expected one of {', '.join(MEASURES)}")
        return complexity_figure(self.frame, measure, config=self.config)

    def _answers(self) -> list[str]:
        """The whole matrices whose stable rank is the lowest and the highest share of a random
        one's."""
        whole = self.merged if len(self.merged) else self.frame
        order = whole.assign(share=whole["stable_rank"] / whole["random_stable_rank"])
        rows = order.sort_values("share", kind="stable").to_dict("records")
        n_layers = int(self.config["n_layers"])
        text = "; ".join(
            f"{most} share has {row['matrix']}"
            f"{f' of layer {i}' if 0 <= (i := row['layer']) < n_layers else ''}, "
            f"{decimal(row['stable_rank'], 2)} of {decimal(row['random_stable_rank'], 2)}"
            for most, row in (("the lowest", rows[0]), ("the highest", rows[-1]))
        )
        return [
            f"In {counted(len(rows), 'matrices')}, by stable rank over that of a random one of the "
            f"same shape, {text}. No test is made: these are numbers of one model, without "
            "sampling error."
        ]

    def sentences(self) -> list[str]:
        """Which matrices are the least and the most complex, what was asked, and its limits."""
        return [
            *self._answers(),
            f"Asked: how complex the weights of {self.config['model']} are.",
            "That low ranks make a model reason is not shown by them.",
        ]

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure of the study, by the name its files get."""
        return {"stable_rank": self.plot(), "condensation": self.plot("mean_abs_cosine")}

    def _head(self) -> tuple[str, ...]:
        """Which model, and its stable ranks."""
        ranks, n_layers = self.merged, int(self.config["n_layers"])
        ranks = ranks[ranks["layer"].between(0, n_layers - 1)]
        return (
            f"{about(self.config, ('model',))} · {n_layers} layers",
            f"{counted(len(ranks), 'matrices')} with a mean stable rank of "
            f"{ranks['stable_rank'].mean():.2f}, of random ones "
            f"{ranks['random_stable_rank'].mean():.2f}",
        )

    def _summary(self) -> Summary:
        """Stable ranks as aligned text: a row per layer, a column per matrix; what random matrices
        of these shapes have; embeddings; what was left out."""
        merged, n_layers = self.merged, int(self.config["n_layers"])
        inside = merged[merged["layer"].between(0, n_layers - 1)]
        names = list(dict.fromkeys(inside["matrix"]))
        table = inside.pivot(index="layer", columns="matrix", values="stable_rank")
        table.loc["random"] = inside.groupby("matrix")["random_stable_rank"].mean()
        cells = table.map("{:.2f}".format, na_action="ignore").fillna("").reset_index()
        columns = [("layer", "layer", ">6"), *((name, name, ">10") for name in names)]
        title = f"model {self.config['model']} · stable rank, heads merged"
        lines: Summary = [title, "", text_table(cells, columns), ""]
        for row in merged[~merged["layer"].between(0, n_layers - 1)].to_dict("records"):
            text = f"{row['matrix']}: {row['stable_rank']:.2f}"
            text += f" (random {row['random_stable_rank']:.2f})"
            lines.append(f"{text}; it is {row['tied_to']}" if row["tied_to"] else text)
        if self.config.get("left_out"):
            lines.append(f"left out: {', '.join(self.config['left_out'])}")
        return self._told(lines)
