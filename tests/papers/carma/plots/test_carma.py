"""Figures of a comparison: they draw the frames' numbers, on axes that say what they are."""

from __future__ import annotations

import pandas as pd
import pytest

from interp_compose.errors import InputError
from interp_compose.papers.carma.figures import (
    cap_figure,
    consistency_figure,
    representations_figure,
    training_figure,
)
from interp_compose.plots.canvas import LONGEST
from interp_compose.plots.chart import Chart, Line, Panel, model_name
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import COMPARISON_STYLES
from tests.plots.reading import paint, png_bytes

CONFIG = {"model": "folder/tiny", "task": "mini-idm"}
VERSIONS = ("original", "ft", "carma")


def summary(n_seeds: int = 5) -> pd.DataFrame:
    rows = []
    for i, version in enumerate(VERSIONS):
        rows.append({"version": version, "metric": "accuracy", "mean": 50.0 + i})
        for layer in range(4):
            for pooling in ("average", "mean", "max", "sum"):
                cell = {"layer": layer, "depth": layer / 3, "pooling": pooling}
                rows.append({"version": version, "metric": "cap", "mean": 10.0 * layer + i} | cell)
            for metric in ("same_word_cosine", "different_word_cosine"):
                cell = {"layer": layer, "depth": layer / 3}
                rows.append({"version": version, "metric": metric, "mean": 0.1 * layer + i} | cell)
        for rate in (0.25, 0.4):
            cell = {"metric": "consist_syn", "rate": rate}
            rows.append({"version": version, "mean": 90.0 - 100 * rate + i} | cell)
    frame = pd.DataFrame(rows).assign(n_seeds=n_seeds)
    reference = frame["mean"] + 2
    ends = {"low": frame["mean"] - 1 - reference, "high": frame["mean"] + 1 - reference}
    ends = ends if n_seeds > 1 else dict.fromkeys(ends, float("nan"))
    return frame.assign(**ends, reference=reference, compared_with="ft")


def drawn(figure: ChartFigure) -> list[tuple[str, list[float], list[float]]]:
    return [(trace.name, list(trace.x), list(trace.y)) for trace in figure.data if trace.name]


def chart(figure: ChartFigure) -> Chart:
    assert figure.chart is not None
    return figure.chart


def test_a_model_is_named_in_30_characters() -> None:
    assert model_name({}) == "Model"
    fits = "organisation/" + 17 * "m"
    assert model_name({"model": fits}) == fits
    trained = f"/models/tiny · fine-tuned on {40 * 'x'}"
    assert model_name({"model": trained}) == f"tiny · fine-tuned on {5 * 'x'}…{19 * 'x'}"
    assert model_name({"model": f"{fits}n"}) == 17 * "m" + "n"
    assert model_name({"model": f"/models/{30 * 'm'}/"}) == 30 * "m"
    assert model_name({"model": 20 * "a" + 20 * "b"}) == 14 * "a" + "…" + 14 * "b"


def test_cap_is_drawn_as_shares_over_depth() -> None:
    figure = cap_figure(summary(), ["average"], config=CONFIG, notice="1 of 5 ft runs")
    lines = drawn(figure)
    assert [name for name, _, _ in lines] == ["Original", "FT (fine-tuning)", "CARMA"]
    assert lines[2][1] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert lines[2][2] == pytest.approx([0.02, 0.12, 0.22, 0.32])
    line = chart(figure).panels[0].lines[2]
    assert line.low == pytest.approx([0.01, 0.11, 0.21, 0.31])
    assert [level.y for level in chart(figure).panels[0].levels] == pytest.approx([0.5, 0.51, 0.52])
    assert chart(figure).subtitle == (
        "task mini-idm · 5 seeds · bands: 95 % intervals of the difference to FT, paired by seed · "
        "dotted: nothing pooled · 1 of 5 ft runs"
    )


def test_the_longest_subtitles_are_not_cut() -> None:
    notice = "20 of 20 trainings not converged"
    curve = pd.DataFrame({"version": "ft", "step": [5.0, 90.0], "mean": [5.0, 1.0], "n_seeds": 10})
    curve = curve.assign(ci_low=curve["mean"], ci_high=curve["mean"])
    for figure in (
        cap_figure(summary(10), ["average"], config=CONFIG, notice=notice),
        consistency_figure(
            summary(10), config=CONFIG, notice=f"{notice} · saturated at 25 %, 40 %"
        ),
        representations_figure(summary(10), config=CONFIG, notice=notice),
        training_figure(curve, config=CONFIG, notice=notice),
    ):
        assert len(chart(figure).subtitle) <= LONGEST
        assert notice in chart(figure).subtitle


