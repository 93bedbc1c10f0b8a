"""Tables of encoders that compose: ``encoders_*``, ``codes_*``, ``cat_pooled`` and costs."""

from __future__ import annotations

from statistics import fmean
from typing import Final

import pandas as pd

from docs import measured
from docs.measured import (
    RIGHT,
    Columns,
    Table,
    chosen,
    each,
    frame,
    listed,
    over,
    pivot,
    table,
    together,
)

DECIMALS: Final = "{mean:.3f} ({smallest:.3f}–{largest:.3f})"
"""Over seeds."""
BY: Final[Columns] = {"model": "{model}", "output": "{output}"}
SHOWN: Final = (
    ("pearson", "all", "cls"),
    ("pearson", "all", "mean"),
    ("pearson", "mirror", "cls"),
    ("pearson", "mirror", "mean"),
)
CLASSIFIED: Final = {
    "paws-qqp": (
        ("accuracy", "all", "cls"),
        ("accuracy", "label 0", "cls"),
        ("specificity", "same words", "cls"),
        ("balanced_accuracy", "same words", "cls"),
        ("auc", "same words", "cls"),
    ),
    "sst": (("accuracy", "all", "cls"), ("accuracy", "all", "mean")),
}
"""Metric, subset and embedding of the columns of a task, as far as a file has them."""


def scores(name: str) -> Table:
    """A row per model and output: Pearson's r with people's ratings, nothing tuned."""
    return _by_metric(name, "bird", SHOWN, "no")


def classified(name: str, task: str = "paws-qqp") -> Table:
    """A row per model and output: how often a classifier of the frozen vector is right."""
    return _by_metric(name, task, CLASSIFIED[task], "frozen")


def _by_metric(name: str, task: str, shown: tuple[tuple[str, str, str], ...], tuned: str) -> Table:
    rows = frame(name, "summary").query("task == @task and tuned == @tuned and share in (0, 1)")
    place = ["metric", "subset", "embedding"]
    columns = {"{metric}: {subset}, {embedding}": DECIMALS}
    return pivot(chosen(rows, place, shown), BY, place, columns)


TUNED: Final = (
    ("bird", "pearson", "all", "no", ", before"),
    ("bird", "pearson", "all", "end-to-end", ", after"),
    ("bird", "pearson", "mirror", "no", ", before"),
    ("bird", "pearson", "mirror", "end-to-end", ", after"),
    ("paws-qqp", "accuracy", "all", "end-to-end", ""),
    ("paws-qqp", "accuracy", "label 0", "end-to-end", ""),
)
"""Task, metric, subset, what was tuned, and when that is, of the columns of :func:`tuned`."""


def tuned(name: str) -> Table:
    """A row per model and output, by ``[CLS]``: Pearson's r with people's ratings before the
    encoder was trained end to end on PAWS-QQP and after it, and how often the classifier is right.
    """
    place = ["task", "metric", "subset", "tuned", "when"]
    rows = frame(name, "summary").query("embedding == 'cls'")
    shown = pd.DataFrame(TUNED, columns=place).merge(rows)
    return pivot(shown, BY, place, {"{metric}: {subset}{when}": DECIMALS})


def by_share(name: str, task: str, embedding: str = "mean") -> Table:
    """A row per model and output: accuracy of a classifier of the frozen vector, by the share of
    the training texts that it is trained on."""
    rows = frame(name, "summary").query(
        "task == @task and metric == 'accuracy' and subset == 'all' and embedding == @embedding "
        "and tuned == 'frozen'"
    )
    rows = rows.sort_values("share", kind="stable")
    return pivot(rows, BY, ["share"], {"{share:percent}": DECIMALS})


def learned(name: str) -> Table:
    """A row per model and output: masked words of held-out text, and codes of a word."""
    codes = frame(name, "codes").groupby("model")
    of_word = codes["codes_per_word"].agg(fewest="min", most="max")
    of_word = of_word.assign(n_codes=codes["n_codes"].first(), output="comp").reset_index()
    rows = frame(name, "held_out").query("measure == 'masked_accuracy'")
    columns: Columns = {
        **BY,
        "masked tokens that are right, % (seeds)": RIGHT,
        "codes a word": "{fewest:.0f}–{most:.0f} of {n_codes:,.0f}",
    }
    return table(rows.merge(of_word, on=["model", "output"], how="left"), columns)


