"""The result of a comparison: what CARMA changes beside plain fine-tuning from the same start.

Eight tidy tables of what was measured, and five that are computed from them: ``values`` (one
number per run and measure), ``summary`` (over seeds), ``differences`` (paired by seed, with a
verdict each), ``dose_summary`` (words replaced) and ``overhead``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from interp_compose._public import public
from interp_compose._versions import environment_versions
from interp_compose.errors import OptionError
from interp_compose.papers.carma.differences import (
    AVERAGE,
    differences_table,
    dose_summary,
    saturated_rates,
    seed_values,
    summary_table,
    training_curve,
    with_reference,
)
from interp_compose.papers.carma.tables import SCHEMA, checked_tables
from interp_compose.papers.carma.verdicts import (
    SYMBOLS,
    answers,
    cautions,
    summary_lines,
    verdicts,
)
from interp_compose.studies.cap.result import POOLINGS
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.text import Summary

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure


@public
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(GridResult):
    """A model as it was, fine-tuned, and fine-tuned with CARMA (sections 4 and 5).

    Make one with :meth:`from_runs`; keep it with :meth:`~Result.save`; read it back with
    :meth:`~Result.load`.
    """

    SCHEMA = SCHEMA
    TABLES = (
        "summary",
        "differences",
        "overhead",
        "values",
        "dose_summary",
        *(table.name for table in SCHEMA),
    )
    FIGURES = ("cap_average", "cap_protocols", "consistency", "representations", "training")
    CAPTIONS: ClassVar[Mapping[str, str]] = {
        "cap_average": "Accuracy when the tokens of each word are pooled into one at some depth, "
        "mean of the poolings (CARMA, figures 2 and 8).",
        "cap_protocols": "The same, pooling by pooling (CARMA, figures 6 and 7).",
        "consistency": "Of the prompts answered rightly, the share still answered rightly after "
        "words were replaced by synonyms.",
        "representations": "Cosines between residuals of two tokens of one word, and of two words, "
        "on validation prompts.",
        "training": "The task's own loss, without CARMA's terms, so that both versions can be read "
        "on one scale.",
    }
    SYMBOLS: ClassVar[Mapping[str, Mapping[str, str]]] = {"carma": SYMBOLS}

    @classmethod
    def from_runs(cls, tables: Mapping[str, pd.DataFrame], config: Mapping[str, Any]) -> Comparison:
        """Compare the versions, seed by seed.

        Args:
            tables: by name, with the columns that ``Comparison.SCHEMA`` states. What these mean:
                *accuracy*: n_distinct, how many different tokens were predicted (the original has
                a row per seed as well); *cap*: depth, 0 … 1; *synonyms*: rate, the share of words
                asked for, n, the prompts in which a word was replaced, of all n_test, and of these
                n the n_before that were right before, n_after right after, and n_both;
                *training*: step_seconds, the median, and why, "" if converged; *doses*: n_words
                of the prompt's own text.
            config: what was run, in JSON's types.

        Raises:
            InputError: a table or column is missing, foreign or of the wrong type; rows are
                missing or doubled; counts do not fit; tables speak of different runs.
        """
        return cls(config=config, frames=checked_tables(tables), versions=environment_versions())

    def computed(self) -> Mapping[str, pd.DataFrame]:
        """Values of each run, over seeds, paired by seed, and what CARMA costs."""
        values = seed_values(self.frames)
        return {
            "summary": summary_table(values),
            "differences": differences_table(values, self.frames["training"]),
            "overhead": _overhead(self.frames["training"]),
            "values": values,
            "dose_summary": dose_summary(self.frames["doses"]),
        }

    @property
    def frame(self) -> pd.DataFrame:
        """One row per version and measure, over seeds.

        Columns: version; metric ("accuracy", "cap", "consist_syn", in per cent; "consist_syn_cv",
        the coefficient of variation; "improvement_over_ft" and "improvement_over_original", the
        normalised improvement of ConsistSyn in per cent; "same_word_cosine",
        "different_word_cosine", "stable_rank"); rate, layer, depth and pooling where the metric
        has them; mean; sd; ci_low and ci_high, the 95 % interval; n_seeds.
        """
        return self.frames["summary"]

    @property
    def differences(self) -> pd.DataFrame:
        """One row per pair of versions and measure, with the verdict that the numbers allow.

        Columns: see :func:`~interp_compose.papers.carma.differences.differences_table`.
        """
        return self.frames["differences"]

    @property
    def overhead(self) -> pd.DataFrame:
        """What CARMA costs, one row per seed: its tables 6 and 7.

        Columns: seed; ft_seconds, carma_seconds and their ratio (depends on early stopping);
        ft_step_seconds, carma_step_seconds (median of a step) and their step_ratio.
        """
        return self.frames["overhead"]

    @property
    def dose(self) -> pd.DataFrame:
        """How many words were asked to be replaced, and were, one row per rate.

        Columns: see :func:`.differences.dose_summary`; the numbers of each
        prompt are in ``frames["doses"]``.
        """
        return self.frames["dose_summary"]

    @property
    def _compared(self) -> pd.DataFrame:
        """What figures of versions draw."""
        return with_reference(self.frame, self.differences)

    def plot_cap(self, pooling: str = AVERAGE) -> ChartFigure:
        """Accuracy under CAP by depth, a curve per version, as in CARMA's figures 2 and 8.

        Bands, here and in the other figures of versions, are 95 % intervals of a version's
        difference to plain fine-tuning, paired by seed and laid at the version's curve: they differ
        where a band does not hold the curve of fine-tuning.

        Args:
            pooling: one that was run, or "average" for the mean over them.

        Raises:
            OptionError: a pooling that was not run.
        """
        from interp_compose.papers.carma.figures import cap_figure

        known = [AVERAGE, *self._poolings()]
        if pooling not in known:
            raise OptionError(f"pooling {pooling!r} was not run; choose {', '.join(known)}")
        return cap_figure(self._compared, [pooling], config=self.config, notice=self._notice())

    def plot_cap_protocols(self) -> ChartFigure:
        """The same in a panel per pooling, as in CARMA's figures 6 and 7."""
        from interp_compose.papers.carma.figures import cap_figure

        poolings = self._poolings()
        return cap_figure(self._compared, poolings, config=self.config, notice=self._notice())

    def plot_consistency(self) -> ChartFigure:
        """ConsistSyn against the share of words replaced, a line per version."""
        from interp_compose.papers.carma.figures import consistency_figure

        rates = saturated_rates(self.frame)
        notice = [self._notice(), f"saturated at {rates}" if rates else ""]
        return consistency_figure(
            self._compared, config=self.config, notice=" · ".join(filter(None, notice))
        )

    def plot_representations(self) -> ChartFigure:
        """Cosines of tokens of the same and of different words, by layer."""
        from interp_compose.papers.carma.figures import representations_figure

        return representations_figure(self._compared, config=self.config, notice=self._notice())

    def plot_training(self) -> ChartFigure:
        """The task's loss over the steps, a curve per trained version."""
        from interp_compose.papers.carma.figures import training_figure

        curve = training_curve(self.frames["history"])
        return training_figure(curve, config=self.config, notice=self._notice())

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure that has something to show, by the name its files get."""
        figures = {
            "cap_average": self.plot_cap(),
            "cap_protocols": self.plot_cap_protocols(),
        }
        if (self.frames["synonyms"]["n_before"] > 0).any():
            figures["consistency"] = self.plot_consistency()
        cosines = self.frames["representations"][["same_word_cosine", "different_word_cosine"]]
        if cosines.notna().any(axis=None):
            figures["representations"] = self.plot_representations()
        if len(self.frames["history"]):
            figures["training"] = self.plot_training()
        return figures

    def _summary(self) -> Summary:
        """Verdicts and the main numbers."""
        return summary_lines(self)

    @property
    def notes(self) -> list[str]:
        """Runs that have not converged, sets that are too easy, and the like."""
        return [*super().notes, *cautions(self)]

    def _answers(self) -> list[str]:
        return answers(self.differences)

    def sentences(self) -> list[str]:
        """Where CARMA differs from plain fine-tuning, and a sentence for each verdict."""
        seeds = len(set(self.frames["accuracy"]["seed"]))
        lines = [f"{subject}: {sentence}." for subject, sentence in verdicts(self)]
        if not lines:
            return ["FT and CARMA were not both trained, so nothing is compared."]
        count = "1 seed." if seeds == 1 else f"{seeds} seeds, paired: same start, same batches."
        return [*self._answers(), f"CARMA minus plain fine-tuning (FT). {count}", *lines]

    def _sections(self) -> list[str]:
        from interp_compose.papers.carma.report import sections

        return sections(self)

    def _notice(self) -> str:
        """Like "4 of 10 trainings not converged", for a picture; "" if all have."""
        converged = self.frames["training"]["converged"]
        stuck = int((~converged).sum())
        return f"{stuck} of {len(converged)} trainings not converged" if stuck else ""

    def _poolings(self) -> list[str]:
        measured = set(self.frames["cap"]["pooling"])
        return [name for name in POOLINGS if name in measured]


def _overhead(training: pd.DataFrame) -> pd.DataFrame:
    """See :attr:`Comparison.overhead`."""
    columns = ["seed", "seconds", "step_seconds"]
    ft, carma = (training[training["version"] == name][columns] for name in ("ft", "carma"))
    by_seed = ft.merge(carma, on="seed", suffixes=("_ft", "_carma"))
    return pd.DataFrame(
        {
            "seed": by_seed["seed"],
            "ft_seconds": by_seed["seconds_ft"],
            "carma_seconds": by_seed["seconds_carma"],
            "ratio": by_seed["seconds_carma"] / by_seed["seconds_ft"],
            "ft_step_seconds": by_seed["step_seconds_ft"],
            "carma_step_seconds": by_seed["step_seconds_carma"],
            "step_ratio": by_seed["step_seconds_carma"] / by_seed["step_seconds_ft"],
        }
    )
