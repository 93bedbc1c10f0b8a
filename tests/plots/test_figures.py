"""Figures as files and in notebooks: complete, offline, small, and deaf to hostile names."""

from __future__ import annotations

import copy
import io
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from interp_compose.errors import InputError, OptionError
from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.chart import Chart
from interp_compose.plots.describe import scene_of
from interp_compose.plots.export import LARGER, SCRIPT, page_bytes, page_files
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.static import painted
from interp_compose.plots.theme import LEADER
from interp_compose.studies.cap.figures import comparison_figure, curve_figure
from interp_compose.studies.saved import compare
from tests.plots.reading import HOSTILE, Tags
from tests.plots.test_matrices import EVERY_GRID

POOLINGS = ("mean", "max", "sum", "last", "shuffled")


def frame(
    poolings: tuple[str, ...] = POOLINGS, layers: int = 12, scale: float = 1, clean: float = 0.5
) -> pd.DataFrame:
    rows = [
        {
            "layer": k,
            "depth": k / max(layers - 1, 1),
            "pooling": p,
            "accuracy": scale * (k + i) / 40,
        }
        for i, p in enumerate(poolings)
        for k in range(layers)
    ]
    made = pd.DataFrame(rows).assign(n=400)
    change = made["accuracy"] - clean
    return made.assign(reference=clean, low=change - 0.03 * scale, high=change + 0.03 * scale)


def curve(model: str = "tiny", **changes: object) -> ChartFigure:
    return curve_figure(
        frame(**changes),
        n_affected=390,
        config={"model": model, "task": "mini-idm", "unit": "word"},
        normalised_depth=False,
    )


def comparison(labels: list[str]) -> ChartFigure:
    frames = {label: frame(("mean",), 5 + i) for i, label in enumerate(labels)}
    return comparison_figure(frames, how="mean pooling", normalised_depth=True)


def facets() -> Chart:
    """A panel for each of five poolings, as results are compared."""
    found = compare.facets({"tiny": curve().chart, "large": curve("large").chart})
    assert found is not None
    assert len(found.panels) == 5
    return found


def test_many_panels_stand_in_rows() -> None:
    """Three at most in each; the labels are within what the last row leaves blank."""
    scene = scene_of(facets())
    assert scene.width <= 1340
    left, top, across, high = zip(*(axes.box for axes in scene.axes), strict=True)
    assert list(left[:2]) == list(left[3:])
    assert top[0] == top[2] < top[3] - high[0]
    assert len({*across}) == 1
    assert len(scene.labels) == 2
    alone, four = (scene_of(replace(facets(), panels=facets().panels[:n])) for n in (1, 4))
    assert alone.width < four.width < scene.width
    assert four.axes[2].box[0] == four.axes[0].box[0]


def test_html_is_self_contained_and_repeatable(tmp_path: Path) -> None:
    page = curve().save(tmp_path / "a" / "f.html").read_text()
    tags = Tags(page).tags
    assert [tag for tag, _ in tags].count("script") >= 2
    assert not [attrs for _, attrs in tags if "src" in attrs or "href" in attrs]
    assert get_plotlyjs() in page
    assert page == curve().save(tmp_path / "g.html").read_text()


def test_pages_of_one_folder_share_one_copy_of_plotly() -> None:
    """In a file whose name has its version."""
    files = page_files({"one": curve(), "two": curve("large")})
    assert set(files) == {"one.html", "two.html", SCRIPT}
    assert get_plotlyjs_version() in SCRIPT
    assert files[SCRIPT].decode() == get_plotlyjs()
    for name in ("one.html", "two.html"):
        assert [a["src"] for tag, a in Tags(files[name].decode()).tags if "src" in a] == [SCRIPT]
        assert len(files[name]) < 100_000
    assert page_files({}) == {}


def test_a_page_is_named_by_what_it_shows() -> None:
    page = page_bytes(curve("a <b>& c")).decode()
    title = "a &lt;b&gt;&amp; c: accuracy when tokens are pooled · task mini-idm"
    assert f"<title>{title}</title>" in page
    assert "<title></title>" in page_bytes(ChartFigure()).decode()


