"""What every figure keeps: no text is clipped or covers another, files repeat, markup is text."""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.text import Text

from interp_compose.plots import interactive, scene, static
from interp_compose.plots.canvas import PIXELS, WIDTHS
from interp_compose.plots.describe import scene_of
from interp_compose.plots.export import page_bytes
from interp_compose.plots.images import image_of
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.matrices import MatrixGrid
from interp_compose.plots.scatter import Group, Scatter, ScatterPanel
from interp_compose.studies.similarity.figures import layers_figure, order_figure, similarity_figure
from tests.papers.cat.studies import test_encoders as encoders, test_pretrain as pretrain
from tests.papers.complexity.plots import test_phases as phases, test_speed as speed
from tests.papers.complexity.studies import (
    test_concept_graphs as concept_graphs,
    test_task_phases as task_phases,
    test_text_phases as text_phases,
)
from tests.papers.lrf.studies import test_fusion as fusion, test_generalise as generalise
from tests.plots import (
    test_figures as cap,
    test_heatmap as heatmaps,
    test_heatmap_signs as signs,
    test_images as images,
    test_matrices as matrices,
    test_scatter as scatters,
    test_similarity as similarity,
)
from tests.plots.reading import HOSTILE, Tags, paint, png_bytes, strings, visible_texts
from tests.studies import test_transplant as transplants

Made = Callable[[], Sequence[ChartFigure]]


def each(
    kind: str, makes: dict[str, Callable[[], Any]], draw: Callable[[Any], Any]
) -> Iterator[tuple[str, Made]]:
    for name, make in makes.items():
        yield f"{kind}: {name}", lambda make=make: [draw(make())]


def as_it_is(figure: ChartFigure) -> ChartFigure:
    return figure


FIGURES: dict[str, Made] = {
    "generalise": lambda: list(generalise.result().figures().values()),
    "task_phases": lambda: list(task_phases.result().figures().values()),
    "concept_graphs": lambda: list(concept_graphs.result().figures().values()),
    "text_phases": lambda: list(text_phases.result().figures().values()),
    "fusion": lambda: list(fusion.result().figures().values()),
    "encoders": lambda: list(encoders.result().figures().values()),
    "transplants": lambda: list(transplants.result().figures().values()),
    "pretrain": lambda: list(pretrain.result().figures().values()),
    "cap": lambda: [cap.curve(), cap.comparison(["tiny", "small", "large"])],
    "cap: five panels": lambda: [draw(cap.facets())],
    **dict(each("similarity", similarity.EVERY_FIGURE, as_it_is)),
    **dict(each("speed", speed.FIGURES, as_it_is)),
    **dict(each("heat map", heatmaps.EVERY_MAP, draw)),
    **dict(each("matrices", matrices.EVERY_GRID, draw)),
    **dict(each("images", images.EVERY_GRID, draw)),
    **dict(each("scatter", scatters.EVERY_SCATTER, draw)),
    **{
        f"phases: {name}": lambda make=make: phases.figures(make())
        for name, make in phases.SHAPES.items()
    },
}


def named_similarity(name: str) -> list[ChartFigure]:
    config = dict.fromkeys(similarity.CONFIG, name)
    curve = similarity.curve().replace({"subset": {"mirror": name}})
    layers = similarity.by_layer().replace({"subset": {"all": name}})
    return [
        similarity_figure(curve, metric="pearson", config=config),
        layers_figure(layers, metric="pearson", config=config),
        order_figure(layers, config=config),
        similarity.comparison([name, "b"]),
    ]


def named_maps(name: str) -> list[ChartFigure]:
    made = heatmaps.heatmap(
        2, 2, title=name, subtitle=name, x_title=name, y_title=name, value_name=name,
        rows=[name, ""], columns=[name, "a"], values=[[1.0, None], [2.0, 3.0]],
        hover=[[name, name], ["", ""]], marked=[(0, 0)], mark_name=name,
    )  # fmt: skip
    sizes = dict.fromkeys(("size_title", "title", "value_name", "x_title"), name)
    hatching = {"hatch_name": name, "marked": [(0, 0)], "mark_name": name, "mark": "triangle"}
    hatched = replace(signs.hatched(), **hatching)  # type: ignore[arg-type]
    bubbles = signs.bubbles(**sizes, size_names=[name] * 4)
    return [draw(one) for one in (made, hatched, bubbles)]


