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
from interp_compose.studies.core.decided import Measure
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import LIMITS, Column
from interp_compose.studies.core.view import LARGEST, StudyQuestion, View

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
    of = {name: summary["measure"] == name for name in ("loss", "perplexity")}
    nats = summary.loc[of["loss"], ["low", "high"]].clip(upper=MOST_NATS)
    summary.loc[of["perplexity"], ["low", "high"]] = np.exp(nats.to_numpy())
    return summary


@public
@dataclass(frozen=True, eq=False, repr=False)
class TextPhases(GridResult):
    """Language models over a grid of init rates and weight decays; made by :func:`text_phases`."""

    SCHEMA = (RUNS, HELD_OUT, CURVE)
    TABLES = ("runs", "held_out", "curve", "summary", "differences")
    FIGURES = ("text_phases_perplexity", "text_phases_curve", "text_phases_map")
    VIEW = View(
        "perplexity of {n:,} held-out tokens: mean, smallest to largest seed",
        place=(Column("setting", "setting", "<20"), Column("size", "size", ">12")),
        values=(
            Column("perplexity", "mean", ">12.2f"),
            Column("seeds", ("smallest", "largest"), ">18.2"),
            Column("nats a token", "loss", ">14.4f"),
            Column("bits a byte", "bits_per_byte", ">13.4f"),
            Column("stable rank", "stable_rank", ">13.2f"),
        ),
        unit="nats a token",
        scale=1.0,
        digits=3,
    )
    QUESTION = StudyQuestion(
        "whether a small initialisation, or more weight decay, lowers the perplexity of held-out "
        "text; after {size:,} training tokens",
        by="setting",
        at={"measure": "perplexity", "size": LARGEST},
        measure=Measure("nats a token", 0.05),
        limits=f"Differences are in nats a token. {LIMITS}",
    )

    def computed(self) -> dict[str, pd.DataFrame]:
        """The means over seeds, and how settings differ."""
        values = measures_of(self.frames["held_out"])
        losses = values[values["measure"] == "loss"]
        return {
            "summary": summary_of_text(values),
            "differences": differences_of(losses, "setting", ("size",)),
        }

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

    def _rows(self) -> pd.DataFrame:
        ranks = self.frames["runs"].groupby([*SETTING[1:]], as_index=False)["stable_rank"].mean()
        measured = dict(list(self.frame.groupby("measure")))
        rows = measured["perplexity"].merge(ranks, on=[*SETTING[1:]])
        for name in ("loss", "bits_per_byte"):
            means = measured[name].rename(columns={"mean": name})
            rows = rows.merge(means[[*SETTING, name]], on=[*SETTING])
        return rows

    def figures(self) -> dict[str, ChartFigure]:
        """Perplexity by training tokens, and the loss over training with the most of them; by init
        rate and weight decay, where both vary."""
        from interp_compose.papers.shared.grid.figures import (
            about_decoders,
            curve_figure,
            grid_figure,
        )

        curve = self.frames["curve"]
        largest = int(curve["size"].max())
        last = with_settings(curve[curve["size"] == largest])
        figures = {
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
        over_grid = grid_figure(
            _perplexity(self.frame),
            self.config,
            by="split",
            title="perplexity",
            unit="training tokens",
            y_is_share=False,
        )
        return figures if over_grid is None else {**figures, "text_phases_map": over_grid}


def perplexity_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """Perplexity of the held-out text, by the number of training tokens."""
    from interp_compose.papers.shared.grid.figures import size_figure

    return size_figure(
        _perplexity(summary),
        config,
        by="split",
        title="perplexity of held-out text",
        x_title="training tokens",
        y_title="perplexity",
        y_is_share=False,
    )


def _perplexity(summary: pd.DataFrame) -> pd.DataFrame:
    return summary[summary["measure"] == "perplexity"].assign(split="")
