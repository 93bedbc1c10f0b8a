"""The phase diagram: every cell's numbers where they belong, gaps said to be gaps."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from interp_compose.errors import InputError
from interp_compose.papers.complexity.studies.anchors.phase import MEASURES
from interp_compose.papers.complexity.studies.phases.figures import (
    phase_bubble_figure,
    phase_curve_figure,
    phase_map_figure,
)
from interp_compose.plots.chart import Chart
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_bubbles import Bubbles
from interp_compose.plots.interactive import ChartFigure
from tests.plots.reading import png_bytes

CONFIG = {"norm": "pre", "n_layers": 2, "d_model": 64, "samples": 5000, "steps": 1500}
RATES, DECAYS = (0.2, 0.3, 0.5, 0.7, 1.0), (0.001, 0.01, 0.5)
RUN = "5,000 samples · 1,500 steps · 3 seeds"
NAN = float("nan")


def cell(rate: float, decay: float, phase: str, n: int = 3, **changes: float) -> dict[str, Any]:
    means = {"train": 1.0, "id": 0.95, "ood": 0.25, "commutativity": 0.8} | {
        "stable_rank": 8.0, "mean_abs_cosine": 0.1,
    }  # fmt: skip
    row: dict[str, Any] = {"init_rate": rate, "weight_decay": decay, "n": n, "phase": phase}
    row |= {"diverged": 0, "doubt": ""}
    for name, mean in (means | changes).items():
        row |= {name: mean, f"{name}_low": 0.9 * mean, f"{name}_high": min(1.1 * mean, 99.0)}
    return row


def cells(rates: tuple[float, ...] = RATES, decays: tuple[float, ...] = DECAYS) -> pd.DataFrame:
    """Every number its own; phase 1, 2, 2c and 3 by the init rate."""
    rows = []
    for i, rate in enumerate(rates):
        for j, decay in enumerate(decays):
            at = i * len(decays) + j
            numbers = {
                name: 0.01 * (len(MEASURES) * at + k) % 1 for k, name in enumerate(MEASURES)
            } | {"stable_rank": 1.0 + at}
            rows.append(cell(rate, decay, ("1", "2", "2c", "3", "3")[i % 5], **numbers))
    return pd.DataFrame(rows)


def diverged() -> pd.DataFrame:
    """The first cell gave no numbers; the second is not in the frame."""
    frame = cells()
    frame.loc[0, [name for name in frame if name.startswith(MEASURES)]] = NAN
    frame.loc[0, "phase"] = ""
    return frame.drop(index=1)


def figures(frame: pd.DataFrame, config: dict[str, Any] | None = None) -> list[ChartFigure]:
    config = CONFIG if config is None else config
    return [
        phase_curve_figure(frame, weight_decay=frame["weight_decay"].iloc[-1], config=config),
        phase_map_figure(frame, config=config),
        phase_bubble_figure(frame, config=config),
    ]


# --- the curve -----------------------------------------------------------------------------------


def curve(frame: pd.DataFrame, weight_decay: float = 0.01, **config: Any) -> Chart:
    made = phase_curve_figure(frame, weight_decay=weight_decay, config=CONFIG | config).chart
    assert isinstance(made, Chart)
    return made


def test_the_curve_shows_one_weight_decay_with_its_seeds() -> None:
    frame = cells().sample(frac=1, random_state=0)
    own = cells()[cells()["weight_decay"] == 0.01]
    made = curve(frame)
    lines = {line.label: line for line in made.panels[0].lines}
    names = {"train": "train", "id": "seen pairs (ID)", "ood": "unseen pairs (OOD)"}
    for name, label in (names | {"commutativity": "commutativity"}).items():
        assert lines[label].x == list(RATES)
        assert lines[label].y == own[name].tolist()
        assert lines[label].low == own[f"{name}_low"].tolist()
        assert lines[label].high == own[f"{name}_high"].tolist()
        assert lines[label].n == [3] * 5
    assert [line.style.dash for line in lines.values()].count("dash") == 1
    assert lines["commutativity"].style.dash == "dash"
    assert made.y_title == "accuracy, or commutativity (dashed)"
    assert made.title == "2 layers, pre-LN, width 64: accuracy at weight decay 0.01"
    assert (
        made.subtitle == "5,000 samples · 1,500 steps · 3 seeds · bands: smallest to largest seed"
    )


def test_the_phase_stands_under_each_init_rate() -> None:
    figure = phase_curve_figure(cells(), weight_decay=0.01, config=CONFIG)
    assert list(figure.layout.xaxis.tickvals) == list(RATES)
    texts = ["0.2<br>1", "0.3<br>2", "0.5<br>2c", "0.7<br>3", "1<br>3"]
    assert list(figure.layout.xaxis.ticktext) == texts
    assert figure.layout.xaxis.title.text.endswith("(2c: commutative)")
    plain = phase_curve_figure(cells((0.2, 0.3)), weight_decay=0.01, config=CONFIG)
    assert plain.layout.xaxis.title.text.endswith("phase below")
    doubted = cells().assign(doubt=["?", "", "??"] * len(RATES))
    figure = phase_curve_figure(doubted, weight_decay=0.5, config=CONFIG)
    assert list(figure.layout.xaxis.ticktext)[1:3] == ["0.3<br>2??", "0.5<br>2c??"]
    assert figure.layout.xaxis.title.text.endswith("commutative, ??: of fewer than half)")
    hover = phase_map_figure(doubted, config=CONFIG).chart.hover
    assert [row[1].split(" · ")[0] for row in hover] == ["phase 2??", "phase 2", "phase 2?"]
    low, high = figure.layout.xaxis.range
    assert 0.15 < low < 0.2
    assert 1.0 < high < 1.05


def test_many_init_rates_keep_legible_ticks() -> None:
    made = curve(cells(tuple(round(0.2 + 0.02 * k, 2) for k in range(41)), (0.01,)))
    assert len(made.panels[0].lines[0].x) == 41
    assert list(made.x_ticks)[:3] == [0.2, 0.26, 0.32]
    assert len(made.x_notes) == len(made.x_ticks) <= 17


def test_the_curve_says_which_init_rates_are_missing() -> None:
    frame = diverged()
    assert curve(frame, 0.001).subtitle.endswith(" · not measured: γ 0.2")
    assert curve(frame, 0.01).subtitle.endswith(" · not measured: γ 0.2")
    assert curve(frame, 0.01).panels[0].lines[0].x == list(RATES[1:])
    assert "not measured" not in curve(frame, 0.5).subtitle


def test_seeds_are_counted() -> None:
    frame = cells()
    frame.loc[frame["init_rate"] == 0.2, "n"] = 1
    assert "· 1–3 seeds ·" in curve(frame).subtitle
    alone = curve(frame.assign(n=1)).subtitle
    assert "· 1 seed" in alone
    assert "bands" not in alone
    made = [phase_map_figure(one, config=CONFIG).chart for one in (frame, frame.assign(n=1))]
    assert [one.value_name for one in made] == [
        "OOD accuracy, mean over seeds", "OOD accuracy, one seed"
    ]  # fmt: skip


def test_a_setting_without_clipping_says_so() -> None:
    subtitles = [
        phase_map_figure(cells(), config={**CONFIG, "clip": clip}).chart.subtitle
        for clip in (1.0, None)
    ]
    assert ["not clipped" in subtitle for subtitle in subtitles] == [False, True]


def test_runs_that_diverged_are_counted() -> None:
    frame = cells()
    assert "diverged" not in phase_map_figure(frame, config=CONFIG).chart.subtitle
    frame.loc[:1, "diverged"] = 2
    assert "· 4 runs diverged" in phase_map_figure(frame, config=CONFIG).chart.subtitle


# --- the map -------------------------------------------------------------------------------------


def test_the_map_has_large_weight_decays_on_top() -> None:
    frame = cells()
    made = phase_map_figure(frame.sample(frac=1, random_state=1), config=CONFIG).chart
    assert isinstance(made, HeatMap)
    assert made.columns == ["0.2", "0.3", "0.5", "0.7", "1"]
    assert made.rows == ["0.5", "0.01", "0.001"]
    value = frame.set_index(["init_rate", "weight_decay"])["ood"]
    assert made.values == [[value[r, d] for r in RATES] for d in DECAYS[::-1]]
    assert made.limits == (0.0, 1.0)


def test_signs_follow_their_bounds() -> None:
    rows = [
        cell(0.2, 0.1, "1", id=0.899, commutativity=0.699),
        cell(0.4, 0.1, "2c", id=0.9, commutativity=0.7),
        cell(0.2, 0.01, "2", id=0.95, commutativity=0.1),
        cell(0.4, 0.01, "1", id=0.1, commutativity=0.9),
    ]
    made = phase_map_figure(pd.DataFrame(rows), config=CONFIG).chart
    assert made.hatched == [(0, 0), (1, 1)]
    assert made.marked == [(0, 0), (1, 0)]
    assert made.mark == "triangle"
    assert made.subheading == f"{RUN} · hatched: ID < 90% · triangle: commutativity < 70%"


def test_the_map_leaves_gaps() -> None:
    made = phase_map_figure(diverged(), config=CONFIG).chart
    assert made.gaps == [(1, 0), (2, 0)]
    assert made.subheading.endswith("grey: not measured")
    assert made.hover[2][0] == made.hover[1][0] == ""
    row = diverged().loc[2]
    assert made.hover[0][0] == (
        f"phase 1 · OOD {row['ood']:.0%} · ID {row['id']:.0%} · train {row['train']:.0%} · "
        f"commut. {row['commutativity']:.0%} · n = 3"
    )


# --- the bubbles ---------------------------------------------------------------------------------


def test_bubbles_say_phase_and_stable_rank() -> None:
    frame = cells()
    made = phase_bubble_figure(frame.sample(frac=1, random_state=2), config=CONFIG).chart
    assert isinstance(made, Bubbles)
    map_of = phase_map_figure(frame, config=CONFIG).chart
    assert isinstance(map_of, HeatMap)
    for name in ("columns", "rows", "x_title", "y_title"):
        assert getattr(made, name) == getattr(map_of, name)
    rank = frame.set_index(["init_rate", "weight_decay"])["stable_rank"]
    assert made.values == [[rank[r, d] for r in RATES] for d in DECAYS[::-1]]
    assert made.sizes == [[1, 2, 3, 4, 4]] * 3
    assert made.log
    assert list(made.size_names) == ["not fitted", "1", "2", "2, commutative", "3"]


def test_a_model_that_has_not_fitted_its_data_is_called_so() -> None:
    frame = cells().replace({"phase": {"1": "0"}}).assign(doubt=["?", "", "??"] * len(RATES))
    figure = phase_curve_figure(frame, weight_decay=0.5, config=CONFIG)
    assert figure.layout.xaxis.ticktext[0] == "0.2<br>0??"
    title = figure.layout.xaxis.title.text.replace("<br>", " ")
    assert "(0: not fitted, 2c: " in title
    made = phase_bubble_figure(frame, config=CONFIG).chart
    assert isinstance(made, Bubbles)
    assert [sizes[0] for sizes in made.sizes] == [0] * 3
    first = [row[0].split(" · ")[0] for row in made.hover]
    assert first == ["not fitted??", "not fitted", "not fitted?"]


def test_bubbles_leave_gaps() -> None:
    made = phase_bubble_figure(diverged(), config=CONFIG).chart
    assert made.gaps == [(1, 0), (2, 0)]


# --- all three -----------------------------------------------------------------------------------


def every_mark() -> pd.DataFrame:
    """Cells not fitted, in phase 2c, and with either question mark, at every weight decay."""
    marks = dict(zip(RATES, ("", "?", "??", "", ""), strict=True))
    frame = cells().replace({"phase": {"1": "0"}})
    return frame.assign(doubt=frame["init_rate"].map(marks))


SHAPES = {
    "usual": cells,
    "every mark": every_mark,
    "diverged": diverged,
    "paper": lambda: cells(tuple(round(0.2 + 0.05 * k, 2) for k in range(17)), DECAYS),
    "one cell": lambda: cells((0.5,), (0.1,)),
    "one row": lambda: cells(RATES, (0.1,)),
    "one column": lambda: cells((0.5,), DECAYS),
}


def test_titles_do_without_a_config() -> None:
    curve, chart, bubbles = (figure.chart for figure in figures(cells(), {}))
    assert curve.title.startswith("Model: ")
    assert chart.subheading.startswith("3 seeds · ")
    assert bubbles.subheading == "3 seeds"
    one = phase_map_figure(cells(), config={"n_layers": 1, "norm": "post"}).chart
    assert one.title == "1 layer, post-LN: accuracy on unseen pairs"


def test_a_grid_of_nothing_but_gaps_is_drawn_as_gaps() -> None:
    frame = cells().assign(phase="")
    frame[[name for name in frame if name.startswith(MEASURES)]] = NAN
    for make in (phase_map_figure, phase_bubble_figure):
        chart = make(frame, config=CONFIG).chart
        assert len(chart.gaps) == 15
        assert png_bytes(chart)[:4] == b"\x89PNG"
    with pytest.raises(InputError, match=r"nothing was measured at weight_decay=0.01; cells hold"):
        phase_curve_figure(frame, weight_decay=0.01, config=CONFIG)


def test_an_unknown_weight_decay_is_refused() -> None:
    with pytest.raises(InputError, match=r"weight_decay=0.02; cells hold 0.001, 0.01, 0.5"):
        phase_curve_figure(cells(), weight_decay=0.02, config=CONFIG)