def steps() -> Table:
    """A row per model: its step over the BERT's, at each shape, and its matrix products over the
    BERT's."""
    rows = [
        {"size": size, "model": model, **times, **of["shape"], "products": of["products"][model]}
        for size, of in measured.read("encoder_steps_cpu").items()
        if size in ("small", "paper")
        for model, times in of["over_bert"].items()
    ]
    columns: Columns = {
        "{size}: {n_layers} × {d_model}": "{median:.2f} ({range[0]:.2f}–{range[1]:.2f})",
        "products": "{products:.2f}",
    }
    return pivot(pd.DataFrame(rows), {"step, over the BERT's": "{model}"}, ["size"], columns)


def memory() -> Table:
    """A row per model: MiB that a step of the small shape holds."""
    rows = []
    for model, row in measured.read("encoder_memory_cpu")["small"]["models"].items():
        sizes = {
            "weights of the model": row["parameters"],
            "weights over codes": row["codes"],
            "kept by the forward pass": row["kept"],
        }
        for n, peak in row["peak"].items():
            sizes[f"peak, {n} parts" if int(n) > 1 else "peak, the batch at once"] = peak
        rows.append({"MiB": model} | {head: f"{n / 2**20:,.0f}" for head, n in sizes.items()})
    return listed(rows)


def named_sememes(name: str) -> Table:
    """A row per model, side of the annotated words and source: sememes that are named right."""
    columns: Columns = {
        "model": "{model}",
        "words": lambda row: row["side"].replace("_", " "),
        "named by": "{source}",
        "R-precision (seeds)": DECIMALS,
        "95 % over words": "{words_low:.3f}–{words_high:.3f}",
        "words read": "{n:,}",
    }
    return table(frame(name, "summary").query("measure == 'r_precision'"), columns)


def words_again(name: str, question: str) -> Table:
    """A row per model and block: areas under the ROC curve of a word's cosines, over seeds."""
    place = ["model", "layer"]
    rows = over(frame(name, "consistency").query("question == @question"), [*place, "vector"])
    codes, contextual = (rows[rows["vector"] == vector] for vector in ("codes", "cont"))
    columns: Columns = {
        "model": "{model}",
        "block": "{layer}",
        "codes (seeds)": "{auc:.3f}",
        "contextual": "{auc_cont:.3f}",
        "codes − contextual": "{over_cont:+.3f}",
        "words": "{n[0]:,}",
    }
    return table(codes.merge(contextual, on=place, suffixes=("", "_cont")), columns)


def words_of_phrases(name: str) -> Table:
    """A row per model and block: what a word in a phrase has of itself, and of the other, alone."""
    place = ["measure", "alone"]
    shown = [(measure, word) for measure in ("cosine", "jaccard", "cont") for word in WORDS]
    rows = chosen(frame(name, "inside_phrases"), place, shown)
    by = {"model": "{model}", "block": "{layer}"}
    return pivot(rows, by, place, {"{measure}: {alone}": DECIMALS})


WORDS: Final = ("itself", "other")


def shared_codes(name: str) -> Table:
    """A row per model and code: its sememe, and the heaviest words."""
    rows = frame(name, "words")
    rows["name"] = rows["sememe"].where(rows["sememe"] != "", rows["code"].astype(str))
    columns = {"model": "{model}", "code": "{name}", "heaviest words": each("word")}
    return table(over(rows, ["model", "name"]), columns)


def words_pooled(name: str, embedding: str) -> Table:
    """A row per model, output and subset of pairs: Pearson's r with people's ratings, clean
    and with words pooled by their mean at each layer, over seeds."""
    rows = frame(name, "means").query(
        "embedding == @embedding and pooling == 'mean' and measure in ('clean_pearson', 'pearson')"
    )
    rows["place"] = rows["layer"].astype(str).where(rows["measure"] == "pearson", "clean")
    rows = rows.drop_duplicates(["model", "output", "subset", "place"])  # clean: of every layer
    rows = rows.sort_values(["measure", "layer"], kind="stable")
    return pivot(rows, {**BY, "pairs": "{subset}"}, ["place"], {"{place}": DECIMALS})