def named_matrices(name: str) -> list[ChartFigure]:
    panel = matrices.matrix(2, text=name, names=[name, name])
    rows: Any = [[panel, None]]
    return [draw(MatrixGrid(name, name, name, name, [name] * 2, [name], rows, name))]


def named_scatter(name: str) -> list[ChartFigure]:
    group = Group(name, scatters.REDS, [1.0], [2.0], [name])
    return [draw(Scatter(name, name, name, name, [ScatterPanel([group], name)]))]


NAMED: dict[str, Callable[[str], Sequence[ChartFigure]]] = {
    "cap": lambda name: [cap.curve(name), cap.comparison([name, "b"])],
    "similarity": named_similarity,
    "heat maps": named_maps,
    "matrices": named_matrices,
    "scatter": named_scatter,
    "images": lambda name: [draw(images.grid(name=name))],
    "phases": lambda name: phases.figures(phases.cells(), dict.fromkeys(phases.CONFIG, name)),
}
"""Figures of every kind in which every text that a user chooses is ``name``."""


COLUMN, PAGE = WIDTHS["column"], WIDTHS["page"]
ON_PAPER = [
    *((name, COLUMN) for name in ("cap", "fusion", "similarity: similarity", "phases: paper")),
    *((name, COLUMN) for name in ("heat map: 60 words", "images: few", "matrices: 4d")),
    *((name, COLUMN) for name in ("encoders", "speed: roc", "heat map: ranks", "phases: usual")),
    *((name, 2.0) for name in ("cap", "similarity: similarity", "heat map: one cell")),
    ("scatter: many names", COLUMN),
    ("matrices: own names", PAGE),
]


@pytest.mark.parametrize(("name", "inches"), [*((name, None) for name in FIGURES), *ON_PAPER])
def test_no_text_leaves_the_picture_or_covers_another(name: str, inches: float | None) -> None:
    """Nor is any smaller than 7 points, on paper or in a notebook."""
    for figure in FIGURES[name]():
        with mpl.rc_context():
            mpl.rcdefaults()
            picture = paint(figure.chart, 100, inches and inches * PIXELS)
            picture.draw_without_rendering()
            whole = picture.bbox
            # of a label its text alone: the hairline that joins it to its line may cross anything
            shown = {text: Text.get_window_extent(text) for text in visible_texts(picture)}
        assert len(shown) > 4
        assert min(text.get_size() for text in shown) >= 7
        for text, box in shown.items():
            assert whole.x0 <= box.x0 < box.x1 <= whole.x1, text
            assert whole.y0 <= box.y0 < box.y1 <= whole.y1, text
        for (one, a), (two, b) in itertools.combinations(shown.items(), 2):
            # text boxes are a little higher than their letters
            width = min(a.x1, b.x1) - max(a.x0, b.x0)
            height = min(a.y1, b.y1) - max(a.y0, b.y0)
            assert width <= 0 or height <= 0.15 * min(a.height, b.height), (one, two)


IN_A_COLUMN = [
    *("cap", "encoders", "fusion", "similarity: similarity", "phases: usual", "scatter: pairs"),
    *("heat map: 12 x 12", "heat map: long labels", "matrices: 4d", "images: few"),
]


@pytest.mark.parametrize("name", IN_A_COLUMN)
def test_in_a_column_the_plot_has_half_of_the_width(name: str) -> None:
    for figure in FIGURES[name]():
        scene = scene_of(figure.chart, COLUMN * PIXELS)
        assert scene.box[2] >= scene.width / 2


def test_a_legend_below_is_as_wide_as_the_picture() -> None:
    narrow, page = (scene_of(cap.curve().chart, inches * PIXELS) for inches in (2.0, PAGE))
    assert {"shuffled (control)", "clean 50.0%"} <= {key.name for key in narrow.keys}
    assert page.labels
    assert not page.keys


WRITTEN = [
    *("cap", "speed: roc", "similarity: similarity", "heat map: 32 x 32", "heat map: nothing"),
    *("matrices: gaps", "scatter: tokens", "images: few"),
]


