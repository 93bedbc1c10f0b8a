"""Heat maps as pictures and files: no text covers another, small, deaf to hostile names."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.text import Text
from PIL import Image

from interp_compose.errors import InputError
from interp_compose.plots.chart import Chart
from interp_compose.plots.export import save_html, save_png
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_interactive import draw_heatmap
from interp_compose.plots.heatmap_static import PIXELS, paint_heatmap
from interp_compose.plots.static import png_bytes
from tests.plots.test_figures import HOSTILE, Tags, strings
from tests.plots.test_heatmap import (
    EVERY_MAP,
    cells,
    every_map,
    heatmap,
    long_labels,
    numbers,
    ranks,
    sentence,
)
from tests.plots.test_similarity_files import visible_texts

# --- room ----------------------------------------------------------------------------------------


@every_map
def test_no_text_leaves_the_picture_or_covers_another(make: Callable[[], HeatMap]) -> None:
    with mpl.rc_context():
        mpl.rcdefaults()
        painted = paint_heatmap(make(), 100)
        painted.draw_without_rendering()
        whole = painted.bbox
        shown = {text: Text.get_window_extent(text) for text in visible_texts(painted)}
    assert len(shown) > 4
    for text, box in shown.items():
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1, text
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1, text
    for (one, a), (two, b) in itertools.combinations(shown.items(), 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert width <= 0 or height <= 0.15 * min(a.height, b.height), (one, two)


@pytest.mark.parametrize(
    ("made", "rows", "columns"),
    [
        (heatmap(12, 12), 1, 1),
        (heatmap(32, 32), 1, 1),
        (ranks(80), 1, 5),
        (heatmap(60, 12), 1, 1),
        (heatmap(400, 2), 10, 1),
    ],
)
def test_labels_are_thinned_out_only_where_there_is_no_room(
    made: HeatMap, rows: int, columns: int
) -> None:
    figure = draw_heatmap(made)
    assert list(figure.layout.yaxis.tickvals) == list(range(0, len(made.rows), rows))
    assert list(figure.layout.xaxis.tickvals) == list(range(0, len(made.columns), columns))


def test_long_column_labels_are_turned() -> None:
    figure = draw_heatmap(long_labels())
    assert figure.layout.xaxis.tickangle == -90
    assert max(len(text) for text in figure.layout.xaxis.ticktext) <= 16
    assert draw_heatmap(ranks(80)).layout.xaxis.tickangle == 0


def test_the_figure_grows_with_its_rows_within_limits() -> None:
    heights = [draw_heatmap(heatmap(n, 4)).layout.height for n in (1, 3, 8, 32, 60, 400)]
    assert heights == sorted(heights)
    assert heights[0] > 200
    assert heights[-1] < 1100
    assert heights[-2] == heights[-1]
    inches = paint_heatmap(heatmap(32, 4), 100).get_figheight()
    assert inches * PIXELS == pytest.approx(heights[3])


# --- files and notebooks -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sentence", "32 x 32", "60 words", "one cell", "nothing"])
def test_files_are_small_complete_and_repeat(tmp_path: Path, name: str) -> None:
    make = EVERY_MAP[name]
    figure = draw_heatmap(make())
    data = save_png(figure, tmp_path / "a.png").read_bytes()
    assert data == save_png(draw_heatmap(make()), tmp_path / "b.png").read_bytes()
    assert Image.open(io.BytesIO(data)).width == 1344
    assert len(data) < 300 * 1024
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.plotly.v1+json", "image/png", "text/plain"}
    assert len(bundle["image/png"]) < 60_000
    assert len(json.dumps(bundle["application/vnd.plotly.v1+json"])) < 100_000
    assert bundle["text/plain"].startswith(f"figure: {make().title}. {make().subtitle}")


def test_png_differs_with_the_numbers_and_not_with_the_users_settings() -> None:
    plain = png_bytes(sentence())
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30, "image.origin": "lower"}):
        before = dict(mpl.rcParams)
        assert png_bytes(sentence()) == plain
        assert dict(mpl.rcParams) == before
    assert png_bytes(replace(sentence(), values=numbers(8, 4))) != plain


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_stays_text(tmp_path: Path, name: str) -> None:
    made = heatmap(
        2, 2, title=name, subtitle=name, x_title=name, y_title=name, value_name=name,
        rows=[name, ""], columns=[name, "a"], values=[[1.0, None], [2.0, 3.0]],
        hover=[[name, name], ["", ""]], marked=[(0, 0)], mark_name=name,
    )  # fmt: skip
    figure = draw_heatmap(made)
    drawn = figure.to_dict()
    drawn["layout"].pop("template")
    texts = [s.replace("<br>", "").replace("<extra></extra>", "") for s in strings(drawn)]
    customdata = [text for row in cells(made).customdata for cell in row for text in cell]
    texts += [text.removeprefix("<br>") for text in customdata]
    assert not [s for s in texts if "<" in s or "$" in s or "%{y" in s]
    assert len(customdata) == 16
    save_png(figure, tmp_path / "f.png")  # a formula or a missing glyph would raise


def test_hostile_text_adds_no_tag_to_the_page(tmp_path: Path) -> None:
    save_html(draw_heatmap(heatmap()), tmp_path / "good.html")
    save_html(draw_heatmap(heatmap(title=HOSTILE[0], rows=HOSTILE[:2])), tmp_path / "bad.html")
    good, bad = (Tags((tmp_path / f"{k}.html").read_text()).tags for k in ("good", "bad"))
    assert good == bad


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": []}, r"a heat map of 0 rows and 3 columns; pass at least one of each"),
        ({"values": numbers(3, 3)}, r"values have 3 rows; expected 2, one for each label"),
        ({"values": [[1.0] * 3, [1.0]]}, r"values of row '1' are 1; expected 3, one for each col"),
        ({"hover": [[""] * 3]}, r"hover have 1 rows; expected 2"),
        ({"values": [[1.0] * 3, [1.0, math.inf, 1.0]]}, r"row '1', column '1' is inf; expected a "
         r"finite number, or None where nothing was measured"),
        ({"values": [[1.0, 2.0, 0.0]] * 2, "log": True, "diverging": False},
         r"row '0', column '2' is 0.0, which has no logarithm; pass log=False"),
        ({"log": True}, r"log=True and diverging=True: a logarithm has no 0"),
        ({"marked": [(0, 0)]}, r"marked cells have no mark_name; say what the dots mean"),
        ({"marked": [(2, 0)], "mark_name": "x"}, r"row 2, column 0, .* rows 0 … 1 and columns 0 …"),
        ({"marked": [(0, -1)], "mark_name": "x"}, r"marked has row 0, column -1, which holds no"),
        ({"marked": [(0, 0)], "mark_name": "x", "values": [[None] * 3] * 2}, r"holds no number"),
    ],
)  # fmt: skip
def test_what_is_no_map_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        heatmap(**changes)


def test_a_line_chart_is_still_a_chart() -> None:
    from tests.plots.test_figures import curve

    assert isinstance(curve().chart, Chart)