def test_a_figure_s_repr_says_what_it_is_in_a_line() -> None:
    """Not its data; with a title that was changed."""
    title = "tiny: accuracy when tokens are pooled"
    assert repr(curve()) == f"ChartFigure({title!r}, line chart, 1 panel of 5 lines)"
    grid = draw(EVERY_GRID["12 columns"]()).update_layout(title="a &amp;<br>b")
    assert str(grid).startswith("ChartFigure('a & b', matrices, ")
    assert str(grid).endswith(" 12 columns)")
    assert repr(copy.deepcopy(curve())).endswith(" traces)")
    assert len(str({"cap_curve": curve()})) < 200


def test_html_offers_no_upload(tmp_path: Path) -> None:
    page = curve().save(tmp_path / "f.html").read_text()
    config = page[page.rindex('"displaylogo"') - 2 : page.rindex("</script>")]
    assert '"showSendToCloud": false' in config
    assert "http" not in config


@pytest.mark.parametrize("name", HOSTILE)
def test_text_past_our_escaping_adds_no_tag_to_the_page(tmp_path: Path, name: str) -> None:
    figures = curve("model"), curve("model").update_layout(title_text=name)
    good, bad = (one.save(tmp_path / "f.html").read_text() for one in figures)
    assert Tags(bad).tags == Tags(good).tags


def test_hover_gives_interval_and_count() -> None:
    trace = next(t for t in curve().data if t.name == "max")
    assert list(trace.customdata[2]) == pytest.approx([3 / 40 - 0.03, 3 / 40 + 0.03, 400])
    for part in ("%{y:", "%{customdata[0]:", "%{customdata[1]:", "n = %{customdata[2]}"):
        assert part in trace.hovertemplate


def test_of_many_bands_one_is_drawn_and_the_hover_has_all(tmp_path: Path) -> None:
    figure, few = curve(), curve(poolings=POOLINGS[:3])
    assert [sum(trace.fill == "toself" for trace in one.data) for one in (figure, few)] == [1, 3]
    (band,) = (trace for trace in figure.data if trace.fill == "toself")
    assert band.fillcolor == "#0072B2"
    shown = "band of mean: 95 % intervals of the difference to clean, paired by example"
    assert f"several tokens · {shown}" in figure.chart.subheading
    assert few.chart.subheading == few.chart.subtitle
    bare = replace(figure.chart, subtitle="")
    assert bare.subheading == "band of mean alone"
    (panel,) = figure.chart.panels
    points = [replace(line, low=line.y, high=line.y) for line in panel.lines]
    of_one_seed = replace(figure.chart, panels=[replace(panel, lines=points)])
    assert of_one_seed.subheading == of_one_seed.subtitle
    assert of_one_seed.panels[0].banded == []
    lines = [replace(line, low=line.y, high=line.y) for line in panel.lines[:2]] + [
        *panel.lines[2:]
    ]
    assert replace(panel, lines=lines).banded == lines[2:]  # two without one leave room for three
    assert sum(trace.customdata is not None for trace in figure.data) == 5
    clean = figure.data[-1]
    assert (clean.name, set(clean.y), list(clean.x)) == ("clean", {0.5}, list(range(12)))


def test_leaders_to_names_are_no_data() -> None:
    assert {note.arrowcolor for note in curve().layout.annotations} == {LEADER}


def test_a_leader_keeps_off_a_marker_and_touches_a_level() -> None:
    chart = curve().chart
    assert chart is not None
    names = painted(scene_of(chart, None)).axes[-1].texts
    gaps = {name.get_text().split()[0]: name.arrow_patch.shrinkB for name in names}  # type: ignore[attr-defined]
    assert gaps.pop("clean") == 0
    assert set(gaps.values()) == {4}


