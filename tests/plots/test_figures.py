"""Figures as files and in notebooks: complete, offline, small, and deaf to hostile names."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from interp_compose.errors import InputError
from interp_compose.plots.export import save_html, save_png
from interp_compose.plots.interactive import ChartFigure
from interp_compose.studies.cap.figures import comparison_figure, curve_figure
from tests.plots.reading import HOSTILE, Tags

POOLINGS = ("mean", "max", "sum", "last", "shuffled")


def frame(poolings: tuple[str, ...] = POOLINGS, layers: int = 12, scale: float = 1) -> pd.DataFrame:
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
    return made.assign(
        ci_low=(made["accuracy"] - 0.03 * scale).clip(0), ci_high=made["accuracy"] + 0.03 * scale
    )


def curve(model: str = "tiny", **changes: object) -> ChartFigure:
    return curve_figure(
        frame(**changes),
        clean_accuracy=0.5,
        n_affected=390,
        config={"model": model, "task": "mini-idm", "unit": "word"},
        normalised_depth=False,
    )


def comparison(labels: list[str]) -> ChartFigure:
    frames = {label: frame(("mean",), 5 + i) for i, label in enumerate(labels)}
    clean = dict.fromkeys(labels, 0.4)
    return comparison_figure(frames, clean, pooling="mean", normalised_depth=True)


def test_html_is_self_contained_and_repeatable(tmp_path: Path) -> None:
    page = save_html(curve(), tmp_path / "a" / "f.html").read_text()
    tags = Tags(page).tags
    assert [tag for tag, _ in tags].count("script") >= 2
    assert not [attrs for _, attrs in tags if "src" in attrs or "href" in attrs]
    assert len(page) > 3_000_000  # plotly.js is inside
    assert page == save_html(curve(), tmp_path / "g.html").read_text()


def test_html_offers_no_upload(tmp_path: Path) -> None:
    page = save_html(curve(), tmp_path / "f.html").read_text()
    config = page[page.rindex('"displaylogo"') - 2 :]
    assert '"showSendToCloud": false' in config
    assert "http" not in config


@pytest.mark.parametrize("name", HOSTILE)
def test_text_past_our_escaping_adds_no_tag_to_the_page(tmp_path: Path, name: str) -> None:
    figures = curve("model"), curve("model").update_layout(title_text=name)
    good, bad = (save_html(one, tmp_path / "f.html").read_text() for one in figures)
    assert Tags(bad).tags == Tags(good).tags


def test_hover_gives_interval_and_count() -> None:
    trace = next(t for t in curve().data if t.name == "max")
    assert list(trace.customdata[2]) == pytest.approx([3 / 40 - 0.03, 3 / 40 + 0.03, 400])
    for part in ("%{y:", "%{customdata[0]:", "%{customdata[1]:", "n = %{customdata[2]}"):
        assert part in trace.hovertemplate


def test_labels_name_every_line_and_the_clean_level() -> None:
    figure = curve()
    texts = [a.text for a in figure.layout.annotations]
    assert texts == [*POOLINGS, "clean 50.0%"]
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
    picture = pixels(save_png(curve(), tmp_path / "f.png").read_bytes())
    assert picture.shape == (736, 1344, 3)
    assert (picture[:5] == 1).all()  # white margin
    for colour in ("#0072B2", "#D55E00", "#009E73", "#A3478A", "#707070"):
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        assert (np.abs(picture - rgb).max(axis=-1) < 0.01).sum() > 200, colour


def test_png_repeats_and_differs_with_the_numbers(tmp_path: Path) -> None:
    once, again = (save_png(curve(), tmp_path / f"{k}.png").read_bytes() for k in "ab")
    assert once == again
    assert once != save_png(curve(scale=0.9), tmp_path / "c.png").read_bytes()


def test_one_layer_is_drawn_as_points_side_by_side(tmp_path: Path) -> None:
    figure = curve(layers=1)
    xs = [trace.x[0] for trace in figure.data]
    assert len(set(xs)) == 5
    assert sum(xs) == pytest.approx(0)
    assert all(trace.error_y.visible for trace in figure.data)
    assert [trace.error_y.array[0] for trace in figure.data] == pytest.approx([0.03] * 5)
    save_png(figure, tmp_path / "f.png")


def test_small_accuracies_fill_the_axis() -> None:
    figure = curve_figure(
        frame(scale=0.01), clean_accuracy=0.004, n_affected=3, config={}, normalised_depth=False
    )
    assert figure.layout.yaxis.range[1] < 0.006
    full = curve_figure(
        frame(scale=3), clean_accuracy=1.0, n_affected=3, config={}, normalised_depth=False
    )
    assert full.layout.yaxis.range[1] <= 1.04


def test_a_copy_that_lost_its_chart_is_refused(tmp_path: Path) -> None:
    copy = pickle.loads(pickle.dumps(curve()))  # noqa: S301 - our own bytes, made a line ago
    with pytest.raises(InputError, match=r"does not know its chart .* pass the figure as plot"):
        save_png(copy, tmp_path / "f.png")
    assert not (tmp_path / "f.png").exists()
    assert "image/png" not in copy._repr_mimebundle_()
