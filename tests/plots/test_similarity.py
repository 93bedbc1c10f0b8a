"""Similarity figures: what is drawn is the frame, by both backends, and nothing covers anything."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from interp_compose.errors import InputError
from interp_compose.plots.chart import Chart
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.theme import PROTOCOL_STYLES
from interp_compose.studies.similarity.figures import (
    layers_figure,
    order_figure,
    similarity_comparison,
    similarity_figure,
)
from tests.plots.reading import paint

POOLINGS = ("mean", "max", "sum", "last", "first", "shuffled")
LABELS = [*POOLINGS[:3], "last (control)", "first (control)", "shuffled (control)"]
SUBSETS = {"all": (1627, 0.64, 0.025, 0.703), "mirror": (410, -0.08, 0.09, 0.358)}
CONFIG = {"model": "tiny", "task": "bird", "unit": "text", "embedding": "mean"}


def curve(
    poolings: tuple[str, ...] = POOLINGS,
    layers: int = 6,
    subsets: tuple[str, ...] = ("all", "mirror"),
    metrics: tuple[str, ...] = ("pearson", "spearman"),
) -> pd.DataFrame:
    """Numbers of a real run's size: tight on all pairs; wide, partly negative on mirror pairs."""
    rows = []
    for (i, pooling), k, subset in itertools.product(enumerate(poolings), range(layers), subsets):
        n, start, half, clean = SUBSETS[subset]
        row = {"layer": k, "depth": k / max(layers - 1, 1), "pooling": pooling, "subset": subset}
        for j, metric in enumerate(metrics):
            y = start + 0.02 * k + 0.011 * i - 0.1 * j
            row |= {metric: y, f"{metric}_low": y - half, f"{metric}_high": y + 1.1 * half}
            row |= {f"clean_{metric}": clean - 0.1 * j}
            change = y - row[f"clean_{metric}"]
            row |= {f"{metric}_diff_low": change - half, f"{metric}_diff_high": change + half}
            row |= {f"clean_{metric}_low": clean - half, f"clean_{metric}_high": clean + half}
        rows.append(row | {"n": n})
    return pd.DataFrame(rows)


def by_layer(subsets: tuple[str, ...] = ("all", "mirror")) -> pd.DataFrame:
    frame = curve(("mean",), 7, subsets).drop(columns="pooling")
    cosine = 0.98 - 0.02 * frame["layer"]
    return frame.assign(cosine=cosine, cosine_low=cosine - 0.03, cosine_high=cosine + 0.01)


def figure(frame: pd.DataFrame | None = None, **config: object) -> ChartFigure:
    frame = curve() if frame is None else frame
    return similarity_figure(frame, metric="pearson", config=CONFIG | config)


def comparison(labels: list[str]) -> ChartFigure:
    frames = {label: curve(("mean",), 5 + i) for i, label in enumerate(labels)}
    return similarity_comparison(frames, metric="pearson")


def chart(made: ChartFigure) -> Chart:
    assert made.chart is not None
    return made.chart


EVERY_FIGURE = {
    "similarity": figure,
    "one layer": lambda: figure(curve(layers=1)),
    "one subset": lambda: figure(curve(subsets=("all",))),
    "layers": lambda: layers_figure(by_layer(), metric="spearman", config=CONFIG),
    "order": lambda: order_figure(by_layer(), config=CONFIG),
    "comparison": lambda: comparison(["all-MiniLM-L6-v2", "bert-base-uncased", "gpt2"]),
}
every_figure = pytest.mark.parametrize("make", EVERY_FIGURE.values(), ids=EVERY_FIGURE)


# --- what is drawn -------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_the_chart_holds_the_frames_numbers(metric: str) -> None:
    frame = curve()
    shuffled_rows = frame.sample(frac=1, random_state=0).sort_values("subset", kind="stable")
    made = chart(similarity_figure(shuffled_rows, metric=metric, config=CONFIG))
    assert len(made.panels) == 2
    for panel, subset in zip(made.panels, SUBSETS, strict=True):
        assert {line.label for line in panel.lines} == set(LABELS)
        for line in panel.lines:
            pooling = line.label.removesuffix(" (control)")
            rows = frame[(frame["pooling"] == pooling) & (frame["subset"] == subset)]
            assert line.x == list(range(6))
            assert line.y == rows[metric].tolist()
            clean = rows[f"clean_{metric}"]
            assert line.low == (clean + rows[f"{metric}_diff_low"]).tolist()
            assert line.high == (clean + rows[f"{metric}_diff_high"]).tolist()
            assert line.n == [SUBSETS[subset][0]] * 6
        level = panel.levels[-1]
        first = frame[frame["subset"] == subset].iloc[0]
        assert (level.label, level.y) == ("clean", first[f"clean_{metric}"])
        assert f"{first[f'clean_{metric}_low']:.3f}, ".replace("-", "−") in panel.title