def test_a_page_of_lines_is_as_high_as_its_window() -> None:
    assert "height" not in drawn_on(page_bytes(curve()))[-1]["layout"]
    assert curve().layout.height > 400  # in a notebook


def drawn_on(page: bytes) -> list[dict[str, Any]]:
    """The figure's layouts, for narrow windows first."""
    found = re.search(r'<script type="application/json" id="drawn">(.*?)</script>', page.decode())
    assert found
    return list(json.loads(found[1])["layouts"])


def test_a_page_has_the_figure_for_windows_of_three_widths() -> None:
    """Panels below each other, and names below them, where they have no room side by side."""
    phone, tablet, usual = drawn_on(page_bytes(draw(facets())))
    assert [one["from"] for one in (phone, tablet, usual)] == [0, 640, 900]
    starts = [
        len({tuple(axis["domain"]) for name, axis in one["layout"].items() if name[:5] == "xaxis"})
        for one in (phone, tablet, usual)
    ]
    assert starts[0] < starts[2] == 3
    names = [note["text"] for note in phone["layout"]["annotations"]]
    assert {"tiny", "large"} <= set(names)
    assert phone["layout"]["dragmode"] is False
    assert not phone["layout"]["showlegend"]
    samples = [one for one in phone["layout"]["shapes"] if one.get("xsizemode") == "pixel"]
    assert len(samples) == 2
    assert not any("width" in one["layout"] for one in (phone, tablet, usual))


def test_a_figure_too_wide_for_a_phone_scrolls_there() -> None:
    """What it has room for is the first of its layouts, in all narrower windows."""
    layouts = drawn_on(page_bytes(draw(EVERY_GRID["12 columns"]())))
    assert layouts[0]["from"] == 0
    assert layouts[0]["least"] >= 640


def test_a_map_fills_a_page_and_its_bar_is_as_high() -> None:
    described = HeatMap("t", "s", "x", "y", ["a", "b"], ["c", "d"], [[0.0, 1.0], [2.0, 3.0]], "v")
    figure = draw(described)
    usual = drawn_on(page_bytes(figure))[-1]
    assert not {"width", "height"} & set(usual["layout"])
    assert usual["width"] == pytest.approx(LARGER * figure.layout.width)
    assert usual["height"] == pytest.approx(LARGER * figure.layout.height)
    assert usual["layout"]["coloraxis"]["colorbar"]["lenmode"] == "fraction"


def test_a_figure_that_was_edited_is_shown_as_it_is() -> None:
    edited = curve().update_traces(line_color="red")
    (only,) = drawn_on(page_bytes(edited))
    assert {one["line"]["color"] for one in only["data"]} == {"red"}
    (wide,) = drawn_on(page_bytes(curve().update_layout(width=500)))
    assert (wide["least"], wide["layout"]["width"]) == (500, 500)
    titled = drawn_on(page_bytes(curve().update_layout(title_text="mine")))
    assert [one["layout"]["title"]["text"] for one in titled] == ["mine"] * 3
    (bare,) = drawn_on(page_bytes(ChartFigure()))
    assert bare["data"] == []


def test_labels_name_every_line_and_the_clean_level() -> None:
    figure = curve()
    texts = [a.text for a in figure.layout.annotations]
    assert texts == [*POOLINGS[:3], "last (control)", "shuffled (control)", "clean 50.0%"]
    # plotly leaves out shapes "between" grid and traces that span the width of the plot
    assert [(shape.y0, shape.layer) for shape in figure.layout.shapes] == [(0.5, "above")]
    assert figure.layout.xaxis.title.text == "layer at which tokens are pooled (0 = embeddings)"
    assert figure.layout.title.text.startswith("tiny")
    assert "mini-idm" in figure.layout.title.subtitle.text
    assert "word" in figure.layout.title.subtitle.text


# --- notebooks -----------------------------------------------------------------------------------


def test_a_figure_of_forty_models_is_still_small() -> None:
    bundle = comparison([f"model {i}" for i in range(40)])._repr_mimebundle_()
    assert len(json.dumps(bundle["application/vnd.plotly.v1+json"])) < 200_000
    assert len(bundle["image/png"]) < 150_000


