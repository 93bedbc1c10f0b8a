"""Labels that do not cover each other, text that stays text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from interp_compose.plots.canvas import PIXELS, lines_of
from interp_compose.plots.chart import Chart, Line, Panel, short, short_each, spread
from interp_compose.plots.describe import scene_of
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import draw, harmless
from interp_compose.plots.theme import COMPARISON_STYLES, PROTOCOL_STYLES, styles_of

heights = st.lists(st.floats(0, 1), min_size=1, max_size=9)


@given(heights)
def test_spread_keeps_distance_order_and_limits(wanted: list[float]) -> None:
    gap = 0.1
    placed = spread(wanted, gap, 0.0, 1.0)
    assert all(-1e-9 <= y <= 1 + 1e-9 for y in placed)
    for (a, ya), (b, yb) in itertools.combinations(zip(wanted, placed, strict=True), 2):
        assert abs(ya - yb) >= gap - 1e-9
        assert (a < b) <= (ya < yb)


def test_spread_moves_as_little_as_may_be() -> None:
    assert spread([0.2, 0.5], 0.1, 0.0, 1.0) == [0.2, 0.5]
    assert spread([0.5, 0.5, 0.5], 0.1, 0.0, 1.0) == pytest.approx([0.4, 0.5, 0.6])
    assert spread([0.98, 1.0], 0.1, 0.0, 1.0) == pytest.approx([0.9, 1.0])
    assert spread([0.0, 0.01], 0.1, 0.0, 1.0) == pytest.approx([0.0, 0.1])


@pytest.mark.parametrize(("second", "is_apart"), [([0.0, 1.0], False), ([0.1, 1.1], True)])
def test_bars_stand_apart_only_where_points_do_not(second: list[float], is_apart: bool) -> None:
    level, n = [0.5, 0.5], [9, 9]
    both = [[0.0, 1.0], second]
    lines = [Line("", COMPARISON_STYLES[0], x, level, level, level, n, "bars") for x in both]
    chart = Chart("", "", "", "", panels=[Panel(lines, [])])
    left, right = chart.x_range
    step = 0.0 if is_apart else 0.1 * (right - left)
    found = [places for _, places in chart.bar_places(chart.panels[0], share=0.1)]
    assert found[0] == pytest.approx([x - step / 2 for x in both[0]])
    assert found[1] == pytest.approx([x + step / 2 for x in both[1]])


def test_categories_are_named_by_their_own_texts() -> None:
    level, n = [0.5, 0.5], [9, 9]
    for x, mode in (([0.0, 1.0], "x unified"), ([0.1, 1.1], "closest")):
        line = Line("a", COMPARISON_STYLES[0], x, level, level, level, n, "bars")
        figure = draw(Chart("", "", "", "", [Panel([line], [])], categories=["one", "two\nlines"]))
        axis = figure.layout.xaxis
        assert (axis.tickvals, axis.ticktext) == ((0.0, 1.0), ("one", "two<br>lines"))
        # without a title of its own plotly's hover has the text of a tick, and no number
        assert axis.unifiedhovertitle.text is None
        assert figure.layout.hovermode == mode


def test_short_keeps_both_ends() -> None:
    assert short("x" * 32) == "x" * 32
    assert short("begin" + "-" * 99 + "end", 11) == "begin…--end"
    assert all(len(short("y" * n, 10)) <= 10 for n in range(40))


@given(st.lists(st.text("ab", min_size=1, max_size=30), max_size=9), st.integers(8, 20))
def test_labels_that_differ_stay_apart_when_they_are_cut(labels: list[str], longest: int) -> None:
    cut = short_each(labels, longest)
    assert len({*cut}) == len({*labels})
    assert all(len(label) <= longest for label in cut)
    assert [
        k for k, label in enumerate(cut) if len(labels[k]) <= longest and label != labels[k]
    ] == []


def test_rows_of_a_narrow_map_stay_apart() -> None:
    rows = ["validation loss of the large model", "validation loss at a large model", "b", "b"]
    values = [[1.0]] * 4
    scene = scene_of(HeatMap("", "", "", "", ["0"], rows, values, "n"), 2.0 * PIXELS)
    shown = [text for _, text in scene.axes[0].y.ticks or ()]
    assert len({*shown}) == 3
    assert shown[0].endswith(" (1)")
    assert shown[1].endswith(" (2)")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a<b>c</b>", "a&lt;b&gt;c&lt;/b&gt;"),
        ("&lt;", "&amp;lt;"),
        ("%{y} $x$", "%&#123;y} &#36;x&#36;"),
        ("two\n  lines\t", "two lines"),
        ("bell\x07\u202e", "bell\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
        ("naïve 한국어", "naïve 한국어"),
    ],
)
def test_harmless(text: str, shown: str) -> None:
    assert harmless(text) == shown


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("style", [*PROTOCOL_STYLES.values(), *COMPARISON_STYLES])
def test_labels_can_be_read_on_white(style: object) -> None:
    """WCAG contrast, at least 3:1 as for large text."""
    assert 1.05 / (luminance(style.text_colour) + 0.05) >= 3


def test_each_name_has_a_style_of_its_own_until_they_return() -> None:
    names = [*"abcdefga", "h"]
    styles = styles_of(names)
    assert list(styles) == [*"abcdefgh"]
    assert [*styles.values()] == [*COMPARISON_STYLES, COMPARISON_STYLES[0]]


def test_lines_differ_without_colour() -> None:
    names = ("mean", "max", "sum", "last", "first", "straddling", "shuffled")
    assert len({PROTOCOL_STYLES[name].marker for name in names}) == len(names)
    assert len({style.marker for style in COMPARISON_STYLES}) == len(COMPARISON_STYLES)


def test_lines_are_not_broken_in_short_parentheses_or_before_a_per_cent_sign() -> None:
    text = "layer of pooling (0 = embeddings)"
    assert lines_of(text, 22) == ["layer of pooling", "(0 = embeddings)"]
    assert lines_of("bands: 95 % intervals", 10) == ["bands:", "95 %", "intervals"]
    assert lines_of(text, 99) == [text]


@given(st.text("ab cd%()", max_size=60), st.integers(1, 40))
def test_even_lines_are_as_few_break_no_more_words_and_none_is_longer(text: str, most: int) -> None:
    usual, even = lines_of(text, most), lines_of(text, most, even=True)
    assert len(even) == len(usual)
    assert "".join("".join(even).split()) == "".join("".join(usual).split())
    assert max(map(len, even), default=0) <= max(map(len, usual), default=0)


def test_even_lines_leave_no_word_alone() -> None:
    text = "init rate, phase below (0: not fitted, 2: commutative)"
    assert lines_of(text, 44) == ["init rate, phase below (0: not fitted, 2:", "commutative)"]
    even = ["init rate, phase below (0:", "not fitted, 2: commutative)"]
    assert lines_of(text, 44, even=True) == even