def test_each_protocol_has_a_panel() -> None:
    figure = cap_figure(summary(), ["mean", "max", "sum"], config=CONFIG)
    assert [panel.title for panel in chart(figure).panels] == [
        "mean pooling", "max pooling", "sum pooling",
    ]  # fmt: skip
    assert len(drawn(figure)) == 9


def test_consistency_is_marked_at_the_rates() -> None:
    figure = consistency_figure(summary(), config=CONFIG)
    assert drawn(figure)[1] == ("FT (fine-tuning)", [0.25, 0.4], [66.0, 51.0])
    assert list(figure.layout.xaxis.tickvals) == [0.25, 0.4]
    assert figure.layout.xaxis.unifiedhovertitle.text == "replaced: %{x:.0%}"
    axes = paint(chart(figure)).axes[0]
    assert axes.get_xticks().tolist() == [0.25, 0.4]
    assert all(line.interval == "bars" for line in chart(figure).panels[0].lines)
    undefined = summary().assign(mean=float("nan"))
    with pytest.raises(InputError, match="no prompt was right before its words"):
        consistency_figure(undefined, config=CONFIG)


def test_cosines_stand_side_by_side() -> None:
    figure = representations_figure(summary(), config=CONFIG)
    assert [panel.title for panel in chart(figure).panels] == [
        "tokens of the same word", "tokens of different words",
    ]  # fmt: skip
    one = summary().query("metric != 'same_word_cosine'")
    assert len(chart(representations_figure(one, config=CONFIG)).panels) == 1


def test_a_long_training_has_whole_steps_on_its_axis() -> None:
    curve = pd.DataFrame({"version": "ft", "step": [5.0, 40_000.0], "mean": [5.0, 1.0]})
    curve = curve.assign(ci_low=curve["mean"], ci_high=curve["mean"], n_seeds=1)
    figure = training_figure(curve, config=CONFIG)
    assert figure.layout.xaxis.dtick == 5000
    assert figure.layout.xaxis.unifiedhovertitle.text == "step %{x}"
    assert chart(figure).subtitle.startswith("task mini-idm · one seed, no intervals")


def test_one_seed_one_layer_one_rate_can_be_drawn() -> None:
    frame = summary(1)
    frame = frame[(frame["layer"].fillna(0) == 0) & (frame["rate"].fillna(0.25) == 0.25)]
    for figure in (
        cap_figure(frame, ["average"], config={}),
        consistency_figure(frame, config={}),
        representations_figure(frame, config={}),
    ):
        assert png_bytes(chart(figure)).startswith(b"\x89PNG")
        assert all(line.low == line.y == line.high for line in chart(figure).panels[0].lines)


def test_other_charts_keep_their_layers_and_depths() -> None:
    line = Line("a", COMPARISON_STYLES[0], [0.0, 1.0], [0.1, 0.2], [0.1, 0.2], [0.1, 0.2], [5, 5])
    for is_share, name in ((False, "layer %{x}"), (True, "depth %{x:.0%}")):
        figure = draw(Chart("t", "s", "x", "y", [Panel([line], [])], is_share))
        assert figure.layout.xaxis.unifiedhovertitle.text == name
        assert figure.layout.xaxis.tickvals is None


def test_an_interval_of_percentages_is_drawn_as_far_as_it_is_possible() -> None:
    wide = summary().assign(low=-40.0, high=180.0, reference=0.0)
    for figure, most in ((cap_figure(wide, ["mean"], config=CONFIG), 1.0),
                         (consistency_figure(wide, config=CONFIG), 100.0)):  # fmt: skip
        assert isinstance(figure.chart, Chart)
        for line in figure.chart.panels[0].lines:
            assert set(line.low) == {0.0}
            assert set(line.high) == {most}
    cosines = representations_figure(wide, config=CONFIG).chart
    assert isinstance(cosines, Chart)
    assert set(cosines.panels[0].lines[0].low) == {-40.0}  # not a percentage