def test_the_interactive_copy_follows_changes() -> None:
    figure = curve().update_layout(title_text="mine")
    assert isinstance(figure, ChartFigure)
    data = figure._repr_mimebundle_()["application/vnd.plotly.v1+json"]
    assert data["layout"]["title"]["text"] == "mine"


def test_show_in_a_kernel_displays_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython
    import IPython.display

    class Shell:
        kernel = object()

    shown: list[object] = []
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    monkeypatch.setattr(IPython.display, "display", shown.append)
    figure = curve()
    figure.show()
    assert shown == [figure]


def test_show_elsewhere_is_plotlys() -> None:
    with pytest.raises(ValueError, match="no-such-renderer"):
        curve().show(renderer="no-such-renderer")


# --- pictures ------------------------------------------------------------------------------------


def pixels(data: bytes) -> np.ndarray:
    from matplotlib.image import imread

    return imread(io.BytesIO(data))[..., :3]


def test_png_has_each_lines_colour_where_its_label_is(tmp_path: Path) -> None:
    picture = pixels(curve().save(tmp_path / "f.png").read_bytes())
    assert 700 < picture.shape[0] <= 768  # a second line of the subtitle
    assert 1200 < picture.shape[1] <= 1344  # what is blank at the right is cut
    assert (picture[:, -10:] == 1).all()
    assert (picture[:5] == 1).all()  # white margin
    for colour in ("#0072B2", "#D55E00", "#009E73", "#A3478A", "#707070"):
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        assert (np.abs(picture - rgb).max(axis=-1) < 0.01).sum() > 200, colour


def test_png_repeats_and_differs_with_the_numbers(tmp_path: Path) -> None:
    once, again = (curve().save(tmp_path / f"{k}.png").read_bytes() for k in "ab")
    assert once == again
    assert once != curve(scale=0.9).save(tmp_path / "c.png").read_bytes()


def test_one_layer_is_drawn_as_points_side_by_side(tmp_path: Path) -> None:
    figure = curve(layers=1)
    xs = [trace.x[0] for trace in figure.data]
    assert len(set(xs)) == 5
    assert sum(xs) == pytest.approx(0)
    assert all(trace.error_y.visible for trace in figure.data)
    assert [trace.error_y.array[0] for trace in figure.data] == pytest.approx([0.03] * 5)
    figure.save(tmp_path / "f.png")


def test_small_accuracies_fill_the_axis() -> None:
    figure = curve_figure(
        frame(scale=0.01, clean=0.004), n_affected=3, config={}, normalised_depth=False
    )
    assert figure.layout.yaxis.range[1] < 0.006
    full = curve_figure(frame(scale=3, clean=1.0), n_affected=3, config={}, normalised_depth=False)
    assert full.layout.yaxis.range[1] <= 1.04


def test_a_copy_that_lost_its_chart_is_refused(tmp_path: Path) -> None:
    copy = pickle.loads(pickle.dumps(curve()))  # noqa: S301 - our own bytes, made a line ago
    with pytest.raises(InputError, match=r"does not know its chart .* pass the figure as plot"):
        copy.save(tmp_path / "f.png")
    assert not (tmp_path / "f.png").exists()
    assert "image/png" not in copy._repr_mimebundle_()


@pytest.mark.parametrize("kind", ["pdf", "svg"])
def test_vector_files_have_fonts_and_text_and_no_date(tmp_path: Path, kind: str) -> None:
    data = curve().save(tmp_path / f"a.{kind}").read_bytes()
    with mock.patch("time.time", return_value=2e9), mock.patch.dict("os.environ", TZ="Asia/Seoul"):
        assert data == curve().save(tmp_path / f"b.{kind}").read_bytes()
    if kind == "pdf":
        assert b"/FontFile2" in data  # TrueType outlines
        assert b"/Type3" not in data
        assert b"CreationDate" not in data
    else:
        root = ElementTree.fromstring(data)
        texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {"clean 50.0%", "accuracy", "mean", "last (control)"} <= set(texts)
        assert b"<dc:date>" not in data


