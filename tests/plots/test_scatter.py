"""Scatters: every point in its place and colour, one legend, panels without points say so."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from PIL import Image

from interp_compose.errors import InputError
from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.chart import short
from interp_compose.plots.describe import scene_of
from interp_compose.plots.heatmap_scale import luminance
from interp_compose.plots.interactive import draw
from interp_compose.plots.scatter import (
    SHADES,
    TWINS,
    Group,
    Scatter,
    ScatterPanel,
    pair_styles,
)
from interp_compose.plots.scatter_layout import LEFT
from interp_compose.plots.theme import BLUE, VERMILLION, Style
from tests.plots.reading import paint, png_bytes, visible_texts

NAN = float("nan")
BLUES, REDS = Style(BLUE, "circle"), Style(VERMILLION, "square")
PAIRS = list(itertools.product("abcd", repeat=2))


def scatter(*panels: ScatterPanel, **changes: Any) -> Scatter:
    named = {"title": "outputs", "subtitle": "t-SNE", "x_title": "first", "y_title": "second"}
    return Scatter(**(named | changes), panels=panels or [panel()])


def panel(**changes: Any) -> ScatterPanel:
    groups = [
        Group("(a, b)", BLUES, [0.0, 1.0, NAN], [0.0, 10.0, 5.0]),
        Group("(b, a)", REDS, [2.0, 3.0], [4.0, -6.0], ["", "17"]),
    ]
    return replace(ScatterPanel(groups, "phase 1"), **changes)


def clouds(title: str, scale: float = 1.0, n: int = 25) -> ScatterPanel:
    """Sixteen pairs of anchors, 25 points each."""
    rng = random.Random(title)
    styles = pair_styles(PAIRS)
    groups = []
    for pair in PAIRS:
        points = [[scale * rng.gauss(0, 1) for _ in range(n)] for _ in range(2)]
        groups.append(Group(f"({pair[0]}, {pair[1]})", styles[pair], points[0], points[1]))
    return ScatterPanel(groups, title)


def tokens() -> ScatterPanel:
    places = [float(k) for k in range(20, 100, 4)]
    texts = [f"{place:.0f}" for place in places]
    return ScatterPanel([Group("", BLUES, places, places[::-1], texts)], "phase 3")


def crowded() -> ScatterPanel:
    rng = random.Random(0)
    x, y = ([rng.gauss(0, 1) for _ in range(80)] for _ in range(2))
    return ScatterPanel([Group("", BLUES, x, y, [str(20 + k) for k in range(80)])], "phase 1")


def nothing() -> ScatterPanel:
    return ScatterPanel([Group("(a, b)", BLUES, [NAN], [NAN])], "phase 2")


EVERY_SCATTER: dict[str, Callable[[], Scatter]] = {
    "pairs": lambda: scatter(
        clouds("phase 1"), clouds("phase 2, with commutativity (γ 0.6)", 1e-4), clouds("3", 1e6)
    ),
    "two panels": lambda: scatter(clouds("phase 1"), clouds("phase 2", 40)),
    "tokens": lambda: scatter(tokens(), tokens()),
    "crowded": lambda: scatter(crowded(), tokens()),
    "gaps": lambda: scatter(panel(), nothing(), ScatterPanel([])),
    "one point": lambda: scatter(ScatterPanel([Group("a", BLUES, [0.0], [7.5])])),
    "long": lambda: scatter(
        panel(title="long " * 40), title="long " * 40, subtitle="long " * 60,
    ),
    "many names": lambda: scatter(
        ScatterPanel([Group(f"group {k} " * 9, BLUES, [float(k)], [1.0]) for k in range(30)])
    ),
}  # fmt: skip


# --- what is drawn -------------------------------------------------------------------------------


def test_points_are_markers_or_their_texts_and_gaps_are_left_out() -> None:
    blue, red, text, *keys = draw(scatter()).data
    assert (list(blue.x), list(blue.y), blue.mode) == ([0, 1], [0, 10], "markers")
    assert (list(red.x), list(red.y), red.mode) == ([2], [4], "markers")
    assert (list(text.x), list(text.y), list(text.text)) == ([3], [-6], ["17"])
    assert (blue.marker.color, red.marker.symbol) == (BLUE, "square")
    assert [key.name for key in keys] == ["(a, b)", "(b, a)"]
    assert [key.marker.color for key in keys] == [BLUE, VERMILLION]
    assert panel().heading == "phase 1 · 1 not measured"


def test_hover_names_group_text_and_place() -> None:
    blue, _, text, *_ = draw(scatter()).data
    assert blue.hovertemplate == "(a, b)<br>(%{x:.3g}, %{y:.3g})<extra></extra>"
    assert text.hovertemplate == "%{text} (b, a)<br>(%{x:.3g}, %{y:.3g})<extra></extra>"


def test_a_text_that_would_cover_another_is_a_dot_that_the_hover_names() -> None:
    dots, texts = draw(scatter(crowded())).data
    assert (dots.mode, texts.mode) == ("markers", "text")
    assert len(dots.x) > 5
    assert len(dots.x) + len(texts.x) == 80
    (group,) = crowded().groups
    of_place = {(float(f"{x:.5g}"), float(f"{y:.5g}")): text for x, y, text in group.measured}
    assert [of_place[at] for at in zip(dots.x, dots.y, strict=True)] == [
        text for (text,) in dots.customdata
    ]
    assert texts.text[0] == "20"  # the first of each that would overlap
    subtitles = [draw(scatter(one)).layout.title.subtitle.text for one in (crowded(), tokens())]
    assert subtitles == ["t-SNE · dots: points whose text has no room", "t-SNE"]


def test_each_panel_has_axes_of_its_own() -> None:
    figure = draw(scatter(clouds("a"), clouds("b", 100)))
    assert figure.layout.xaxis2.range[1] > 50 * figure.layout.xaxis.range[1]
    assert figure.layout.xaxis.matches is None
    assert {trace.xaxis for trace in figure.data[16:32]} == {"x2"}
    first, second = figure.layout.xaxis.domain, figure.layout.xaxis2.domain
    assert 0 == first[0] < first[1] < second[0] < second[1] == pytest.approx(1)
    assert first[1] - first[0] == pytest.approx(second[1] - second[0])


def test_one_legend_serves_all_panels() -> None:
    figure = draw(scatter(clouds("a"), clouds("b")))
    keys = [trace for trace in figure.data if trace.showlegend]
    assert [key.name for key in keys] == [f"({a}, {b})" for a, b in PAIRS]
    for key in keys:
        assert sum(trace.legendgroup == key.legendgroup for trace in figure.data) == 3
    assert draw(scatter(tokens())).layout.showlegend is False


def test_a_panel_without_points_says_so() -> None:
    figure = draw(EVERY_SCATTER["gaps"]())
    said = [a.xref for a in figure.layout.annotations if a.text == "not measured"]
    assert said == ["x2 domain", "x3 domain"]
    assert {trace.xaxis for trace in figure.data} >= {"x", "x2", "x3"}  # else no axes are drawn
    painted = paint(EVERY_SCATTER["gaps"](), 100)
    assert [t.get_text() for t in visible_texts(painted)].count("not measured") == 2


def test_the_static_scatter_has_each_point_in_its_place() -> None:
    made = scatter(panel(), panel())
    boxes = [axes.box for axes in scene_of(made).axes]
    picture = Image.open(io.BytesIO(png_bytes(made))).convert("RGB")
    one = made.panels[0]
    for k, (x, y, colour) in itertools.product(
        range(2), [(0.0, 0.0, BLUE), (1.0, 10.0, BLUE), (2.0, 4.0, VERMILLION)]
    ):
        across = (x - one.x_range[0]) / (one.x_range[1] - one.x_range[0])
        up = (y - one.y_range[0]) / (one.y_range[1] - one.y_range[0])
        left, top, wide, high = boxes[k]
        at_x = left + across * wide
        at_y = top + (1 - up) * high
        scale = 160 / PIXELS
        found = picture.getpixel((round(at_x * scale), round(at_y * scale)))[:3]
        wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        # 85 % of the colour, the rest white or grid
        assert found == pytest.approx([0.85 * w + 0.15 * 255 for w in wanted], abs=6)


def test_three_panels_are_wider_than_two() -> None:
    widths = [scene_of(scatter(*[clouds("a")] * n)).width for n in (1, 2, 3, 4)]
    assert widths[0] == widths[1] < widths[2] < widths[3]
    scene = scene_of(scatter(*[clouds("a")] * 3))
    left, _, width, _ = scene.box
    assert left == LEFT
    assert left + width == pytest.approx(scene.keys[0].x)
    assert max(key.x for key in scene.keys) < scene.width


# --- colours -------------------------------------------------------------------------------------


def test_symmetric_pairs_share_a_hue_in_two_shades() -> None:
    styles = pair_styles(PAIRS)
    assert len({(style.colour, style.marker) for style in styles.values()}) == 16
    for a, b in PAIRS:
        if a < b:
            shades = (styles[a, b].colour, styles[b, a].colour)
            assert shades in SHADES
            assert luminance(shades[0]) < luminance(shades[1]) / 1.8
            assert styles[a, b].marker == styles[b, a].marker
        elif a == b:
            assert styles[a, b] in TWINS


def test_the_first_order_seen_is_the_dark_one() -> None:
    styles = pair_styles([("d", "c"), ("c", "d"), ("d", "c")])
    assert [style.colour for style in styles.values()] == list(SHADES[0])
    assert list(styles) == [("d", "c"), ("c", "d")]


@given(st.permutations(PAIRS))
def test_styles_differ_in_every_order(pairs: list[tuple[str, str]]) -> None:
    styles = pair_styles(pairs)
    assert list(styles) == pairs
    assert len(set(styles.values())) == 16


def test_hues_return_with_another_marker() -> None:
    pairs = [("z", k) for k in range(len(SHADES) + 1)]
    styles = list(pair_styles(pairs).values())
    assert styles[-1].colour == styles[0].colour
    assert styles[-1].marker != styles[0].marker


# --- room and files ------------------------------------------------------------------------------


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ([], r"a scatter of no panels; pass at least one"),
        ([[Group("a", BLUES, [1.0], [])]], r"group 'a' has 1 x, 0 y and 0 texts; expected as many"),
        ([[Group("a", BLUES, [1.0], [1.0], ["", ""])]], r"group 'a' has 1 x, 1 y and 2 texts"),
        ([[Group("a", BLUES, [1.0], [float("inf")])]], r"group 'a' has a point at inf; expected f"),
        ([[Group("a", BLUES, [], [])] * 2], r"group 'a' is twice in one panel; join them"),
        ([[Group("a", BLUES, [], [])], [Group("a", REDS, [], [])]], r"group 'a' has two styles; "),
    ],
)
def test_what_is_no_scatter_is_refused(panels: list[list[Group]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Scatter("t", "s", "x", "y", [ScatterPanel(groups) for groups in panels])


def test_long_names_are_shortened_and_keep_apart() -> None:
    made = EVERY_SCATTER["many names"]()
    keys = [trace for trace in draw(made).data if trace.showlegend]
    assert keys[3].name == short("group 3 " * 9, 24).strip()
    assert len({key.legendgroup for key in keys}) == 30
