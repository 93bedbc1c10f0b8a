"""Figures of encoder–decoders from the inside; they take the tables of a
:class:`~interp_compose.papers.lrf.studies.fusion.result.Fusion`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from interp_compose.papers.lrf.grammar import LEXICAL
from interp_compose.papers.lrf.studies.fusion.tokens import STRUCTURE
from interp_compose.papers.lrf.studies.generalise.figures import mean_reads
from interp_compose.papers.shared.grid.figures import crossed, readable
from interp_compose.plots.chart import Chart, Level, Panel, subtitle_of
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import MUTED, dotted, styles_of
from interp_compose.stats.intervals import wilson_interval
from interp_compose.studies.core.figures import lines_of

Config = Mapping[str, Any]
LAYER_TITLE: Final = "layers of the stack below (0: the embeddings)"
PROBES: Final = {"word": "word, selectivity", "role": "role, selectivity"}
NOTHING: Final = "nothing"
CLEAN: Final = -1
"""Where a figure of cuts has the model as it is."""


def heads_figure(reads: pd.DataFrame, config: Config) -> ChartFigure:
    """What each head of fuse-attention reads, a mean over the tokens of the last split."""
    return _reads_figure(reads.assign(of=[f"head {i}" for i in reads["head"]]), "head", config)


def kinds_figure(reads: pd.DataFrame, config: Config) -> ChartFigure:
    """What tokens of each kind read, a mean over heads and the tokens of the last split."""
    return _reads_figure(reads.assign(of=reads["kind"]), "kind of token", config)


def _reads_figure(reads: pd.DataFrame, by: str, config: Config) -> ChartFigure:
    """Layers that read several; a row for each value of the column ``of``."""
    split = config["splits"][-1]
    layer = ["model", "stack", "layer"]
    rows = reads[reads["split"] == split]
    rows = rows[rows.groupby(layer)["earlier"].transform("nunique") > 1]
    means = crossed(mean_reads(rows, [*layer, "of", "earlier"]))
    return draw(
        HeatMap(
            title=f"{_task(config)}what fuse-attention reads, by {by}",
            subtitle=_subtitle(config, f"{split}: mean over tokens"),
            x_title="earlier layer's output",
            y_title=f"layer and {by}",
            columns=_outputs([int(one) for one in means.columns]),
            rows=[f"{model} {stack} {number}, {of}" for model, stack, number, of in means.index],
            values=means.to_numpy().tolist(),
            value_name="attention weight",
            limits=(0.0, 1.0),
        )
    )


def cuts_figure(cuts: pd.DataFrame, config: Config) -> ChartFigure:
    """Exact match on the last split with an earlier layer's output knocked out of
    fuse-attention."""
    split = config["splits"][-1]
    rows = cuts[cuts["split"] == split]
    place = ["model", "stack", "layers"]
    clean = rows.drop_duplicates(place).assign(earlier=CLEAN, n_right=lambda rows: rows["n_clean"])
    all_rows = pd.concat([clean, rows])
    shares = all_rows.assign(share=all_rows["n_right"] / all_rows["n"])
    values = crossed(shares.set_index([*place, "earlier"])["share"])
    return draw(
        HeatMap(
            title=f"{_task(config)}exact match without an earlier layer in fuse-attention",
            subtitle=_subtitle(config, f"{split}: {rows['n'].max()} sequences"),
            x_title="output that is knocked out",
            y_title="layers of which",
            columns=[NOTHING, *_outputs([int(one) for one in values.columns[1:]])],
            rows=[f"{model} {stack} {layers}" for model, stack, layers in values.index],
            values=values.to_numpy().tolist(),
            value_name="exact match",
            limits=(0.0, 1.0),
        )
    )


def probes_figure(probes: pd.DataFrame, config: Config) -> ChartFigure:
    """The selectivity of probes, by the residual of each stack: accuracy less that of a probe on
    random labels."""
    rows = probes.assign(selectivity=probes["accuracy"] - probes["control"])
    panels = []
    for stack, own in rows.groupby("stack", sort=False):
        panels += [
            Panel(_lines(probe_rows, "selectivity"), [], title=f"{stack}: {title}")
            for probe, title in PROBES.items()
            if (probe_rows := own[own["probe"] == probe])["selectivity"].notna().any()
        ]
        roles = own[own["probe"] == "role"].dropna(subset=["accuracy"])
        if len(roles):
            common = Level("", roles["majority"].iloc[0], dotted(MUTED))
            title = f"{stack}: role, accuracy"
            panels.append(Panel(_lines(roles, "accuracy"), [common], title=title))
    return _chart(
        f"{_task(config)}what linear probes read from each stack",
        "selectivity: accuracy less that on random labels · dotted: the commonest role",
        "selectivity, accuracy",
        panels,
        config,
    )


def entanglement_figure(entanglement: pd.DataFrame, config: Config) -> ChartFigure:
    """How much better a probe of one label is with the tested values of the other among those that
    it was fitted on, by the residual of each stack."""
    rows = entanglement.assign(entangled=entanglement["within"] - entanglement["across"])
    titles = {"role": "role across words", "word": "word across roles"}
    panels = [
        Panel(_lines(own, "entangled"), [], title=f"{stack}: {titles[str(probe)]}")
        for (stack, probe), own in rows.groupby(["stack", "probe"], sort=False)
    ]
    return _chart(
        f"{_task(config)}entanglement of words and roles",
        "0: a label is read as well of values of the other that the probe was not fitted on",
        "accuracy within less across",
        panels,
        config,
    )


def forgetting_figure(read_back: pd.DataFrame, probes: pd.DataFrame, config: Config) -> ChartFigure:
    """How well the embeddings are read back, by the residual of each stack, and the word."""
    panels = []
    for stack, own in read_back.groupby("stack", sort=False):
        words = probes[(probes["probe"] == "word") & (probes["stack"] == stack)]
        panels.append(Panel(_lines(own, "r2"), [], title=f"{stack}: embeddings, R²"))
        if words["accuracy"].notna().any():
            panels.append(Panel(_lines(words, "accuracy"), [], title=f"{stack}: word, accuracy"))
    return _chart(
        f"{_task(config)}what layers keep of the embeddings",
        "linear maps, on sentences that they were not fitted on",
        "R², accuracy",
        panels,
        config,
    )


def cap_figure(cap: pd.DataFrame, config: Config) -> ChartFigure:
    """Exact match on the last split with phrases of the source pooled before a layer, a panel for
    each unit; dashed the same with shuffled phrases, dotted the model as it is."""
    split = config["splits"][-1]
    part = cap[cap["split"] == split]
    low, high = wilson_interval(part["n_right"].to_numpy(), part["n"].to_numpy())
    part = part.assign(share=part["n_right"] / part["n"], low=low, high=high)
    panels, styles = [], styles_of(part["model"])
    for unit, rows in part.groupby("unit", sort=False):
        named = [
            (label, style, rows[(rows["model"] == model) & (rows["spans"] == spans)])
            for model, plain in styles.items()
            for spans, label, style in (
                ("phrases", model, plain),
                (
                    "shuffled",
                    f"{model}, shuffled (control)",
                    replace(plain, dash="dash", width=1.4),
                ),
            )
        ]
        levels = [
            Level("", row["n_clean"] / row["n"], dotted(styles[row["model"]].colour))
            for row in rows.drop_duplicates("model").to_dict("records")
        ]
        lines = lines_of(named, "layer", "share", "low", "high", interval="bars")
        panels.append(Panel(lines, levels, title=f"{unit}, {rows['n'].max()} sequences"))
    return draw(
        Chart(
            title=f"{_task(config)}exact match when phrases of the source are pooled",
            subtitle=_subtitle(config, split, "bars: 95 % intervals", "dotted: the clean model"),
            x_title="encoder layer before which they are pooled (0: the embeddings)",
            y_title="exact match",
            panels=panels,
        )
    )


def tokens_figure(tokens: pd.DataFrame, config: Config) -> ChartFigure:
    """How many sequences of the last split have all tokens of a kind right, by type."""
    split = config["splits"][-1]
    rows = tokens[tokens["split"] == split]
    rows = rows.assign(share=rows["n_whole"] / rows["n_pairs"])
    shares = rows.set_index(["type", "model", "kind"])["share"].unstack("kind", sort=False)
    shares = pd.concat([rows for _, rows in shares.groupby("type", sort=False)])
    kinds = [kind for kind in shares.columns if kind != STRUCTURE]
    shares = shares[[STRUCTURE, *sorted(kinds, key=lambda kind: shares[kind].mean())]]
    lexical = ", ".join(kind for kind in LEXICAL if kind in kinds)
    return draw(
        HeatMap(
            title=f"{_task(config)}which tokens of the target are right",
            subtitle=_subtitle(config, f"{split}, given the tokens before"),
            x_title=f"kind of token ({STRUCTURE}: all but {lexical})",
            y_title="type and model" if any(one for one, _ in shares.index) else "model",
            columns=shares.columns.tolist(),
            rows=[f"{readable(one)}, {model}" if one else model for one, model in shares.index],
            values=shares.to_numpy().tolist(),
            value_name="sequences with all right",
            limits=(0.0, 1.0),
        )
    )


def _chart(
    title: str, note: str, y_title: str, panels: Sequence[Panel], config: Config
) -> ChartFigure:
    return draw(
        Chart(
            title=title,
            subtitle=_subtitle(config, note),
            x_title=LAYER_TITLE,
            y_title=y_title,
            panels=panels,
            y_is_share=False,
        )
    )


def _lines(rows: pd.DataFrame, y: str) -> list[Any]:
    """A line for each model, over the layers, without intervals."""
    styles = styles_of(rows["model"])
    named = [(model, style, rows[rows["model"] == model]) for model, style in styles.items()]
    return lines_of(named, "layer", y, y, y)


def _outputs(earlier: Sequence[int]) -> list[str]:
    """Names of what fuse-attention reads."""
    return ["embeddings" if one == 0 else f"layer {one - 1}" for one in earlier]


def _task(config: Config) -> str:
    """Like "SCAN: "; nothing of a task without a grammar here."""
    return "" if config["grammar"] == "none" else f"{config['grammar'].upper()}: "


def _subtitle(config: Config, *notes: str) -> str:
    """Like "2 + 2 layers, width 64 · seed 0 · …"."""
    layers = f"{config['n_encoder_layers']} + {config['n_decoder_layers']} layers"
    return subtitle_of(f"{layers}, width {config['d_model']}", f"seed {config['seed']}", *notes)
