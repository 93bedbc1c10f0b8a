"""Similarity figures as files: no text covers another, small, and deaf to hostile names."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from interp_compose.plots.export import save_html, save_png
from interp_compose.plots.static import paint
from interp_compose.studies.similarity.figures import layers_figure, order_figure, similarity_figure
from tests.plots.test_figures import HOSTILE, Tags, strings
from tests.plots.test_similarity import (
    CONFIG,
    by_layer,
    chart,
    comparison,
    curve,
    every_figure,
    figure,
)


@every_figure
def test_no_text_leaves_the_picture_or_covers_another(make: object) -> None:
    with mpl.rc_context():
        mpl.rcdefaults()
        painted = paint(chart(make()))
        painted.draw_without_rendering()
        whole = painted.bbox
        # of a label its text alone: the hairline that joins it to its line may cross anything
        shown = {text: Text.get_window_extent(text) for text in visible_texts(painted)}
    assert len(shown) > 10
    for text, box in shown.items():
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1, text
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1, text
    for (one, a), (two, b) in itertools.combinations(shown.items(), 2):
        # text boxes are a little higher than their letters
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert width <= 0 or height <= 0.15 * min(a.height, b.height), (one, two)


def visible_texts(painted: Figure) -> list[Text]:
    """Every text but tick labels beyond the axes' limits, which exist and are not drawn."""
    axes = [axis for one in painted.axes for axis in (one.xaxis, one.yaxis)]
    beyond = {
        label
        for axis in axes
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    texts = [text for text in painted.findobj(Text) if text.get_visible() and text.get_text()]
    return [text for text in texts if text not in beyond]


@every_figure
def test_files_are_small_complete_and_repeat(tmp_path: Path, make: object) -> None:
    made = make()
    data = save_png(made, tmp_path / "a.png").read_bytes()
    assert len(data) < 200 * 1024
    assert data == save_png(make(), tmp_path / "b.png").read_bytes()
    bundle = made._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.plotly.v1+json", "image/png", "text/plain"}
    assert len(bundle["image/png"]) < 60_000
    assert len(json.dumps(bundle["application/vnd.plotly.v1+json"])) < 80_000
    assert bundle["text/plain"].startswith(f"figure: {chart(made).title}")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(tmp_path: Path, name: str) -> None:
    frame = curve().replace({"subset": {"mirror": name}})
    layers = by_layer().replace({"subset": {"all": name}})
    hostile = dict.fromkeys(CONFIG, name)
    made = [
        similarity_figure(frame, metric="pearson", config=hostile),
        layers_figure(layers, metric="pearson", config=hostile),
        order_figure(layers, config=hostile),
        comparison([name, "b"]),
    ]
    for one in made:
        layout = one.to_dict()["layout"]
        layout.pop("template")
        texts = strings([layout, [trace.name for trace in one.data if trace.name]])
        assert not [s for s in texts if "<" in s or "$" in s or "%{y" in s]
        save_png(one, tmp_path / "f.png")  # a formula or a missing glyph would raise


def test_a_hostile_name_adds_no_tag_to_the_page(tmp_path: Path) -> None:
    save_html(figure(), tmp_path / "good.html")
    frame = curve().replace({"subset": {"mirror": HOSTILE[0]}})
    save_html(figure(frame, model=HOSTILE[0]), tmp_path / "bad.html")
    good, bad = (Tags((tmp_path / f"{k}.html").read_text()).tags for k in ("good", "bad"))
    assert good == bad