@every_figure
def test_both_pens_draw_the_chart(make: object) -> None:
    made = make()
    with mpl.rc_context():
        mpl.rcdefaults()
        all_axes = paint(chart(made)).axes
    panels = chart(made).panels
    assert len(all_axes) == len(panels)
    for i, (panel, axes) in enumerate(zip(panels, all_axes, strict=True)):
        name = f"y{i + 1}" if i else "y"
        traces = [t for t in made.data if t.yaxis == name and t.customdata is not None]
        shapes = [s for s in made.layout.shapes if s.yref == name]
        drawn = [
            art for art in axes.lines if len(art.get_xdata()) != 2 or art.get_marker() != "None"
        ]
        assert len(traces) == len(drawn) == len(panel.lines)
        for line, trace, art in zip(panel.lines, traces, drawn, strict=True):
            assert list(trace.x) == list(art.get_xdata()) == list(line.x)
            assert list(trace.y) == list(art.get_ydata()) == list(line.y)
            ends = [
                [low, high, n] for low, high, n in zip(line.low, line.high, line.n, strict=True)
            ]
            assert [list(row) for row in trace.customdata] == ends
        lines = [shape.y0 for shape in shapes if shape.type == "line"]
        assert lines == [level.y for level in panel.levels]
        assert axes.get_ylim() == pytest.approx(chart(made).y_range)
        assert made.layout[f"yaxis{i + 1}" if i else "yaxis"].range == chart(made).y_range


def test_poolings_have_bands_and_controls_bars() -> None:
    made = figure(curve(("mean", "last", "first")))
    unnamed = [t for t in made.data if not t.name]
    bands = [t for t in unnamed if t.fill == "toself"]
    bars = [t for t in unnamed if t.fill is None]
    assert {t.fillcolor for t in bands} == {PROTOCOL_STYLES["mean"].colour}
    assert {t.line.color for t in bars} == {PROTOCOL_STYLES[p].colour for p in ("last", "first")}
    assert (len(bands), len(bars)) == (2, 2 * 2)
    for panel, two in zip(chart(made).panels, (bars[:2], bars[2:]), strict=True):
        controls = [line for line in panel.lines if line.label.endswith("(control)")]
        for line, trace in zip(controls, two, strict=True):
            assert trace.y[0::3] == tuple(line.low)
            assert trace.y[1::3] == tuple(line.high)
            assert set(trace.y[2::3]) == set(trace.x[2::3]) == {None}
        xs = np.array([trace.x[0::3] for trace in two])
        assert np.all(np.diff(xs, axis=0) > 0.05)  # beside each other
        assert np.all(np.abs(xs - np.arange(6)) < 0.1)  # at their layer
    first = next(t for t in made.data if t.name == "first (control)")
    assert not first.error_y.visible
    crowded = figure()
    fills = [t.fillcolor for t in crowded.data if not t.name]
    assert fills == [PROTOCOL_STYLES["mean"].colour] * 2  # one band a panel, and no bars


def test_labels_stand_beside_the_last_panel_in_both_pens() -> None:
    made = figure()
    beside = [a for a in made.layout.annotations if a.showarrow]
    assert [a.text for a in beside] == [*LABELS, "clean"]
    assert {(a.xref, a.yref, a.axref, a.ayref) for a in beside} == {("x2", "y2", "x2", "y2")}
    with mpl.rc_context():
        mpl.rcdefaults()
        first, last = paint(chart(made)).axes
    assert [text.get_text() for text in first.texts] == []
    assert [text.get_text() for text in last.texts] == [*LABELS, "clean"]


def test_levels_are_in_a_layer_that_plotly_draws() -> None:
    """plotly leaves out shapes "between" grid and traces that span the width of the plot."""
    for make in EVERY_FIGURE.values():
        assert {shape.layer for shape in make().layout.shapes} <= {"above", "below"}


def test_one_layer_is_points_with_bars() -> None:
    made = figure(curve(layers=1))
    assert len(made.data) == 2 * 6
    assert all(trace.error_y.visible for trace in made.data)
    assert [t.error_y.arrayminus[0] for t in made.data[:6]] == pytest.approx([0.025] * 6)
    assert [t.error_y.array[0] for t in made.data[6:]] == pytest.approx([0.09] * 6)
    assert len({trace.x[0] for trace in made.data[:6]}) == 6
    with mpl.rc_context():
        mpl.rcdefaults()
        axes = paint(chart(made)).axes[0]
        low, high = axes.get_xlim()
        assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [0]


def test_everything_lies_in_the_range_negative_numbers_too() -> None:
    frame = curve()
    low, high = chart(figure(frame)).y_range
    assert frame["pearson_low"].min() < -0.1
    assert low < frame["pearson_low"].min()
    assert high > frame["clean_pearson_high"].max()
    assert high - low < 1.2 * (frame["clean_pearson_high"].max() - frame["pearson_low"].min())
    above_zero = frame[frame["subset"] == "all"]
    assert chart(figure(above_zero)).y_range[0] < 0  # the line at no correlation can be seen


