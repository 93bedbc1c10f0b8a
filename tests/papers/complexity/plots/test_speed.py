"""Figures of fitting speed: every number where it belongs, what is missing is said."""

from __future__ import annotations

import pandas as pd
import pytest

from interp_compose.errors import InputError
from interp_compose.papers.complexity.studies.fitting_speed.figures import (
    fitting_epochs_figure,
    fitting_pairs_figure,
    violations_roc_figure,
)
from interp_compose.plots.chart import Chart
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.theme import VERMILLION

CONFIG = {"norm": "pre", "d_model": 64, "samples": 5000}
NAN = float("nan")


def chart_of(figure: ChartFigure) -> Chart:
    assert isinstance(figure.chart, Chart)
    return figure.chart


def cells() -> pd.DataFrame:
    """γ 0.4 and 0.8, depths 2 and 4, 0 and 5 groups; (0.8, 4, 5) was not fitted by every run."""
    rows = []
    for rate in (0.4, 0.8):
        for depth in (4, 2):
            for groups in (0, 5):
                mean = 100 * rate + 10 * depth + groups
                mean = NAN if (rate, depth, groups) == (0.8, 4, 5) else mean
                rows.append(
                    {
                        "init_rate": rate,
                        "n_layers": depth,
                        "violations": groups,
                        "n": 3,
                        "accuracy_epochs": mean,
                        "accuracy_low": mean - 2,
                        "accuracy_high": mean + 1,
                        "auc": 0.5 + rate / 4 if groups else NAN,
                    }
                )
    return pd.DataFrame(rows)


def pair_cells() -> pd.DataFrame:
    numbers = {"a b": 9.0, "b a": 7.0, "c d": 4.0, "d d": 5.0}
    return pd.DataFrame(
        [
            {
                "init_rate": rate,
                "n_layers": 2,
                "violations": 1,
                "pair": pair,
                "violates": pair in ("a b", "b a"),
                "touched": pair in ("a b", "b a"),
                "n": 3,
                "epochs": NAN if (rate, pair) == (0.4, "d d") else number + 10 * (rate < 0.5),
                "low": number,
                "high": number + 12,
            }
            for rate in (0.4, 0.8)
            for pair, number in numbers.items()
        ]
    )


def curves() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "init_rate": rate,
                "n_layers": 2,
                "violations": 5,
                "false_positive_rate": share,
                "true_positive_rate": min(1.0, share + rate / 2),
                "low": share,
                "high": 1.0,
                "n": 3,
            }
            for rate in (0.4, 0.8)
            for share in (0.0, 0.5, 1.0)
        ]
    )


FIGURES = {
    "epochs": lambda: fitting_epochs_figure(cells(), measure="accuracy", config=CONFIG),
    "pairs": lambda: fitting_pairs_figure(pair_cells(), config=CONFIG),
    "roc": lambda: violations_roc_figure(
        curves(), cells()[cells()["n_layers"] == 2], config=CONFIG
    ),
}


def test_a_panel_for_each_rate_and_a_line_for_each_number_of_groups() -> None:
    chart = chart_of(FIGURES["epochs"]())
    assert [panel.title for panel in chart.panels] == ["γ = 0.4", "γ = 0.8"]
    large, small = chart.panels
    assert [line.label for line in large.lines] == ["0 violating groups", "5 violating groups"]
    assert (large.lines[1].x, large.lines[1].y) == ([2, 4], [65, 85])
    assert (large.lines[1].low, large.lines[1].high) == ([63, 83], [66, 86])
    assert (small.lines[1].x, small.lines[1].y) == ([2], [105])
    assert chart.x_ticks == [2, 4]
    assert "not drawn: 1 cell that some run never reached" in chart.subtitle
    assert "3 seeds" in chart.subtitle


def test_a_line_that_the_last_panel_lacks_is_named_by_its_marker() -> None:
    frame = cells()
    frame.loc[(frame["init_rate"] == 0.8) & (frame["violations"] == 5), "accuracy_epochs"] = NAN
    figure = fitting_epochs_figure(frame, measure="accuracy", config=CONFIG)
    titles = [panel.title for panel in chart_of(figure).panels]
    assert titles == ["γ = 0.4, square: 5 violating groups", "γ = 0.8"]


def test_pairs_stand_in_the_order_of_the_smallest_initialisation() -> None:
    chart = chart_of(FIGURES["pairs"]())
    assert chart.x_notes == ["cd", "dd", "ba", "ab"]
    touched, others = chart.panels[1].lines
    assert (touched.x, touched.y, touched.style.colour) == ([3, 4], [7, 9], VERMILLION)
    assert (others.x, others.y) == ([1, 2], [4, 5])
    assert chart.panels[0].lines[1].x == [1]
    assert "violating: a b, b a · bars: fastest to slowest seed" in chart.subtitle
    assert "not drawn: 1 point that" in chart.subtitle
    assert chart.title.startswith("2 layers, pre-LN, width 64")


def test_curves_with_chance_and_their_areas() -> None:
    chart = chart_of(FIGURES["roc"]())
    assert [panel.title for panel in chart.panels] == [
        "γ = 0.4, AUC 0.60 (5 groups)", "γ = 0.8, AUC 0.70 (5 groups)"
    ]  # fmt: skip
    line, chance = chart.panels[1].lines
    assert (line.label, line.y) == ("5 violating groups", [0.4, 0.9, 1.0])
    assert (chance.label, chance.x, chance.y) == ("chance", [0, 1], [0, 1])


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InputError, match="in no cell"):
        fitting_epochs_figure(cells().assign(accuracy_epochs=NAN), measure="accuracy", config={})
    with pytest.raises(InputError, match="no pair was learned"):
        fitting_pairs_figure(pair_cells().assign(epochs=NAN), config={})
    with pytest.raises(InputError, match="no run has an ROC curve"):
        violations_roc_figure(curves()[:0], cells(), config={})


def test_titles_do_without_a_config() -> None:
    chart = chart_of(fitting_epochs_figure(cells(), measure="accuracy", config={}))
    assert chart.title.startswith("Model: epochs until")
