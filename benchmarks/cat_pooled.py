"""CAP on encoders that compose, at each of their outputs, and the complexity of their weights: run
``cat_pooled``.

The finished runs of ``interp-compose pretrain``: agreement with people on BiRD where words are
pooled at each layer, beside keeping one token of each word, pooling spans of the same sizes at
random places, and the clean model; and of every matrix, codebooks and modules of composition
included, stable rank and condensation. BiRD is read from ``INTERP_COMPOSE_TEST_DATA``.

Kept are means over seeds, with the smallest and the largest, by model, output and layer, and by
matrix; ``n_seeds`` are those in which the value exists (where all cosines are the same no
correlation does). The picture has Pearson's r, words pooled by their mean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, RESULTS, plain_rows
from interp_compose.papers.cat.studies.pretrain.finished import FinishedEncoder, finished_encoders
from interp_compose.papers.shared.grid.figures import by_value
from interp_compose.plots.chart import Chart, Level, Panel
from interp_compose.plots.interactive import draw as drawn
from interp_compose.studies.core.figures import lines_of

EMBEDDINGS: Final = {"cls": "[CLS]", "mean": "mean over tokens"}
MEASURES: Final = ["pearson", "spearman", "clean_pearson", "clean_spearman"]
OF_WEIGHTS: Final = ["stable_rank", "mean_abs_cosine"]
PLACE: Final = ["model", "output", "embedding", "subset", "pooling", "layer", "n", "n_affected"]
MATRIX: Final = [
    *("model", "layer", "matrix", "rows", "cols", "random_stable_rank", "random_abs_cosine"),
]


def pooled(one: FinishedEncoder, pairs: Sequence[ic.Pair]) -> pd.DataFrame:
    """Agreement by output, embedding, pooling and layer."""
    model, parts = one.model(), []
    for output in model.lens.outputs:
        for embedding in EMBEDDINGS:
            curve = ic.similarity_curve(
                model.with_output(output),
                pairs,
                unit="word",
                pooling="mean",
                embedding=embedding,
                task="bird",
                progress=False,
            )
            parts.append(curve.frame.assign(output=output, embedding=embedding))
    return pd.concat(parts).assign(model=one.run.model)


def complexity(one: FinishedEncoder) -> pd.DataFrame:
    """Stable rank and condensation of each matrix."""
    return ic.complexity_report(one.model(), progress=False).merged.assign(model=one.run.model)


def over_seeds(
    runs: Sequence[pd.DataFrame], place: Sequence[str], measures: Sequence[str]
) -> pd.DataFrame:
    """Mean, smallest and largest of each measure at each place, and in how many runs it exists."""
    long = pd.concat(runs).melt(list(place), list(measures), "measure")
    groups = long.groupby([*place, "measure"], sort=False, dropna=False)["value"]
    names = {"mean": "mean", "smallest": "min", "largest": "max", "n_seeds": "count"}
    means: pd.DataFrame = groups.agg(**names).reset_index()
    return means


def measured(folder: Path) -> dict[str, Any]:
    """Of every run."""
    encoders = finished_encoders(folder, None)
    bird = Path(os.environ["INTERP_COMPOSE_TEST_DATA"], "bird")
    pairs = ic.load_pairs("bird", data_dir=bird).test
    means = over_seeds([pooled(encoder, pairs) for encoder in encoders], PLACE, MEASURES)
    weights = over_seeds([complexity(encoder) for encoder in encoders], MATRIX, OF_WEIGHTS)
    config = asdict(encoders[0].run) | {"seeds": sorted({each.run.seed for each in encoders})}
    for name in ("data", "model", "seed", "start"):
        del config[name]
    shown = means[means["measure"] == "pearson"].pivot_table(
        index=["model", "output", "embedding", "subset", "pooling"], columns="layer", values="mean"
    )
    print(shown.round(3).to_string())
    tables = {"means": plain_rows(means), "weights": plain_rows(weights)}
    return {"config": config, "pairs": len(pairs), **tables}


def draw(name: str) -> None:
    """Pearson's r by layer, a panel for each embedding and a line for each output; across, r of
    the clean model."""
    kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    means, n_seeds = pd.DataFrame(kept["means"]), len(kept["config"]["seeds"])
    rows = means[(means["subset"] == "all") & (means["pooling"] == "mean")]
    rows = rows.assign(reading=rows["model"] + " " + rows["output"])
    curves, clean = (rows[rows["measure"] == measure] for measure in ("pearson", "clean_pearson"))
    panels = []
    for embedding, title in EMBEDDINGS.items():
        shown, clean_rows = (each[each["embedding"] == embedding] for each in (curves, clean))
        lines = lines_of(
            by_value(shown, "reading", curves), "layer", "mean", "smallest", "largest", n="n_seeds"
        )
        levels = [
            Level("", float(level["mean"].iloc[0]), replace(style, dash="dot"))
            for _, style, level in by_value(clean_rows, "reading", curves)
        ]
        panels.append(Panel(lines, levels, title))
    chart = Chart(
        title="BiRD: agreement with people where words are pooled at a layer",
        subtitle=(
            f"{n_seeds} seed{'s' * (n_seeds > 1)} · bands: smallest to largest seed · dotted: "
            "nothing pooled"
        ),
        x_title="layer",
        y_title="Pearson's r with people's ratings",
        y_is_share=False,
        panels=panels,
    )
    drawn(chart).save(IMAGES / f"{name}.png")
