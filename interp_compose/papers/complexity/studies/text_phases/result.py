"""How well decoders predict held-out text, by init rate, weight decay and training tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from interp_compose._public import public
from interp_compose.papers.complexity.grid.settings import (
    EACH,
    KEY,
    PLACE,
    RUNS,
    SETTING,
    WITH_STEPS,
    with_settings,
)
from interp_compose.papers.shared.grid.shares import differences_of, summary_of
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import (
    LIMITS,
    differences_told,
    listed,
    most_apart,
    spans,
    text_table,
)

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

HELD_OUT: Final = Table(
    "held_out",
    f"{PLACE}, loss float, n int, n_bytes int",
    key=KEY,
    complete=EACH,
    rules=("loss >= 0", "n > 0", "n_bytes > 0"),
)
CURVE: Final = Table(
    "curve",
    f"{PLACE}, step int, split str, loss float, n int",
    key=(*KEY, "step", "split"),
    complete=(*WITH_STEPS, ("split",)),
    known={"split": ("held-out", "train")},
    rules=("loss >= 0", "n > 0"),
)
MOST_NATS: Final = 700.0
"""Beyond it a perplexity is no number."""


def measures_of(held_out: pd.DataFrame) -> pd.DataFrame:
    """A row of each run and measure: loss, perplexity and bits a byte."""
    rows = with_settings(held_out)
    nats, each_byte = rows["loss"], rows["n"] / rows["n_bytes"]
    values = {
        "loss": nats,
        "perplexity": np.exp(nats.clip(upper=MOST_NATS)),
        "bits_per_byte": nats / math.log(2) * each_byte,
    }
    return pd.concat(
        [rows.assign(measure=name, value=value) for name, value in values.items()],
        ignore_index=True,
    )


def summary_of_text(values: pd.DataFrame) -> pd.DataFrame:
    """:attr:`TextPhases.frame` of what :func:`measures_of` gave: the interval of perplexity is that
    of the loss, exponentiated."""
    summary = summary_of(values, (*SETTING, "measure"), most=math.inf)
    is_measure = {name: summary["measure"] == name for name in ("loss", "perplexity")}
    nats = summary.loc[is_measure["loss"], ["low", "high"]].clip(upper=MOST_NATS)
    summary.loc[is_measure["perplexity"], ["low", "high"]] = np.exp(nats.to_numpy())
    return summary


@public
@dataclass(frozen=True, eq=False, repr=False)
class TextPhases(StudyResult):
    """Language models over a grid of init rates and weight decays; made by :func:`text_phases`."""

    SCHEMA = (RUNS, HELD_OUT, CURVE)
    TABLES = ("runs", "held_out", "curve", "summary", "differences")
    RUNS = ("runs/ (weights and history of each)",)
    FIGURES = ("text_phases_perplexity", "text_phases_curve", "text_phases_map")

    @classmethod
    def from_runs(cls, tables: Mapping[str, pd.DataFrame], config: Mapping[str, Any]) -> TextPhases:
        """A result of the tables that ``TextPhases.SCHEMA`` states.

        Raises:
            InputError: a table or column is missing, foreign or of the wrong type; rows are
                missing or doubled; counts do not fit.
        """
        return cls._checked(tables, config)

    def __post_init__(self) -> None:
        if "held_out" in self.frames and "summary" not in self.frames:
            values = measures_of(self.frames["held_out"])
            losses = values[values["measure"] == "loss"]
            computed = {
                "summary": summary_of_text(values),
                "differences": differences_of(losses, "setting", ("size",)),
            }
            object.__setattr__(self, "frames", {**self.frames, **computed})
        super().__post_init__()

    @property
    def frame(self) -> pd.DataFrame:
        """One row per setting (init rate and weight decay), number of training tokens and measure
        of the held-out text, over seeds.

        Columns: setting, init_rate, weight_decay, size, measure ("loss": mean, nats a token;
        "perplexity": exp of it; "bits_per_byte": the loss of all tokens, in bits, by the bytes of
        the text as UTF-8, which compares tokenizers), mean (of the seeds' values), low and high
        (the ends of Student's t interval at 95 %, of perplexity those of the loss, exponentiated;
        NaN of one seed), smallest and largest seed, n (tokens), n_seeds.
        """
        return self.frames["summary"]

    @property
    def differences(self) -> pd.DataFrame:
        """Of each setting and the first one at the same size, paired by seed, in nats a token; exp
        of a difference is the ratio of the perplexities.

        Columns: setting, other (the first), size, difference (setting − other), ci_low and ci_high
        (95 %), p (paired t test, two-sided), p_holm (over all settings and sizes), n_seeds.
        """
        return self.frames["differences"]

    def summary(self) -> str:
        """A row per setting and size."""
        ranks = self.frames["runs"].groupby([*SETTING[1:]], as_index=False)["stable_rank"].mean()
        measured = dict(list(self.frame.groupby("measure")))
        rows = measured["perplexity"].merge(ranks, on=[*SETTING[1:]])
        for name in ("loss", "bits_per_byte"):
            means = measured[name].rename(columns={"mean": name})
            rows = rows.merge(means[[*SETTING, name]], on=[*SETTING])
        rows["seeds"] = spans(rows["smallest"], rows["largest"], 2)
        shown = (("setting", "setting", "<20"), ("size", "size", ">12"))
        columns = (
            *shown,
            ("perplexity", "mean", ">12.2f"),
            ("seeds", "seeds", ">18"),
            ("nats a token", "loss", ">14.4f"),
            ("bits a byte", "bits_per_byte", ">13.4f"),
            ("stable rank", "stable_rank", ">13.2f"),
        )
        n = int(rows["n"].iloc[0])
        head = f"perplexity of {n:,} held-out tokens: mean, smallest to largest seed"
        comparisons = differences_told(self.differences, shown, "nats a token", scale=1.0, digits=3)
        return self._told([head, "", *text_table(rows, columns), *comparisons])

    def sentences(self) -> list[str]:
        """The perplexity of each setting with the most training tokens, and what differs most."""
        size = self.frame["size"].max()
        rows = self.frame.query("measure == 'perplexity' and size == @size")
        return [
            "Asked: whether a small initialisation, or more weight decay, lowers the perplexity of "
            f"held-out text; after {size:,} training tokens; {listed(rows, 'setting')}.",
            *most_apart(self.differences.query("size == @size"), "setting"),
            f"Differences are in nats a token. {LIMITS}",
        ]

    def figures(self) -> dict[str, ChartFigure]:
        """Perplexity by training tokens, and the loss over training with the most of them; by init
        rate and weight decay, where both vary."""
        from interp_compose.papers.complexity.studies.text_phases.figures import (
            map_figure,
            perplexity_figure,
        )
        from interp_compose.papers.shared.grid.figures import about_decoders, curve_figure

        curve = self.frames["curve"]
        largest = int(curve["size"].max())
        last = with_settings(curve[curve["size"] == largest])
        charts = {
            "text_phases_perplexity": perplexity_figure(self.frame, self.config),
            "text_phases_curve": curve_figure(
                last,
                "setting",
                self.config,
                (*about_decoders(self.config), f"{largest:,} training tokens"),
                value="loss",
                name="nats a token",
                of="tokens",
            ),
        }
        if (grid := map_figure(self.frame, self.config)) is not None:
            charts["text_phases_map"] = grid
        return charts
