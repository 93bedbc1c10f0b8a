"""What the figures of studies that train over seeds have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from interp_compose.papers.shared.grid.shares import ALL
from interp_compose.plots.chart import Chart, Line, Panel, model_name, subtitle_of
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import styles_of
from interp_compose.studies.core.figures import Named, lines_of

RATE_AXIS: Final = "init rate γ (larger: smaller init)"
"""The title of an axis: weights begin with a standard deviation of d_in^(-γ)."""
LARGER_RATES: Final = "larger γ: smaller init"
"""The same in a subtitle, of a figure whose axis has no room for it."""
ALPHA: Final = 0.05


MEANS: Final = "mean over seeds"


BARS: Final = "mean over seeds, bars: smallest to largest"


APART: Final = 0.08
"""From one group's points to the next one's, of the distance between categories."""


MOST_KINDS: Final = 60
"""Kinds are drawn where there are at most so many, all of them together included."""


SPREAD: Final = ("mean", "smallest", "largest")


ACRONYMS: Final = re.compile(r"\b(carma|ft|lrf)\b")


def spelt(name: str) -> str:
    """A model or version as texts spell it: "LRF-relative" of "lrf-relative"."""
    return ACRONYMS.sub(lambda match: match[0].upper(), name)


def beside(groups: pd.Series) -> pd.Series:
    """How far each row's point is from the middle of its category, so that those of several
    groups are side by side; one for each name of a group, in their order."""
    names = list(dict.fromkeys(groups))
    return APART * (groups.map(names.index) - (len(names) - 1) / 2)


def seed_lines(named: Iterable[Named], x: str) -> list[Line]:
    """:func:`lines_of` rows of means over seeds, bars from the smallest to the largest."""
    return lines_of(named, x, *SPREAD, n="n_seeds", interval="bars")


def means_of_seeds(frame: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """The rows of :func:`seed_lines`: of each place, the mean of a value that each seed has."""
    grouped = frame.groupby([*by], sort=False, dropna=False)[value]
    return grouped.agg(mean="mean", smallest="min", largest="max", n_seeds="size").reset_index()


def by_value(frame: pd.DataFrame, column: str, among: pd.DataFrame | None = None) -> list[Named]:
    """Label, style and rows of each value of a column, in the order of the rows; ``among`` are the
    rows of all panels, in which a value has one style."""
    styles = styles_of((frame if among is None else among)[column])
    return [(spelt(one), style, frame[frame[column] == one]) for one, style in styles.items()]


def unjoined(named: Iterable[Named]) -> list[Named]:
    """Those of categories: points that no line joins."""
    return [(label, replace(style, width=0.0), rows) for label, style, rows in named]


def crossed(values: pd.Series) -> pd.DataFrame:
    """The last level of the index as columns, rising; rows in the order in which they come."""
    return values.unstack(sort=False).sort_index(axis="columns")


def curve_figure(
    curve: pd.DataFrame,
    by: str,
    config: Mapping[str, Any],
    notes: Sequence[str],
    *,
    value: str = "accuracy",
    name: str = "exact match",
    of: str = "measured on {} sequences of a split",
) -> ChartFigure:
    """Exact match, or another ``value``, on a sample of each split over training: a line for each
    value of ``by``, the mean over seeds; bands from the smallest seed to the largest."""
    means = means_of_seeds(curve, (by, "split", "step"), value)
    low, high = int(curve["n"].min()), int(curve["n"].max())
    seeds_note = of_several(config, "bands: all seeds")
    counts = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    steps = sorted(set(means["step"]))
    panels = [
        Panel(lines_of(by_value(rows, by, means), "step", *SPREAD, n="n_seeds"), [], str(split))
        for split, rows in means.groupby("split", sort=False)
    ]
    return draw(
        Chart(
            title=f"{config['task']}: {name} over training",
            subtitle=subtitle_of(*notes, of.format(counts), *seeds_note),
            x_title="step",
            y_title=name,
            y_is_share=value == "accuracy",
            panels=panels,
            x_name="step",
            x_ticks=[float(step) for step in steps[:: max(1, len(steps) // 4)]],
            x_step=float(steps[-1]) / max(config["n_looks"], 1),
        )
    )


def size_figure(
    summary: pd.DataFrame,
    config: Mapping[str, Any],
    *,
    by: str,
    title: str,
    x_title: str,
    y_title: str,
    y_is_share: bool,
) -> ChartFigure:
    """What came of each setting by size of the training set: the mean over seeds, bars from the
    smallest to the largest; a panel for each value of ``by``."""
    sizes = sorted(set(summary["size"]))
    placed = summary.assign(place=summary["size"].map(sizes.index).astype(float))
    panels = [
        Panel(seed_lines(by_value(rows, "setting"), "place"), [], str(value))
        for value, rows in placed.groupby(by, sort=False)
    ]
    return draw(
        Chart(
            title=f"{config['task']}: {title}",
            subtitle=subtitle_of(*about_decoders(config), *of_several(config, BARS)),
            x_title=x_title,
            y_title=y_title,
            y_is_share=y_is_share,
            panels=panels,
            categories=[f"{size:,}" for size in sizes],
        )
    )


def grid_figure(
    summary: pd.DataFrame,
    config: Mapping[str, Any],
    *,
    by: str,
    title: str,
    unit: str,
    y_is_share: bool,
) -> ChartFigure | None:
    """The mean over seeds at each init rate (from top to bottom) and weight decay, with the largest
    training set; a part for each value of ``by``. None where one of the two does not vary."""
    largest = summary[summary["size"] == summary["size"].max()]
    rates, decays = (
        sorted(largest[name].dropna().unique()) for name in ("init_rate", "weight_decay")
    )
    if min(len(rates), len(decays)) < 2:
        return None
    means = largest.pivot_table(index=[by, "init_rate"], columns="weight_decay", values="mean")
    parts = [(part, rate) for part in dict.fromkeys(largest[by]) for rate in rates]
    size = f"{int(largest['size'].iloc[0]):,} {unit}"
    return draw(
        HeatMap(
            title=f"{config['task']}: {title}",
            subtitle=subtitle_of(
                *about_decoders(config), size, *of_several(config, MEANS), LARGER_RATES
            ),
            x_title="weight decay",
            y_title=f"{by} and init rate γ" if any(part for part, _ in parts) else "init rate γ",
            columns=[f"{decay:g}" for decay in decays],
            rows=[f"{part}, γ {rate:g}" if part else f"{rate:g}" for part, rate in parts],
            values=means.reindex(index=parts, columns=decays).to_numpy().tolist(),
            value_name=title,
            limits=(0.0, 1.0) if y_is_share else None,
        )
    )


def kinds_figure(
    summary: pd.DataFrame,
    differences: pd.DataFrame,
    config: Mapping[str, Any],
    subtitle: str,
    *,
    by: str,
    named: Callable[[str], str] = str,
) -> ChartFigure:
    """The share of each kind of each split that is right, a column for each value of ``by``; marked
    where it differs from the first one (Holm, 5 %)."""
    of_kinds = summary[summary["kind"] != ALL]
    means = of_kinds.pivot_table("mean", ["split", "kind"], by, sort=False)
    rows, columns = means.index.tolist(), means.columns.tolist()
    significant = differences[(differences["kind"] != ALL) & (differences["p_holm"] < ALPHA)]
    marked = [
        (rows.index((row["split"], row["kind"])), columns.index(row[by]))
        for row in significant.to_dict("records")
    ]
    one_split = len({split for split, _ in rows}) == 1
    return draw(
        HeatMap(
            title=f"{config['task']}: sequences that are right, by type",
            subtitle=subtitle,
            x_title=by,
            y_title="type",
            columns=[named(column) for column in columns],
            rows=[
                readable(kind) if one_split else f"{split}: {readable(kind)}"
                for split, kind in rows
            ],
            values=means.to_numpy().tolist(),
            value_name="exact match",
            limits=(0.0, 1.0),
            marked=marked,
            mark_name=f"p (Holm) < {ALPHA:.0%} against {named(columns[0])}" if marked else "",
        )
    )


def readable(kind: str) -> str:
    """Like "unacc subj → unerg subj" of COGS' "only_seen_as_unacc_subj_as_unerg_subj"."""
    short = kind.removeprefix("only_seen_as_").replace("_as_", " → ").replace("_to_", " → ")
    return short.replace("_", " ")


def about_decoders(config: Mapping[str, Any]) -> tuple[str, str]:
    """Like ("2 layers, width 64", "5 seeds")."""
    shape = f"{config['n_layers']} layers, width {config['d_model']}"
    return f"{model_name(config)}, {shape}" if "model" in config else shape, n_seeds(config)


def n_seeds(config: Mapping[str, Any]) -> str:
    """Like "3 seeds"; of one, that its numbers have no spread."""
    count = len(config["seeds"])
    return f"{count} seeds" if count != 1 else "1 seed: no spread"


def of_several(config: Mapping[str, Any], *notes: str) -> tuple[str, ...]:
    """What a subtitle tells of means over seeds and of their spread; nothing of one seed, of which
    :func:`n_seeds` says that it has none."""
    return notes if len(config["seeds"]) > 1 else ()