@pytest.mark.parametrize("name", WRITTEN)
def test_files_are_small_complete_and_repeat(tmp_path: Path, name: str) -> None:
    for figure, again in zip(FIGURES[name](), FIGURES[name](), strict=True):
        data = figure.save(tmp_path / "a.png").read_bytes()
        assert data == again.save(tmp_path / "b.png").read_bytes()
        assert len(data) < 300 * 1024
        bundle = figure._repr_mimebundle_()
        assert set(bundle) == {"application/vnd.plotly.v1+json", "image/png", "text/plain"}
        assert len(bundle["image/png"]) < 150_000
        assert bundle["text/plain"].startswith("figure: ")
        text = json.dumps(bundle["application/vnd.plotly.v1+json"])
        assert len(text) < 150_000
        assert "NaN" not in text
        assert "bdata" not in text  # which older viewers cannot read


@pytest.mark.parametrize("name", ["heat map: 12 x 12", "matrices: 4d"])
def test_colours_that_stand_for_numbers_survive_the_palette(name: str) -> None:
    scene = scene_of(FIGURES[name]()[0].chart)
    assert scene.bar is not None
    full = static.picture(scene, "png", dpi=static.SMALL_DPI)
    small = static.small_png_bytes(scene)
    assert len(small) < len(full) / 2
    before, after = (image_of(png).astype(int) for png in (full, small))
    shades = {scene.bar.scale.colour_at(k / 255) for k in range(256)}
    of_scale = np.isin(before @ (65536, 256, 1), [int(shade[1:], 16) for shade in shades])
    assert of_scale.mean() > 0.05
    assert np.abs(before - after)[of_scale].max() <= 3


@pytest.mark.parametrize("name", ["cap", "heat map: sentence", "matrices: gaps", "scatter: gaps"])
def test_pictures_neither_follow_nor_change_the_users_settings(name: str) -> None:
    plain = [png_bytes(figure.chart) for figure in FIGURES[name]()]
    users = {"axes.facecolor": "black", "lines.linewidth": 9, "font.size": 30}
    users |= {"image.origin": "lower", "image.cmap": "gray", "axes.formatter.limits": [0, 0]}
    with mpl.rc_context(users):
        before = dict(mpl.rcParams)
        assert [png_bytes(figure.chart) for figure in FIGURES[name]()] == plain
        assert dict(mpl.rcParams) == before


def test_backends_know_their_own_library_and_no_kind_of_figure() -> None:
    """So that a new kind touches neither."""
    kinds = {"chart", "heatmap", "heatmap_bubbles", "matrices", "images", "scatter"}
    for backend, other in ((static, "plotly"), (interactive, "matplotlib"), (scene, "plotly")):
        text = inspect.getsource(backend)
        imported = re.findall(r"^\s*(?:from|import) (\S+)", text, re.MULTILINE)
        assert not [name for name in imported if name.split(".")[0] == other]
        own = {name.removeprefix("interp_compose.plots.") for name in imported}
        assert not kinds & own


def markup(figure: ChartFigure) -> Counter[str]:
    """How often plotly would read a tag, a formula or a placeholder."""
    drawn = figure.to_dict()
    drawn["layout"].pop("template")
    return Counter(re.findall(r"<\w*|\$|%\{", " ".join(strings(drawn))))


def tags_of(figure: ChartFigure) -> list[tuple[str, dict[str, str | None]]]:
    return Tags(page_bytes(figure).decode()).tags


@cache
def harmless(kind: str) -> tuple[list[Counter[str]], list[tuple[str, set[str]]]]:
    """The markup of each figure whose names have none, and the tags on the last one's page."""
    figures = NAMED[kind]("plain")
    tags = [(tag, set(of_tag)) for tag, of_tag in tags_of(figures[-1])]
    return [markup(figure) - Counter({"<br": 99}) for figure in figures], tags


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("kind", NAMED)
def test_markup_in_names_is_text(kind: str, hostile: str) -> None:
    """In the figure, in the picture (a formula or a missing glyph would raise), on the page."""
    figures, (expected, expected_tags) = NAMED[kind](hostile), harmless(kind)
    assert [markup(figure) - Counter({"<br": 99}) for figure in figures] == expected
    for figure in figures:
        paint(figure.chart, 50).draw_without_rendering()
    tags = tags_of(figures[-1])
    assert [(tag, set(of_tag)) for tag, of_tag in tags] == expected_tags
    assert not [of_tag for _, of_tag in tags if {"src", "href"} & set(of_tag)]
