"""What CAT's paper prints (Huang et al. 2024, Tables 2, 3, 4, 7), beside what was measured here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from docs.measured import Table, read

Row = dict[str, Any]
OUTPUTS: Final = ("cont", "comp", "mix")
OTHERS: Final = ("BERT", "RoBERTa", "DistilBERT")


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


PRINTED: Final = (
    Printed(
        "2",
        "PAWS (SO)",
        (88.22, 89.06, 87.44, 89.05, 90.33, 89.32),
        "paws-swap",
        "ood, label 0",
        "accuracy",
    ),
    Printed("2", "BiRD", (19.50, 20.32, 17.49, 20.19, 34.44, 27.72), "bird", "all", "pearson"),
    Printed("2", "BiRD-ABBA", (1.64, 3.21, 1.03, 1.25, 7.19, 6.25), "bird", "mirror", "pearson"),
    *(
        Printed("3", name, values, task, subset, metric)
        for name, values, task, subset, metric in (
            (
                "IMDB",
                (79.82, 82.09, 78.64, 79.34, 77.81, 80.23),
                "imdb-sst2",
                "all",
                "accuracy",
            ),
            (
                "SST2",
                (76.61, 75.47, 75.07, 76.15, 78.56, 79.36),
                "imdb-sst2",
                "ood",
                "accuracy",
            ),
            (
                "STSB images",
                (80.94, 81.31, 80.43, 80.05, 78.31, 79.97),
                "stsb-images-msrvid",
                "all",
                "pearson",
            ),
            (
                "STSB MSRvid",
                (88.00, 88.04, 88.38, 88.81, 89.67, 89.13),
                "stsb-images-msrvid",
                "ood",
                "pearson",
            ),
            (
                "MNLI telephone",
                (74.87, 76.29, 73.14, 74.31, 73.36, 74.87),
                "mnli-telephone-letters",
                "all",
                "accuracy",
            ),
            (
                "MNLI letters",
                (72.79, 72.94, 70.03, 72.85, 73.08, 73.96),
                "mnli-telephone-letters",
                "ood",
                "accuracy",
            ),
            (
                "AMAZON music",
                (73.32, 74.30, 73.04, 73.98, 72.41, 73.88),
                "amazon-music-video",
                "all",
                "accuracy",
            ),
            (
                "AMAZON video",
                (65.16, 66.06, 64.58, 65.22, 67.32, 67.44),
                "amazon-music-video",
                "ood",
                "accuracy",
            ),
        )
    ),
    *(
        Printed("4", name, values, task, subset, metric)
        for name, values, task, subset, metric in (
            ("CoLA", (52.10, 61.60, 47.60, 60.18, 50.09, 60.28), "cola", "all", "matthews"),
            ("MNLI_m", (78.12, 80.12, 73.62, 75.28, 72.85, 74.28), "mnli", "all", "accuracy"),
            ("MNLI_mm", (78.41, 79.41, 74.61, 75.97, 74.40, 75.19), "mnli", "ood", "accuracy"),
            ("MRPC", (74.40, 75.70, 73.20, 74.95, 74.03, 74.93), "mrpc", "all", "f1"),
            ("QNLI", (85.45, 87.75, 82.85, 84.21, 81.19, 83.21), "qnli", "all", "accuracy"),
            ("QQP", (71.20, 77.90, 70.10, 76.19, 71.78, 76.23), "qqp", "all", "f1"),
            ("RTE", (64.62, 65.92, 55.22, 62.93, 60.68, 62.76), "rte", "all", "accuracy"),
            ("SST2", (94.50, 95.80, 93.10, 93.98, 93.44, 94.14), "sst-2", "all", "accuracy"),
            ("STSB", (85.80, 87.29, 83.70, 85.71, 82.85, 84.42), "sts-b", "all", "spearman"),
        )
    ),
    Printed("7", "IMDB, gain", (1.30, 0.85, 0.60, 1.91, 2.72, 1.77), "imdb-sst2", "all", "gain"),
    Printed("7", "SST2, gain", (1.80, 1.35, 0.66, 1.44, 1.38, 1.55), "sst", "all", "gain"),
)
"""Table 4's column "disc" is CAT's composed output. Table 7 is the mean gain in accuracy from a
fifth more of the training texts, over shares of 10, 30, 50, 70 and 90 %."""
FIFTH: Final = 0.2
SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)


def printed() -> Table:
    """What the paper prints."""
    heads = ["table", "row", *OTHERS, *(f"CAT {output}" for output in OUTPUTS)]
    rows = [[one.table, one.name, *(f"{value:.2f}" for value in one.values)] for one in PRINTED]
    return heads, rows


def beside(name: str, plain: str, composed: str) -> Table:
    """The paper's BERT and CAT beside two models of a result here, from their ``[CLS]`` vectors, in
    percent: what was measured alone; the mean, and the smallest and the largest seed.

    Args:
        name: of the result in ``benchmarks/results/``.
        plain: its model that is like the paper's BERT; where that is not there, a dash.
        composed: its model that is like CAT.
    """
    result = read(name)
    summary = [row for row in result["summary"] if row["embedding"] == "cls"]
    rows = []
    for one in PRINTED:
        apart = _apart(result["differences"], one, composed)
        for way, found in _measured(summary, one).items():
            ours = [found.get((plain, "cont")), *(found.get((composed, o)) for o in OUTPUTS)]
            if any(ours):
                theirs = (one.values[0], *one.values[3:])
                cells = [f"{value:.2f}" for value in theirs] + [own or "–" for own in ours]
                rows.append([one.table, one.name, way, *cells, apart.get(way, "–")])
    models = ("BERT", *(f"CAT {output}" for output in OUTPUTS))
    heads = [f"paper: {model}" for model in models]
    heads += [f"here: `{plain}`", *(f"here: `{composed}` {output}" for output in OUTPUTS)]
    return ["table", "row", "here", *heads, "comp − cont (p, Holm)"], rows


def _wanted(row: Row, one: Printed, metric: str) -> bool:
    return (row["task"], row["subset"], row["metric"]) == (one.task, one.subset, metric)


def _apart(differences: list[Row], one: Printed, composed: str) -> dict[str, str]:
    """Of each way of training, the composed vectors' difference to the contextual ones, paired by
    seed; of a gain none."""
    pair = (f"{composed} comp", f"{composed} cont")
    found = {}
    for row in differences:
        own = (row["reading"], row["other"], row["embedding"]) == (*pair, "cls")
        within = row.get("compared", "output") == "output" and row.get("share", 0) in (0, 1)
        if own and within and _wanted(row, one, one.metric):
            p = "–" if row["p_holm"] is None else f"{row['p_holm']:.3f}"
            found[_way(row)] = f"{100 * row['difference']:+.2f} ({p})"
    return found


def _measured(summary: list[Row], one: Printed) -> dict[str, dict[tuple[str, str], str]]:
    """Of each way of training, what was measured of each model and output."""
    metric = "accuracy" if one.metric == "gain" else one.metric
    found: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in summary:
        if _wanted(row, one, metric):
            way = found.setdefault(_way(row), {})
            way.setdefault((row["model"], row["output"]), []).append(row)
    if one.metric == "gain":
        gains = {
            way: {place: gain for place, rows in own.items() if (gain := _gain(rows))}
            for way, own in found.items()
        }
        return {way: own for way, own in gains.items() if own}
    whole = {
        way: {
            place: "{:.2f} ({:.2f}–{:.2f})".format(
                *(100 * row[end] for end in ("mean", "smallest", "largest"))
            )
            for place, rows in own.items()
            for row in rows
            if row.get("share", 0) in (0, 1)
        }
        for way, own in found.items()
    }
    return {way: own for way, own in whole.items() if own}


def _way(row: Row) -> str:
    """How the encoder was trained; a result from before there was a choice has cosines alone."""
    way = str(row.get("tuned", "no"))
    if way == "no":
        return "not tuned"
    other = row["trained_on"]
    return way if other == row["task"] else f"{way} on {other}"


def _gain(rows: list[Row]) -> str:
    """The mean gain from a fifth more of the training texts, over the paper's shares of them."""
    by_share = sorted((row["share"], row["mean"]) for row in rows if row["share"] in SHARES)
    if len(by_share) < 2:
        return ""
    (first, low), (last, high) = by_share[0], by_share[-1]
    return f"{100 * (high - low) * FIFTH / (last - first):.2f}"
