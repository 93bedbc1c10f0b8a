"""Figures of ablations hold the numbers that they should, under true titles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from interp_compose.plots.interactive import ChartFigure
from interp_compose.studies.ablation.figures import curve_figure, example_figure, heads_figure
from interp_compose.studies.ablation.result import AblationCurve
from tests.studies import test_ablation_result as made

PAIRED = "95 % intervals of the difference to clean, paired by example"
CONFIG = {"model": "tiny", "task": "toy", "what": "words", "reach": "from", "mode": "exclude"}


def frame_of(groups: dict[str, int], layers: tuple[int, ...] = (0, 1, 2)) -> pd.DataFrame:
    """A curve's table; ``groups`` gives each its number of examples."""
    rng = np.random.default_rng(0)
    rows = []
    for group, n in groups.items():
        for layer in layers:
            accuracy, change = float(rng.random()), -0.2 - float(rng.random())
            rows.append(
                {
                    "layer": layer, "group": group, "accuracy": accuracy, "n": n, "n_cells": 3 * n,
                    "reference": n / 99, "low": accuracy / 2 - n / 99,
                    "high": (1 + accuracy) / 2 - n / 99, "clean_accuracy": n / 99,
                    "logprob_change": change, "logprob_change_low": change - 0.1,
                    "logprob_change_high": change + 0.1,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def titles(figure: ChartFigure) -> tuple[str, str]:
    title = figure.layout.title
    return title.text, title.subtitle.text


def lines_of(figure: ChartFigure) -> dict[str, Any]:
    return {one.name: one for one in figure.data if one.name and one.customdata is not None}


def cells_of(figure: ChartFigure) -> Any:
    return next(trace for trace in figure.data if trace.type == "heatmap")


def test_the_curve_draws_the_frames_numbers() -> None:
    frame = frame_of({"any word": 90, "noun": 90, "verb": 12})
    figure = curve_figure(frame, clean_accuracy=0.75, config=CONFIG)
    lines = lines_of(figure)
    assert list(lines) == ["any word", "noun", "verb: 12 ex., clean 12%"]
    for group, trace in zip(("any word", "noun", "verb"), lines.values(), strict=True):
        rows = frame[frame["group"] == group]
        assert list(trace.x) == rows["layer"].tolist()
        assert list(trace.y) == rows["accuracy"].tolist()
        low, high, n = zip(*trace.customdata, strict=True)
        assert low == pytest.approx((rows["reference"] + rows["low"]).tolist())
        assert high == pytest.approx((rows["reference"] + rows["high"]).tolist())
        assert [*n] == rows["n"].tolist()
    title, subtitle = titles(figure)
    assert (title, subtitle.replace("<br>", " ")) == (
        "tiny: accuracy when a word is knocked out",
        f"task toy · knocked out before the softmax · 90 examples · bands: {PAIRED}",
    )
    assert figure.layout.xaxis.title.text == "layer ℓ; knocked out in layers ℓ and above"
    assert "clean 75.0%" in figure.to_json()


@pytest.mark.parametrize(
    ("config", "title", "x_title"),
    [
        (
            {"mode": "zero", "unit": "constituent", "reach": "until"},
            "a constituent is knocked out",
            "layers 0 … ℓ",
        ),
        ({"what": "layers", "mode": None, "reach": "at"}, "a block adds nothing", "layer ℓ alone"),
        ({"what": "attn", "mode": None, "reach": "from"}, "attention adds nothing", "and above"),
        ({"what": "mlp", "mode": None, "reach": "at"}, "the MLP adds nothing", "layer ℓ alone"),
    ],
)
def test_titles_say_what_was_done(config: dict[str, Any], title: str, x_title: str) -> None:
    frame = frame_of({"any word": 9})
    figure = curve_figure(frame, clean_accuracy=0.5, config={**CONFIG, **config})
    assert titles(figure)[0] == f"tiny: accuracy when {title}"
    assert figure.layout.xaxis.title.text.endswith(x_title)


def test_of_many_kinds_those_with_most_words_are_drawn() -> None:
    """Six lines can be told apart; the first is of any word, however few these are."""
    groups = {"any word": 5} | {f"kind {i}": 10 + (7 * i) % 11 for i in range(11)}
    figure = curve_figure(frame_of(groups), clean_accuracy=0.5, config=CONFIG)
    kept = sorted(list(groups)[1:], key=lambda name: groups[name])[-5:]
    expected = [name for name in groups if name == "any word" or name in kept]
    assert [name.split(":")[0] for name in lines_of(figure)] == expected
    looks = {(trace.line.color, trace.marker.symbol) for trace in lines_of(figure).values()}
    assert len(looks) == 6
    assert (
        titles(figure)[1]
        .replace("<br>", " ")
        .endswith(f"band of any word: {PAIRED} · 6 rarer groups not drawn")
    )
    six = curve_figure(frame_of(dict(list(groups.items())[:6])), clean_accuracy=0.5, config=CONFIG)
    assert len(lines_of(six)) == 6
    assert "rarer" not in titles(six)[1]


def test_one_layer_is_drawn_side_by_side() -> None:
    figure = curve_figure(frame_of({"a": 9, "b": 9}, (2,)), clean_accuracy=0.5, config=CONFIG)
    xs = [trace.x[0] for trace in lines_of(figure).values()]
    assert len(set(xs)) == 2
    assert sum(xs) / 2 == pytest.approx(2)
    assert titles(figure)[1].replace("<br>", " ").endswith(f"bars: {PAIRED}")


def test_an_examples_words_stay_apart_and_in_order() -> None:
    words = ["the", "cat", "and", "the", "dog"]
    values = -np.arange(10, dtype=float).reshape(5, 2)
    table = pd.DataFrame(values, index=pd.Index(words, name="text"), columns=[0, 3])
    figure = example_figure(
        table, "the cat and the dog " * 9, " ran", correct=True, logprob=-0.3, config=CONFIG
    )
    cells = cells_of(figure)
    assert [list(row) for row in cells.z] == values.tolist()
    assert list(figure.layout.yaxis.ticktext) == words
    assert list(figure.layout.yaxis.tickvals) == [0, 1, 2, 3, 4]
    assert list(figure.layout.xaxis.ticktext) == ["0", "3"]
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (-9, 9)
    title, subtitle = titles(figure)
    assert title.startswith("tiny, one example: the cat and the dog")
    assert title.endswith(" → ran")
    assert len(title) <= 80
    assert subtitle == (
        "task toy · knocked out before the softmax · clean: −0.30 nats, right"
        " · knocked out in layers ℓ and above"
    )


def test_an_answer_of_blanks_is_written_out() -> None:
    table = pd.DataFrame([[0.5]], index=["x"], columns=[0])
    figure = example_figure(table, "x\ny", "\n", correct=False, logprob=-2.0, config=CONFIG)
    assert titles(figure)[0] == "tiny, one example: x y → '\\n'"
    assert "−2.00 nats, wrong" in titles(figure)[1]


def test_heads_are_drawn_with_dots_where_the_interval_leaves_out_zero() -> None:
    frame = frame_of({str(head): 40 for head in range(11)}, (0, 1))
    frame.loc[5, "logprob_change_high"] = 0.2  # head 2, layer 1
    config = {"model": "tiny", "task": "toy", "what": "heads", "reach": "at", "how": "mean"}
    figure = heads_figure(frame, config=config)
    expected = frame["logprob_change"].to_numpy().reshape(11, 2)
    assert np.array_equal(np.array(cells_of(figure).z, float), expected)
    assert list(figure.layout.yaxis.ticktext) == [str(head) for head in range(11)]
    dots = next(each for each in figure.data if getattr(each, "mode", "") == "markers")
    places = {(round(float(y)), round(float(x))) for x, y in zip(dots.x, dots.y, strict=True)}
    assert places == {(head, layer) for head in range(11) for layer in (0, 1)} - {(2, 1)}
    assert titles(figure) == (
        "tiny: change of the answer's log-probability when a head's output is replaced by its"
        "<br>mean",
        "task toy · mean over 40 examples · dot: 95 % interval excludes 0, uncorrected",
    )
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("layer", "head")


def test_a_curve_knows_its_figures() -> None:
    words = made.make_curve()
    assert list(words.figures()) == ["ablation_curve", "ablation_words"]
    first = words.heatmap()
    assert first.to_json() == words.heatmap(0).to_json()
    assert np.array_equal(np.array(cells_of(first).z, float), words.changes(0).to_numpy())
    heads = made.make_curve(**made.heads_tables())
    assert list(heads.figures()) == ["ablation_heads"]
    assert heads.plot().to_json() == heads.heatmap().to_json()
    expected = heads.frame.pivot(index="group", columns="layer", values="logprob_change")
    assert np.array_equal(np.array(cells_of(heads.heatmap()).z, float), expected.to_numpy())
    alone = heads.heatmap(5)
    assert np.array_equal(np.array(cells_of(alone).z, float), heads.changes(5).to_numpy())
    tables = made.heads_tables(1)
    tables["cells"] = tables["cells"].assign(group="mlp", text="mlp")
    tables["config"] = {**made.CONFIG, "what": "mlp", "reach": "at"}
    part: AblationCurve = made.make_curve(**tables)
    assert list(part.figures()) == ["ablation_curve"]
    assert (
        titles(part.heatmap())[0]
        == "tiny: change of the answer's log-probability when the MLP adds nothing"
    )
