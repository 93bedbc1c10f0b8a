"""Tables of decoders on tasks, from the files ``task_phases_*``, ``inside_*`` and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from benchmarks.sequence_outcomes import fit_loss, runs_of
from docs import measured
from docs.measured import (
    ABSENT,
    DIFFERENCE,
    RIGHT,
    Columns,
    Row as Row,
    Table,
    beside,
    cell,
    compared,
    frame,
    over,
    pivot,
    records,
    table,
    together,
)
from interp_compose.papers.complexity.grid.settings import with_settings

PLACE: Final = ("setting", "size", "split", "kind")
OF_SETTING: Final = {
    "{setting}: right, % (seeds)": RIGHT,
    "difference, 95 %": DIFFERENCE,
    "p (Holm)": "{p_holm:p}",
}
"""Columns of each setting; the first has no difference to the first."""


def overall(name: str) -> list[Row]:
    """What each setting gets right of each split, all kinds together, smaller training sets first:
    a size that was measured later stands behind in the file."""
    rows = [row for row in measured.read(name)["summary"] if row["kind"] == "all"]
    return sorted(rows, key=lambda row: row["size"])


def by_size(name: str) -> Table:
    """A row per split and size of the training set: what each setting gets right, and how far it is
    from the first."""
    rows = compared(name, PLACE).query("kind == 'all'").sort_values("size", kind="stable")
    by = {"split": "{split}", "training sequences": "{size:,}"}
    return pivot(together(rows, "split"), by, ["setting"], OF_SETTING)


def by_setting(name: str, split: str) -> Table:
    """A row per setting, with the largest training set: what is right of each split, and of one
    split how far that is from the first setting."""
    rows = _largest(compared(name, PLACE)).query("kind == 'all'")
    by = {"setting": "{setting}"}
    seeds = {"seeds": "{n_seeds}"} if rows["n_seeds"].nunique() > 1 else {}
    shares = pivot(rows, by | seeds, ["split"], {"{split}: right, % (seeds)": RIGHT})
    apart = {**by, f"{split}: difference, 95 %": DIFFERENCE, "p (Holm)": "{p_holm:p}"}
    return beside(shares, table(rows.query("split == @split"), apart))


def by_kind(name: str, split: str) -> Table:
    """A row per kind of a split, those that no setting gets right together in the last: what each
    setting gets right with the largest training set, and how far the second is from the first."""
    rows = _largest(compared(name, PLACE)).query("split == @split and kind != 'all'")
    rows["best"] = rows.groupby("kind")["largest"].transform("max")
    heads, cells = pivot(rows.query("best >= @NEVER"), {"type": "{kind}"}, ["setting"], OF_SETTING)
    never = rows.query("best < @NEVER")
    if len(never):
        shares = [f"< {100 * NEVER:g}"] * never["setting"].nunique()
        cells.append([", ".join(never["kind"].unique()), *shares, ABSENT, ABSENT])
    return heads, cells


NEVER: Final = 0.005
"""What every seed is below, of kinds that are not shown one by one."""


def _largest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the largest training set."""
    return rows[rows["size"] == rows["size"].max()]


def inside(name: str) -> Table:
    """A row per setting and size: how far the training data are fitted, the steps that takes, by
    tens where the file has them of all runs, and W_Q of the first layer; over seeds."""
    place = ["init_rate", "weight_decay", "size"]
    ends = frame(name, "curve_ends").query("split == 'train'")
    fitted = ends.groupby(place, dropna=False)["accuracy"].mean().rename("fitted").reset_index()
    found = measured.read(name)
    runs = over(runs_of(found), place)
    rows = with_settings(runs.merge(fitted, on=place))
    columns: Columns = {
        "setting": "{setting}",
        "training sequences": "{size:,}",
        "of training, %": "{fitted:.1points}",
        f"steps to a loss of {fit_loss(found['config']):g}": "{steps_to_fit:,.0f}",
        "stable rank of W_Q": "{stable_rank:.1f}",
        r"mean \|cos\|": "{mean_abs_cosine:.2f}",
    }
    return table(together(rows.sort_values("size", kind="stable"), "setting"), columns)