def test_titles_say_what_was_measured() -> None:
    made = chart(figure(unit="word"))
    assert made.title == "tiny: agreement with people when each word is pooled"
    for part in ("task bird", "unit word", "embedding mean", "95 % bootstrap intervals"):
        assert part in made.subtitle
    assert [panel.title for panel in made.panels] == [
        "all 1627 pairs · clean 0.703 [0.678, 0.728]",
        "mirror pairs (410) · clean 0.358 [0.268, 0.448]",
    ]
    assert made.x_title == "layer at which each word is pooled (0 = embeddings)"
    assert made.y_title == "Pearson correlation with people's ratings"
    assert "agreement" in figure(model="a-long-organisation/" + "m" * 60).layout.title.text
    depth = similarity_figure(curve(), metric="pearson", config=CONFIG, normalised_depth=True)
    assert "100 % = last block" in chart(depth).x_title
    assert chart(depth).panels[0].lines[0].x == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


def test_auc_is_compared_with_chance_and_correlation_with_zero() -> None:
    frame = curve(subsets=("all",), metrics=("auc",))
    made = chart(similarity_figure(frame, metric="auc", config={}))
    assert (made.panels[0].levels[0].label, made.panels[0].levels[0].y) == ("chance", 0.5)
    assert made.y_title == "ROC AUC against people's labels"
    assert made.title.startswith("Model: agreement with people when each text")
    assert chart(figure()).panels[0].levels[0].y == 0


def test_intervals_are_announced_where_there_are_some() -> None:
    frame = curve(layers=3)
    told = "95 % bootstrap intervals of the difference to clean, the same pairs"
    assert told in chart(figure(frame)).subtitle
    ends = [name for name in frame if name.startswith("pearson_")]
    none = chart(figure(frame.assign(**dict.fromkeys(ends, np.nan)))).subtitle
    assert none.endswith("too few pairs for intervals")


def test_undefined_numbers_have_no_point() -> None:
    """Without positions AB and BA pool to the same vector: their cosines do not vary."""
    frame = curve(layers=3)
    mirror, first = frame["subset"] == "mirror", frame["layer"] == 0
    frame.loc[mirror & first, "pearson"] = np.nan
    assert chart(figure(frame)).panels[1].lines[0].x == [1, 2]
    assert chart(figure(frame)).panels[0].lines[0].x == [0, 1, 2]
    frame.loc[mirror, "clean_pearson"] = np.nan
    assert chart(figure(frame)).panels[1].title == "mirror pairs (410) · clean: undefined"
    assert np.isfinite(chart(figure(frame)).y_range).all()
    frame.loc[mirror, "pearson"] = np.nan
    assert len(chart(figure(frame)).panels) == 1
    with pytest.raises(InputError, match=r"pearson is undefined \(NaN\) everywhere.*that differ"):
        figure(frame.assign(pearson=np.nan))


# --- the other read-outs -------------------------------------------------------------------------


def test_layers_has_one_line_per_subset() -> None:
    frame = by_layer()
    made = chart(layers_figure(frame, metric="spearman", config=CONFIG))
    (panel,) = made.panels
    assert [line.label for line in panel.lines] == ["all 1627 pairs", "mirror pairs (410)"]
    for line, subset in zip(panel.lines, SUBSETS, strict=True):
        rows = frame[frame["subset"] == subset]
        assert line.x == list(range(7))
        assert line.y == rows["spearman"].tolist()
        assert line.low == rows["spearman_low"].tolist()
    assert made.x_title == "layer that is read (0 = embeddings, 6 = after the last block)"


def test_order_is_the_cosine_of_mirror_pairs() -> None:
    made = chart(order_figure(by_layer(), config=CONFIG))
    (panel,) = made.panels
    (line,) = panel.lines
    assert line.y == pytest.approx([0.98 - 0.02 * k for k in range(7)])
    assert line.low == pytest.approx([0.95 - 0.02 * k for k in range(7)])
    assert line.n == [410] * 7
    assert "mirror pairs (410)" in made.subtitle
    assert [(level.label, level.y) for level in panel.levels] == [("order ignored", 1.0)]
    with pytest.raises(InputError, match=r"no mirror pairs \(AB and BA\).*subsets are all\. Pass"):
        order_figure(by_layer(("all",)), config=CONFIG)


def test_comparison_shows_the_subsets_that_all_have() -> None:
    made = chart(comparison(["a", "b"]))
    assert [panel.title for panel in made.panels] == ["all 1627 pairs", "mirror pairs (410)"]
    assert made.title == "Agreement with people, mean pooling"
    for panel in made.panels:
        assert [line.label for line in panel.lines] == ["a", "b"]
        assert [len(line.x) for line in panel.lines] == [5, 6]
        assert [line.x[-1] for line in panel.lines] == [1, 1]
        clean = panel.levels[1:]
        assert [level.style.dash for level in clean] == ["dot", "dot"]
        assert [level.style.colour for level in clean] == [
            line.style.colour for line in panel.lines
        ]
    frames = {"a": curve(("sum",)), "b": curve(("sum",), subsets=("all",)).assign(n=99)}
    mixed = chart(similarity_comparison(frames, metric="pearson", normalised_depth=False))
    assert [panel.title for panel in mixed.panels] == ["all pairs"]
    assert mixed.title == "Agreement with people, sum pooling"
    assert mixed.panels[0].lines[1].x == list(range(6))