def test_widths_of_paper_are_kept(tmp_path: Path) -> None:
    for width, inches in (("column", 3.25), ("page", 6.75), (5.0, 5.0)):
        root = ElementTree.parse(curve().save(tmp_path / "f.svg", width=width)).getroot()
        assert inches - 0.06 < float(root.attrib["width"].removesuffix("pt")) / 72 <= inches + 1e-6
    edited = curve().update_layout(width=5 * PIXELS)
    assert svg(edited, tmp_path) == curve().save(tmp_path / "g.svg", width=5.0).read_text()
    wide = draw(EVERY_GRID["12 columns"]())
    with pytest.raises(InputError, match=r"this grid in 3\.25 inches .* pass width=6\.9 or more"):
        wide.save(tmp_path / "x.svg", width="column")
    assert wide.save(tmp_path / "h.svg", width=6.9).exists()
    for width in (0.5, 31.0, float("nan")):
        with pytest.raises(OptionError, match=r"expected 'column' \(3\.25 inches\), 'page'"):
            curve().save(tmp_path / "x.svg", width=width)
    with pytest.raises(OptionError, match="as wide as its window"):
        curve().save(tmp_path / "x.html", width="page")
    assert not list(tmp_path.glob("x.*"))


def test_other_endings_and_plotlys_own_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"curve\.gif'.* ends in \.pdf, \.svg, \.png or \.html"):
        curve().save(tmp_path / "curve.gif")
    for call in (curve().write_image, curve().to_image):
        with pytest.raises(InputError, match=r"call figure\.save\('x\.pdf'\)"):
            call(tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


# --- edits ---------------------------------------------------------------------------------------


def svg(figure: ChartFigure, folder: Path) -> str:
    return figure.save(folder / "f.svg").read_text()


def test_edited_texts_arrive_in_the_picture(tmp_path: Path) -> None:
    figure = curve().update_layout(title="R&amp;D of <br>mine", xaxis_title="depth &lt; 3")
    figure.update_layout(title_subtitle_text="", yaxis={"title": {"text": "share"}})
    drawn = svg(figure, tmp_path)
    for text in (">R&amp;D of mine<", ">depth &lt; 3<", ">share<"):
        assert text in drawn
    assert "mini-idm" not in drawn
    for made in (curve(), draw(EVERY_GRID["gaps"]())):
        alone = svg(made.update_layout(title="mine"), tmp_path)  # as plotly does, without subtitle
        assert ">mine<" in alone
        assert not re.search("task mini-idm|between neurons", alone)
    assert "grey: not measured" in alone
    bundle = figure._repr_mimebundle_()
    assert bundle["text/plain"].startswith("figure: R&D of mine")
    assert bundle["image/png"] != curve()._repr_mimebundle_()["image/png"]


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda figure: figure.update_traces(line_color="red"), r"data\[0\]\.line\.color"),
        (lambda figure: figure.update_yaxes(range=[0, 1]), r"layout\.yaxis\.range"),
        (lambda figure: figure.add_hline(0.3), r"layout\.shapes\[1\]"),
        (lambda figure: figure.add_scatter(x=[1], y=[1]), r"data\[7\]"),
        (lambda figure: figure.update_layout(title="<b>bold</b>"), "title.text has markup"),
    ],
)
def test_other_edits_are_refused_by_name(
    tmp_path: Path, edit: Callable[[ChartFigure], object], named: str
) -> None:
    figure = curve()
    edit(figure)
    with pytest.raises(InputError, match=named):
        figure.save(tmp_path / "f.pdf")
    assert not list(tmp_path.iterdir())
    bundle = figure._repr_mimebundle_()
    assert "image/png" not in bundle
    assert "without a picture" in bundle["text/plain"]
    figure.save(tmp_path / "f.html")
