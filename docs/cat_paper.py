"""What CAT's paper prints (Huang et al. 2024, Tables 2, 3, 4, 7), beside what was measured here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Final

import pandas as pd

from docs.measured import Columns, Row, Table, cell, frame, records, table

OUTPUTS: Final = ("cont", "comp", "mix")
MODELS: Final = ("BERT", "RoBERTa", "DistilBERT", "CAT cont", "CAT comp", "CAT mix")
"""The paper's models, in the order of :attr:`Printed.values`."""


@dataclass(frozen=True)
class Printed:
    """A row (or, in Tables 2 and 3, a column) of a table: percentages of BERT, RoBERTa, DistilBERT
    and CAT's three outputs; and where a result here has the same measure."""

    table: str
    name: str
    values: tuple[float, float, float, float, float, float]
    task: str
    subset: str
    metric: str


TABLES: Final = {
    "2": (
        ("PAWS (SO)", (88.22, 89.06, 87.44, 89.05, 90.33, 89.32),
         "paws-swap", "ood, label 0", "accuracy"),
        ("BiRD", (19.50, 20.32, 17.49, 20.19, 34.44, 27.72), "bird", "all", "pearson"),
        ("BiRD-ABBA", (1.64, 3.21, 1.03, 1.25, 7.19, 6.25), "bird", "mirror", "pearson"),
    ),
    "3": (
        ("IMDB", (79.82, 82.09, 78.64, 79.34, 77.81, 80.23), "imdb-sst2", "all", "accuracy"),
        ("SST2", (76.61, 75.47, 75.07, 76.15, 78.56, 79.36), "imdb-sst2", "ood", "accuracy"),
        ("STSB images", (80.94, 81.31, 80.43, 80.05, 78.31, 79.97),
         "stsb-images-msrvid", "all", "pearson"),
        ("STSB MSRvid", (88.00, 88.04, 88.38, 88.81, 89.67, 89.13),
         "stsb-images-msrvid", "ood", "pearson"),
        ("MNLI telephone", (74.87, 76.29, 73.14, 74.31, 73.36, 74.87),
         "mnli-telephone-letters", "all", "accuracy"),
        ("MNLI letters", (72.79, 72.94, 70.03, 72.85, 73.08, 73.96),
         "mnli-telephone-letters", "ood", "accuracy"),
        ("AMAZON music", (73.32, 74.30, 73.04, 73.98, 72.41, 73.88),
         "amazon-music-video", "all", "accuracy"),
        ("AMAZON video", (65.16, 66.06, 64.58, 65.22, 67.32, 67.44),
         "amazon-music-video", "ood", "accuracy"),
    ),
    "4": (
        ("CoLA", (52.10, 61.60, 47.60, 60.18, 50.09, 60.28), "cola", "all", "matthews"),
        ("MNLI_m", (78.12, 80.12, 73.62, 75.28, 72.85, 74.28), "mnli", "all", "accuracy"),
        ("MNLI_mm", (78.41, 79.41, 74.61, 75.97, 74.40, 75.19), "mnli", "ood", "accuracy"),
        ("MRPC", (74.40, 75.70, 73.20, 74.95, 74.03, 74.93), "mrpc", "all", "f1"),
        ("QNLI", (85.45, 87.75, 82.85, 84.21, 81.19, 83.21), "qnli", "all", "accuracy"),
        ("QQP", (71.20, 77.90, 70.10, 76.19, 71.78, 76.23), "qqp", "all", "f1"),
        ("RTE", (64.62, 65.92, 55.22, 62.93, 60.68, 62.76), "rte", "all", "accuracy"),
        ("SST2", (94.50, 95.80, 93.10, 93.98, 93.44, 94.14), "sst-2", "all", "accuracy"),
        ("STSB", (85.80, 87.29, 83.70, 85.71, 82.85, 84.42), "sts-b", "all", "spearman"),
    ),
    "7": (
        ("IMDB, gain", (1.30, 0.85, 0.60, 1.91, 2.72, 1.77), "imdb-sst2", "all", "gain"),
        ("SST2, gain", (1.80, 1.35, 0.66, 1.44, 1.38, 1.55), "sst", "all", "gain"),
    ),
}  # fmt: skip
PRINTED: Final = tuple(Printed(number, *row) for number, rows in TABLES.items() for row in rows)
"""Table 4's column "disc" is CAT's composed output. Table 7 is the mean gain in accuracy from a
fifth more of the training texts, over shares of 10, 30, 50, 70 and 90 %."""
FIFTH: Final = 0.2
SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
ROW: Final[Columns] = {"table": "{table}", "row": "{name}"}
MEASURE: Final = ["task", "subset", "metric", "way"]