def perplexities(name: str) -> Table:
    """A row per setting and number of training tokens of a study of text."""
    place = ["setting", "size"]
    summary = compared(name, place)
    bits = summary.query("measure == 'bits_per_byte'").rename(columns={"mean": "bits"})
    rows = summary.query("measure == 'perplexity'").merge(bits[[*place, "bits"]], on=place)
    ranks = over(with_settings(frame(name, "runs")), place)[[*place, "stable_rank"]]
    columns: Columns = {
        "setting": "{setting}",
        "training tokens": "{size:,}",
        "perplexity (seeds)": "{mean:.2f} ({smallest:.2f}–{largest:.2f})",
        "bits a byte": "{bits:.3f}",
        f"nats a token, to {summary['setting'][0]}, 95 %": (
            "{difference:+.3f} ({ci_low:+.3f} to {ci_high:+.3f})"
        ),
        "p (Holm)": "{p_holm:p}",
        "stable rank of W_Q": "{stable_rank:.1f}",
    }
    return table(rows.merge(ranks, on=place), columns)


def failures(name: str) -> Table:
    """A row per init rate and small circle: how often a triangle is drawn."""
    columns: Columns = {
        "init rate": "{setting}",
        "node": "{node}",
        "triangles, % (95 %)": "{wrong:.1points} ({low:.1points} to {high:.1points})",
        "clear, %": "{clear:.1points}",
        "right, %": "{right:.1points}",
        "right of the training node that is worst, %": "{learned:.1points}",
        "the failure": "{verdict}",
    }
    return table(frame(name, "failure"), columns)


def drawn(name: str) -> Table:
    """A row per node: what is right at each init rate, mean over seeds and their range, and the
    means of shape, size and color alone."""
    summary = frame(name, "summary")
    parts = summary.pivot(index=["node", "setting"], columns="kind", values="mean")
    parts = parts[["shape", "size", "color"]].reset_index()
    rows = summary.query("kind == 'all'").merge(parts, on=["node", "setting"])
    by: Columns = {"node": "{node}", "trained": lambda row: "yes" if row["trained"] else "no"}
    right = f"{RIGHT}; {{shape:.1points}} / {{size:.1points}} / {{color:.1points}}"
    return pivot(rows, by, ["setting"], {"{setting}": right})


LABELS: Final = {
    "clean": "nothing changed",
    "phrases": "phrases pooled before block {layer:.0f}",
    "cut": "attention to the {part} excluded, where there is one",
    "cut, clean": "attention to the {part} kept, the same sequences",
    "head": "one head of block {layer:.0f} ablated, mean of its heads",
    "stable rank": "stable rank of W_Q, block {layer:.0f}",
}
"""What was done to the models, and what was measured of their weights, by the name in the file."""


def opened(name: str, split: str) -> Table:
    """A row for each intervention on the models of ``benchmarks.inside_tasks``, a column for each
    setting: sequences of a split that are right; then the stable rank of each layer's W_Q."""
    rows = frame(name, "runs")
    ranks = rows["what"] == "stable rank"
    rows.loc[~ranks, "value"] = 100 * rows["n_right"] / rows["n"]
    rows = with_settings(rows[ranks | (rows["what"].isin(LABELS) & (rows["split"] == split))])
    rows["label"] = [cell(LABELS[row["what"]], row) for row in records(rows)]
    rows["last"] = rows["what"] == "stable rank"
    place = ["last", "label", "init_rate", "weight_decay", "setting"]
    rows = rows.sort_values(place, kind="stable")
    of_seed = over(rows, [*place, "seed"])
    of_seed["value"] = of_seed["value"].map(_mean)  # over heads
    cells = over(of_seed, place)
    ends = {"mean": _mean, "smallest": min, "largest": max}
    cells = cells.assign(**{end: cells["value"].map(of) for end, of in ends.items()})
    columns = {"{setting}": "{mean:.1f} ({smallest:.1f}–{largest:.1f})"}
    return pivot(cells, {"": "{label}"}, ["setting"], columns)


def _mean(values: Sequence[float]) -> float:
    """Of counts in per cent, many of which are halfway between two numbers of one decimal: an exact
    sum would round some the other way than the page has them."""
    return sum(values) / len(values)