def complexity(name: str) -> Table:
    """A row per matrix: over layers, the mean stable rank over a random matrix's of the shape, and
    the mean absolute cosine of two rows, by model."""
    rows = frame(name, "weights")
    ranks = rows.query("measure == 'stable_rank'")
    ranks = ranks.assign(mean=ranks["mean"] / ranks["random_stable_rank"])
    heads = {
        "stable rank over random": ranks,
        "condensation": rows.query("measure == 'mean_abs_cosine'"),
    }
    place = ["head", "model", "matrix"]
    values = over(pd.concat(part.assign(head=head) for head, part in heads.items()), place)
    values["value"] = values["mean"].map(fmean)
    by = {"matrix": "`{matrix}`"}
    columns = {"{head}: {model}": "{value:.3f}"}
    return pivot(together(values, "head", "model"), by, ["head", "model"], columns)


def toy_codes() -> Table:
    """A row per loss, of words that guided: what codes name, before the first step and after the
    last."""
    rows = frame("toy_codes", "runs")
    first = rows["setting"].iloc[0]  # all settings with RMSNorm begin alike
    before = rows[(rows["step"] == 0) & (rows["setting"] == first)]
    after = rows[rows["step"] > 0]
    shown = pd.concat([before.assign(setting="none (before training)"), after])
    columns: Columns = {
        "loss": "{setting}",
        "R-precision": "{r_precision:.3f}",
        "right codes with a weight, %": "{right_codes:.1points}",
        "words without any code, %": "{without_codes:.1points}",
        "codes a word": "{codes_per_word:.0f}",
    }
    return table(over(shown, ["setting"]), columns)


TOY_TEXT: Final = {
    "mini_codes": "300 steps, `--guided-positive 1`",
    "mini_codes_eq4": "300 steps, eq. 4 alone",
    "mini_codes_longer": "600 steps, `--lr 3e-3 --guided-positive 1`",
}
"""Trainings of ``cat-last`` on the toy text, by their file."""


def toy_text() -> Table:
    """A row per training and side of the annotated words, a column for what names their sememes:
    R-precision; and masked tokens that the model predicts."""
    parts = []
    for name, training in TOY_TEXT.items():
        held_out = frame(name, "held_out").query(
            "model == 'cat-last' and output == 'mix' and measure == 'masked_accuracy'"
        )
        rows = frame(name, "summary").query("measure == 'r_precision'")
        parts.append(rows.assign(training=training, masked=held_out["mean"].item()))
    by: Columns = {
        "training": "{training}",
        "masked tokens that are right, %": "{masked:.1points}",
        "words": lambda row: f"{row['side'].replace('_', ' ')} ({row['n']})",
    }
    return pivot(pd.concat(parts), by, ["source"], {"{source}": DECIMALS})


CAT_LOSSES = ("guided", "sparsity", "reconstruction", "sufficiency", "nuance")


def every_block() -> Table:
    """A row per setting, at an early look and after the last step: masked words that are right, and
    of each block how alike composed vectors are and how many codes a word has."""
    rows = []
    for run in measured.read("every_block")["runs"]:
        weights = {loss: run[loss] for loss in CAT_LOSSES}
        others = [f"{loss} {weight:g}" for loss, weight in weights.items() if weight != 1]
        losses = ", ".join(["all", *others]) if any(weights.values()) else "BERT's two"
        curve, codes = pd.DataFrame(run["curve"]), pd.DataFrame(run["codes"])
        looks = curve.iloc[[1, -1]].merge(codes, on="step")
        looks["block"] = looks.groupby("step").cumcount()
        rows.append(looks.assign(losses=losses, code_norm=run["code_norm"]))
    by: Columns = {
        "losses": "{losses}",
        "`--code-norm`": "{code_norm}",
        "step": "{step}",
        "masked tokens that are right, %": "{masked_accuracy:.1points}",
    }
    columns = {"block {block}": "{alike:.3f}, {codes_per_word:.0f}"}
    return pivot(pd.concat(rows), by, ["block"], columns)