def printed() -> Table:
    """What the paper prints."""
    values = {model: f"{{values[{i}]:.2f}}" for i, model in enumerate(MODELS)}
    return table(pd.DataFrame(map(asdict, PRINTED)), {**ROW, **values})


def glue() -> Table:
    """Heads and rows: CAT's outputs compared with BERT in Table 4, column by column, and on average
    over all columns and over those without the two on which both better outputs gain most."""
    columns = [row for row in PRINTED if row.table == "4"]
    most = ("CoLA", "QQP")
    rows = []
    for output in ("CAT cont", "CAT mix", "CAT comp"):
        i = MODELS.index(output)
        apart = {row.name: row.values[i] - row.values[MODELS.index("BERT")] for row in columns}
        others = [value for name, value in apart.items() if name not in most]
        counted = [sum(v > 0 for v in apart.values()), sum(v < 0 for v in apart.values())]
        means = (f"{fmean(values):+.2f}" for values in (apart.values(), others))
        rows.append([output, *map(str, counted), *means])
    return ["", "above BERT", "below", "mean difference", f"without {' and '.join(most)}"], rows


def beside(name: str, plain: str, composed: str) -> Table:
    """The paper's BERT and CAT beside two models of a result here, from their ``[CLS]`` vectors, in
    percent: what was measured alone; the mean, and the smallest and the largest seed.

    Args:
        name: of the result in ``benchmarks/results/``.
        plain: its model that is like the paper's BERT; where that is not there, a dash.
        composed: its model that is like CAT.
    """
    summary, differences = (
        _with_ways(frame(name, key).query("embedding == 'cls'"))
        for key in ("summary", "differences")
    )
    # One row for each measure that the paper has and each way of training, a column for each output
    whole = summary.query("share in (0, 1)")
    over_seeds = "{mean:.2points} ({smallest:.2points}–{largest:.2points})"
    whole = whole.assign(text=[cell(over_seeds, row) for row in records(whole)])
    ours = pd.concat([whole, _gains(summary)])
    ours["column"] = ours["output"].where(ours["model"] == composed, "plain")
    ours = ours.query("model == @composed or (model == @plain and output == 'cont')")
    texts = ours.pivot(index=MEASURE, columns="column", values="text")
    rows = pd.DataFrame(map(asdict, PRINTED)).merge(
        texts.reindex(columns=["plain", *OUTPUTS]).reset_index(), on=MEASURE[:3]
    )
    # Composed vectors' difference to contextual ones, paired by seed; of a gain there is none
    apart = differences.query(
        "reading == @composed + ' comp' and other == @composed + ' cont' "
        "and share in (0, 1) and (compared == 'output' or compared.isna())"  # none in earlier files
    )
    apart = apart.assign(apart=list(map(_apart, records(apart))))
    columns = {
        **ROW,
        "here": "{way}",
        **{f"paper: {MODELS[i]}": f"{{values[{i}]:.2f}}" for i in (0, 3, 4, 5)},
        f"here: `{plain}`": "{plain}",
        **{f"here: `{composed}` {output}": f"{{{output}}}" for output in OUTPUTS},
        "comp − cont (p, Holm)": "{apart}",
    }
    return table(rows.merge(apart[[*MEASURE, "apart"]], on=MEASURE, how="left"), columns)


def _apart(row: Row) -> str:
    return f"{100 * row['difference']:+.2f} ({cell('{p_holm:.3f}', row)})"


def _with_ways(rows: pd.DataFrame) -> pd.DataFrame:
    """With ``way``: how the encoder was trained, in the order of the rows."""
    ways = list(map(_way, records(rows)))
    return rows.assign(way=pd.Categorical(ways, list(dict.fromkeys(ways))))


def _way(row: Row) -> str:
    if row["tuned"] == "no":
        return "not tuned"
    same = row["trained_on"] == row["task"]
    return row["tuned"] if same else f"{row['tuned']} on {row['trained_on']}"


def _gains(summary: pd.DataFrame) -> pd.DataFrame:
    """The mean gain from a fifth more of the training texts, over the paper's shares of them."""
    rows = summary.query("metric == 'accuracy' and share in @SHARES").sort_values("share")
    groups = rows.groupby(["model", "output", "task", "subset", "way"], observed=True)
    ends = groups.agg(
        n=("share", "size"),
        **{f"{end}_share": ("share", end) for end in ("first", "last")},
        **{f"{end}_mean": ("mean", end) for end in ("first", "last")},
    )
    ends = ends.query("n > 1").reset_index()
    slopes = (ends["last_mean"] - ends["first_mean"]) / (ends["last_share"] - ends["first_share"])
    return ends.assign(metric="gain", text=[f"{100 * FIFTH * slope:.2f}" for slope in slopes])
