"""Ablations: accuracy against the layer, and log-probability by unit and layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.plots.chart import (
    Chart,
    Level,
    Panel,
    chance_level,
    model_name,
    paired_note,
    short,
    side_by_side,
)
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import CLEAN_STYLE, COMPARISON_STYLES, INK
from interp_compose.studies.core.figures import share_lines
from interp_compose.studies.core.text import about, filtered_of

MINUS: Final = "\N{MINUS SIGN}"
CHANGE: Final = "change of the answer's log-probability"
NATS: Final = f"{CHANGE} (nats)"
REACH: Final = {"from": "layers ℓ and above", "at": "layer ℓ alone", "until": "layers 0 … ℓ"}
PARTS: Final = {
    "layers": "a block adds nothing",
    "attn": "attention adds nothing",
    "mlp": "the MLP adds nothing",
}
HEADS: Final = {
    "zero": "a head's output is set to zero",
    "mean": "a head's output is replaced by its mean",
    "resample": "a head's output is replaced by that at a random token",
}
MASKS: Final = {
    "exclude": "knocked out before the softmax",
    "zero": "knocked out after the softmax",
}
LINES: Final = tuple(style for style in COMPARISON_STYLES if style.colour != INK)
"""As many as can be told apart, and from the clean model's black level."""


def curve_figure(
    frame: pd.DataFrame, *, clean_accuracy: float, config: Mapping[str, Any]
) -> ChartFigure:
    """One curve per group of ``frame`` (layer, group, accuracy, n, n_cells, clean_accuracy;
    reference, the clean model's accuracy on the group's examples; low and high, of the paired
    difference to it); of many groups the first one and those with most cells."""
    names = _drawn(frame)
    n_left_out = frame["group"].nunique() - len(names)
    styles = dict(zip(names, LINES, strict=False))
    named = [(_label(name, frame), styles[name], frame[frame["group"] == name]) for name in names]
    lines = side_by_side(share_lines(named, "layer", "accuracy"), False)
    clean = Level(f"clean {clean_accuracy:.1%}", clean_accuracy, CLEAN_STYLE)
    chart = Chart(
        title=f"{model_name(config)}: accuracy when {_what(config)}",
        subtitle=_subtitle(
            config,
            _examples(frame),
            paired_note(lines, "clean", "example"),
            f"{n_left_out} rarer groups not drawn" if n_left_out else "",
        ),
        x_title=f"layer ℓ; {_verb(config)} in {REACH[config['reach']]}",
        y_title="accuracy",
        panels=[Panel(lines, [clean, *chance_level(config)])],
    )
    return draw(chart)


def example_figure(
    table: pd.DataFrame,
    prompt: str,
    answer: str,
    *,
    correct: bool,
    logprob: float,
    config: Mapping[str, Any],
) -> ChartFigure:
    """Units × layers of one example; ``table`` as from ``AblationCurve.changes``.

    ``correct`` and ``logprob`` (nats) are of the clean model.
    """
    return draw(
        HeatMap(
            title=f"{model_name(config)}, one example: {short(prompt, 50)} → "
            f"{answer.strip() or repr(answer)}",
            subtitle=_subtitle(
                config,
                f"clean: {logprob:.2f} nats, ".replace("-", MINUS)
                + ("right" if correct else "wrong"),
                f"{_verb(config)} in {REACH[config['reach']]}",
            ),
            x_title="layer ℓ",
            y_title="head" if config["what"] == "heads" else "",
            columns=[str(layer) for layer in table.columns],
            rows=[str(text) for text in table.index],
            values=table.to_numpy(float).tolist(),
            value_name=NATS,
            diverging=True,
        )
    )


def heads_figure(frame: pd.DataFrame, *, config: Mapping[str, Any]) -> ChartFigure:
    """Groups × layers, the mean over examples; dots where the interval does not hold 0."""
    names = list(dict.fromkeys(frame["group"]))
    change, low, high = (
        frame.pivot(index="group", columns="layer", values=f"logprob_change{end}").loc[names]
        for end in ("", "_low", "_high")
    )
    sure = ((low > 0) | (high < 0)).to_numpy()
    heads = config["what"] == "heads"
    return draw(
        HeatMap(
            title=f"{model_name(config)}: {CHANGE} when {_what(config)}",
            subtitle=_subtitle(config, f"mean over {_examples(frame)}"),
            x_title="layer" if heads else f"layer ℓ; {_verb(config)} in {REACH[config['reach']]}",
            y_title="head" if heads else "",
            columns=[str(layer) for layer in change.columns],
            rows=[str(name) for name in names],
            values=change.to_numpy(float).tolist(),
            value_name=NATS,
            diverging=True,
            marked=[(int(row), int(column)) for row, column in zip(*sure.nonzero(), strict=True)],
            mark_name="95 % interval excludes 0, uncorrected" if sure.any() else "",
        )
    )


def _examples(frame: pd.DataFrame) -> str:
    n = int(frame["n"].max())
    return f"{n} example{'s' if n > 1 else ''}"


def ablated(config: Mapping[str, Any]) -> str:
    """What is knocked out or ablated, and how, in few words."""
    if config["what"] == "words":
        return f"{config.get('unit') or 'word'}s {MASKS[config.get('mode') or 'exclude']}"
    return _what(config)


def _what(config: Mapping[str, Any]) -> str:
    """What is knocked out or ablated, and how, as a clause."""
    if config["what"] == "heads":
        return HEADS[config.get("how") or "zero"]
    if config["what"] != "words":
        return PARTS[config["what"]]
    return f"a {config.get('unit') or 'word'} is knocked out"


def _verb(config: Mapping[str, Any]) -> str:
    """Attention to words is knocked out, what heads and blocks write is ablated."""
    return "knocked out" if config["what"] == "words" else "ablated"


def _drawn(frame: pd.DataFrame) -> list[str]:
    """The groups that get a line, as many as can be told apart, in the frame's order."""
    cells = frame.drop_duplicates("group").set_index("group")["n_cells"]
    kept = {cells.index[0], *cells.iloc[1:].nlargest(len(LINES) - 1).index}
    return [name for name in cells.index if name in kept]


def _subtitle(config: Mapping[str, Any], *more: str) -> str:
    mask = MASKS.get(config.get("mode") or "", "") if config["what"] == "words" else ""
    return about(config, ("task",), filtered_of(config), mask, *more)


def _label(name: str, frame: pd.DataFrame) -> str:
    """A group's name; where not every example has such a word, also its clean accuracy."""
    row = frame[frame["group"] == name].iloc[0]
    if row["n"] == frame["n"].max():
        return name
    return f"{name}: {row['n']} ex., clean {row['clean_accuracy']:.0%}"
